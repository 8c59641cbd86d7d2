/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One-way delay of queue pairs, by receipts.
 *
 * Both ends sample the same packets without any signalling: those whose
 * PSN & `sample_mask` is 0, and the END of messages whose START's PSN is selected
 * by ESC_MESSAGE_SAMPLED. A mask is 2^n - 1; each end adapts its own to the observed
 * rate, and since masks nest, the coarser of the two decides.
 * The sender's tc egress records (PSN, fabric time); the receiver's XDP timestamps
 * the arrival, and its tc ingress sends a clone of the packet back as a receipt;
 * the sender's XDP matches it with the record. A record is used once; a
 * retransmission of its PSN invalidates it (Karn's algorithm).
 *
 * Sampled: requests and READ responses of RC, UC and XRC. Not sampled: UD
 * (its PSNs do not identify a packet), ACKs, CNPs.
 */
#ifndef ESC_MAPS_OWD_H
#define ESC_MAPS_OWD_H

#include "maps/pace.h"
#include "maps/probe.h"
#include "maps/qp.h"

/* By the PSN of START: whether the whole message is timed. These masks nest as well. */
#define ESC_MESSAGE_SAMPLED(start_psn, mask) (!(0x9e3779b1u * (start_psn) >> 8 & (mask)))

#define ESC_SAMPLE_MASK_DEFAULT 0xf
#define ESC_SAMPLE_MASK_MAX 0xffff
/* Target interval between two samples of a queue pair: at least this ... */
#define ESC_SAMPLE_APART_MIN_NS 500000
/* ... and at most this, or the second with a mask of 7 or less (receipts cost bytes). */
#define ESC_SAMPLE_APART_MAX_NS 10000000
#define ESC_SAMPLE_APART_MAX_FINE_NS 50000000

/* With ESC_CONTROL_PACE delays control rates: several samples per round trip, where cheap. */
#define ESC_SAMPLE_APART_PACE_MIN_NS 50000
#define ESC_SAMPLE_APART_PACE_MAX_NS 400000

/* ---- on the wire ---- */

/*
 * A receipt: a datagram in the format of a probe (BTH opcode ESC_PROBE_OPCODE_RECEIPT, four
 * zero bytes for the ICRC), from the data's destination to its source, with
 * the data's source port, so that it takes the path of the data's ACKs. Big-endian,
 * except the tag: SipHash-2-4 from the BTH to just before it.
 */
struct esc_receipt {
	__be32 magic;	     /* ESC_PROBE_MAGIC */
	__u8 min_version;    /* of the format, as in struct esc_probe */
	__u8 flags;	     /* ESC_RECEIPT_* */
	__be16 sport;	     /* UDP source port of the data */
	__be64 sender;	     /* graph_member_id() of the data's receiver, which sends the receipt */
	__be64 target;	     /* graph_member_id() of the data's sender */
	__be64 epoch;	     /* of the receipt sender's daemon */
	__be64 rx_fabric_ns; /* with ESC_RECEIPT_TIMED: arrival at XDP */
	__be32 rx_bound_ns;  /* and its error bound */
	__be32 dest_qpn;
	__be32 psn;
	__be32 stack_ns;   /* from XDP to tc ingress: the receiving host's own delay */
	__be32 message_ns; /* with ESC_RECEIPT_MESSAGE: from START to END at the receiver */
	__u8 version;	   /* the newest that the sender reads */
	__u8 reserved[3];
	__u64 tag;
};
ESC_ASSERT_OFFSET(struct esc_receipt, tag, 64);
ESC_ASSERT_SIZE(struct esc_receipt, 72);

#define ESC_RECEIPT_RESPONSE 0x01 /* of a READ response, else of a request */
#define ESC_RECEIPT_CE 0x02	  /* the data arrived with ECN CE */
#define ESC_RECEIPT_MESSAGE 0x04  /* END of a timed message that was received completely */
#define ESC_RECEIPT_KEY 0x08	  /* as ESC_PROBE_KEY */
#define ESC_RECEIPT_PLANE 0x10	  /* as ESC_PROBE_PLANE */
#define ESC_RECEIPT_TIMED 0x20	  /* the receipt's sender has fabric time */

#define ESC_RECEIPT_DATAGRAM_BYTES (12 + 72 + 4)

/* skb->mark of the clone that becomes a receipt, and of the finished receipt. */
#define ESC_RECEIPT_MARK 0x45735270u
#define ESC_RECEIPT_MARK_DONE 0x45735271u

/* ---- `rx_timestamps`: array of one, from XDP to tc ingress. Writer: the programs ---- */

/*
 * Not in the packet's metadata: libxdp's dispatcher before 1.5.5 (Linux since 6.13 and its
 * stable branches) refuses programs that adjust a packet's start, some drivers have no room
 * for it, and the metadata of other programs cannot be distinguished from ours.
 */
struct esc_rx_slot {
	__u64 id; /* ESC_RX_SLOT_FREE, _BUSY, or a hash that identifies the packet */
	__u64 rx_ktime_ns;
	__u32 flags; /* ESC_RECEIPT_RESPONSE, _CE, _MESSAGE */
	__u32 message_ns;
};
ESC_ASSERT_SIZE(struct esc_rx_slot, 24);
#define ESC_RX_SLOT_FREE 0
#define ESC_RX_SLOT_BUSY 1
#define ESC_RX_SLOTS 512

struct esc_rx_timestamps {
	__u32 pending; /* slots in use: while it is 0 tc ingress does no lookup */
	__u32 misses;  /* lookups without a match; they expire stale slots */
	__u32 reserved[14];
	struct esc_rx_slot slots[ESC_RX_SLOTS];
};
ESC_ASSERT_OFFSET(struct esc_rx_timestamps, slots, 64);

/* ---- `receipt_cpu`: per-CPU array of one, scratch space of the programs ---- */

#define ESC_RECEIPT_BTH_AT 68 /* in `frame`: the receipt behind it is aligned */

/* A receipt's feedback to pacing; too large for the programs' stack. */
struct esc_pace_sample {
	struct pause_mark mark;
	__u64 departure_ns; /* CLOCK_MONOTONIC */
	__u64 now_ns;	    /* CLOCK_MONOTONIC; 0: no feedback */
	__s64 delay_ns;
	__u32 bound_ns;
	__u32 timed; /* delay_ns is valid */
	__u64 reserved;
};
ESC_ASSERT_SIZE(struct esc_pace_sample, 64);

struct esc_receipt_cpu {
	__u64 allowed_ns; /* CLOCK_MONOTONIC from which the rate limit allows the next receipt */
	__u64 resume_ns;  /* no receipts before: tc egress did not see our clone */
	__u32 stage; /* enum of bpf/receipt/receipt.bpf.h: what tc egress has to do with our clone
		      */
	__u32 begin; /* offset of the frame in `frame` */
	__u8 frame[ESC_RECEIPT_BTH_AT + ESC_RECEIPT_DATAGRAM_BYTES];
	__u8 reserved[4];
	struct esc_pace_sample pace; /* from the receipt to pacing */
};
ESC_ASSERT_SIZE(struct esc_receipt_cpu, 184 + 64);

/* ---- `qp_sent`: hash by struct esc_qp_key (tx). Writer: the programs ---- */

struct esc_tx_record {
	__s64 tx_fabric_ns;
	__s64 start_fabric_ns; /* START of the timed message that this packet ends; message_bytes 0:
				  none */
	__u64 tx_ktime_ns;     /* CLOCK_MONOTONIC; 0: free, used or invalidated */
	__u32 tx_bound_ns;
	__u32 psn; /* with ESC_TX_RECORD_RESPONSE; a receipt must match it */
	__u32 message_bytes;
	__u32 queue_ns;		/* from tc egress to the driver: the sending host's queue */
	struct pause_mark mark; /* with ESC_TX_RECORD_PACED: pacing state at departure */
};
#define ESC_TX_RECORD_RESPONSE 0x01000000u
#define ESC_TX_RECORD_UNTIMED 0x02000000u /* no fabric time here at departure */
#define ESC_TX_RECORD_PACED 0x04000000u
#define ESC_TX_RECORD_ID 0x01ffffffu /* mask of `psn` that has to match */
ESC_ASSERT_SIZE(struct esc_tx_record, 64);

#define ESC_TX_RECORDS 64
/* 64 consecutive samples of any power-of-two spacing map to 64 different records. */
#define ESC_TX_RECORD_INDEX(psn)                                                                   \
	(((psn) ^ ((psn) >> 6) ^ ((psn) >> 12) ^ ((psn) >> 18)) & (ESC_TX_RECORDS - 1))

struct esc_qp_sent {
	struct esc_tx_record records[ESC_TX_RECORDS];
};

/* ---- `host_queue`: array of one. Writer: the programs; of `on`: the daemon ---- */

struct esc_host_slot {
	__u64 id;	   /* as in struct esc_rx_slot */
	__u64 tx_ktime_ns; /* of the record */
	struct esc_qp_key key;
	__u32 index; /* of the record in its ring */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_host_slot, 64);
/* The records of a queue pair have adjacent slots, and do not collide. */
#define ESC_HOST_SLOTS (16 * ESC_TX_RECORDS)

struct esc_host_queue {
	__u32 on;      /* the program behind the qdisc is attached */
	__u32 pending; /* slots in use: while it is 0 that program does no lookup */
	__u32 misses;  /* lookups without a match */
	__u32 reserved[13];
	struct esc_host_slot slots[ESC_HOST_SLOTS];
};
ESC_ASSERT_OFFSET(struct esc_host_queue, slots, 64);

/* ---- `qp_owd`: hash by struct esc_qp_key (tx). Writer: the programs ---- */

/*
 * Statistics of 2^28 ns (0.27 s) of CLOCK_MONOTONIC. The last eight windows are kept, at
 * index number % 8: a reader that polls every 2 s misses none.
 */
struct esc_owd_window {
	__u32 number; /* ktime >> ESC_OWD_WINDOW_SHIFT; differs: the slot has expired */
	__u32 samples;
	__s64 min_ns;
	__s64 max_ns;
	__s64 sum_ns;
	__u32 bound_ns;	 /* maximum of the samples' */
	__u32 over;	 /* samples above delay_threshold_ns */
	__u32 crossings; /* upward crossings of that threshold */
	__u32 ce;
	__u32 stack_max_ns;
	__u32 queue_max_ns; /* of samples with a timestamp behind the qdisc */
	__u32 queue_samples;
	__u32 messages; /* timed */
	__u64 message_bytes;
	__u64 message_delay_sum_ns; /* from departure of START to arrival of END */
	__u64 message_delay_max_ns;
	__u64 message_spread_sum_ns; /* from arrival of START to arrival of END */
};
ESC_ASSERT_SIZE(struct esc_owd_window, 96);
#define ESC_OWD_WINDOW_SHIFT 28
#define ESC_OWD_WINDOWS 8

/*
 * Log-linear: 32 buckets of 8 ns below 256 ns (negative values are in the first), then 32 per
 * octave: at most 1/32 wide; the last bucket has all larger values.
 */
#define ESC_OWD_LINEAR_BITS 8
#define ESC_OWD_SUB_BITS 5
#define ESC_OWD_OCTAVES 24
#define ESC_OWD_BUCKETS ((ESC_OWD_OCTAVES + 1) << ESC_OWD_SUB_BITS)

struct esc_qp_owd {
	__u64 samples_sent; /* sampled packets sent */
	__u64 receipts;	    /* that matched a record */
	__u64 samples;	    /* of these, with fabric time at both ends: the delays are of these */
	__u64 samples_discarded; /* records of a PSN that was retransmitted */
	__u64 samples_expired;	 /* records without a receipt in time */
	__u64 first_ktime_ns;	 /* CLOCK_MONOTONIC of the first receipt, */
	__u64 last_ktime_ns;	 /* and of the newest */
	__s64 last_ns;
	__s64 min_ns; /* since the entry was created */
	__s64 max_ns;
	__u64 feedback_sum_ns; /* from departure to the receipt's arrival, local clock */
	__u32 last_bound_ns;
	__u32 last_psn;
	__u64 crossings;
	__u64 over;
	__u8 above; /* the newest sample is above delay_threshold_ns */
	__u8 reserved[7];
	struct esc_owd_window windows[ESC_OWD_WINDOWS];
	__u32 histogram[ESC_OWD_BUCKETS]; /* since the entry was created; wraps */
};
ESC_ASSERT_OFFSET(struct esc_qp_owd, windows, 120);
ESC_ASSERT_SIZE(struct esc_qp_owd, 120 + 8 * 96 + 800 * 4);

#define ESC_QP_OWD_MAX_DEFAULT 16384

/* Bucket of a delay. Shared by the programs and readers of the histogram. */
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
