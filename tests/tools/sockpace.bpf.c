// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Port and sk_pacing_status of the sockets that have a value in a map. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct sockpace_row {
	__u32 port;
	__u32 status;
};

SEC("iter/bpf_sk_storage_map")
int sockpace(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct sockpace_row row = {};

	if (!sk || !ctx->value)
		return 0;
	row.port = sk->__sk_common.skc_num;
	row.status = sk->sk_pacing_status;
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
