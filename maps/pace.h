/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing: when a packet of a flow may leave. The law is pacing/pause.h.
 *
 * `pace_rules`, an array by ESC_PACE_RULE(port, class), holds a class's rule on
 * a port, `pace` what the programs know of classes by themselves, `pace_assigned`
 * the class of single queue pairs. Writer: the daemon. `qp_pace` has the state
 * of each queue pair that is paced. Writer: the programs.
 */
#ifndef ESC_MAPS_PACE_H
#define ESC_MAPS_PACE_H

#include "maps/qp.h"

#define ESC_PACE_CLASSES 16 /* 0: of what fits no other */
#define ESC_PACE_RULES (16 * ESC_PACE_CLASSES)
#define ESC_PACE_RULE(port, class)                                                                 \
	(((port) & 15) * ESC_PACE_CLASSES + ((class) & (ESC_PACE_CLASSES - 1)))
#define ESC_PACE_ASSIGNED_MAX 4096

#define ESC_PACE_WEIGHT_MAX 15
#define ESC_PACE_THRESHOLD_DEFAULT_NS 50000
#define ESC_PACE_THRESHOLD_MIN_NS 1000
#define ESC_PACE_THRESHOLD_MAX_NS 1000000000
/* Below the 67 ms after which RoCE usually takes a packet for lost. */
#define ESC_PACE_HOLD_DEFAULT_NS 40000000
#define ESC_PACE_HOLD_MIN_NS 1000000
#define ESC_PACE_HOLD_MAX_NS 1000000000
/* A delay that may be wrong by more than this part of the threshold holds nothing back. */
#define ESC_PACE_BOUND_SHIFT 2

/* ---- state of the law of pacing/pause.h ---- */

/* A class of flows. Writer: user space, by pause_rule_default() and what is configured. */
struct pause_rule {
	__u64 threshold_ns;
	__u64 line_Bps;    /* what the port can send, bytes in a second */
	__u64 floor_Bps;   /* a rate is never less */
	__u64 start_Bps;   /* before the first sample; 0: as line_Bps */
	__u64 hold_max_ns; /* no departure is further ahead */
	__u64 quantum_ns;  /* in a long pause a packet leaves so often */
	__u64 credit_ns;   /* so much of the time not used may be made up for */
	__u64 no_feedback_ns;    /* without a sample for so long the rate doubles, and again */
	__u32 weight;      /* in 1 / PAUSE_WEIGHT_ONE, 1 .. 255 */
	__u32 gain;	       /* of the pause, in 1 / PAUSE_GAIN_ONE */
	__u32 flags;       /* PAUSE_RATE */
	__u32 reserved[5];
};
ESC_ASSERT_SIZE(struct pause_rule, 96);

#define PAUSE_RATE 0x01u

/*
 * A flow; all zero at birth. Times are CLOCK_MONOTONIC. "departure": the side that sends
 * (tc egress), "sample": the side that hears of delays (XDP); each field has one writer, but
 * that the departure of a flow that rested, lost a packet or hears nothing sets the rate anew. Two
 * CPUs that send for one flow at once may let two packets leave together, no more.
 */
