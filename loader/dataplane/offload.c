// SPDX-License-Identifier: BSD-2-Clause
#include "offload.h"

#include <stdio.h>
#include <string.h>

#include "net/ethtool.h"
#include "net/rtnl.h"

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

static void offload_note_feature(const char *feature, bool active, void *context)
{
	uint32_t *mask = context;

	for (size_t i = 0; active && i < OFFLOAD_COUNT; i++)
		if (!strcmp(feature, offload_names[i]))
			*mask |= 1u << i;
}

static void offload_read_features(const char *name, struct offload_state *out)
{
	memset(out, 0, sizeof(*out));
	out->known = !ethtool_features(name, offload_note_feature, &out->active);
}

void offload_read(const char *name, struct offload_state *out)
{
	struct link_facts link;

	offload_read_features(name, out);
	if (rtnl_link(name, &link))
		return;
	/* A veth loses only what its peer's XDP takes, which may come or go in this moment. */
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

static void append(char *out, size_t bytes, const char *separator, const char *text)
{
	size_t used = strlen(out);

	snprintf(out + used, bytes - used, "%s%s", used ? separator : "", text);
}

/* drivers/net/veth.c: veth_disable_xdp() and veth_xdp_set() change the peer's features. */
static void note_veth(const struct link_facts *link, char *out, size_t bytes)
{
	struct offload_state state;
	struct link_facts peer;
	char text[160];

	if (!link->peer_ifindex || rtnl_link_by_index(link->peer_ifindex, &peer)) {
		append(out, bytes, "; ",
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
	append(out, bytes, "; ", text);
}

void offload_note(const char *name, uint32_t taken, bool native, char *out, size_t bytes)
{
	struct link_facts link;
	char text[64];

	out[0] = '\0';
	for (size_t i = 0; i < OFFLOAD_COUNT; i++)
		if (taken & 1u << i)
			append(out, bytes, ", ", offload_names[i]);
	if (out[0])
		append(out, bytes, " ", "went off while XDP is attached");
	if (rtnl_link(name, &link))
		return;
	if (taken & OFFLOAD_MAX_MTU) {
		snprintf(text, sizeof(text), "the largest MTU is %u while XDP is attached",
			 link.max_mtu);
		append(out, bytes, "; ", text);
	}
	if (native && !strcmp(link.kind, "veth"))
		note_veth(&link, out, bytes);
}
