/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The steer stage: a queue pair's packets take the path of its rule, by another UDP source port
 * and the ICRC that goes with it, or by another IPv6 flow label.
 *
 * Nothing is written through packet pointers (see probe/send.bpf.h). The ICRC is
 * written first: that makes all before it writable, so that the next write does not
 * fail; if it did, the ICRC is restored. A packet leaves changed or unchanged, never half.
 */
#ifndef ESC_BPF_STEER_STEER_H
#define ESC_BPF_STEER_STEER_H

#include "pacing/icrc.h"
#include "steer/repair.bpf.h"
#include <bpf/bpf_endian.h>

/* Made by icrc_make_table() before the program is loaded. */
const volatile __u32 esc_icrc_powers[ICRC_WORDS_MAX] __weak = {};
/* Tests only: the port is changed, the ICRC is not. */
const volatile __u8 esc_icrc_stale __weak = 0;

#define STEER_UDP_OFFSET_MAX 2048u
#define STEER_ICRC_BYTES 4

/* Where the packet is changed, and what is there. */
struct steer_place {
	__u32 udp;   /* offset of the UDP header */
	__u32 icrc;  /* and of the ICRC */
	__u32 words; /* UDP length */
	__u32 old_icrc;
	__be16 sport;
	__be16 check;
};

/* A helper costs as much as all the rest: it is for an ICRC in another page. */
static __always_inline bool steer_load_icrc(struct __sk_buff *skb, void *data, void *end,
					    struct steer_place *place)
{
	__u32 offset = place->icrc;

	barrier_var(offset);
	if (likely(offset <= STEER_UDP_OFFSET_MAX + 4 * ICRC_WORDS_MAX)) {
		data += offset;
		if (likely(data + STEER_ICRC_BYTES <= end)) {
			place->old_icrc = *(__u32 *)data;
			return true;
		}
	}
	return !bpf_skb_load_bytes(skb, offset, &place->old_icrc, STEER_ICRC_BYTES);
}

/* False: a datagram that is not RoCEv2 in whole words, or longer than any MTU. */
static __always_inline bool steer_locate(struct __sk_buff *skb, const struct pkt_ctx *pkt,
					 struct steer_place *place)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 offset = pkt->udp_offset, bytes;
	const struct udphdr *udp;

	if (offset > STEER_UDP_OFFSET_MAX || skb->gso_size)
		return false;
	udp = data + offset;
	if ((void *)(udp + 1) > end) /* the parser read it there */
		return false;
	bytes = bpf_ntohs(udp->len);
	place->udp = offset;
	place->words = bytes / 4;
	place->icrc = offset + bytes - STEER_ICRC_BYTES;
	place->sport = udp->source;
	place->check = udp->check;
	return !(bytes & 3) && place->words >= ICRC_WORDS_MIN && place->words < ICRC_WORDS_MAX &&
	       steer_load_icrc(skb, data, end, place);
}

/* A queue pair has few lengths: a full packet with and without a RETH, the last, an ACK. */
static __always_inline __u32 steer_cache_index(__u32 words)
{
	return (words ^ words >> 2) & 3;
}

/* 16 steps: some 40 ns. */
static __noinline __u32 steer_compute_patch(__u32 words, __u32 change)
{
	barrier_var(words); /* else the bound applies to another copy */
	return words < ICRC_WORDS_MAX ? icrc_patch(change, esc_icrc_powers[words]) : 0;
}

/* The patch for this change and length, cached in one word so that CPUs do not mix two. */
static __always_inline __u32 steer_patch(struct esc_qp_steer *steer, __u32 words, __u32 change)
{
	__u32 tag = words << 16 | change, patch;
	__u64 *cached = &steer->icrc[steer_cache_index(words)];
	__u64 known = *cached;

	if (likely(known >> 32 == tag))
		return known;
	patch = steer_compute_patch(words, change);
	*cached = (__u64)tag << 32 | patch;
	return patch;
}

