/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * To which hosts the option is offered: members of the fleet, but not where one has refused it,
 * nor for a while after a SYN with it got no reply. So a path that drops it costs one timeout, or
 * ESC_TCP_LOST_MAX where a connection agreed before: there the loss may be of any packet.
 */
#ifndef ESC_BPF_TCP_REFUSAL_H
#define ESC_BPF_TCP_REFUSAL_H

#include "tcp/tcp.bpf.h"

#include <bpf/bpf_endian.h>

/* include/linux/socket.h */
#define REFUSAL_INET 2
/* include/uapi/asm-generic/errno.h */
#define REFUSAL_ETIMEDOUT 110
/* An application that gives up earlier has not waited for a reply. */
#define REFUSAL_WAIT_NS 100000000ull

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ESC_TCP_REFUSALS);
	__type(key, struct esc_tcp_refusal_key);
	__type(value, struct esc_tcp_refusal);
} tcp_refusals SEC(".maps");

/*
 * The other end, IPv4 mapped; without the port. All is read first, volatile: reads that the
 * compiler moves or merges would move the pointer to the context, which the verifier refuses.
 */
static __always_inline void refusal_key(volatile struct bpf_sock_ops *ops,
					struct esc_tcp_refusal_key *key)
{
	__u32 family = ops->family, four = ops->remote_ip4;
	__u32 six[4] = {ops->remote_ip6[0], ops->remote_ip6[1], ops->remote_ip6[2],
			ops->remote_ip6[3]};
	__u32 *words = (__u32 *)key->address.bytes;
	bool is_four = family == REFUSAL_INET;

	__builtin_memset(key, 0, sizeof(*key));
	words[0] = is_four ? 0 : six[0];
	words[1] = is_four ? 0 : six[1];
	words[2] = is_four ? bpf_htonl(0xffff) : six[2];
	words[3] = is_four ? four : six[3];
}

static __always_inline bool refusal_is_member(struct bpf_sock_ops *ops)
{
	struct esc_tcp_refusal_key key;

	refusal_key(ops, &key);
	if (bpf_map_lookup_elem(&peer_addresses, &key.address))
		return true;
	tcp_count(outside);
	return false;
}

static __always_inline bool refusal_holds(const struct esc_tcp_refusal_key *key, __u64 now_ns)
{
	struct esc_tcp_refusal *refusal = bpf_map_lookup_elem(&tcp_refusals, key);

	return refusal && now_ns < refusal->until_ktime_ns;
}

static __always_inline bool refusal_is_withheld(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_refusal_key key;

	refusal_key(ops, &key);
	if (!refusal_holds(&key, now_ns)) {
		key.port = bpf_ntohl(ops->remote_port);
		if (!refusal_holds(&key, now_ns))
			return false;
	}
	tcp_count(withheld);
	return true;
}

/* The peer replied to an offer without the option. */
static __always_inline void refusal_add(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_refusal refusal = {.until_ktime_ns = now_ns + ESC_TCP_REFUSED_NS};
	struct esc_tcp_refusal_key key;

	refusal_key(ops, &key);
	key.port = bpf_ntohl(ops->remote_port);
	bpf_map_update_elem(&tcp_refusals, &key, &refusal, BPF_ANY);
}

/* The path is known to carry the option: this timeout is one of a few that are let pass. */
static __always_inline bool refusal_is_loss(struct esc_tcp_refusal *host, __u64 now_ns)
{
	if (!host->agreed_ktime_ns || now_ns - host->agreed_ktime_ns > ESC_TCP_AGREED_NS)
		return false;
	if (host->lost && now_ns - host->lost_ktime_ns < ESC_TCP_LOST_NS)
		return true;
	if (host->lost + 1 >= ESC_TCP_LOST_MAX)
		return false;
	host->lost++;
	host->lost_ktime_ns = now_ns;
	tcp_count(syn_timeouts);
	return true;
}

/* No reply to a SYN with the option. Several at once are one. */
static __always_inline void refusal_add_timeout(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_refusal refusal = {.hold_ns = ESC_TCP_TIMEOUT_NS}, *old;
	struct esc_tcp_refusal_key key;

	refusal_key(ops, &key);
	old = bpf_map_lookup_elem(&tcp_refusals, &key);
	if (old) {
		if (now_ns < old->until_ktime_ns || refusal_is_loss(old, now_ns))
			return;
		if (old->hold_ns)
			refusal.hold_ns = 2 * old->hold_ns;
		if (refusal.hold_ns > ESC_TCP_TIMEOUT_MAX_NS)
			refusal.hold_ns = ESC_TCP_TIMEOUT_MAX_NS;
	}
	refusal.until_ktime_ns = now_ns + refusal.hold_ns;
	bpf_map_update_elem(&tcp_refusals, &key, &refusal, BPF_ANY);
	tcp_count(syn_timeouts);
}

/* The peer agreed to an offer. */
static __always_inline void refusal_clear(struct bpf_sock_ops *ops, __u64 now_ns)
{
	struct esc_tcp_refusal agreed = {.agreed_ktime_ns = now_ns}, *old;
	struct esc_tcp_refusal_key key;

	refusal_key(ops, &key);
	old = bpf_map_lookup_elem(&tcp_refusals, &key);
	if (old)
		*old = agreed;
	else
		bpf_map_update_elem(&tcp_refusals, &key, &agreed, BPF_ANY);
	key.port = bpf_ntohl(ops->remote_port);
	if (bpf_map_lookup_elem(&tcp_refusals, &key))
		bpf_map_delete_elem(&tcp_refusals, &key);
}

/* A connection that was offered the option ends in SYN-SENT, without any reply. */
static __always_inline bool refusal_is_unanswered(struct bpf_sock *sk, __u64 now_ns)
{
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;
	int err;

	if (!tp || now_ns - tp->tcp_wstamp_ns < REFUSAL_WAIT_NS)
		return false;
	err = tp->inet_conn.icsk_inet.sk.sk_err;
	return !err || err == REFUSAL_ETIMEDOUT;
}

#endif
