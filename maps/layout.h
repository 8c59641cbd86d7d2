/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `layouts`: the version of each pinned map, so that a daemon of another release knows which to
 * reuse. */
#ifndef ESC_MAPS_LAYOUT_H
#define ESC_MAPS_LAYOUT_H

#include "maps/types.h"

/*
 * A map whose layout or meaning changes gets the next number here; all others are reused by the
 * next release. Those of `abi`, `layouts` and `xdp_counted` never change: every release reads them.
 */
#define ESC_LAYOUTS(X)                                                                             \
	X(abi, 1)                                                                                  \
	X(clock, 2)                                                                                \
	X(control, 1)                                                                              \
	X(fleet, 1)                                                                                \
	X(host_queue, 1)                                                                           \
	X(layouts, 1)                                                                              \
	X(link_flaps, 1)                                                                           \
	X(nic_control, 1)                                                                          \
	X(nic_counts, 1)                                                                           \
	X(nic_local, 1)                                                                            \
	X(nic_peers, 1)                                                                            \
	X(nic_routes, 2)                                                                           \
	X(pace, 1)                                                                                 \
	X(pace_assigned, 1)                                                                        \
	X(pace_rules, 1)                                                                           \
	X(path_cpu, 1)                                                                             \
	X(path_received, 1)                                                                        \
	X(path_records, 1)                                                                         \
	X(path_slots, 1)                                                                           \
	X(paths, 1)                                                                                \
	X(peer_addresses, 1)                                                                       \
	X(peers, 1)                                                                                \
	X(port_counts, 1)                                                                          \
	X(ports, 1)                                                                                \
	X(probe_sockets, 1)                                                                        \
	X(probes, 1)                                                                               \
	X(qp_owd, 1)                                                                               \
	X(qp_owners, 1)                                                                            \
	X(qp_pace, 1)                                                                              \
	X(qp_room, 3)                                                                              \
	X(qp_sent, 1)                                                                              \
	X(qps, 2)                                                                                  \
	X(reasons, 2)                                                                              \
	X(receipt_cpu, 1)                                                                          \
	X(repair_cpu, 2)                                                                           \
	X(repair_rings, 3)                                                                         \
	X(rx_timestamps, 1)                                                                        \
	X(steers, 1)                                                                               \
	X(xdp_counted, 1)

#define ESC_LAYOUTS_MAX 256

/* Value of `layouts`, a hash by the kernel's id of a map. Writer: the daemon that made the map. */
struct esc_layout {
	__u32 layout;
	char name[16];
};
ESC_ASSERT_SIZE(struct esc_layout, 20);

/* Value of `xdp_counted`, a per-CPU array by port: see ESC_HANDOVER_*. */
struct esc_xdp_counted {
	__u64 counted;
};
ESC_ASSERT_SIZE(struct esc_xdp_counted, 8);

/* Steps of the program esc_carry, which adds counts of a map of another layout to the new one. */
enum esc_carry_act {
	ESC_CARRY_ADD4,
	ESC_CARRY_ADD8,
	ESC_CARRY_SET4,
	ESC_CARRY_SET8,
};
struct esc_carry_step {
	__u32 act; /* enum esc_carry_act */
	__u32 offset;
	__u64 value;
};
#define ESC_CARRY_STEPS 32
#define ESC_CARRY_KEY_BYTES 64
struct esc_carry {
	__u8 key[ESC_CARRY_KEY_BYTES];
	struct esc_carry_step steps[ESC_CARRY_STEPS];
	__u32 count;
	__u32 done; /* 1: the entry was there */
};

#endif
