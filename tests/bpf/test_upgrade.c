// SPDX-License-Identifier: BSD-2-Clause
/* Contents of maps of another layout: converted by names, and counts added to entries in use. */
#include "dataplane/internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_PLAN 12
#include "tests/lib/tap.h"

/* As the structs of tests/tools/layouts.bpf.c. */
struct other_qp_key {
	__u32 added;
	__u8 port;
	__u8 direction;
	__u16 dest_qpn_high;
	struct esc_address dst, src;
	__u32 dest_qpn;
};

struct other_qp {
	__u64 first_local_ns;
	struct esc_message_bucket message_sizes[4];
	__u32 messages, message_max, message_min, removed;
	__u64 bytes, packets;
	struct esc_psn_stream requests;
	__u16 sport_changes;
};

struct other_reason {
	__u64 added, tc_egress, xdp_ingress;
};

static void use_map(struct bpf_object *object, const char *name, const char *as,
		    struct pinned_map *out)
{
	__u32 bytes = sizeof(out->info);

	*out = (struct pinned_map){.fd = bpf_object__find_map_fd_by_name(object, name)};
	snprintf(out->name, sizeof(out->name), "%s", as);
	bpf_obj_get_info_by_fd(out->fd, &out->info, &bytes);
}

static const struct other_qp old_qp = {
	.first_local_ns = 1000,
	.message_sizes = {{1, 0}, {0, 0}, {2, 6}, {3, 21}},
	.messages = 6,
	.message_max = 7,
	.message_min = 3,
	.removed = 99,
	.bytes = 70000,
	.packets = 70,
	.requests = {.next = 42, .flags = ESC_PSN_VALID},
	.sport_changes = 5,
};

static const struct esc_qp_key idle_key = {.src = {{1}}, .dst = {{2}}, .dest_qpn = 17, .port = 3};
static const struct esc_qp_key used_key = {.src = {{1}}, .dst = {{2}}, .dest_qpn = 18, .port = 3};

static void fill(struct pins *pins)
{
	struct other_qp_key key = {
		.added = 7, .port = 3, .dst = {{2}}, .src = {{1}}, .dest_qpn = 17};
	struct esc_qp used = {
		.packets = 5,
		.bytes = 500,
		.messages = 1,
		.message_min = 2,
		.message_max = 5,
		.first_local_ns = 2000,
		.message_sizes = {[3] = {1, 5}},
		.requests = {.next = 77},
	};

	bpf_map_update_elem(pins->old[0].fd, &key, &old_qp, BPF_ANY);
	key.dest_qpn = 18;
	bpf_map_update_elem(pins->old[0].fd, &key, &old_qp, BPF_ANY);
	bpf_map_update_elem(pins->maps[0].fd, &used_key, &used, BPF_ANY);
}

static bool is_empty(int fd)
{
	char key[64];

	return bpf_map_get_next_key(fd, NULL, key) != 0;
}

static void check_qps(struct pins *pins)
{
	struct esc_qp qp = {};

	tap_ok(!bpf_map_lookup_elem(pins->maps[0].fd, &idle_key, &qp) && qp.packets == 70 &&
		       qp.bytes == 70000 && qp.messages == 6,
	       "an entry that is not in use: its counts, of other widths at other places");
	tap_ok(qp.requests.next == 42 && qp.requests.flags == ESC_PSN_VALID, "and its PSN state");
	tap_ok(qp.message_sizes[3].count == 3 && qp.message_sizes[3].bytes == 21 &&
		       !qp.message_sizes[4].count,
	       "and the histogram, as far as it went");
	memset(&qp, 0, sizeof(qp));
	tap_ok(!bpf_map_lookup_elem(pins->maps[0].fd, &used_key, &qp) && qp.packets == 75 &&
		       qp.bytes == 70500 && qp.messages == 7,
	       "an entry in use: the counts are added");
	tap_ok(qp.message_sizes[3].count == 4 && qp.message_sizes[3].bytes == 26 &&
		       qp.message_sizes[0].count == 1,
	       "those of the histogram, too");
	tap_ok(qp.message_min == 2 && qp.message_max == 7, "the extremes are those of both");
	tap_ok(qp.first_local_ns == 1000, "the time of the first packet is the old one");
	tap_ok(qp.requests.next == 77, "the PSN state is that of the new program");
	tap_ok(qp.sport_changes == 5, "a narrower counter");
	tap_ok(is_empty(pins->old[0].fd) && !pins->old[0].lost, "the old map is empty then");
}

static void check_reasons(struct pins *pins)
{
	int cpus = libbpf_num_possible_cpus();
	struct other_reason *values = calloc(cpus, sizeof(*values));
	struct esc_reason_count *in_use = calloc(cpus, sizeof(*in_use)), sum;
	__u32 index = 2;

	for (int i = 0; i < cpus; i++) {
		values[i] = (struct other_reason){.added = 1, .tc_egress = 10, .xdp_ingress = 100};
		in_use[i] = (struct esc_reason_count){.tc_egress = 1, .tc_ingress = 1};
	}
	bpf_map_update_elem(pins->old[1].fd, &index, values, BPF_ANY);
	bpf_map_update_elem(pins->maps[1].fd, &index, in_use, BPF_ANY);
	upgrade_carry(pins, false);
	upgrade_carry(pins, true);
	bpfmap_sum(pins->maps[1].fd, index, &sum, sizeof(sum));
	tap_ok(sum.tc_egress == 11ull * cpus && sum.xdp_ingress == 100ull * cpus &&
		       sum.tc_ingress == (__u64)cpus,
	       "per-CPU counts in use: the sums are those of both, once");
	free(values);
	free(in_use);
}

int main(int argc, char **argv)
{
	struct pins *pins = calloc(1, sizeof(*pins));
	struct bpf_object *object;
	char path[512];

	(void)argc;
	snprintf(path, sizeof(path), "%.*s/../tools/layouts.bpf.o",
		 (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
	object = bpf_object__open_file(path, NULL);
	if (!pins || !object || bpf_object__load(object))
		return tap_bail("the maps cannot be made");
	use_map(object, "qps", "qps", &pins->maps[0]);
	use_map(object, "reasons", "reasons", &pins->maps[1]);
	pins->count = 2;
	use_map(object, "other_qps", "qps", &pins->old[0]);
	use_map(object, "other_reasons", "reasons", &pins->old[1]);
	pins->old_count = 2;
	fill(pins);
	check_reasons(pins);
	check_qps(pins);
	fill(pins);
	upgrade_carry(pins, true);
	tap_ok(is_empty(pins->old[0].fd), "a second time it goes on");
	bpf_object__close(object);
	free(pins);
	return tap_end();
}
