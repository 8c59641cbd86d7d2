/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Path probes that come in: requests are answered in place, replies end in the ring `path_records`,
 * and the words of both tell which of our lanes reach the peer.
 */
#ifndef ESC_BPF_PROBE_PATH_REPLY_H
#define ESC_BPF_PROBE_PATH_REPLY_H

#include "probe/path.bpf.h"
#include "probe/reply.bpf.h"

/* Source and destination as the packet has them. */
static __always_inline void path_read_way(const struct probe_frame *f, struct esc_path_key *way)
{
	__u64 *to = (__u64 *)way;
	const struct iphdr *ip = f->ip;
	const __u32 *from = f->ip + offsetof(struct ipv6hdr, src);

	if (!f->ipv6) {
		to[0] = 0;
		to[1] = (__u64)ip->src << 32 | bpf_htonl(0xffff);
		to[2] = 0;
		to[3] = (__u64)ip->dst << 32 | bpf_htonl(0xffff);
		return;
	}
	to[0] = from[0] | (__u64)from[1] << 32;
	to[1] = from[2] | (__u64)from[3] << 32;
	to[2] = from[4] | (__u64)from[5] << 32;
	to[3] = from[6] | (__u64)from[7] << 32;
}

static __always_inline bool path_tag_is_good(const struct probe_frame *f,
					     const struct esc_fleet *own,
					     const struct esc_path_key *way)
{
	const __u64 *key = probe_key(own, f->path->flags & ESC_PROBE_KEY);
	struct esc_siphash h;

	if (!f->path->t1_ktime_ns)
		return false;
	if (!(own->flags & PROBE_KEYS))
		return !f->path->tag;
	if (!key)
		return false;
	path_tag_start(&h, key, way, f->bth, 0);
	return f->path->tag == path_tag_from(&h, f->bth, 0);
}

/* As probe_judge(), but for the sender's address: any that is its. */
static __always_inline int path_judge(const struct probe_frame *f, const struct esc_fleet *own,
				      const struct esc_path_key *way, struct esc_peer **peer)
{
	const struct esc_peer_address *where;
	int result = probe_judge_us(f, own);

	/* Without a daemon a request is not answered, but it is heard: path_take_request(). */
	if (result != ESC_REASON_NONE && (result != ESC_REASON_PROBE_NO_DAEMON ||
				     f->bth->opcode != ESC_PROBE_OPCODE_PATH_REQUEST))
		return result;
	*peer = probe_sender(f);
	where = *peer ? bpf_map_lookup_elem(&peer_addresses, &way->src) : NULL;
	if (!where || where->id != bpf_be64_to_cpu(f->path->sender))
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (f->path->target != bpf_cpu_to_be64(own->self))
		return ESC_REASON_PROBE_NOT_OURS;
	if (!path_tag_is_good(f, own, way))
		return ESC_REASON_PROBE_BAD_TAG;
	return f->udp->src == f->path->sport ? ESC_REASON_NONE : ESC_REASON_PROBE_PORT;
}

/* --- what was heard --- */

static const struct esc_path_heard path_heard_empty;

/* NULL: no room. The peer's epoch is the newest that is known. */
static __noinline struct esc_path_heard *path_hear(const struct esc_path_key *way, __u64 peer,
						   __u64 peer_epoch, __u64 own_epoch)
{
	struct esc_path_heard *heard = bpf_map_lookup_elem(&path_heard, way);

	if (!heard || heard->peer != peer || heard->peer_epoch != peer_epoch) {
		bpf_map_update_elem(&path_heard, way, &path_heard_empty, BPF_ANY);
		heard = bpf_map_lookup_elem(&path_heard, way);
		if (!heard)
			return NULL;
		heard->peer = peer;
		heard->peer_epoch = peer_epoch;
	}
	if (heard->own_epoch != own_epoch) {
		__builtin_memset(&heard->replies, 0, sizeof(heard->replies));
		heard->own_epoch = own_epoch;
	}
	return heard;
}

