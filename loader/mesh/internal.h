/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the mesh share. */
#ifndef ESC_MESH_INTERNAL_H
#define ESC_MESH_INTERNAL_H

#include "base/fields.h"
#include "clock/clock.h"
#include "clocksync/graph.h"
#include "core/core.h"
#include "fault.h"
#include "mesh.h"
#include "probe/probe.h"

_Static_assert(MESH_PEERS_MAX == CLOCK_EDGES_MAX, "a peer for each edge");

#define MESH_TICK_NS 20000000	  /* the ring is read */
#define MESH_STATE_NS 100000000	  /* the states of the peers are evaluated */
#define MESH_HISTORY_NS 500000000 /* delays are counted; PASSAGES_KEPT is of more time */
/* Evaluations after which a request is lost: 1 s and one more. */
#define MESH_HORIZON 11
#define MESH_QUERIES_MAX 5

/* The hosts that were queried about a peer that fell silent, and what they replied. */
struct mesh_inquiry {
	bool open;
	uint64_t begun_ns;
	unsigned int queried, replied, reachable; /* reachable: from those that replied */
	uint64_t ids[MESH_QUERIES_MAX];
	bool has_replied[MESH_QUERIES_MAX];
	uint32_t nics[MESH_QUERIES_MAX];	    /* of these hosts, that were queried */
	bool queried_elsewhere, received_elsewhere; /* the peer itself, by another NIC of it */
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

/* One-way delays, counted once each: one histogram for every scrape and for a peer's whole time. */
/* The least round trips of the newest intervals; INT64_MAX: there was none. */
#define MESH_FLOOR_INTERVALS 4
#define MESH_FLOOR_NS 5000000000ll
struct mesh_floor {
	uint64_t counted;
	int64_t index; /* of the newest interval */
	int64_t least_ns[MESH_FLOOR_INTERVALS];
};

struct mesh_history {
	struct delayhist out;
	uint64_t out_counted, in_counted, back_counted; /* of the edge's passages */
	struct mesh_floor floor;
};

/* Probes that were lost, by tenths of mesh.loss_after. */
#define MESH_LOSS_TENTHS 10
struct mesh_loss {
	uint64_t lost, replied; /* counters, when the newest tenth was over */
	struct mesh_loss_tenth {
		uint64_t lost, of;
	} tenths[MESH_LOSS_TENTHS];
	unsigned int next, count;
	bool lossy;
};

/* Of pairs that are lost, and of those that lose a part of their probes. */
enum { MESH_FAULT_LOST, MESH_FAULT_LOSSY, MESH_FAULT_KINDS };

/* What a host reported of a NIC. */
struct mesh_nic_report {
	int64_t at_local_ns; /* 0: nothing */
	bool receives, sends;
};

/* A NIC of another host, as probed by one of ours. */
struct mesh_peer {
	struct clock_edge *edge; /* id, host, plane, and what came of its probes */
	enum fleet_edge_kind kind;
	unsigned int rail; /* of that NIC: fleet_mesh.rails */
	/* address .. blame, lost and disconnects; sent and failed: by sockets that are closed */
	struct mesh_peer_facts facts;
	struct mesh_path path;
	int open_error;		  /* with edge->sending NULL */
	uint64_t failed_reported; /* failures when they were last reported */

	/* Each MESH_STATE_NS; CLOCK_MONOTONIC. */
	uint64_t since_ns;    /* the peer is there */
	uint64_t received_ns; /* its newest probe or reply; 0: never */
	uint64_t before_ns;   /* the same, to the daemon before this one; 0: never */
	uint64_t replied_ns;
	uint64_t down_ns;
	bool absent_reported;
	bool no_replies;	  /* it is received, and requests that were sent have no reply */
	bool in, out;		  /* as observed last */
	bool was_lost;		  /* so, since the last tenth of mesh.loss_after was over */
	uint64_t replied_seen_ns; /* replied_ns when the sequence was: */
	uint32_t replied_sequence;
	bool unreplied; /* enough requests since then should have had a reply */
	int64_t paths_local_ns[MESH_PLANES]; /* its host reported lost paths, by this pair */
	int64_t restart_local_ns; /* its host reported that its daemon has ended; 0: it runs */
	struct mesh_nic_report reports[MESH_PLANES]
				      [FLEET_RAILS_MAX]; /* of its host, by this pair */
	const char *rack;				 /* of its host, by: */
	const struct members *rack_of;
	struct mesh_loss loss;
	int64_t lossy_local_ns[MESH_PLANES]
			      [FLEET_RAILS_MAX]; /* as reports: NICs that lose a part */
	uint32_t reported_in[MESH_FAULT_KINDS];	 /* serial of the fault that was reported with it */
	struct mesh_inquiry inquiry;
	struct mesh_history history;

