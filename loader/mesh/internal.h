/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files mesh_*.c share. Nobody else includes it. */
#ifndef ESC_LOADER_MESH_PARTS_H
#define ESC_LOADER_MESH_PARTS_H

#include "clocksync/anchor.h"
#include "clocksync/graph.h"
#include "probe/probe.h"
#include "mesh.h"
#include "fleet/fleet.h"

#define MESH_TURN_NS 10000000	/* the ring is read */
#define MESH_STATE_NS 100000000 /* who is heard */
#define MESH_HORIZON 11		/* turns of that after which a request is lost: 1 s and one more */
#define MESH_VIEW_ROUNDS_NS                                                                        \
	1500000000 /* a view that says the same for longer is of a dead daemon */
#define MESH_ASKED_MAX 5

/* Who was asked about a peer that fell silent, and what they said. */
struct mesh_inquiry {
	bool open;
	uint64_t begun_ns;
	unsigned int asked, answered, hearing;
	uint64_t ids[MESH_ASKED_MAX];
	bool has_answered[MESH_ASKED_MAX];
	bool asked_elsewhere, heard_elsewhere; /* the peer itself, on the other plane */
};

#define MESH_PORTS_GOOD 4

/* Which of the fabric's paths the edge's probes take, by their source port. */
struct mesh_path {
	uint16_t port;			/* drawn; 0: the pair's own */
	uint16_t good[MESH_PORTS_GOOD]; /* that were clean, the latest first; 0: none */
	unsigned int full, clean;	/* rounds in a row */
	unsigned int next_good, tries;	/* since it was clean */
	uint64_t next_ns;		/* not before that */
};

struct mesh_edge {
	uint64_t id;
	char host[256];
	enum fleet_plane plane;
	struct esc_address address;
	uint16_t source_port;
	struct mesh_path path;
	struct sender_edge *sending; /* NULL: no socket, see open_error */
	int open_error;
	uint64_t told_failed;		     /* failures when they were last told of */
	uint64_t sent_before, failed_before; /* by sockets that are closed */

	/* As told by `peers`, each 100 ms; CLOCK_MONOTONIC. */
	enum peer_state state;
	uint64_t since_ns; /* the edge is there */
	uint64_t heard_ns; /* 0: never */
	uint64_t replied_ns;
	uint64_t down_ns;
	uint64_t disconnects;
	bool absent_told;
	bool unanswered; /* heard, but our own requests are not answered */
	struct mesh_inquiry inquiry;
	const char *blame;

	/* From the ring. */
	uint64_t epoch; /* the peer's */
	struct edge edge;
	struct clock_view view;
	bool view_known;
	struct anchor_word anchor;  /* as last heard */
	int64_t view_local_ns;	    /* when it came */
	int64_t view_fresh_ns;	    /* when its generation last changed */
	uint64_t requests, replies; /* heard */
	int64_t request_local_ns;   /* of the newest; 0: none */
	int64_t reply_local_ns;
	int64_t begun_local_ns; /* of this run of the peer */
	bool one_sided;
	struct passages out, in; /* our requests that were answered, the peer's requests */
	struct passages back;	 /* the replies: one for each of `out` */
	struct losses losses;
	uint64_t replies_map, replies_base; /* heard by XDP: now, and when `replies` was 0 */
	bool replies_known;
	uint64_t lost;			/* never goes back */
	uint32_t horizon[MESH_HORIZON]; /* sequence at the last turns */
	unsigned int horizon_next;
	int64_t pair_interval_ns;

	/* In the consensus. */
	int64_t refused_since_ns;
	bool refused_told, liar_told;
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

struct mesh_anchor {
	struct anchor_meter meter;
	struct anchor_word measured; /* our own */
	struct anchor_word word;     /* what we show and say */
	int64_t due_local_ns;
	uint64_t moves;	  /* of the consensus: another fabric time since */
	const char *note; /* why we do not measure though we should; NULL: nothing */
	bool told;
	uint32_t told_id;
};

struct mesh_maps {
	int peers_fd, addresses_fd, probes_fd;
	uint64_t addresses_refused; /* without room in the map */
	struct esc_fleet *fleet;    /* mapped */
	struct esc_clock *clock;
};

struct ring_buffer;
struct sd_event_source;
struct clockpage;

struct mesh {
	struct daemon *daemon;
	struct mesh_maps maps;
	struct ring_buffer *ring;
	struct sender *sender;
	struct sd_event_source *timer;
	struct clockpage *page;
	struct mesh_plane planes[MESH_PLANES];
	struct mesh_edge *edges[MESH_EDGES_MAX]; /* a hole is NULL; the index is its slot */
	uint64_t epoch;
	uint32_t sequence; /* above every number used in this run */
	int64_t lab_offset_ns, lab_drift_ppb;
	uint64_t state_due_ns, round_due_ns, retry_due_ns;
	bool paused;
	void (*resume)(void *context); /* NULL: none */
	void *resume_context;
	uint64_t peers_refused; /* members without room in the map */

