/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Verification of a received probe. The order of the checks defines the reasons, the cheap ones
 * first: a forged packet costs at most one SipHash, and nothing is written before its tag is
 * verified.
 */
#ifndef ESC_BPF_PROBE_VERIFY_H
#define ESC_BPF_PROBE_VERIFY_H

#include "probe/probe.bpf.h"

#define PROBE_SECOND_NS 1000000000ll
#define PROBE_WINDOW 64

/* A probe in a frame. Lengths were checked against the frame. */
struct probe_frame {
	struct udphdr *udp;
	struct esc_bth *bth;
	union {
		struct esc_probe *probe;
		struct esc_path_probe *path; /* has the same first fields */
	};
	struct ethhdr *ethernet;
	void *ip; /* struct iphdr or esc_ipv6 */
	bool ipv6;
	__u64 ktime_ns; /* rx timestamp, CLOCK_MONOTONIC */
	__s64 local_ns; /* the same in local time */
};

#define PROBE_SAME_OFFSET(field)                                                                   \
	_Static_assert(__builtin_offsetof(struct esc_probe, field) ==                              \
			       __builtin_offsetof(struct esc_path_probe, field),                   \
		       "both kinds of probe are verified alike")
PROBE_SAME_OFFSET(min_version);
PROBE_SAME_OFFSET(version);
PROBE_SAME_OFFSET(flags);
PROBE_SAME_OFFSET(sender);
PROBE_SAME_OFFSET(target);
PROBE_SAME_OFFSET(epoch);
PROBE_SAME_OFFSET(echo_epoch);
PROBE_SAME_OFFSET(sequence);

/* An IPv4 source is compared as ::ffff:a.b.c.d. */
static __always_inline bool probe_source_matches(const struct probe_frame *f,
						 const struct esc_address *address)
{
	const __u32 *want = (const __u32 *)address->bytes;
	const __u32 *have = f->ip + offsetof(struct ipv6hdr, saddr);

	if (!(want[0] | want[1] | want[2] | want[3]))
		return true;
	if (f->ipv6)
		return !((have[0] ^ want[0]) | (have[1] ^ want[1]) | (have[2] ^ want[2]) |
			 (have[3] ^ want[3]));
	return !(want[0] | want[1] | (want[2] ^ bpf_htonl(0xffff)) |
		 (want[3] ^ ((struct iphdr *)f->ip)->saddr));
}

/* The NIC that sent the packet. */
static __always_inline __u32 probe_source_nic(const struct probe_frame *f)
{
	const __u32 *word = f->ip + offsetof(struct ipv6hdr, saddr);

	if (f->ipv6)
		return esc_nic_number(word[0], word[1], word[2], word[3]);
	return esc_nic_number(0, 0, bpf_htonl(0xffff), ((struct iphdr *)f->ip)->saddr);
}

/* Whether the source is any address of the member that the packet names. */
static __always_inline bool probe_source_is_member(const struct probe_frame *f)
{
	const __u32 *from = f->ip + offsetof(struct ipv6hdr, saddr);
	const struct esc_peer_address *entry;
	__u32 word[4] = {0, 0, bpf_htonl(0xffff), 0};

	if (f->ipv6) {
		word[0] = from[0];
		word[1] = from[1];
		word[2] = from[2];
		word[3] = from[3];
	} else {
		word[3] = ((struct iphdr *)f->ip)->saddr;
	}
	entry = bpf_map_lookup_elem(&peer_addresses, word);
	return entry && entry->id == bpf_be64_to_cpu(f->probe->sender);
}

/* Without any key the tag is 0, and only a timestamp shows that a tc egress of ours sent it. */
static __always_inline bool probe_tag_is_valid(const struct probe_frame *f,
					       const struct esc_fleet *own,
					       const struct esc_peer *peer)
{
	const struct esc_probe *probe = f->probe;
	struct esc_siphash h;
	__u64 key[2] = {};

	if (!probe->t1)
		return false;
	if (!(own->flags & PROBE_KEYS))
		return !probe->tag;
	if (!probe_key(own, peer, probe->min_version, probe->flags & ESC_PROBE_KEY, key))
		return false;
	siphash_start(&h, key);
	return probe->tag == probe_tag_from(&h, f->bth, 0);
}

