/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of packets that a hook did not process, by reason (maps/reasons.h). */
#ifndef ESC_BPF_LIB_REASON_H
#define ESC_BPF_LIB_REASON_H

#include "lib/count.bpf.h"

/* An upgrade finds the names of the reasons by the type of the argument. */
static __noinline int reason_count(enum esc_reason reason, enum esc_hook hook)
{
	__u32 index = reason;
	struct esc_reason_count *counts = bpf_map_lookup_elem(&reasons, &index);
	struct esc_port_counts *port = NULL;

	if (!counts)
		return 0;
	if (hook == ESC_HOOK_XDP_INGRESS)
		counts->xdp_ingress++;
	else if (hook == ESC_HOOK_TC_INGRESS)
		counts->tc_ingress++;
	else
		counts->tc_egress++;
	if (reason == ESC_REASON_ROCEV1)
		port = port_counts_get();
	if (port && hook_direction(hook) == ESC_DIRECTION_RX)
		port->rx_rocev1_frames++;
	else if (port)
		port->tx_rocev1_frames++;
	return 0;
}

#endif
