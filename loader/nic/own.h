/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's side of NIC failover, between nics.c and those that tell of it. */
#ifndef ESC_LOADER_NICS_OWN_H
#define ESC_LOADER_NICS_OWN_H

#include <jansson.h>

#include "internal.h"
#include "nic.h"

struct sd_event_source;

struct nic_peer {
	struct esc_address address; /* first: the list is sorted by it */
	struct esc_nic_peer is;
	const char *host; /* NULL: not an address of queue pairs */
};

struct nic {
	struct daemon *daemon;
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

/* The watch has news: into the ledger. */
int nic_on_news(struct sd_event_source *source, int fd, uint32_t events, void *context);

#endif
