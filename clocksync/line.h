/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric time as a line over local time, and its wire format in probes. */
#ifndef ESC_CLOCKSYNC_LINE_H
#define ESC_CLOCKSYNC_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "clocksync/ns.h"

/* fabric(local) = fabric_ns + fraction_ns + (local - local_ns) * (1 + rate_ppb * 1e-9) */
struct clock_line {
	int64_t local_ns;
	int64_t fabric_ns;
	double fraction_ns;
	double rate_ppb;
};

#define CLOCK_REACH_ONE 65535

/* The state of a host's clock in every probe: integers only, for the wire. */
struct clock_view {
	int64_t ref_local_ns;
	int64_t ref_fabric_ns;
	int64_t rate_q40;      /* 2^-40 */
	uint32_t ref_fraction; /* 2^-32 ns */
	uint32_t bound_ns;     /* at ref_local_ns */
	uint32_t generation;
	uint16_t reach; /* part of the members that it is synced with, in 1/CLOCK_REACH_ONE */
	uint8_t state;	/* enum clock_state; CLOCK_FREE_RUNNING: nothing above is valid */
	uint8_t reserved;
};
_Static_assert(sizeof(struct clock_view) == 40, "struct clock_view has a fixed size");

/*
 * Fabric time at @local_ns: whole nanoseconds returned, the rest in
 * *@fraction_ns (any small double, not reduced).
 */
static inline int64_t clock_line_at(const struct clock_line *line, int64_t local_ns,
				    double *fraction_ns)
{
	int64_t delta = ns_sub(local_ns, line->local_ns);

	*fraction_ns = line->fraction_ns + (double)delta * line->rate_ppb * 1e-9;
	return ns_add(line->fabric_ns, delta);
}

/* How far @a is ahead of @b at @local_ns, in ns. */
static inline double clock_line_gap(const struct clock_line *a, const struct clock_line *b,
				    int64_t local_ns)
{
	double fa, fb;
	int64_t na = clock_line_at(a, local_ns, &fa);
	int64_t nb = clock_line_at(b, local_ns, &fb);

	return (double)ns_sub(na, nb) + (fa - fb);
}

/* The same line, relative to @local_ns and moved by @offset_ns. */
struct clock_line clock_line_move(const struct clock_line *line, int64_t local_ns,
				  double offset_ns);

void clock_view_put(struct clock_view *view, const struct clock_line *line);
/* False: the view has no time, or a rate out of range. */
bool clock_view_get(const struct clock_view *view, struct clock_line *line);

#endif
