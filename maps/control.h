/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `abi`, `control`, `ports`, `port_counts`: the daemon's control of the programs. */
#ifndef ESC_MAPS_CONTROL_H
#define ESC_MAPS_CONTROL_H

#include "maps/types.h"

/*
 * What `abi` holds, for good: releases with this number read the layout of each map (layout.h).
 * Those before had one number for all maps. Maps of number 8 are read as well, those of 9 to 12 are
 * refused.
 */
#define ESC_ABI 13
#define ESC_ABI_BEFORE 8

#define ESC_PORTS_MAX 16

/* Value of `abi`, an array of one. Writer: the daemon that made the maps. */
struct esc_abi {
	__u32 abi;
	__u32 reserved;
	char version[24]; /* program version that made the maps, NUL-padded */
};
ESC_ASSERT_SIZE(struct esc_abi, 32);

/* Value of `control`, an array of one. Writer: the daemon (or an operator). */
struct esc_control {
	__u32 flags;		  /* ESC_CONTROL_* */
	__u32 sample_mask;	  /* initial one of a queue pair: 2^n - 1, see struct esc_qp */
	__u64 heartbeat_local_ns; /* CLOCK_MONOTONIC of the daemon's last tick; 0: none yet */
	__u16 xdp_handover[ESC_PORTS_MAX]; /* by port: which XDP program counts, see below */
	__u32 receipts_max_pps;		   /* rate limit of receipts sent, per CPU */
	__u32 delay_threshold_ns;	   /* crossings of it are counted per queue pair */
	__u32 steer_generation;		   /* incremented when `steers` changes */
	__u16 steer_ports;		   /* with ESC_CONTROL_STEER: bitmap of ports */
	__u16 pace_ports;		   /* with ESC_CONTROL_PACE: bitmap of ports */
};
ESC_ASSERT_SIZE(struct esc_control, 64);
#define ESC_CONTROL_OFF 0x1u	      /* kill switch: programs leave every packet alone */
#define ESC_CONTROL_RECEIPTS 0x2u     /* sample packets, send receipts for the peers' samples */
#define ESC_CONTROL_STEER 0x8u	      /* apply the rules in `steers` */
#define ESC_CONTROL_PACE 0x10u	      /* pace data on pace_ports, see pace.h */
#define ESC_CONTROL_SAMPLE_FIXED 0x4u /* sample_mask does not follow the rate */
/*
 * With a heartbeat older than this, probes are no longer replied to, so that neighbours
 * detect that the daemon is gone. The heartbeat is written every 50 ms; a restart, or a wait
 * for the kernel's RTNL lock, is shorter than the timeout.
 */
#define ESC_PROBE_HEARTBEAT_TIMEOUT_NS 3000000000ull

/*
 * Handover of counting between two XDP programs: generation << 2 | phase. An XDP program
 * counts when its own ID (rodata esc_handover_id, phase always ESC_HANDOVER_STEADY) equals
 * xdp_handover[its port]; both are 0 where a program is replaced atomically
 * (bpf_link_update). libxdp's dispatcher cannot do that: the successor (generation + 1)
 * is attached behind the incumbent, both see every packet, and the daemon hands counting
 * over with a grace period between steps. State in the map ->
 *   incumbent's, STEADY:   the incumbent counts, the successor does not
 *   incumbent's, ANNOUNCE: the same, and the incumbent writes xdp_counted = 1
 *   incumbent's, PASS:     the incumbent does not count and writes
 *                          xdp_counted = 0; the successor counts if it is 0
 *   successor's, STEADY:   the successor counts, the incumbent does not
 * so that a packet between the two programs during a step is counted once.
 */
#define ESC_HANDOVER_PHASE 0x3u
#define ESC_HANDOVER_STEADY 0x0u
#define ESC_HANDOVER_ANNOUNCE 0x1u
#define ESC_HANDOVER_PASS 0x2u
#define ESC_HANDOVER_NEXT 0x4u /* added to a steady ID: the successor's */

enum esc_xdp_mode {
	ESC_XDP_NONE = 0, /* rx is counted in tc ingress instead */
	ESC_XDP_NATIVE = 1,
	ESC_XDP_SKB = 2,
};

enum esc_xdp_via {
	ESC_XDP_VIA_NONE = 0,
	ESC_XDP_VIA_DISPATCHER = 1, /* libxdp's, beside other programs */
	ESC_XDP_VIA_LINK = 2,	    /* a pinned bpf_link of our own */
};

enum esc_tc_via {
	ESC_TC_NONE = 0,
	ESC_TC_TCX = 1,
	ESC_TC_CLSACT = 2,
};

#define ESC_PORT_CLSACT_MADE 0x1u /* we made the clsact qdisc, and remove it */
#define ESC_PORT_FQ_MADE 0x2u	  /* the same for the fq qdisc */

/* Value of `ports`, an array: the attached programs per interface. Writer: the daemon. */
struct esc_port {
	char name[16]; /* empty: the slot is free */
	__u32 ifindex;
	__u8 xdp_mode; /* enum esc_xdp_mode */
	__u8 xdp_via;  /* enum esc_xdp_via */
	__u8 tc_via;   /* enum esc_tc_via */
	__u8 flags;    /* ESC_PORT_* */
	__u32 xdp_program_id;
	__u32 xdp_next_program_id; /* successor in the dispatcher during a handover, else 0 */
	__u32 offloads_taken;	   /* disabled when attaching: bits of loader/net/offload.c */
	__u32 reserved[2];
};
ESC_ASSERT_SIZE(struct esc_port, 44);

/* Value of `port_counts`, a per-CPU array beside `ports`. Writer: the programs. */
struct esc_port_counts {
	__u64 rx_roce_packets; /* RoCEv2 with a BTH that was understood */
	__u64 rx_roce_bytes;   /* IP packets, as in struct esc_qp */
	__u64 tx_roce_packets;
	__u64 tx_roce_bytes;
	__u64 rx_ce_packets;
	__u64 tx_ce_packets;
	__u64 rx_cnps;
	__u64 tx_cnps;
	__u64 rx_rocev1_frames;
	__u64 tx_rocev1_frames;
	__u64 xdp_counted; /* not a counter: state of the current packet, see ESC_HANDOVER_* */
};
ESC_ASSERT_SIZE(struct esc_port_counts, 88);

#endif
