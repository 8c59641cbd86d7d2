/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steering: which path a queue pair's packets are to take, and what came of it.
 *
 * `steers`, a hash of struct esc_qp_key (tx) to struct esc_steer, holds what is
 * wanted. Writer: the daemon. Nobody asks it for each packet: a queue pair
 * keeps what it was told in its entry of `qps` (struct esc_qp_steer, writer:
 * tc egress) and asks again when steer_generation in `control` is another.
 */
#ifndef ESC_MAPS_STEER_H
#define ESC_MAPS_STEER_H

#include "maps/types.h"

#define ESC_STEERS_MAX 4096

/* Without a heartbeat for so long every packet leaves as it came. */
#define ESC_HEARTBEAT_TIMEOUT_NS 2000000000ull

#define ESC_FLOW_LABEL_MASK 0xfffffu

/* Value of `steers`. An order stands until another one, of a higher number, takes its place. */
struct esc_steer {
	__u32 number;	  /* number of the order, never 0 */
	__u32 flow_label; /* with ESC_STEER_LABEL, host order, 20 bits */
	__u16 sport;	  /* host order; 0: the packet's own */
	__u8 flags;	  /* ESC_STEER_* */
	__u8 path;	  /* with ESC_STEER_PATH: of paths[slot]; when it is dead, packets take its standby's port */
	__u16 slot;
	__u8 reserved[2];
	__u64 flowlet_gap_ns;	      /* a gap of so long between two packets is idle */
	__u64 start_local_ns; /* CLOCK_MONOTONIC: from now on a message's start is enough ... */
	__u64 force_local_ns; /* ... and from now on any packet */
	__u32 reverse_qpn;	      /* with ESC_STEER_REVERSE: QPN that the peer's answers come to */
	__u32 reserved2;
};
ESC_ASSERT_OFFSET(struct esc_steer, flowlet_gap_ns, 16);
ESC_ASSERT_OFFSET(struct esc_steer, reverse_qpn, 40);
ESC_ASSERT_SIZE(struct esc_steer, 48);

#define ESC_STEER_LABEL 0x01 /* IPv6: flow_label is to be the packet's */
#define ESC_STEER_REVERSE 0x04  /* a request behind which all was acknowledged may go at any time */
#define ESC_STEER_PATH 0x02  /* the path is a lane of lane.h, and is followed */

/*
 * When a change took effect. RC goes back to the packet that is missing when a
 * later one overtakes it; behind a gap longer than the paths differ none does.
 */
#define ESC_STEER_TRIGGERS(X)                                                                       \
	X(NONE, none, "not yet")                                                                   \
	X(IDLE, idle_gap, "after an idle gap: no packet can have been overtaken")                  \
	X(START, message_start,                                                                    \
	  "at the start of a message: its packets may have overtaken "                             \
	  "the end of the one before")                                                             \
	X(FORCED, forced, "inside a message: it may have cost one go-back-N")                      \
	X(LAPSED, lapsed, "the daemon was silent: packets leave as they came")                   \
	X(DEAD, path_dead, "at once: the path before was dead")                                  \
	X(DRAINED, drained, "all before had been acknowledged: no packet can have been overtaken")

enum esc_steer_trigger {
#define X(id, name, text) ESC_STEER_TRIGGER_##id,
	ESC_STEER_TRIGGERS(X)
#undef X
		ESC_STEER_TRIGGER_MAX,
};

/* In struct esc_qp: an order as the queue pair follows it. Writer of every field: tc egress. */
struct esc_qp_steer {
	/* Read for every packet that is steered. */
	__u32 generation; /* of control when `steers` was asked */
	__u16 sport;	  /* that packets leave with; 0: their own */
	__u8 flags;	  /* ESC_QP_STEER_* */
	__u8 trigger;	  /* enum esc_steer_trigger of the newest change */
	__u32 jiffies;	  /* when the heartbeat was last looked at, low half */
	__u16 slot;	  /* with ESC_QP_STEER_PATH: of the order in force, as its lane */
	__u8 path;
	__u8 backup;	  /* with ESC_QP_STEER_DIVERTED: lane of that slot whose port is in `sport` */
	__u64 packets;	  /* that left on the path */
	__u64 icrc[4];	  /* words << 48 | change of the port << 32 | patch, see pacing/icrc.h */
	/* Else. */
	__u64 refused;	       /* packets that could not be changed and left as they came */
	__u32 flow_label;      /* with ESC_QP_STEER_LABEL */
	__u32 rule;	       /* the newest seen in `steers`; 0: there is none */
	__u32 applied;	       /* the newest that took effect */
	__u32 next_flow_label; /* of an order that waits (ESC_QP_STEER_PENDING) */
	__u16 next_sport;
	__u8 next_flags;
	__u8 next_path;
	__u16 next_slot;
	__u16 rule_sport; /* of the order in force: `sport`, unless it is diverted */
	__u64 flowlet_gap_ns;
	__u64 start_local_ns;
	__u64 force_local_ns;
	__u64 last_local_ns; /* CLOCK_MONOTONIC of the packet before, while an order waits */
	__u64 applied_local_ns; /* CLOCK_MONOTONIC of the packet that the newest change began with */
};
ESC_ASSERT_OFFSET(struct esc_qp_steer, packets, 16);
ESC_ASSERT_OFFSET(struct esc_qp_steer, icrc, 24);
ESC_ASSERT_OFFSET(struct esc_qp_steer, flowlet_gap_ns, 88);
ESC_ASSERT_SIZE(struct esc_qp_steer, 128);

#define ESC_QP_STEER_LABEL 0x01
#define ESC_QP_STEER_PENDING 0x02
#define ESC_QP_STEER_LAPSED 0x04 /* the heartbeat was missed: as it came, until another order */
#define ESC_QP_STEER_PATH 0x08
#define ESC_QP_STEER_DIVERTED 0x10 /* the lane was dead: packets leave on its standby */
#define ESC_QP_STEER_RETURNS 0x20  /* with _WAITS: it is the order in force, which the lane is back for */

#endif
