/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the wrappers around the kernel's congestion controls share. The wrapped
 * algorithm sees its own window whenever it is called, and all that it keeps is
 * its own; in between, the socket has the smaller of its window and ours. What
 * the kernel itself does to the window (recovery, a timeout) is the wrapped
 * algorithm's: a window that is not the one we put there becomes its window.
 *
 * A limit has an expiry time, which the sockops program extends with every delay
 * reported: without the daemon, the clock or the peer it expires within 2 s,
 * and the wrapper behaves like the algorithm that it wraps.
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
/* include/net/sock.h, enum sk_pacing */
#define WRAP_PACING_NONE 0
#define WRAP_PACING_NEEDED 1
/* Without a word from the other end for so long, the round trip alone is no delay any more. */
#define WRAP_ESTIMATE_NS 200000000ull
/* The longest that pacing keeps a segment: whatever the window, the flow moves. */
#define WRAP_GAP_MAX_US 20000
#define WRAP_RATE_MAX 4000000000ull

static __always_inline struct esc_tcp_flow *wrap_flow(struct sock *sk)
{
	return bpf_sk_storage_get(&tcp_flows, sk, NULL, 0);
}

/* What the socket's maximum is while ours is @rate. */
static __always_inline __u64 wrap_max_of(__u32 rate)
{
	return rate == ESC_TCP_NO_RATE ? ~0ull : rate;
}

/*
 * The application has set a maximum of its own, before the limit or in it: then the socket's is
 * not the one that we put there. It stays in force where it is less than ours, and comes back when
 * the limit ends.
 */
static __always_inline void wrap_heed_rate(struct sock *sk, struct esc_tcp_flow *flow)
{
	__u64 max = sk->sk_max_pacing_rate;

	if (max == wrap_max_of(flow->rate_Bps))
		return;
	flow->app_rate_Bps = max;
	flow->rate_Bps = max > ESC_TCP_NO_RATE ? ESC_TCP_NO_RATE : (__u32)max;
}

/* A maximum that four bytes cannot say: it could not be put back, and the window alone limits. */
static __always_inline bool wrap_rate_is_theirs(const struct esc_tcp_flow *flow)
{
	return flow->app_rate_Bps >= ESC_TCP_NO_RATE && flow->app_rate_Bps != ~0ull;
}

/*
 * A maximum that is taken back leaves the socket's pacing on, at the rate of its window: without fq
 * that is a timer for every burst, and tens of Gbit/s become ten. Who had no pacing before has none
 * again.
 */
static __always_inline void wrap_unpace(struct sock *sk, const struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (flow->status_was && flow->inner != ESC_TCP_INNER_BBR && flow->app_rate_Bps == ~0ull &&
	    sk->sk_pacing_status == WRAP_PACING_NEEDED)
		tp->inet_conn.icsk_inet.sk.sk_pacing_status = WRAP_PACING_NONE;
}

/* A new maximum for the socket's pacing, when it is another one by more than 1/16. */
static __always_inline void wrap_rate(struct sock *sk, struct esc_tcp_flow *flow, __u64 rate_Bps)
{
	__u32 old = flow->rate_Bps, rate;

	if (wrap_rate_is_theirs(flow))
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
	wrap_heed_rate(sk, flow);
	flow->status_was = sk->sk_pacing_status == WRAP_PACING_NONE;
	tcp_window_start(&flow->law,
			 tp->packets_out > 2 ? tp->packets_out * TCP_WINDOW_ONE : TCP_WINDOW_AGAIN);
}

/* All as it would be without us. */
static __always_inline void wrap_lift(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (tp->snd_cwnd == flow->shown_cwnd)
		tp->snd_cwnd = flow->inner_cwnd;
	wrap_heed_rate(sk, flow);
	wrap_rate(sk, flow, 0);
	flow->limited = 0;
	flow->until_ktime_ns = 0;
	tcp_count(lifted);
}

/*
 * The socket takes another congestion control, or closes. The kernel lets nothing be set here: the
 * window goes on from where it is, the rate is taken back by the sockops program.
 */
