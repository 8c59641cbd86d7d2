/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover, between its own files. */
#ifndef ESC_LOADER_NIC_PARTS_H
#define ESC_LOADER_NIC_PARTS_H

#include <jansson.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prom.h"
#include "config/config.h"
#include "core/core.h"
#include "fleet/fleet.h"
#include "maps/maps.h"
#include "nic.h"
#include "pacing/nicguard.h"

struct pins;
struct nic_peer;

/* ---- what is there: nic_plan.c ---- */

#define NIC_PAIRS_MAX ESC_PORTS_MAX
#define NIC_USED_MAX 64 /* pairs of addresses that are watched; more fail over by carrier only */

/* A pair as the configuration has it, and as the kernel has it now. */
struct nic_pair {
	char first[IF_NAMESIZE], second[IF_NAMESIZE];
	char dummy[IF_NAMESIZE]; /* "" none */
};

struct nic_home {
	struct esc_address address;
	struct esc_nic_local is;
	unsigned int pair;
};

struct nic_plan {
	struct nic_pair pairs[NIC_PAIRS_MAX];
	size_t pair_count;
	struct nic_home homes[ESC_NIC_LOCAL_MAX];
	size_t home_count;
	bool has_dummy;
};

void nic_plan_pairs(struct nic_plan *plan, const struct config *config);
/* Addresses, indices, MACs and MTUs as they are now. */
int nic_plan_homes(struct nic_plan *plan, const struct config *config);
/* The next hops to the peers: the kernel is asked for one peer of each IP version. */
void nic_plan_hops(struct nic_plan *plan, const struct nic_peer *peers, size_t count);
/* The gateway from @ifindex to @to; all zero: it is on the link, or there is no route. */
struct esc_address nic_route_hop(unsigned int ifindex, const struct esc_address *to);

/* ---- the kernel's side: nic_kernel.c ---- */

enum nic_hook { NIC_EGRESS, NIC_INGRESS, NIC_DUMMY };

struct nic_kernel {
	struct nic_programs *skeleton;
	const struct pins *pins;   /* borrowed */
	struct esc_nic_control *control; /* mapped */
	int local_fd, peers_fd, routes_fd, counts_fd;
	int acks_fd, requests_fd; /* the programs' own */
};

int nic_kernel_open(struct nic_kernel *kernel, const struct pins *pins, char **error);
void nic_kernel_close(struct nic_kernel *kernel);
/* Onto an interface, or the program there replaced by this one. */
int nic_kernel_attach(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		      enum nic_hook hook, char **error);
void nic_kernel_detach(const struct pins *pins, const char *interface);
/* Entries of @fd that are not among @count keys of @bytes at @keys go. */
void nic_kernel_keep_only(int fd, const void *keys, size_t count, size_t bytes);
/* Carrier and IFF_UP as the driver has them now. Without RTNL, which others may hold for long. */
bool nic_kernel_is_dead(const struct nic_kernel *kernel, unsigned int ifindex);
void nic_kernel_counts(const struct nic_kernel *kernel, struct esc_nic_counts *out);

/* ---- the watch: a thread of its own, since what it says is in a hurry: nic_watch.c ---- */

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
	unsigned int ifindex; /* 0: gone */
	enum nic_reason why;     /* NONE: it is up */
	struct nicguard guard;
};

/* One of the four ways of a pair of addresses. */
struct nic_route {
	struct nicguard_probes probes;
	struct nicguard guard;
	uint64_t rtt_ns; /* of the newest answer; 0: none */
};

/* A pair of addresses that queue pairs use. */
struct nic_used {
	struct esc_nic_route_key key;
	unsigned int home; /* in the plan */
	struct esc_address peer_first, peer_second;
	const char *host; /* borrowed from the members */
	bool wanted;	  /* while the list is made anew */
	struct nic_route routes[ESC_NIC_ROUTES];
	uint32_t usable;	  /* as `nic_routes` has it */
	enum esc_nic_route taken; /* what tc egress does with its packets now */
	enum nic_reason why;
	uint64_t since_ns;    /* that it is taken */
	unsigned int resends; /* still to do */
};

/* What the thread saw, for the ledger. */
enum nic_report_kind { NIC_REPORT_DOWN, NIC_REPORT_RETURN, NIC_REPORT_FAILOVER, NIC_REPORT_BACK };

