/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One-way delay of queue pairs, by receipts.
 *
 * Both ends sample the same packets with nothing said on the wire: those whose
 * PSN & `sample_mask` is 0, and the END of messages whose START's PSN is chosen
 * by ESC_MESSAGE_SAMPLED. A mask is 2^n - 1; each end adapts its own to the
 * rate that it sees, and the coarser of the two decides, since they nest.
 * The sender's tc egress notes (PSN, fabric time); the receiver's XDP stamps
 * the arrival, its tc ingress has a clone of the packet sent back as a receipt;
 * the sender's XDP matches it with the note. A note is taken once, and a PSN
 * that is sent again spoils it (Karn).
 *
 * Sampled: requests and READ responses of RC, UC and XRC. Not sampled: UD
 * (its PSNs do not name a packet), ACKs, CNPs.
 */
#ifndef ESC_MAPS_OWD_H
#define ESC_MAPS_OWD_H

#include "maps/pace.h"
#include "maps/probe.h"
#include "maps/qp.h"

/* On START, of one or more packets: whether the whole message is timed. It nests as well. */
#define ESC_MESSAGE_SAMPLED(start_psn, mask) (!((start_psn) * 0x9e3779b1u >> 8 & (mask)))

#define ESC_SAMPLE_MASK_DEFAULT 0xf
#define ESC_SAMPLE_MASK_MAX 0xffff
/* Two samples of a queue pair are to be further apart than this ... */
#define ESC_SAMPLE_APART_MIN_NS 500000
/* ... and closer than this, or for a mask of 7 and less (receipts cost bytes) the second. */
#define ESC_SAMPLE_APART_MAX_NS 10000000
#define ESC_SAMPLE_APART_MAX_FINE_NS 50000000

/* With ESC_CONTROL_PACE the delays steer: several in a round trip, as far as that is cheap. */
#define ESC_SAMPLE_APART_PACE_MIN_NS 50000
#define ESC_SAMPLE_APART_PACE_MAX_NS 400000

/* ---- on the wire ---- */

/*
 * A receipt: a datagram as a probe is (BTH opcode ESC_PROBE_OPCODE_RECEIPT, four
 * zero bytes for the ICRC), from the data's destination to its source, with
 * the data's source port, so that it goes where the data's ACKs go. All
 * big-endian but the tag, which is SipHash-2-4 from the BTH to just before it.
 */
struct esc_receipt {
	__be32 magic;	/* ESC_PROBE_MAGIC */
	__u8 version;	/* ESC_PROBE_VERSION */
	__u8 flags;	/* ESC_RECEIPT_* */
	__be16 sport;	/* UDP source port the data came with */
	__be64 sender;	/* graph_member_id() of the data's receiver, who makes this */
	__be64 target;	/* of the data's sender */
	__be64 epoch;	/* of the maker's daemon */
	__be64 rx_fabric_ns; /* with ESC_RECEIPT_TIMED: arrival at XDP */
	__be32 rx_bound_ns;  /* and what it may be wrong by */
	__be32 dest_qpn;
	__be32 psn;
	__be32 stack_ns;   /* from XDP to tc ingress: the receiving host's own delay */
	__be32 message_ns; /* with ESC_RECEIPT_MESSAGE: from START to END at the receiver */
	__be32 reserved;
	__u64 tag;
};
ESC_ASSERT_OFFSET(struct esc_receipt, tag, 64);
ESC_ASSERT_SIZE(struct esc_receipt, 72);

#define ESC_RECEIPT_RESPONSE 0x01 /* of a READ response, else of a request */
#define ESC_RECEIPT_CE 0x02	  /* it came marked */
#define ESC_RECEIPT_MESSAGE 0x04  /* END of a timed message, of which all came */
#define ESC_RECEIPT_KEY 0x08	  /* as ESC_PROBE_KEY */
#define ESC_RECEIPT_PLANE 0x10	  /* as ESC_PROBE_PLANE */
#define ESC_RECEIPT_TIMED 0x20	  /* the maker has fabric time */

#define ESC_RECEIPT_DATAGRAM_BYTES (12 + 72 + 4)

/* Of the clone on its way to be a receipt, and of the receipt on its way out. */
#define ESC_RECEIPT_MARK 0x45735270u
#define ESC_RECEIPT_MARK_DONE 0x45735271u

/* ---- `rx_timestamps`: array of one, from XDP to tc ingress. Writer: the programs ---- */

/*
 * Not in the packet's metadata: programs that move a packet's start are refused in libxdp's
 * dispatcher before 1.5.5 (Linux since 6.13 and its stable branches), some drivers have no room
 * there, and what others put there is not to be told from ours.
 */
