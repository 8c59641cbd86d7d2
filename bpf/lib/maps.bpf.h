/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps and the load-time constants. Every hook's object defines them
 * weakly; linking makes one of them. The loader gives them pins and `qps` its
 * size.
 */
#ifndef ESC_BPF_LIB_MAPS_H
#define ESC_BPF_LIB_MAPS_H

#include "maps/barrier.h"
#include "maps/maps.h"
#include <bpf/bpf_helpers.h>
#include "nic/maps.bpf.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_abi);
} abi __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_LAYOUTS_MAX);
	__type(key, __u32);
	__type(value, struct esc_layout);
} layouts __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_control);
} control __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ESC_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct esc_port);
} ports __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct esc_port_counts);
} port_counts __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_PORTS_MAX);
	__type(key, __u32);
	__type(value, struct esc_xdp_counted);
} xdp_counted __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_REASON_MAX);
	__type(key, __u32);
	__type(value, struct esc_reason_count);
} reasons __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_QPS_MAX_DEFAULT);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_qp);
} qps __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PEERS_MAX_DEFAULT);
	__type(key, struct esc_peer_key);
	__type(value, struct esc_peer);
} peers __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_fleet);
} fleet __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_clock);
} clock __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_qp_room);
} qp_room __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_LINKS_MAX);
	__type(key, struct esc_link_key);
	__type(value, struct esc_link);
} link_flaps __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ESC_PROBES_RING_BYTES);
} probes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_STEERS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_steer);
} steers __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, ESC_PATH_SLOTS_MAX);
	__type(key, __u32);
	__type(value, struct esc_paths);
} paths __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PATH_SLOTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_path_key);
	__type(value, __u32);
} path_slots __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PATH_RECEIVED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_path_key);
	__type(value, struct esc_path_received);
} path_received __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ESC_PATH_RECORDS_RING_BYTES);
} path_records __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_path_cpu);
} path_cpu __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PEER_ADDRESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_address);
	__type(value, struct esc_peer_address);
} peer_addresses __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PROBE_SOCKETS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} probe_sockets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_QP_OWD_MAX_DEFAULT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_qp_sent);
} qp_sent __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_QP_OWD_MAX_DEFAULT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_qp_owd);
} qp_owd __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_QP_OWD_MAX_DEFAULT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_qp_pace);
} qp_pace __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_pace);
} pace __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ESC_PACE_RULES);
	__type(key, __u32);
	__type(value, struct pause_rule);
} pace_rules __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_PACE_ASSIGNED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_pace_assignment);
} pace_assigned __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_rx_timestamps);
} rx_timestamps __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_receipt_cpu);
} receipt_cpu __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_host_queue);
} host_queue __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_OWNERS_MAX);
	__type(key, struct esc_owner_key);
	__type(value, struct esc_owner);
} qp_owners __weak SEC(".maps");

/* Digest of the object that was compiled, for a daemon that finds its programs loaded. */
const volatile __u64 esc_build __weak = 0;
/* Slot in `ports` of the interface that this instance is attached to. */
const volatile __u32 esc_port_index __weak = 0;
/* No XDP on this interface: tc ingress does the accounting of rx. */
const volatile __u8 esc_rx_in_tc __weak = 0;
/* Generic XDP, or none: receipts of a neighbour on the same wire are received in tc ingress. */
const volatile __u8 esc_tc_takes __weak = 0;
/* Handover ID of this XDP program, see struct esc_control. */
const volatile __u16 esc_handover_id __weak = 0;
/* UDP port that carries probes beside ESC_ROCEV2_PORT, host order; 0: none. */
const volatile __u16 esc_probe_port __weak = 0;
/* Mesh of this interface, as in struct esc_peer_key. */
const volatile __u8 esc_plane __weak = 0;
/* The lab's skew of this host's local time, see clock_local_ns(). */
const volatile __s64 esc_lab_offset_ns __weak = 0;
const volatile __s32 esc_lab_drift_ppb __weak = 0;

/* The control block; NULL when the kill switch is set. */
static __always_inline const struct esc_control *control_get(void)
{
	__u32 zero = 0;
	const struct esc_control *ctl = bpf_map_lookup_elem(&control, &zero);

	return ctl && !(ctl->flags & ESC_CONTROL_OFF) ? ctl : NULL;
}

static __always_inline struct esc_port_counts *port_counts_get(void)
{
	__u32 index = esc_port_index;

	return bpf_map_lookup_elem(&port_counts, &index);
}

#endif
