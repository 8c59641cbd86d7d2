/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by requests and replies: keys, tags, ages, our own clock view and anchor. */
#ifndef ESC_BPF_PROBE_PROBE_H
#define ESC_BPF_PROBE_PROBE_H

#include "lib/count.bpf.h"
#include "lib/localtime.bpf.h"
#include "lib/siphash.bpf.h"

#define PROBE_UDP_BYTES (sizeof(struct udphdr) + ESC_PROBE_DATAGRAM_BYTES)
#define PROBE_KEYS (ESC_FLEET_HAS_KEY0 | ESC_FLEET_HAS_KEY1)

/* What the tag covers, from the BTH on, in words of SipHash and what is left of it. */
#define PROBE_SIGNED_BYTES (sizeof(struct esc_bth) + __builtin_offsetof(struct esc_probe, tag))
#define PROBE_SIGNED_WORDS (PROBE_SIGNED_BYTES / 8)
_Static_assert(PROBE_SIGNED_BYTES % 8 == 4, "four bytes are left for the last word");
/* First word of a timestamp: all before it can be hashed before the clock is read. */
#define PROBE_WORD_OF(field)                                                                       \
	((sizeof(struct esc_bth) + __builtin_offsetof(struct esc_probe, field)) / 8)

static __always_inline struct esc_fleet *probe_fleet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fleet, &zero);
}

/* A member, by any of its NICs. */
static __always_inline struct esc_peer *probe_peer(__u64 id)
{
	struct esc_peer_key key = {.id = id, .plane = esc_plane};

	return bpf_map_lookup_elem(&peers, &key);
}

/* The edge of the mesh from this port to NIC @nic of a member; NULL: there is none. */
static __always_inline struct esc_peer *probe_edge(__u64 id, __u32 nic)
{
	struct esc_peer_key key = {
		.id = id, .plane = esc_plane, .port = (__u8)(esc_port_index + 1), .nic = nic};

	return bpf_map_lookup_elem(&peers, &key);
}

static __always_inline __u32 probe_nic_of(const struct esc_address *address)
{
	const __u32 *word = (const __u32 *)address->bytes;

	return esc_nic_number(word[0], word[1], word[2], word[3]);
}

/* The format of a packet: this release reads it. */
static __always_inline bool probe_reads(__u8 min_version)
{
	return min_version >= ESC_PROBE_VERSION_OLDEST && min_version <= ESC_PROBE_VERSION;
}

/* The newest version that the sender of a packet with a valid tag reads. */
static __always_inline __u8 probe_newest(__u8 min_version, __u8 version, bool reply)
{
	/* In version 2 the field is what the request had there. */
	if (reply && min_version < ESC_PROBE_VERSION_PAIR)
		return min_version;
	return version > min_version ? version : min_version;
}

/* @peer: whose packet it is, no replay. */
static __always_inline void probe_note_version(struct esc_peer *peer, __u8 newest, __u64 now_ns)
{
	peer->version = newest;
	peer->version_ktime_ns = now_ns;
}

/* The slot of the key that makes our tags. */
static __always_inline bool probe_own_slot(const struct esc_fleet *own)
{
	return own->flags & ESC_FLEET_USE_KEY1;
}

/* The format of packets to @peer; NULL: not a member. */
static __always_inline __u8 probe_version_to(const struct esc_fleet *own,
					     const struct esc_peer *peer, __u64 now_ns)
{
	__u32 shared = probe_own_slot(own) ? ESC_FLEET_SHARED1 : ESC_FLEET_SHARED0;
	__u8 oldest = ESC_PROBE_VERSION_OLDEST;

	if ((own->flags & PROBE_KEYS) && !(own->flags & shared) && oldest < ESC_PROBE_VERSION_PAIR)
		oldest = ESC_PROBE_VERSION_PAIR;
	if (!peer || peer->version < oldest ||
	    (__s64)(now_ns - peer->version_ktime_ns) > (__s64)ESC_PEER_VERSION_NS)
		return oldest;
	return peer->version < ESC_PROBE_VERSION ? peer->version : ESC_PROBE_VERSION;
}

/*
 * The key of tags between us and @peer (NULL: not a member) in the format @version. False: there is
 * none, and a tag cannot be made or is not valid.
 */
