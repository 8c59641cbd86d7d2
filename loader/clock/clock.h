/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * This host's fabric clock: the results of probes to its neighbors, and the time by them. mesh/
 * decides which hosts are neighbors, and drives the clock.
 */
#ifndef ESC_CLOCK_CLOCK_H
#define ESC_CLOCK_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clocksync/anchor.h"
#include "clocksync/edge.h"
#include "clocksync/hostclock.h"
#include "fleet/fleet.h"
#include "maps/maps.h"
#include "probe/probe.h"

#define CLOCK_PLANES 2
#define CLOCK_EDGES_MAX 96 /* of all planes; graph.c gives a member 48 at most */
/* A view that has not changed for longer is of a daemon that is gone. */
#define CLOCK_VIEW_FRESH_NS 1500000000ll

struct clock; /* needs: dataplane */

/* Between a NIC of ours and one of another host. */
struct clock_edge_config {
	enum fleet_plane plane;
	uint64_t id; /* of the host */
	const char *host;
	const char *part;      /* what tells its events from those of the host's other NICs */
	unsigned int port;     /* of our NIC: index into `ports` */
	const char *interface; /* and its name */
	uint32_t nic;	       /* theirs: esc_nic_number() */
};

/*
 * A NIC pair, by what its probes and replies contained. Times are of the local clock, 0: none.
 * mesh/ keeps `sending`, `down`, `restarts` and what expires in `losses`; all else is written here.
 */
struct clock_edge {
	size_t slot;
	uint64_t id;
	char host[256];
	char part[96];
	enum fleet_plane plane;
	unsigned int port;
	uint32_t nic;
	size_t place; /* of the host in the consensus, for all its NICs; CLOCK_PLACE_NONE */
	struct sender_edge *sending; /* NULL: no socket */
	bool down;		     /* it is probed less often */
	bool restarts;		     /* its programs reply, and its daemon has ended */
	int64_t pair_interval_ns;    /* in force */

	uint64_t epoch; /* of this run of the peer */
	int64_t begun_local_ns;
	struct edge fit;
	bool one_sided; /* the peer's own probes do not arrive: its replies stand for them */
	struct edge_estimate known; /* the last valid one: a fit over a pause is of both times */
	int64_t early_ns[2]; /* by it, the newest probe of each side arrived before it was sent */

	bool view_known;
	struct clock_view view;
	int64_t view_local_ns;	     /* when it arrived */
	int64_t view_fresh_ns;	     /* when its generation last changed */
	struct anchor_report anchor; /* as last received */

	uint64_t requests, replies; /* received */
	int64_t request_local_ns;   /* of the newest */
	int64_t reply_local_ns;
	int64_t confirmed_local_ns; /* the newest time at which the peer received us, by its words
				     */
	struct passages out, in;    /* own requests that were replied to; the peer's requests */
	struct passages back;	    /* the replies: one for each of `out` */
	struct losses losses;

	/* By the last round: our clock's error by this edge alone. */
	bool error_known;
	double error_ns;
	enum clock_use { CLOCK_USE, CLOCK_USE_NIC_DIFFERS, CLOCK_USE_EDGE_DIFFERS } use;
};
#define CLOCK_PLACE_NONE SIZE_MAX

/* --- for mesh/ --- */

/* The number of this run of the daemon: above that of every run before. */
uint64_t clock_epoch(const struct clock *clock);
/* The map `fleet`; view and anchor in it are written here, the rest by mesh/. */
struct esc_fleet *clock_fleet(const struct clock *clock);
/* The local clock, as the kernel programs read it, at CLOCK_MONOTONIC @monotonic_ns. */
int64_t clock_local_at(const struct clock *clock, uint64_t monotonic_ns);
/*
 * CLOCK_MONOTONIC, of the last few seconds, in fabric time with its bound. False: that is not
 * known.
 */
bool clock_read_at(const struct clock *clock, uint64_t monotonic_ns, int64_t *fabric_ns,
		   int64_t *bound_ns);
const struct hostclock *clock_host(const struct clock *clock);
/* Rounds since the start. */
uint64_t clock_rounds(const struct clock *clock);

/* In the lowest free slot; NULL: none is free, or no memory. */
struct clock_edge *clock_add_edge(struct clock *clock, const struct clock_edge_config *config);
/* Frees it; nothing sends for it any more. */
void clock_remove_edge(struct clock *clock, struct clock_edge *edge);
/* Its host is refused, and has no other edge. */
bool clock_edge_is_last_refused(const struct clock *clock, const struct clock_edge *edge);
/*
 * How far the timestamps of the NIC of ours in that slot of `ports` are from those of the others.
 * False: not known.
 */
bool clock_nic_offset(const struct clock *clock, unsigned int port, double *offset_ns,
		      bool *differs);
/* What the delays of an edge may be wrong by besides the bound: timestamps that differ. */
int64_t clock_edge_excess_ns(const struct clock_edge *edge);
/*
 * After edges, the configuration or the members changed. @on: some plane probes. @pairs: as many
 * edges as would be probed each mesh.pair_interval within the budget. @plan: borrowed until the
 * next call; NULL: there are no members.
 */
void clock_configure(struct clock *clock, const struct fleet_plan *plan, bool on,
		     unsigned int pairs);

struct clock_listener {
	/* In a round, after the fit of @edge and before the consensus. */
	void (*fitted)(void *context, struct clock_edge *edge, int64_t local_ns);
	/* A reply to a query about a peer arrived, from any member. */
	void (*query_replied)(void *context, const struct esc_probe_event *event);
	/* With each probe of the host of @edge: its esc_probe_view.nic_report; 0: none. */
	void (*reported)(void *context, struct clock_edge *edge, uint8_t report, int64_t local_ns);
};
/* One; NULL: not any more. */
void clock_listen(struct clock *clock, const struct clock_listener *listener, void *context);

/* What our views have in esc_probe_view.nic_report from now on. */
void clock_set_report(struct clock *clock, uint8_t report);
/* Reads the ring buffer of probes into the edges. */
void clock_read_records(struct clock *clock);
/* A round each HOSTCLOCK_ROUND_NS: fits, consensus, and the model to all its readers. */
void clock_tick(struct clock *clock, uint64_t now_ns);

/* --- what is known --- */

struct clock_facts {
	enum clock_state state;
	bool known; /* there is a model: all below */
	struct clock_model model;
	int64_t local_ns, fabric_ns, bound_ns; /* at one instant, now */
	int64_t monotonic_ns;
	double residual_ns;
	unsigned int used, reachable, degree; /* neighbors */
	double reach;			      /* part of the members that keep this time, 0..1 */
	int64_t last_used_age_ns;	      /* since a neighbor was used; -1: never */
	uint64_t slews;			      /* changes of the local clock's rate */
	const char *tai_note; /* why TAI is not measured here though it should; NULL: nothing */
	bool tai_known;	      /* an anchor is received, or is here: */
	int64_t tai_ns, tai_bound_ns, tai_age_ns; /* at the same instant */
	unsigned int tai_hops;
	const char *tai_anchor;	 /* host; "" not a member any more */
	const char *tai_anchors; /* hosts that TAI is accepted from; NULL: any member */
};
void clock_get(const struct clock *clock, struct clock_facts *out);

#endif
