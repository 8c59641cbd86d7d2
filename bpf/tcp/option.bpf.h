/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The TCP option: encoding, lookup in a segment, and its delay. */
#ifndef ESC_BPF_TCP_OPTION_H
#define ESC_BPF_TCP_OPTION_H

#include "tcp/tcp.bpf.h"

#include <bpf/bpf_endian.h>

struct tcp_delay {
	__s64 ns;
	__u32 bound_ns; /* both ends' */
};

/* Fabric time with a bound that is small enough for a delay. */
static __always_inline bool tcp_fabric_at(__u64 ktime_ns, struct esc_fabric_time *time)
{
	return esc_fabric_at(esc_local_at(ktime_ns), time) &&
	       time->bound_ns <= ESC_TCP_BOUND_MAX_NS;
}

static __always_inline void tcp_option_make(struct esc_tcp_option *option, __u64 departure_ns)
{
	struct esc_fabric_time time;

	__builtin_memset(option, 0, sizeof(*option));
	option->kind = ESC_TCP_KIND;
	option->length = ESC_TCP_FULL;
	option->exid = bpf_htons(ESC_TCP_EXID);
	if (!tcp_fabric_at(departure_ns, &time))
		return;
	option->flags = ESC_TCP_HAS_TIME;
	option->bound = esc_tcp_bound_code(time.bound_ns);
	option->time = bpf_htonl((__u32)((__u64)time.fabric_ns >> ESC_TCP_UNIT_SHIFT));
}

static __always_inline void tcp_option_echo(struct esc_tcp_option *option, __s64 delay_ns)
{
	__u64 units = (__u64)(delay_ns < 0 ? -delay_ns : delay_ns) >> ESC_TCP_UNIT_SHIFT;

	if (delay_ns < 0)
		option->flags |= ESC_TCP_ECHO_LESS;
	option->echo = bpf_htons(units < ESC_TCP_ECHO_MAX ? (__u16)units : ESC_TCP_ECHO_MAX);
	option->flags |= ESC_TCP_HAS_ECHO;
}

/*
 * 0, or negative: the segment has no valid option. The kernel searches by kind and identifier;
 * length and flags are checked here.
 */
static __always_inline int tcp_option_load(struct bpf_sock_ops *ops, struct esc_tcp_option *option,
					   __u64 flags)
{
	long got;

	__builtin_memset(option, 0, sizeof(*option));
	option->kind = ESC_TCP_KIND;
	option->length = 4; /* of the search pattern: kind, length, identifier */
	option->exid = bpf_htons(ESC_TCP_EXID);
	got = bpf_load_hdr_opt(ops, option, sizeof(*option), flags);
	if (got == -28 /* ENOSPC: longer than ours */)
		goto malformed;
	if (got < 0)
		return -1;
	if ((got != ESC_TCP_FULL && got != ESC_TCP_SHORT) || option->length != got ||
	    (option->flags &
	     ~(ESC_TCP_HAS_TIME | ESC_TCP_HAS_ECHO | ESC_TCP_ECHO_LESS | ESC_TCP_READS_LATER)))
		goto malformed;
	return 0;
malformed:
	tcp_count(malformed);
	return -1;
}

/*
 * The delay of the segment, received at @now_ns. False: no fabric time here, or a difference that
 * is longer than any queue. Clock errors within the bounds can make a delay negative.
 */
static __always_inline bool tcp_option_delay(const struct esc_tcp_option *option, __u64 now_ns,
					     struct tcp_delay *delay)
{
	struct esc_fabric_time time;
	__s32 units;

	if (!tcp_fabric_at(now_ns, &time))
		return false;
	units = (__s32)((__u32)((__u64)time.fabric_ns >> ESC_TCP_UNIT_SHIFT) -
			bpf_ntohl(option->time));
	delay->ns = (__s64)units << ESC_TCP_UNIT_SHIFT;
	delay->bound_ns = time.bound_ns + esc_tcp_bound_ns(option->bound);
	return delay->ns > -2 * (__s64)ESC_TCP_BOUND_MAX_NS && delay->ns < ESC_TCP_DELAY_MAX_NS;
}

#endif
