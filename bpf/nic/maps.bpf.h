/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of NIC failover; weak, as those of lib/maps.bpf.h. */
#ifndef ESC_BPF_NIC_MAPS_H
#define ESC_BPF_NIC_MAPS_H

#include "maps/maps.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_nic_control);
} nic_control __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_LOCAL_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_address);
	__type(value, struct esc_nic_local);
} nic_local __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_PEERS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_address);
	__type(value, struct esc_nic_peer);
} nic_peers __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ESC_NIC_ROUTES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct esc_nic_route_key);
	__type(value, struct esc_nic_routes);
} nic_routes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_nic_counts);
} nic_counts __weak SEC(".maps");

#endif