static __always_inline void wrap_release(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	if (!flow || !flow->inner)
		return;
	if (flow->limited) {
		wrap_heed_rate(sk, flow);
		flow->detached = !wrap_rate_is_theirs(flow) &&
				 wrap_max_of(flow->rate_Bps) != flow->app_rate_Bps;
	}
	flow->limited = 0;
	flow->until_ktime_ns = 0;
	flow->inner = ESC_TCP_INNER_NONE;
}

/* The flow, if there is a limit on it now. */
static __always_inline struct esc_tcp_flow *wrap_limited(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	return flow && flow->limited ? flow : NULL;
}

/* Before the wrapped algorithm runs: its own window in place. */
static __always_inline void wrap_enter(struct sock *sk, struct esc_tcp_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (flow && tp->snd_cwnd == flow->shown_cwnd)
		tp->snd_cwnd = flow->inner_cwnd;
}

/* After it has run: ours, where that is less. */
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
 * A wrapped window that is twice ours does not grow: the kernel itself lets no window grow
 * that is not used, and one that grew for minutes would be no limit when ours ends.
 */
static __always_inline bool wrap_may_grow(const struct esc_tcp_flow *flow)
{
	return !flow || flow->inner_cwnd < 2 * tcp_window_segments(&flow->law);
}

/* All that the application wrote has been acknowledged. */
static __always_inline bool wrap_is_done(const struct tcp_sock *tp)
{
	return !tp->packets_out && tp->write_seq == tp->snd_nxt;
}

/*
 * The round trip of an acknowledgement, 0: it tells none. The last segment of what was written may
 * have waited for an acknowledgement that was delayed, 40 ms: what comes next would be paced by
 * that.
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
 * The delay that this acknowledgement tells, false for none. Beside three SACK blocks there is no
 * room for it, just when it matters: then it is the last one told, and what the round trip has
 * become longer since.
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

/* A small window goes out segment by segment: bursts of two are half of what a queue may have. */
static __always_inline __u32 wrap_segments(struct sock *sk, __u32 inner)
{
	struct esc_tcp_flow *flow = wrap_limited(sk);

	return flow && flow->law.window < TCP_WINDOW_PACED ? 1 : inner;
}

/* The window by the law. Nothing is learnt about more than what was really used. */
static __always_inline void wrap_judge(struct sock *sk, struct esc_tcp_flow *flow, __u32 acked,
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
	if (tcp_window_take(&flow->law, acked, tp->snd_una, tp->snd_nxt, delay_ns, threshold_ns,
			    rtt_ns, 2 * tp->max_packets_out >= tcp_window_segments(&flow->law)))
		tcp_count(cuts);
}

/*
 * All that the application wrote was acknowledged: what comes next starts gently, whenever that
 * is. What the window was is forgotten only if that took longer than a round trip: an application
 * that is just slow has not let go of the path.
 */
static __always_inline void wrap_rested(struct esc_tcp_flow *flow)
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

/* The socket gets the wrapper, as it is established: a gentle first window, if there is a limit
 * already. */
static __always_inline void wrap_init(struct sock *sk)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);

	if (!flow || !flow->until_ktime_ns || flow->limited)
		return;
	wrap_begin(sk, flow);
	tcp_window_start(&flow->law, TCP_WINDOW_NEW);
	wrap_leave(sk, flow);
}

/* An acknowledgement was taken, before the wrapped algorithm learns of the window. */
static __always_inline void wrap_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct esc_tcp_flow *flow = wrap_flow(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 now_ns = bpf_ktime_get_ns();
	__s64 delay_ns;
	__u32 rtt_us;

	if (!flow || !flow->until_ktime_ns)
		return;
	if (now_ns >= flow->until_ktime_ns) {
		if (flow->limited)
			wrap_lift(sk, flow);
		return;
	}
	if (!flow->limited)
		wrap_begin(sk, flow);
	wrap_rested(flow);
	rtt_us = wrap_rtt(tp, flow, sample->rtt_us);
	if (wrap_delay(flow, rtt_us, now_ns, &delay_ns))
		wrap_judge(sk, flow, sample->pkts_acked, delay_ns, now_ns);
	if (wrap_is_done(tp))
		flow->rest_ns = now_ns;
	wrap_heed_rate(sk, flow);
	wrap_pace(sk, flow);
	wrap_enter(sk, flow);
	wrap_leave(sk, flow);
}

#endif
