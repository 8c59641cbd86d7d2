/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the mesh share. */
#ifndef ESC_MESH_INTERNAL_H
#define ESC_MESH_INTERNAL_H

#include "base/fields.h"
#include "clock/clock.h"
#include "clocksync/graph.h"
#include "core/core.h"
#include "mesh.h"
#include "probe/probe.h"

_Static_assert(MESH_PEERS_MAX == CLOCK_EDGES_MAX, "a peer for each edge");

#define MESH_TICK_NS 10000000	/* the ring is read */
#define MESH_STATE_NS 100000000 /* the states of the peers are evaluated */
/* Evaluations after which a request is lost: 1 s and one more. */
#define MESH_HORIZON 11
#define MESH_QUERIES_MAX 5

/* The hosts that were queried about a peer that fell silent, and what they replied. */
struct mesh_inquiry {
	bool open;
	uint64_t begun_ns;
	unsigned int asked, answered, hearing;
	uint64_t ids[MESH_QUERIES_MAX];
	bool has_answered[MESH_QUERIES_MAX];
	bool asked_elsewhere, heard_elsewhere; /* the peer itself, on the other plane */
};

#define MESH_PORTS_GOOD 4

/* Which of the fabric's paths the probes to a peer take, by their source port. */
struct mesh_path {
	uint16_t port;			/* drawn; 0: the pair's own */
	uint16_t good[MESH_PORTS_GOOD]; /* that were clean, the latest first; 0: none */
	unsigned int full, clean;	/* rounds in a row */
	unsigned int next_good, tries;	/* since it was clean */
	uint64_t next_ns;		/* not before that */
};

struct mesh_peer {
	struct clock_edge *edge; /* id, host, plane, and what came of its probes */
	struct esc_address address;
	uint16_t source_port;
	struct mesh_path path;
	int open_error;			     /* with edge->sending NULL */
	uint64_t failed_reported;	     /* failures when they were last reported */
	uint64_t sent_before, failed_before; /* by sockets that are closed */

	/* As shown by `peers`, each MESH_STATE_NS; CLOCK_MONOTONIC. */
	enum peer_state state;
	uint64_t since_ns; /* the peer is there */
	uint64_t heard_ns; /* its newest probe or reply; 0: never */
	uint64_t replied_ns;
	uint64_t down_ns;
	uint64_t disconnects;
	bool absent_reported;
	bool unanswered; /* heard, but our own requests are not replied to */
	struct mesh_inquiry inquiry;
	const char *blame;

	uint64_t replies_map, replies_base; /* received by XDP: now, and when none was read */
	bool replies_known;
	uint64_t lost;			/* never decreases */
	uint32_t horizon[MESH_HORIZON]; /* sequence at the last evaluations */
	unsigned int horizon_next;
};

struct mesh_plane {
	enum fleet_plane plane;
	bool configured; /* an interface is of it */
	bool on;
	char interface[16];
	unsigned int ifindex;
	uint16_t probe_port;
	char note[256];
	struct roster roster;
	struct graph graph;
	bool has_address[ROSTER_FAMILIES]; /* of ours on the interface */
};

struct mesh {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct sender *sender;
	struct core_timer *timer;
	int peers_fd, addresses_fd; /* maps */
	uint64_t peers_refused;	    /* members without room in the map */
	uint64_t addresses_refused; /* addresses */
	struct mesh_plane planes[MESH_PLANES];
	struct mesh_peer *peers[MESH_PEERS_MAX]; /* by the slot of their edge; a hole is NULL */
	uint32_t sequence;			 /* above every number used in this run */
	uint64_t state_due_ns, retry_due_ns;
	bool paused; /* the kill switch is on */
	struct fleet_subscriber members;
	void (*resume)(void *context); /* NULL: none */
	void *resume_context;
	void (*add)(void *context, json_t *peers); /* NULL: none */
	void *add_context;
};

/* All peers; the body may remove its own. */
#define for_each_peer(mesh, peer)                                                                  \
	for (size_t slot_ = 0; slot_ < MESH_PEERS_MAX; slot_++)                                    \
		if (!((peer) = (mesh)->peers[slot_]))                                              \
			continue;                                                                  \
		else

#define MESH_EVENTS(X)                                                                             \
	X(MESH_PEER_DOWN, "peer_down", WARNING,                                                    \
	  "Nothing was received from a peer for mesh.down_after.")                                 \
	X(MESH_PEER_UP, "peer_up", NOTICE, "Probes or replies of that peer arrive again.")         \
	X(MESH_PEER_ABSENT, "peer_absent", WARNING,                                                \
	  "Nothing was ever received from a peer, for 10 s.")                                      \
	X(MESH_PEER_PATH_CHANGED, "peer_path_changed", INFO,                                       \
	  "Probes to a peer have another source port: their path was full.")                       \
	X(MESH_MEMBERS_JOINED, "members_joined", NOTICE, "Hosts joined the mesh of a plane.")      \
	X(MESH_MEMBERS_LEFT, "members_left", NOTICE, "Hosts left the mesh of a plane.")            \
	X(MESH_MEMBERS_RELOADED, "members_reloaded", NOTICE, "Another member list is in force.")   \
	X(MESH_MEMBERS_REFUSED, "members_refused", WARNING,                                        \
	  "A member list was refused; the old one stays in force.")
enum { MESH_EVENTS(EVENT_ENUM) };
extern const struct event_kind mesh_events[];