struct pause_flow {
	__u64 next_ns;	    /* departure: before it the rate lets nothing leave */
	__u64 departed_ns;	    /* departure: of the newest packet */
	__u64 bytes;	    /* departure: given one */
	__u64 taken_ns;	    /* departure: pause that packets waited for */
	__u64 held_ns;	    /* departure: time in which a packet waited, for whatever */
	__u64 no_feedback_ns;	    /* departure: when the rate was last raised without a sample */
	__u64 until_ns;	    /* sample: end of the pause */
	__u64 paused_ns;	    /* sample: all that was ordered */
	__u64 sampled_ns;	    /* sample: when the newest came; 0: none yet */
	__u64 rate_Bps;	    /* 0: not limited */
	__u64 gap;		    /* ns for a byte, << PAUSE_GAP_SHIFT */
	__u64 loop_ns;	    /* sample: from stamping to the receipt, smoothed */
	__u64 ref_departure_ns; /* sample: the first of this round; 0: none */
	__u64 ref_delay_ns;
	__u32 ref_taken_ns;
	__u32 ref_bytes;
	__u32 round;     /* sample: number of the rate */
	__u32 calm;	     /* sample: rounds without a queue */
	__u64 delay_ns;  /* sample: the newest */
	__u64 over;	     /* sample: how many were above the threshold */
	__u64 lost_ns;   /* departure: when the rate was last lowered for a loss */
	__u64 rate_set_ns; /* sample: when the rate was last set */
	__u32 repeats;   /* departure: the newest packet had been sent before */
	__u32 ineffective;	     /* sample: rounds in a row in which giving way was in vain */
	__u64 began_ns;  /* departure: of the first packet after the last rest */
	__u64 began_bytes;
	__u64 rtt_ns;     /* sample: from departure to the receipt, smoothed */
	__u32 queued;     /* sample: there was a queue since the last rest */
	__u32 lost_bytes; /* departure: low bits of `bytes` then */
	__u64 floor_ns; /* sample: least delay, and 1; 0: not known; a caller that knows better
			       sets it, from a departure */
	__u32 opened_bytes; /* departure: what it may send at the line's rate, each time */
	__u32 open_bytes;	/* left of it; the sample sets it anew, the departure takes away */
	__u32 open_end;	/* low bits of `bytes` when it is used up */
	__u32 ref_samples;	/* sample: that the reference is the mean of */
	__u32 end_samples;	/* sample: at the round's end, so far; and their means, */
	__u32 end_span_ns;	/* from the reference to their departure, pauses aside */
	__s32 end_rise_ns;	/* how much longer their delay was */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct pause_flow, 240);

/* What is kept with a packet that is sampled, from its stamping to its receipt: 2^32 ns at most. */
struct pause_mark {
	__u32 paused_ns; /* low bits of the flow's, when it was stamped */
	__u32 taken_ns;
	__u32 bytes;
	__u32 round;
	__u32 ahead_ns; /* from stamping to departure */
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct pause_mark, 24);

/* ---- values of the maps ---- */

/* Value of `pace`, an array of one. Writer: the daemon. */
struct esc_pace {
	__u32 generation;  /* another one: `pace_assigned`, `dscp_class` or a lane's floor has changed */
	__u32 reserved;
	__u8 dscp_class[64]; /* of a queue pair that has no order */
};
ESC_ASSERT_SIZE(struct esc_pace, 72);

/* Value of `pace_assigned`, a hash by struct esc_qp_key (tx). */
struct esc_pace_assignment {
	__u8 class;
	__u8 by_operator; /* not by the configuration's classes */
	__u8 reserved[6];
};
ESC_ASSERT_SIZE(struct esc_pace_assignment, 8);

/* Value of `qp_pace`, a hash by struct esc_qp_key (tx). */
struct esc_qp_pace {
	struct pause_flow flow;
	__u64 last_departure_ns[2]; /* newest departure of a request, of a response: nothing overtakes it */
	__u64 packets;	     /* data that was given a departure */
	__u64 held;	     /* of these, not at once */
	__u64 waited_ns;     /* sum over packets, from tc egress to departure */
	__u64 longest_ns;    /* that one waited */
	__u64 bounded;	     /* packets that would have been held longer than is allowed */
	__u64 samples;	     /* that the law got */
	__u64 unsure;	     /* delays that it did not: no fabric time, or a bound too wide */
	__u32 generation;    /* of `pace` when `class` was looked up */
	__u8 class;
	__u8 dscp;
	__u16 sport; /* of the path that the flow's floor is of, host order; 0: not asked yet */
};
ESC_ASSERT_OFFSET(struct esc_qp_pace, packets, sizeof(struct pause_flow) + 16);
ESC_ASSERT_SIZE(struct esc_qp_pace, sizeof(struct pause_flow) + 80);

#endif