/* Nothing reads the records, and our clock view is out of date. */
static __always_inline bool probe_heartbeat_timed_out(const struct probe_frame *f)
{
	const struct esc_control *ctl = control_get();
	__u64 heartbeat_ns = ctl ? *(volatile const __u64 *)&ctl->heartbeat_local_ns : 0;

	return heartbeat_ns &&
	       (__s64)(f->ktime_ns - heartbeat_ns) > (__s64)ESC_PROBE_HEARTBEAT_TIMEOUT_NS;
}

/* NULL: no such member, or not of this mesh. */
static __always_inline struct esc_peer *probe_sender(const struct probe_frame *f)
{
	if (!(f->probe->flags & ESC_PROBE_PLANE) != !esc_plane)
		return NULL;
	return probe_peer(bpf_be64_to_cpu(f->probe->sender));
}

/* The checks before that of the sender. */
static __always_inline int probe_verify_common(const struct probe_frame *f,
					       const struct esc_fleet *own)
{
	if (!probe_reads(f->probe->min_version))
		return ESC_REASON_PROBE_VERSION;
	if (!(own->flags & ESC_FLEET_REPLY))
		return ESC_REASON_PROBE_OFF;
	return probe_heartbeat_timed_out(f) ? ESC_REASON_PROBE_NO_DAEMON : ESC_REASON_NONE;
}

/*
 * The edge to the NIC that sent the packet; @member: the member itself. Without an edge, as for a
 * query, it is the same.
 */
static __always_inline struct esc_peer *probe_sender_edge(const struct probe_frame *f,
							  struct esc_peer **member)
{
	struct esc_peer *edge;

	*member = probe_sender(f);
	if (!*member)
		return NULL;
	edge = probe_edge(bpf_be64_to_cpu(f->probe->sender), probe_source_nic(f));
	return edge ? edge : *member;
}

/* What is known of the member, whatever NIC it is from; receipts ask for it. */
static __always_inline void probe_note_member(struct esc_peer *member, const struct esc_peer *edge)
{
	member->received_local_ns = edge->received_local_ns;
	member->version = edge->version;
	member->version_ktime_ns = edge->version_ktime_ns;
	if (member->epoch == edge->epoch)
		return;
	member->requests.valid = 0;
	member->epoch = edge->epoch;
	member->epoch_ktime_ns = edge->epoch_ktime_ns;
	if (edge->epoch_max > member->epoch_max)
		member->epoch_max = edge->epoch_max;
}

static __always_inline int probe_verify(const struct probe_frame *f, const struct esc_fleet *own,
					struct esc_peer **peer, struct esc_peer **member)
{
	const struct esc_probe *probe = f->probe;
	int result = probe_verify_common(f, own);

	if (result)
		return result;
	*peer = probe_sender_edge(f, member);
	if (!*peer || !(probe_source_matches(f, &(*peer)->address) ||
			(*peer == *member && probe_source_is_member(f))))
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (probe->target != bpf_cpu_to_be64(own->self))
		return ESC_REASON_PROBE_NOT_OURS;
	return probe_tag_is_valid(f, own, *peer) ? ESC_REASON_NONE : ESC_REASON_PROBE_BAD_TAG;
}

static __always_inline bool window_has(const struct esc_replay_window *w, __u32 sequence)
{
	__s32 ahead = sequence - w->newest;

	if (!w->valid || ahead > 0)
		return false;
	return ahead <= -PROBE_WINDOW || w->seen & 1ull << -ahead;
}

/* False: @sequence is in the window already. The window is of every 2^@shift'th. */
static __always_inline bool window_add_every(struct esc_replay_window *w, __u32 sequence,
					     __u32 shift)
{
	__s32 ahead = (__s32)(sequence - w->newest) >> shift;
	__u64 bit;

	if (!w->valid || ahead >= PROBE_WINDOW) {
		w->seen = 1;
	} else if (ahead > 0) {
		w->seen = w->seen << ahead | 1;
	} else {
		if (ahead <= -PROBE_WINDOW)
			return false;
		bit = 1ull << -ahead;
		if (w->seen & bit)
			return false;
		w->seen |= bit;
		return true;
	}
	w->newest = sequence;
	w->valid = 1;
	return true;
}

static __always_inline bool window_add(struct esc_replay_window *w, __u32 sequence)
{
	return window_add_every(w, sequence, 0);
}

static __always_inline bool probe_epoch_is_stale(const struct esc_peer *peer, __u64 epoch)
{
	return epoch < peer->epoch || (epoch > peer->epoch && epoch <= peer->epoch_max);
}

