// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Iterator over `tcp_flows` of all network namespaces: a record per socket. */
#include "tcp/tcp.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* include/linux/socket.h */
#define LIST_INET 2

static __always_inline void list_addresses(struct sock *sk, struct esc_tcp_row *row)
{
	const struct sock_common *common = &sk->__sk_common;

	row->family = common->skc_family;
	row->local_port = common->skc_num;
	row->remote_port = __builtin_bswap16(common->skc_dport);
	if (row->family == LIST_INET) {
		row->local[2] = row->remote[2] = __builtin_bswap32(0xffff);
		row->local[3] = common->skc_rcv_saddr;
		row->remote[3] = common->skc_daddr;
		return;
	}
	bpf_core_read(row->local, sizeof(row->local), &common->skc_v6_rcv_saddr);
	bpf_core_read(row->remote, sizeof(row->remote), &common->skc_v6_daddr);
}

SEC("iter/bpf_sk_storage_map")
int esc_tcp_list(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct esc_tcp_flow *flow = ctx->value;
	struct sock *sk = ctx->sk;
	struct esc_tcp_row row = {};

	if (!flow || !sk)
		return 0;
	list_addresses(sk, &row);
	__builtin_memcpy(&row.flow, flow, sizeof(row.flow));
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
