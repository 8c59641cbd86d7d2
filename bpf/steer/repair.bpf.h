/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Repair after a path switch. A queue pair whose rule has a ring leaves a copy of each packet in
 * it. When its path has died and its packets take the backup, those that the dead path may have
 * lost are sent once more, in order and before anything new: the transport sees a delay instead
 * of a loss. They are
 *  - requests that the peer has not acknowledged. One that was acknowledged is never sent again:
 *    the peer would execute it, or end the queue pair;
 *  - responses; of acknowledgements without data the newest alone, and only if no other response
 *    followed, since each covers all before. Soft-RoCE (6.12, rxe_comp.c: check_psn(), check_ack())
 *    ends a queue pair that receives an old one between two packets of a READ response,
 * sent on that path since the last packet that the peer is known to have received on it, and some
 * earlier ones. What left by another path is not sent again, however often the rule is published
 * while the path is dead; nor is a copy, unless the path that it took dies too. The first packet
 * that takes the backup does it, or esc_repair, which the daemon runs when the queue pair has
 * nothing to send, or had left the path before it was known to be dead.
 *
 * A copy is a clone of the packet at hand, which is not changed itself. The clone comes to tc
 * egress with ESC_REPAIR_MARK; there it is overwritten, steered, and goes on, or is dropped.
 */
#ifndef ESC_BPF_STEER_REPAIR_H
#define ESC_BPF_STEER_REPAIR_H

#include "lib/tc.bpf.h"
#include "steer/failover.bpf.h"

struct repair_ring_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct esc_repair_ring));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, ESC_REPAIR_RINGS);
	__type(key, __u32);
	__array(values, struct repair_ring_map);
} repair_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_repair_cpu);
} repair_cpu SEC(".maps");

enum repair_stage {
	REPAIR_STAGE_NONE,
	REPAIR_STAGE_CLONED,  /* the next packet with the mark is the clone */
	REPAIR_STAGE_WRITTEN, /* it was overwritten and went on */
	REPAIR_STAGE_FAILED,  /* it was dropped */
};

/* Another CPU sends the copies: a packet behind them waits so long, and then goes on. */
#define REPAIR_WAIT_NS 1000000ull
#define REPAIR_WAIT_LOOPS (1 << 16)

static __always_inline struct esc_repair_ring *repair_ring(__u32 ring)
{
	__u32 index = ring - 1, zero = 0;
	void *map = bpf_map_lookup_elem(&repair_rings, &index);

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

static __always_inline struct esc_repair_cpu *repair_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&repair_cpu, &zero);
}

static __always_inline struct esc_repair_packet *repair_packet(struct esc_repair_ring *ring,
							       __u32 number)
{
	return &ring->packets[number % ESC_REPAIR_PACKETS];
}

static __always_inline __u64 repair_head(const struct esc_repair_ring *ring)
{
	return *(const volatile __u64 *)&ring->head;
}

/* @packet is @number, and no later packet has been written over it. */
static __always_inline bool repair_is_intact(const struct esc_repair_ring *ring,
					     const struct esc_repair_packet *packet, __u32 number)
{
	const volatile __u32 *known = &packet->number;
	__u32 unit = packet->unit;

	return *known == number &&
	       (__u32)(repair_head(ring) >> 32) - unit <= ESC_REPAIR_BYTES / ESC_REPAIR_UNIT;
}

/* --- keep --- */

#define REPAIR_OPCODE_ACKNOWLEDGE 0x11 /* RC */

/* The number of the copy; 0: none. */
static __noinline __u32 repair_keep(struct __sk_buff *skb, const struct pkt_ctx *pkt,
				    struct esc_repair_ring *ring)
{
	struct esc_repair_packet *packet;
	__u32 bytes = skb->len, unit, number, offset;
	__u64 head, next;