/* True when @sequence had not come on that lane; it now has. */
static __noinline bool path_window_take(struct esc_path_window *w, __u32 lane, __u32 sequence)
{
	if (!w)
		return false;
	if (lane >= ESC_PATH_LANES_MAX)
		return window_take_every(&w->tried[sequence % ESC_PATH_WINDOWS], sequence, 3);
	if ((w->valid >> lane & 1) && (__s32)(sequence - w->newest[lane]) <= 0)
		return false;
	w->newest[lane] = sequence;
	w->valid |= 1u << lane;
	return true;
}
_Static_assert(ESC_PATH_WINDOWS == 1 << 3, "three bits of the sequence choose the window");

/* --- what the peer says --- */

/*
 * What the peer says of the lane with @sport, in nanoseconds. False: nothing. Of another port
 * under the same number it heard something, so of this one it did not.
 */
static __always_inline bool path_read_word(const struct path_words *words, __u32 i, __u16 sport,
					   __u64 *age_ns)
{
	__u32 age_us = bpf_ntohl(words->age_us[i]);
	__u16 named = bpf_ntohs(words->sport[i]);

	if (!named && age_us != ESC_PROBE_NEVER)
		return false;
	/* One less than never stands for all that is longer than it. */
	if (named != sport || age_us >= ESC_PROBE_NEVER - 1)
		*age_ns = PATHLIVE_NEVER;
	else
		*age_ns = age_us * 1000ull;
	return true;
}

/* What a packet says, taken out of it. */
struct path_said {
	struct path_words words;
	struct esc_path_key way; /* from us to the peer */
	__u64 peer, epoch;
	__u64 peer_ns; /* the peer's CLOCK_MONOTONIC when it said so */
	__u64 now_ns;  /* ours when it came */
	__u32 slot;    /* found: of `paths`, for the record */
	__u16 sport;
	__u8 lane;
	bool reply;
};
_Static_assert(sizeof(struct path_said) <= sizeof(((struct esc_path_cpu *)0)->message),
	       "what is said has room");

static __always_inline void path_take_words(struct esc_paths *slot, const struct path_said *said)
{
	__u64 age_ns;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATH_LANES_MAX; i++) {
		struct esc_lane *lane = &slot->lanes[i];

		if (lane->sport && path_read_word(&said->words, i, lane->sport, &age_ns))
			pathlive_word(&lane->live, said->peer_ns, age_ns, said->now_ns);
	}
}

static __always_inline void path_begin_anew(struct esc_paths *slot, __u64 epoch)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATH_LANES_MAX; i++)
		slot->lanes[i].live = (struct pathlive_lane){};
	slot->peer_epoch = epoch;
}

/* Not static: so the verifier looks at it once, and not for each way that leads here. */
__noinline int path_listen(struct path_said *said)
{
	struct esc_paths *slot;
	struct esc_lane *lane;

	if (!said)
		return 0;
	slot = path_slot(&said->way, said->peer, &said->slot);
	if (!slot)
		return 0;
	if (slot->peer_epoch != said->epoch)
		path_begin_anew(slot, said->epoch);
	path_take_words(slot, said);
	if (!said->reply || said->lane >= ESC_PATH_LANES_MAX)
		return 0;
	lane = &slot->lanes[said->lane];
	if (lane->sport == said->sport)
		count(lane->replies, 1);
	return 0;
}

static __always_inline struct path_said *path_hear_out(const struct probe_frame *f,
						       struct esc_path_cpu *cpu, bool reply)
{
	struct path_said *said = (struct path_said *)cpu->message;

	__builtin_memcpy(&said->words, f->path->age_us, sizeof(said->words));
	said->way = cpu->back;
	said->peer = bpf_be64_to_cpu(f->path->sender);
	said->epoch = bpf_be64_to_cpu(f->path->epoch);
	said->peer_ns = bpf_be64_to_cpu(f->path->ktime_ns);
	said->now_ns = f->ktime_ns;
	said->sport = bpf_ntohs(f->path->sport);
	said->lane = f->path->lane;
	said->reply = reply;
	path_listen(said);
	return said;
}

/* --- requests --- */

/* All that is behind t3 is hashed after it. t3 runs at our own rate from t2. */
static __always_inline void path_finish_reply(const struct probe_frame *f,
					      const struct esc_fleet *own,
					      const struct esc_path_key *back)
{
	const __u64 *key = probe_own_key(own);
	__u64 t2_ns = bpf_be64_to_cpu(f->path->t2_fabric_ns);
	struct esc_siphash h;

	f->path->t3_fabric_ns = 0;
	f->path->tag = 0;
	if (key)
		path_tag_start(&h, key, back, f->bth, PATH_WORD_OF(t3_fabric_ns));
	if (f->path->flags & ESC_PATH_ANSWER_TIMED)
		f->path->t3_fabric_ns = bpf_cpu_to_be64(t2_ns + (bpf_ktime_get_ns() - f->ktime_ns));
	if (key)
		f->path->tag = path_tag_from(&h, f->bth, PATH_WORD_OF(t3_fabric_ns));
}

