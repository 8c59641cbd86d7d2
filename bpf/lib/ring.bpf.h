/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Repair: a queue pair's packets leave a copy each in a ring, and those that a dead path or NIC may
 * have lost are sent once more by another one, in order and before anything new: the transport sees
 * a delay instead of a loss. They are
 *  - requests that the peer has not acknowledged. One that was acknowledged is never sent again:
 *    the peer would execute it, or end the queue pair;
 *  - responses; of acknowledgements without data the newest alone, and only if no other response
 *    followed, since each covers all before. Soft-RoCE (6.12, rxe_comp.c: check_psn(), check_ack())
 *    ends a queue pair that receives an old one between two packets of a READ response,
 * sent by what is dead now, and not longer ago than the caller says. Which that is, and what starts
 * it, is in steer/repair.bpf.h and nic/repair.bpf.h.
 *
 * A copy is a clone of the packet at hand, which is not changed itself. The clone comes to tc
 * egress with ESC_REPAIR_MARK; there it is overwritten, and goes on, or is dropped.
 */
#ifndef ESC_BPF_LIB_RING_H
#define ESC_BPF_LIB_RING_H

#include "lib/tc.bpf.h"
#include "qp/psn.bpf.h"

struct repair_ring_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct esc_repair_ring));
};

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

/* Timeout of a packet that waits while another CPU sends the copies. */
#define REPAIR_WAIT_NS 10000000ull
#define REPAIR_WAIT_LOOPS (1 << 20)

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

#define REPAIR_OPCODE_READ 0x0c /* all of RC */
#define REPAIR_OPCODE_ACKNOWLEDGE 0x11
#define REPAIR_OPCODE_ATOMIC 0x13
#define REPAIR_TRIES 4

/* ESC_REPAIR_* of an opcode of RC. */
static __always_inline __u8 repair_flags(__u8 opcode)
{
	if (opcode < REPAIR_OPCODE_READ)
		return ESC_REPAIR_REQUEST;
	if (opcode == REPAIR_OPCODE_READ || opcode >= REPAIR_OPCODE_ATOMIC)
		return ESC_REPAIR_REQUEST | ESC_REPAIR_READ;
	return opcode == REPAIR_OPCODE_ACKNOWLEDGE ? ESC_REPAIR_ACK : 0;
}

/* The PSNs do not continue: another connection with the number of one that ended. */
static __always_inline void repair_note_psn(struct esc_repair_ring *ring, __u32 number, __u32 psn,
					    __u8 flags)
{
	__u32 which = !(flags & ESC_REPAIR_REQUEST), known = ring->psn[which];
	__s32 ahead = psn_distance(psn, known);

	ring->psn[which] = psn | ESC_REPAIR_PSN_KNOWN;
	if (likely(!(known & ESC_REPAIR_PSN_KNOWN) ||
		   (ahead <= ESC_PSN_RESYNC_DISTANCE && ahead >= -ESC_PSN_RESYNC_DISTANCE)))
		return;
	ring->first = number;
	ring->psn[!which] = 0;
}

/* A new number and the place for @bytes, both as in struct esc_repair_ring.head; 0: none. */
static __always_inline __u64 repair_reserve(struct esc_repair_ring *ring, __u32 bytes)
{
	__u64 head, next;

	/* Requests and responses of one queue pair may leave on two CPUs at once. */
	for (int i = 0; i < REPAIR_TRIES; i++) {
		head = repair_head(ring);
		next = (head >> 32) + (bytes + ESC_REPAIR_UNIT - 1) / ESC_REPAIR_UNIT;
		next = next << 32 | ((__u32)head + 1);
		if (likely(__sync_bool_compare_and_swap(&ring->head, head, next)))
			return (head & ~0xffffffffull) | ((__u32)head + 1);
	}
	return 0;
}

/* The number of the copy; 0: none. @flags: repair_flags(). */
static __noinline __u32 repair_keep(struct __sk_buff *skb, struct esc_repair_ring *ring, __u32 psn,
				    __u8 flags)
{
	struct esc_repair_packet *packet;
	__u32 bytes = skb->len, unit, number, offset;
	__u64 place;

	if (!ring)
		return 0;
	barrier_var(bytes);
	if (bytes < ETH_HLEN || bytes > ESC_REPAIR_PACKET_MAX || skb->gso_size) {
		ring->missed++;
		return 0;
	}
	place = repair_reserve(ring, bytes);
	unit = place >> 32;
	number = place;
	if (!number) {
		ring->missed++;
		return 0;
	}
	packet = repair_packet(ring, number);
	packet->number = 0;
	smp_wmb();
	packet->sent_ktime_ns = bpf_ktime_get_coarse_ns();
	packet->unit = unit;
	packet->psn = psn;
	packet->bytes = bytes;
	packet->flags = flags;
	offset = unit * ESC_REPAIR_UNIT & (ESC_REPAIR_BYTES - 1);
	if (bpf_skb_load_bytes(skb, 0, ring->data + offset, bytes)) {
		ring->missed++;
		return 0;
	}
	smp_wmb();
	packet->number = number;
	ring->kept++;
	repair_note_psn(ring, number, psn, flags);
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
	__u32 only;		    /* REPAIR_* */
	__u32 lost;		    /* bits of the paths that are dead */
	__u8 to;		    /* path that copies take */
	bool knows_acked;
};

