/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays of queue pairs added up: by peer, and by path, which is destination and source port. */
#ifndef ESC_LOADER_DELAYS_GROUP_H
#define ESC_LOADER_DELAYS_GROUP_H

#include "delay.h"

struct members;

enum delays_by { DELAYS_BY_PEER, DELAYS_BY_PATH };

struct delays_group {
	const char *host;	/* the member's; NULL: none has the address */
	struct esc_address dst; /* of a path, and of a peer without a host; of others the least */
	uint16_t sport;		/* of a path */
	uint8_t port;		/* index into `ports`, or what @fold makes of it */
	size_t qps;		/* that send there */
	size_t sampled;		/* of these, with delays in the last second */
	double bytes_per_second, loss_per_second;
	bool floor_known;
	int64_t floor_ns;
	struct delays_span recent, scrape;
	struct delays_counts counts; /* of a peer */
};

/*
 * *@out is malloc'd, sorted by host, address, port and source port. @members
 * may be NULL, and has to outlive it. @fold: what stands for each port, so that
 * several are one group (ESC_PORTS_MAX of them); NULL: itself. 0 or -ENOMEM.
 */
int delays_group(const struct delays *delays, const struct members *members, enum delays_by by,
		 const uint8_t *fold, struct delays_group **out, size_t *count);

#endif
