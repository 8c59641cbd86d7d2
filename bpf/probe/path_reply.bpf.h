/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Received path probes: requests become replies in place, replies are recorded in the ring
 * `path_records`, and the reports in both show which of our paths reach the peer.
 */
#ifndef ESC_BPF_PROBE_PATH_REPLY_H
#define ESC_BPF_PROBE_PATH_REPLY_H

#include "probe/path.bpf.h"
#include "probe/reply.bpf.h"

/* Source and destination of the packet. */
static __always_inline void path_read_key(const struct probe_frame *f, struct esc_path_key *key)
{
	__u64 *to = (__u64 *)key;
	const struct iphdr *ip = f->ip;
	const __u32 *from = f->ip + offsetof(struct ipv6hdr, saddr);

	if (!f->ipv6) {
		to[0] = 0;
		to[1] = (__u64)ip->saddr << 32 | bpf_htonl(0xffff);
		to[2] = 0;
		to[3] = (__u64)ip->daddr << 32 | bpf_htonl(0xffff);
		return;
	}
	to[0] = from[0] | (__u64)from[1] << 32;
	to[1] = from[2] | (__u64)from[3] << 32;
	to[2] = from[4] | (__u64)from[5] << 32;
	to[3] = from[6] | (__u64)from[7] << 32;
}

static __always_inline bool path_tag_is_valid(const struct probe_frame *f,
					      const struct esc_fleet *own,
					      const struct esc_peer *peer,
					      const struct esc_path_key *addresses)
{
	const struct esc_path_probe *probe = f->path;
	struct esc_siphash h;
	__u64 key[2] = {};

	if (!probe->t1_ktime_ns)
		return false;
	if (!(own->flags & PROBE_KEYS))
		return !probe->tag;
	if (!probe_key(own, peer, probe->min_version, probe->flags & ESC_PROBE_KEY, key))
		return false;
	path_tag_start(&h, key, addresses, f->bth, 0);
	return probe->tag == path_tag_from(&h, f->bth, 0);
}

/* As probe_verify(), but for the sender's address: any address of the member. */
static __always_inline int path_verify(const struct probe_frame *f, const struct esc_fleet *own,
				       const struct esc_path_key *addresses, struct esc_peer **peer)
{
	const struct esc_peer_address *entry;
	int result = probe_verify_common(f, own);

	/* Without a daemon a request gets no reply, but counts as received. */
	if (result && (result != ESC_REASON_PROBE_NO_DAEMON ||
		       f->bth->opcode != ESC_PROBE_OPCODE_PATH_REQUEST))
		return result;
	*peer = probe_sender(f);
	entry = *peer ? bpf_map_lookup_elem(&peer_addresses, &addresses->src) : NULL;
	if (!entry || entry->id != bpf_be64_to_cpu(f->path->sender))
		return ESC_REASON_PROBE_UNKNOWN_PEER;
	if (f->path->target != bpf_cpu_to_be64(own->self))
		return ESC_REASON_PROBE_NOT_OURS;
	if (!path_tag_is_valid(f, own, *peer, addresses))
		return ESC_REASON_PROBE_BAD_TAG;
	return f->udp->source == f->path->sport ? ESC_REASON_NONE : ESC_REASON_PROBE_PORT;
}

/* --- state of received probes --- */

static const struct esc_path_received path_rx_empty;

/* NULL: the table is full. The peer's epoch is the newest that is known. */
static __noinline struct esc_path_received *path_rx_get(const struct esc_path_key *key, __u64 peer,
							__u64 peer_epoch, __u64 own_epoch)
{
	struct esc_path_received *rx = bpf_map_lookup_elem(&path_received, key);

	if (!rx || rx->peer != peer || rx->peer_epoch != peer_epoch) {
		bpf_map_update_elem(&path_received, key, &path_rx_empty, BPF_ANY);
		rx = bpf_map_lookup_elem(&path_received, key);
		if (!rx)
			return NULL;
		rx->peer = peer;
		rx->peer_epoch = peer_epoch;
	}
	if (rx->own_epoch != own_epoch) {
		__builtin_memset(&rx->replies, 0, sizeof(rx->replies));
		rx->own_epoch = own_epoch;
	}
	return rx;
}

/* False: @sequence has arrived on that path already. */
static __noinline bool path_window_add(struct esc_path_window *w, __u32 path, __u32 sequence)
{
	if (!w)
		return false;
	if (path >= ESC_PATHS_MAX)
		return window_add_every(&w->search[sequence % ESC_PATH_WINDOWS], sequence, 3);
	if ((w->valid >> path & 1) && (__s32)(sequence - w->newest[path]) <= 0)
		return false;
	w->newest[path] = sequence;
	w->valid |= 1u << path;
	return true;
}
_Static_assert(ESC_PATH_WINDOWS == 1 << 3, "three bits of the sequence select the window");

