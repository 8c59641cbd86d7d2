/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps of the TCP programs; `tcp_flows` is shared by their objects. */
#ifndef ESC_BPF_TCP_TCP_H
#define ESC_BPF_TCP_TCP_H

#include "lib/clock.bpf.h"
#include "maps/tcp.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct esc_tcp_flow);
} tcp_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_tcp_counts);
} tcp_counts SEC(".maps");

static __always_inline struct esc_tcp_counts *tcp_counts_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tcp_counts, &zero);
}

#define tcp_count(field)                                                                           \
	do {                                                                                       \
		struct esc_tcp_counts *counts_ = tcp_counts_get();                                 \
                                                                                                   \
		if (counts_)                                                                       \
			counts_->field++;                                                          \
	} while (0)

#endif
