// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bbr under a limit (tcp/wrap.bpf.h). */
#define WRAP_INNER "bbr"
#include "tcp/wrap.bpf.h"

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern __u32 bbr_ssthresh(struct sock *sk) __ksym;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, __u8 state) __ksym;

SEC("struct_ops/esc_bbr_init")
void BPF_PROG(esc_bbr_init, struct sock *sk)
{
	bbr_init(sk);
	wrap_init(sk);
}

/*
 * Samples of data sent under our limit do not show the path's bandwidth: they are marked as
 * application-limited, so that bbr does not use them for its maximum.
 */
SEC("struct_ops/esc_bbr_control")
void BPF_PROG(esc_bbr_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 flying;

	wrap_enter(sk, flow);
	bbr_main(sk, ack, flag, rs);
	wrap_leave(sk, flow);
	if (!flow || flow->shown_cwnd >= flow->inner_cwnd)
		return;
	flying = tp->delivered + tp->packets_out;
	tp->app_limited = flying ? flying : 1;
}

SEC("struct_ops/esc_bbr_thresh")
__u32 BPF_PROG(esc_bbr_thresh, struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);
	__u32 threshold;

	wrap_enter(sk, flow);
	threshold = bbr_ssthresh(sk);
	wrap_leave(sk, flow);
	return threshold;
}

SEC("struct_ops/esc_bbr_undo")
__u32 BPF_PROG(esc_bbr_undo, struct sock *sk)
{
	wrap_enter(sk, wrap_limited(sk));
	return bbr_undo_cwnd(sk);
}

SEC("struct_ops/esc_bbr_event")
void BPF_PROG(esc_bbr_event, struct sock *sk, enum tcp_ca_event event)
{
	bbr_cwnd_event(sk, event);
}

SEC("struct_ops/esc_bbr_state")
void BPF_PROG(esc_bbr_state, struct sock *sk, __u8 state)
{
	bbr_set_state(sk, state);
}

SEC("struct_ops/esc_bbr_segs")
__u32 BPF_PROG(esc_bbr_segs, struct sock *sk)
{
	return wrap_segments(sk, bbr_min_tso_segs(sk));
}

SEC("struct_ops/esc_bbr_buffer")
__u32 BPF_PROG(esc_bbr_buffer, struct sock *sk)
{
	return bbr_sndbuf_expand(sk);
}

SEC("struct_ops/esc_bbr_acked")
void BPF_PROG(esc_bbr_acked, struct sock *sk, const struct ack_sample *sample)
{
	wrap_acked(sk, sample);
}

SEC("struct_ops/esc_bbr_done")
void BPF_PROG(esc_bbr_done, struct sock *sk)
{
	wrap_release(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops esc_bbr = {
	.init = (void *)esc_bbr_init,
	.release = (void *)esc_bbr_done,
	.cong_control = (void *)esc_bbr_control,
	.ssthresh = (void *)esc_bbr_thresh,
	.undo_cwnd = (void *)esc_bbr_undo,
	.cwnd_event = (void *)esc_bbr_event,
	.set_state = (void *)esc_bbr_state,
	.min_tso_segs = (void *)esc_bbr_segs,
	.sndbuf_expand = (void *)esc_bbr_buffer,
	.pkts_acked = (void *)esc_bbr_acked,
	.name = "esc_bbr",
};

char esc_license[] SEC("license") = "Dual BSD/GPL";
