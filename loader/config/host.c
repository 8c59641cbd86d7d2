// SPDX-License-Identifier: BSD-2-Clause
/* `escapementd --check-config`: the file against this host, as it is now. */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "internal.h"
#include "net/rtnl.h"

/* --- interfaces --- */

/* Each link has one entry of this family; NULL: there is no such interface. */
static const struct sockaddr_ll *find_link(const struct ifaddrs *all, const char *name)
{
	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_PACKET &&
		    !strcmp(at->ifa_name, name))
			return (const struct sockaddr_ll *)at->ifa_addr;
	return NULL;
}

static void check_interfaces(struct config_reading *reading, const struct ifaddrs *all)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reading->document);
	const yaml_node_t *list = config_find(reading, root, "interfaces", NULL);
	const struct config *config = reading->config;
	char names[512];

	rtnl_link_names(names, sizeof(names));
	for (size_t i = 0; list && i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];
		const char *others[][2] = {{"sibling", interface->sibling},
					   {"dummy", interface->dummy}};
		const struct sockaddr_ll *link;

		if (!interface->name)
			continue;
		reading->mapping = yaml_document_get_node(&reading->document,
							  list->data.sequence.items.start[i]);
		reading->line = reading->mapping->start_mark.line + 1;
		link = find_link(all, interface->name);
		if (!link)
			config_refuse(reading, "name",
				      "interfaces: there is no interface %s; the ones here are %s",
				      interface->name, names);
		else if (link->sll_hatype != ARPHRD_ETHER)
			config_refuse(reading, "name",
				      "interfaces: %s is not an Ethernet device; name one that "
				      "carries RoCEv2",
				      interface->name);
		/* What takes over may be plugged in later. */
		for (size_t k = 0; k < CONFIG_COUNT_OF(others); k++)
			if (others[k][1] && !find_link(all, others[k][1]))
				config_warn(reading, config_line_of(reading, others[k][0]),
					    "`%s: %s`: there is no such interface; NIC failover is "
					    "off",
					    others[k][0], others[k][1]);
	}
}

/* --- membership --- */

static bool interface_has(const struct ifaddrs *all, const char *name,
			  const struct roster_member *self)
{
	struct esc_address here;

	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		if (strcmp(at->ifa_name, name) || !address_of_socket(at->ifa_addr, &here))
			continue;
		for (int family = 0; family < ROSTER_FAMILIES; family++)
			if (self->has[family] &&
			    !memcmp(&here, &self->address[family], sizeof(here)))
				return true;
	}
	return false;
}

/* One of the plane's interfaces has an address of this host in the list. */
static void check_plane(struct config_reading *reading, const struct ifaddrs *all,
			enum fleet_plane plane, unsigned int line)
{
	const struct config *config = reading->config;
	bool configured = false;
	struct roster roster;
	int err;

	err = roster_build(&roster, config->member_list, plane, config->host);
	if (err) {
		config_no_memory(reading);
		return;
	}
	for (size_t i = 0; i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];

		if (interface->plane != plane || !interface->name)
			continue;
		configured = true;
		if (roster.self != ROSTER_NOBODY &&
		    interface_has(all, interface->name, &roster.list[roster.self]))
			goto out;
	}
	if (configured)
		config_warn(reading, line,
			    "no interface of the plane %s has an address that %s gives %s: nothing "
			    "is probed on it; add the address to the list, or to the interface",
			    config_plane_name(plane), config->members, config->host);
out:
	roster_free(&roster);
}

static void check_membership(struct config_reading *reading, const struct ifaddrs *all)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reading->document);
	const struct config *config = reading->config;
	const struct members *members = config->member_list;
	unsigned int line = 1;
	size_t i = 0;

	if (!members)
		return;
	config_find(reading, root, "members", &line);
	while (i < members->count && strcmp(members->list[i].host, config->host))
		i++;
	if (i == members->count) {
		config_warn(reading, line,
			    "host %s is not in %s: nothing is probed; add it there, or set `host` "
			    "to its name in it",
			    config->host, config->members);
		return;
	}
	check_plane(reading, all, FLEET_PLANE_BACKEND, line);
	check_plane(reading, all, FLEET_PLANE_FRONTEND, line);
}

void config_check_host(struct config_reading *reading)
{
	struct ifaddrs *all;

	if (getifaddrs(&all)) {
		config_warn(reading, 1, "interfaces and addresses cannot be listed: %s",
			    strerror(errno));
		return;
	}
	check_interfaces(reading, all);
	check_membership(reading, all);
	freeifaddrs(all);
}
