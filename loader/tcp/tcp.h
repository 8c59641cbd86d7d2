/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP at the edge, the daemon's part: which cgroup, whether delays are only seen
 * or connections limited too, and what is said of it. Nothing is loaded while it is off.
 */
#ifndef ESC_LOADER_TCP_H
#define ESC_LOADER_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/tcp.h"

struct capability;
struct config;
struct config_section;
struct tcp;

/*
 * needs: dataplane, clock, pace. When it is closed new connections have no option any more, limits
 * end within 2 s. `pace tcp MODE` is off, measure or on, of the configured cgroup. Where the kernel
 * takes no wrapper, on is measure: a window that is clamped without one would stay so when nothing
 * is left to lift it.
 */
extern const struct capability tcp_capability;

/* The section `pace.tcp` of the configuration. */
struct tcp_keys {
	enum esc_tcp_mode mode;
	char *cgroup; /* NULL: none given */
	uint64_t threshold_ns;
};
extern const struct config_section tcp_section;
const struct tcp_keys *tcp_keys(const struct config *config);

struct tcp_class_facts {
	char name[16];
	uint64_t weight, threshold_ns, samples, above;
};
struct tcp_facts {
	bool there;	/* loaded, and read: all below */
	bool can_limit; /* the kernel takes a wrapper at least */
	struct esc_tcp_counts counts;
	unsigned int class_count;
	struct tcp_class_facts classes[ESC_TCP_CLASSES];
	uint64_t delays[ESC_OWD_BUCKETS]; /* of data that came in */
};
void tcp_get(const struct tcp *tcp, struct tcp_facts *out);

#endif
