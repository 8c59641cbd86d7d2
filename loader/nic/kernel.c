// SPDX-License-Identifier: BSD-2-Clause
/* What the kernel has: addresses and next hops of the pairs, programs and maps. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/explain.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "net/rtnl.h"
#include "nic.skel.h"

/* --- pairs --- */

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

/* --- local addresses --- */

/* Whether it is an address of @device with which packets cross the fabric. */
static bool read_address(const struct ifaddrs *at, const char *device, struct esc_address *out)
{
	const struct in6_addr *six;

	if (strcmp(at->ifa_name, device) || !address_of_socket(at->ifa_addr, out))
		return false;
	if (at->ifa_addr->sa_family == AF_INET)
		return out->bytes[12] != 127 && (out->bytes[12] != 169 || out->bytes[13] != 254);
	six = &((const struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
	return !IN6_IS_ADDR_LINKLOCAL(six) && !IN6_IS_ADDR_LOOPBACK(six);
}

/* The first address of @device of the IP version of @like; all zero: none. */
static struct esc_address address_like(const struct ifaddrs *all, const char *device,
				       const struct esc_address *like)
{
	struct esc_address address, none = {};

	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		if (read_address(at, device, &address) &&
		    address_is_ipv4(&address) == address_is_ipv4(like))
			return address;
	return none;
}

static void local_fill(struct nic_plan *plan, const struct ifaddrs *all, unsigned int number,
		       const char *deliver, const struct config *config, struct nic_local *local)
{
	const struct nic_pair *pair = &plan->pairs[number];
	struct link_facts first = {}, second = {}, owner = {};
	bool dummy = strcmp(deliver, pair->first) != 0;

	rtnl_link(pair->first, &first);
	rtnl_link(pair->second, &second);
	rtnl_link(deliver, &owner);
	local->pair = number;
	local->entry = (struct esc_nic_local){
		.first_ifindex = first.ifindex,
		.second_ifindex = second.ifindex,
		.deliver_ifindex = owner.ifindex,
		.first_mtu = first.mtu < 65535 ? first.mtu : 65535,
		.second_mtu = second.mtu < 65535 ? second.mtu : 65535,
		.flags = ESC_NIC_PAIRED | (dummy ? ESC_NIC_DUMMY : 0) |
			 (nic_keys(config)->mode == NIC_PLAIN ? ESC_NIC_PLAIN : 0),
		.first = dummy ? address_like(all, pair->first, &local->address) : local->address,
		.second = address_like(all, pair->second, &local->address),
	};
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		const struct sockaddr_ll *link = (const void *)at->ifa_addr;

		if (link && link->sll_family == AF_PACKET && !strcmp(at->ifa_name, deliver))
			memcpy(local->entry.deliver_mac, link->sll_addr, 6);
	}
}

/* Addresses of @device: protected by pair @number, or only reachable through it. */
static void plan_device(struct nic_plan *plan, const struct ifaddrs *all, unsigned int number,
			const char *device, bool paired, const struct config *config)
{
	struct esc_address address;

	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		struct nic_local *local = plan->locals, *end = local + plan->local_count;

		if (!read_address(at, device, &address))
			continue;
		while (local < end && memcmp(&local->address, &address, sizeof(address)))
			local++;
		if (local == end) {
			if (plan->local_count == ESC_NIC_LOCAL_MAX)
				continue;
			plan->local_count++;
			memset(local, 0, sizeof(*local));
			local->address = address;
		}
		if (paired)
			local_fill(plan, all, number, device, config, local);
	}
}

int nic_plan_locals(struct nic_plan *plan, const struct config *config)
{
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return -errno;
	plan->local_count = 0;
	for (unsigned int i = 0; i < plan->pair_count; i++) {
		plan_device(plan, all, i, plan->pairs[i].first, true, config);
		if (plan->pairs[i].dummy[0])
			plan_device(plan, all, i, plan->pairs[i].dummy, true, config);
	}
	for (unsigned int i = 0; i < plan->pair_count; i++)
		plan_device(plan, all, i, plan->pairs[i].second, false, config);
	freeifaddrs(all);
	return 0;
}

/* --- next hops --- */

static int parse_gateway(const struct nlmsghdr *message, void *context)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	const struct nlattr *a[RTA_MAX + 1];
	struct esc_address *found = context;

	netlink_attributes(message, sizeof(*route), a, RTA_MAX);
	if (message->nlmsg_type != RTM_NEWROUTE || !a[RTA_GATEWAY])
		return 0;
	if (route->rtm_family == AF_INET) {
		found->bytes[10] = found->bytes[11] = 0xff;
		memcpy(found->bytes + 12, mnl_attr_get_payload(a[RTA_GATEWAY]), 4);
	} else {
		memcpy(found->bytes, mnl_attr_get_payload(a[RTA_GATEWAY]), 16);
	}
	return 0;
}

