// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Iterators over `tcp_flows`, a record per socket: of all network namespaces, and, where the kernel
 * refuses that one, of the namespace that reads.
 */
#include "tcp/tcp.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* include/linux/socket.h */
#define LIST_INET 2

static __always_inline void list_addresses(const struct sock *sk, struct esc_tcp_row *row)
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

static __always_inline void list_row(struct bpf_iter_meta *meta, const struct sock *sk,
				     const struct esc_tcp_flow *flow)
{
	struct esc_tcp_row row = {};

	if (!flow || !sk)
		return;
	list_addresses(sk, &row);
	__builtin_memcpy(&row.flow, flow, sizeof(row.flow));
	bpf_seq_write(meta->seq, &row, sizeof(row));
}

SEC("iter/bpf_sk_storage_map")
int esc_tcp_list(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	list_row(ctx->meta, ctx->sk, ctx->value);
	return 0;
}

SEC("iter/tcp")
int esc_tcp_list_own(struct bpf_iter__tcp *ctx)
{
	/* Read once: what is checked is what is used. */
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tcp = common ? bpf_skc_to_tcp_sock(common) : NULL;

	if (tcp)
		list_row(ctx->meta, (struct sock *)tcp,
			 bpf_sk_storage_get(&tcp_flows, tcp, NULL, 0));
	return 0;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