/* --- reports of the peer --- */

/*
 * The age in the report about our path @i with @sport. False: no report. If the peer received
 * another port under the same number, it did not receive this one.
 */
static __always_inline bool path_read_report(const struct path_reports *reports, __u32 i,
					     __u16 sport, __u64 *age_ns)
{
	__u32 age_us = bpf_ntohl(reports->age_us[i]);
	__u16 reported = bpf_ntohs(reports->sport[i]);

	if (!reported && age_us != ESC_PROBE_NEVER)
		return false;
	/* One below "never" is the age of everything older. */
	if (reported != sport || age_us >= ESC_PROBE_NEVER - 1)
		*age_ns = PATHLIVE_NEVER;
	else
		*age_ns = age_us * 1000ull;
	return true;
}

/* The reports of one packet, copied from it, in the message of `path_cpu`. */
struct path_update {
	struct path_reports reports;
	__u64 peer, epoch;
	__u64 peer_ns; /* the peer's CLOCK_MONOTONIC when it sent them */
	__u64 now_ns;  /* ours when they arrived */
	__u32 slot;    /* result: index into `paths`, for the record */
	__u16 sport;
	__u8 path;
	bool reply;
	bool died; /* result: a path is dead that the daemon does not know to be */
};
_Static_assert(sizeof(struct path_update) <= sizeof(((struct esc_path_cpu *)0)->message),
	       "the reports fit");

static __always_inline void path_apply_reports(struct esc_paths *slot, struct path_update *u)
{
	__u64 age_ns;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATHS_MAX; i++) {
		struct esc_path *path = &slot->paths[i];

		if (!path->sport || !path_read_report(&u->reports, i, path->sport, &age_ns))
			continue;
		pathlive_report(&path->live, u->peer_ns, age_ns, u->now_ns);
		u->died |= path->deadline_ns && path->state != PATHLIVE_DOWN &&
			   pathlive_is_dead(&path->live, path->deadline_ns);
	}
}

static __always_inline void path_restart(struct esc_paths *slot, __u64 epoch)
{
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < ESC_PATHS_MAX; i++)
		slot->paths[i].live = (struct pathlive_path){};
	slot->peer_epoch = epoch;
}

/*
 * What is in `path_cpu`, from us to the peer by its `reverse`. Global, so that the verifier checks
 * it once and not for each caller; it has no argument, since Linux 6.1 does not take memory of one
 * for a key.
 */
__noinline int path_update(void)
{
	struct esc_path_cpu *cpu = path_cpu_get();
	struct path_update *u;
	struct esc_paths *slot;
	struct esc_path *path;

	if (!cpu)
		return 0;
	u = (struct path_update *)cpu->message;
	slot = path_slot(&cpu->reverse, u->peer, &u->slot);
	if (!slot)
		return 0;
	if (slot->peer_epoch != u->epoch)
		path_restart(slot, u->epoch);
	path_apply_reports(slot, u);
	if (!u->reply || u->path >= ESC_PATHS_MAX)
		return 0;
	path = &slot->paths[u->path];
	if (path->sport == u->sport)
		count(path->replies, 1);
	return 0;
}

/*
 * Wakes the daemon, which polls the ring otherwise: queue pairs that wait for the dead path have
 * nothing to send, so that it starts their repair.
 */
