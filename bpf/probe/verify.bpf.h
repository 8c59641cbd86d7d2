/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a probe that came in is to be believed. The order of the checks is
 * the contract of the reasons, the cheap ones first: a forged packet costs at
 * most one SipHash, and nothing is written before its tag is known to be good.
 */
#ifndef ESC_BPF_PROBE_VERIFY_H
#define ESC_BPF_PROBE_VERIFY_H

#include "probe/probe.bpf.h"

#define ESC_REASON_NONE (-1)
#define PROBE_SECOND_NS 1000000000ll
#define PROBE_WINDOW 64

/* A probe in a frame. Lengths were checked against the frame. */
struct probe_frame {
	struct udphdr *udp;
	struct esc_bth *bth;
	union {
		struct esc_probe *probe;
		struct esc_path_probe *path; /* begins alike */
	};
	void *ethernet;
	void *ip; /* struct iphdr or esc_ipv6 */
	bool ipv6;
	__u64 ktime_ns; /* when it was seen to be a probe */
	__s64 local_ns; /* the same */
};

#define PROBE_SAME_PLACE(field)                                                                    \
	_Static_assert(__builtin_offsetof(struct esc_probe, field) ==                              \
			       __builtin_offsetof(struct esc_path_probe, field),                   \
		       "both kinds of probe are judged alike")
PROBE_SAME_PLACE(version);
PROBE_SAME_PLACE(flags);
PROBE_SAME_PLACE(sender);
PROBE_SAME_PLACE(target);
PROBE_SAME_PLACE(epoch);
PROBE_SAME_PLACE(echo_epoch);
PROBE_SAME_PLACE(sequence);

/* An IPv4 source is compared as ::ffff:a.b.c.d. */
static __always_inline bool probe_is_from(const struct probe_frame *f,
					  const struct esc_address *address)
{
	const __u32 *want = (const __u32 *)address->bytes;
	const __u32 *have = f->ip + offsetof(struct ipv6hdr, src);

	if (!(want[0] | want[1] | want[2] | want[3]))
		return true;
	if (f->ipv6)
		return !((have[0] ^ want[0]) | (have[1] ^ want[1]) | (have[2] ^ want[2]) |
			 (have[3] ^ want[3]));
	return !(want[0] | want[1] | (want[2] ^ bpf_htonl(0xffff)) |
		 (want[3] ^ ((struct iphdr *)f->ip)->src));
}

/* Without any key the tag is 0, and a stamp is all that tells our tc egress was there. */
static __always_inline bool probe_tag_is_good(const struct probe_frame *f,
					      const struct esc_fleet *own)
{
	const struct esc_probe *probe = f->probe;
	const __u64 *key = probe_key(own, probe->flags & ESC_PROBE_KEY);
	struct esc_siphash h;

	if (!probe->t1)
		return false;
	if (!(own->flags & PROBE_KEYS))
		return !probe->tag;
	if (!key)
		return false;
	siphash_start(&h, key);
	return probe->tag == probe_tag_from(&h, f->bth, 0);
}

/* Nobody reads what is heard, and what is said of our clock stands still. */
static __always_inline bool probe_daemon_gone(const struct probe_frame *f)
{
	const struct esc_control *word = control_get();
	__u64 beat_ns = word ? *(volatile const __u64 *)&word->heartbeat_local_ns : 0;

	return beat_ns && (__s64)(f->ktime_ns - beat_ns) > (__s64)ESC_DAEMON_GONE_NS;
}

/* NULL: no such member, or not of this mesh. */
static __always_inline struct esc_peer *probe_sender(const struct probe_frame *f)
{
	if (!(f->probe->flags & ESC_PROBE_PLANE) != !esc_plane)
		return NULL;
	return probe_peer(bpf_be64_to_cpu(f->probe->sender));
}

/* What comes before the sender. */
static __always_inline int probe_judge_us(const struct probe_frame *f, const struct esc_fleet *own)
{
	if (f->probe->version != ESC_PROBE_VERSION)
		return ESC_REASON_PROBE_VERSION;
	if (!(own->flags & ESC_FLEET_ANSWER))
		return ESC_REASON_PROBE_OFF;
	return probe_daemon_gone(f) ? ESC_REASON_PROBE_NO_DAEMON : ESC_REASON_NONE;
}

