// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Port and sk_pacing_status of the TCP sockets of this network namespace. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct sockpace_row {
	__u32 port;
	__u32 status;
};

SEC("iter/tcp")
int sockpace(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tcp = common ? bpf_skc_to_tcp_sock(common) : NULL;
	struct sock *sk = (struct sock *)tcp;
	struct sockpace_row row = {};

	if (!tcp)
		return 0;
	row.port = sk->__sk_common.skc_num;
	row.status = sk->sk_pacing_status;
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
