/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the senders and receivers of receipts: the peer of a packet, and the tag. */
#ifndef ESC_BPF_RECEIPT_RECEIPT_H
#define ESC_BPF_RECEIPT_RECEIPT_H

#include "lib/clock.bpf.h"
#include "probe/probe.bpf.h"

/* Neighbours are probed more often than 20 times a second. */
#define RECEIPT_PEER_TIMEOUT_NS 3000000000ll

#define RECEIPT_UDP_BYTES (sizeof(struct udphdr) + ESC_RECEIPT_DATAGRAM_BYTES)
/* What the tag covers, from the BTH on. */
#define RECEIPT_SIGNED_BYTES (sizeof(struct esc_bth) + __builtin_offsetof(struct esc_receipt, tag))
#define RECEIPT_SIGNED_WORDS (RECEIPT_SIGNED_BYTES / 8)
_Static_assert(RECEIPT_SIGNED_BYTES % 8 == 4, "four bytes are left for the last word");

/* Without a daemon nothing reads the delays. False before its first heartbeat as well. */
static __always_inline bool receipt_has_daemon(const struct esc_control *ctl, __u64 now_ns)
{
	return (__s64)(now_ns - ctl->heartbeat_local_ns) < (__s64)ESC_PROBE_HEARTBEAT_TIMEOUT_NS;
}

/* The member that has @address and, as far as is known, runs the programs; its id, or NULL. */
static __always_inline struct esc_peer *receipt_peer(const struct esc_address *address,
						     __u64 now_ns, __u64 *id)
{
	struct esc_peer_address *entry = bpf_map_lookup_elem(&peer_addresses, address);
	struct esc_peer *peer = entry ? probe_peer(entry->id) : NULL;

	if (!peer)
		return NULL;
	if ((entry->flags & ESC_PEER_NEIGHBOUR(esc_plane)) &&
	    (!peer->received_local_ns ||
	     (__s64)(now_ns - peer->received_local_ns) > RECEIPT_PEER_TIMEOUT_NS))
		return NULL;
	*id = entry->id;
	return peer;
}

/* Whether there is one; records in the queue pair that there is none. */
static __always_inline bool receipt_peer_of(struct esc_qp *qp, const struct esc_address *address,
					    __u64 now_ns)
{
	__u64 id;
	bool found = receipt_peer(address, now_ns, &id);

	if (found)
		qp->sample_flags &= ~ESC_SAMPLE_NO_FEEDBACK;
	else
		qp->sample_flags |= ESC_SAMPLE_NO_FEEDBACK;
	return found;
}

/* The tag of a receipt whose BTH is at @bth. */
static __always_inline __u64 receipt_tag(const __u64 *key, const void *bth)
{
	const __u32 *at = bth;
	struct esc_siphash h;

	siphash_start(&h, key);
	siphash_words(&h, at, RECEIPT_SIGNED_WORDS);
	return siphash_end(&h, at[RECEIPT_SIGNED_WORDS * 2] | (__u64)RECEIPT_SIGNED_BYTES << 56);
}

/* State of the receipt that this CPU builds, between tc ingress and tc egress. */
enum receipt_stage {
	RECEIPT_STAGE_NONE,
	RECEIPT_STAGE_CLONED,  /* the next packet out with ESC_RECEIPT_MARK is our clone */
	RECEIPT_STAGE_WRITTEN, /* with ESC_RECEIPT_MARK_DONE it is the receipt */
};

#define RECEIPT_V4_BYTES (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr))
#define RECEIPT_V6_BYTES (ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

static __always_inline struct esc_receipt_cpu *receipt_cpu_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&receipt_cpu, &zero);
}

#endif