	struct hostclock clock;
	bool clock_runs;
	bool model_taken; /* from the daemon before us */
	uint64_t rounds;
	enum clock_state told_state;
	struct edge_scratch scratch;
	struct mesh_anchor anchor;

	struct fleet_subscriber members;
};

uint64_t mesh_monotonic_ns(void);
/* This host's local clock, as the kernel programs read it. */
int64_t mesh_local_ns(const struct mesh *mesh, uint64_t monotonic_ns);

/* mesh_plane.c */
void mesh_planes_apply(struct mesh *mesh);
void mesh_planes_free(struct mesh *mesh);
struct mesh_edge *mesh_find_edge(const struct mesh *mesh, enum fleet_plane plane, uint64_t id);
unsigned int mesh_plane_edges(const struct mesh *mesh, enum fleet_plane plane);
/* -EAFNOSUPPORT: the two have no address family in common. */
int mesh_route(const struct mesh_plane *plane, const struct roster_member *member,
	       struct probe_route *route);

/* Another source port for the edge's probes; its numbers go on. 0 or -errno, then as it was. */
int mesh_plane_move(struct mesh *mesh, const struct mesh_plane *plane, struct mesh_edge *edge,
		    uint16_t port);

/* mesh_path.c: after the edge's fit */
void mesh_path_round(struct mesh *mesh, struct mesh_edge *edge, int64_t local_ns);

/* mesh_map.c */
int mesh_maps_open(struct mesh *mesh, char **error);
void mesh_maps_close(struct mesh *mesh);
/* The fleet's keys, our id and whether we answer. */
void mesh_write_fleet(struct mesh *mesh);
void mesh_write_view(struct mesh *mesh, const struct clock_view *view);
void mesh_write_anchor(struct mesh *mesh, const struct anchor_word *word);
/* Members that are gone leave `peers`, new ones come; the others are left as they are. */
void mesh_write_peers(struct mesh *mesh, const struct mesh_plane *plane);
int mesh_read_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id,
		   struct esc_peer *out);

/* mesh_address.c */
/* Whose address is whose, by the members file; those that are gone leave `peer_addresses`. */
void mesh_write_addresses(struct mesh *mesh);

/* mesh_receive.c */
int mesh_ring_open(struct mesh *mesh, char **error);
void mesh_ring_read(struct mesh *mesh);

/* mesh_state.c */
void mesh_watch_peers(struct mesh *mesh, uint64_t now_ns);

/* mesh_blame.c */
void mesh_inquire(struct mesh *mesh, struct mesh_edge *edge, uint64_t now_ns);
void mesh_inquiry_answer(struct mesh *mesh, const struct esc_probe_event *event);
/* "pair", "peer", "nic", "own_nic", or NULL. */
const char *mesh_blame(const struct mesh *mesh, const struct mesh_edge *edge, uint64_t now_ns);
/* Edges of its plane that have been silent for half of down_after. */
unsigned int mesh_silent_edges(const struct mesh *mesh, enum fleet_plane plane, uint64_t now_ns);

/* mesh_clock.c */
void mesh_clock_open(struct mesh *mesh);
void mesh_clock_configure(struct mesh *mesh);
void mesh_clock_round(struct mesh *mesh, uint64_t now_ns);

/* mesh_anchor.c */
void mesh_take_anchor(struct mesh_edge *edge, const struct esc_probe_event *event);
void mesh_anchor_round(struct mesh *mesh, int64_t local_ns);
/* The rest of *@out is filled. */
void mesh_get_tai(const struct mesh *mesh, struct mesh_clock_facts *out);

/* mesh_members.c */
void mesh_watch_members(struct mesh *mesh);
void mesh_subscribe_members(struct mesh *mesh);

#endif
