// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cubic under a limit (tcp/wrap.bpf.h). */
#define WRAP_INNER "cubic"
#include "tcp/wrap.bpf.h"

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops/esc_cubic_init")
void BPF_PROG(esc_cubic_init, struct sock *sk)
{
	cubictcp_init(sk);
	wrap_init(sk);
}

SEC("struct_ops/esc_cubic_thr")
__u32 BPF_PROG(esc_cubic_thr, struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);
	__u32 threshold;

	wrap_enter(sk, flow);
	threshold = cubictcp_recalc_ssthresh(sk);
	wrap_leave(sk, flow);
	return threshold;
}

SEC("struct_ops/esc_cubic_avoid")
void BPF_PROG(esc_cubic_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);

	wrap_enter(sk, flow);
	if (wrap_may_grow(flow))
		cubictcp_cong_avoid(sk, ack, acked);
	wrap_leave(sk, flow);
}

SEC("struct_ops/esc_cubic_state")
void BPF_PROG(esc_cubic_state, struct sock *sk, __u8 state)
{
	cubictcp_state(sk, state);
}

SEC("struct_ops/esc_cubic_event")
void BPF_PROG(esc_cubic_event, struct sock *sk, enum tcp_ca_event event)
{
	cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops/esc_cubic_acked")
void BPF_PROG(esc_cubic_acked, struct sock *sk, const struct ack_sample *sample)
{
	wrap_acked(sk, sample);
	cubictcp_acked(sk, sample);
}

SEC("struct_ops/esc_cubic_undo")
__u32 BPF_PROG(esc_cubic_undo, struct sock *sk)
{
	wrap_enter(sk, wrap_limited(sk));
	return tcp_reno_undo_cwnd(sk);
}

/* Without one the kernel takes its sysctl, 2 by default. */
SEC("struct_ops/esc_cubic_segs")
__u32 BPF_PROG(esc_cubic_segs, struct sock *sk)
{
	return wrap_segments(sk, 2);
}

SEC("struct_ops/esc_cubic_done")
void BPF_PROG(esc_cubic_done, struct sock *sk)
{
	wrap_release(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops esc_cubic = {
	.init = (void *)esc_cubic_init,
	.release = (void *)esc_cubic_done,
	.ssthresh = (void *)esc_cubic_thr,
	.cong_avoid = (void *)esc_cubic_avoid,
	.set_state = (void *)esc_cubic_state,
	.cwnd_event = (void *)esc_cubic_event,
	.pkts_acked = (void *)esc_cubic_acked,
	.undo_cwnd = (void *)esc_cubic_undo,
	.min_tso_segs = (void *)esc_cubic_segs,
	.name = "esc_cubic",
};

char esc_license[] SEC("license") = "Dual BSD/GPL";
