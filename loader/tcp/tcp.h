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
struct tcp;

/*
 * needs: dataplane, mesh, pace. When it is closed new connections have no option any more, limits
 * end within 2 s. `pace tcp MODE` is off, measure or on, of the configured cgroup. Where the kernel
 * takes no wrapper, on is measure: a window that is clamped without one would stay so when nothing
 * is left to lift it.
 */
extern const struct capability tcp_capability;

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