	if (!ring)
		return 0;
	barrier_var(bytes);
	if (bytes < ETH_HLEN || bytes > ESC_REPAIR_PACKET_MAX || skb->gso_size) {
		ring->missed++;
		return 0;
	}
	head = repair_head(ring);
	unit = head >> 32;
	number = (__u32)head + 1;
	next = (__u64)(unit + (bytes + ESC_REPAIR_UNIT - 1) / ESC_REPAIR_UNIT) << 32 | number;
	if (!__sync_bool_compare_and_swap(&ring->head, head, next)) {
		ring->missed++;
		return 0;
	}
	packet = repair_packet(ring, number);
	packet->number = 0;
	smp_wmb();
	packet->sent_ktime_ns = bpf_ktime_get_coarse_ns();
	packet->unit = unit;
	packet->psn = pkt->psn;
	packet->bytes = bytes;
	packet->flags = pkt->op_flags & ESC_OP_REQUEST		   ? ESC_REPAIR_REQUEST
			: pkt->opcode == REPAIR_OPCODE_ACKNOWLEDGE ? ESC_REPAIR_ACK
								   : 0;
	offset = unit * ESC_REPAIR_UNIT & (ESC_REPAIR_BYTES - 1);
	if (bpf_skb_load_bytes(skb, 0, ring->data + offset, bytes)) {
		ring->missed++;
		return 0;
	}
	smp_wmb();
	packet->number = number;
	ring->kept++;
	return number;
}

/* The packet @number of the ring is sent now, by @path. */
static __always_inline void repair_sent(struct esc_repair_ring *ring, __u32 number, __u8 path)
{
	struct esc_repair_packet *packet = repair_packet(ring, number);

	if (packet->number != number)
		return;
	packet->path = path;
	smp_wmb();
	packet->flags |= ESC_REPAIR_SENT;
}

/* --- send once more --- */

/* Does not change during the walk: the verifier would follow each of its values. */
struct repair_context {
	struct __sk_buff *skb;
	struct esc_repair_ring *ring;
	struct esc_repair_cpu *cpu; /* what is found */
	__u64 since_ns;		    /* what was sent before has been received */
	__u32 begin;		    /* number of the oldest packet */
	__u32 end;		    /* behind the newest */
	__u32 unacked;		    /* first PSN not acknowledged, with knows_acked */
	__u32 knows_acked;
	__u32 only; /* REPAIR_LAST, REPAIR_ANY_PATH */
	__u8 path;  /* that died */
	__u8 to;    /* that copies take */
};

#define REPAIR_LAST 0x1	    /* the last request and the last response alone */
#define REPAIR_ANY_PATH 0x2 /* also packets that did not take the dead path */

static __always_inline bool repair_is_needed(const struct repair_context *c,
					     const struct esc_repair_packet *packet)
{
	if (packet->sent_ktime_ns < c->since_ns ||
	    (packet->path != c->path && !(c->only & REPAIR_ANY_PATH)))
		return false;
	return !(packet->flags & ESC_REPAIR_REQUEST) ||
	       (c->knows_acked && psn_distance(packet->psn, c->unacked) >= 0);
}

static __noinline int repair_clone(struct __sk_buff *skb, struct esc_repair_cpu *cpu, __u32 number)
{
	__u32 mark = skb->mark;
	volatile __u32 *stage;
	long error;

	if (!cpu)
		return REPAIR_STAGE_FAILED;
	stage = &cpu->stage;
	cpu->number = number;
	cpu->mark = mark;
	*stage = REPAIR_STAGE_CLONED;
	skb->mark = ESC_REPAIR_MARK;
	error = bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->mark = mark;
	return error ? REPAIR_STAGE_FAILED : *stage;
}

/* Once more by the path @to. */
static __always_inline bool repair_send_copy(struct __sk_buff *skb, struct esc_repair_ring *ring,
					     struct esc_repair_cpu *cpu, __u32 number, __u8 to)
{
	struct esc_repair_packet *packet = repair_packet(ring, number);

	if (repair_clone(skb, cpu, number) != REPAIR_STAGE_WRITTEN)
		return false;
	packet->path = to;
	packet->sent_ktime_ns = bpf_ktime_get_coarse_ns();
	cpu->sent++;
	return true;
}