	uint64_t replies_map, replies_base; /* received by XDP: now, and when none was read */
	bool replies_known;
	uint32_t horizon[MESH_HORIZON]; /* sequence at the last evaluations */
	unsigned int horizon_next;
};

#define MESH_REPORT_NS 3000000000ll /* how long a report is valid */
/* How long a daemon that ended as asked may be silent: one that starts on a busy host takes
 * seconds. */
#define MESH_RESTART_NS 10000000000ll

struct mesh_open_fault {
	char id[640];
	enum fault_class class;
	unsigned int evaluations; /* in a row, before it was reported */
	bool reported;
	uint32_t serial; /* see struct mesh_peer */
	uint64_t begun_ns, seen_ns, reported_ns;
};

struct mesh_faults {
	unsigned int turn;    /* of our NICs, of which one is reported at a time */
	uint32_t serial;      /* of the newest fault */
	uint64_t loss_number; /* of the tenth of mesh.loss_after that is not over */
	struct mesh_open_faults {
		struct mesh_open_fault list[FAULTS_MAX];
		size_t count;
	} open[MESH_FAULT_KINDS];
	const char *rack; /* of this host, in: */
	const struct members *rack_of;
};

/* A NIC of ours. */
struct mesh_nic {
	bool on;
	char interface[16];
	unsigned int ifindex, port; /* index into `ports` */
	uint16_t probe_port;
	bool has_address[ROSTER_FAMILIES]; /* of those in the list, on the interface */
	char note[160];			   /* why it is not on */
};

struct mesh_plane {
	enum fleet_plane plane;
	bool configured; /* an interface is of it */
	bool on;	 /* a NIC is */
	char note[256];
	const struct roster *roster; /* a host each; of mesh->plan, or empty, as: */
	const struct fleet_mesh *mesh;
	struct mesh_nic nics[FLEET_RAILS_MAX]; /* as mesh.own */
	size_t without_key;		       /* members whose pair has no key in `key_file` */
	struct delayhist owd_out, owd_in; /* of all probes since the start, peers that left too */
};

struct mesh_ids {
	const uint64_t *list; /* sorted */
	size_t count;
};

/* How far the maps `peers` and `peer_addresses` are written. */
#define MESH_WRITE_STEPS 8
struct mesh_write {
	unsigned int step;		       /* MESH_WRITE_STEPS: all is written */
	size_t next;			       /* member */
	char key[sizeof(struct esc_peer_key)]; /* of a walk */
	bool begun, walked;
	char *gone; /* keys */
	size_t gone_count, gone_room;
	struct mesh_ids members[MESH_PLANES]; /* of the plan */
	struct mesh_ids neighbors[MESH_PLANES];
	uint64_t near[MESH_PLANES][MESH_PEERS_MAX]; /* what `neighbors` lists */
	uint64_t peers_refused, addresses_refused;
};
_Static_assert(sizeof(struct esc_peer_key) >= sizeof(struct esc_address), "a key of both");

struct mesh {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct sender *sender;
	struct core_timer *timer;
	struct core_worker *reader; /* of the members file */
	struct mesh_write write;
	struct fleet_plan *plan; /* in force; NULL: none */
	int plan_error;		 /* with plan NULL: why there is none; 0: there are no members */
	bool stale; /* the configuration or the members are others than the rosters are of */
	int peers_fd, addresses_fd; /* maps */
	uint64_t peers_refused;	    /* members without room in the map */
	uint64_t addresses_refused; /* addresses */
	uint64_t edges_left_out;    /* of the mesh, beyond MESH_PEERS_MAX */
	struct mesh_plane planes[MESH_PLANES];
	struct mesh_peer *peers[MESH_PEERS_MAX]; /* by the slot of their edge; a hole is NULL */
	uint32_t sequence; /* above every number used in this run, from a random one */
	struct mesh_faults faults;
	uint64_t state_due_ns, history_due_ns, retry_due_ns;
	bool paused; /* the kill switch is on */
	struct fleet_subscriber members;
	struct delayhist scratch;
	uint64_t held_since_ns;	       /* of the held back list that was reported; 0: none */
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
	  "Nothing was received from a peer for mesh.down_after.", .about = EVENT_PEER,            \
	  .begins = "peer_down",                                                                   \
	  .remedy = "`escapement peers` shows which NICs still receive; see the link and the "     \
		    "daemon of that host.")                                                        \
	X(MESH_PEER_UP, "peer_up", NOTICE, "Probes or replies of that peer arrive again.",         \
	  .about = EVENT_PEER, .ends = "peer_down")                                                \
	X(MESH_FAULT, "fabric_fault", WARNING,                                                     \
	  "NIC pairs are lost for one reason: `class` is `nic`, `host`, `tor`, `rail`, `plane`, "  \
	  "`paths` (between racks) or `pair`.",                                                    \
	  .about = EVENT_FABRIC, .begins = "fabric_fault",                                         \
	  .remedy = "`escapement findings` has what to see first, by the class.")                  \
	X(MESH_FAULT_ENDED, "fabric_fault_ended", NOTICE,                                          \
	  "No NIC pair is lost for that reason any more.", .about = EVENT_FABRIC,                  \
	  .ends = "fabric_fault")                                                                  \
	X(MESH_FABRIC_LOSS, "fabric_loss", WARNING,                                                \
	  "NIC pairs have lost a part of their probes for most of mesh.loss_after, for one "       \
	  "reason, as in `fabric_fault`.",                                                         \
	  .about = EVENT_FABRIC, .begins = "fabric_loss",                                          \
	  .remedy = "`escapement findings` has what to see first, by the class.")                  \
	X(MESH_FABRIC_LOSS_ENDED, "fabric_loss_ended", NOTICE,                                     \
	  "No NIC pair loses probes for that reason any more.", .about = EVENT_FABRIC,             \
	  .ends = "fabric_loss")                                                                   \
	X(MESH_PEER_ABSENT, "peer_absent", WARNING,                                                \
	  "Nothing was ever received from a peer, for 10 s.", .about = EVENT_PEER,                 \
	  .begins = "peer_down",                                                                   \
	  .remedy = "Start escapementd there, or take the host off the member list.")              \
	X(MESH_PEER_LEFT, "peer_left", NOTICE,                                                     \
	  "A peer that was down, or refused, is not a peer any more.", .about = EVENT_PEER,        \
	  .ends = EVENT_ENDS_ALL)                                                                  \
	X(MESH_PEER_PATH_CHANGED, "peer_path_changed", INFO,                                       \
	  "Probes to a peer have another source port: their path was full.", .about = EVENT_PEER)  \
	X(MESH_MEMBERS_JOINED, "members_joined", NOTICE, "Hosts joined the mesh of a plane.")      \
	X(MESH_MEMBERS_LEFT, "members_left", NOTICE, "Hosts left the mesh of a plane.")            \
	X(MESH_MEMBERS_RELOADED, "members_reloaded", NOTICE, "Another member list is in force.")   \
	X(MESH_MEMBERS_REFUSED, "members_refused", WARNING,                                        \
	  "A member list was refused; the old one stays in force.",                                \
	  .remedy = "Correct the members file.")                                                   \
	X(MESH_MEMBERS_HELD, "members_held", WARNING,                                              \
	  "A member list that loses most of the fleet is held back; the old one stays in force.",  \
	  .remedy = "`escapement reload --force` applies it at once.")                             \
	X(MESH_MEMBERS_WITHOUT_ROOM, "members_without_room", WARNING,                              \
	  "The kernel's maps are full: delays and TCP pacing with some members are missing.",      \
	  .remedy = "Give this host a shorter member list.")                                       \
	X(MESH_AUTHENTICATION_NONE, "authentication_none", WARNING,                                \
	  "Probes are not authenticated: there is a members file, but no key_file.",               \
	  .begins = "authentication_none", .remedy = "Set `key_file`.")                            \
	X(MESH_AUTHENTICATION_RESTORED, "authentication_restored", NOTICE,                         \
	  "Probes are authenticated by a key again.", .ends = "authentication_none")               \
	X(MESH_CONTROL_INSECURE, "control_insecure", WARNING,                                      \
	  "Control is allowed without a key: `insecure: true` in the configuration.",              \
	  .remedy = "Set `key_file` and take `insecure` out.")
enum { MESH_EVENTS(EVENT_ENUM) };
extern const struct event_kind mesh_events[];

extern const struct metric mesh_metrics[];

/* --- mesh.c --- */

/* An event of @kind, an enumerator of MESH_EVENTS; takes @seen over, which may be NULL. */
void mesh_report(const struct mesh *mesh, unsigned int kind, const char *subject, json_t *seen);
/* The same about a peer. */
void mesh_report_peer(const struct mesh *mesh, const struct mesh_peer *peer, unsigned int kind,
		      json_t *seen);

/* --- maps.c: the maps `peers` and `peer_addresses` --- */

/* Members that are gone leave the maps, new ones come; the others are left as they are. */
void mesh_write_begin(struct mesh *mesh);
/* At most @room entries of what is left to do. */
void mesh_write_some(struct mesh *mesh, size_t room);
void mesh_write_end(struct mesh *mesh);
int mesh_read_peer(const struct mesh *mesh, const struct clock_edge *edge, struct esc_peer *out);

/* --- plane.c: the peers that are probed on a plane, from which interface and source port --- */

/*
 * By the configuration and the members in force. @first: nothing to report. False: the maps need
 * no change, unless mesh->stale.
 */
bool mesh_apply_plane(struct mesh *mesh, struct mesh_plane *plane, bool first);
/* @plan is mesh->plan from now on. Returns the one before, to be dropped once all is applied. */
struct fleet_plan *mesh_use_plan(struct mesh *mesh, struct fleet_plan *plan);
/* The roster and the mesh of @plane are those of mesh->plan, or empty. */
void mesh_plane_use_plan(const struct mesh *mesh, struct mesh_plane *plane);
void mesh_free_planes(struct mesh *mesh);
/* By our NIC in that slot of `ports` to theirs of that esc_nic_number(). */
struct mesh_peer *mesh_find_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id,
				 unsigned int port, uint32_t nic);
