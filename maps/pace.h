/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing: when a packet of a flow may leave. The law is pacing/pause.h.
 *
 * `pace_rules`, an array by ESC_PACE_RULE(port, class), has a class's rule on
 * a port, `pace` the default classes by DSCP, `pace_assigned` the classes
 * of single queue pairs. Writer: the daemon. `qp_pace` has the state
 * of each paced queue pair. Writer: the programs.
 */
#ifndef ESC_MAPS_PACE_H
#define ESC_MAPS_PACE_H

#include "maps/qp.h"

#define ESC_PACE_CLASSES 16 /* 0: default */
#define ESC_PACE_RULES (16 * ESC_PACE_CLASSES)
#define ESC_PACE_RULE(port, class)                                                                 \
	((15 & (port)) * ESC_PACE_CLASSES + ((class) & (ESC_PACE_CLASSES - 1)))
#define ESC_PACE_ASSIGNED_MAX 4096

#define ESC_PACE_WEIGHT_MAX 15
#define ESC_PACE_THRESHOLD_DEFAULT_NS 50000
#define ESC_PACE_THRESHOLD_MIN_NS 1000
#define ESC_PACE_THRESHOLD_MAX_NS 1000000000
/* Below RoCE's usual retransmission timeout of 67 ms. */
#define ESC_PACE_HOLD_DEFAULT_NS 40000000
#define ESC_PACE_HOLD_MIN_NS 1000000
#define ESC_PACE_HOLD_MAX_NS 1000000000
/* A delay whose bound is above this part of the threshold is ignored by pacing. */
#define ESC_PACE_BOUND_SHIFT 2

/* ---- state of the law of pacing/pause.h ---- */

/* A class of flows. Writer: user space, by pause_rule_default() and the configuration. */
struct pause_rule {
	__u64 threshold_ns;
	__u64 line_Bps;	      /* line rate of the port, bytes per second */
	__u64 floor_Bps;      /* minimum rate */
	__u64 start_Bps;      /* rate before the first sample; 0: line_Bps */
	__u64 hold_max_ns;    /* maximum delay of a departure */
	__u64 quantum_ns;     /* interval between packets in a long pause */
	__u64 credit_ns;      /* burst allowance: unused time that may be made up for */
	__u64 no_feedback_ns; /* without a sample for this long the rate doubles, repeatedly */
	__u32 weight;	      /* in 1 / PAUSE_WEIGHT_ONE, 1 .. 255 */
	__u32 gain;	      /* of the pause, in 1 / PAUSE_GAIN_ONE */
	__u32 flags;	      /* PAUSE_RATE */
	__u32 reserved[5];
};
ESC_ASSERT_SIZE(struct pause_rule, 96);

#define PAUSE_RATE 0x01u

/*
 * A flow; initially all zero. Times are CLOCK_MONOTONIC. "departure": written by the sending
 * side (tc egress), "sample": by the side that receives delays (XDP); each field has one writer,
 * except that the departure of a flow that was idle, lost a packet or has no feedback resets
 * the rate. Two CPUs that send for one flow at once may let two packets leave together, no more.
 */
