// SPDX-License-Identifier: BSD-2-Clause
/* What XDP takes from an interface: features and the largest MTU, and the link when it is attached.
 */
#include "offload.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "rtnl.h"

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
