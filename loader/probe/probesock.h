/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket that an edge's probes leave by, and the datagram before the kernel programs fill it.
 */
#ifndef ESC_LOADER_PROBESOCK_H
#define ESC_LOADER_PROBESOCK_H

#include <stddef.h>
#include <stdint.h>

#include "maps/maps.h"

/* Source ports of probes: the dynamic range, where RoCEv2 has its own
 * (rdma_flow_label_to_udp_sport). */
#define PROBESOCK_PORT_BASE 0xc000u

struct probe_route {
	const char *interface;
	struct esc_address from; /* ours; all zero: the kernel chooses */
	struct esc_address to;
	uint16_t from_port, to_port;
};

/* One port for both directions of an edge and all its pairs, so that ECMP keeps them on one path.
 */
uint16_t probe_source_port(uint64_t one_id, uint64_t other_id);

/*
 * A connected UDP socket that only sends: bound to the interface and the
 * source port, marked for tc egress, no UDP checksum, never fragmented. A
 * descriptor or -errno.
 */
int probesock_open(const struct probe_route *route);

/* Padded in front, so that the probe's fields are aligned. */
struct probe_datagram {
	uint32_t pad;
	struct esc_bth bth;
	struct esc_probe probe;
	uint8_t icrc[ESC_ICRC_BYTES];
};
_Static_assert(offsetof(struct probe_datagram, icrc) + ESC_ICRC_BYTES -
			       offsetof(struct probe_datagram, bth) ==
		       ESC_PROBE_DATAGRAM_BYTES,
	       "a datagram is BTH, probe and ICRC");
/* On @fd; 0 or -errno. */
int probe_datagram_send(int fd, const struct probe_datagram *datagram);

/* What stays the same of an edge's probes. @flags: ESC_PROBE_PLANE or 0. */
void probe_datagram_init(struct probe_datagram *datagram, uint64_t self, uint64_t target,
			 uint64_t epoch, uint8_t flags);
/* What differs. @more: ESC_PROBE_SECOND, ESC_PROBE_ASKS. */
void probe_datagram_number(struct probe_datagram *datagram, uint8_t opcode, uint32_t sequence,
			   uint32_t pair, uint8_t more);

#endif