/* A UDP checksum covers both the port and the ICRC. False: it is still that of the old packet. */
static __noinline bool steer_fix_check(struct __sk_buff *skb, const struct steer_place *place,
				       __be16 sport, __u32 patch, __u32 icrc)
{
	__u32 check = place->udp + offsetof(struct udphdr, check);

	if (bpf_l4_csum_replace(skb, check, icrc, icrc ^ patch,
				STEER_ICRC_BYTES | BPF_F_MARK_MANGLED_0))
		return false;
	if (!bpf_l4_csum_replace(skb, check, place->sport, sport,
				 sizeof(sport) | BPF_F_MARK_MANGLED_0))
		return true;
	bpf_l4_csum_replace(skb, check, icrc ^ patch, icrc,
			    STEER_ICRC_BYTES | BPF_F_MARK_MANGLED_0);
	return false;
}

/* False: the packet is unchanged. */
static __always_inline bool steer_set_port(struct __sk_buff *skb, struct esc_qp_steer *steer,
					   const struct steer_place *place, __be16 sport)
{
	__u32 patch = steer_patch(steer, place->words, place->sport ^ sport);
	__u32 icrc = place->old_icrc, patched;
	__u64 sum = place->check ? 0 : BPF_F_RECOMPUTE_CSUM;

	if (esc_icrc_stale)
		patch = 0;
	patched = icrc ^ patch;
	if (bpf_skb_store_bytes(skb, place->icrc, &patched, sizeof(patched), sum))
		return false;
	if (unlikely(place->check) && !steer_fix_check(skb, place, sport, patch, icrc))
		goto undo;
	if (!bpf_skb_store_bytes(skb, place->udp, &sport, sizeof(sport),
				 sum | BPF_F_INVALIDATE_HASH))
		return true;
	if (place->check)
		steer_fix_check(skb, &(struct steer_place){.udp = place->udp, .sport = sport},
				place->sport, patch, patched);
undo:
	bpf_skb_store_bytes(skb, place->icrc, &icrc, sizeof(icrc), sum);
	return false;
}

static __noinline bool steer_set_label(struct __sk_buff *skb, __u32 offset, __u32 label)
{
	__be32 flow;

	if (bpf_skb_load_bytes(skb, offset, &flow, sizeof(flow)))
		return false;
	flow &= bpf_htonl(~ESC_FLOW_LABEL_MASK);
	flow |= bpf_htonl(label & ESC_FLOW_LABEL_MASK);
	return !bpf_skb_store_bytes(skb, offset, &flow, sizeof(flow),
				    BPF_F_INVALIDATE_HASH | BPF_F_RECOMPUTE_CSUM);
}

static __always_inline bool steer_apply(struct __sk_buff *skb, const struct pkt_ctx *pkt,
					struct esc_qp_steer *steer)
{
	__be16 sport = bpf_htons(steer->sport);
	struct steer_place place;
	bool changed = true;

	if (sport && steer->sport != pkt->sport)
		changed =
			steer_locate(skb, pkt, &place) && steer_set_port(skb, steer, &place, sport);
	if (unlikely(steer->flags & ESC_QP_STEER_LABEL) && pkt->ip_version == 6 && !skb->gso_size)
		changed = changed && steer_set_label(skb, pkt->ip_offset, steer->flow_label);
	return changed;
}

/* --- rules --- */

static __always_inline void steer_clear(struct esc_qp *qp)
{
	qp->steer.rule = 0;
	qp->steer.sport = 0;
	qp->steer.flags = 0;
	qp->steer.ring = 0;
	qp->steer_flags &= ~ESC_QP_STEERED;
}

/* The rule that is now in `steers`; it applies from this packet on. */
static __noinline int steer_lookup(struct esc_qp *qp, const struct esc_qp_key *key,
				   __u32 generation)
{
	struct esc_qp_steer *steer = &qp->steer;
	const struct esc_steer *rule;

	/* @generation was loaded before: the rule is that of this generation, or newer. */
	smp_rmb();
	rule = bpf_map_lookup_elem(&steers, key);
	steer->generation = generation;
	qp->steer_generation = generation;
	if (!rule) {
		steer_clear(qp);
		return 0;
	}
	steer->ring = rule->ring;
	if (rule->number == steer->rule)
		return 0;
	steer->rule = rule->number;
	steer->next_sport = rule->sport;
	steer->next_flow_label = rule->flow_label;
	steer->next_slot = rule->slot;
	steer->next_path = rule->path;
	steer->next_flags = (rule->flags & ESC_STEER_LABEL ? ESC_QP_STEER_LABEL : 0) |
			    (rule->flags & ESC_STEER_PATH ? ESC_QP_STEER_PATH : 0);
	steer->flowlet_gap_ns = rule->flowlet_gap_ns;
	steer->start_local_ns = rule->start_local_ns;
	steer->force_local_ns = rule->force_local_ns;
	steer->last_local_ns = bpf_ktime_get_ns();
	/* The rule in force applies until the trigger, on its backup path as well. */
	steer->flags &= ~(ESC_QP_STEER_LAPSED | ESC_QP_STEER_RETURNS);
	steer->flags |= ESC_QP_STEER_PENDING;
	qp->steer_flags |= ESC_QP_STEERED;
	return 0;
}

