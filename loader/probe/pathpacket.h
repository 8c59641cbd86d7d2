/* SPDX-License-Identifier: BSD-2-Clause */
/* A path request as it leaves by a raw socket, IP header and all. Pure. */
#ifndef ESC_LOADER_PATHPACKET_H
#define ESC_LOADER_PATHPACKET_H

#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

#define PATHPACKET_BYTES_MAX (40 + 8 + ESC_PATH_DATAGRAM_BYTES)
#define PATHPACKET_HOP_LIMIT 64 /* a whole way; the peer's program turns it with the same */

struct pathpacket {
	struct esc_address from, to;
	uint16_t from_port, to_port;
	uint64_t target; /* id */
	uint32_t sequence;
	uint16_t ident; /* of the IPv4 header, which every ICMP error quotes */
	uint8_t hop_limit;
	uint8_t flags; /* ESC_PROBE_PLANE or 0 */
	uint8_t lane;  /* or ESC_PATH_LANE_NONE */
};

/* Writes it to @out; how many bytes. Sender, epoch, times, words and tag are tc egress's. */
size_t pathpacket_build(const struct pathpacket *packet, uint8_t out[PATHPACKET_BYTES_MAX]);

/*
 * The other way: what of a request of ours an ICMP error quotes. @ip: from its IP header on, cut
 * anywhere. 0 or -EINVAL: it is none. A sequence that was cut off is 0.
 */
int pathpacket_parse(const uint8_t *ip, size_t bytes, struct pathpacket *out);

#endif