struct pause_flow {
	__u64 next_ns;	      /* departure: earliest next departure by the rate */
	__u64 departed_ns;    /* departure: of the newest packet */
	__u64 bytes;	      /* departure: sum over packets */
	__u64 taken_ns;	      /* departure: pause time that delayed packets */
	__u64 held_ns;	      /* departure: time in which a packet was delayed, by rate or pause */
	__u64 no_feedback_ns; /* departure: when the rate was last raised without a sample */
	__u64 until_ns;	      /* sample: end of the pause */
	__u64 paused_ns;      /* sample: sum of all pauses */
	__u64 sampled_ns;     /* sample: when the newest was received; 0: none yet */
	__u64 rate_Bps;	      /* 0: not limited */
	__u64 gap;	      /* ns per byte, << PAUSE_GAP_SHIFT */
	__u64 loop_ns;	      /* sample: from tc egress to the receipt, smoothed */
	__u64 ref_departure_ns; /* sample: the reference of this round; 0: none */
	__u64 ref_delay_ns;
	__u32 ref_taken_ns;
	__u32 ref_bytes;
	__u32 round;	   /* sample: number of the rate */
	__u32 calm;	   /* sample: consecutive rounds without a queue */
	__u64 delay_ns;	   /* sample: the newest */
	__u64 over;	   /* sample: number above the threshold */
	__u64 lost_ns;	   /* departure: when the rate was last lowered after a loss */
	__u64 rate_set_ns; /* sample: when the rate was last set */
	__u32 repeats;	   /* departure: the newest packet was a retransmission */
	__u32 ineffective; /* sample: consecutive rounds in which a lower rate had no effect */
	__u64 began_ns;	   /* departure: of the first packet after the last idle period */
	__u64 began_bytes;
	__u64 rtt_ns;	    /* sample: from departure to the receipt, smoothed */
	__u32 queued;	    /* sample: there was a queue since the last idle period */
	__u32 lost_bytes;   /* departure: low bits of `bytes` at lost_ns */
	__u64 floor_ns;	    /* sample: least delay + 1; 0: not known; a caller with a better
			     * estimate sets it, from a departure */
	__u32 opened_bytes; /* departure: size of a burst at line rate */
	__u32 open_bytes;   /* remainder of it; reset by the sample, consumed by the departure */
	__u32 open_end;	    /* low bits of `bytes` at its end */
	__u32 ref_samples;  /* sample: number in the mean of the reference */
	__u32 end_samples;  /* sample: number at the round's end so far; and their means, */
	__u32 end_span_ns;  /* from the reference to their departure, without pauses */
	__s32 end_rise_ns;  /* increase of their delay */
	__u32 moved; /* departure: PAUSE_MOVED, and the PSN from which on packets took the path */
};
ESC_ASSERT_SIZE(struct pause_flow, 240);

/* In `moved`: earlier PSNs went another path; of responses. */
#define PAUSE_MOVED 0x80000000u
#define PAUSE_MOVED_RESPONSES 0x40000000u
#define PAUSE_MOVED_PSN 0x00ffffffu

/* State at departure, kept with a sampled packet until its receipt: 2^32 ns at most. */
struct pause_mark {
	__u32 paused_ns; /* low bits of the flow's, in tc egress */
	__u32 taken_ns;
	__u32 bytes;
	__u32 round;
	__u32 ahead_ns; /* from tc egress to departure */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct pause_mark, 24);

/* ---- values of the maps ---- */

/* Value of `pace`, an array of one. Writer: the daemon. */
struct esc_pace {
	__u32 generation; /* incremented when `pace_assigned`, `dscp_class` or a path's floor
			     changes */
	__u32 reserved;
	__u8 dscp_class[64]; /* of a queue pair without an assignment */
};
ESC_ASSERT_SIZE(struct esc_pace, 72);

/* Value of `pace_assigned`, a hash by struct esc_qp_key (tx). */
struct esc_pace_assignment {
	__u8 class;
	__u8 by_operator; /* else by the classes of the configuration */
	__u8 reserved[6];
};
ESC_ASSERT_SIZE(struct esc_pace_assignment, 8);

/* Value of `qp_pace`, a hash by struct esc_qp_key (tx). */
struct esc_qp_pace {
	struct pause_flow flow;
	__u64 last_departure_ns[2]; /* of requests, of responses: no packet overtakes another */
	__u64 packets;		    /* data packets with a departure time */
	__u64 held;		    /* of these, delayed */
	__u64 waited_ns;	    /* sum of the delays from tc egress to departure */
	__u64 longest_ns;	    /* maximum of them */
	__u64 bounded;		    /* packets whose delay was cut to the maximum */
	__u64 samples;		    /* used by the law */
	__u64 unsure;		    /* samples not used: no fabric time, or a bound too wide */
	__u32 generation;	    /* of `pace` when `class` was looked up */
	__u8 class;
	__u8 dscp;
	__u16 sport; /* of the path that the flow's floor is of, host order; 0: not looked up yet */
};
ESC_ASSERT_OFFSET(struct esc_qp_pace, packets, sizeof(struct pause_flow) + 16);
ESC_ASSERT_SIZE(struct esc_qp_pace, sizeof(struct pause_flow) + 80);

#endif
