/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The probe mesh: which hosts are probed on which plane, and the state of each, up, suspect or
 * down. It drives the clock, which is below it.
 */
#ifndef ESC_MESH_MESH_H
#define ESC_MESH_MESH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delayhist.h"
#include "fleet/fleet.h"
#include "maps/maps.h"

#define MESH_PLANES 2
#define MESH_PEERS_MAX 96 /* of all planes */

struct mesh; /* needs: dataplane, clock */

/*
 * @resume is called when the kill switch has ended, before this host replies to probes again.
 * NULL: not any more.
 */
void mesh_on_resume(struct mesh *mesh, void (*resume)(void *context), void *context);
/* @add adds members to the peers in the reply to `peers`. NULL: not any more. */
void mesh_on_reply(struct mesh *mesh, void (*add)(void *context, json_t *peers), void *context);

/* --- what is known --- */

enum peer_state { PEER_DOWN, PEER_SUSPECT, PEER_UP };
const char *peer_state_name(enum peer_state state);

/* A NIC pair. */
struct mesh_peer_facts {
	char host[256];
	enum fleet_plane plane;
	enum fleet_edge_kind edge;
	char interface[16];
	struct esc_address address;
	char rail[64], peer_rail[64]; /* by the members file; "" no label */
	uint16_t source_port;
	enum peer_state state;
	const char *blame; /* NULL: up, or not known; of a suspect peer "restart" only */
	char note[160];	   /* "" nothing to report */
	bool no_replies;   /* its probes arrive, but it does not reply to ours */
	bool seen;	   /* something of it was received, ever: */
	uint64_t silent_ns;
	uint64_t sent, replied, lost, late, reordered, received, failed;
	uint64_t disconnects;
	int64_t pair_interval_ns;
	struct quantiles rtt, owd_out, owd_in;
	int64_t rtt_floor_ns; /* the least of 15 to 20 s; 0: not known */
	int64_t owd_bound_ns; /* 0: no samples */
};
/* Peers by plane, host and NICs, malloc'd; NULL: no memory. */
struct mesh_peer_facts *mesh_get_peers(const struct mesh *mesh, size_t *count);

/* The direction to an address, as measured by probes of the last @window_ns. */
struct mesh_out_facts {
	enum peer_state state;
	uint16_t source_port;
	struct quantiles owd;
	int64_t bound_ns; /* with owd.samples */
	uint64_t age_ns;  /* of the newest reply, when there was one */
};
/* False: it is no address that is probed. */
bool mesh_get_out(const struct mesh *mesh, const struct esc_address *address, int64_t window_ns,
		  struct mesh_out_facts *out);
/* One-way delay to it when nothing is queued, by good fits; NAN: not known. */
double mesh_get_floor(const struct mesh *mesh, const struct esc_address *address);

#endif
