// SPDX-License-Identifier: BSD-2-Clause
/* What XDP takes from an interface: features and the largest MTU, and the link when it is attached.
 */
#include "offload.h"

#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>

#include "base/readfile.h"
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
#define OFFLOAD_LRO (1u << 0) /* the list's first */
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

/* An offload that a router or the port of a bridge must not have (dev_disable_lro() of Linux). */
static bool lro_is_barred(const char *name)
{
	struct link_facts link, master;
	char text[8];

	for (int v6 = 0; v6 < 2; v6++)
		if (readtext(text, sizeof(text), "/proc/sys/net/ipv%d/conf/%s/forwarding",
			     v6 ? 6 : 4, name) > 0 &&
		    strcmp(text, "0") != 0)
			return true;
	return rtnl_link(name, &link) ||
	       (link.master &&
		(rtnl_link_by_index(link.master, RTNL_HERE, &master) ||
		 (strcmp(master.kind, "bond") != 0 && strcmp(master.kind, "team") != 0)));
}

bool offload_give_back(const char *name, uint32_t taken, char *still_off, size_t bytes)
{
	struct offload_state now;
	uint32_t off;

	still_off[0] = '\0';
	offload_read_features(name, &now);
	off = now.known ? taken & ~now.active & ~OFFLOAD_MAX_MTU : 0;
	if (off & OFFLOAD_LRO && lro_is_barred(name))
		off &= ~OFFLOAD_LRO;
	if (!off)
		return true;
	ethtool_request(name, offload_names, OFFLOAD_COUNT, off);
	offload_read_features(name, &now);
	for (size_t i = 0; i < OFFLOAD_COUNT; i++)
		if (off & ~now.active & 1u << i)
			text_append(still_off, bytes, ", ", offload_names[i]);
	return !still_off[0];
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
	if (link.peer_netns != RTNL_HERE ||
	    rtnl_link_by_index(link.peer_ifindex, RTNL_HERE, &peer)) {
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

/* --- packets in several buffers --- */

/* linux/netdev.h, of Linux 6.3. */
#define NETDEV_FAMILY "netdev"
#define NETDEV_DEV_GET 1
#define NETDEV_DEV_IFINDEX 1
#define NETDEV_DEV_XDP_FEATURES 3
#define NETDEV_ACT_RX_SG 32

static int parse_xdp_features(const struct nlmsghdr *message, void *features)
{
	const struct nlattr *a[NETDEV_DEV_XDP_FEATURES + 1], *value;

	netlink_attributes(message, sizeof(struct genlmsghdr), a, NETDEV_DEV_XDP_FEATURES);
	value = a[NETDEV_DEV_XDP_FEATURES];
	if (value && mnl_attr_get_payload_len(value) >= sizeof(uint64_t))
		*(uint64_t *)features = mnl_attr_get_u64(value);
	return 0;
}

/* False: the driver does not say so, or the kernel has no such family. */
static bool takes_frags(unsigned int ifindex)
{
	uint16_t family = netlink_family(NETDEV_FAMILY);
	union netlink_request request;
	struct genlmsghdr *header;
	uint64_t features = 0;

	if (!family)
		return false;
	header = netlink_begin(&request, family, 0, sizeof(*header));
	header->cmd = NETDEV_DEV_GET;
	header->version = 1;
	mnl_attr_put_u32(&request.header, NETDEV_DEV_IFINDEX, ifindex);
	netlink_query(NETLINK_GENERIC, &request, parse_xdp_features, &features);
	return features & NETDEV_ACT_RX_SG;
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
	{"igb", {.does = "closes and opens the interface", .link_down = true}},
	{"igc", {.does = "closes and opens the interface", .link_down = true}},
	{"ixgbe", {.does = "closes and opens the interface", .link_down = true}},
	{"i40e", {.does = "resets the NIC", .link_down = true}},
	{"bnxt_en", {.does = "closes and opens its rings"}},
	{"mlx5_core", {.does = "creates its queues again"}},
	/* Before Linux 6.3; virtnet_xdp_set() looks at the MTU when XDP is taken off, too. */
	{"virtio_net", {.loses_larger = true}},
	/* veth_xdp_xmit() and veth_xdp_flush(): into the peer's ring, which NAPI alone empties. */
	{"veth", {.loses_replies = true}},
};

/* A veth's other end, in whatever network namespace. False also where it cannot be asked. */
static bool peer_has_native_xdp(unsigned int ifindex)
{
	struct link_facts link, peer;

	return !rtnl_link_by_index(ifindex, RTNL_HERE, &link) &&
	       !rtnl_link_by_index(link.peer_ifindex, link.peer_netns, &peer) &&
	       peer.xdp == XDP_ATTACHED_DRV;
}

struct native_cost native_cost(const char *driver, unsigned int ifindex)
{
	struct native_cost cost = {};

	for (size_t i = 0; i < sizeof(native_costs) / sizeof(native_costs[0]); i++)
		if (!strcmp(native_costs[i].driver, driver))
			cost = native_costs[i].cost;
	cost.loses_larger = cost.loses_larger && !takes_frags(ifindex);
	cost.loses_replies = cost.loses_replies && !peer_has_native_xdp(ifindex);
	return cost;
}
