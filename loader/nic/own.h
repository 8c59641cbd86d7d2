/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover in the daemon's loop: what nic.c and tell.c share. */
#ifndef ESC_LOADER_NICS_OWN_H
#define ESC_LOADER_NICS_OWN_H

#include <jansson.h>

#include "base/prom.h"
#include "core/core.h"
#include "fleet/fleet.h"
#include "internal.h"
#include "nic.h"

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
	struct sd_event_source *news_source;
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
int nic_on_news(struct sd_event_source *source, int fd, uint32_t events, void *context);
/* `nic_failover` of `status`. */
void nic_status(void *self, json_t *status);
void nic_write_metrics(void *self, FILE *out);

#endif
