// SPDX-License-Identifier: BSD-2-Clause
/* The map `peer_addresses`: the host of each address, as queue pairs name addresses only. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"

struct address_entry {
	struct esc_address address;
	struct esc_peer_address value;
};

static int address_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address)); /* it is an entry's first field */
}

static struct esc_peer_address address_value(const struct mesh *mesh, const char *host,
					     enum member_plane plane_label)
{
	struct esc_peer_address value = {
		.id = graph_member_id(host),
		.plane = plane_label == MEMBER_FRONTEND,
	};

	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		if (mesh_find_peer(mesh, mesh->planes[plane].plane, value.id))
			value.flags |= ESC_PEER_NEIGHBOUR(plane);
	return value;
}

/* What the map is to hold, by address, without this host's own addresses. */
static struct address_entry *addresses_list(const struct mesh *mesh, size_t *count)
{
	static const struct members nobody;
	const struct config *config = mesh->core->config;
	const struct members *listed = fleet_members(mesh->core->fleet);
	const struct members *members = listed ? listed : &nobody;
	struct address_entry *list =
		calloc(members->count + members->other_count + 1, sizeof(*list));

	*count = 0;
	for (size_t i = 0; list && i < members->count; i++) {
		const struct member *member = &members->list[i];

		if (!strcmp(member->host, config->host))
			continue;
		list[*count].address = member->address;
		list[(*count)++].value = address_value(mesh, member->host, member->plane);
	}
	for (size_t i = 0; list && i < members->other_count; i++) {
		const struct member_address *other = &members->others[i];

		if (!strcmp(other->host, config->host))
			continue;
		list[*count].address = other->address;
		list[(*count)++].value = address_value(mesh, other->host, other->plane);
	}
	if (list && *count)
		qsort(list, *count, sizeof(*list), address_compare);
	return list;
}

struct address_list {
	const struct address_entry *entries;
	size_t count;
};

static bool address_stays(const void *key, void *context)
{
	const struct address_list *list = context;

	return list->count && bsearch(key, list->entries, list->count, sizeof(*list->entries),
				      address_compare);
}

void mesh_write_addresses(struct mesh *mesh)
{
	int fd = mesh->addresses_fd;
	uint64_t refused = 0;
	size_t count;
	struct address_entry *list = addresses_list(mesh, &count);

	if (!list)
		return;
	mapsweep(fd, sizeof(struct esc_address), address_stays,
		 &(struct address_list){list, count});
	for (size_t i = 0; i < count; i++)
		refused += bpf_map_update_elem(fd, &list[i].address, &list[i].value, BPF_ANY) != 0;
	free(list);
	if (refused && !mesh->addresses_refused)
		log_warning(
			"%llu addresses of members have no room in the map peer_addresses (%d): "
			"delays of queue pairs with them are not measured",
			(unsigned long long)refused, ESC_PEER_ADDRESSES_MAX);
	mesh->addresses_refused = refused;
}
