/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the wrappers around the kernel's congestion controls, each of WRAP_INNER. The wrapped
 * algorithm has its own window in place whenever it is called; in between, the socket has the
 * smaller of its window and ours. A change of the window by the kernel itself (recovery, a timeout)
 * is passed on: a window that differs from the one we set becomes that of the wrapped algorithm.
 *
 * A limit has an expiry time, which the sockops program extends with every delay reported:
 * without the daemon, the clock or the peer it expires within 2 s, and with the next
 * acknowledgement the socket gets back the congestion control that is wrapped.
 */
#ifndef ESC_BPF_TCP_WRAP_H
#define ESC_BPF_TCP_WRAP_H

#include "pacing/tcpwindow.h"
#include "tcp/tcp.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* include/uapi/asm-generic/socket.h */
#define WRAP_SOL_SOCKET 1
#define WRAP_MAX_PACING_RATE 47
/* include/linux/socket.h, include/uapi/linux/tcp.h, include/net/tcp.h, include/net/tcp_states.h */
#define WRAP_SOL_TCP 6
#define WRAP_CONGESTION 13
#define WRAP_NAME_BYTES 16
#define WRAP_TCP_CLOSE 7
/* include/net/sock.h, enum sk_pacing */
#define WRAP_PACING_NONE 0
#define WRAP_PACING_NEEDED 1
/* Maximum age of the last reported delay from which the RTT extrapolates. */
#define WRAP_ESTIMATE_NS 200000000ull
/* Maximum interval between paced segments, for any window. */
#define WRAP_GAP_MAX_US 20000
#define WRAP_RATE_MAX 4000000000ull

static __always_inline struct esc_tcp_flow *wrap_flow(struct sock *sk)
{
	return bpf_sk_storage_get(&tcp_flows, sk, NULL, 0);
}

/* The socket's sk_max_pacing_rate for our rate. */
static __always_inline __u64 wrap_max_of(__u32 rate)
{
	return rate == ESC_TCP_NO_RATE ? ~0ull : rate;
}

/*
 * The socket's maximum differs from ours: the application has set it, before the limit or during
 * it. It applies where it is lower than ours, and is restored when the limit ends.
 */
static __always_inline void wrap_read_app_rate(struct sock *sk, struct esc_tcp_flow *flow)
{
	__u64 max = sk->sk_max_pacing_rate;

	if (max == wrap_max_of(flow->rate_Bps))
		return;
	flow->app_rate_Bps = max;
	flow->rate_Bps = max > ESC_TCP_NO_RATE ? ESC_TCP_NO_RATE : (__u32)max;
}

/* A maximum above 32 bits could not be restored: then the window alone limits. */
static __always_inline bool wrap_rate_is_foreign(const struct esc_tcp_flow *flow)
{
	return flow->app_rate_Bps >= ESC_TCP_NO_RATE && flow->app_rate_Bps != ~0ull;
}

/*
 * Without a maximum the socket's pacing stays on, at the rate of its window: without fq that is a
 * timer for every burst, and reduces tens of Gbit/s to ten. So a socket that had no pacing gets
 * its old status.
 */
static __always_inline void wrap_unpace(struct sock *sk, const struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (flow->status_was && flow->inner != ESC_TCP_INNER_BBR && flow->app_rate_Bps == ~0ull &&
	    sk->sk_pacing_status == WRAP_PACING_NEEDED)
		tp->inet_conn.icsk_inet.sk.sk_pacing_status = WRAP_PACING_NONE;
}

/* Sets the maximum of the socket's pacing if it changes by more than 1/16. */
static __always_inline void wrap_rate(struct sock *sk, struct esc_tcp_flow *flow, __u64 rate_Bps)
{
	__u32 old = flow->rate_Bps, rate;

	if (wrap_rate_is_foreign(flow))
		return;
	if (rate_Bps > WRAP_RATE_MAX || !rate_Bps)
		rate_Bps = ESC_TCP_NO_RATE;
	if (flow->app_rate_Bps < rate_Bps)
		rate_Bps = flow->app_rate_Bps;
	rate = (__u32)rate_Bps;
	if (rate == old || (rate != ESC_TCP_NO_RATE && rate != flow->app_rate_Bps &&
			    rate > old - old / 16 && rate < old + old / 16))
		return;
	flow->rate_Bps = rate;
	bpf_setsockopt(sk, WRAP_SOL_SOCKET, WRAP_MAX_PACING_RATE, &rate, sizeof(rate));
	if (rate == ESC_TCP_NO_RATE)
		wrap_unpace(sk, flow);
}

