/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover, between its own files. */
#ifndef ESC_LOADER_NIC_INTERNAL_H
#define ESC_LOADER_NIC_INTERNAL_H

#include <net/if.h>
#include <pthread.h>

#include "base/fields.h"
#include "config/config.h"
#include "core/core.h"
#include "fleet/fleet.h"
#include "maps/maps.h"
#include "nic.h"
#include "pacing/nicguard.h"
#include "qp/qp.h"

struct pins;

/* --- kernel.c: what is configured, and what the kernel has of it --- */

#define NIC_PAIRS_MAX ESC_PORTS_MAX
#define NIC_USED_MAX 256 /* pairs of addresses with probes; more fail over by carrier only */

struct nic_pair {
	char first[IF_NAMESIZE], second[IF_NAMESIZE];
	char dummy[IF_NAMESIZE]; /* "" none */
};

/* An address of this host, with its entry of `nic_local`. */
struct nic_local {
	struct esc_address address;
	struct esc_nic_local entry;
	unsigned int pair; /* if ESC_NIC_PAIRED */
};

struct nic_plan {
	struct nic_pair pairs[NIC_PAIRS_MAX];
	size_t pair_count;
	struct nic_local locals[ESC_NIC_LOCAL_MAX];
	size_t local_count;
	bool has_dummy;
};

struct nic_peer {
	struct esc_address address; /* first: the list is sorted by it */
	struct esc_nic_peer entry;  /* of `nic_peers` */
	const char *host;	    /* NULL: not an address of queue pairs */
	bool used;		    /* queue pairs have it, or a NIC that they need */
	bool placed;		    /* it has an entry */
};

void nic_plan_pairs(struct nic_plan *plan, const struct config *config);
/* Addresses, indices, MACs and MTUs as they are now. 0 or -errno. */
int nic_plan_locals(struct nic_plan *plan, const struct config *config);
/* The next hops to the peers, by a route lookup for one peer of each IP version. */
void nic_plan_hops(struct nic_plan *plan, const struct nic_peer *peers, size_t count);

enum nic_hook { NIC_EGRESS, NIC_INGRESS, NIC_DUMMY };

struct nic_kernel {
	struct nic_programs *skeleton;
	const struct pins *pins;	 /* borrowed */
	struct esc_nic_control *control; /* mapped */
	int local_fd, peers_fd, routes_fd, counts_fd;
	int rings_fd, queues_fd, spares_fd; /* the programs' own */
};

int nic_kernel_open(struct nic_kernel *kernel, struct core *core, const struct pins *pins,
		    char **error);
void nic_kernel_close(struct nic_kernel *kernel);
/* Attaches to an interface, or replaces the program that is there. */
int nic_kernel_attach(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		      enum nic_hook hook, char **error);
/* Writes the addresses of @plan that `nic_local` lacks; 0 or -errno. */
int nic_kernel_add_locals(const struct nic_kernel *kernel, const struct nic_plan *plan);
/* Deletes those that are not in @plan, but for dummy devices that exist. */
void nic_kernel_sweep_locals(const struct nic_kernel *kernel, const struct nic_plan *plan);
/* Deletes the entries of @fd that are not among @count keys of @bytes at @keys. */
void nic_kernel_keep_only(int fd, const void *keys, size_t count, size_t bytes);
/* Carrier and IFF_UP as the driver has them now, without RTNL, which may be held for long. */
bool nic_kernel_is_dead(const struct nic_kernel *kernel, unsigned int ifindex);

/* --- watch.c, probe.c: a thread of its own, since failover is urgent --- */

enum nic_reason {
	NIC_REASON_NONE,
	NIC_REASON_CARRIER,
	NIC_REASON_ADMIN,
	NIC_REASON_GONE,
	NIC_REASON_SILENT,
	NIC_REASON_PEER,
	NIC_REASONS
};

/* A device of a pair. */
struct nic_device {
	char name[IF_NAMESIZE];
	unsigned int ifindex;	/* 0: gone */
	enum nic_reason reason; /* NONE: it is up */
	struct nicguard guard;
};

/* One of the four routes of a pair of addresses. */
struct nic_route {
	struct nicguard_probes probes;
	struct nicguard guard;
	uint64_t rtt_ns; /* of the newest reply; 0: none */
};

