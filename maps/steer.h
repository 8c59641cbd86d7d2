/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Steering: rules for the path of a queue pair's packets, and their state.
 *
 * `steers`, a hash of struct esc_qp_key (tx) to struct esc_steer, has the rules.
 * Writer: the daemon. It is not looked up for each packet: the entry of a queue pair
 * in `qps` has a copy (struct esc_qp_steer, writer: tc egress), which is updated when
 * steer_generation in `control` changes.
 */
#ifndef ESC_MAPS_STEER_H
#define ESC_MAPS_STEER_H

#include "maps/types.h"

#define ESC_STEERS_MAX 4096

/* Without a heartbeat for this long packets are not steered. */
#define ESC_HEARTBEAT_TIMEOUT_NS 2000000000ull

#define ESC_FLOW_LABEL_MASK 0xfffffu

/* Value of `steers`. A rule applies until another one, of a higher number, replaces it. */
struct esc_steer {
	__u32 number;	  /* of the rule, never 0 */
	__u32 flow_label; /* with ESC_STEER_LABEL, host order, 20 bits */
	__u16 sport;	  /* host order; 0: the packet's own */
	__u8 flags;	  /* ESC_STEER_* */
	__u8 path;	  /* with ESC_STEER_PATH: of paths[slot]; when it is dead, packets take the
			     backup's port */
	__u16 slot;
	__u16 ring;	      /* 1 + index into `repair_rings`; 0: no copies are kept */
	__u64 flowlet_gap_ns; /* after a gap of this length packets may take the new path */
	__u64 start_local_ns; /* CLOCK_MONOTONIC: from then on the trigger is a message's start ...
			       */
	__u64 force_local_ns; /* ... and from then on any packet */
	__u32 reverse_qpn; /* with ESC_STEER_REVERSE: QPN that the peer's responses are sent to */
	__u32 reserved2;
};
ESC_ASSERT_OFFSET(struct esc_steer, flowlet_gap_ns, 16);
ESC_ASSERT_OFFSET(struct esc_steer, reverse_qpn, 40);
ESC_ASSERT_SIZE(struct esc_steer, 48);

#define ESC_STEER_LABEL 0x01 /* IPv6: set the packet's flow label */
#define ESC_STEER_REVERSE                                                                          \
	0x04 /* reverse_qpn is valid: a request with all before it acknowledged is a trigger */
#define ESC_STEER_PATH                                                                             \
	0x02 /* `slot` and `path` are valid: the rule follows a candidate path of path.h */

/*
 * Triggers: when a change took effect. RC does a go-back-N when a packet is overtaken by
 * a later one; after a gap longer than the difference of the paths' delays none is.
 */
#define ESC_STEER_TRIGGERS(X)                                                                      \
	X(NONE, none, "not yet")                                                                   \
	X(IDLE, idle_gap, "after an idle gap: no packet can have been overtaken")                  \
	X(START, message_start,                                                                    \
	  "at the start of a message: its packets may have overtaken "                             \
	  "the end of the one before")                                                             \
	X(FORCED, forced, "inside a message: it may have cost one go-back-N")                      \
	X(LAPSED, lapsed, "no heartbeat of the daemon: packets leave unchanged")                   \
	X(DEAD, path_dead, "at once: the old path was dead")                                       \
	X(DRAINED, drained, "all before had been acknowledged: no packet can have been overtaken")

enum esc_steer_trigger {
#define X(id, name, text) ESC_STEER_TRIGGER_##id,
	ESC_STEER_TRIGGERS(X)
#undef X
		ESC_STEER_TRIGGER_MAX,
};

/* In struct esc_qp: the queue pair's copy of its rule. Writer of every field: tc egress. */
struct esc_qp_steer {
	/* Read for every packet that is steered. */
	__u32 generation; /* of control at the last lookup in `steers` */
	__u16 sport;	  /* of packets sent; 0: their own */
	__u8 flags;	  /* ESC_QP_STEER_* */
	__u8 trigger;	  /* enum esc_steer_trigger of the newest change */
	__u32 jiffies;	  /* of the last check of the heartbeat, low half */
	__u16 slot;	  /* with ESC_QP_STEER_PATH: of the rule in force, as is `path` */
	__u8 path;
	__u8 backup;   /* with ESC_QP_STEER_DIVERTED: path of that slot whose port is in `sport` */
	__u64 packets; /* sent on the path */
	__u64 icrc[4]; /* words << 48 | change of the port << 32 | patch, see pacing/icrc.h */
	/* Not read for every packet. */
	__u64 refused;	       /* packets that could not be changed and were sent unchanged */
	__u32 flow_label;      /* with ESC_QP_STEER_LABEL */
	__u32 rule;	       /* number of the newest seen in `steers`; 0: none */
	__u32 applied;	       /* number of the newest that took effect */
	__u32 next_flow_label; /* of a pending rule (ESC_QP_STEER_PENDING) */
	__u16 next_sport;
	__u8 next_flags;
	__u8 next_path;
	__u16 next_slot;
	__u16 rule_sport; /* of the rule in force: `sport`, unless diverted */
	__u64 flowlet_gap_ns;
	__u64 start_local_ns;
	__u64 force_local_ns;
	__u64 last_local_ns; /* CLOCK_MONOTONIC of the previous packet's departure, while a rule is
				pending */
	__u64 applied_local_ns; /* CLOCK_MONOTONIC of the first packet of the newest change */
	__u16 ring;		/* of the rule in `steers` */
	__u8 lost;		/* path of that slot that packets took before the newest change */
	__u8 reserved[5];
};
ESC_ASSERT_OFFSET(struct esc_qp_steer, packets, 16);
ESC_ASSERT_OFFSET(struct esc_qp_steer, icrc, 24);
ESC_ASSERT_OFFSET(struct esc_qp_steer, flowlet_gap_ns, 88);
ESC_ASSERT_SIZE(struct esc_qp_steer, 136);

#define ESC_QP_STEER_LABEL 0x01
#define ESC_QP_STEER_PENDING 0x02
#define ESC_QP_STEER_LAPSED                                                                        \
	0x04 /* the heartbeat timed out: packets unchanged, until another rule */
#define ESC_QP_STEER_PATH 0x08
#define ESC_QP_STEER_DIVERTED 0x10 /* the path is dead: packets take its backup */
#define ESC_QP_STEER_RETURNS 0x20  /* with _PENDING: the rule in force, whose path is back */

#endif
