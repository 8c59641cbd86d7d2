/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `abi`, `control`, `ports`, `port_counts`: the daemon's word to the programs. */
#ifndef ESC_MAPS_CONTROL_H
#define ESC_MAPS_CONTROL_H

#include "types.h"

/* Raised whenever a pinned map's layout or meaning changes. */
#define ESC_ABI 1

/* Value of `abi`, an array of one. Writer: the daemon that made the maps. */
struct esc_abi {
	__u32 abi;
	__u32 reserved;
	char version[24]; /* program version that made the maps, NUL-padded */
};
ESC_ASSERT_SIZE(struct esc_abi, 32);

/* Value of `control`, an array of one. Writer: the daemon (or an operator). */
struct esc_control {
	__u32 flags;		   /* ESC_CONTROL_* */
	__u32 sample_mask;	   /* a packet is sampled when PSN & mask == 0 */
	__u64 heartbeat_local_ns;  /* CLOCK_MONOTONIC of the daemon's last turn */
	__u32 reserved[12];
};
ESC_ASSERT_SIZE(struct esc_control, 64);
#define ESC_CONTROL_OFF 0x1u /* kill switch: programs leave every packet alone */

#define ESC_PORTS_MAX 16

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

#define ESC_PORT_CLSACT_MADE 0x1u /* the clsact qdisc is ours to remove */

/* Value of `ports`, an array: what is attached where. Writer: the daemon. */
struct esc_port {
	char name[16]; /* empty: slot is free */
	__u32 ifindex;
	__u8 xdp_mode; /* enum esc_xdp_mode */
	__u8 xdp_via;  /* enum esc_xdp_via */
	__u8 tc_via;   /* enum esc_tc_via */
	__u8 flags;    /* ESC_PORT_* */
	__u32 xdp_program_id;
	__u32 reserved;
};
ESC_ASSERT_SIZE(struct esc_port, 32);

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
};
ESC_ASSERT_SIZE(struct esc_port_counts, 80);

#endif
