// SPDX-License-Identifier: BSD-2-Clause
/* The members by host and by rack, in the same order on all hosts, and labels that contradict. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "fleet.h"

static const struct member *target_at(const struct members *members, size_t i)
{
	return &members->list[members->by_host[i]];
}

const char *members_host_name(const struct members *members, const struct member_host *host)
{
	return target_at(members, host->first)->host;
}

/* The first entry of a host with that label; without one the last. */
static const struct member *with_rack(const struct members *members, const struct member_host *host)
{
	uint32_t i = host->first;

	while (i + 1 < host->first + host->count && !target_at(members, i)->rack)
		i++;
	return target_at(members, i);
}

static const struct member *with_pod(const struct members *members, const struct member_host *host)
{
	uint32_t i = host->first;

	while (i + 1 < host->first + host->count && !target_at(members, i)->pod)
		i++;
	return target_at(members, i);
}

const char *members_host_rack(const struct members *members, const struct member_host *host)
{
	return with_rack(members, host)->rack;
}

const char *members_host_pod(const struct members *members, const struct member_host *host)
{
	return with_pod(members, host)->pod;
}

bool member_is_on(const struct member *member, enum fleet_plane plane)
{
	return member->plane == MEMBER_ANY ||
	       (member->plane == MEMBER_FRONTEND) == (plane == FLEET_PLANE_FRONTEND);
}

bool member_precedes(const struct member *one, const struct member *two)
{
	if ((one->plane == MEMBER_ANY) != (two->plane == MEMBER_ANY))
		return two->plane == MEMBER_ANY;
	return memcmp(&one->address, &two->address, sizeof(one->address)) < 0;
}

size_t members_ports(const struct members *members, const struct member_host *host,
		     enum fleet_plane plane, const struct member **out, size_t room)
{
	const char *rail = NULL; /* of the one before */
	bool ipv4 = false;	 /* one without a rail has such an address */
	size_t count = 0;

	for (uint32_t i = host->first; i < host->first + host->count && count < room; i++) {
		const struct member *member = target_at(members, i);

		if (!member_is_on(member, plane))
			continue;
		if (member->rail ? rail && !strcmp(rail, member->rail)
				 : ipv4 && !address_is_ipv4(&member->address))
			continue;
		ipv4 |= !member->rail && address_is_ipv4(&member->address);
		rail = member->rail;
		out[count++] = member;
	}
	return count;
}

/* --- the orders --- */

static int compare_label(const char *one, const char *two)
{
	if (!one || !two)
		return !!one - !!two;
	return strverscmp(one, two);
}

static int compare_target(const void *a, const void *b)
{
	const struct member *one = *(const struct member *const *)a;
	const struct member *two = *(const struct member *const *)b;
	int order = strcmp(one->host, two->host);

	if (!order)
		order = (int)one->plane - (int)two->plane;
	if (!order)
		order = compare_label(one->rail, two->rail);
	/* IPv4 is mapped, and so before all of IPv6 that is in use. */
	return order ? order : memcmp(&one->address, &two->address, sizeof(one->address));
}

/* While they are sorted. */
struct placed_host {
	struct member_host host;
	const char *name, *rack, *pod;
};

/* Hosts with a rack first. */
static int compare_host(const void *a, const void *b)
{
	const struct placed_host *one = a, *two = b;
	int order = !one->rack - !two->rack;

	if (!order && one->rack)
		order = strcmp(one->rack, two->rack);
	return order ? order : strcmp(one->name, two->name);
}

static int check_host(const struct members *members, const struct member_host *host,
		      const char *path, char **error)
{
	const struct member *rack = with_rack(members, host), *pod = with_pod(members, host);

	for (uint32_t i = host->first; i < host->first + host->count; i++) {
		const struct member *member = target_at(members, i);

		if (rack->rack && member->rack && strcmp(rack->rack, member->rack))
			return explain(error, -EINVAL,
				       "%s: host %.64s is in rack %.64s (entry %u) and in rack "
				       "%.64s (entry %u); keep one",
				       path, member->host, rack->rack, rack->entry, member->rack,
				       member->entry);
		if (pod->pod && member->pod && strcmp(pod->pod, member->pod))
			return explain(error, -EINVAL,
				       "%s: host %.64s is in pod %.64s (entry %u) and in pod "
				       "%.64s (entry %u); keep one",
				       path, member->host, pod->pod, pod->entry, member->pod,
				       member->entry);
	}
	return 0;
}