static __always_inline void path_answer(const struct probe_frame *f, const struct esc_fleet *own,
					struct esc_path_cpu *cpu,
					const struct esc_path_heard *heard)
{
	struct path_words *words = (struct path_words *)cpu->message;
	struct esc_path_probe *probe = f->path;
	struct esc_fabric_time time;

	probe_turn(f, ESC_PROBE_OPCODE_PATH_REPLY);
	path_put_words(words, heard, f->ktime_ns);
	__builtin_memcpy(probe->age_us, words, sizeof(*words));
	probe->flags = (probe->flags & ESC_PATH_TIMED) | probe_own_flags(own);
	probe->target = probe->sender;
	probe->echo_epoch = probe->epoch;
	probe->sender = bpf_cpu_to_be64(own->self);
	probe->epoch = bpf_cpu_to_be64(own->epoch);
	probe->ktime_ns = bpf_cpu_to_be64(f->ktime_ns);
	probe->t2_fabric_ns = 0;
	probe->t2_bound_ns = 0;
	if (esc_fabric_at(f->local_ns, &time)) {
		probe->flags |= ESC_PATH_ANSWER_TIMED;
		probe->t2_fabric_ns = bpf_cpu_to_be64(time.fabric_ns);
		probe->t2_bound_ns = bpf_htonl(saturate_ns(time.bound_ns));
	}
	path_finish_reply(f, own, &cpu->back);
}

static __always_inline int path_take_request(const struct probe_frame *f,
					     const struct esc_fleet *own, struct esc_path_cpu *cpu,
					     struct esc_path_heard *heard)
{
	__u32 lane = f->path->lane;