#define MESH_METRICS(X)                                                                            \
	X(MESH_PROBING, "probing", GAUGE, "1 while the mesh of a plane is probed.")                \
	X(MESH_AUTHORITY, "probe_authority", GAUGE, "1 when probes are tagged with a fleet key.")  \
	X(MESH_UP, "peer_up", GAUGE, "0 when a peer is down, else 1.")                             \
	X(MESH_LAST_RECEIVED, "peer_last_received_timestamp_seconds", GAUGE,                       \
	  "When a probe or reply of a peer was last received.")                                    \
	X(MESH_SENT, "probe_sent_total", COUNTER, "Requests sent to a peer.")                      \
	X(MESH_REPLIED, "probe_replied_total", COUNTER, "Requests that the peer replied to.")      \
	X(MESH_RECEIVED, "probe_received_total", COUNTER, "Requests of the peer that arrived.")    \
	X(MESH_LOST, "probe_lost_total", COUNTER, "Requests without a reply after a second.")      \
	X(MESH_LATE, "probe_late_total", COUNTER, "Replies that came after a second.")             \
	X(MESH_REORDERED, "probe_reordered_total", COUNTER, "Replies received after a later one.") \
	X(MESH_FAILED, "probe_failed_total", COUNTER, "Requests that the kernel did not send.")    \
	X(MESH_DOWN_TRANSITIONS, "peer_down_transitions_total", COUNTER,                           \
	  "Times that a peer went down.")                                                          \
	X(MESH_OWD_FLOOR, "probe_owd_floor_seconds", GAUGE,                                        \
	  "Minimum one-way delay of probes in the last window.")                                   \
	X(MESH_OWD_P50, "probe_owd_p50_seconds", GAUGE,                                            \
	  "Median one-way delay of probes in the last window.")                                    \
	X(MESH_OWD_P99, "probe_owd_p99_seconds", GAUGE, "99th percentile of the same.")            \
	X(MESH_OWD_MAX, "probe_owd_max_seconds", GAUGE, "Maximum of the same.")                    \
	X(MESH_OWD_BOUND, "probe_owd_error_bound_seconds", GAUGE,                                  \
	  "Error bound of one-way delays of this peer.")                                           \
	X(MESH_RTT_MIN, "probe_rtt_min_seconds", GAUGE,                                            \
	  "Minimum round-trip time of probes in the last window, without the time that the peer "  \
	  "took to reply.")                                                                        \
	X(MESH_RTT_P50, "probe_rtt_p50_seconds", GAUGE, "Median of the same.")                     \
	X(MESH_RTT_P99, "probe_rtt_p99_seconds", GAUGE, "99th percentile of the same.")            \
	X(MESH_RTT_MAX, "probe_rtt_max_seconds", GAUGE, "Maximum of the same.")
extern const struct metric mesh_metrics[];

/* An event of @kind, an enumerator of MESH_EVENTS; takes @seen over, which may be NULL. */
void mesh_report(const struct mesh *mesh, unsigned int kind, const char *subject, json_t *seen);

/* mesh.c: all planes, then the clock, by the configuration and the members in force */
void mesh_apply(struct mesh *mesh);

/* plane.c */
void mesh_apply_planes(struct mesh *mesh);
void mesh_free_planes(struct mesh *mesh);
struct mesh_peer *mesh_find_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id);
unsigned int mesh_count_peers(const struct mesh *mesh, enum fleet_plane plane);
/* -EAFNOSUPPORT: the two have no address family in common. */
int mesh_route(const struct mesh_plane *plane, const struct roster_member *member,
	       struct probe_route *route);
/* Another source port for the probes to a peer; its numbers go on. 0 or -errno, then as it was. */
int mesh_move_peer(struct mesh *mesh, struct mesh_peer *peer, uint16_t port);

/* path.c: after the fit of the peer's edge */
void mesh_check_path(struct mesh *mesh, struct mesh_peer *peer, int64_t local_ns);

/* map.c */
/* The fleet's keys, our id and whether we reply. */
void mesh_write_fleet(struct mesh *mesh);
/* Members that are gone leave `peers`, new ones come; the others are left as they are. */
void mesh_write_peers(struct mesh *mesh, const struct mesh_plane *plane);
int mesh_read_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id,
		   struct esc_peer *out);

/* The host of each address, by the members; those that are gone leave `peer_addresses`. */
void mesh_write_addresses(struct mesh *mesh);

/* state.c */
void mesh_evaluate_peers(struct mesh *mesh, uint64_t now_ns);
void mesh_set_state(struct mesh_peer *peer, enum peer_state state);

/* blame.c */
void mesh_inquire(struct mesh *mesh, struct mesh_peer *peer, uint64_t now_ns);
void mesh_take_query_reply(void *mesh, const struct esc_probe_event *event);
/* "pair", "peer", "nic", "own_nic", or NULL. */
const char *mesh_blame(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns);
/* Peers of a plane that have been silent for half of down_after. */
unsigned int mesh_count_silent(const struct mesh *mesh, enum fleet_plane plane, uint64_t now_ns);

/* reply.c */
json_t *mesh_peer_json(const struct mesh_peer_facts *peer);
void mesh_put_status(void *self, json_t *status);
extern const struct verb_handler mesh_verb_handlers[];

/* metrics.c */
extern const struct field mesh_peer_fields[];
void mesh_peers_metrics(FILE *out, const struct mesh_peer_facts *peers, size_t count);
void mesh_write_metrics(void *self, FILE *out);

#endif