/* The gateway from @ifindex to @to; all zero: it is on the link, or there is no route. */
static struct esc_address route_hop(unsigned int ifindex, const struct esc_address *to)
{
	bool four = address_is_ipv4(to);
	union netlink_request request;
	struct rtmsg *route = netlink_begin(&request, RTM_GETROUTE, 0, sizeof(*route));
	struct esc_address found = {};

	route->rtm_family = four ? AF_INET : AF_INET6;
	route->rtm_dst_len = four ? 32 : 128;
	mnl_attr_put(&request.header, RTA_DST, four ? 4 : 16, to->bytes + (four ? 12 : 0));
	mnl_attr_put_u32(&request.header, RTA_OIF, ifindex);
	netlink_query(NETLINK_ROUTE, &request, parse_gateway, &found);
	return found;
}

void nic_plan_hops(struct nic_plan *plan, const struct nic_peer *peers, size_t count)
{
	const struct nic_peer *first[2] = {NULL, NULL}; /* of IPv6, of IPv4 */

	for (size_t i = 0; i < count && !(first[0] && first[1]); i++) {
		bool four = address_is_ipv4(&peers[i].address);

		if (peers[i].host && !first[four])
			first[four] = &peers[i];
	}
	for (size_t i = 0; i < plan->local_count; i++) {
		struct nic_local *local = &plan->locals[i];
		const struct nic_peer *peer = first[address_is_ipv4(&local->address)];

		if (!(local->entry.flags & ESC_NIC_PAIRED) || !peer)
			continue;
		local->entry.first_hop = route_hop(local->entry.first_ifindex, &peer->entry.second);
		local->entry.second_hop =
			route_hop(local->entry.second_ifindex, &peer->entry.second);
	}
}

/* --- programs and maps --- */

static const struct pins_link nic_hooks[] = {
	[NIC_EGRESS] = {.pin = PINS_NIC_EGRESS,
			.what = "tcx egress",
			.type = TCX_EGRESS,
			.behind = PINS_TC_EGRESS},
	[NIC_INGRESS] = {.pin = PINS_NIC_INGRESS,
			 .what = "tcx ingress",
			 .type = TCX_INGRESS,
			 .behind = PINS_TC_INGRESS},
	[NIC_DUMMY] = {.pin = PINS_NIC_DUMMY,
		       .what = "tcx egress",
		       .type = TCX_EGRESS,
		       .behind = PINS_TC_EGRESS},
};

/* The pinned maps, and the programs' own; those that these programs do not use are not made. */
static int share_maps(const struct nic_kernel *kernel, char **error)
{
	struct bpf_map *map;

	bpf_object__for_each_map (map, kernel->skeleton->obj) {
		int fd = pins_map_fd(kernel->pins, bpf_map__name(map)), err;

		if (bpf_map__is_internal(map) || map == kernel->skeleton->maps.nic_rings ||
		    map == kernel->skeleton->maps.nic_queues ||
		    map == kernel->skeleton->maps.nic_spares)
			continue;
		err = fd < 0 ? bpf_map__set_autocreate(map, false) : bpf_map__reuse_fd(map, fd);
		if (err)
			return explain(error, err, "the pinned map %s cannot be used: %s",
				       bpf_map__name(map), strerror(-err));
	}
	return 0;
}

static int load(void *skeleton)
{
	return nic_programs__load(skeleton);
}

int nic_kernel_open(struct nic_kernel *kernel, struct core *core, const struct pins *pins,
		    char **error)
{
	void *control;
	int err;

	*kernel = (struct nic_kernel){
		.pins = pins,
		.local_fd = pins_map_fd(pins, "nic_local"),
		.peers_fd = pins_map_fd(pins, "nic_peers"),
		.routes_fd = pins_map_fd(pins, "nic_routes"),
		.counts_fd = pins_map_fd(pins, "nic_counts"),
	};
	bpflog_install();
	bpflog_clear();
	kernel->skeleton = nic_programs__open();
	if (!kernel->skeleton)
		return explain(error, -errno, "the programs of NIC failover cannot be opened: %s",
			       strerror(errno));
	err = share_maps(kernel, error);
	if (err)
		goto failed;
	err = core_run(core, load, kernel->skeleton);
	if (err) {
		explain(error, err,
			"the kernel does not take the programs of NIC failover (%s%s%s): they want "
			"Linux 6.6; take `sibling` out of the configuration",
			strerror(-err), bpflog_last()[0] ? ": " : "", bpflog_last());
		goto failed;
	}
	kernel->rings_fd = bpf_map__fd(kernel->skeleton->maps.nic_rings);
	kernel->queues_fd = bpf_map__fd(kernel->skeleton->maps.nic_queues);
	kernel->spares_fd = bpf_map__fd(kernel->skeleton->maps.nic_spares);
	control = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
		       pins_map_fd(pins, "nic_control"), 0);
	if (control == MAP_FAILED) {
		err = explain(error, -errno, "the map nic_control cannot be mapped: %s",
			      strerror(errno));
		goto failed;
	}
	kernel->control = control;
	return 0;
