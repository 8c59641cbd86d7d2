/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing: when a packet of a flow may leave. The law is pacing/pause.h.
 *
 * `pace_rules`, an array by ESC_PACE_RULE(port, class), holds a class's rule on
 * a port, `pace` what the programs know of classes by themselves, `pace_orders`
 * the class of single queue pairs. Writer: the daemon. `qp_pace` has the state
 * of each queue pair that is paced. Writer: the programs.
 */
#ifndef ESC_MAPS_PACE_H
#define ESC_MAPS_PACE_H

#include "../pacing/pause.h"
#include "maps/qp.h"

#define ESC_PACE_CLASSES 16 /* 0: of what fits no other */
#define ESC_PACE_RULES (16 * ESC_PACE_CLASSES)
#define ESC_PACE_RULE(port, class)                                                                 \
	(((port) & 15) * ESC_PACE_CLASSES + ((class) & (ESC_PACE_CLASSES - 1)))
#define ESC_PACE_ORDERS_MAX 4096

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

/* Value of `pace`, an array of one. Writer: the daemon. */
struct esc_pace {
	__u32 generation;  /* another one: `pace_orders`, `dscp_class` or a lane's floor has changed */
	__u32 reserved;
	__u8 dscp_class[64]; /* of a queue pair that has no order */
};
ESC_ASSERT_SIZE(struct esc_pace, 72);

/* Value of `pace_orders`, a hash by struct esc_qp_key (tx). */
struct esc_pace_order {
	__u8 class;
	__u8 by_hand; /* not by the configuration's classes */
	__u8 reserved[6];
};
ESC_ASSERT_SIZE(struct esc_pace_order, 8);

/* Value of `qp_pace`, a hash by struct esc_qp_key (tx). */
struct esc_qp_pace {
	struct pause_flow flow;
	__u64 ordered_ns[2]; /* newest departure of a request, of a response: nothing overtakes it */
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