static __always_inline int probe_judge(const struct probe_frame *f, const struct esc_fleet *own,
				       struct esc_peer **peer)
{
	const struct esc_probe *probe = f->probe;
	int result = probe_judge_us(f, own);

	if (result != ESC_REASON_NONE)
		return result;
	*peer = probe_sender(f);
	if (!*peer || !probe_is_from(f, &(*peer)->address))
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (probe->target != bpf_cpu_to_be64(own->self))
		return ESC_REASON_PROBE_NOT_OURS;
	return probe_tag_is_good(f, own) ? ESC_REASON_NONE : ESC_REASON_PROBE_BAD_TAG;
}

static __always_inline bool window_has(const struct esc_replay_window *w, __u32 sequence)
{
	__s32 ahead = sequence - w->newest;

	if (!w->valid || ahead > 0)
		return false;
	return ahead <= -PROBE_WINDOW || w->seen & 1ull << -ahead;
}

/* True when @sequence had not been seen; it now has. The window is of every 2^@shift'th. */
static __always_inline bool window_take_every(struct esc_replay_window *w, __u32 sequence,
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

static __always_inline bool window_take(struct esc_replay_window *w, __u32 sequence)
{
	return window_take_every(w, sequence, 0);
}

/* A run of the peer's daemon that is newer than the one known counts its requests anew. */
static __always_inline int probe_take_epoch(const struct probe_frame *f, struct esc_peer *peer)
{
	__u64 epoch = bpf_be64_to_cpu(f->probe->epoch);

	if (epoch < peer->epoch)
		return ESC_REASON_PROBE_STALE_EPOCH;
	if (epoch > peer->epoch) {
		peer->requests.valid = 0;
		peer->epoch = epoch;
	}
	return ESC_REASON_NONE;
}

/* Answers are counted in seconds that begin with the first of them. */
static __always_inline bool probe_rate_allows(const struct probe_frame *f, __u64 *began_ns,
					      __u32 *answers, __u32 max_pps)
{
	if (!*began_ns || (__s64)(f->ktime_ns - *began_ns) >= PROBE_SECOND_NS) {
		*began_ns = f->ktime_ns;
		*answers = 0;
	}
	if (*answers >= max_pps)
		return false;
	++*answers;
	return true;
}

/* *@heard_ns: when the peer was heard before this. */
static __always_inline int probe_admit_request(const struct probe_frame *f, struct esc_peer *peer,
					       __u32 max_pps, __u64 *heard_ns)
{
	int result = probe_take_epoch(f, peer);

	if (result != ESC_REASON_NONE)
		return result;
	if (!window_take(&peer->requests, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	*heard_ns = peer->heard_local_ns;
	peer->heard_local_ns = f->ktime_ns;
	count(peer->requests_heard, 1);
	return probe_rate_allows(f, &peer->cap_local_ns, &peer->cap_count, max_pps)
		       ? ESC_REASON_NONE
		       : ESC_REASON_PROBE_RATE;
}

/*
 * A warmer bears the sequence of the request behind it: one whose request was seen came a
 * second time. It leaves nothing itself, not even that its sender began anew.
 */
static __always_inline int probe_admit_warmer(const struct probe_frame *f,
					      const struct esc_peer *peer)
{
	__u64 epoch = bpf_be64_to_cpu(f->probe->epoch);

	if (epoch < peer->epoch)
		return ESC_REASON_PROBE_STALE_EPOCH;
	if (epoch == peer->epoch && window_has(&peer->requests, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	return ESC_REASON_NONE;
}

static __always_inline int probe_admit_reply(const struct probe_frame *f,
					     const struct esc_fleet *own, struct esc_peer *peer)
{
	int result;

	if (f->probe->echo_epoch != bpf_cpu_to_be64(own->epoch))
		return ESC_REASON_PROBE_STALE_EPOCH;
	result = probe_take_epoch(f, peer);
	if (result != ESC_REASON_NONE)
		return result;
	if (peer->replies_epoch != own->epoch) {
		peer->replies_epoch = own->epoch;
		peer->replies.valid = 0;
	}
	if (!window_take(&peer->replies, bpf_ntohl(f->probe->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	peer->heard_local_ns = f->ktime_ns;
	peer->replied_local_ns = f->ktime_ns;
	count(peer->replies_heard, 1);
	return ESC_REASON_NONE;
}

#endif
