// SPDX-License-Identifier: BSD-2-Clause
/* Which cgroups a class names, in the map that the TCP programs read: they come, go and change. */
#define TAP_PLAN 9

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "pace/internal.h"
#include "tests/lib/tap.h"
#include "tcp_cgroup.h"
#include "tcp/internal.h"

#define THRESHOLD_NS 500000

static struct pace_class_keys by_path = {.cgroup = "*/inner"};
static struct pace_class_keys by_job = {.job = "job_7*", .port_first = 80, .port_last = 81};
static struct pace_class_keys by_dscp = {.dscps = 1ull << 46};
static struct pace pace = {
	.class_count = 4,
	.classes =
		{
			{.name = "default", .weight = 1, .threshold_ns = 1},
			{.name = "path", .weight = 3, .match = &by_path},
			{.name = "job",
			 .weight = 1,
			 .threshold_ns = 7000,
			 .own_threshold = true,
			 .match = &by_job},
			{.name = "dscp", .weight = 2, .threshold_ns = 7000, .match = &by_dscp},
		},
};
static char top[256];
static int map = -1;

/* The bits of a folder below the test's own; 0 for one that is not in the map. */
static uint32_t bits_of(const char *below)
{
	char path[400];
	struct stat folder;
	uint64_t id;
	uint32_t bits;

	snprintf(path, sizeof(path), "%s%s", top, below);
	if (stat(path, &folder))
		return 0;
	id = folder.st_ino;
	return bpf_map_lookup_elem(map, &id, &bits) ? 0 : bits;
}

static void make(const char *below)
{
	char path[400];

	snprintf(path, sizeof(path), "%s%s", top, below);
	mkdir(path, 0755);
}

static void take_away(const char *below)
{
	char path[400];

	snprintf(path, sizeof(path), "%s%s", top, below);
	rmdir(path);
}

static size_t entries(void)
{
	uint64_t key, *before = NULL;
	size_t count = 0;

	while (!bpf_map_get_next_key(map, before, &key)) {
		before = &key;
		count++;
	}
	return count;
}

static void test_classes(void)
{
	struct esc_tcp_control ctl = {};

	tcp_load_classes(&ctl, &pace, THRESHOLD_NS);
	tap_ok(ctl.class_count == 4 && ctl.classes[0].threshold_ns == THRESHOLD_NS &&
		       ctl.classes[1].threshold_ns == THRESHOLD_NS &&
		       ctl.classes[2].threshold_ns == 7000 &&
		       ctl.classes[3].threshold_ns == THRESHOLD_NS,
	       "a class without a threshold of its own has TCP's");
	tap_ok(ctl.classes[1].weight == 3 && ctl.classes[1].by_cgroup && ctl.classes[2].by_cgroup &&
		       ctl.classes[2].port_last == 81 && !ctl.classes[3].by_cgroup &&
		       ctl.classes[3].dscps == 1ull << 46,
	       "what it matches is in the control block");
	tap_ok(!strcmp(tcp_class_name(&pace, 1), "path") &&
		       !strcmp(tcp_class_name(&pace, 9), "default"),
	       "and it has its name");
}

static long poll(struct tcp_cgroups *was, const struct pace *of, const char *from, int fd)
{
	struct tcp_walk *walk = tcp_walk_new(of, from);
	long left_out;

	tcp_walk_run(walk);
	left_out = tcp_walk_take(walk, was, fd);
	tcp_walk_free(walk);
	return left_out;
}

static void test_poll(void)
{
	struct tcp_cgroups cgroups = {};

	make("/inner");
	make("/inner/deeper");
	make("/job_71");
	make("/job_71/step_0");
	make("/other");
	tap_ok(!poll(&cgroups, &pace, top, map) && bits_of("/inner") == 1 << 1 &&
		       bits_of("/job_71") == 1 << 2 && bits_of("/job_71/step_0") == 1 << 2,
	       "cgroups by their path and by the job that it reports");
	tap_ok(entries() == 3 && !bits_of("/other") && !bits_of("/inner/deeper") && !bits_of(""),
	       "and no others");
	take_away("/job_71/step_0");
	make("/job_71/inner");
	tap_ok(!poll(&cgroups, &pace, top, map) && entries() == 3 &&
		       bits_of("/job_71/inner") == (1 << 1 | 1 << 2),
	       "a removed one is out, a new one is in");
	by_path.cgroup = "*/other";
	tap_ok(!poll(&cgroups, &pace, top, map) && !bits_of("/inner") &&
		       bits_of("/other") == 1 << 1 && bits_of("/job_71/inner") == 1 << 2,
	       "a class that names others");
	by_path.cgroup = NULL;
	by_job.job = NULL;
	tap_ok(!poll(&cgroups, &pace, top, map) && !entries(), "and none");
	by_path.cgroup = "*";
	tap_ok(poll(&cgroups, &pace, "/nowhere", map) == -ENOENT,
	       "a folder that is not there is an error");
	free(cgroups.list);
}

int main(void)
{
	static const char *const made[] = {
		"/inner/deeper", "/inner", "/job_71/step_0", "/job_71/inner", "/job_71",
		"/other",	 ""};

	if (!tcp_cgroup_find(top, sizeof(top)))
		return tap_skip_all("no unified cgroup hierarchy is mounted");
	map = bpf_map_create(BPF_MAP_TYPE_HASH, "tcp_cgroups", 8, 4, ESC_TCP_CGROUPS, NULL);
	if (map < 0 || mkdir(top, 0755))
		return tap_bail("no map, or no cgroup");
	test_classes();
	test_poll();
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		take_away(made[i]);
	return tap_end();
}
