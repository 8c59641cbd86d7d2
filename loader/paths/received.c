// SPDX-License-Identifier: BSD-2-Clause
/* The map `path_received`: what XDP received on the paths of peers. */
#include <bpf/bpf.h>
#include <string.h>

#include "internal.h"

#define SWEEP_KEYS 64 /* of 4,096, in an update */
/* A peer that measured this host in passing: it will not come back soon. */
#define PASSING_NS 10000000000ll
#define PATHS_GONE_NS 3600000000000ll /* a candidate path of a peer */

/*
 * Nothing could be received until now: what peers sent meanwhile is not reported as missing.
 * Before this host replies again.
 */
void paths_reset_received(void *context)
{
	const struct paths *paths = context;
	int fd = dataplane_map_fd(paths->dataplane, "path_received");
	struct esc_path_received received;
	struct esc_path_key key;
	uint64_t now_ns = time_local_ns();
	void *before = NULL;

	/* Bounded: peers come and go meanwhile. */
	for (int i = 0; fd >= 0 && i < 2 * ESC_PATH_RECEIVED_MAX; i++) {
		if (bpf_map_get_next_key(fd, before, &key))
			break;
		before = &key;
		if (bpf_map_lookup_elem(fd, &key, &received))
			continue;
		for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)
			if (received.sport[id])
				received.received_ktime_ns[id] = now_ns;
		bpf_map_update_elem(fd, &key, &received, BPF_EXIST);
	}
}

static bool is_stale(const struct esc_path_received *received, int64_t now_ns)
{
	int64_t age_ns = now_ns - (int64_t)received->ktime_ns;
	bool passing = true;

	for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)
		passing &= !received->sport[id];
	return age_ns > (passing ? PASSING_NS : PATHS_GONE_NS);
}

/*
 * Deletes entries of peers that are gone, so that others have room. A request of before that is
 * replayed then gets a reply, which its sender drops: it waits for none of that number.
 */
void paths_sweep_received(struct paths *paths, uint64_t now_ns)
{
	static const struct esc_path_key none;
	int fd = dataplane_map_fd(paths->dataplane, "path_received");
	struct esc_path_key key = paths->swept, next, last = none;
	struct esc_path_received received;

	for (unsigned int i = 0; fd >= 0 && i < SWEEP_KEYS; i++) {
		if (bpf_map_get_next_key(fd, memcmp(&key, &none, sizeof(key)) ? &key : NULL,
					 &next)) {
			last = none;
			break;
		}
		key = next;
		if (bpf_map_lookup_elem(fd, &key, &received) ||
		    !is_stale(&received, (int64_t)now_ns))
			last = key;
		else if (!bpf_map_delete_elem(fd, &key))
			key = last; /* a key that is gone would restart the walk */
	}
	paths->swept = last;
}
