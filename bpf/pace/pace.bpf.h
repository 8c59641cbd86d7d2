/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by departures and feedback: the rule of a class. */
#ifndef ESC_BPF_PACE_PACE_H
#define ESC_BPF_PACE_PACE_H

#include "lib/maps.bpf.h"
#include "pacing/pause.h"

static __always_inline const struct pause_rule *pace_rule(__u32 port, __u32 class)
{
	__u32 index = ESC_PACE_RULE(port, class);

	return bpf_map_lookup_elem(&pace_rules, &index);
}

#endif