failed:
	nic_kernel_close(kernel);
	return err;
}

void nic_kernel_close(struct nic_kernel *kernel)
{
	if (kernel->control)
		munmap(kernel->control, getpagesize());
	nic_programs__destroy(kernel->skeleton);
	memset(kernel, 0, sizeof(*kernel));
}

bool nic_kernel_is_dead(const struct nic_kernel *kernel, unsigned int ifindex)
{
	struct __sk_buff context = {.ifindex = ifindex};
	char frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int err = bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.esc_nic_carrier),
					 &run);

	return err == -ENODEV || (!err && run.retval);
}

int nic_kernel_attach(const struct nic_kernel *kernel, const char *interface, unsigned int ifindex,
		      enum nic_hook hook, char **error)
{
	const struct bpf_program *const programs[] = {
		[NIC_EGRESS] = kernel->skeleton->progs.esc_nic_out,
		[NIC_INGRESS] = kernel->skeleton->progs.esc_nic_in,
		[NIC_DUMMY] = kernel->skeleton->progs.esc_nic_dummy,
	};
	struct pins_link link = nic_hooks[hook];
	char *why = NULL;
	int err;

	/* Behind our own, which count and steer, and ahead of others, which could hide packets. */
	link.interface = interface;
	link.ifindex = ifindex;
	err = pins_attach_link(kernel->pins, &link, bpf_program__fd(programs[hook]), &why);
	if (err)
		explain(error, err, "%s; NIC failover needs tcx, which came with Linux 6.6",
			why ? why : strerror(-err));
	free(why);
	return err;
}

int nic_kernel_add_locals(const struct nic_kernel *kernel, const struct nic_plan *plan)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->local_count; i++) {
		err = bpf_map_update_elem(kernel->local_fd, &plan->locals[i].address,
					  &plan->locals[i].entry, BPF_NOEXIST);
		err = err == -EEXIST ? 0 : err;
	}
	return err;
}

struct address_list {
	const struct nic_kernel *kernel;
	const struct nic_plan *plan;
};

/* Of the plan, or of a dummy device that is forwarded until it is deleted. */
static bool local_stays(const void *key, void *context)
{
	const struct address_list *list = context;
	struct esc_nic_local entry;
	char name[IF_NAMESIZE];

	for (size_t i = 0; i < list->plan->local_count; i++)
		if (!memcmp(key, &list->plan->locals[i].address, sizeof(struct esc_address)))
			return true;
	return !bpf_map_lookup_elem(list->kernel->local_fd, key, &entry) &&
	       entry.flags & ESC_NIC_DUMMY && if_indextoname(entry.deliver_ifindex, name);
}

void nic_kernel_sweep_locals(const struct nic_kernel *kernel, const struct nic_plan *plan)
{
	mapsweep(kernel->local_fd, sizeof(struct esc_address), local_stays,
		 &(struct address_list){kernel, plan});
}

struct key_list {
	const char *keys;
	size_t count, bytes;
};

static bool is_among(const void *key, void *context)
{
	const struct key_list *list = context;

	for (size_t i = 0; i < list->count; i++)
		if (!memcmp(key, list->keys + i * list->bytes, list->bytes))
			return true;
	return false;
}

void nic_kernel_keep_only(int fd, const void *keys, size_t count, size_t bytes)
{
	mapsweep(fd, bytes, is_among, &(struct key_list){keys, count, bytes});
}

uint8_t nic_version_to(const struct nic_kernel *kernel, const struct esc_address *address,
		       uint64_t now_ns)
{
	struct esc_nic_peer peer;

	if (ESC_NIC_VERSION == ESC_NIC_VERSION_OLDEST)
		return ESC_NIC_VERSION;
	if (bpf_map_lookup_elem(kernel->peers_fd, address, &peer) ||
	    peer.version < ESC_NIC_VERSION_OLDEST ||
	    now_ns - peer.number_ktime_ns > ESC_PEER_VERSION_NS)
		return ESC_NIC_VERSION_OLDEST;
	return peer.version < ESC_NIC_VERSION ? peer.version : ESC_NIC_VERSION;
}
