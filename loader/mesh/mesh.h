/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The probe mesh and this host's fabric clock: who is probed, what came back,
 * what time it is. Runs in the daemon's loop; only sending has its own thread.
 */
#ifndef ESC_LOADER_MESH_H
#define ESC_LOADER_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clocksync/edge.h"
#include "clocksync/hostclock.h"
#include "config/config.h"
#include "maps/maps.h"
#include "probe/probe.h"

#define MESH_PLANES 2
#define MESH_EDGES_MAX 96 /* of all planes; graph.c gives a member 48 at most */

struct daemon;
struct mesh;

/* Registers timers with daemon->event. Without members it does nothing, and says so. */
int mesh_new(struct mesh **out, struct daemon *daemon, char **error);
void mesh_free(struct mesh *mesh);

/* After a reload: all from daemon->config. */
void mesh_reconfigure(struct mesh *mesh);
/*
 * @resume is called when the kill switch has ended, before this host replies to probes again.
 * NULL: not any more.
 */
void mesh_on_resume(struct mesh *mesh, void (*resume)(void *context), void *context);
/* Once a second: the members file, interfaces that came and went, the kill switch. */
void mesh_look(struct mesh *mesh);

/* --- what is known, for the verbs and the metrics --- */

enum peer_state { PEER_DOWN, PEER_SUSPECT, PEER_UP };
const char *peer_state_name(enum peer_state state);

struct mesh_plane_facts {
	bool configured; /* there is an interface of this plane */
	bool on;	 /* it probes */
	char interface[16];
	char note[256]; /* why it does not, or what is missing; "" nothing */
	size_t members;
};

struct mesh_facts {
	bool authority; /* probes are tagged with a key */
	bool two_keys;	/* a second one is taken too */
	struct mesh_plane_facts planes[MESH_PLANES];
};
void mesh_get(const struct mesh *mesh, struct mesh_facts *out);

struct mesh_clock_facts {
	enum clock_state state;
	bool known; /* there is a model: all below */
	struct clock_model model;
	int64_t local_ns, fabric_ns, bound_ns; /* at one instant, now */
	int64_t monotonic_ns;
	double residual_ns;
	unsigned int used, heard, degree;
	double reach;		  /* part of the members that keep this time, 0..1 */
	int64_t last_used_age_ns; /* since a neighbour was followed; -1: never */
	uint64_t rounds, moves;
	bool one_sided;	      /* some edge is measured by our own probes alone */
	const char *tai_note; /* why TAI is not measured here though it should; NULL: nothing */
	bool tai_known;	      /* an anchor is heard, or is here: */
	int64_t tai_ns, tai_bound_ns, tai_age_ns; /* at the same instant */
	unsigned int tai_hops;
	const char *tai_anchor; /* host; "" not a member any more */
};
void mesh_get_clock(const struct mesh *mesh, struct mesh_clock_facts *out);

struct mesh_peer_facts {
	char host[256];
	enum fleet_plane plane;
	char interface[16];
	struct esc_address address;
	uint16_t source_port;
	enum peer_state state;
	const char *blame; /* NULL: not down, or nobody can tell */
	char note[160];	   /* "" nothing to say */
	bool heard;	   /* ever: */
	uint64_t silent_ns;
	uint64_t sent, answered, lost, late, reordered, received, failed;
	uint64_t disconnects;
	int64_t pair_interval_ns;
	struct quantiles rtt, owd_out, owd_in;
	int64_t owd_bound_ns; /* with owd_*.samples */
	bool one_sided;	      /* owd_in is of replies: the peer's own probes do not come */
	bool fitted;
	struct edge_estimate fit;
	bool in_clock; /* has a place in the consensus: */
	enum consensus_verdict verdict;
	double word_ns, word_ppb; /* its word for our clock's error */
};
/* Peers by plane and host; valid until the mesh changes. Returns how many of @max. */
size_t mesh_get_peers(const struct mesh *mesh, struct mesh_peer_facts *out, size_t max);

/* The way out to an address, as probes of the last @window_ns saw it. */
struct mesh_out_facts {
	enum peer_state state;
	uint16_t source_port;
	struct quantiles owd;
	int64_t bound_ns; /* with owd.samples */
};
/* False: it is no address that is probed. */
bool mesh_get_out(const struct mesh *mesh, const struct esc_address *address, int64_t window_ns,
		  struct mesh_out_facts *out);
/* What one way to it takes when nothing waits, as good fits showed it; NAN: not known. */
double mesh_get_floor(const struct mesh *mesh, const struct esc_address *address);

#endif
