// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP of a cgroup: fabric time and measured delay in an option of every segment, after both ends
 * have shown support for it in the handshake. This program measures; the wrappers
 * (tcp/wrap.bpf.h) limit.
 */
#include "tcp/tcp.bpf.h"
#include "tcp/class.bpf.h"
#include "tcp/option.bpf.h"
#include "tcp/refusal.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* include/linux/socket.h, include/uapi/linux/tcp.h */
#define TCP_SOL 6
#define TCP_OPT_CONGESTION 13
#define TCP_NAME_BYTES 16 /* TCP_CA_NAME_MAX */
/* include/uapi/asm-generic/socket.h */
#define TCP_SOL_SOCKET 1
#define TCP_MAX_PACING_RATE 47
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_ACK 0x10

/* The program of a daemon that exits may be attached for a moment beside the next one's. */
#define TCP_EARLIER_NS (ESC_TCP_LIMIT_NS + 500000000ull)

/* include/net/tcp_states.h */
#define TCP_STATE_SYN_SENT 2
#define TCP_STATE_CLOSE 7

/* Set while a SYN with the option has got no reply. */
#define TCP_OFFERED BPF_SOCK_OPS_STATE_CB_FLAG
#define TCP_CALLBACKS                                                                              \
	(BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_tcp_control);
} tcp_control SEC(".maps");

/* Delays of received data, by bucket (maps/owd.h). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_OWD_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} tcp_delays SEC(".maps");

/* The daemon's configuration; NULL: off, or no recent heartbeat. *@until_ns: its expiry. */
static __always_inline struct esc_tcp_control *tcp_control_get(__u64 now_ns, __u64 *until_ns)
{
	__u32 zero = 0;
	struct esc_control *daemon = bpf_map_lookup_elem(&control, &zero);
	struct esc_tcp_control *setup = bpf_map_lookup_elem(&tcp_control, &zero);

	if (!daemon || !setup || setup->mode == ESC_TCP_OFF || (daemon->flags & ESC_CONTROL_OFF))
		return NULL;
	*until_ns = daemon->heartbeat_local_ns + ESC_TCP_LIMIT_NS;
	return now_ns < *until_ns ? setup : NULL;
}

static __always_inline bool tcp_flag(struct bpf_sock_ops *ops, __u32 flags)
{
	return (ops->skb_tcp_flags & flags) == flags;
}

static __always_inline struct esc_tcp_flow *tcp_flow_get(struct bpf_sock *sk, bool make)
{
	if (!sk)
		return NULL;
	return bpf_sk_storage_get(&tcp_flows, sk, NULL, make ? BPF_SK_STORAGE_GET_F_CREATE : 0);
}

static __always_inline void tcp_callbacks(struct bpf_sock_ops *ops, __u32 clear, __u32 set)
{
	bpf_sock_ops_cb_flags_set(ops, (ops->bpf_sock_ops_cb_flags & ~clear) | set);
}

/* A delay measured here: the newest is stored, for the report to the peer and for display. */
static __always_inline void tcp_store_in(struct esc_tcp_flow *flow, const struct tcp_delay *delay)
{
	__u32 bucket = esc_owd_bucket(delay->ns);
	__u64 *count = bpf_map_lookup_elem(&tcp_delays, &bucket);

	flow->in_last_ns = delay->ns;
	flow->in_bound_ns = delay->bound_ns;
	flow->in_echo = ESC_TCP_HAS_ECHO;
	flow->in_samples++;
	if (count)
		(*count)++;
	tcp_count(in_samples);
}

/* A delay reported by the other end. ESC_TCP_ECHO_MAX is "at least". */
static __always_inline void tcp_store_out(struct esc_tcp_flow *flow,
					  const struct esc_tcp_option *option, __u64 now_ns)
{
	__s64 delay_ns = (__s64)bpf_ntohs(option->echo) << ESC_TCP_UNIT_SHIFT;

	if (option->flags & ESC_TCP_ECHO_LESS)
		delay_ns = -delay_ns;
	flow->out_last_ns = delay_ns;
	flow->out_bound_ns = esc_tcp_bound_ns(option->bound) + flow->in_bound_ns;
	flow->out_last_ktime_ns = now_ns;
	flow->out_pending = 1;
	flow->out_samples++;
	if (delay_ns > flow->out_max_ns)
		flow->out_max_ns = delay_ns;
	if (delay_ns > flow->threshold_ns) {
		flow->out_above++;
		tcp_count(out_above);
	}
	tcp_class_count(flow->class, delay_ns > flow->threshold_ns);
	tcp_count(out_samples);
}