struct nic_report {
	enum nic_report_kind kind;
	char device[IF_NAMESIZE];
	enum nic_reason why;
	uint64_t hold_ns;
	struct esc_nic_route_key key;
	enum esc_nic_route from, to;
	uint64_t silent_ns; /* since the newest probe that was answered had been sent */
	uint64_t lasted_ns; /* of what ends */
};

struct nic_watch;

struct nic_watch_facts {
	struct nic_device devices[2 * NIC_PAIRS_MAX];
	size_t device_count;
	struct nic_used used[NIC_USED_MAX];
	size_t used_count;
	size_t left_out;
	uint64_t failovers[NIC_REASONS];
	uint64_t probes_sent, probes_answered, resent;
};

int nic_watch_start(struct nic_watch **out, const struct nic_kernel *kernel,
		    const struct nic_plan *plan, const struct config *config);
void nic_watch_stop(struct nic_watch *watch);
/* Another plan (addresses or indices changed); what is known of the ways is kept. */
void nic_watch_replan(struct nic_watch *watch, const struct nic_plan *plan);
/* The pairs of addresses in use now; @left_out: how many more there were. */
void nic_watch_use(struct nic_watch *watch, const struct nic_used *used, size_t count,
		   size_t left_out);
void nic_watch_get(struct nic_watch *watch, struct nic_watch_facts *out);
/* Readable when there are news; false: no more. */
int nic_watch_fd(const struct nic_watch *watch);
bool nic_watch_read(struct nic_watch *watch, struct nic_report *out);

/* ---- what a dead NIC may have lost last: nic_resend.c ---- */

struct nic_resend {
	int fd; /* bound to the NIC that is left by */
	const struct esc_address *to;
	uint16_t port;
	unsigned int mtu;
	uint64_t not_after_ns; /* what is newer came by itself, and so goes on */
};

/*
 * The last acknowledgements and requests of the queue pairs between two addresses, in UDP, once
 * more; how many were sent. 0: there were none, or all is newer or older than it may be.
 */
unsigned int nic_resend(const struct nic_kernel *kernel, const struct esc_nic_route_key *ends,
			const struct nic_resend *by);
/* Those of queue pairs that sent nothing for long go. */
void nic_resend_sweep(const struct nic_kernel *kernel);

/* ---- probes on sockets: nic_socket.c ---- */

/* Bound to @device and @source; -errno. */
int nic_socket_open(const char *device, const struct esc_address *source);
int nic_socket_send(int fd, const struct esc_address *to, uint16_t port, const void *datagram,
		    size_t bytes);
/* True: a reply was read, from @from. */
bool nic_socket_receive(int fd, struct esc_nic_probe *out, struct esc_address *from);

bool nic_address_is_v4(const struct esc_address *address);
bool nic_address_is_set(const struct esc_address *address);
const char *nic_reason_name(enum nic_reason why);
const char *nic_route_name(enum esc_nic_route route);

/* ---- in the loop: nic.c and report.c ---- */

struct sd_event_source;

struct nic_peer {
	struct esc_address address; /* first: the list is sorted by it */
	struct esc_nic_peer is;
	const char *host; /* NULL: not an address of queue pairs */
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
	struct nic_watch *watch; /* NULL: nothing is protected */
	struct sd_event_source *report_source;
};

#define NIC_TICK_NS 1000000000ull

#define NIC_EVENTS(X)                                                                              \
	X(NIC_REFUSED, "nic_refused", WARNING, "NIC failover is off against the configuration.")   \
	X(NIC_DOWN, "nic_down", WARNING, "A NIC of a pair is down; its sibling is used.")          \
	X(NIC_RETURN, "nic_return", NOTICE, "A NIC of a pair is used again.")                      \
	X(NIC_FAILOVER, "nic_failover", WARNING, "A pair of addresses uses other NICs.")           \
	X(NIC_FAILBACK, "nic_failback", NOTICE, "A pair of addresses uses its own NICs again.")
enum { NIC_EVENTS(EVENT_ENUM) };
extern const struct event_kind nic_events[];
extern const struct metric nic_metrics[];
extern const struct verb_handler nic_verb_handlers[];

/* The watch has reports: into the event log. */
int nic_on_report(struct sd_event_source *source, int fd, uint32_t events, void *context);
/* `nic_failover` of `status`. */
void nic_status(void *self, json_t *status);
void nic_write_metrics(void *self, FILE *out);

#endif
