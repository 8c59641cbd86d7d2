/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `qps`: a hash of struct esc_qp_key to struct esc_qp, one entry per
 * direction of a queue pair as this host sees it. Writer of every field: the
 * kernel programs (tc egress for tx, XDP or tc ingress for rx). User space
 * only reads and, when a queue pair is gone, deletes.
 */
#ifndef ESC_MAPS_QP_H
#define ESC_MAPS_QP_H

#include "maps/steer.h"
#include "maps/rocev2.h"

enum esc_direction {
	ESC_DIRECTION_TX = 0,
	ESC_DIRECTION_RX = 1,
};

/* IPv4 addresses are held as ::ffff:a.b.c.d. */
struct esc_address {
	__u8 bytes[16];
} __attribute__((aligned(4)));

struct esc_qp_key {
	struct esc_address src;
	struct esc_address dst;
	__u32 dest_qpn;	 /* host order, 24 bits */
	__u8 direction;	 /* enum esc_direction */
	__u8 port;	 /* index into `ports`: the same QP on two NICs is two entries */
	__u8 reserved[2]; /* zero: part of the hashed key */
};
ESC_ASSERT_SIZE(struct esc_qp_key, 40);
ESC_ASSERT_OFFSET(struct esc_qp_key, dest_qpn, 32);

/*
 * One sequence of PSNs, followed as the responder's (rx) or the requester's
 * (tx) state machine does. A direction of a QP carries two: its requests and
 * its responses to the peer's requests.
 */
struct esc_psn_stream {
	__u32 next;	     /* PSN that comes next in order, 24 bits */
	__u32 last;	     /* PSN of the packet before this one */
	__u32 off_run;	     /* packets in a row that were away from `next` */
	__u32 message_bytes; /* payload of the message under way */
	__u32 read_bytes;    /* length of the READ request just before, 0 = none */
	__u8 flags;	     /* ESC_PSN_* */
	__u8 reserved[3];
};
#define ESC_PSN_VALID 0x01   /* `next` is known */
#define ESC_PSN_GAP 0x02     /* a gap is open: `next` has not come yet */
#define ESC_PSN_MESSAGE 0x04 /* the message under way was seen from its start */
ESC_ASSERT_SIZE(struct esc_psn_stream, 24);

/* Message sizes by power of two; the sum makes the mean of a bucket exact. */
struct esc_message_bucket {
	__u64 count;
	__u64 bytes;
};
#define ESC_MESSAGE_BUCKETS 32 /* bucket 0: empty; n: 2^(n-1) .. 2^n - 1 bytes */

#define ESC_SAMPLE_MESSAGE 0x01 /* the message under way is sampled: message_start_* */
#define ESC_SAMPLE_NO_FEEDBACK 0x02	/* no known peer at the other end: nothing is noted, no receipts */
#define ESC_SAMPLE_RESPONSE 0x04 /* with _MESSAGE: it answers a READ */

#define ESC_QP_STEERED 0x01 /* tx: `steer` says what is done to packets */
#define ESC_QP_PACED 0x10 /* tx: it has an entry in `qp_pace` */

struct esc_qp {
	/* Touched by every packet: one cache line. */
	__u64 packets;
	__u64 bytes;	     /* IP packets, IP header to ICRC, as the IP header says */
	struct esc_psn_stream requests;
	__u16 sport;	     /* UDP source port of the newest packet, host order */
	__u16 pmtu;	     /* learned from full packets, 0 = not yet */
	__u8 transport;	     /* enum esc_transport of the newest non-CNP packet */
	__u8 port;	     /* index into `ports` */
	__u8 ip_version;     /* 4 or 6 */
	__u8 reserved0;
	__u64 payload_bytes;
	__u32 sample_mask;   /* a packet is sampled when PSN & mask is 0; follows the rate, see owd.h */
	__u8 sample_flags;   /* ESC_SAMPLE_* */
	__u8 steer_flags;    /* ESC_QP_STEERED, ESC_QP_PACED */
	__u16 steer_generation; /* low half of control's when `steers` was asked */
	/* Touched by some. */
	struct esc_psn_stream responses;
	__u64 messages;	     /* that ended in order */
	__u64 acks;
	__u64 psn_gaps;	     /* times that a PSN was skipped */
	__u64 psn_missing;   /* PSNs skipped, all gaps together */
	__u64 out_of_sequence; /* packets that came while a gap was open */
	__u64 duplicates;    /* rx: PSN had come in order before */
	__u64 retransmits;   /* tx: PSN had been sent before */
	__u64 psn_resyncs;   /* the sequence began anew elsewhere */
	__u64 nak_sequence;
	__u64 nak_invalid_request;
	__u64 nak_remote_access;
	__u64 nak_remote_operational;
	__u64 nak_other;
	__u64 rnr_naks;
	__u64 ect;	     /* packets marked ECN-capable and not CE */
	__u64 ce;
	__u64 cnps;
	__u64 first_local_ns; /* CLOCK_MONOTONIC of the entry's first packet */
	__u64 sample_local_ns; /* CLOCK_MONOTONIC of the newest sampled packet */
	__u32 sample_psn;
	__u32 sport_changes;
	__u32 message_min;   /* bytes; of messages seen whole */
	__u32 message_max;
	__u64 message_start_local_ns; /* CLOCK_MONOTONIC of the START of the sampled message under way */
	__u32 message_start_psn;
	__u32 sample_slow; /* tx: CLOCK_MONOTONIC >> 20 of when receipts last came too slowly */
	struct esc_message_bucket message_sizes[ESC_MESSAGE_BUCKETS];
	struct esc_qp_steer steer; /* tx: the path that the daemon chose */
};
ESC_ASSERT_OFFSET(struct esc_qp, responses, 64);
ESC_ASSERT_OFFSET(struct esc_qp, messages, 88);
ESC_ASSERT_OFFSET(struct esc_qp, message_sizes, 272);
ESC_ASSERT_OFFSET(struct esc_qp, steer, 784);
ESC_ASSERT_SIZE(struct esc_qp, 912);

#endif