static __always_inline void tcp_store(struct bpf_sock *sk, struct esc_tcp_flow *flow,
				      const struct esc_tcp_option *option,
				      const struct esc_tcp_control *setup, __u64 now_ns,
				      __u64 until_ns, bool data)
{
	struct tcp_delay delay;

	if (!(option->flags & ESC_TCP_HAS_TIME)) {
		tcp_count(no_time);
		return;
	}
	if (data && option->length == ESC_TCP_FULL) {
		if (tcp_option_delay(option, now_ns, &delay))
			tcp_store_in(flow, &delay);
		else
			tcp_count(no_time);
	}
	if (!(option->flags & ESC_TCP_HAS_ECHO))
		return;
	tcp_class_update(sk, flow, setup, now_ns);
	tcp_store_out(flow, option, now_ns);
	if (setup->mode != ESC_TCP_PACE)
		return;
	if (flow->out_bound_ns > flow->threshold_ns >> ESC_TCP_BOUND_SHIFT) {
		flow->out_pending = 0;
		tcp_count(unsure);
		return;
	}
	flow->until_ktime_ns = until_ns;
}

static __always_inline bool tcp_begins(const char *name, const char *with, int bytes)
{
	int i;

	for (i = 0; i < bytes; i++)
		if (name[i] != with[i])
			return false;
	return true;
}

/* @name is @inner, or a wrapper around it, also of an earlier daemon with another suffix. */
#define TCP_IS(name, inner)                                                                        \
	(tcp_begins(name, inner, sizeof(inner)) ||                                                 \
	 tcp_begins(name, "esc_" inner, sizeof("esc_" inner) - 1))

static __always_inline __u32 tcp_inner_of(const char *name)
{
	if (TCP_IS(name, "cubic"))
		return ESC_TCP_INNER_CUBIC;
	if (TCP_IS(name, "bbr"))
		return ESC_TCP_INNER_BBR;
	if (TCP_IS(name, "reno"))
		return ESC_TCP_INNER_RENO;
	return ESC_TCP_INNER_NONE;
}

/*
 * The socket has a wrapper of an earlier daemon, and its flow is in a map of that daemon. While
 * its limit is in force the socket's maximum pacing rate is the limit's, and a new wrapper would
 * take it for the application's. The limit ends, and the rate is restored, with the first
 * acknowledgement of data after its expiry.
 */
static __always_inline bool tcp_earlier_limits(struct bpf_sock *sk, struct esc_tcp_flow *flow,
					       __u64 now_ns)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || now_ns < flow->earlier_until_ns)
		return true;
	if (!flow->earlier_over) {
		flow->earlier_over = 1;
		flow->earlier_una = tp->snd_una; /* this segment is parsed before it is processed */
	}
	return tp->snd_una == flow->earlier_una;
}

/*
 * Puts our wrapper around the socket's congestion control. Others stay and are not limited. A
 * wrapper of an earlier daemon ends itself, or is replaced when its limit has ended.
 */
static __always_inline void tcp_wrap(struct bpf_sock_ops *ops, struct esc_tcp_flow *flow,
				     struct esc_tcp_control *setup, __u64 now_ns)
{
	char name[16] = {};
	__u32 inner;

	flow->wrap_ktime_ns = now_ns;
	if (bpf_getsockopt(ops, TCP_SOL, TCP_OPT_CONGESTION, name, sizeof(name)))
		return;
	inner = tcp_inner_of(name);
	if (inner == ESC_TCP_INNER_NONE || inner >= ESC_TCP_INNER_MAX || !setup->names[inner][0])
		goto unwrapped;
	if (!flow->wrapped && tcp_begins(name, "esc_", sizeof("esc_") - 1)) {
		flow->earlier_until_ns = now_ns + TCP_EARLIER_NS;
		return;
	}
	__builtin_memcpy(name, setup->names[inner], sizeof(name));
	flow->inner = inner; /* before the wrapper's init, which reads it */
	if (!bpf_setsockopt(ops, TCP_SOL, TCP_OPT_CONGESTION, name, sizeof(name))) {
		flow->wrapped = 1;
		flow->unlimited = 0;
		return;
	}
	flow->inner = ESC_TCP_INNER_NONE;
unwrapped:
	if (!flow->unlimited)
		tcp_count(unwrapped);
	flow->unlimited = 1;
}

