// SPDX-License-Identifier: BSD-2-Clause
/* What is known of an interface: its programs, what they cost it, and what they see. */
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

/* --- what attaching XDP takes --- */

/* The order is in pinned maps: only append. Bit 31 is the MTU's. */
static const char *const offload_names[] = {
	"rx-lro",
	"rx-gro-hw",
	"rx-gro",
	"rx-gro-list",
	"tx-tcp-segmentation",
	"tx-tcp6-segmentation",
	"tx-tcp-ecn-segmentation",
	"tx-tcp-mangleid-segmentation",
	"tx-udp-segmentation",
	"tx-generic-segmentation",
	"tx-gso-partial",
	"tx-scatter-gather",
	"tx-scatter-gather-fraglist",
	"tx-checksum-ip-generic",
	"tx-checksum-ipv4",
	"tx-checksum-ipv6",
	"rx-checksum",
	"rx-vlan-hw-parse",
	"rx-vlan-filter",
	"tx-vlan-hw-insert",
	"rx-hashing",
	"rx-ntuple-filter",
	"hw-tc-offload",
	"tls-hw-rx-offload",
	"tls-hw-tx-offload",
	"tx-udp_tnl-segmentation",
};
#define OFFLOAD_COUNT (sizeof(offload_names) / sizeof(offload_names[0]))
#define OFFLOAD_MAX_MTU (1u << 31)
_Static_assert(OFFLOAD_COUNT <= 31, "bit 31 is taken");

static void offload_read_features(const char *name, struct offload_state *out)
{
	*out = (struct offload_state){};
	out->known = !ethtool_features(name, offload_names, OFFLOAD_COUNT, &out->active);
}

void offload_read(const char *name, struct offload_state *out)
{
	struct link_facts link;

	offload_read_features(name, out);
	if (rtnl_link(name, &link))
		return;
	/* A veth loses only what its peer's XDP takes, which may come or go meanwhile. */
	if (!strcmp(link.kind, "veth"))
		out->known = false;
	else
		out->max_mtu = link.max_mtu;
}

uint32_t offload_taken(const struct offload_state *before, const struct offload_state *after)
{
	uint32_t taken = 0;

	if (before->known && after->known)
		taken = before->active & ~after->active;
	if (before->max_mtu && after->max_mtu && after->max_mtu < before->max_mtu)
		taken |= OFFLOAD_MAX_MTU;
	return taken;
}

void offload_note(const char *name, uint32_t taken, bool native, char *out, size_t bytes)
{
	struct link_facts link, peer;
	struct offload_state state;
	char text[160];

	out[0] = '\0';
	for (size_t i = 0; i < OFFLOAD_COUNT; i++)
		if (taken & 1u << i)
			text_append(out, bytes, ", ", offload_names[i]);
	if (out[0])
		text_append(out, bytes, " ", "went off while XDP is attached");
	if (rtnl_link(name, &link))
		return;
	if (taken & OFFLOAD_MAX_MTU) {
		snprintf(text, sizeof(text), "the largest MTU is %u while XDP is attached",
			 link.max_mtu);
		text_append(out, bytes, "; ", text);
	}
	if (!native || strcmp(link.kind, "veth"))
		return;
	/* drivers/net/veth.c: veth_disable_xdp() and veth_xdp_set() change the peer's features. */
	if (!link.peer_ifindex || rtnl_link_by_index(link.peer_ifindex, &peer)) {
		text_append(out, bytes, "; ",
			    "its veth peer, in another network namespace, has TCP segmentation "
			    "offload off while native XDP is attached");
		return;
	}
	offload_read_features(peer.name, &state);
	if (!state.known || state.active & 1u << 4) /* tx-tcp-segmentation */
		return;
	snprintf(text, sizeof(text),
		 "its veth peer %s has TCP segmentation offload off and a largest MTU of %u while "
		 "native XDP is attached",
		 peer.name, peer.max_mtu);
	text_append(out, bytes, "; ", text);
}

/* --- what native XDP costs when it is attached --- */

/*
 * By the drivers' sources: igb_xdp_setup() and igc_xdp_set_prog() close and open the interface,
 * which turns the carrier off; ixgbe_xdp_setup() calls ixgbe_setup_tc(); i40e_xdp_setup() resets;
 * bnxt_xdp_set() closes its rings without the link; mlx5e_xdp_set() switches to new channels. All
 * replace an attached program without that.
 */
static const struct {
	const char *driver;
	struct native_cost cost;
} native_costs[] = {
	{"igb", {"closes and opens the interface", true}},
	{"igc", {"closes and opens the interface", true}},
	{"ixgbe", {"closes and opens the interface", true}},
	{"i40e", {"resets the NIC", true}},
	{"bnxt_en", {"closes and opens its rings", false}},
	{"mlx5_core", {"creates its queues again", false}},
};

struct native_cost native_cost(const char *driver)
{
	for (size_t i = 0; i < sizeof(native_costs) / sizeof(native_costs[0]); i++)
		if (!strcmp(native_costs[i].driver, driver))
			return native_costs[i].cost;
	return (struct native_cost){};
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
	struct rdma_facts rdma;
	struct link_facts link;

	*out = (struct port_info){
		.index = port->slot,
		.plane = port->plane,
		.xdp_mode = port->record.xdp_mode,
		.xdp_via = port->record.xdp_via,
		.tc_via = port->record.tc_via,
		.before = port->before,
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
	rdma_read("/sys", port->name, &rdma);
	memcpy(out->rdma_device, rdma.device, sizeof(out->rdma_device));
	out->rdma_port = rdma.port;
	visibility_decide(out, &rdma, counts->rx_roce_packets + counts->tx_roce_packets);
	if (out->ifindex && out->xdp_mode != ESC_XDP_NONE)
		offload_note(port->name, port->record.offloads_taken,
			     out->xdp_mode == ESC_XDP_NATIVE, out->offload_note,
			     sizeof(out->offload_note));
}
