/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tags of probes and tokens of encapsulated packets (maps/nic.h): made, and verified. */
#ifndef ESC_BPF_NIC_TAG_H
#define ESC_BPF_NIC_TAG_H

#include "lib/siphash.bpf.h"
#include "nic/nic.bpf.h"

#define NIC_KEYS (ESC_NIC_HAS_KEY0 | ESC_NIC_HAS_KEY1)

/* Our sequence now. */
static __always_inline __u64 nic_number_ns(const struct esc_nic_control *ctl, __u64 now_ns)
{
	return now_ns + ctl->number_offset_ns;
}

/* ESC_NIC_KEY, or 0: the slot of our tags. */
static __always_inline __u8 nic_own_slot(const struct esc_nic_control *ctl)
{
	return ctl->flags & ESC_NIC_USE_KEY1 ? ESC_NIC_KEY : 0;
}

/* NULL: tags with this slot are neither made nor accepted. */
static __always_inline const __u64 *nic_key(const struct esc_nic_control *ctl,
					    const struct esc_nic_peer *peer, __u8 flags)
{
	const __u64 *key = flags & ESC_NIC_KEY ? peer->key[1] : peer->key[0];
	__u32 has = flags & ESC_NIC_KEY ? ESC_NIC_HAS_KEY1 : ESC_NIC_HAS_KEY0;

	return ctl->flags & has && key[0] | key[1] ? key : NULL;
}

/* Of @words at @input. Without any key the tag is 0. False: the slot's key is missing. */
static __always_inline bool nic_tag(const struct esc_nic_control *ctl,
				    const struct esc_nic_peer *peer, __u8 flags, const void *input,
				    __u32 words, __u64 *tag)
{
	const __u64 *key = nic_key(ctl, peer, flags);
	struct esc_siphash h;

	*tag = 0;
	if (!key)
		return !(ctl->flags & NIC_KEYS);
	siphash_start(&h, key);
	siphash_words(&h, input, words);
	*tag = siphash_end(&h, (__u64)words * 8 << 56);
	return true;
}

/* The token of an inner packet @p at @at, between the addresses and with the shim of @input. */
static __noinline int nic_token(struct __sk_buff *skb, const struct nic_packet *p, __u32 at,
				struct esc_nic_signed_data *input, const struct esc_nic_peer *peer)
{
	const struct esc_nic_control *ctl = nic_ctl_get();
	__u64 token;

	if (!p || !input || !peer || !ctl)
		return -1;
	input->inner_src = p->src;
	input->inner_dst = p->dst;
	input->zero = 0;
	if (bpf_skb_load_bytes(skb, at + p->ip_bytes + sizeof(struct udphdr), input->bth,
			       sizeof(input->bth)))
		return -1;
	if (!nic_tag(ctl, peer, input->shim.flags, input, ESC_NIC_DATA_WORDS, &token))
		return -1;
	input->shim.token = token;
	return 0;
}

static __always_inline bool nic_reads(__u8 min_version)
{
	return min_version >= ESC_NIC_VERSION_OLDEST && min_version <= ESC_NIC_VERSION;
}

/* The format of what is sent to @address. */
static __always_inline __u8 nic_version_to(const struct esc_address *address, __u64 now_ns)
{
	const struct esc_nic_peer *peer;

	if (ESC_NIC_VERSION == ESC_NIC_VERSION_OLDEST)
		return ESC_NIC_VERSION;
	peer = bpf_map_lookup_elem(&nic_peers, address);
	if (!peer || peer->version < ESC_NIC_VERSION_OLDEST ||
	    (__s64)(now_ns - peer->number_ktime_ns) > (__s64)ESC_PEER_VERSION_NS)
		return ESC_NIC_VERSION_OLDEST;
	return peer->version < ESC_NIC_VERSION ? peer->version : ESC_NIC_VERSION;
}

/* Of a request or data that was verified, and is fresh. */
static __always_inline void nic_note_version(struct esc_nic_peer *peer, __u8 min_version,
					     __u8 version)
{
	peer->version = version > min_version ? version : min_version;
}

/* False: an old one. Verified already; it is remembered for the address. */
static __always_inline bool nic_is_fresh(struct esc_nic_peer *peer, __u32 number, __u64 now_ns)
{
	__s32 ahead = (__s32)(number - peer->number);

	if (ahead == -1)
		return true;
	if (ahead < 0 && (__s64)(now_ns - peer->number_ktime_ns) < (__s64)ESC_NIC_FORGET_NS)
		return false;
	peer->number = number;
	peer->number_ktime_ns = now_ns;
	return true;
}

#endif