/* A pair of addresses that queue pairs use. */
struct nic_used {
	struct esc_nic_route_key key;
	unsigned int local; /* index in the plan */
	struct esc_address peer_first, peer_second;
	const char *host; /* borrowed from the members */
	bool listed;	  /* by the newest nic_watch_use() */
	struct nic_route routes[ESC_NIC_ROUTES];
	__u64 secret[2][2];	    /* keys with the peer, by slot */
	uint32_t usable;	    /* as in `nic_routes` */
	uint64_t silent_ns;	    /* the same */
	enum esc_nic_route current; /* what tc egress does with its packets now */
	enum nic_reason reason;
	uint64_t since_ns; /* start of @current */
	unsigned int repair_again;
	uint64_t repair_due_ns; /* of the next; 0: none */
};

/* What the thread knows; a copy of it is what replies and metrics show. */
struct nic_facts {
	struct nic_device devices[2 * NIC_PAIRS_MAX];
	size_t device_count;
	struct nic_used used[NIC_USED_MAX];
	size_t used_count;
	size_t unprobed; /* pairs of addresses beyond NIC_USED_MAX */
	uint64_t failovers[NIC_REASONS];
	uint64_t probes_sent, probes_replied;
};

/* A change, for the event log. */
enum nic_report_kind { NIC_REPORT_DOWN, NIC_REPORT_RETURN, NIC_REPORT_FAILOVER, NIC_REPORT_BACK };

struct nic_report {
	enum nic_report_kind kind;
	char device[IF_NAMESIZE];
	enum nic_reason reason;
	uint64_t hold_ns;
	struct esc_nic_route_key key;
	enum esc_nic_route from, to;
	uint64_t silent_ns;   /* since the newest probe with a reply was sent */
	uint64_t duration_ns; /* of what ends */
};

struct nic_watch {
	pthread_t thread;
	pthread_mutex_t lock; /* all below; released by the thread only while it waits */
	bool ends;
	int wake_fd, report_fds[2], links_fd, query_fd;
	const struct nic_kernel *kernel;
	const struct core *core; /* its heartbeat alone is read by the thread */
	uint16_t port;
	uint64_t probe_interval_ns, dead_after_ns, return_after_ns;
	uint32_t key_flags;	   /* ESC_NIC_HAS_KEY0, ... */
	uint64_t number_offset_ns; /* as in struct esc_nic_control */
	uint64_t cookie, due_ns, quiet_since_ns;
	uint32_t changes_seen; /* of the programs' control block */
	bool repairs;
	struct nic_plan plan;
	int sockets[ESC_NIC_LOCAL_MAX][2]; /* of the first NIC and the second; -1: not open */
	struct nic_facts facts;
};

int nic_watch_start(struct nic_watch **out, const struct nic_kernel *kernel,
		    const struct nic_plan *plan, const struct core *core);
void nic_watch_stop(struct nic_watch *watch);
/* Another plan (addresses or indices changed); the states of devices are kept. */
void nic_watch_replan(struct nic_watch *watch, const struct nic_plan *plan);
/* The pairs of addresses in use now; @unprobed: how many more there were. */
void nic_watch_use(struct nic_watch *watch, const struct nic_used *list, size_t count,
		   size_t unprobed);
void nic_watch_get(struct nic_watch *watch, struct nic_facts *out);

const struct nic_device *nic_used_device(struct nic_watch *watch, const struct nic_used *used,
					 bool second);

void nic_probe_send(struct nic_watch *watch, unsigned int number, uint64_t now);
void nic_probe_receive(struct nic_watch *watch, int fd);
void nic_sockets_close(struct nic_watch *watch);

/* --- repair.c: copies of packets that a dead NIC may have lost --- */

/* The pair of addresses takes another route; and what follows while nothing is acknowledged. */
void nic_repair_start(struct nic_watch *watch, struct nic_used *used, uint64_t now_ns);
void nic_repair_go_on(struct nic_watch *watch, struct nic_used *used, uint64_t now_ns);

/* --- tag.c: who may report a dead NIC, and send through the other one --- */

/* ESC_NIC_HAS_KEY0, ESC_NIC_HAS_KEY1, ESC_NIC_USE_KEY1 as @keys have them. */
uint32_t nic_key_flags(const struct fleet_keys *keys);
/* The keys of this host and @peer (graph_member_id()), by slot; 0: none. */
void nic_key_derive(const struct fleet_keys *keys, uint64_t self, uint64_t peer, __u64 out[2][2]);
/* Fills in the key's flag and the tag. @secret: from nic_key_derive(), here and below. */
void nic_sign_probe(const __u64 secret[2][2], uint32_t key_flags,
		    struct esc_nic_signed_probe *input);