static __always_inline void path_wake_daemon(void)
{
	void *nothing = bpf_ringbuf_reserve(&path_records, sizeof(__u64), 0);

	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

static __always_inline struct path_update *path_process(const struct probe_frame *f,
							struct esc_path_cpu *cpu, bool reply)
{
	struct path_update *u = (struct path_update *)cpu->message;

	__builtin_memcpy(&u->reports, f->path->age_us, sizeof(u->reports));
	u->peer = bpf_be64_to_cpu(f->path->sender);
	u->epoch = bpf_be64_to_cpu(f->path->epoch);
	u->peer_ns = bpf_be64_to_cpu(f->path->ktime_ns);
	u->now_ns = f->ktime_ns;
	u->sport = bpf_ntohs(f->path->sport);
	u->path = f->path->path;
	u->reply = reply;
	u->died = false;
	path_update();
	if (unlikely(u->died))
		path_wake_daemon();
	return u;
}

/* --- requests --- */

/* What follows t3 is hashed after it. t3 is t2 and our own clock since. */
static __always_inline void path_finish_reply(const struct probe_frame *f,
					      const struct esc_fleet *own,
					      const struct esc_peer *peer,
					      const struct esc_path_key *addresses)
{
	__u64 key[2] = {};
	bool has_key = probe_key(own, peer, f->path->min_version, probe_own_slot(own), key);
	__u64 t2_ns = bpf_be64_to_cpu(f->path->t2_fabric_ns);
	struct esc_siphash h;

	f->path->t3_fabric_ns = 0;
	f->path->tag = 0;
	if (has_key)
		path_tag_start(&h, key, addresses, f->bth, PATH_WORD_OF(t3_fabric_ns));
	if (f->path->flags & ESC_PATH_REPLY_TIMED)
		f->path->t3_fabric_ns = bpf_cpu_to_be64(t2_ns + (bpf_ktime_get_ns() - f->ktime_ns));
	if (has_key)
		f->path->tag = path_tag_from(&h, f->bth, PATH_WORD_OF(t3_fabric_ns));
}

static __always_inline void path_make_reply(const struct probe_frame *f,
					    const struct esc_fleet *own,
					    const struct esc_peer *peer, struct esc_path_cpu *cpu,
					    const struct esc_path_received *rx)
{
	struct path_reports *reports = (struct path_reports *)cpu->message;
	struct esc_path_probe *probe = f->path;
	struct esc_fabric_time time;

	probe_reflect(f, ESC_PROBE_OPCODE_PATH_REPLY);
	path_put_reports(reports, rx, f->ktime_ns);
	__builtin_memcpy(probe->age_us, reports, sizeof(*reports));
	probe->flags = (probe->flags & ESC_PATH_TIMED) | probe_own_flags(own);
	probe->min_version = probe_version_to(own, peer, f->ktime_ns);
	probe->version = ESC_PROBE_VERSION;
	probe->target = probe->sender;
	probe->echo_epoch = probe->epoch;
	probe->sender = bpf_cpu_to_be64(own->self);
	probe->epoch = bpf_cpu_to_be64(own->epoch);
	probe->ktime_ns = bpf_cpu_to_be64(f->ktime_ns);
	probe->t2_fabric_ns = 0;
	probe->t2_bound_ns = 0;
	if (esc_fabric_at(f->local_ns, &time)) {
		probe->flags |= ESC_PATH_REPLY_TIMED;
		probe->t2_fabric_ns = bpf_cpu_to_be64(time.fabric_ns);
		probe->t2_bound_ns = bpf_htonl(saturate_ns(time.bound_ns));
	}
	path_finish_reply(f, own, peer, &cpu->reverse);
}

static __always_inline int path_handle_request(const struct probe_frame *f,
					       const struct esc_fleet *own, struct esc_peer *peer,
					       struct esc_path_cpu *cpu,
					       struct esc_path_received *rx)
{
	__u32 path = f->path->path;

	if (!path_window_add(&rx->requests, path, bpf_ntohl(f->path->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	probe_note_version(peer, probe_newest(f->path->min_version, f->path->version, false),
			   f->ktime_ns);
	rx->ktime_ns = f->ktime_ns;
	if (path < ESC_PATHS_MAX) {
		rx->received_ktime_ns[path] = f->ktime_ns;
		rx->sport[path] = bpf_ntohs(f->path->sport);
	}
	/*
	 * A host that received nothing for a while would report that age for all paths but the
	 * first that receives again, and they would be declared dead.
	 */
	if (probe_heartbeat_timed_out(f))
		return ESC_REASON_PROBE_NO_DAEMON;
	path_process(f, cpu, false);
	if (!probe_rate_limit(f, &rx->cap_ktime_ns, &rx->cap_count, own->path_max_pps))
		return ESC_REASON_PROBE_RATE;
	path_make_reply(f, own, peer, cpu, rx);
	return ESC_REASON_NONE;
}

/* --- replies --- */

/* The delays. A one-way delay needs fabric time at both ends. */
static __always_inline void path_measure(struct esc_path_record *r, const struct probe_frame *f)
{
	const struct esc_path_probe *probe = f->path;
	__u64 t2 = bpf_be64_to_cpu(probe->t2_fabric_ns), t3 = bpf_be64_to_cpu(probe->t3_fabric_ns);
	__u64 turnaround_ns = probe->flags & ESC_PATH_REPLY_TIMED ? t3 - t2 : 0;
	__u64 bound_ns = bpf_ntohl(probe->t2_bound_ns);
	struct esc_fabric_time now;

	r->rtt_ns = f->ktime_ns - bpf_be64_to_cpu(probe->t1_ktime_ns);
	if ((__s64)turnaround_ns > 0 && turnaround_ns < r->rtt_ns)
		r->rtt_ns -= turnaround_ns;
	r->flags = 0;
	r->out_ns = 0;
	r->out_bound_ns = 0;
	r->in_ns = 0;
	r->in_bound_ns = 0;
	if (!(probe->flags & ESC_PATH_REPLY_TIMED))
		return;
	if (probe->flags & ESC_PATH_TIMED) {
		r->flags |= ESC_PATH_TIMED;
		r->out_ns = t2 - bpf_be64_to_cpu(probe->t1_fabric_ns);
		r->out_bound_ns = saturate_ns(bpf_ntohl(probe->t1_bound_ns) + bound_ns);
	}
	if (!esc_fabric_at(f->local_ns, &now))
		return;
	r->flags |= ESC_PATH_REPLY_TIMED;
	r->in_ns = now.fabric_ns - t3;
	r->in_bound_ns = saturate_ns(now.bound_ns + bound_ns);
}

/* False: the ring is full. No wakeup: the daemon polls (but for path_wake_daemon()). */
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
	r->path = f->path->path;
	r->hop_limit =
		f->ipv6 ? ((struct ipv6hdr *)f->ip)->hop_limit : ((struct iphdr *)f->ip)->ttl;
	r->port = esc_port_index;
	r->reserved[0] = 0;
	r->reserved[1] = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline int path_handle_reply(const struct probe_frame *f, struct esc_peer *peer,
					     struct esc_path_cpu *cpu, struct esc_path_received *rx)
{
	if (!path_window_add(&rx->replies, f->path->path, bpf_ntohl(f->path->sequence)))
		return ESC_REASON_PROBE_REPLAY;
	probe_note_version(peer, probe_newest(f->path->min_version, f->path->version, true),
			   f->ktime_ns);
	rx->ktime_ns = f->ktime_ns;
	return path_record(f, path_process(f, cpu, true)->slot) ? ESC_REASON_NONE
								: ESC_REASON_PROBE_RING_FULL;
}

static __always_inline int path_accept(const struct probe_frame *f, const struct esc_fleet *own,
				       struct esc_path_key *key, struct esc_peer **sender,
				       struct esc_path_received **rx)
{
	bool reply = f->bth->opcode == ESC_PROBE_OPCODE_PATH_REPLY;
	struct esc_peer *peer = NULL;
	int result = path_verify(f, own, key, &peer);

	if (result || !peer)
		return result;
	*sender = peer;
	if (reply && f->path->echo_epoch != bpf_cpu_to_be64(own->epoch))
		return ESC_REASON_PROBE_STALE_EPOCH;
	result = probe_update_epoch(
		f, peer,
		reply ? (__s64)(f->ktime_ns - bpf_be64_to_cpu(f->path->t1_ktime_ns))
		      : PROBE_NO_REPLY);
	if (result)
		return result;
	*rx = path_rx_get(key, bpf_be64_to_cpu(f->path->sender), bpf_be64_to_cpu(f->path->epoch),
			  own->epoch);
	return *rx ? ESC_REASON_NONE : ESC_REASON_PROBE_TABLE_FULL;
}

/* XDP_TX: the frame is the reply. */
static __noinline int path_handle_frame(const struct probe_frame *f, const struct esc_fleet *own,
					struct esc_path_cpu *cpu, int *result)
{
	struct esc_path_received *rx = NULL;
	struct esc_peer *peer = NULL;

	path_read_key(f, &cpu->key);
	path_reverse_key(&cpu->reverse, &cpu->key);
	*result = path_accept(f, own, &cpu->key, &peer, &rx);
	if (*result || !rx || !peer)
		return XDP_DROP;
	if (f->bth->opcode == ESC_PROBE_OPCODE_PATH_REPLY) {
		*result = path_handle_reply(f, peer, cpu, rx);
		return XDP_DROP;
	}
	*result = path_handle_request(f, own, peer, cpu, rx);
	return *result ? XDP_DROP : XDP_TX;
}

/* @at: of the BTH. */
static __noinline int path_receive(struct xdp_md *xdp, __u64 at)
{
	struct probe_frame f = {.ktime_ns = bpf_ktime_get_ns()};
	const struct esc_fleet *own = probe_fleet();
	struct esc_path_cpu *cpu = path_cpu_get();
	int result, verdict = XDP_DROP;

	if (!own || !cpu)
		return XDP_PASS;
	f.local_ns = esc_local_at(f.ktime_ns);
	result = probe_map_frame(xdp, at, &f, PATH_UDP_BYTES);
	if (!result)
		verdict = path_handle_frame(&f, own, cpu, &result);
	if (result)
		reason_count(result, ESC_HOOK_XDP_INGRESS);
	return result == ESC_REASON_UNREADABLE ? XDP_PASS : verdict;
}

#endif
