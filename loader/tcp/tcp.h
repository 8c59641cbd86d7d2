/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP at the edge, the daemon's part: which cgroup, whether delays are only seen
 * or connections limited too, and what is said of it. Nothing is loaded while it is off.
 */
#ifndef ESC_LOADER_TCPPACE_H
#define ESC_LOADER_TCPPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/tcp.h"

struct config;
struct daemon;
struct tcppace;

int tcppace_new(struct tcppace **out, struct daemon *daemon, char **error);
/* New connections have no option any more, limits end by themselves within 2 s. NULL is fine. */
void tcppace_free(struct tcppace *tcp);
/* @old: the configuration before a reload. What did not change there stays as it is. */
void tcppace_reconfigure(struct tcppace *tcp, const struct config *old);
/*
 * "off", "measure" or "on", of the configured cgroup. -errno with *@error. Where the kernel takes
 * no wrapper, on is measure: a window that is clamped without one would stay so when nobody is left
 * to lift it.
 */
int tcppace_set(struct tcppace *tcp, const char *mode, const char *by, char **error);
/* Classes were changed at run time. NULL is fine. */
void tcppace_retake_classes(struct tcppace *tcp);
/* The kill switch. */
void tcppace_stop(struct tcppace *tcp, const char *by);

/* The key `tcp` of the answer to `pace`. */
json_t *tcppace_show(const struct tcppace *tcp);

struct tcppace_facts {
	bool there;	/* loaded */
	bool can_limit; /* the kernel takes a wrapper at least */
	enum esc_tcp_mode mode;
	struct esc_tcp_counts counts;
	unsigned int class_count;
	const char *class_names[ESC_TCP_CLASSES];
	struct esc_tcp_class_counts classes[ESC_TCP_CLASSES];
	uint32_t thresholds_ns[ESC_TCP_CLASSES];
	uint64_t delays[ESC_OWD_BUCKETS]; /* of data that came in */
};
void tcppace_get(const struct tcppace *tcp, struct tcppace_facts *out);

const char *tcppace_mode_name(enum esc_tcp_mode mode);

#endif
