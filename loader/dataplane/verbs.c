// SPDX-License-Identifier: BSD-2-Clause
/* How the attachment of the programs is shown in `status` and `health`. */
#include "base/verb.h"
#include "dataplane.h"

/* clang-format off: tables */

static const struct verb_section interface[] = {
	{.when = "!ifindex",
	 .header = "Interface",
	 .text = "{name}: not present; it is attached when it appears"},
	{.when = "ifindex",
	 .header = "Interface",
	 .text = "{name}: {plane}, link {link_up:?up|down}, MTU {mtu}<|, driver {driver}|><|, RDMA "
		 "device {rdma_device}/{rdma_port}|>"},
	{.when = "!attach=none",
	 .header = "  Attached",
	 .text = "XDP {attach} ({attach_via}), tc {tc}"},
	{.when = "attach=none !tc=none", .header = "  Attached", .text = "tc {tc}, no XDP"},
	{.when = "attach=none tc=none", .header = "  Attached", .text = "no"},
	{.header = "", .text = "{attach_note}"},
	{.header = "", .text = "{offload_note}"},
	{.rows = "programs_before",
	 .header = "  Before ours",
	 .text = "{name} ({id}) in {hook}: packets for which it ends the chain are not seen"},
	{.when = "visibility_note",
	 .header = "  Visibility",
	 .text = "{visibility}: {visibility_note}"},
	{.when = "!visibility_note visibility=packets",
	 .header = "  Visibility",
	 .text = "packets: every RoCEv2 packet passes the kernel"},
	{.when = "!visibility_note visibility=control",
	 .header = "  Visibility",
	 .text = "control: the NIC carries RDMA itself; the kernel sees connections only"},
	{.when = "!visibility_note visibility=counters",
	 .header = "  Visibility",
	 .text = "counters: the NIC carries RDMA itself; only its counters can be read"},
	{.when = "!visibility_note visibility=none",
	 .header = "  Visibility",
	 .text = "none: RDMA traffic cannot be seen here"},
	{.when = "!mode=observe", .header = "  Mode", .text = "{mode}"},
	{.header = "  RoCE in",
	 .text = "{roce_rx.packets:count} packets, {roce_rx.bytes:bytes}, {roce_rx.ce} CE marks, "
		 "{roce_rx.cnps} CNPs"},
	{.header = "  RoCE out",
	 .text = "{roce_tx.packets:count} packets, {roce_tx.bytes:bytes}, {roce_tx.ce} CE marks, "
		 "{roce_tx.cnps} CNPs"},
	{.when = "roce_rx.rocev1+roce_tx.rocev1",
	 .header = "  RoCEv1",
	 .text = "{roce_rx.rocev1+roce_tx.rocev1} frames"},
	{},
};

static const struct verb_section status[] = {
	{.rows = "interfaces", .sections = interface},
	{.rows = "reasons",
	 .only = "!reason^=probe_",
	 .header = "Not counted",
	 .text = "{reason}: {xdp_ingress+tc_ingress} in, {tc_egress} out (forwarded unchanged): "
		 "{meaning}"},
	{.rows = "reasons",
	 .only = "reason^=probe_",
	 .header = "Probes dropped",
	 .text = "{reason}: {xdp_ingress+tc_ingress} in, {tc_egress} out: {meaning}"},
	{},
};

static const struct verb_section health[] = {
	{.rows = "interfaces",
	 .only = "!ifindex",
	 .text = "{name}: the interface is not present",
	 .remedy = "see its driver, or take it out of `interfaces`",
	 .began = "interface_gone",
	 .critical = true},
	{.when = "!kill_switch",
	 .rows = "interfaces",
	 .only = "ifindex attach=none tc=none",
	 .text = "{name}: no program is attached<|: {attach_note}|>",
	 .remedy = "`escapement features` shows what this kernel lacks"},
	{},
};

const struct verb_set dataplane_verbs = {"dataplane", NULL, status, health, support_features};