/*
 * A limit is in force, and the socket has no wrapper: since the limit is new, or since the
 * application set another congestion control, as it may at any time (`iperf3 -C`).
 */
static __always_inline void tcp_wrap_limited(struct bpf_sock_ops *ops, struct bpf_sock *sk,
					     struct esc_tcp_flow *flow,
					     struct esc_tcp_control *setup, __u64 now_ns)
{
	bool replaced = flow->replaced;

	if (flow->inner || setup->mode != ESC_TCP_PACE || now_ns >= flow->until_ktime_ns)
		return;
	if (flow->earlier_until_ns) {
		if (tcp_earlier_limits(sk, flow, now_ns))
			return;
		flow->earlier_until_ns = 0;
		flow->wrapped = 1;
	} else if (!replaced && flow->unlimited && now_ns - flow->wrap_ktime_ns < ESC_TCP_WRAP_NS) {
		return;
	}
	flow->replaced = 0;
	tcp_wrap(ops, flow, setup, now_ns);
	if (replaced && flow->inner)
		tcp_count(rewrapped);
}

/* Both ends support the option. */
static __always_inline void tcp_begin(struct bpf_sock_ops *ops, struct bpf_sock *sk,
				      const struct esc_tcp_option *option,
				      struct esc_tcp_control *setup, __u64 now_ns, __u64 until_ns)
{
	struct esc_tcp_flow *flow = refusal_is_member(ops) ? tcp_flow_get(sk, true) : NULL;

	if (!flow) {
		tcp_callbacks(ops, TCP_CALLBACKS, 0);
		return;
	}
	tcp_callbacks(ops, 0, TCP_CALLBACKS);
	tcp_count(agreed);
	tcp_store(sk, flow, option, setup, now_ns, until_ns, true);
	tcp_wrap_limited(ops, sk, flow, setup, now_ns);
}

