// SPDX-License-Identifier: BSD-2-Clause
/* NIC failover: more addresses of peers than `nic_peers` has room for, and what writing them costs.
 */
#include "nic/internal.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAP_PLAN 8
#include "tests/lib/tap.h"

#define ROOM 1000
#define MOST 80000

static int make_map(unsigned int room)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);

	return bpf_map_create(BPF_MAP_TYPE_HASH, "peers", sizeof(struct esc_address),
			      sizeof(struct esc_nic_peer), room, &options);
}

/* Sorted by address. */
static struct nic_peer *make_peers(size_t count)
{
	struct nic_peer *peers = calloc(count, sizeof(*peers));

	for (size_t i = 0; i < count; i++) {
		peers[i].entry.id = i + 1;
		for (int byte = 0; byte < 4; byte++)
			peers[i].address.bytes[12 + byte] = i >> (24 - 8 * byte);
	}
	return peers;
}

static size_t entries_of(int fd)
{
	struct esc_address key;
	size_t count = 0;

	for (void *at = NULL; !bpf_map_get_next_key(fd, at, &key); at = &key)
		count++;
	return count;
}

static bool is_there(int fd, const struct nic_peer *peer, uint64_t dead_ktime_ns)
{
	struct esc_nic_peer entry;

	return peer->placed && !bpf_map_lookup_elem(fd, &peer->address, &entry) &&
	       entry.id == peer->entry.id && entry.dead_ktime_ns == dead_ktime_ns;
}

static void test_room(void)
{
	struct nic_peer *peers = make_peers(3 * ROOM), *last = &peers[3 * ROOM - 1];
	struct esc_nic_peer entry = peers[5].entry;
	int fd = make_map(ROOM);

	last->used = true;
	tap_ok(nic_peers_write(fd, peers, 3 * ROOM, ROOM) == 2 * ROOM && entries_of(fd) == ROOM,
	       "three times as many as fit: the map is full, and the rest is counted");
	tap_ok(is_there(fd, last, 0), "the one in use has a place, though it is the last");
	entry.dead_ktime_ns = 77;
	bpf_map_update_elem(fd, &peers[5].address, &entry, BPF_ANY);
	last[-1].used = true;
	tap_ok(nic_peers_write(fd, peers, 3 * ROOM, ROOM) == 2 * ROOM && is_there(fd, last, 0) &&
		       is_there(fd, last - 1, 0),
	       "another one in use takes a place in a full map");
	tap_ok(is_there(fd, &peers[5], 77) && peers[ROOM - 3].placed && !peers[ROOM - 2].placed,
	       "of one that is not in use; what programs wrote of the others is kept");
	tap_ok(!nic_peers_write(fd, peers + ROOM, ROOM, ROOM) && is_there(fd, &peers[ROOM], 0) &&
		       entries_of(fd) == ROOM,
	       "another list that fits: all have a place");
	tap_ok(nic_peers_write(fd, peers, ROOM, 2 * ROOM) == 0 && entries_of(fd) == ROOM,
	       "those that are not in the list are gone");
	close(fd);
	free(peers);
}

static double write_all(int fd, struct nic_peer *peers, size_t count)
{
	struct timespec begun, ended;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	nic_peers_write(fd, peers, count, ESC_NIC_PEERS_MAX);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return (ended.tv_sec - begun.tv_sec) * 1e3 + (ended.tv_nsec - begun.tv_nsec) / 1e6;
}

/* The least of five, first into an empty map, then over the same entries. */
static void measure(size_t count, double *first, double *again)
{
	struct nic_peer *peers = make_peers(count);

	*first = *again = 1e9;
	for (int i = 0; i < 5; i++) {
		int fd = make_map(ESC_NIC_PEERS_MAX);
		double took = write_all(fd, peers, count);

		*first = took < *first ? took : *first;
		took = write_all(fd, peers, count);
		*again = took < *again ? took : *again;
		close(fd);
	}
	printf("# %zu addresses: %.1f ms, again %.1f ms\n", count, *first, *again);
	free(peers);
}

static void test_growth(void)
{
	double first[3], again[3];

	measure(1000, &first[0], &again[0]);
	measure(10000, &first[1], &again[1]);
	measure(MOST, &first[2], &again[2]);
	/* Linear is 8, quadratic 64; caches account for a part. */
	tap_ok(again[2] < 24 * again[1], "8 times as many take %.0f times as long, not 64",
	       again[2] / again[1]);
	tap_ok(first[2] < 1000 && again[2] < 1000,
	       "80,000 take less than half of the heartbeat's 2 s");
}

int main(void)
{
	test_room();
	test_growth();
	return tap_end();
}