/* 1 ends the walk: later packets are being sent now, or clones do not reach our egress program. */
static long repair_look(__u32 index, struct repair_context *c)
{
	struct esc_repair_ring *ring = c->ring;
	struct esc_repair_packet *packet;
	struct esc_repair_cpu *cpu = c->cpu;
	__u32 number = c->begin + index;

	if (number == c->end)
		return 1;
	packet = repair_packet(ring, number);
	if (packet->number != number)
		return 0; /* not copied */
	if (!(packet->flags & ESC_REPAIR_SENT))
		return 1;
	if (!repair_is_needed(c, packet))
		return 0;
	if (!repair_is_intact(ring, packet, number)) {
		cpu->overrun = 1;
		return 0;
	}
	if (!index && number > 1)
		cpu->overrun = 1; /* those before were needed as well, perhaps */
	if (packet->flags & ESC_REPAIR_REQUEST)
		cpu->last_request = number;
	else
		cpu->last_response = number;
	if (c->only & REPAIR_LAST || packet->flags & ESC_REPAIR_ACK)
		return 0; /* that is known at the end */
	return !repair_send_copy(c->skb, ring, cpu, number, c->to);
}

/* What the peer has acknowledged, by its responses as they came in here. */
static __always_inline void repair_find_acked(struct repair_context *c,
					      const struct esc_qp_key *key)
{
	const struct esc_steer *rule = bpf_map_lookup_elem(&steers, key);
	struct esc_qp_key back = {.src = key->dst, .dst = key->src};
	const struct esc_qp *qp;

	if (!rule || !(rule->flags & ESC_STEER_REVERSE))
		return;
	back.dest_qpn = rule->reverse_qpn;
	back.direction = ESC_DIRECTION_RX;
	back.port = key->port;
	qp = bpf_map_lookup_elem(&qps, &back);
	if (!qp || !(qp->responses.flags & ESC_PSN_VALID))
		return;
	c->unacked = qp->responses.next;
	c->knows_acked = true;
}

/*
 * By the peer's newest report. Not by the first unconfirmed packet (since_ns): a report that comes
 * late confirms a packet of before the failure, and what was sent since then counts as lost only
 * from the next probe on.
 */
static __always_inline __u64 repair_since(__u32 number, __u32 id)
{
	const struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);
	const volatile struct pathlive_path *live;
	const struct esc_path *path;
	__u64 since_ns, age_ns, margin_ns;

	if (!slot)
		return ~0ull;
	path = &slot->paths[id % ESC_PATHS_MAX];
	live = &path->live;
	margin_ns = path->deadline_ns / 2; /* the report's trip and the packet's */
	since_ns = live->report_ns;
	smp_rmb();
	age_ns = live->report_peer_ns - live->received_peer_ns;
	return since_ns > age_ns + margin_ns ? since_ns - age_ns - margin_ns : 0;
}

/*
 * What a path of @slot may have lost, from @number's ring: @ids, its id, and << 8 that of the
 * one that copies take. @skb: any packet on the interface. How many were sent. Global: verified
 * once, and not for each state of its callers.
 */
int repair_run(struct __sk_buff *skb, __u32 number, __u32 slot, __u32 ids, __u32 only);
__noinline int repair_run(struct __sk_buff *skb, __u32 number, __u32 slot, __u32 ids, __u32 only)
{
	struct esc_repair_ring *ring = repair_ring(number);
	struct esc_repair_cpu *cpu = repair_this_cpu();
	struct repair_context c = {
		.skb = skb, .ring = ring, .cpu = cpu, .only = only, .path = ids, .to = ids >> 8};
	__u64 head;

	if (!ring || !cpu || cpu->stage != REPAIR_STAGE_NONE)
		return 0;
	head = repair_head(ring);
	c.end = (__u32)head + 1;
	c.begin = (__u32)head > ESC_REPAIR_PACKETS ? c.end - ESC_REPAIR_PACKETS : 1;
	c.since_ns = repair_since(slot, c.path);
	repair_find_acked(&c, &ring->key);
	*cpu = (struct esc_repair_cpu){.ring = number};
	bpf_loop(ESC_REPAIR_PACKETS, repair_look, &c, 0);
	if (only & REPAIR_LAST && cpu->last_request)
		repair_send_copy(skb, ring, cpu, cpu->last_request, c.to);
	if (cpu->last_response &&
	    (only & REPAIR_LAST || repair_packet(ring, cpu->last_response)->flags & ESC_REPAIR_ACK))
		repair_send_copy(skb, ring, cpu, cpu->last_response, c.to);
	cpu->stage = REPAIR_STAGE_NONE;
	ring->repairs += cpu->sent > 0;
	ring->replayed += cpu->sent;
	ring->overruns += cpu->overrun;
	return cpu->sent;
}