/*
 * The first packet of a message. One without a payload is a message of its own, unless it is
 * a response sent between the packets of another one.
 */
static __always_inline bool steer_is_start(const struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	if (pkt->op_flags & (ESC_OP_START | ESC_OP_PAYLOAD))
		return pkt->op_flags & ESC_OP_START;
	return !((qp->requests.flags | qp->responses.flags) & ESC_PSN_MESSAGE);
}

/* The pending rule changes nothing that a switch hashes. */
static __always_inline bool steer_is_same_path(const struct esc_qp_steer *steer)
{
	return steer->next_sport == steer->sport &&
	       !((steer->next_flags | steer->flags) & ESC_QP_STEER_LABEL);
}

/*
 * A new request with all before it acknowledged: there is no packet of ours in flight that it
 * could overtake. Nor is a READ response of ours, as far as is known.
 */
static __noinline int steer_is_drained(const struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	const struct esc_steer *rule = bpf_map_lookup_elem(&steers, &pkt->key);
	struct esc_qp_key key = {.src = pkt->key.dst, .dst = pkt->key.src};
	const struct esc_qp *back;

	if (!rule || !(rule->flags & ESC_STEER_REVERSE) || !(pkt->op_flags & ESC_OP_REQUEST) ||
	    qp->requests.next != psn_add(pkt->psn, 1) || qp->responses.flags & ESC_PSN_MESSAGE)
		return false;
	key.dest_qpn = rule->reverse_qpn;
	key.direction = ESC_DIRECTION_RX;
	key.port = pkt->key.port;
	back = bpf_map_lookup_elem(&qps, &key);
	return back && back->responses.flags & ESC_PSN_VALID && back->responses.next == pkt->psn;
}

/* Whether the pending rule takes effect with this packet. */
static __noinline int steer_check_triggers(struct esc_qp *qp, const struct pkt_ctx *pkt)
{
	struct esc_qp_steer *steer = &qp->steer;
	__u64 now = bpf_ktime_get_ns();
	__u8 trigger;

	/* Pacing may hold the previous packet: last_local_ns is when it leaves. */
	if ((now >= steer->last_local_ns && now - steer->last_local_ns >= steer->flowlet_gap_ns) ||
	    steer_is_same_path(steer))
		trigger = ESC_STEER_TRIGGER_IDLE;
	else if (steer_is_drained(qp, pkt))
		trigger = ESC_STEER_TRIGGER_DRAINED;
	else if (now >= steer->start_local_ns && steer_is_start(qp, pkt))
		trigger = ESC_STEER_TRIGGER_START;
	else if (now >= steer->force_local_ns)
		trigger = ESC_STEER_TRIGGER_FORCED;
	else
		trigger = ESC_STEER_TRIGGER_NONE;
	steer->last_local_ns = now;
	if (trigger != ESC_STEER_TRIGGER_NONE)
		failover_take_next(steer, trigger, now);
	return 0;
}

/* Without a heartbeat packets leave unchanged, until another rule. */
static __noinline int steer_lapse(struct esc_qp_steer *steer, __u64 now)
{
	steer->sport = 0;
	steer->flags = ESC_QP_STEER_LAPSED;
	steer->trigger = ESC_STEER_TRIGGER_LAPSED;
	steer->applied_local_ns = now;
	return 0;
}

/*
 * The clock is read once in a jiffy (1 to 10 ms), not for each packet. A heartbeat
 * ahead of it was written just now on another CPU.
 */