	if (!path_window_take(&heard->requests, lane, bpf_ntohl(f->path->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	heard->ktime_ns = f->ktime_ns;
	if (lane < ESC_PATH_LANES_MAX) {
		heard->heard_ktime_ns[lane] = f->ktime_ns;
		heard->sport[lane] = bpf_ntohs(f->path->sport);
	}
	/*
	 * Who was deaf for a while would say of all lanes but the first that comes in again
	 * that they were not heard for so long, and they would die of it.
	 */
	if (probe_daemon_gone(f))
		return ESC_REASON_PROBE_NO_DAEMON;
	path_hear_out(f, cpu, false);
	if (!probe_rate_allows(f, &heard->cap_ktime_ns, &heard->cap_count, own->path_max_pps))
		return ESC_REASON_PROBE_RATE;
	path_answer(f, own, cpu, heard);
	return ESC_REASON_NONE;
}

/* --- replies --- */

/* What the stamps say. Without fabric time at both ends of a way it has no delay. */
static __always_inline void path_measure(struct esc_path_record *r, const struct probe_frame *f)
{
	const struct esc_path_probe *probe = f->path;
	__u64 t2 = bpf_be64_to_cpu(probe->t2_fabric_ns), t3 = bpf_be64_to_cpu(probe->t3_fabric_ns);
	__u64 there_ns = probe->flags & ESC_PATH_ANSWER_TIMED ? t3 - t2 : 0;
	__u64 bound_ns = bpf_ntohl(probe->t2_bound_ns);
	struct esc_fabric_time now;

	r->rtt_ns = f->ktime_ns - bpf_be64_to_cpu(probe->t1_ktime_ns);
	if ((__s64)there_ns > 0 && there_ns < r->rtt_ns)
		r->rtt_ns -= there_ns;
	r->flags = 0;
	r->out_ns = 0;
	r->out_bound_ns = 0;
	r->in_ns = 0;
	r->in_bound_ns = 0;
	if (!(probe->flags & ESC_PATH_ANSWER_TIMED))
		return;
	if (probe->flags & ESC_PATH_TIMED) {
		r->flags |= ESC_PATH_TIMED;
		r->out_ns = t2 - bpf_be64_to_cpu(probe->t1_fabric_ns);
		r->out_bound_ns = saturate_ns(bpf_ntohl(probe->t1_bound_ns) + bound_ns);
	}
	if (!esc_fabric_at(f->local_ns, &now))
		return;
	r->flags |= ESC_PATH_ANSWER_TIMED;
	r->in_ns = now.fabric_ns - t3;
	r->in_bound_ns = saturate_ns(now.bound_ns + bound_ns);
}

/* False: no room. Nobody is woken: the daemon comes by itself. */
static __always_inline bool path_record(const struct probe_frame *f, __u32 slot)
{
	struct esc_path_record *r = bpf_ringbuf_reserve(&path_records, sizeof(*r), 0);

	if (!r)
		return false;
	r->slot = slot;
	r->sequence = bpf_ntohl(f->path->sequence);
	r->ktime_ns = f->ktime_ns;
	path_measure(r, f);
	r->sport = bpf_ntohs(f->path->sport);
	r->lane = f->path->lane;
	r->hop_limit =
		f->ipv6 ? ((struct ipv6hdr *)f->ip)->hop_limit : ((struct iphdr *)f->ip)->ttl;
	r->port = esc_port_index;
	r->reserved[0] = 0;
	r->reserved[1] = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline int path_take_reply(const struct probe_frame *f, struct esc_path_cpu *cpu,
					   struct esc_path_heard *heard)
{
	__u32 lane = f->path->lane;

	if (!path_window_take(&heard->replies, lane, bpf_ntohl(f->path->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	heard->ktime_ns = f->ktime_ns;
	return path_record(f, path_hear_out(f, cpu, true)->slot) ? ESC_REASON_NONE
								 : ESC_REASON_PROBE_RING_FULL;
}

static __always_inline int path_admit(const struct probe_frame *f, const struct esc_fleet *own,
				      struct esc_path_key *way, struct esc_path_heard **heard)
{
	struct esc_peer *peer = NULL;
	int result = path_judge(f, own, way, &peer);

	if (result != ESC_REASON_NONE || !peer)
		return result;
	if (f->bth->opcode == ESC_PROBE_OPCODE_PATH_REPLY &&
	    f->path->echo_epoch != bpf_cpu_to_be64(own->epoch))
		return ESC_REASON_PROBE_STALE_EPOCH;
	result = probe_take_epoch(f, peer);
	if (result != ESC_REASON_NONE)
		return result;
	*heard = path_hear(way, bpf_be64_to_cpu(f->path->sender), bpf_be64_to_cpu(f->path->epoch),
			   own->epoch);
	return *heard ? ESC_REASON_NONE : ESC_REASON_PROBE_TABLE_FULL;
}

/* XDP_TX: it was made a reply. */
static __noinline int path_take_frame(const struct probe_frame *f, const struct esc_fleet *own,
				      struct esc_path_cpu *cpu, int *result)
{
	struct esc_path_heard *heard = NULL;

	path_read_way(f, &cpu->way);
	path_turn_key(&cpu->back, &cpu->way);
	*result = path_admit(f, own, &cpu->way, &heard);
	if (*result != ESC_REASON_NONE || !heard)
		return XDP_DROP;
	if (f->bth->opcode == ESC_PROBE_OPCODE_PATH_REPLY) {
		*result = path_take_reply(f, cpu, heard);
		return XDP_DROP;
	}
	*result = path_take_request(f, own, cpu, heard);
	return *result == ESC_REASON_NONE ? XDP_TX : XDP_DROP;
}

/* @at: of the BTH. */
static __noinline int path_take(struct xdp_md *xdp, __u64 at)
{
	struct probe_frame f = {.ktime_ns = bpf_ktime_get_ns()};
	const struct esc_fleet *own = probe_fleet();
	struct esc_path_cpu *cpu = path_here();
	int result, verdict = XDP_DROP;

	if (!own || !cpu)
		return XDP_PASS;
	f.local_ns = esc_local_at(f.ktime_ns);
	result = probe_open(xdp, at, &f, PATH_UDP_BYTES);
	if (result == ESC_REASON_NONE)
		verdict = path_take_frame(&f, own, cpu, &result);
	if (result != ESC_REASON_NONE)
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return result == ESC_REASON_UNREADABLE ? XDP_PASS : verdict;
}

#endif