static __always_inline void wrap_begin(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	flow->limited = 1;
	flow->inner_cwnd = flow->shown_cwnd = tp->snd_cwnd;
	flow->app_rate_Bps = ~0ull;
	flow->rate_Bps = ESC_TCP_NO_RATE;
	wrap_read_app_rate(sk, flow);
	flow->status_was = sk->sk_pacing_status == WRAP_PACING_NONE;
	tcp_window_start(&flow->law,
			 tp->packets_out > 2 ? tp->packets_out * TCP_WINDOW_ONE : TCP_WINDOW_AGAIN);
}

/* Ends the limit: restores window and rate. */
static __always_inline void wrap_end(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (tp->snd_cwnd == flow->shown_cwnd)
		tp->snd_cwnd = flow->inner_cwnd;
	wrap_read_app_rate(sk, flow);
	wrap_rate(sk, flow, 0);
	flow->limited = 0;
	flow->until_ktime_ns = 0;
	tcp_count(lifted);
}

/* No limit is in force: the socket has the wrapped algorithm itself again, also without a daemon.
 */
static __always_inline void wrap_leave_to_inner(struct sock *sk, struct esc_tcp_flow *flow)
{
	char name[WRAP_NAME_BYTES] = WRAP_INNER;

	if (flow) {
		if (flow->limited)
			wrap_end(sk, flow);
		flow->inner =
			ESC_TCP_INNER_NONE; /* else wrap_release() takes it for the application's */
	}
	bpf_setsockopt(sk, WRAP_SOL_TCP, WRAP_CONGESTION, name, sizeof(name));
}

/*
 * The socket changes its congestion control, or closes. No option can be set here: the window
 * continues from its value, the sockops program restores the rate and wraps the new one.
 */
static __always_inline void wrap_release(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	if (!flow || !flow->inner)
		return;
	if (flow->limited) {
		wrap_read_app_rate(sk, flow);
		flow->detached = !wrap_rate_is_foreign(flow) &&
				 wrap_max_of(flow->rate_Bps) != flow->app_rate_Bps;
	}
	flow->limited = 0;
	flow->until_ktime_ns = 0;
	flow->inner = ESC_TCP_INNER_NONE;
	flow->replaced = sk->__sk_common.skc_state != WRAP_TCP_CLOSE;
}

/* The flow, if a limit is in force. */
static __always_inline struct esc_tcp_flow *wrap_limited(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	return flow && flow->limited ? flow : NULL;
}

/* Before the wrapped algorithm runs: sets its own window. */
static __always_inline void wrap_enter(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (flow && tp->snd_cwnd == flow->shown_cwnd)
		tp->snd_cwnd = flow->inner_cwnd;
}

/* After it has run: sets the smaller of its window and ours. */
static __always_inline void wrap_leave(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 window;

	if (!flow)
		return;
	window = tcp_window_segments(&flow->law);
	if (flow->rest_ns && window > tcp_window_rested(&flow->law) / TCP_WINDOW_ONE)
		window = tcp_window_rested(&flow->law) / TCP_WINDOW_ONE;
	flow->inner_cwnd = tp->snd_cwnd;
	if (window > flow->inner_cwnd)
		window = flow->inner_cwnd;
	flow->shown_cwnd = window;
	tp->snd_cwnd = window;
}

/*
 * A wrapped window of twice ours does not grow: the kernel too does not grow an unused window,
 * and after minutes of growth it would be no limit when ours ends.
 */
static __always_inline bool wrap_may_grow(const struct esc_tcp_flow *flow)
{
	return !flow || flow->inner_cwnd < 2 * tcp_window_segments(&flow->law);
}

/* All written data is acknowledged. */
static __always_inline bool wrap_is_done(const struct tcp_sock *tp)
{
	return !tp->packets_out && tp->write_seq == tp->snd_nxt;
}

/*
 * The RTT sample of an acknowledgement, 0: none. That of the last segment written may include the
 * peer's delayed-acknowledgement timer (40 ms) and is ignored.
 */
static __always_inline __u32 wrap_rtt(const struct tcp_sock *tp, struct esc_tcp_flow *flow,
				      __s32 rtt_us)
{
	if (rtt_us <= 0 || (flow->rtt_us && wrap_is_done(tp) && (__u32)rtt_us > 2 * flow->rtt_us))
		return 0;
	if (!flow->rtt_us)
		flow->rtt_us = rtt_us;
	flow->rtt_us = (flow->rtt_us + (__u32)rtt_us) / 2;
	return rtt_us;
}

