// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "own.h"
#include "net/rtnl.h"

void nic_plan_pairs(struct nic_plan *plan, const struct config *config)
{
	memset(plan, 0, sizeof(*plan));
	for (size_t i = 0; i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];
		struct nic_pair *pair = &plan->pairs[plan->pair_count];

		if (!interface->sibling)
			continue;
		snprintf(pair->first, sizeof(pair->first), "%s", interface->name);
		snprintf(pair->second, sizeof(pair->second), "%s", interface->sibling);
		snprintf(pair->dummy, sizeof(pair->dummy), "%s",
			 interface->dummy ? interface->dummy : "");
		plan->has_dummy = plan->has_dummy || interface->dummy;
		plan->pair_count++;
	}
}

/* An address that packets cross the fabric with. False: it is none. */
static bool take_address(const struct ifaddrs *at, struct esc_address *out)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const struct sockaddr_in *four = (const void *)at->ifa_addr;
	const struct sockaddr_in6 *six = (const void *)at->ifa_addr;

	if (!at->ifa_addr)
		return false;
	if (four->sin_family == AF_INET) {
		uint32_t host = ntohl(four->sin_addr.s_addr);

		memcpy(out->bytes, mapped, sizeof(mapped));
		memcpy(out->bytes + 12, &four->sin_addr, 4);
		return host >> 24 != 127 && host >> 16 != 0xa9fe;
	}
	if (six->sin6_family != AF_INET6)
		return false;
	memcpy(out->bytes, &six->sin6_addr, 16);
	return !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) && !IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* The first address of @device of the IP version of @like; all zero: none. */
static struct esc_address address_like(const struct ifaddrs *all, const char *device,
				       const struct esc_address *like)
{
	struct esc_address address, none = {};

	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		if (!strcmp(at->ifa_name, device) && take_address(at, &address) &&
		    nic_address_is_v4(&address) == nic_address_is_v4(like))
			return address;
	return none;
}

static void take_mac(const struct ifaddrs *all, const char *device, uint8_t out[6])
{
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		const struct sockaddr_ll *link = (const void *)at->ifa_addr;

		if (link && link->sll_family == AF_PACKET && !strcmp(at->ifa_name, device))
			memcpy(out, link->sll_addr, 6);
	}
}

static struct nic_home *home_find(struct nic_plan *plan, const struct esc_address *address)
{
	for (size_t i = 0; i < plan->home_count; i++)
		if (!memcmp(&plan->homes[i].address, address, sizeof(*address)))
			return &plan->homes[i];
	return NULL;
}

static struct nic_home *home_add(struct nic_plan *plan, const struct esc_address *address)
{
	struct nic_home *home = home_find(plan, address);

	if (home || plan->home_count == ESC_NIC_LOCAL_MAX)
		return home;
	home = &plan->homes[plan->home_count++];
	memset(home, 0, sizeof(*home));
	home->address = *address;
	return home;
}

static void home_fill(struct nic_plan *plan, const struct ifaddrs *all, unsigned int number,
		      const char *deliver, const struct config *config, struct nic_home *home)
{
	const struct nic_pair *pair = &plan->pairs[number];
	struct link_facts first = {}, second = {}, owner = {};
	bool dummy = strcmp(deliver, pair->first) != 0;

	rtnl_link(pair->first, &first);
	rtnl_link(pair->second, &second);
	rtnl_link(deliver, &owner);
	home->pair = number;
	home->is = (struct esc_nic_local){
		.first_ifindex = first.ifindex,
		.second_ifindex = second.ifindex,
		.deliver_ifindex = owner.ifindex,
		.first_mtu = first.mtu < 65535 ? first.mtu : 65535,
		.second_mtu = second.mtu < 65535 ? second.mtu : 65535,
		.flags = ESC_NIC_PAIRED | (dummy ? ESC_NIC_DUMMY : 0) |
			 (nic_keys(config)->mode == NIC_PLAIN ? ESC_NIC_PLAIN : 0),
		.first = dummy ? address_like(all, pair->first, &home->address) : home->address,
		.second = address_like(all, pair->second, &home->address),
	};
	take_mac(all, deliver, home->is.deliver_mac);
}

/* Addresses of @device that are protected by pair @number. */
static void plan_protect(struct nic_plan *plan, const struct ifaddrs *all, unsigned int number,
			 const char *device, const struct config *config)
{
	struct esc_address address;

	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		struct nic_home *home = NULL;

		if (!strcmp(at->ifa_name, device) && take_address(at, &address))
			home = home_add(plan, &address);
		if (home)
			home_fill(plan, all, number, device, config, home);
	}
}

/* Where a pair's second NIC is reached: known, whether it is protected itself or not. */
static void plan_know(struct nic_plan *plan, const struct ifaddrs *all, const char *device)
{
	struct esc_address address;

	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		if (!strcmp(at->ifa_name, device) && take_address(at, &address))
			home_add(plan, &address);
}

int nic_plan_homes(struct nic_plan *plan, const struct config *config)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return -errno;
	plan->home_count = 0;
	for (unsigned int i = 0; i < plan->pair_count; i++) {
		plan_protect(plan, all, i, plan->pairs[i].first, config);
		if (plan->pairs[i].dummy[0])
			plan_protect(plan, all, i, plan->pairs[i].dummy, config);
	}
	for (unsigned int i = 0; i < plan->pair_count; i++)
		plan_know(plan, all, plan->pairs[i].second);
	freeifaddrs(all);
	return 0;
}

static const struct nic_peer *peer_like(const struct nic_peer *peers, size_t count,
					const struct esc_address *like)
{
	for (size_t i = 0; i < count; i++)
		if (peers[i].host &&
		    nic_address_is_v4(&peers[i].address) == nic_address_is_v4(like))
			return &peers[i];
	return NULL;
}

void nic_plan_hops(struct nic_plan *plan, const struct nic_peer *peers, size_t count)
{
	for (size_t i = 0; i < plan->home_count; i++) {
		struct nic_home *home = &plan->homes[i];
		const struct nic_peer *peer = peer_like(peers, count, &home->address);

		if (!peer || !(home->is.flags & ESC_NIC_PAIRED))
			continue;
		home->is.first_hop = nic_route_hop(home->is.first_ifindex, &peer->is.second);
		home->is.second_hop = nic_route_hop(home->is.second_ifindex, &peer->is.second);
	}
}
