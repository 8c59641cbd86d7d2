// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TCP of a cgroup: time and delay in an option of every segment, once both
 * ends have shown in the handshake that they speak it. Here is what is measured;
 * what is held, and when, is the wrappers' (tcp/wrap.bpf.h).
 */
#include "tcp/tcp.bpf.h"
#include "tcp/class.bpf.h"
#include "tcp/option.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* include/linux/socket.h, include/uapi/linux/tcp.h */
#define TCP_SOL 6
#define TCP_OPT_CONGESTION 13
/* include/uapi/asm-generic/socket.h */
#define TCP_SOL_SOCKET 1
#define TCP_MAX_PACING_RATE 47
#define TCP_FLAG_SYN 0x02
#define TCP_FLAG_ACK 0x10

#define TCP_CALLBACKS                                                                              \
	(BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct esc_tcp_control);
} tcp_control SEC(".maps");

/* Delays of data that came in, by bucket (maps/owd.h). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ESC_OWD_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} tcp_delays SEC(".maps");

/* The daemon's word, NULL when it is off or its last beat is too long ago. @until: when it ends. */
static __always_inline struct esc_tcp_control *tcp_control_get(__u64 now_ns, __u64 *until_ns)
{
	__u32 zero = 0;
	struct esc_control *daemon = bpf_map_lookup_elem(&control, &zero);
	struct esc_tcp_control *word = bpf_map_lookup_elem(&tcp_control, &zero);

	if (!daemon || !word || word->mode == ESC_TCP_OFF || (daemon->flags & ESC_CONTROL_OFF))
		return NULL;
	*until_ns = daemon->heartbeat_local_ns + ESC_TCP_LIMIT_NS;
	return now_ns < *until_ns ? word : NULL;
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

/* A delay that the other end tells. The last of the scale is "at least". */
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
				      const struct esc_tcp_control *word, __u64 now_ns,
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
	tcp_class_take(sk, flow, word, now_ns);
	tcp_store_out(flow, option, now_ns);
	if (word->mode != ESC_TCP_PACE)
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

/* @name is @inner, or a wrapper around it: of this daemon or of one before, whatever its number is.
 */
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

/* The socket's congestion control gets our wrapper around it. Any other one stays, and is not held.
 */
static __always_inline void tcp_wrap(struct bpf_sock_ops *ops, struct esc_tcp_flow *flow,
				     struct esc_tcp_control *word)
{
	char name[16] = {};
	__u32 inner;

	if (bpf_getsockopt(ops, TCP_SOL, TCP_OPT_CONGESTION, name, sizeof(name)))
		return;
	inner = tcp_inner_of(name);
	if (inner == ESC_TCP_INNER_NONE || inner >= ESC_TCP_INNER_MAX || !word->names[inner][0])
		goto unwrapped;
	__builtin_memcpy(name, word->names[inner], sizeof(name));
	flow->inner = inner; /* before the wrapper's init, which reads it */
	if (!bpf_setsockopt(ops, TCP_SOL, TCP_OPT_CONGESTION, name, sizeof(name)))
		return;
	flow->inner = ESC_TCP_INNER_NONE;
unwrapped:
	tcp_count(unwrapped);
}

/* Both ends are known to speak it. */
static __always_inline void tcp_begin(struct bpf_sock_ops *ops, struct bpf_sock *sk,
				      const struct esc_tcp_option *option,
				      struct esc_tcp_control *word, __u64 now_ns, __u64 until_ns)
{
	struct esc_tcp_flow *flow = tcp_flow_get(sk, true);

	if (!flow) {
		tcp_callbacks(ops, TCP_CALLBACKS, 0);
		return;
	}
	tcp_callbacks(ops, 0, TCP_CALLBACKS);
	tcp_count(agreed);
	tcp_store(sk, flow, option, word, now_ns, until_ns, true);
	if (word->mode == ESC_TCP_PACE)
		tcp_wrap(ops, flow, word);
}

static __always_inline void tcp_established(struct bpf_sock_ops *ops, struct bpf_sock *sk,
					    __u64 now_ns)
{
	struct esc_tcp_option option;
	struct esc_tcp_control *word;
	__u64 until_ns;

	word = tcp_control_get(now_ns, &until_ns);
	if (word && !tcp_option_load(ops, &option, 0)) {
		tcp_begin(ops, sk, &option, word, now_ns, until_ns);
		return;
	}
	if (word && (ops->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		tcp_count(plain);
	if (ops->bpf_sock_ops_cb_flags & TCP_CALLBACKS)
		tcp_callbacks(ops, TCP_CALLBACKS, 0);
}

/*
 * The application took another congestion control: the wrapper that goes may set nothing any more,
 * so the maximum of the pacing that it had put there is taken back here.
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

/* From now on: what connects is offered the option, what listens answers an offer. */
static __always_inline void tcp_offer(struct bpf_sock_ops *ops, __u64 now_ns)
{
	__u64 until_ns;

	if (tcp_control_get(now_ns, &until_ns))
		tcp_callbacks(ops, 0, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/*
 * Whether this segment is to carry it at all. A connection request that was not answered is
 * repeated without it: a middlebox may drop unknown options.
 */
static __always_inline bool tcp_speaks(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_option option;
	__u64 until_ns;

	if (!tcp_control_get(now_ns, &until_ns))
		return false;
	if (tcp_flag(ops, TCP_FLAG_SYN | TCP_FLAG_ACK))
		return !tcp_option_load(ops, &option, BPF_LOAD_HDR_OPT_TCP_SYN);
	return !tcp_flag(ops, TCP_FLAG_SYN) || !ops->total_retrans;
}

/* Without space (three SACK blocks) the kernel does not call this. */
static __always_inline void tcp_reserve(struct bpf_sock_ops *ops, __u64 now_ns)
{
	bool sizing = ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS;

	if (!tcp_speaks(ops, now_ns))
		return;
	if (!bpf_reserve_hdr_opt(ops, ESC_TCP_FULL, 0))
		return;
	if (!bpf_reserve_hdr_opt(ops, ESC_TCP_SHORT, 0) && !sizing)
		tcp_count(short_form);
}

/* When the segment may leave: with fq the socket's pacing gives it a time ahead. */
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

/* A SYN-ACK: the delay of the SYN is reported at once, there is no socket yet to store it.
 */
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
	struct esc_tcp_control *word;
	__u64 until_ns;

	word = tcp_control_get(now_ns, &until_ns);
	if (!word || tcp_option_load(ops, &option, 0))
		return;
	flow = tcp_flow_get(sk, false);
	if (!flow) /* of a daemon before this one */
		tcp_begin(ops, sk, &option, word, now_ns, until_ns);
	else
		tcp_store(sk, flow, &option, word, now_ns, until_ns, tcp_has_data(ops));
}

SEC("sockops")
int esc_tcp_edge(struct bpf_sock_ops *ops)
{
	/* Read once: a pointer into the context that is moved is refused. */
	struct bpf_sock *sk = ops->sk;
	__u64 now_ns = bpf_ktime_get_ns();

	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		tcp_offer(ops, now_ns);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
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

char esc_license[] SEC("license") = "Dual BSD/GPL";
