/* SPDX-License-Identifier: BSD-2-Clause */
/* What both benchmarks do: load ours and its peers, take medians, print rows. */
#ifndef ESC_TESTS_BENCH_BENCH_H
#define ESC_TESTS_BENCH_BENCH_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane.skel.h"
#include "maps/maps.h"
#include "pacing/icrc.h"

/* Wide enough that no PSN of a benchmark is sampled but the first. */
#define BENCH_NOT_SAMPLED 0xffffff

struct bench {
	struct dataplane *ours;
	struct bpf_object *peers;
};

static inline int bench_quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

static inline int bench_fd(const struct bench *b, const char *name)
{
	struct bpf_program *program = bpf_object__find_program_by_name(b->peers, name);

	return program ? bpf_program__fd(program) : -ENOENT;
}

/* The constants of the peers' .rodata, in the order of peers.bpf.c. */
struct bench_constants {
	uint32_t qp_mask;
	uint32_t bth_offset;
	uint32_t redirect_ifindex;
};

static inline int bench_open(struct bench *b, const char *peers, const struct bench_constants *c)
{
	struct bpf_map *rodata;

	libbpf_set_print(bench_quiet);
	memset(b, 0, sizeof(*b));
	b->ours = dataplane__open();
	b->peers = bpf_object__open_file(peers, NULL);
	if (!b->ours || !b->peers)
		return -errno;
	icrc_make_table(b->ours->rodata->esc_icrc_powers);
	rodata = bpf_object__find_map_by_name(b->peers, ".rodata");
	if (!rodata || bpf_map__set_initial_value(rodata, c, sizeof(*c)))
		return -EINVAL;
	if (dataplane__load(b->ours) || bpf_object__load(b->peers))
		return -errno;
	return 0;
}

static inline void bench_close(struct bench *b)
{
	bpf_object__close(b->peers);
	dataplane__destroy(b->ours);
}

static inline void bench_set_mask(const struct bench *b, uint32_t sample_mask)
{
	struct esc_control word = {.sample_mask = sample_mask};
	uint32_t zero = 0;

	bpf_map_update_elem(bpf_map__fd(b->ours->maps.control), &zero, &word, BPF_ANY);
}

/* Sum over the queue pairs, and how many of their packets were not next in order. */
static inline uint64_t bench_packets(const struct bench *b, uint64_t *off)
{
	struct esc_qp_key key, *before = NULL;
	int fd = bpf_map__fd(b->ours->maps.qps);
	uint64_t packets = 0;
	struct esc_qp qp;

	*off = 0;
	while (!bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		if (bpf_map_lookup_elem(fd, &key, &qp))
			continue;
		packets += qp.packets;
		*off += qp.duplicates + qp.retransmits + qp.out_of_sequence + qp.psn_resyncs;
	}
	return packets;
}

/* The peers' .bss, in the order of peers.bpf.c. */
struct bench_state {
	uint32_t turn;
	uint32_t pad;
	uint64_t udp_packets;
};

/* Where the feeder is in its queue pairs and PSNs. */
static inline uint32_t bench_turn(const struct bench *b)
{
	int fd = bpf_object__find_map_fd_by_name(b->peers, ".bss");
	struct bench_state state = {0};
	uint32_t zero = 0;

	bpf_map_lookup_elem(fd, &zero, &state);
	return state.turn;
}

static inline void bench_set_turn(const struct bench *b, uint32_t turn)
{
	int fd = bpf_object__find_map_fd_by_name(b->peers, ".bss");
	struct bench_state state = {.turn = turn};
	uint32_t zero = 0;

	bpf_map_update_elem(fd, &zero, &state, BPF_ANY);
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline double bench_median(double *values, int count)
{
	qsort(values, count, sizeof(*values), bench_compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif
