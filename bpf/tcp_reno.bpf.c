// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* reno under a limit (tcp/wrap.bpf.h). */
#define WRAP_INNER "reno"
#include "tcp/wrap.bpf.h"

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops/esc_reno_init")
void BPF_PROG(esc_reno_init, struct sock *sk)
{
	wrap_init(sk);
}

SEC("struct_ops/esc_reno_thresh")
__u32 BPF_PROG(esc_reno_thresh, struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);
	__u32 threshold;

	wrap_enter(sk, flow);
	threshold = tcp_reno_ssthresh(sk);
	wrap_leave(sk, flow);
	return threshold;
}

SEC("struct_ops/esc_reno_avoid")
void BPF_PROG(esc_reno_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);

	wrap_enter(sk, flow);
	if (wrap_may_grow(flow))
		tcp_reno_cong_avoid(sk, ack, acked);
	wrap_leave(sk, flow);
}

SEC("struct_ops/esc_reno_acked")
void BPF_PROG(esc_reno_acked, struct sock *sk, const struct ack_sample *sample)
{
	wrap_acked(sk, sample);
}

SEC("struct_ops/esc_reno_undo")
__u32 BPF_PROG(esc_reno_undo, struct sock *sk)
{
	wrap_enter(sk, wrap_limited(sk));
	return tcp_reno_undo_cwnd(sk);
}

/* Without one the kernel takes its sysctl, 2 by default. */
SEC("struct_ops/esc_reno_segs")
__u32 BPF_PROG(esc_reno_segs, struct sock *sk)
{
	return wrap_segments(sk, 2);
}

SEC("struct_ops/esc_reno_done")
void BPF_PROG(esc_reno_done, struct sock *sk)
{
	wrap_release(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops esc_reno = {
	.init = (void *)esc_reno_init,
	.release = (void *)esc_reno_done,
	.ssthresh = (void *)esc_reno_thresh,
	.cong_avoid = (void *)esc_reno_avoid,
	.pkts_acked = (void *)esc_reno_acked,
	.undo_cwnd = (void *)esc_reno_undo,
	.min_tso_segs = (void *)esc_reno_segs,
	.name = "esc_reno",
};

char esc_license[] SEC("license") = "Dual BSD/GPL";
