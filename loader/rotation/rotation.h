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
#include "fleet/fleet.h"
#include "maps/maps.h"
#include "paths/paths.h"

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

/* --- for a run of all pairs (pairs/), which measures in its place --- */

/* An address of ours on an interface where probes can be sent. */
struct rotation_own {
	struct esc_address address;
	char interface[16];
	enum fleet_plane plane;
	uint16_t probe_port;
	double bps; /* of the interface, bit/s; 0: it reports none */
};
/* Reads them; where another program holds RTNL, those read before stay. -EAGAIN: there are none. */
int rotation_read_own(struct rotation *rotation);
/* NULL: it is not ours, or nothing can be sent there. Valid until they are read again. */
const struct rotation_own *rotation_own(const struct rotation *rotation,
					const struct esc_address *address);
/*
 * Measures nothing more, and gives @fn the records of replies to path requests of no candidate,
 * until it is called with NULL. One borrower.
 */
void rotation_lend(struct rotation *rotation, paths_record_fn *fn, void *context);

/*
 * Rounds of a tournament by the circle method; pure. Who meets @i of @count in @round: each meets
 * every other one once in rotation_cycle() rounds, one in a round. ROTATION_NONE: none.
 */
#define ROTATION_NONE UINT32_MAX
uint32_t rotation_partner(uint32_t count, uint64_t round, uint32_t i);
/* Rounds until all have met; 0: there is none to meet. */
uint64_t rotation_cycle(uint32_t count);

#endif