static __always_inline bool probe_key(const struct esc_fleet *own, const struct esc_peer *peer,
				      __u8 version, bool second, __u64 key[2])
{
	if (!(own->flags & (second ? ESC_FLEET_HAS_KEY1 : ESC_FLEET_HAS_KEY0)))
		return false;
	if (version < ESC_PROBE_VERSION_PAIR) {
		key[0] = own->key[second][0];
		key[1] = own->key[second][1];
		return own->flags & (second ? ESC_FLEET_SHARED1 : ESC_FLEET_SHARED0);
	}
	if (!peer || !(peer->key_flags & (second ? ESC_FLEET_HAS_KEY1 : ESC_FLEET_HAS_KEY0)))
		return false;
	key[0] = peer->key[second][0];
	key[1] = peer->key[second][1];
	return true;
}

/* The last word is half a word of data and the number of bytes. */
static __always_inline __u64 probe_tag_end(struct esc_siphash *h, const __u32 *at, __u32 words,
					   __u32 bytes)
{
	siphash_words(h, at, words);
	return siphash_end(h, at[words * 2] | (__u64)bytes << 56);
}

/* Continues at word @from, with all before it in @h, to the tag. */
static __always_inline __u64 probe_tag_from(struct esc_siphash *h, const void *bth, __u32 from)
{
	return probe_tag_end(h, (const __u32 *)bth + from * 2, PROBE_SIGNED_WORDS - from,
			     PROBE_SIGNED_BYTES);
}

/* As on the wire; 0 for @rx_ns means never. */
static __always_inline __be32 probe_age_us(__u64 now_ns, __u64 rx_ns)
{
	__u64 age_us;

	if (!rx_ns)
		return bpf_htonl(ESC_PROBE_NEVER);
	/* Another CPU may have received a packet since. */
	if (rx_ns >= now_ns)
		return 0;
	age_us = (now_ns - rx_ns) / 1000;
	return bpf_htonl(age_us < ESC_PROBE_NEVER ? age_us : ESC_PROBE_NEVER - 1);
}

/*
 * False, and all zero: there is no view, or it was replaced while it was copied. In the first case
 * nic_report stays: a host that restarts reports that.
 */
static __always_inline bool probe_put_view(struct esc_probe_view *to, const struct esc_fleet *f)
{
	const volatile __u64 *current = &f->view_generation;
	__u64 generation = *current;
	__u8 report;

	smp_rmb();
	*to = f->view[generation & 1];
	smp_rmb();
	report = *current == generation ? to->nic_report : 0;
	if (*current == generation && to->state)
		return true;
	__builtin_memset(to, 0, sizeof(*to));
	to->nic_report = report;
	return false;
}

/* All zero: TAI is not known, or the anchor was replaced while it was copied. */
static __always_inline void probe_put_anchor(struct esc_probe_anchor *to, const struct esc_fleet *f)
{
	const volatile __u64 *current = &f->anchor_generation;
	__u64 generation = *current;

	smp_rmb();
	*to = f->anchor[generation & 1];
	smp_rmb();
	if (*current != generation || !to->sequence)
		__builtin_memset(to, 0, sizeof(*to));
}

/* Our mesh, and the key of our tags. */
static __always_inline __u8 probe_own_flags(const struct esc_fleet *f)
{
	__u8 flags = esc_plane ? ESC_PROBE_PLANE : 0;

	if (probe_own_slot(f))
		flags |= ESC_PROBE_KEY;
	return flags;
}

/*
 * The fields of the host that fills in the packet. @kept: bits of the flags that are left
 * unchanged. @min_version: of the format.
 */
static __always_inline void probe_put_self(struct esc_probe *probe, const struct esc_fleet *f,
					   __u8 kept, __u8 min_version)
{
	__u8 flags = (probe->flags & kept) | probe_own_flags(f);

	probe->min_version = min_version;
	probe->version = ESC_PROBE_VERSION;
	if (probe_put_view(&probe->view, f))
		flags |= ESC_PROBE_VIEW;
	probe_put_anchor(&probe->anchor, f);
	probe->flags = flags;
	probe->sender = bpf_cpu_to_be64(f->self);
	probe->epoch = bpf_cpu_to_be64(f->epoch);
}

#endif