unsigned int mesh_count_peers(const struct mesh *mesh, enum fleet_plane plane);
uint32_t mesh_nic_number(const struct esc_address *address);
/* From our NIC @own. -EAFNOSUPPORT: the two have no address family in common. */
int mesh_route(const struct mesh_plane *plane, unsigned int own, const struct fleet_nic *to,
	       uint64_t id, struct probe_route *route);
/* By the mesh in force. False: it is not probed any more. */
bool mesh_route_of(const struct mesh *mesh, const struct mesh_peer *peer,
		   struct probe_route *route);
/* After the fit of the peer's edge. */
void mesh_check_path(struct mesh *mesh, struct mesh_peer *peer, int64_t local_ns);

/* --- state.c: up, suspect, down, and what a silence is due to --- */

void mesh_evaluate_peers(struct mesh *mesh, uint64_t now_ns);
void mesh_set_state(struct mesh_peer *peer, enum peer_state state);
/* Its daemon ended as asked, MESH_RESTART_NS ago at most: its silence is no fault. */
bool mesh_restarts(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns);
void mesh_take_query_reply(void *mesh, const struct esc_probe_event *event);
/* "pair", "peer", "nic", "own_nic", or NULL; it does not know of restarts. */
const char *mesh_blame(const struct mesh *mesh, const struct mesh_peer *peer, uint64_t now_ns);

