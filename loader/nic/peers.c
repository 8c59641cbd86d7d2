// SPDX-License-Identifier: BSD-2-Clause
/* The peers' addresses, and which of them have an entry of `nic_peers`, whose room is limited. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "clocksync/graph.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "qp/qp.h"

struct peer_list {
	struct nic_peer *list;
	size_t count;
};

static int peer_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address));
}

struct nic_peer *nic_peers_find(struct nic_peer *peers, size_t count,
				const struct esc_address *address)
{
	return count ? bsearch(address, peers, count, sizeof(*peers), peer_compare) : NULL;
}

int nic_peers_read(struct nic *nic)
{
	const struct members *members = fleet_members(nic->core->fleet);
	const struct config *config = nic->core->config;
	uint64_t self = graph_member_id(config->host);
	size_t max = members ? 3 * members->nic_count : 0, count = 0;
	struct nic_peer *peers = calloc(max + 1, sizeof(*peers));

	free(nic->peers);
	nic->peers = peers;
	nic->peer_count = 0;
	if (!peers)
		return -ENOMEM;
	for (size_t i = 0; members && i < members->nic_count; i++) {
		const struct member_nic *member = &members->nics[i];
		struct esc_nic_peer entry = {.id = graph_member_id(member->host)};

		if (!strcmp(member->host, config->host))
			continue;
		nic_key_derive(&config->keys, self, entry.id, entry.key);
		peers[count++] = (struct nic_peer){.address = member->first, .entry = entry};
		peers[count++] = (struct nic_peer){.address = member->second, .entry = entry};
		entry.first = member->first;
		entry.second = member->second;
		peers[count++] = (struct nic_peer){
			.address = member->address, .entry = entry, .host = member->host};
	}
	qsort(peers, count, sizeof(*peers), peer_compare);
	for (size_t i = 0; i < count; i++) {
		struct nic_peer *last = nic->peer_count ? &peers[nic->peer_count - 1] : NULL;

		if (!last || peer_compare(last, &peers[i]))
			peers[nic->peer_count++] = peers[i];
		else if (peers[i].host) /* has more than the mere address of a NIC */
			*last = peers[i];
	}
	return 0;
}

/* --- which have a place --- */

/* Those in use, those that have a place already, the others. */
static unsigned int peer_rank(const struct nic_peer *peer)
{
	return peer->used ? 0 : peer->placed ? 1 : 2;
}

static void peers_place(const struct peer_list *peers, size_t room)
{
	for (unsigned int rank = 0; rank < 3; rank++)
		for (size_t i = 0; i < peers->count; i++) {
			struct nic_peer *peer = &peers->list[i];

			if (peer_rank(peer) != rank)
				continue;
			peer->placed = room > 0;
			room -= peer->placed;
		}
}

/* What tc ingress wrote of a peer that stays is kept. */
static int peer_write(int fd, const struct nic_peer *peer)
{
	struct esc_nic_peer was, is = peer->entry;

	if (!bpf_map_lookup_elem(fd, &peer->address, &was)) {
		is.dead_ktime_ns = was.dead_ktime_ns;
		is.report_number_ns = was.report_number_ns;
		is.number_ktime_ns = was.number_ktime_ns;
		is.number = was.number;
		is.version = was.version;
		if (!memcmp(&was, &is, sizeof(is)))
			return 0;
	}
	return bpf_map_update_elem(fd, &peer->address, &is, BPF_ANY);
}

static bool peer_stays(const void *key, void *context)
{
	const struct peer_list *peers = context;
	const struct nic_peer *peer = nic_peers_find(peers->list, peers->count, key);

	return peer && peer->placed;
}

size_t nic_peers_write(int fd, struct nic_peer *list, size_t count, size_t room)
{
	struct peer_list peers = {list, count};
	size_t without = 0;
	struct esc_nic_peer entry;

	for (size_t i = 0; i < count; i++)
		list[i].placed = !bpf_map_lookup_elem(fd, &list[i].address, &entry);
	peers_place(&peers, room);
	/* First: a full map has no room for those that take the places. */
	mapsweep(fd, sizeof(struct esc_address), peer_stays, &peers);
	for (size_t i = 0; i < count; i++) {
		if (list[i].placed)
			list[i].placed = !peer_write(fd, &list[i]);
		without += !list[i].placed;
	}
	return without;
}

/* --- those of queue pairs --- */

static void use_address(struct nic *nic, const struct esc_address *address)
{
	struct nic_peer *peer = nic_peers_find(nic->peers, nic->peer_count, address), *of;
	const struct esc_address *ends[2];

	if (!peer || !peer->host)
		return;
	peer->used = true;
	ends[0] = &peer->entry.first;
	ends[1] = &peer->entry.second;
	for (unsigned int i = 0; i < 2; i++) {
		of = nic_peers_find(nic->peers, nic->peer_count, ends[i]);
		if (of)
			of->used = true;
	}
}

static void report_room(struct nic *nic, size_t without)
{
	if (without && without != nic->without_room) {
		log_warning(
			"%zu of %zu addresses of peers have no room in the map nic_peers (%d): "
			"their queue pairs do not fail over to the other NIC; those in use have "
			"room first",
			without, nic->peer_count, ESC_NIC_PEERS_MAX);
		events_add(nic->core->events,
			   &(struct event){
				   .kind = &nic_events[NIC_PEERS_FULL],
				   .subject = "daemon",
				   .seen = json_pack("{s:I, s:I}", "addresses",
						     (json_int_t)nic->peer_count, "without_room",
						     (json_int_t)without),
				   .expected = json_pack("{s:I}", "addresses_max",
							 (json_int_t)ESC_NIC_PEERS_MAX),
			   });
	}
	nic->without_room = without;
}

void nic_peers_apply(struct nic *nic)
{
	const struct qp_entry *entries;
	size_t count;

	entries = qptable_entries(nic->qps, &count);
	for (size_t i = 0; i < nic->peer_count; i++)
		nic->peers[i].used = false;
	for (size_t i = 0; i < count; i++)
		use_address(nic, entries[i].key.direction == ESC_DIRECTION_TX
					 ? &entries[i].key.dst
					 : &entries[i].key.src);
	report_room(nic, nic_peers_write(nic->kernel.peers_fd, nic->peers, nic->peer_count,
					 ESC_NIC_PEERS_MAX));
}
