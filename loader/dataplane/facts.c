// SPDX-License-Identifier: BSD-2-Clause
/* What is known of an interface: its programs, and what they see. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "net/rtnl.h"

const char *xdp_mode_name(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_NATIVE ? "native" : mode == ESC_XDP_SKB ? "skb" : "none";
}

const char *xdp_via_name(enum esc_xdp_via via)
{
	return via == ESC_XDP_VIA_DISPATCHER ? "dispatcher"
	       : via == ESC_XDP_VIA_LINK     ? "link"
					     : "none";
}

const char *tc_via_name(enum esc_tc_via via)
{
	return via == ESC_TC_TCX ? "tcx" : via == ESC_TC_CLSACT ? "clsact" : "none";
}

/* --- how much of the RDMA traffic is seen --- */

void visibility_decide(struct port_info *port, const struct rdma_facts *rdma, uint64_t roce_packets)
{
	const char *driver = rdma->driver[0] ? rdma->driver : "its driver", *mode = "packets";
	char *note = port->visibility_note;
	size_t bytes = sizeof(port->visibility_note);

	if (!rdma->device[0]) {
		snprintf(note, bytes, "no RDMA device on %s: every packet passes the kernel",
			 port->name);
	} else if (rdma->software) {
		snprintf(note, bytes,
			 "%s is a software RDMA device: every packet of %s passes the kernel",
			 rdma->device, port->name);
	} else if (roce_packets) {
		snprintf(note, bytes,
			 "%s is a hardware RDMA device, but RoCE packets pass the kernel on %s "
			 "(%" PRIu64 " counted); what the device offloads is not seen",
			 rdma->device, port->name, roce_packets);
	} else if (rdma->counters) {
		mode = "counters";
		snprintf(note, bytes,
			 "%s (%s) carries RoCE past the kernel: no packet of it is seen on %s, "
			 "only the device's own counters",
			 rdma->device, driver, port->name);
	} else {
		mode = "none";
		snprintf(note, bytes,
			 "%s (%s) carries RoCE past the kernel and shows no counters: nothing is "
			 "seen of it on %s",
			 rdma->device, driver, port->name);
	}
	snprintf(port->visibility, sizeof(port->visibility), "%s", mode);
}

void visibility_add_ready(struct port_info *port, size_t ready)
{
	if (!ready || (strcmp(port->visibility, "counters") && strcmp(port->visibility, "none")))
		return;
	strcpy(port->visibility, "control");
	snprintf(port->visibility_note, sizeof(port->visibility_note),
		 "%zu queue pair%s of %.40s could send for 10 s or more, and no RoCE packet passed "
		 "%s: the NIC carries them past the kernel; whose they are is known, what they "
		 "send is not",
		 ready, ready == 1 ? "" : "s", port->rdma_device, port->name);
}

/* --- a port --- */

void port_describe(const struct port *port, const struct esc_port_counts *counts,
		   struct port_info *out)
{
	const char *const notes[] = {port->lost_note, port->xdp_note, port->tc_note};
	char stacked[PORT_BELOW_BYTES + 64];
	struct rdma_facts rdma;
	struct link_facts link;

	*out = (struct port_info){
		.index = port->slot,
		.plane = port->plane,
		.xdp_mode = port->record.xdp_mode,
		.xdp_via = port->record.xdp_via,
		.tc_via = port->record.tc_via,
		.before = port->before,
		.read_local_ns = time_local_ns(),
	};
	memcpy(out->name, port->name, sizeof(out->name));
	if (!rtnl_link(port->name, &link)) {
		out->ifindex = link.ifindex;
		out->mtu = link.mtu;
		out->link_up = link.up;
	}
	ethtool_driver(port->name, out->driver, sizeof(out->driver));
	for (size_t i = 0; i < 3; i++)
		if (notes[i][0])
			text_append(out->attach_note, sizeof(out->attach_note), "; ", notes[i]);
	if (port->below[0]) {
		snprintf(stacked, sizeof(stacked),
			 "%s below it: served, too, a packet of both counts on both", port->below);
		text_append(out->attach_note, sizeof(out->attach_note), "; ", stacked);
	}
	rdma_read("/sys", port->name, &rdma);
	memcpy(out->rdma_device, rdma.device, sizeof(out->rdma_device));
	out->rdma_port = rdma.port;
	visibility_decide(out, &rdma, counts->rx_roce_packets + counts->tx_roce_packets);
	if (out->ifindex && out->xdp_mode != ESC_XDP_NONE)
		offload_note(port->name, port->record.offloads_taken,
			     out->xdp_mode == ESC_XDP_NATIVE, out->offload_note,
			     sizeof(out->offload_note));
}