struct esc_rx_slot {
	__u64 id; /* of the packet: ESC_RX_SLOT_FREE, _BUSY, or a hash of what names it */
	__u64 rx_ktime_ns;
	__u32 flags; /* ESC_RECEIPT_RESPONSE, _CE, _MESSAGE */
	__u32 message_ns;
};
ESC_ASSERT_SIZE(struct esc_rx_slot, 24);
#define ESC_RX_SLOT_FREE 0
#define ESC_RX_SLOT_BUSY 1
#define ESC_RX_SLOTS 512

struct esc_rx_timestamps {
	__u32 pending; /* slots taken: while it is 0 tc ingress need not look */
	__u32 misses;   /* that found nothing; they sweep out what was left behind */
	__u32 reserved[14];
	struct esc_rx_slot slots[ESC_RX_SLOTS];
};
ESC_ASSERT_OFFSET(struct esc_rx_timestamps, slots, 64);

/* ---- `receipt_cpu`: per-CPU array of one, for the programs alone ---- */

#define ESC_RECEIPT_BTH_AT 68 /* in `frame`: the receipt behind it is aligned */

/* What pacing is to hear of a receipt; too much for the programs' stack. */
struct esc_pace_sample {
	struct pause_mark mark;
	__u64 departure_ns; /* CLOCK_MONOTONIC */
	__u64 now_ns;	    /* the same; 0: there is nothing */
	__s64 delay_ns;
	__u32 bound_ns;
	__u32 timed; /* delay_ns is valid */
	__u64 reserved;
};
ESC_ASSERT_SIZE(struct esc_pace_sample, 64);

struct esc_receipt_cpu {
	__u64 allowed_ns; /* CLOCK_MONOTONIC from which the next receipt is within the rate */
	__u64 resume_ns;  /* none is made before: tc egress did not see our clone */
	__u32 stage; /* enum of bpf/receipt/receipt.bpf.h: what tc egress is to do with our clone */
	__u32 begin; /* the frame's first byte in `frame` */
	__u8 frame[ESC_RECEIPT_BTH_AT + ESC_RECEIPT_DATAGRAM_BYTES];
	__u8 reserved[4];
	struct esc_pace_sample pace; /* from the receipt to pacing */
};
ESC_ASSERT_SIZE(struct esc_receipt_cpu, 184 + 64);

/* ---- `qp_sent`: hash of struct esc_qp_key (tx) to struct esc_qp_sent. Writer: the programs ---- */

struct esc_tx_record {
	__s64 tx_fabric_ns;
	__s64 start_fabric_ns;	/* START of the timed message that this packet ends; bytes 0: none */
	__u64 tx_ktime_ns;	/* CLOCK_MONOTONIC; 0: free, taken or spoiled */
	__u32 tx_bound_ns;
	__u32 psn;		/* with ESC_TX_RECORD_RESPONSE; only notes that equal it match */
	__u32 message_bytes;
	__u32 queue_ns;		/* from tc egress to the driver: the sending host's own queue */
	struct pause_mark mark; /* with ESC_TX_RECORD_PACED: what pacing is to know with the delay */
};
#define ESC_TX_RECORD_RESPONSE 0x01000000u
#define ESC_TX_RECORD_UNTIMED 0x02000000u /* no fabric time here when it left */
#define ESC_TX_RECORD_PACED 0x04000000u
#define ESC_TX_RECORD_ID 0x01ffffffu /* of `psn`: what has to match */
ESC_ASSERT_SIZE(struct esc_tx_record, 64);

#define ESC_TX_RECORDS 64
/* 64 samples in a row of any power-of-two spacing fall into 64 notes. */
#define ESC_TX_RECORD_INDEX(psn)                                                                   \
	(((psn) ^ ((psn) >> 6) ^ ((psn) >> 12) ^ ((psn) >> 18)) & (ESC_TX_RECORDS - 1))

struct esc_qp_sent {
	struct esc_tx_record records[ESC_TX_RECORDS];
};

/* ---- `host_queue`: array of one, from tc egress to the driver. Writers: the programs; `on`: the daemon ---- */

struct esc_host_slot {
	__u64 id; /* as in struct esc_rx_slot */
	__u64 tx_ktime_ns; /* of the note */
	struct esc_qp_key key;
	__u32 index; /* of the note in its ring */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_host_slot, 64);
/* The notes of a queue pair have slots beside each other, and do not collide. */
#define ESC_HOST_SLOTS (16 * ESC_TX_RECORDS)

struct esc_host_queue {
	__u32 on;      /* the program behind the qdisc is attached */
	__u32 pending; /* slots taken: while it is 0 that program need not look */
	__u32 misses;   /* that found nothing */
	__u32 reserved[13];
	struct esc_host_slot slots[ESC_HOST_SLOTS];
};
ESC_ASSERT_OFFSET(struct esc_host_queue, slots, 64);

/* ---- `qp_owd`: hash of struct esc_qp_key (tx) to struct esc_qp_owd. Writer: the programs ---- */

