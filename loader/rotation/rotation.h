/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rotating probes: each NIC of this host in turn measures every NIC of its rack, and the host its
 * part of all pairs of racks, by a schedule that all hosts make of the member list and fabric time.
 */
#ifndef ESC_ROTATION_ROTATION_H
#define ESC_ROTATION_ROTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "maps/maps.h"

struct rotation; /* needs: dataplane, clock, mesh, qp, paths */

/* One measurement of the direction to an address. */
struct rotation_out_facts {
	struct quantiles owd;
	int64_t bound_ns;
	uint64_t age_ns;
	uint16_t source_port; /* of the newest probe */
};
/* The newest one. False: none is kept, or it had no reply with a one-way delay. */
bool rotation_get_out(const struct rotation *rotation, const struct esc_path_key *key,
		      struct rotation_out_facts *out);

#endif
