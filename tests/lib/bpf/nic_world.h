/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of NIC failover, their maps, and frames that run through them. */
#ifndef ESC_TESTS_NIC_WORLD_H
#define ESC_TESTS_NIC_WORLD_H

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nic.skel.h"
#include "probe_model.h"
#include "steer_model.h"
#include "tests/lib/tap.h"

#define HOME_ID 7 /* of the peer */
#define OTHER_ID 8
#define IFINDEX 1 /* of the test run's device */
#define SECOND_IFINDEX 4711
#define PORT 4792
#define REDIRECT 7
#define NEXT (-1)
#define SHOT 2
#define NUMBER_OFFSET_NS 1800000000123456789ull

static struct nic_programs *kernel;
static int out_fd, in_fd, dummy_fd;
static const struct probe_key pair_key = {{2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5}};
static const uint8_t deliver_mac[6] = {2, 9, 9, 9, 9, 9};

/* --- the world --- */

static struct esc_address address_of(const char *text)
{
	struct esc_address a = {};

	a.bytes[10] = a.bytes[11] = 0xff;
	if (inet_pton(AF_INET, text, a.bytes + 12) != 1)
		inet_pton(AF_INET6, text, a.bytes);
	return a;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#define map_fd(name) bpf_map__fd(kernel->maps.name)

static void set_control(uint32_t flags)
{
	struct esc_control word = {.flags = flags};
	uint32_t zero = 0;

	bpf_map_update_elem(map_fd(control), &zero, &word, BPF_ANY);
}

/* A beat from the future is fresh for as long as all this takes. */
static void set_word(uint32_t flags, uint32_t attention, int64_t beat_in_ns)
{
	struct esc_nic_control word = {
		.flags = flags | (flags ? ESC_NIC_HAS_KEY0 : 0),
		.attention = attention,
		.port = PORT,
		.number_offset_ns = NUMBER_OFFSET_NS,
		.heartbeat_ktime_ns = now_ns() + beat_in_ns,
	};
	uint32_t zero = 0;

	bpf_map_update_elem(map_fd(nic_control), &zero, &word, BPF_ANY);
}

#define FRESH 60000000000ll

static void set_home(const struct esc_address *address, const char *first, const char *second,
		     uint16_t flags, uint16_t mtu)
{
	struct esc_nic_local home = {
		.first_ifindex = IFINDEX,
		.second_ifindex = SECOND_IFINDEX,
		.deliver_ifindex = IFINDEX,
		.first_mtu = mtu,
		.second_mtu = mtu,
		.flags = flags,
		.first = address_of(first),
		.second = address_of(second),
	};

	memcpy(home.deliver_mac, deliver_mac, 6);
	bpf_map_update_elem(map_fd(nic_local), address, &home, BPF_ANY);
}

static void set_peer(const struct esc_address *address, const char *first, const char *second,
		     uint64_t id, uint64_t dead_ns)
{
	struct esc_nic_peer peer = {.id = id, .dead_ktime_ns = dead_ns};

	memcpy(peer.key[0], pair_key.bytes, sizeof(peer.key[0]));

	if (first) {
		peer.first = address_of(first);
		peer.second = address_of(second);
	}
	bpf_map_update_elem(map_fd(nic_peers), address, &peer, BPF_ANY);
}

static void clear_map(int fd, size_t bytes)
{
	char key[64];

	(void)bytes;
	while (!bpf_map_get_next_key(fd, NULL, key))
		bpf_map_delete_elem(fd, key);
}

/* Our address @src, the peer's @dst, and the NICs of both. */
static inline void set_ends(const struct esc_address *src, const struct esc_address *dst, bool four,
			    uint16_t flags, uint16_t mtu)
{
	const char *ours = four ? "10.9.0.1" : "fd09::1", *ours2 = four ? "10.9.0.2" : "fd09::2";
	const char *peers = four ? "10.8.0.1" : "fd08::1", *peers2 = four ? "10.8.0.2" : "fd08::2";
	struct esc_address a;

	clear_map(map_fd(nic_local), 16);
	clear_map(map_fd(nic_peers), 16);
	clear_map(map_fd(nic_routes), 32);
	set_home(src, ours, ours2, ESC_NIC_PAIRED | flags, mtu);
	set_peer(dst, peers, peers2, HOME_ID, 0);
	a = address_of(peers);
	set_peer(&a, NULL, NULL, HOME_ID, 0);
	a = address_of(peers2);
	set_peer(&a, NULL, NULL, HOME_ID, 0);
}

/* A spare ring @id for the next new queue pair, mapped; NULL: none. */
static inline struct esc_repair_ring *make_ring(uint32_t id)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	struct esc_repair_ring *ring;
	uint32_t index = id - 1;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ring", 4, sizeof(*ring), 1, &o);

	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED || bpf_map_update_elem(map_fd(nic_rings), &index, &fd, BPF_ANY) ||
	    bpf_map_update_elem(map_fd(nic_spares), NULL, &id, BPF_ANY))
		ring = NULL;
	close(fd);
	return ring;
}

static inline void forget_rings(void)
{
	uint32_t id;

	while (!bpf_map_lookup_and_delete_elem(map_fd(nic_spares), NULL, &id))
		;
	clear_map(map_fd(nic_queues), sizeof(struct esc_nic_queue));
}

static inline int run(int fd, const struct frame *f, struct frame *got)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = got->data, .data_size_out = sizeof(got->data), .repeat = 1);
	int error = bpf_prog_test_run_opts(fd, &o);

	got->bytes = o.data_size_out;
	return error ? -1000 : (int)o.retval;
}

static inline bool same(const struct frame *a, const struct frame *b)
{
	return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

static void addresses_of(const struct frame *f, struct esc_address *src, struct esc_address *dst)
{
	memset(src, 0, sizeof(*src));
	memset(dst, 0, sizeof(*dst));
	if (frame_is_ipv6(f)) {
		memcpy(src->bytes, f->data + 22, 16);
		memcpy(dst->bytes, f->data + 38, 16);
		return;
	}
	src->bytes[10] = src->bytes[11] = dst->bytes[10] = dst->bytes[11] = 0xff;
	memcpy(src->bytes + 12, f->data + 26, 4);
	memcpy(dst->bytes + 12, f->data + 30, 4);
}

/* False: they do not load, and nothing can be tested. */
static bool nic_world_open(void)
{
	libbpf_set_print(world_quiet);
	kernel = nic_programs__open_and_load();
	if (!kernel)
		return false;
	out_fd = bpf_program__fd(kernel->progs.esc_nic_out);
	in_fd = bpf_program__fd(kernel->progs.esc_nic_in);
	dummy_fd = bpf_program__fd(kernel->progs.esc_nic_dummy);
	set_control(0);
	return true;
}

#endif
