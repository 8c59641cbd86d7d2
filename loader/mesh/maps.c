// SPDX-License-Identifier: BSD-2-Clause
/*
 * The maps of members, `peers` and `peer_addresses`. There may be 100,000: after a change they are
 * written in parts, some in each tick, neighbors first.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "clocksync/graph.h"
#include "core/core.h"
#include "internal.h"

static int id_compare(const void *a, const void *b)
{
	const uint64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

static bool ids_have(const struct mesh_ids *ids, uint64_t id)
{
	return ids->count && bsearch(&id, ids->list, ids->count, sizeof(id), id_compare);
}

/* --- an entry of `peers` --- */

static struct esc_peer_key host_key(enum fleet_plane plane, uint64_t id)
{
	return (struct esc_peer_key){.id = id, .plane = plane == FLEET_PLANE_FRONTEND};
}

static struct esc_peer_key edge_key(const struct clock_edge *edge)
{
	struct esc_peer_key key = host_key(edge->plane, edge->id);

	key.port = (uint8_t)(edge->port + 1);
	key.nic = edge->nic;
	return key;
}

int mesh_read_peer(const struct mesh *mesh, const struct clock_edge *edge, struct esc_peer *out)
{
	struct esc_peer_key key = edge_key(edge);

	return bpf_map_lookup_elem(mesh->peers_fd, &key, out);
}

/* A new edge continues the run of its host: replays of runs before are refused at once. */
static void take_epoch(const struct mesh *mesh, struct esc_peer_key key, struct esc_peer *fresh)
{
	struct esc_peer host;

	key = host_key(key.plane ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND, key.id);
	if (bpf_map_lookup_elem(mesh->peers_fd, &key, &host))
		return;
	fresh->epoch = host.epoch;
	fresh->epoch_max = host.epoch_max;
	fresh->epoch_ktime_ns = host.epoch_ktime_ns;
}

/* What the programs wrote of a peer stays, but for a packet that is counted just now. */
static int entry_put(const struct mesh *mesh, const struct mesh_plane *plane,
		     struct esc_peer_key key, const char *host, const struct esc_address *address,
		     bool *lacks_key)
{
	const struct fleet_keys *keys = &mesh->core->config->keys;
	struct esc_peer fresh, old;
	int err;

	memset(&fresh, 0, sizeof(fresh));
	strncpy(fresh.name, host, sizeof(fresh.name) - 1);
	fresh.address = *address;
	for (unsigned int slot = 0; slot < 2; slot++)
		if (fleet_pair_key(keys, slot, plane->roster->ids[plane->roster->self], key.id,
				   fresh.key[slot]))
			fresh.key_flags |= ESC_FLEET_HAS_KEY0 << slot;
	*lacks_key = keys->have[keys->use] && !(fresh.key_flags & ESC_FLEET_HAS_KEY0 << keys->use);
	if (key.port)
		take_epoch(mesh, key, &fresh);
	err = bpf_map_update_elem(mesh->peers_fd, &key, &fresh, BPF_NOEXIST);
	if (err != -EEXIST || bpf_map_lookup_elem(mesh->peers_fd, &key, &old))
		return err;
	if (!memcmp(old.name, fresh.name, sizeof(old.name)) &&
	    !memcmp(&old.address, &fresh.address, sizeof(old.address)) &&
	    !memcmp(old.key, fresh.key, sizeof(old.key)) && old.key_flags == fresh.key_flags)
		return 0;
	memcpy(old.key, fresh.key, sizeof(old.key));
	old.key_flags = fresh.key_flags;
	memcpy(old.name, fresh.name, sizeof(old.name));
	old.address = fresh.address;
	return bpf_map_update_elem(mesh->peers_fd, &key, &old, BPF_EXIST);
}

static int host_put(struct mesh *mesh, struct mesh_plane *plane, const struct roster_member *member)
{
	bool lacks_key = false;
	int err = entry_put(mesh, plane, host_key(plane->plane, member->id), member->host,
			    &member->address[!member->has[ROSTER_IPV4]], &lacks_key);

	plane->without_key += lacks_key;
	return err;
}

/* They are at most MESH_PEERS_MAX, and go first. */
static void put_edges(struct mesh *mesh)
{
	const struct mesh_peer *peer;
	bool lacks_key;

	for_each_peer (mesh, peer)
		mesh->write.peers_refused +=
			entry_put(mesh, &mesh->planes[peer->edge->plane], edge_key(peer->edge),
				  peer->edge->host, &peer->facts.address, &lacks_key) != 0;
}

/* Entries go when their edge is not in the mesh, or their member not in the list any more. */
static bool peer_stays(const struct mesh *mesh, const void *key)
{
	const struct esc_peer_key *peer = key;

	if (peer->port)
		return mesh_find_peer(mesh,
				      peer->plane ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND,
				      peer->id, peer->port - 1u, peer->nic) != NULL;
	return ids_have(
		&mesh->write.members[peer->plane ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND],
		peer->id);
}

/* --- an entry of `peer_addresses`: the host of each address of other members --- */

static bool address_stays(const struct mesh *mesh, const void *key)
{
	const char *host = members_host(fleet_members(mesh->core->fleet), key);

	return host && strcmp(host, mesh->core->config->host);
}

static int address_put(struct mesh *mesh, const struct member *member)
{
	struct esc_peer_address value = {
		.id = graph_member_id(member->host),
		.plane = member->plane == MEMBER_FRONTEND,
	};

	if (!strcmp(member->host, mesh->core->config->host))
		return 0;
	for (unsigned int plane = 0; plane < MESH_PLANES; plane++)
		if (ids_have(&mesh->write.neighbors[plane], value.id))
			value.flags |= ESC_PEER_NEIGHBOUR(plane);
	return bpf_map_update_elem(mesh->addresses_fd, &member->address, &value, BPF_ANY);
}