static __always_inline void tcp_established(struct bpf_sock_ops *ops, struct bpf_sock *sk,
					    __u64 now_ns)
{
	struct esc_tcp_option option;
	struct esc_tcp_control *setup;
	bool agrees, offered;
	__u64 until_ns;

	setup = tcp_control_get(now_ns, &until_ns);
	agrees = setup && !tcp_option_load(ops, &option, 0);
	offered = ops->bpf_sock_ops_cb_flags & TCP_OFFERED;
	if (offered) {
		tcp_callbacks(ops, TCP_OFFERED, 0);
		if (agrees)
			refusal_clear(ops, now_ns);
		else if (setup && !ops->total_retrans)
			refusal_add(ops, now_ns);
	}
	if (agrees) {
		tcp_begin(ops, sk, &option, setup, now_ns, until_ns);
		return;
	}
	if (setup && (ops->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		tcp_count(plain);
	if (ops->bpf_sock_ops_cb_flags & TCP_CALLBACKS)
		tcp_callbacks(ops, TCP_CALLBACKS, 0);
}

/*
 * The application changed the congestion control, or connects the socket again: the released
 * wrapper cannot set options, so the pacing rate that it had set is restored here.
 */
static __always_inline void tcp_restore_rate(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct esc_tcp_flow *flow = tcp_flow_get(sk, false);
	__u32 rate;

	if (!flow || !flow->detached)
		return;
	flow->detached = 0;
	rate = flow->app_rate_Bps > ESC_TCP_NO_RATE ? ESC_TCP_NO_RATE : (__u32)flow->app_rate_Bps;
	bpf_setsockopt(ops, TCP_SOL_SOCKET, TCP_MAX_PACING_RATE, &rate, sizeof(rate));
}

/* Offers the option on connect. The socket may have been connected to another host before. */
static __always_inline void tcp_offer(struct bpf_sock_ops *ops, __u64 now_ns)
{
	__u64 until_ns;

	if (ops->bpf_sock_ops_cb_flags & (TCP_CALLBACKS | TCP_OFFERED))
		tcp_callbacks(ops, TCP_CALLBACKS | TCP_OFFERED, 0);
	if (tcp_control_get(now_ns, &until_ns) && refusal_is_member(ops) &&
	    !refusal_is_withheld(ops, now_ns))
		tcp_callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* Replies to offers. */
static __always_inline void tcp_listen(struct bpf_sock_ops *ops, __u64 now_ns)
{
	__u64 until_ns;

	if (tcp_control_get(now_ns, &until_ns))
		tcp_callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* The socket was closed, or the kernel gave up, before the peer replied. */
static __always_inline void tcp_state(struct bpf_sock_ops *ops, struct bpf_sock *sk, __u64 now_ns)
{
	if (ops->args[0] == TCP_STATE_SYN_SENT && ops->args[1] == TCP_STATE_CLOSE &&
	    refusal_is_unanswered(sk, now_ns))
		refusal_add_timeout(ops, now_ns);
}

/*
 * Whether this segment carries the option. A retransmitted SYN does not: a middlebox may drop
 * unknown options. After the handshake only what tcp_begin() has marked: a socket that inherited
 * its listener's callbacks, or connected, while no program was attached has agreed on nothing.
 */
static __always_inline bool tcp_supports(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_option option;
	__u64 until_ns;

	if (!tcp_control_get(now_ns, &until_ns))
		return false;
	if (tcp_flag(ops, TCP_FLAG_SYN | TCP_FLAG_ACK))
		return !tcp_option_load(ops, &option, BPF_LOAD_HDR_OPT_TCP_SYN) &&
		       refusal_is_member(ops);
	if (tcp_flag(ops, TCP_FLAG_SYN)) {
		if (!ops->total_retrans)
			return true;
		if (ops->bpf_sock_ops_cb_flags & TCP_OFFERED)
			refusal_add_timeout(ops, now_ns);
		return false;
	}
	return ops->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
}

/*
 * Without space (three SACK blocks) the kernel does not call this. It asks for the sizes of
 * segments first, then for each: an option that is longer then makes them larger than the MTU, and
 * IP refuses them.
 */
static __always_inline void tcp_reserve(struct bpf_sock_ops *ops, __u64 now_ns)
{
	bool sizing = ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS;

	if (!tcp_supports(ops, now_ns))
		return;
	if (!bpf_reserve_hdr_opt(ops, ESC_TCP_FULL, 0))
		return;
	if (!bpf_reserve_hdr_opt(ops, ESC_TCP_SHORT, 0) && !sizing)
		tcp_count(short_form);
}

/* Departure of the segment: with fq the socket's pacing may set a later one. */
static __always_inline __u64 tcp_departure(struct bpf_sock *sk, __u64 now_ns)
{
	struct tcp_sock *tp;

	if (!sk)
		return now_ns;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp && tp->tcp_wstamp_ns > now_ns)
		return tp->tcp_wstamp_ns;
	return now_ns;
}

/* A SYN-ACK reports the delay of the SYN at once: there is no socket yet to store it. */
static __always_inline void tcp_echo_syn(struct bpf_sock_ops *ops, struct esc_tcp_option *option,
					 __u64 now_ns)
{
	struct esc_tcp_option syn;
	struct tcp_delay delay;

	if (tcp_option_load(ops, &syn, BPF_LOAD_HDR_OPT_TCP_SYN) ||
	    !(syn.flags & ESC_TCP_HAS_TIME) || !tcp_option_delay(&syn, now_ns, &delay))
		return;
	tcp_option_echo(option, delay.ns);
}

/* Only segments with data: the delay of a pure acknowledgement is not used. */
static __always_inline bool tcp_has_data(struct bpf_sock_ops *ops)
{
	void *data = (void *)(long)ops->skb_data, *end = (void *)(long)ops->skb_data_end;
	struct tcphdr *tcp = data;

	if ((void *)(tcp + 1) > end)
		return false;
	return ops->skb_len > (__u32)tcp->doff * 4;
}

static __always_inline void tcp_write(struct bpf_sock_ops *ops, struct bpf_sock *sk, __u64 now_ns)
{
	struct esc_tcp_flow *flow = tcp_flow_get(sk, false);
	struct esc_tcp_option option;

	tcp_option_make(&option, tcp_departure(sk, now_ns));
	if (flow && flow->in_echo)
		tcp_option_echo(&option, flow->in_last_ns);
	if (tcp_flag(ops, TCP_FLAG_SYN)) {
		tcp_count(offered);
		if (tcp_flag(ops, TCP_FLAG_ACK))
			tcp_echo_syn(ops, &option, now_ns);
	}
	if (bpf_store_hdr_opt(ops, &option, ESC_TCP_FULL, 0)) {
		option.length = ESC_TCP_SHORT;
		if (bpf_store_hdr_opt(ops, &option, ESC_TCP_SHORT, 0))
			return;
	}
	if (tcp_flag(ops, TCP_FLAG_SYN) && !tcp_flag(ops, TCP_FLAG_ACK))
		tcp_callbacks(ops, 0, TCP_OFFERED);
	if (!flow)
		return;
	flow->in_echo = 0;
	if (flow->rest_ns && !flow->rest_end_ns && tcp_has_data(ops))
		flow->rest_end_ns = now_ns;
}

static __always_inline void tcp_parse(struct bpf_sock_ops *ops, struct bpf_sock *sk, __u64 now_ns)
{
	struct esc_tcp_option option;
	struct esc_tcp_flow *flow;
	struct esc_tcp_control *setup;
	__u64 until_ns;

	setup = tcp_control_get(now_ns, &until_ns);
	if (!setup || tcp_option_load(ops, &option, 0))
		return;
	flow = tcp_flow_get(sk, false);
	if (!flow) { /* begun under an earlier daemon */
		tcp_begin(ops, sk, &option, setup, now_ns, until_ns);
		return;
	}
	tcp_store(sk, flow, &option, setup, now_ns, until_ns, tcp_has_data(ops));
	tcp_wrap_limited(ops, sk, flow, setup, now_ns);
}

SEC("sockops")
int esc_tcp_edge(struct bpf_sock_ops *ops)
{
	/* Read once: a pointer into the context that is moved is refused. */
	struct bpf_sock *sk = ops->sk;
	__u64 now_ns = bpf_ktime_get_ns();

	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		tcp_offer(ops, now_ns);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		tcp_listen(ops, now_ns);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		tcp_state(ops, sk, now_ns);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		tcp_restore_rate(ops, sk);
		tcp_established(ops, sk, now_ns);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		tcp_reserve(ops, now_ns);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		tcp_write(ops, sk, now_ns);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		tcp_restore_rate(ops, sk);
		tcp_parse(ops, sk, now_ns);
		break;
	}
	return 1;
}

/*
 * TCP_CONGESTION reads as the application set it, not as the wrapper's name. All else is as the
 * kernel left it: a length of 0 keeps its result (Documentation/bpf/prog_cgroup_sockopt.rst). It is
 * for values that this buffer has in part only, or that are longer than the application's buffer
 * (NETLINK_LIST_MEMBERSHIPS), and before Linux 5.18 for errors that return a length
 * (SO_PEERGROUPS).
 */
SEC("cgroup/getsockopt")
int esc_tcp_get(struct bpf_sockopt *ctx)
{
	static const char names[ESC_TCP_INNER_MAX][TCP_NAME_BYTES] = {"", "cubic", "bbr", "reno"};
	char *name = ctx->optval, *end = ctx->optval_end;
	__u32 inner;

	if (ctx->retval < 0 || ctx->optlen > end - name)
		ctx->optlen = 0;
	if (ctx->level != TCP_SOL || ctx->optname != TCP_OPT_CONGESTION || !ctx->optlen)
		return 1;
	/* "esc_cubic" or "esc_cubic_2", or the part of it that fits. */
	if (name + 5 > end || !tcp_begins(name, "esc_", sizeof("esc_") - 1))
		return 1;
	inner = name[4] == 'c'	 ? ESC_TCP_INNER_CUBIC
		: name[4] == 'b' ? ESC_TCP_INNER_BBR
		: name[4] == 'r' ? ESC_TCP_INNER_RENO
				 : ESC_TCP_INNER_NONE;
	for (int i = 0; inner && i < TCP_NAME_BYTES && name + i + 1 <= end; i++)
		name[i] = names[inner][i];
	return 1;
}

char esc_license[] SEC("license") = "Dual BSD/GPL";
