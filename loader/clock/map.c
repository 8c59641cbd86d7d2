// SPDX-License-Identifier: BSD-2-Clause
/* The mesh's maps: `peers`, `fleet`, `clock`; mesh_address.c has `peer_addresses`. */
#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "dataplane/mapsweep.h"
#include "mesh/internal.h"

/* Requests of one peer that are answered, times what it sends at most (a quarter of the interval).
 */
#define ANSWER_ROOM 4
#define ANSWER_LEAST_PPS 2000

static int map_open(const struct dataplane *dataplane, const char *name, size_t bytes, void **out,
		    char **error)
{
	int fd = dataplane_map_fd(dataplane, name);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return explain(error, -errno, "the map %s cannot be mapped: %s", name,
			       strerror(errno));
	*out = memory;
	return 0;
}

int mesh_maps_open(struct mesh *mesh, char **error)
{
	const struct dataplane *dataplane = mesh->daemon->dataplane;
	struct mesh_maps *maps = &mesh->maps;
	int err;

	maps->peers_fd = dataplane_map_fd(dataplane, "peers");
	maps->addresses_fd = dataplane_map_fd(dataplane, "peer_addresses");
	maps->probes_fd = dataplane_map_fd(dataplane, "probes");
	err = map_open(dataplane, "fleet", sizeof(*maps->fleet), (void **)&maps->fleet, error);
	if (!err)
		err = map_open(dataplane, "clock", sizeof(*maps->clock), (void **)&maps->clock,
			       error);
	return err;
}

void mesh_maps_close(struct mesh *mesh)
{
	struct clock_view silent = {.state = CLOCK_FREE_RUNNING};

	if (mesh->maps.fleet) {
		/* A host that does not probe is not to answer either: its clock stands still. */
		__atomic_store_n(&mesh->maps.fleet->flags, 0, __ATOMIC_SEQ_CST);
		mesh_write_view(mesh, &silent);
		munmap(mesh->maps.fleet, sizeof(*mesh->maps.fleet));
	}
	if (mesh->maps.clock)
		munmap(mesh->maps.clock, sizeof(*mesh->maps.clock));
	mesh->maps.fleet = NULL;
	mesh->maps.clock = NULL;
}

/* --- fleet --- */

/* SipHash's words are little-endian. */
static void fleet_write_key(struct esc_fleet *fleet, unsigned int slot, const unsigned char *key)
{
	uint64_t words[2];

	memcpy(words, key, sizeof(words));
	fleet->key[slot][0] = le64toh(words[0]);
	fleet->key[slot][1] = le64toh(words[1]);
}

static bool mesh_answers(const struct mesh *mesh)
{
	return !mesh->paused && (mesh->planes[0].on || mesh->planes[1].on);
}

void mesh_write_fleet(struct mesh *mesh)
{
	const struct config *config = mesh->daemon->config;
	const struct fleet_keys *keys = &config->keys;
	struct esc_fleet *fleet = mesh->maps.fleet;
	uint64_t most_pps = 8 * ANSWER_ROOM * 1000000000ull / config->mesh.pair_interval_ns;
	uint32_t flags = 0;

	for (unsigned int slot = 0; slot < 2; slot++) {
		if (!keys->have[slot])
			continue;
		fleet_write_key(fleet, slot, keys->key[slot]);
		flags |= slot ? ESC_FLEET_HAS_KEY1 : ESC_FLEET_HAS_KEY0;
	}
	if (flags && keys->use)
		flags |= ESC_FLEET_USE_KEY1;
	if (mesh_answers(mesh))
		flags |= ESC_FLEET_ANSWER;
	fleet->answer_max_pps = most_pps > ANSWER_LEAST_PPS ? (uint32_t)most_pps : ANSWER_LEAST_PPS;
	/* What a peer with our budget may send here alone, and some more. */
	fleet->path_max_pps = config->paths.budget_pps + config->paths.budget_pps / 4;
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh->planes[i].roster.self != ROSTER_NOBODY && mesh->planes[i].roster.count)
			fleet->self = mesh->planes[i].roster.ids[mesh->planes[i].roster.self];
	fleet->epoch = mesh->epoch;
	__atomic_store_n(&fleet->flags, flags, __ATOMIC_SEQ_CST);
	/* A key that is not valid any more is not kept lying about. */
	for (unsigned int slot = 0; slot < 2; slot++)
		if (!keys->have[slot])
			memset(fleet->key[slot], 0, sizeof(fleet->key[slot]));
}

