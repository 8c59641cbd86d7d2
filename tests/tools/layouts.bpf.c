// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Maps of two releases for tests/bpf/test_upgrade: fields moved, widened, removed and added. */
#include "maps/maps.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct other_qp_key {
	__u32 added;
	__u8 port;
	__u8 direction;
	__u16 dest_qpn_high; /* not a field of ours */
	struct esc_address dst;
	struct esc_address src;
	__u32 dest_qpn;
};

struct other_qp {
	__u64 first_local_ns;
	struct esc_message_bucket message_sizes[4]; /* fewer */
	__u32 messages;				    /* narrower */
	__u32 message_max;
	__u32 message_min;
	__u32 removed;
	__u64 bytes;
	__u64 packets;
	struct esc_psn_stream requests;
	__u16 sport_changes; /* narrower than what can be added to */
};

/* The enum of the object is ours: indexes of the same names are equal here. */
struct other_reason {
	__u64 added;
	__u64 tc_egress;
	__u64 xdp_ingress;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct other_qp_key);
	__type(value, struct other_qp);
} other_qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct esc_qp_key);
	__type(value, struct esc_qp);
} qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct other_reason);
} other_reasons SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct esc_reason_count);
} reasons SEC(".maps");

SEC("syscall")
int uses_reasons(void *context)
{
	return bpf_core_type_id_local(enum esc_reason) + !context;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
