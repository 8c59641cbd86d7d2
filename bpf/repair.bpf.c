// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Not attached: the daemon runs it on an interface, for a queue pair whose path died and that may
 * have nothing to send. What packets would do: they take the backup, copies of the last ones first.
 */
/* Contexts and packet headers are ABI: their offsets are not relocated. */
#define BPF_NO_PRESERVE_ACCESS_INDEX

/* Those for packets. */
#pragma clang diagnostic ignored "-Wunused-function"
#include "steer/steer.bpf.h"

/* An Ethernet header and a struct esc_repair_order; returns how many copies were sent. */
SEC("tc")
int esc_repair(struct __sk_buff *skb)
{
	const struct esc_control *ctl = control_get();
	struct esc_repair_order order;
	struct esc_repair_ring *ring;
	struct esc_qp_steer *steer;
	struct esc_qp *qp;

	if (!ctl || !(ctl->flags & ESC_CONTROL_STEER) ||
	    bpf_skb_load_bytes(skb, ETH_HLEN, &order, sizeof(order)))
		return 0;
	qp = bpf_map_lookup_elem(&qps, &order.key);
	if (!qp)
		return 0;
	steer = &qp->steer;
	if (steer->generation != ctl->steer_generation)
		steer_lookup(qp, &order.key, ctl->steer_generation);
	if (!(qp->steer_flags & ESC_QP_STEERED) || !(steer->flags & ESC_QP_STEER_PATH) ||
	    !steer->ring || !steer_is_alive(steer, ctl))
		return 0;
	ring = repair_ring(steer->ring);
	if (!ring)
		return 0;
	failover_check(steer, &order.key);
	return repair_order(skb, steer, ring, order.path, order.flags & ESC_REPAIR_AGAIN);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