/*
 * The delay sample of this acknowledgement; false: none. Beside three SACK blocks the option has
 * no room for it: then it is the last reported delay and the increase of the RTT since.
 */
static __always_inline bool wrap_delay(struct esc_tcp_flow *flow, __u32 rtt_us, __u64 now_ns,
				       __s64 *delay_ns)
{
	if (flow->out_pending) {
		flow->out_pending = 0;
		*delay_ns = flow->out_last_ns;
		if (rtt_us) {
			flow->rtt_base_us = rtt_us;
			flow->base_ns = *delay_ns;
		}
		return true;
	}
	if (!rtt_us || !flow->rtt_base_us || now_ns - flow->out_last_ktime_ns > WRAP_ESTIMATE_NS)
		return false;
	*delay_ns = flow->base_ns + ((__s64)rtt_us - (__s64)flow->rtt_base_us) * 1000;
	flow->out_estimated++;
	tcp_count(estimated);
	return true;
}

/* A small window is sent by single segments: a burst of two is half of the allowed queue. */
static __always_inline __u32 wrap_segments(struct sock *sk, __u32 inner)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);

	return flow && flow->law.window < TCP_WINDOW_PACED ? 1 : inner;
}

/* A delay sample for the law. The window grows only while it is used. */
static __always_inline void wrap_sample(struct sock *sk, struct esc_tcp_flow *flow, __u32 acked,
					__s64 reported_ns, __u64 now_ns)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 threshold_ns = flow->threshold_ns, rtt_ns = flow->rtt_us * 1000ull, delay_ns;

	if (!threshold_ns)
		return;
	flow->law.weight = flow->weight;
	if (acked > 64)
		acked = 64;
	delay_ns = tcp_window_above(&flow->law, reported_ns, threshold_ns, now_ns);
	if (rtt_ns <= delay_ns)
		rtt_ns = delay_ns + 1;
	if (tcp_window_sample(&flow->law, acked, tp->snd_una, tp->snd_nxt, delay_ns, threshold_ns,
			      rtt_ns, 2 * tp->max_packets_out >= tcp_window_segments(&flow->law)))
		tcp_count(cuts);
}

/*
 * All written data was acknowledged: the next data starts with a small window. The old window is
 * dropped only if the idle time was longer than an RTT, else the application is just slow.
 */
static __always_inline void wrap_after_idle(struct esc_tcp_flow *flow)
{
	if (flow->rest_ns && flow->rest_end_ns - flow->rest_ns > flow->rtt_us * 1000ull)
		tcp_window_rest(&flow->law);
	flow->rest_ns = flow->rest_end_ns = 0;
}

static __always_inline void wrap_pace(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 rate = tcp_window_rate(&flow->law, tp->mss_cache, flow->rtt_us);
	__u64 least = (__u64)tp->mss_cache * (1000000 / WRAP_GAP_MAX_US);

	wrap_rate(sk, flow, rate && rate < least ? least : rate);
}

/*
 * The wrapper is set when the socket is established: a small first window, if there is a limit
 * already.
 */
static __always_inline void wrap_init(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	if (!flow || !flow->until_ktime_ns || flow->limited)
		return;
	wrap_begin(sk, flow);
	tcp_window_start(&flow->law, TCP_WINDOW_NEW);
	wrap_leave(sk, flow);
}

/* On each acknowledgement, before the wrapped algorithm sets its window. */
static __always_inline void wrap_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 now_ns = bpf_ktime_get_ns();
	__s64 delay_ns;
	__u32 rtt_us;

	if (!flow || now_ns >= flow->until_ktime_ns) {
		wrap_leave_to_inner(sk, flow);
		return;
	}
	if (!flow->limited)
		wrap_begin(sk, flow);
	wrap_after_idle(flow);
	rtt_us = wrap_rtt(tp, flow, sample->rtt_us);
	if (wrap_delay(flow, rtt_us, now_ns, &delay_ns))
		wrap_sample(sk, flow, sample->pkts_acked, delay_ns, now_ns);
	if (wrap_is_done(tp))
		flow->rest_ns = now_ns;
	wrap_read_app_rate(sk, flow);
	wrap_pace(sk, flow);
	wrap_enter(sk, flow);
	wrap_leave(sk, flow);
}

#endif