void mesh_write_view(struct mesh *mesh, const struct clock_view *view)
{
	struct esc_fleet *fleet = mesh->maps.fleet;
	uint64_t generation = fleet->view_generation + 1;
	struct esc_probe_view *out = &fleet->view[generation & 1];

	out->ref_local_ns = htobe64((uint64_t)view->ref_local_ns);
	out->ref_fabric_ns = htobe64((uint64_t)view->ref_fabric_ns);
	out->rate_q40 = htobe64((uint64_t)view->rate_q40);
	out->ref_fraction = htobe32(view->ref_fraction);
	out->bound_ns = htobe32(view->bound_ns);
	out->generation = htobe32(view->generation);
	out->reach = htobe16(view->reach);
	out->state = view->state;
	out->reserved = 0;
	__atomic_store_n(&fleet->view_generation, generation, __ATOMIC_RELEASE);
}

void mesh_write_anchor(struct mesh *mesh, const struct anchor_word *word)
{
	struct esc_fleet *fleet = mesh->maps.fleet;
	uint64_t generation = fleet->anchor_generation + 1;
	struct esc_probe_anchor *out = &fleet->anchor[generation & 1];

	memset(out, 0, sizeof(*out));
	out->ref_fabric_ns = htobe64((uint64_t)word->ref_fabric_ns);
	out->ahead_ns = htobe64((uint64_t)word->ahead_ns);
	out->rate_q40 = htobe64((uint64_t)word->rate_q40);
	out->sequence = htobe32(word->sequence);
	out->bound_ns = htobe32(word->bound_ns);
	out->anchor = htobe32(word->anchor);
	out->hops = word->hops;
	__atomic_store_n(&fleet->anchor_generation, generation, __ATOMIC_RELEASE);
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

	return bpf_map_lookup_elem(mesh->maps.peers_fd, &key, out);
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

/* What the programs wrote of a peer stays, but for a packet that is counted at this moment. */
static int peer_put(const struct mesh *mesh, const struct mesh_plane *plane,
		    const struct roster_member *member)
{
	struct esc_peer_key key = peer_key(plane->plane, member->id);
	struct probe_route route;
	struct esc_peer fresh, old;
	int err;

	if (mesh_route(plane, member, &route))
		return 0; /* nobody can probe across */
	memset(&fresh, 0, sizeof(fresh));
	strncpy(fresh.name, member->host, sizeof(fresh.name) - 1);
	fresh.address = route.to;
	err = bpf_map_update_elem(mesh->maps.peers_fd, &key, &fresh, BPF_NOEXIST);
	if (err != -EEXIST || bpf_map_lookup_elem(mesh->maps.peers_fd, &key, &old))
		return err;
	if (!memcmp(old.name, fresh.name, sizeof(old.name)) &&
	    !memcmp(&old.address, &fresh.address, sizeof(old.address)))
		return 0;
	memcpy(old.name, fresh.name, sizeof(old.name));
	old.address = fresh.address;
	return bpf_map_update_elem(mesh->maps.peers_fd, &key, &old, BPF_EXIST);
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
	mapsweep(mesh->maps.peers_fd, sizeof(struct esc_peer_key), peer_stays,
		 &(struct plane_ids){plane->plane, ids, count});
	free(ids);
	/* Neighbours first: they are what has to have room. */
	for (size_t turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < count; i++) {
			bool neighbour = mesh_find_edge(mesh, plane->plane, roster->ids[i]);

			if (i != roster->self && neighbour == !turn)
				refused += peer_put(mesh, plane, &roster->list[i]) != 0;
		}
	if (refused && !mesh->peers_refused)
		log_warning(
			"%llu members have no room in the map peers: when they ask this host about "
			"others they get no answer; neighbours always have room",
			(unsigned long long)refused);
	mesh->peers_refused = refused;
}