bool nic_probe_is_valid(const __u64 secret[2][2], uint32_t key_flags,
			const struct esc_nic_signed_probe *input);
/* The format of what is sent to @address, by what was received of it. */
uint8_t nic_version_to(const struct nic_kernel *kernel, const struct esc_address *address,
		       uint64_t now_ns);

/* --- in the loop: nic.c and report.c --- */

struct sd_event_source;

/* A ring of the kernel's, see maps/nic.h. */
struct nic_ring {
	enum { NIC_RING_NONE, NIC_RING_SPARE, NIC_RING_USED, NIC_RING_ENDS } state;
	struct esc_repair_ring *shared; /* mapped: its first page */
	uint64_t kept, moved_ns;	/* packets in all, and when there last were more */
};

struct nic_repair {
	bool on;
	struct nic_ring rings[ESC_NIC_RINGS];
	struct qpring_counts ended; /* of rings that are gone */
};

struct nic {
	struct core *core;
	struct dataplane *dataplane;
	struct qptable *qps;
	struct fleet_subscriber members;
	bool off;	/* the kill switch */
	char note[256]; /* why it is off against the configuration; "" it is not */
	uint32_t links; /* a digest of interface indices */
	struct nic_kernel kernel;
	struct nic_plan plan;
	struct nic_peer *peers;
	size_t peer_count;
	size_t without_room;	 /* of them */
	struct nic_watch *watch; /* NULL: nothing is protected */
	struct nic_repair repair;
	struct sd_event_source *report_source;
};

#define NIC_EVENTS(X)                                                                              \
	X(NIC_REFUSED, "nic_refused", WARNING, "NIC failover is off against the configuration.",   \
	  .remedy = "See `escapement failover`, and correct `sibling`.")                           \
	X(NIC_DOWN, "nic_down", WARNING, "A NIC of a pair is down; its sibling is used.",          \
	  .about = EVENT_NIC, .begins = "nic_down",                                                \
	  .remedy = "See its cable, its port of the switch and `escapement failover`.")            \
	X(NIC_RETURN, "nic_return", NOTICE, "A NIC of a pair is used again.", .about = EVENT_NIC,  \
	  .ends = "nic_down")                                                                      \
	X(NIC_FAILOVER, "nic_failover", WARNING, "A pair of addresses uses other NICs.",           \
	  .about = EVENT_PAIR, .remedy = "`escapement failover` shows which NIC is down.")         \
	X(NIC_FAILBACK, "nic_failback", NOTICE, "A pair of addresses uses its own NICs again.",    \
	  .about = EVENT_PAIR)                                                                     \
	X(NIC_PEERS_FULL, "nic_peers_full", WARNING,                                               \
	  "Addresses of peers have no room: their queue pairs do not fail over.",                  \
	  .remedy = "Give this host a shorter member list.")
enum { NIC_EVENTS(EVENT_ENUM) };
extern const struct event_kind nic_events[];
extern const struct metric nic_metrics[];
extern const struct verb_handler nic_verb_handlers[];

/* --- peers.c --- */

/* The addresses of the members' NICs, each once, into nic->peers; none is placed. 0 or -ENOMEM. */
int nic_peers_read(struct nic *nic);
/* By address; NULL: none. */
struct nic_peer *nic_peers_find(struct nic_peer *peers, size_t count,
				const struct esc_address *address);
/* Gives queue pairs' addresses a place, then others, and writes `nic_peers`. */
void nic_peers_apply(struct nic *nic);
/* Up to @room of @list into the map @fd, those in use first. Returns how many have no place. */
size_t nic_peers_write(int fd, struct nic_peer *list, size_t count, size_t room);

/* From the loop. The configuration is new; ring by ring, once a second; no ring is left. */
void nic_repair_begin(struct nic *nic);
void nic_repair_tick(struct nic *nic, uint64_t now_ns);
void nic_repair_end(struct nic *nic);
/* `refused`: packets whose queue pair found no ring. */
void nic_repair_counts(const struct nic *nic, struct qpring_counts *out);

/* Emits the watch's reports as events. */
int nic_on_report(struct sd_event_source *source, int fd, uint32_t events, void *context);
/* `nic_failover` of `status`. */
void nic_status(void *self, json_t *status);
void nic_write_metrics(void *self, FILE *out);

#endif