struct repair_wait {
	struct esc_repair_ring *ring;
	__u64 until_ns;
};

static long repair_poll(__u32 index, struct repair_wait *wait)
{
	const volatile __u32 *busy = &wait->ring->busy;

	(void)index;
	return !*busy || bpf_ktime_get_ns() > wait->until_ns;
}

static __noinline int repair_wait(struct esc_repair_ring *ring)
{
	struct repair_wait wait = {.ring = ring, .until_ns = bpf_ktime_get_ns() + REPAIR_WAIT_NS};

	if (ring)
		bpf_loop(REPAIR_WAIT_LOOPS, repair_poll, &wait, 0);
	return 0;
}

/* What the path @lost may have lost, by the path that packets take now; how many were sent. */
static __always_inline int repair_send_lost(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					    struct esc_repair_ring *ring, __u8 lost, __u32 only)
{
	__u8 to = failover_path(steer);

	return to == lost ? 0 : repair_run(skb, steer->ring, steer->slot, lost | to << 8, only);
}

static __always_inline bool repair_is_dead(const struct esc_qp_steer *steer)
{
	__u32 number = steer->slot;
	const struct esc_paths *slot = bpf_map_lookup_elem(&paths, &number);

	return slot && failover_is_dead(&slot->paths[steer->lost % ESC_PATHS_MAX]);
}

/*
 * Behind failover_check(). Once for each change of the path: a switch to a backup, whose path may
 * have lost its carrier alone, or any other while the path before is dead.
 */
static __always_inline void repair_check(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					 struct esc_repair_ring *ring)
{
	if (likely(ring->repaired_ns == steer->applied_local_ns && !ring->busy))
		return;
	if (!__sync_bool_compare_and_swap(&ring->busy, 0, 1)) {
		repair_wait(ring);
		return;
	}
	if (ring->repaired_ns != steer->applied_local_ns) {
		ring->repaired_ns = steer->applied_local_ns;
		if (steer->flags & ESC_QP_STEER_DIVERTED || repair_is_dead(steer))
			repair_send_lost(skb, steer, ring, steer->lost,
					 ring->last_only ? REPAIR_LAST : 0);
	}
	ring->busy = 0;
}

/* The same for the path @lost, whichever the queue pair takes; @again: the last packets alone. */
static __always_inline int repair_order(struct __sk_buff *skb, const struct esc_qp_steer *steer,
					struct esc_repair_ring *ring, __u8 lost, bool again)
{
	__u32 only = again ? REPAIR_LAST | REPAIR_ANY_PATH : ring->last_only ? REPAIR_LAST : 0;
	int sent;

	if (!__sync_bool_compare_and_swap(&ring->busy, 0, 1))
		return 0;
	ring->repaired_ns = steer->applied_local_ns;
	sent = repair_send_lost(skb, steer, ring, lost, only);
	ring->busy = 0;
	return sent;
}

/* --- the clone --- */

/* Overwrites the clone. False: it is not to leave. */
static __always_inline bool repair_write(struct __sk_buff *skb, const struct esc_repair_cpu *cpu,
					 struct esc_repair_ring *ring)
{
	const struct esc_repair_packet *packet = repair_packet(ring, cpu->number);
	__u32 bytes = packet->bytes, offset;

	offset = packet->unit * ESC_REPAIR_UNIT & (ESC_REPAIR_BYTES - 1);
	barrier_var(bytes);
	if (bytes < ETH_HLEN || bytes > ESC_REPAIR_PACKET_MAX)
		return false;
	barrier_var(offset);
	offset &= ESC_REPAIR_BYTES - 1;
	return !bpf_skb_change_tail(skb, bytes, 0) &&
	       !bpf_skb_store_bytes(skb, 0, ring->data + offset, bytes, BPF_F_INVALIDATE_HASH) &&
	       repair_is_intact(ring, packet, cpu->number);
}

#endif
