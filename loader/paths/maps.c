// SPDX-License-Identifier: BSD-2-Clause
/* The maps of candidate paths: `paths`, `path_slots`, and the ring `path_records`. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/explain.h"
#include "internal.h"

#define MAP_BYTES (ESC_PATH_SLOTS_MAX * sizeof(struct esc_paths))
_Static_assert(sizeof(struct esc_paths) % 8 == 0, "values of an array lie at steps of 8 bytes");

#define store(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)

static int record_read(void *context, void *bytes, size_t size)
{
	const struct esc_path_record *record = bytes;
	int64_t at_ns = (int64_t)record->ktime_ns;
	bool timed = record->flags & ESC_PATH_TIMED;
	struct paths *paths = context;
	struct paths_pair *pair;
	struct candidate *path;
	int index;

	pair = size >= sizeof(*record) && record->slot < ESC_PATH_SLOTS_MAX
		       ? paths->by_slot[record->slot]
		       : NULL;
	if (!pair)
		return 0;
	pair->replied_ns = record->ktime_ns;
	paths_update_distance(pair, record->hop_limit);
	if (record->path >= ESC_PATHS_MAX)
		return 0;
	path = &pair->candidates[record->path];
	if (!record->sport || path->sport != record->sport)
		return 0;
	pathstat_add(&path->rtt, at_ns, (double)record->rtt_ns, 0);
	if (timed)
		pathstat_add(&path->out, at_ns, (double)record->out_ns, record->out_bound_ns);
	if (record->flags & ESC_PATH_REPLY_TIMED)
		pathstat_add(&path->in, at_ns, (double)record->in_ns, record->in_bound_ns);
	index = paths_is_silent(pair) ? paths_set_index(pair, path->sport) : -ENOENT;
	/* Without fabric time the round trip has the queue in it as well. */
	if (index >= 0)
		pathset_sample(&pair->set, (size_t)index,
			       record->ktime_ns / paths->total.share.interval_ns[PATH_STANDBY],
			       timed ? (double)record->out_ns : (double)record->rtt_ns);
	return 0;
}

int paths_open_maps(struct paths *paths, char **error)
{
	const struct dataplane *dataplane = paths->dataplane;
	int records_fd = dataplane_map_fd(dataplane, "path_records");
	void *memory;

	paths->slots_fd = dataplane_map_fd(dataplane, "path_slots");
	paths->steers_fd = dataplane_map_fd(dataplane, "steers");
	memory = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		      dataplane_map_fd(dataplane, "paths"), 0);
	if (memory == MAP_FAILED)
		return explain(error, -errno, "the map paths cannot be mapped: %s",
			       strerror(errno));
	paths->map = memory;
	paths->ring = ring_buffer__new(records_fd, record_read, paths, NULL);
	if (!paths->ring)
		return explain(error, -errno, "the ring path_records cannot be read: %s",
			       strerror(errno));
	return 0;
}

void paths_close_maps(struct paths *paths)
{
	ring_buffer__free(paths->ring);
	if (paths->map)
		munmap(paths->map, MAP_BYTES);
}

struct esc_path *paths_map_entry(const struct paths *paths, const struct paths_pair *pair,
				 unsigned int id)
{
	return &paths->map[pair->slot].paths[id];
}

void paths_reset_heard(void *context)
{
	const struct paths *paths = context;
	int fd = dataplane_map_fd(paths->dataplane, "path_received");
	struct esc_path_received heard;
	struct esc_path_key key;
	uint64_t now_ns = time_local_ns();
	void *before = NULL;

	/* Bounded: peers come and go meanwhile. */
	for (int i = 0; fd >= 0 && i < 2 * ESC_PATH_RECEIVED_MAX; i++) {
		if (bpf_map_get_next_key(fd, before, &key))
			break;
		before = &key;
		if (bpf_map_lookup_elem(fd, &key, &heard))
			continue;
		for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)
			if (heard.sport[id])
				heard.received_ktime_ns[id] = now_ns;
		bpf_map_update_elem(fd, &key, &heard, BPF_EXIST);
	}
}

/* The programs read the port first: between two of them there is none. */
void paths_write_candidate(struct paths *paths, struct paths_pair *pair, unsigned int id,
			   uint16_t sport)
{
	struct esc_path *entry = paths_map_entry(paths, pair, id);

	__atomic_store_n(&entry->sport, 0, __ATOMIC_SEQ_CST);
	store(entry->deadline_ns, 0);
	store(entry->diverted_ns, 0);
	store(entry->backup, ESC_PATH_NONE);
	store(entry->state, PATHLIVE_UP);
	store(entry->floor_ns, 0);
	memset(&entry->live, 0, sizeof(entry->live));
	entry->diverted = entry->probes = entry->replies = 0;
	__atomic_store_n(&entry->sport, sport, __ATOMIC_SEQ_CST);
}

int paths_slot_take(struct paths *paths, struct paths_pair *pair)
{
	struct esc_paths *slot;
	uint32_t number = 0;
	int err;

	while (number < ESC_PATH_SLOTS_MAX && paths->by_slot[number])
		number++;
	if (number == ESC_PATH_SLOTS_MAX)
		return -ENOSPC;
	slot = &paths->map[number];
	__atomic_store_n(&slot->peer, 0, __ATOMIC_SEQ_CST);
	slot->key = pair->key;
	slot->port = pair->port;
	slot->peer_epoch = 0;
	pair->slot = number;
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		paths_write_candidate(paths, pair, i, 0);
	__atomic_store_n(&slot->peer, pair->peer, __ATOMIC_SEQ_CST);
	err = bpf_map_update_elem(paths->slots_fd, &pair->key, &number, BPF_ANY);
	if (err) {
		__atomic_store_n(&slot->peer, 0, __ATOMIC_SEQ_CST);
		return err;
	}
	paths->by_slot[number] = pair;
	paths->pairs++;
	return 0;
}

void paths_slot_free(struct paths *paths, struct paths_pair *pair)
{
	bpf_map_delete_elem(paths->slots_fd, &pair->key);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		paths_write_candidate(paths, pair, i, 0);
	__atomic_store_n(&paths->map[pair->slot].peer, 0, __ATOMIC_SEQ_CST);
	paths->by_slot[pair->slot] = NULL;
	paths->pairs--;
}

struct paths_pair *paths_find(const struct paths *paths, const struct esc_path_key *key)
{
	uint32_t number;

	if (bpf_map_lookup_elem(paths->slots_fd, key, &number) || number >= ESC_PATH_SLOTS_MAX)
		return NULL;
	return paths->by_slot[number];
}