/* --- in parts: for each map first what is gone, then what is there --- */

/*
 * Keys that are gone are deleted after the walk, which would restart. Returns what is left of
 * @room; more than 0: the map has no others. Without memory they are left to the next time.
 */
static size_t sweep(struct mesh *mesh, int fd, size_t key_bytes,
		    bool (*stays)(const struct mesh *mesh, const void *key), size_t room)
{
	struct mesh_write *write = &mesh->write;
	char *entry;

	for (; room && !write->walked; room--) {
		if (bpf_map_get_next_key(fd, write->begun ? write->key : NULL, write->key)) {
			write->walked = true;
			break;
		}
		write->begun = true;
		if (stays(mesh, write->key))
			continue;
		entry = array_add(&write->gone, &write->gone_count, &write->gone_room, key_bytes);
		if (!entry)
			break;
		memcpy(entry, write->key, key_bytes);
	}
	for (; room && write->walked && write->gone_count; room--)
		bpf_map_delete_elem(fd, write->gone + --write->gone_count * key_bytes);
	return write->walked && !write->gone_count ? room : 0;
}

static void next_step(struct mesh_write *write)
{
	free(write->gone);
	write->gone = NULL;
	write->gone_count = write->gone_room = 0;
	write->begun = write->walked = false;
	write->next = 0;
	write->step++;
}

/* The members of a plane that are neighbors, or the others. */
static size_t put_peers(struct mesh *mesh, struct mesh_plane *plane, bool neighbors, size_t room)
{
	const struct roster *roster = plane->roster;
	struct mesh_write *write = &mesh->write;
	size_t count = plane->on ? roster->count : 0;

	for (; room && write->next < count; write->next++) {
		size_t i = write->next;

		if (i == roster->self ||
		    ids_have(&write->neighbors[plane->plane], roster->ids[i]) != neighbors)
			continue;
		write->peers_refused += host_put(mesh, plane, &roster->list[i]) != 0;
		room--;
	}
	return room;
}

static size_t put_addresses(struct mesh *mesh, size_t room)
{
	const struct members *members = fleet_members(mesh->core->fleet);
	struct mesh_write *write = &mesh->write;

	for (; room && members && write->next < members->count; write->next++, room--)
		write->addresses_refused += address_put(mesh, &members->list[write->next]) != 0;
	return room;
}

static void report_refused(struct mesh *mesh)
{
	const struct mesh_write *write = &mesh->write;

	if (write->peers_refused && !mesh->peers_refused)
		log_warning("%llu members have no room in the map peers: this host does not reply "
			    "to their queries about others; neighbors always have room",
			    (unsigned long long)write->peers_refused);
	if (write->addresses_refused && !mesh->addresses_refused)
		log_warning("%llu addresses of members have no room in the map peer_addresses "
			    "(%d): delays of queue pairs with them are not measured",
			    (unsigned long long)write->addresses_refused, ESC_PEER_ADDRESSES_MAX);
	if ((write->peers_refused && !mesh->peers_refused) ||
	    (write->addresses_refused && !mesh->addresses_refused))
		mesh_report(mesh, MESH_MEMBERS_WITHOUT_ROOM, mesh->core->config->members,
			    json_pack("{s:I, s:I}", "hosts", (json_int_t)write->peers_refused,
				      "addresses", (json_int_t)write->addresses_refused));
	mesh->peers_refused = write->peers_refused;
	mesh->addresses_refused = write->addresses_refused;
}

static size_t write_step(struct mesh *mesh, size_t room)
{
	struct mesh_plane *planes = mesh->planes;

	switch (mesh->write.step) {
	case 0:
		return sweep(mesh, mesh->peers_fd, sizeof(struct esc_peer_key), peer_stays, room);
	case 1:
	case 2:
		return put_peers(mesh, &planes[mesh->write.step - 1], true, room);
	case 3:
		put_edges(mesh);
		return room > MESH_PEERS_MAX ? room - MESH_PEERS_MAX : 1;
	case 4:
	case 5:
		return put_peers(mesh, &planes[mesh->write.step - 4], false, room);
	case 6:
		return sweep(mesh, mesh->addresses_fd, sizeof(struct esc_address), address_stays,
			     room);
	default:
		return put_addresses(mesh, room);
	}
}

void mesh_write_some(struct mesh *mesh, size_t room)
{
	struct mesh_write *write = &mesh->write;

	while (room && write->step < MESH_WRITE_STEPS) {
		room = write_step(mesh, room);
		if (room)
			next_step(write);
		if (write->step == MESH_WRITE_STEPS)
			report_refused(mesh);
	}
}

void mesh_write_begin(struct mesh *mesh)
{
	struct mesh_write *write = &mesh->write;
	const struct mesh_peer *peer;

	next_step(write);
	write->step = 0;
	write->peers_refused = write->addresses_refused = 0;
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		struct mesh_plane *plane = &mesh->planes[i];
		size_t count = 0;

		for_each_peer (mesh, peer)
			if (peer->edge->plane == i)
				write->near[i][count++] = peer->edge->id; /* some of them twice */
		qsort(write->near[i], count, sizeof(uint64_t), id_compare);
		write->neighbors[i] = (struct mesh_ids){write->near[i], count};
		write->members[i] = (struct mesh_ids){plane->roster->sorted,
						      plane->on ? plane->roster->count : 0};
		plane->without_key = 0;
	}
}

void mesh_write_end(struct mesh *mesh)
{
	free(mesh->write.gone);
}
