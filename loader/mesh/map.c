// SPDX-License-Identifier: BSD-2-Clause
/* The maps `fleet` (all but view and anchor), `peers` and `peer_addresses`. */
#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"

/* Requests of a peer that are replied to, times what it sends at most (a quarter of the interval).
 */
#define REPLY_ROOM 4
#define REPLY_LEAST_PPS 2000

/* --- fleet --- */

void mesh_write_fleet(struct mesh *mesh)
{
	const struct config *config = mesh->core->config;
	const struct fleet_keys *keys = &config->keys;
	struct esc_fleet *fleet = clock_fleet(mesh->clock);
	uint64_t most_pps = 8 * REPLY_ROOM * 1000000000ull / config->mesh.pair_interval_ns;
	uint64_t words[2];
	uint32_t flags = 0;

	for (unsigned int slot = 0; slot < 2; slot++) {
		if (!keys->have[slot])
			continue;
		/* The words of SipHash are little-endian. */
		memcpy(words, keys->key[slot], sizeof(words));
		fleet->key[slot][0] = le64toh(words[0]);
		fleet->key[slot][1] = le64toh(words[1]);
		flags |= slot ? ESC_FLEET_HAS_KEY1 : ESC_FLEET_HAS_KEY0;
	}
	if (flags && keys->use)
		flags |= ESC_FLEET_USE_KEY1;
	if (!mesh->paused && (mesh->planes[0].on || mesh->planes[1].on))
		flags |= ESC_FLEET_REPLY;
	fleet->reply_max_pps = most_pps > REPLY_LEAST_PPS ? (uint32_t)most_pps : REPLY_LEAST_PPS;
	/* What a peer with our budget may send here alone, and some more. */
	fleet->path_max_pps = config->paths.budget_pps + config->paths.budget_pps / 4;
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh->planes[i].roster.self != ROSTER_NOBODY && mesh->planes[i].roster.count)
			fleet->self = mesh->planes[i].roster.ids[mesh->planes[i].roster.self];
	fleet->epoch = clock_epoch(mesh->clock);
	__atomic_store_n(&fleet->flags, flags, __ATOMIC_SEQ_CST);
	/* A key that is not valid any more is erased. */
	for (unsigned int slot = 0; slot < 2; slot++)
		if (!keys->have[slot])
			memset(fleet->key[slot], 0, sizeof(fleet->key[slot]));
}

/* --- peers --- */

static struct esc_peer_key peer_key(enum fleet_plane plane, uint64_t id)
{
	struct esc_peer_key key;

	memset(&key, 0, sizeof(key));
	key.id = id;
	key.plane = plane == FLEET_PLANE_FRONTEND;
	return key;
}

int mesh_read_peer(const struct mesh *mesh, enum fleet_plane plane, uint64_t id,
		   struct esc_peer *out)
{
	struct esc_peer_key key = peer_key(plane, id);

	return bpf_map_lookup_elem(mesh->peers_fd, &key, out);
}