static __always_inline bool steer_is_alive(struct esc_qp_steer *steer,
					   const struct esc_control *ctl)
{
	__u32 jiffies = bpf_jiffies64();
	__u64 now;

	if (likely(steer->jiffies == jiffies))
		return true;
	now = bpf_ktime_get_ns();
	if (likely((__s64)(now - ctl->heartbeat_local_ns) <= (__s64)ESC_HEARTBEAT_TIMEOUT_NS)) {
		steer->jiffies = jiffies;
		return true;
	}
	steer_lapse(steer, now);
	return false;
}

/* failover_check() with a ring: a copy is kept for when the path dies. */
static __noinline int steer_keep(struct __sk_buff *skb, const struct pkt_ctx *pkt)
{
	struct esc_qp_steer *steer = &pkt->qp->steer;
	struct esc_repair_ring *ring = NULL;
	__u32 kept = 0;

	/* RC alone waits for what is lost. */
	if (!(pkt->opcode >> 5))
		ring = repair_ring(steer->ring);
	if (ring)
		kept = repair_keep(skb, ring, pkt->psn, repair_flags(pkt->opcode));
	failover_check(steer, &pkt->key);
	if (!ring)
		return 0;
	repair_check(skb, steer, ring);
	if (kept)
		repair_sent(ring, kept, failover_path(steer));
	return 0;
}

static __noinline int steer_slow(struct __sk_buff *skb, const struct pkt_ctx *pkt)
{
	const struct esc_control *ctl = pkt->ctl;
	struct esc_qp *qp = pkt->qp;
	struct esc_qp_steer *steer = &qp->steer;

	if (unlikely(steer->generation != ctl->steer_generation))
		steer_lookup(qp, &pkt->key, ctl->steer_generation);
	if (!(qp->steer_flags & ESC_QP_STEERED) || unlikely(!steer_is_alive(steer, ctl)))
		return 0;
	if (unlikely(steer->flags & ESC_QP_STEER_PENDING))
		steer_check_triggers(qp, pkt);
	if (steer->flags & ESC_QP_STEER_PATH) {
		if (likely(!steer->ring))
			failover_check(steer, &pkt->key);
		else
			steer_keep(skb, pkt);
	}
	if (!steer->sport && !(steer->flags & ESC_QP_STEER_LABEL))
		return 0;
	if (likely(steer_apply(skb, pkt, steer)))
		steer->packets++;
	else
		steer->refused++;
	return 0;
}

/*
 * A packet with ESC_REPAIR_MARK while this CPU sends copies: the clone, which leaves as a copy or
 * not at all. *@ours is false for any other packet. One of NIC failover is for its own program,
 * which is behind.
 */
static __noinline int repair_send(struct __sk_buff *skb, struct pkt_ctx *pkt, bool *ours)
{
	struct esc_repair_cpu *cpu = repair_this_cpu();
	struct esc_repair_ring *ring;
	struct esc_qp *qp;

	*ours = false;
	if (!cpu || cpu->stage != REPAIR_STAGE_CLONED)
		return ESC_TC_NEXT;
	*ours = true;
	if (cpu->ring & ESC_REPAIR_OF_NIC)
		return ESC_TC_NEXT;
	cpu->stage = REPAIR_STAGE_FAILED;
	skb->mark = cpu->mark;
	ring = repair_ring(cpu->ring);
	if (!ring || !repair_write(skb, cpu, ring) || tc_parse_slow(skb, pkt))
		return TC_ACT_SHOT;
	qp = bpf_map_lookup_elem(&qps, &ring->key);
	if (!qp || !steer_apply(skb, pkt, &qp->steer))
		return TC_ACT_SHOT;
	cpu->stage = REPAIR_STAGE_WRITTEN;
	return ESC_TC_NEXT;
}

/* Behind the account stage. */
static __always_inline int steer_packet(struct __sk_buff *skb, const struct pkt_ctx *pkt)
{
	const struct esc_control *ctl = pkt->ctl;
	const struct esc_qp *qp = pkt->qp;

	if (likely(!(ctl->flags & ESC_CONTROL_STEER)))
		return ESC_REASON_NONE;
	if (likely(qp->steer_generation == (__u16)ctl->steer_generation) &&
	    likely(!(qp->steer_flags & ESC_QP_STEERED)))
		return ESC_REASON_NONE;
	if (!(ctl->steer_ports >> (esc_port_index % ESC_PORTS_MAX) & 1))
		return ESC_REASON_NONE;
	steer_slow(skb, pkt);
	return ESC_REASON_NONE;
}

#endif
