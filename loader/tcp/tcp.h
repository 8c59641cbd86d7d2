/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP pacing by one-way delay: of which cgroup, and whether it measures or limits. */
#ifndef ESC_LOADER_TCP_H
#define ESC_LOADER_TCP_H

#include <stdint.h>

#include "maps/tcp.h"

struct capability;
struct config;
struct config_section;

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
extern const char *const tcp_modes[]; /* by enum esc_tcp_mode */
const struct tcp_keys *tcp_keys(const struct config *config);

#endif