static int id_compare(const void *a, const void *b)
{
	const uint64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

struct plane_ids {
	enum fleet_plane plane;
	const uint64_t *ids; /* sorted */
	size_t count;
};

/* Not so entries of the plane whose member is not in the list any more. */
static bool peer_stays(const void *key, void *context)
{
	const struct plane_ids *mine = context;
	const struct esc_peer_key *peer = key;

	return peer->plane != (mine->plane == FLEET_PLANE_FRONTEND) ||
	       (mine->count &&
		bsearch(&peer->id, mine->ids, mine->count, sizeof(*mine->ids), id_compare));
}

/* What the programs wrote of a peer stays, but for a packet that is counted just now. */
static int peer_put(const struct mesh *mesh, const struct mesh_plane *plane,
		    const struct roster_member *member)
{
	struct esc_peer_key key = peer_key(plane->plane, member->id);
	struct probe_route route;
	struct esc_peer fresh, old;
	int err;

	if (mesh_route(plane, member, &route))
		return 0; /* the two cannot probe each other */
	memset(&fresh, 0, sizeof(fresh));
	strncpy(fresh.name, member->host, sizeof(fresh.name) - 1);
	fresh.address = route.to;
	err = bpf_map_update_elem(mesh->peers_fd, &key, &fresh, BPF_NOEXIST);
	if (err != -EEXIST || bpf_map_lookup_elem(mesh->peers_fd, &key, &old))
		return err;
	if (!memcmp(old.name, fresh.name, sizeof(old.name)) &&
	    !memcmp(&old.address, &fresh.address, sizeof(old.address)))
		return 0;
	memcpy(old.name, fresh.name, sizeof(old.name));
	old.address = fresh.address;
	return bpf_map_update_elem(mesh->peers_fd, &key, &old, BPF_EXIST);
}

void mesh_write_peers(struct mesh *mesh, const struct mesh_plane *plane)
{
	const struct roster *roster = &plane->roster;
	size_t count = plane->on ? roster->count : 0;
	uint64_t *ids = calloc(count + 1, sizeof(*ids));
	uint64_t refused = 0;

	if (!ids)
		return;
	if (count)
		memcpy(ids, roster->ids, count * sizeof(*ids));
	qsort(ids, count, sizeof(*ids), id_compare);
	mapsweep(mesh->peers_fd, sizeof(struct esc_peer_key), peer_stays,
		 &(struct plane_ids){plane->plane, ids, count});
	free(ids);
	/* Neighbors first: they have to have room. */
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; i < count; i++) {
			bool neighbor = mesh_find_peer(mesh, plane->plane, roster->ids[i]);

			if (i != roster->self && neighbor == !others)
				refused += peer_put(mesh, plane, &roster->list[i]) != 0;
		}
	if (refused && !mesh->peers_refused)
		log_warning(
			"%llu members have no room in the map peers: this host does not reply to "
			"their queries about others; neighbors always have room",
			(unsigned long long)refused);
	mesh->peers_refused = refused;
}

/* --- addresses --- */

struct address_entry {
	struct esc_address address;
	struct esc_peer_address value;
};

static int address_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address)); /* it is an entry's first field */
}

/* An entry, unless it is an address of this host. */
static void address_add(const struct mesh *mesh, struct address_entry *list, size_t *count,
			const char *host, const struct esc_address *address,
			enum member_plane plane_label)
{
	struct esc_peer_address *value = &list[*count].value;

	if (!strcmp(host, mesh->core->config->host))
		return;
	list[(*count)++].address = *address;
	value->id = graph_member_id(host);
	value->plane = plane_label == MEMBER_FRONTEND;
	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		if (mesh_find_peer(mesh, mesh->planes[plane].plane, value->id))
			value->flags |= ESC_PEER_NEIGHBOUR(plane);
}

struct address_list {
	const struct address_entry *entries;
	size_t count;
};

static bool address_stays(const void *key, void *context)
{
	const struct address_list *list = context;

	return list->count &&
	       bsearch(key, list->entries, list->count, sizeof(*list->entries), address_compare);
}

void mesh_write_addresses(struct mesh *mesh)
{
	static const struct members nobody;
	const struct members *listed = fleet_members(mesh->core->fleet);
	const struct members *members = listed ? listed : &nobody;
	struct address_entry *list =
		calloc(members->count + members->other_count + 1, sizeof(*list));
	int fd = mesh->addresses_fd;
	uint64_t refused = 0;
	size_t count = 0;

	if (!list)
		return;
	for (size_t i = 0; i < members->count; i++)
		address_add(mesh, list, &count, members->list[i].host, &members->list[i].address,
			    members->list[i].plane);
	for (size_t i = 0; i < members->other_count; i++)
		address_add(mesh, list, &count, members->others[i].host,
			    &members->others[i].address, members->others[i].plane);
	qsort(list, count, sizeof(*list), address_compare);
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