#define REPAIR_LAST 0x1 /* the last request and the last response alone */
/* Where it is not known what was acknowledged: the last SEND or WRITE, to which the peer replies.
 */
#define REPAIR_GUESS 0x2

static __always_inline bool repair_is_needed(const struct repair_context *c,
					     const struct esc_repair_packet *packet)
{
	if (packet->sent_ktime_ns < c->since_ns || !(c->lost >> (packet->path & 31) & 1))
		return false;
	if (!(packet->flags & ESC_REPAIR_REQUEST))
		return true;
	if (!c->knows_acked)
		return c->only & REPAIR_GUESS && !(packet->flags & ESC_REPAIR_READ);
	return psn_distance(packet->psn, c->unacked) >= 0;
}

static __always_inline int repair_clone(struct __sk_buff *skb, struct esc_repair_cpu *cpu,
					__u32 number)
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
	if (!index && number > 1 && number != ring->first)
		cpu->overrun = 1; /* those before were needed as well, perhaps */
	if (packet->flags & ESC_REPAIR_REQUEST)
		cpu->last_request = number;
	else
		cpu->last_response = number;
	if (c->only & REPAIR_LAST || packet->flags & ESC_REPAIR_ACK ||
	    (packet->flags & ESC_REPAIR_REQUEST && !c->knows_acked))
		return 0; /* that is known at the end */
	return !repair_send_copy(c->skb, ring, cpu, number, c->to);
}

/* Sends what @c says of its ring, which is @number for the clones; how many there were. */
static __always_inline int repair_walk(struct repair_context *c, __u32 number)
{
	struct esc_repair_ring *ring = c->ring;
	struct esc_repair_cpu *cpu = c->cpu;
	__u64 head = repair_head(ring);

	c->end = (__u32)head + 1;
	c->begin = (__u32)head > ESC_REPAIR_PACKETS ? c->end - ESC_REPAIR_PACKETS : 1;
	if (ring->first && c->end - ring->first < ESC_REPAIR_PACKETS)
		c->begin = ring->first;
	*cpu = (struct esc_repair_cpu){.ring = number, .to = c->to};
	bpf_loop(ESC_REPAIR_PACKETS, repair_look, c, 0);
	if (cpu->last_request && (c->only & REPAIR_LAST || !c->knows_acked))
		repair_send_copy(c->skb, ring, cpu, cpu->last_request, c->to);
	if (cpu->last_response && (c->only & REPAIR_LAST ||
				   repair_packet(ring, cpu->last_response)->flags & ESC_REPAIR_ACK))
		repair_send_copy(c->skb, ring, cpu, cpu->last_response, c->to);
	cpu->stage = REPAIR_STAGE_NONE;
	ring->repairs += cpu->sent > 0;
	ring->replayed += cpu->sent;
	ring->overruns += cpu->overrun;
	return cpu->sent;
}

/* What the peer has acknowledged, by its responses as they came in here: the entry @back. */
static __always_inline void repair_find_acked(struct repair_context *c,
					      const struct esc_qp_key *back)
{
	const struct esc_qp *qp = bpf_map_lookup_elem(&qps, back);

	if (!qp || !(qp->responses.flags & ESC_PSN_VALID))
		return;
	c->unacked = qp->responses.next;
	c->knows_acked = true;
}

/* False: another CPU sends copies of it, or what this packet has interrupted does. */
static __always_inline bool repair_claim(struct esc_repair_ring *ring)
{
	return __sync_bool_compare_and_swap(&ring->busy, 0, 1 + bpf_get_smp_processor_id());
}

static __always_inline void repair_release(struct esc_repair_ring *ring)
{
	ring->busy = 0;
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

/*
 * Not for this CPU's own, which ends after the packet: before Linux 6.3 softirqs are enabled in a
 * program that the daemon runs, and each of its clones may end in one (bpf_test_run()).
 */
static __noinline int repair_wait(struct esc_repair_ring *ring)
{
	struct repair_wait wait = {.ring = ring, .until_ns = bpf_ktime_get_ns() + REPAIR_WAIT_NS};

	if (ring && ring->busy != 1 + bpf_get_smp_processor_id())
		bpf_loop(REPAIR_WAIT_LOOPS, repair_poll, &wait, 0);
	return 0;
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
