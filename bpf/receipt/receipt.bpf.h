/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What noting, making and taking receipts have in common: whom they are for, and their tag. */
#ifndef ESC_BPF_RECEIPT_H
#define ESC_BPF_RECEIPT_H

#include "lib/clock.bpf.h"
#include "probe/probe.bpf.h"

/* Neighbours are probed more often than 20 times a second. */
#define RECEIPT_HEARD_NS 3000000000ll

#define RECEIPT_UDP_BYTES (sizeof(struct esc_udp) + ESC_RECEIPT_DATAGRAM_BYTES)
/* What the tag covers, from the BTH on. */
#define RECEIPT_SIGNED_BYTES (ESC_BTH_BYTES + __builtin_offsetof(struct esc_receipt, tag))
#define RECEIPT_SIGNED_WORDS (RECEIPT_SIGNED_BYTES / 8)
_Static_assert(RECEIPT_SIGNED_BYTES % 8 == 4, "four bytes are left for the last word");

/* Without a daemon nobody reads what is measured; one that has not begun yet is none. */
static __always_inline bool receipt_daemon_lives(const struct esc_control *word, __u64 now_ns)
{
	return (__s64)(now_ns - word->heartbeat_local_ns) < (__s64)ESC_DAEMON_GONE_NS;
}

/* The id of whose @address is, if the programs run there as far as is known; else 0. */
static __always_inline __u64 receipt_peer(const struct esc_address *address, __u64 now_ns)
{
	struct esc_peer_address *where = bpf_map_lookup_elem(&peer_addresses, address);
	struct esc_peer *peer = where ? probe_peer(where->id) : NULL;

	if (!peer)
		return 0;
	if ((where->flags & ESC_PEER_NEIGHBOUR(esc_plane)) &&
	    (!peer->heard_local_ns || (__s64)(now_ns - peer->heard_local_ns) > RECEIPT_HEARD_NS))
		return 0;
	return where->id;
}

/* The same, and remembers for the queue pair when there is nobody. */
static __always_inline __u64 receipt_peer_of(struct esc_qp *qp, const struct esc_address *address,
					     __u64 now_ns)
{
	__u64 id = receipt_peer(address, now_ns);

	if (id)
		qp->sample_flags &= ~ESC_SAMPLE_BLIND;
	else
		qp->sample_flags |= ESC_SAMPLE_BLIND;
	return id;
}

/* @bth: of a receipt; the tag that @key makes. */
static __always_inline __u64 receipt_tag(const __u64 *key, const void *bth)
{
	const __u32 *at = bth;
	struct esc_siphash h;

	siphash_start(&h, key);
	siphash_words(&h, at, RECEIPT_SIGNED_WORDS);
	return siphash_end(&h, at[RECEIPT_SIGNED_WORDS * 2] | (__u64)RECEIPT_SIGNED_BYTES << 56);
}

enum receipt_stage {
	RECEIPT_STAGE_NONE,
	RECEIPT_STAGE_CLONED,  /* the next packet out with ESC_RECEIPT_MARK is our clone */
	RECEIPT_STAGE_WRITTEN, /* with ESC_RECEIPT_MARK_DONE it is the receipt */
};

#define RECEIPT_V4_BYTES (ESC_ETHERNET_BYTES + sizeof(struct esc_ipv4) + sizeof(struct esc_udp))
#define RECEIPT_V6_BYTES (ESC_ETHERNET_BYTES + sizeof(struct esc_ipv6) + sizeof(struct esc_udp))

static __always_inline struct esc_receipt_cpu *receipt_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&receipt_cpu, &zero);
}

#endif