/* The pod of a rack is that of its hosts that have one. */
static int check_rack(const struct placed_host *hosts, size_t count, const char *path, char **error)
{
	const struct placed_host *first = NULL;

	for (size_t i = 0; hosts->rack && i < count; i++) {
		const struct placed_host *host = &hosts[i];

		if (!host->pod)
			continue;
		first = first ? first : host;
		if (strcmp(first->pod, host->pod))
			return explain(error, -EINVAL,
				       "%s: rack %.64s is in pod %.64s (host %.64s) and in pod "
				       "%.64s (host %.64s); keep one",
				       path, host->rack, first->pod, first->name, host->pod,
				       host->name);
	}
	return 0;
}

static int sort_targets(struct members *members)
{
	const struct member **targets = calloc(members->targets + 1, sizeof(*targets));
	size_t count = 0;

	members->by_host = calloc(members->targets + 1, sizeof(*members->by_host));
	if (!targets || !members->by_host) {
		free(targets);
		return -ENOMEM;
	}
	for (size_t i = 0; i < members->count; i++)
		if (members->list[i].probed)
			targets[count++] = &members->list[i];
	qsort(targets, count, sizeof(*targets), compare_target);
	for (size_t i = 0; i < count; i++) {
		members->by_host[i] = (uint32_t)(targets[i] - members->list);
		members->host_count += !i || strcmp(targets[i]->host, targets[i - 1]->host);
	}
	free(targets);
	return 0;
}

static int place_hosts(const struct members *members, struct placed_host *placed, const char *path,
		       char **error)
{
	size_t at = 0;

	for (size_t i = 0; i < members->host_count; i++) {
		struct placed_host *host = &placed[i];
		int err;

		host->host.first = (uint32_t)at;
		host->name = target_at(members, at)->host;
		while (at < members->targets && !strcmp(target_at(members, at)->host, host->name))
			at++;
		host->host.count = (uint32_t)at - host->host.first;
		err = check_host(members, &host->host, path, error);
		if (err)
			return err;
		host->rack = members_host_rack(members, &host->host);
		host->pod = members_host_pod(members, &host->host);
	}
	qsort(placed, members->host_count, sizeof(*placed), compare_host);
	return 0;
}

/* NICs of both planes; one without a label of its plane counts once. */
static unsigned int count_ports(const struct members *members, const struct member_host *host)
{
	const struct member *ports[MEMBER_PORTS_MAX];
	size_t count = members_ports(members, host, FLEET_PLANE_BACKEND, ports, MEMBER_PORTS_MAX);
	size_t front = members_ports(members, host, FLEET_PLANE_FRONTEND, ports, MEMBER_PORTS_MAX);

	for (size_t i = 0; i < front; i++)
		count += ports[i]->plane == MEMBER_FRONTEND;
	return (unsigned int)count;
}

int members_index(struct members *members, const char *path, char **error)
{
	int err = sort_targets(members);
	size_t count = members->host_count;
	struct placed_host *placed = calloc(count + 1, sizeof(*placed));

	members->hosts = calloc(count + 1, sizeof(*members->hosts));
	members->racks = calloc(count + 1, sizeof(*members->racks));
	if (!err && (!placed || !members->hosts || !members->racks))
		err = -ENOMEM;
	if (!err)
		err = place_hosts(members, placed, path, error);
	for (size_t i = 0, first = 0; !err && i < count; i++) {
		unsigned int ports = count_ports(members, &placed[i].host);

		members->hosts[i] = placed[i].host;
		if (ports > members->ports_max)
			members->ports_max = ports;
		if (i + 1 < count && placed[i].rack && placed[i + 1].rack &&
		    !strcmp(placed[i].rack, placed[i + 1].rack))
			continue;
		err = check_rack(&placed[first], i + 1 - first, path, error);
		members->racks[members->rack_count++] = (struct member_rack){
			.first = (uint32_t)first, .count = (uint32_t)(i + 1 - first)};
		first = i + 1;
	}
	free(placed);
	return err;
}
