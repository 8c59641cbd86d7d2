/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `qps`: a hash of struct esc_qp_key to struct esc_qp, one entry per
 * direction of a queue pair at this host. Writer of every field: the
 * kernel programs (tc egress for tx, XDP or tc ingress for rx). User space
 * reads, and deletes the entries of queue pairs that have ended.
 */
#ifndef ESC_MAPS_QP_H
#define ESC_MAPS_QP_H

#include "maps/steer.h"
#include "maps/rocev2.h"

enum esc_direction {
	ESC_DIRECTION_TX = 0,
	ESC_DIRECTION_RX = 1,
};

/* IPv4 addresses are stored as ::ffff:a.b.c.d. */
struct esc_address {
	__u8 bytes[16];
} __attribute__((aligned(4)));

struct esc_qp_key {
	struct esc_address src;
	struct esc_address dst;
	__u32 dest_qpn;	  /* host order, 24 bits */
	__u8 direction;	  /* enum esc_direction */
	__u8 port;	  /* index into `ports`: the same QP on two NICs is two entries */
	__u8 reserved[2]; /* zero: part of the hashed key */
};
ESC_ASSERT_SIZE(struct esc_qp_key, 40);
ESC_ASSERT_OFFSET(struct esc_qp_key, dest_qpn, 32);

/*
 * One sequence of PSNs, tracked like the state machine of the responder (rx) or the
 * requester (tx). A direction of a QP has two: its requests and
 * its responses to the peer's requests.
 */
struct esc_psn_stream {
	__u32 next;	     /* PSN that comes next in order, 24 bits */
	__u32 last;	     /* PSN of the packet before this one */
	__u32 off_run;	     /* consecutive packets far from `next` */
	__u32 message_bytes; /* payload of the current message so far */
	__u32 read_bytes;    /* length of the preceding READ request, 0 = none */
	__u8 flags;	     /* ESC_PSN_* */
	__u8 reserved[3];
};
#define ESC_PSN_VALID 0x01   /* `next` is known */
#define ESC_PSN_GAP 0x02     /* a gap is open: `next` has not been received yet */
#define ESC_PSN_MESSAGE 0x04 /* the current message was seen from its start */
#define ESC_PSN_ASKED 0x08   /* the newest request in order has to be acknowledged, or replied to */
ESC_ASSERT_SIZE(struct esc_psn_stream, 24);

/* Message sizes by power of two; the sum makes the mean of a bucket exact. */
struct esc_message_bucket {
	__u64 count;
	__u64 bytes;
};
#define ESC_MESSAGE_BUCKETS 32 /* bucket 0: empty; n: 2^(n-1) .. 2^n - 1 bytes */

#define ESC_SAMPLE_MESSAGE 0x01	    /* the current message is sampled: message_start_* */
#define ESC_SAMPLE_NO_FEEDBACK 0x02 /* the other end is no known peer: no samples, no receipts */
#define ESC_SAMPLE_RESPONSE 0x04    /* with _MESSAGE: it is a READ response */

#define ESC_QP_STEERED 0x01 /* tx: `steer` is in force */
#define ESC_QP_PACED 0x10   /* tx: it has an entry in `qp_pace` */

struct esc_qp {
	/* Written by every packet: one cache line. */
	__u64 packets;
	__u64 bytes; /* IP packets, IP header to ICRC, as the IP header says */
	struct esc_psn_stream requests;
	__u16 sport;	 /* UDP source port of the newest packet, host order */
	__u16 pmtu;	 /* learned from full packets, 0 = not yet */
	__u8 transport;	 /* enum esc_transport of the newest non-CNP packet */
	__u8 port;	 /* index into `ports` */
	__u8 ip_version; /* 4 or 6 */
	__u8 unknown;	 /* 1: counted in struct esc_qp_room, rx as `unknown`, tx as `foreign` */
	__u64 payload_bytes;
	__u32 sample_mask;	/* a packet is sampled when PSN & mask is 0; adapts to the rate, see
				   owd.h */
	__u8 sample_flags;	/* ESC_SAMPLE_* */
	__u8 steer_flags;	/* ESC_QP_STEERED, ESC_QP_PACED */
	__u16 steer_generation; /* low half of control's at the last lookup in `steers` */
	/* Written by some packets. */
	struct esc_psn_stream responses;
	__u64 messages; /* completed in order */
	__u64 acks;
	__u64 psn_gaps;	       /* gaps: skips of one PSN or more */
	__u64 psn_missing;     /* PSNs skipped, sum over gaps */
	__u64 out_of_sequence; /* packets received while a gap was open */
	__u64 duplicates;      /* rx: the PSN was received in order before */
	__u64 retransmits;     /* tx: the PSN was sent before */
	__u64 psn_resyncs;     /* the sequence restarted at another PSN */
	__u64 nak_sequence;
	__u64 nak_invalid_request;
	__u64 nak_remote_access;
	__u64 nak_remote_operational;
	__u64 nak_other;
	__u64 rnr_naks;
	__u64 ect; /* packets marked ECN-capable and not CE */
	__u64 ce;
	__u64 cnps;
	__u64 first_local_ns;  /* CLOCK_MONOTONIC of the entry's first packet */
	__u64 sample_local_ns; /* CLOCK_MONOTONIC of the newest sampled packet */
	__u32 sample_psn;
	__u32 sport_changes;
	__u32 message_min; /* bytes; of messages seen completely */
	__u32 message_max;
	__u64 message_start_local_ns; /* CLOCK_MONOTONIC of the START of the current sampled message
				       */
	__u32 message_start_psn;
	__u32 sample_slow; /* tx: CLOCK_MONOTONIC >> 20 when receipts were last too infrequent */
	struct esc_message_bucket message_sizes[ESC_MESSAGE_BUCKETS];
	struct esc_qp_steer steer; /* tx: the rule of the daemon */
};

/*
 * Value of `qp_room`, one entry: how many entries of `qps` are of which kind. What others send
 * may fill a half of the table, unknown hosts a quarter, so that forged packets never take the
 * room of this host's own queue pairs. Of that half the last quarter is for numbers that a queue
 * pair of this host's RDMA devices has, while these are traced. What this host sends and no RDMA
 * device of it made may fill a quarter: forwarded packets (containers, virtual machines) and those
 * of sockets. The programs increment a count with an entry, the daemon corrects it with each
 * reading of the table.
 */
#define ESC_QP_ROOM_DEVICES 8
struct esc_qp_room {
	__u32 rx, rx_max; /* 0: no limit */
	__u32 unknown,
		unknown_max; /* received of hosts that are not members, while there is a list */
	__u32 foreign, foreign_max; /* sent, not by an RDMA device of this host */
	__u32 device_count;	    /* of `devices`; 0: queue pairs are not traced, or of more */
	__u32 devices[ESC_QP_ROOM_DEVICES]; /* as in struct esc_owner_key; writer: the daemon */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_qp_room, 64);
ESC_ASSERT_OFFSET(struct esc_qp, responses, 64);
ESC_ASSERT_OFFSET(struct esc_qp, messages, 88);
ESC_ASSERT_OFFSET(struct esc_qp, message_sizes, 272);
ESC_ASSERT_OFFSET(struct esc_qp, steer, 784);
ESC_ASSERT_SIZE(struct esc_qp, 920);

#endif