/*
 * What happened in 2^28 ns (0.27 s) of CLOCK_MONOTONIC. Eight of them are kept, at
 * index number % 8: a reader that comes once in 2 s misses none.
 */
struct esc_owd_window {
	__u32 number;	/* ktime >> ESC_OWD_WINDOW_SHIFT; another one: this slot is of the past */
	__u32 samples;
	__s64 min_ns;
	__s64 max_ns;
	__s64 sum_ns;
	__u32 bound_ns; /* largest of the samples' */
	__u32 over;	/* samples above delay_threshold_ns */
	__u32 crossings; /* times that a sample above it followed one below */
	__u32 ce;
	__u32 stack_max_ns;
	__u32 queue_max_ns; /* of those with a stamp behind the qdisc */
	__u32 queue_samples;
	__u32 messages; /* timed */
	__u64 message_bytes;
	__u64 message_delay_sum_ns; /* START leaving to END arriving */
	__u64 message_delay_max_ns;
	__u64 message_spread_sum_ns; /* START to END, both arriving */
};
ESC_ASSERT_SIZE(struct esc_owd_window, 96);
#define ESC_OWD_WINDOW_SHIFT 28
#define ESC_OWD_WINDOWS 8

/*
 * Log-linear: 32 buckets of 8 ns below 256 ns (less than 0 is in the first), then 32 to an
 * octave: at most 1/32 wide; the last takes all beyond.
 */
#define ESC_OWD_LINEAR_BITS 8
#define ESC_OWD_SUB_BITS 5
#define ESC_OWD_OCTAVES 24
#define ESC_OWD_BUCKETS ((ESC_OWD_OCTAVES + 1) << ESC_OWD_SUB_BITS)

struct esc_qp_owd {
	__u64 samples_sent;	   /* sampled packets that left */
	__u64 receipts;	   /* that matched a note */
	__u64 samples;	   /* of these, with fabric time at both ends: all delays are of them */
	__u64 samples_discarded;	   /* notes of a PSN that was sent again */
	__u64 samples_expired; /* notes that no receipt came for in time */
	__u64 first_ktime_ns; /* CLOCK_MONOTONIC of the first receipt */
	__u64 last_ktime_ns;  /* and of the newest */
	__s64 last_ns;
	__s64 min_ns;	   /* ever */
	__s64 max_ns;
	__u64 feedback_sum_ns; /* from leaving to the receipt's arrival, our clock alone */
	__u32 last_bound_ns;
	__u32 last_psn;
	__u64 crossings;
	__u64 over;
	__u8 above;	   /* the newest sample was above delay_threshold_ns */
	__u8 reserved[7];
	struct esc_owd_window windows[ESC_OWD_WINDOWS];
	__u32 histogram[ESC_OWD_BUCKETS]; /* ever; wraps */
};
ESC_ASSERT_OFFSET(struct esc_qp_owd, windows, 120);
ESC_ASSERT_SIZE(struct esc_qp_owd, 120 + 8 * 96 + 800 * 4);

#define ESC_QP_OWD_MAX_DEFAULT 16384

/* Bucket of a delay. Shared by the programs and by who reads the histogram. */
static inline __u32 esc_owd_bucket(__s64 ns)
{
	__u64 high;
	__u32 octave = 0, n;

	if (ns < (1 << ESC_OWD_LINEAR_BITS))
		return ns < 0 ? 0 : (__u32)ns >> (ESC_OWD_LINEAR_BITS - ESC_OWD_SUB_BITS);
	high = (__u64)ns >> ESC_OWD_LINEAR_BITS;
	if (high >> 16) {
		octave += 16;
		high >>= 16;
	}
	if (high >> 8) {
		octave += 8;
		high >>= 8;
	}
	if (high >> 4) {
		octave += 4;
		high >>= 4;
	}
	if (high >> 2) {
		octave += 2;
		high >>= 2;
	}
	if (high >> 1)
		octave += 1;
	if (octave >= ESC_OWD_OCTAVES)
		return ESC_OWD_BUCKETS - 1;
	n = (__u32)((__u64)ns >> (octave + ESC_OWD_LINEAR_BITS - ESC_OWD_SUB_BITS));
	return ((octave + 1) << ESC_OWD_SUB_BITS) + (n & ((1u << ESC_OWD_SUB_BITS) - 1));
}

/* Smallest delay of a bucket, ns. */
static inline __u64 esc_owd_bucket_floor(__u32 bucket)
{
	__u32 octave = bucket >> ESC_OWD_SUB_BITS, n = bucket & ((1u << ESC_OWD_SUB_BITS) - 1);
	__u32 shift = ESC_OWD_LINEAR_BITS - ESC_OWD_SUB_BITS;

	if (!octave)
		return (__u64)n << shift;
	return ((__u64)(n | 1u << ESC_OWD_SUB_BITS)) << (octave - 1 + shift);
}

#endif