#define PROBE_NO_REPLY (-1ll)

/*
 * A newer run of the peer's daemon restarts the sequence of its requests. Its epoch is the highest,
 * except after a run with a date in the future. Then a reply shows that it is newer: its request
 * was sent after the first packet of the epoch in force had arrived, so the peer was in that run
 * before it replied. A replay cannot: its request is older than that, or it is in the window. The
 * epochs up to epoch_max stay stale without such a reply, or else a replay of the run with the
 * wrong date would be accepted. @request_age_ns: since that request was sent, or PROBE_NO_REPLY.
 */
static __always_inline int probe_update_epoch(const struct probe_frame *f, struct esc_peer *peer,
					      __s64 request_age_ns)
{
	__u64 epoch = bpf_be64_to_cpu(f->probe->epoch);
	__s64 epoch_age_ns = f->ktime_ns - peer->epoch_ktime_ns;

	if (epoch == peer->epoch)
		return ESC_REASON_NONE;
	if (probe_epoch_is_stale(peer, epoch) &&
	    (request_age_ns < 0 || request_age_ns >= epoch_age_ns))
		return ESC_REASON_PROBE_STALE_EPOCH;
	peer->requests.valid = 0;
	peer->epoch = epoch;
	peer->epoch_ktime_ns = f->ktime_ns;
	if (epoch > peer->epoch_max)
		peer->epoch_max = epoch;
	return ESC_REASON_NONE;
}

/* Replies are limited for each second, which begins with the first of them. */
static __always_inline bool probe_rate_limit(const struct probe_frame *f, __u64 *begin_ns,
					     __u32 *replies, __u32 max_pps)
{
	if (!*begin_ns || (__s64)(f->ktime_ns - *begin_ns) >= PROBE_SECOND_NS) {
		*begin_ns = f->ktime_ns;
		*replies = 0;
	}
	if (*replies >= max_pps)
		return false;
	++*replies;
	return true;
}

/* *@last_rx_ns: when a packet of the peer arrived before this one. */
static __always_inline int probe_accept_request(const struct probe_frame *f, struct esc_peer *peer,
						__u32 max_pps, __u64 *last_rx_ns)
{
	int result = probe_update_epoch(f, peer, PROBE_NO_REPLY);

	if (result)
		return result;
	if (!window_add(&peer->requests, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	probe_note_version(peer, probe_newest(f->probe->min_version, f->probe->version, false),
			   f->ktime_ns);
	*last_rx_ns = peer->received_local_ns;
	peer->received_local_ns = f->ktime_ns;
	count(peer->requests_received, 1);
	return probe_rate_limit(f, &peer->cap_local_ns, &peer->cap_count, max_pps)
		       ? ESC_REASON_NONE
		       : ESC_REASON_PROBE_RATE;
}

/*
 * A warm-up packet has the sequence of the request behind it: if that one has arrived, this is
 * a replay. It changes no state itself, not even the epoch of its sender.
 */
static __always_inline int probe_accept_warmup(const struct probe_frame *f,
					       const struct esc_peer *peer)
{
	__u64 epoch = bpf_be64_to_cpu(f->probe->epoch);

	if (probe_epoch_is_stale(peer, epoch))
		return ESC_REASON_PROBE_STALE_EPOCH;
	if (epoch == peer->epoch && window_has(&peer->requests, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	return ESC_REASON_NONE;
}

static __always_inline int probe_accept_reply(const struct probe_frame *f,
					      const struct esc_fleet *own, struct esc_peer *peer)
{
	int result;

	if (f->probe->echo_epoch != bpf_cpu_to_be64(own->epoch))
		return ESC_REASON_PROBE_STALE_EPOCH;
	result = probe_update_epoch(f, peer, f->local_ns - (__s64)bpf_be64_to_cpu(f->probe->t1));
	if (result)
		return result;
	if (peer->replies_epoch != own->epoch) {
		peer->replies_epoch = own->epoch;
		peer->replies.valid = 0;
	}
	if (!window_add(&peer->replies, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	probe_note_version(peer, probe_newest(f->probe->min_version, f->probe->version, true),
			   f->ktime_ns);
	peer->received_local_ns = f->ktime_ns;
	peer->replied_local_ns = f->ktime_ns;
	count(peer->replies_received, 1);
	return ESC_REASON_NONE;
}

#endif