/* --- observe.c: NICs and pairs as they are, and the events of faults --- */

void mesh_take_report(void *mesh, struct clock_edge *edge, uint8_t report, int64_t local_ns);
/* After mesh_evaluate_peers(): the report that probes have, and the faults there are. */
void mesh_observe(struct mesh *mesh, uint64_t now_ns);
/* Call it when another member list is in force. */
void mesh_forget_racks(struct mesh *mesh);

/* --- loss.c: NIC pairs that lose a part of their probes. Pure --- */

/*
 * What a tenth of mesh.loss_after that is over lost, by counters. @was_lost: all was, for a time.
 * That is reported as such, and shows nothing here: the tenth is left out.
 */
void mesh_loss_take(struct mesh_loss *loss, uint64_t lost, uint64_t replied, bool was_lost);
/* Nothing is known of before. */
void mesh_loss_reset(struct mesh_loss *loss, uint64_t lost, uint64_t replied);
/* Part of the fault that another pair shows. */
bool mesh_loss_leans(const struct mesh_loss *loss);
/* Of all tenths that are kept. */
double mesh_loss_share(const struct mesh_loss *loss);

/* --- history.c: the delays of all probes since a peer is there --- */

/* The histograms have what there was until now; nothing, while there is no fabric time. */
void mesh_count_delays(struct mesh *mesh, uint64_t now_ns);
/* The least round trip of the last 15 to 20 s before @local_ns; INT64_MAX: there was none. */
int64_t mesh_floor_at(const struct mesh_floor *floor, int64_t local_ns);
void mesh_free_history(struct mesh_history *history);
void mesh_write_history(const struct mesh *mesh, struct prom_family *of_plane,
			struct prom_family *of_peer);

/* --- report.c --- */

/*
 * The bound of one-way delays of an edge, with the peer's line. -1: both ends have to have fabric
 * time, and the peer's view of its own has to be fresh.
 */
int64_t mesh_delay_bound(const struct mesh *mesh, const struct clock_edge *edge, int64_t now_ns,
			 struct clock_line *theirs);

/* An event when @now has no key, or has one again; @old was in force before (NULL: the start). */
void mesh_report_authentication(const struct mesh *mesh, const struct config *old,
				const struct config *now);
json_t *mesh_peer_json(const struct mesh_peer_facts *peer);
void mesh_put_status(void *self, json_t *status);
#define MESH_PEER_LABELS 6
/* Of the direction to a peer. */
const struct prom_label *mesh_labels_out(const struct mesh_peer_facts *peer,
					 struct prom_label labels[MESH_PEER_LABELS]);
extern const struct verb_handler mesh_verb_handlers[];
void mesh_write_metrics(void *self, FILE *out);

#endif
