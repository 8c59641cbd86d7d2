// SPDX-License-Identifier: BSD-2-Clause
/* Which cgroups a class names, in the map that the TCP programs read: they come, go and change. */
#define TAP_PLAN 9

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "pace/internal.h"
#include "tests/lib/tap.h"
#include "tcp_cgroup.h"
#include "tcp/class.h"

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

static void test_words(struct tcpclass *classes)
{
	struct esc_tcp_control word = {};

	tcpclass_take(classes, &pace, THRESHOLD_NS, &word);
	tap_ok(word.class_count == 4 && word.classes[0].threshold_ns == THRESHOLD_NS &&
		       word.classes[1].threshold_ns == THRESHOLD_NS &&
		       word.classes[2].threshold_ns == 7000 &&
		       word.classes[3].threshold_ns == THRESHOLD_NS,
	       "a class without a threshold of its own has TCP's");
	tap_ok(word.classes[1].weight == 3 && word.classes[1].by_cgroup &&
		       word.classes[2].by_cgroup && word.classes[2].port_last == 81 &&
		       !word.classes[3].by_cgroup && word.classes[3].dscps == 1ull << 46,
	       "what it asks for is in the word");
	tap_ok(!strcmp(tcpclass_name(classes, 1), "path") &&
		       !strcmp(tcpclass_name(classes, 9), "default"),
	       "and its name is kept");
}

static void test_look(struct tcpclass *classes)
{
	make("/inner");
	make("/inner/deeper");
	make("/job_71");
	make("/job_71/step_0");
	make("/other");
	tap_ok(!tcpclass_poll(classes, &pace, top, map) && bits_of("/inner") == 1 << 1 &&
		       bits_of("/job_71") == 1 << 2 && bits_of("/job_71/step_0") == 1 << 2,
	       "cgroups by their path and by the job that it says");
	tap_ok(entries() == 3 && !bits_of("/other") && !bits_of("/inner/deeper") && !bits_of(""),
	       "and no others");
	take_away("/job_71/step_0");
	make("/job_71/inner");
	tap_ok(!tcpclass_poll(classes, &pace, top, map) && entries() == 3 &&
		       bits_of("/job_71/inner") == (1 << 1 | 1 << 2),
	       "one that went is out, one that came is in");
	by_path.cgroup = "*/other";
	tap_ok(!tcpclass_poll(classes, &pace, top, map) && !bits_of("/inner") &&
		       bits_of("/other") == 1 << 1 && bits_of("/job_71/inner") == 1 << 2,
	       "a class that names others");
	by_path.cgroup = NULL;
	by_job.job = NULL;
	tap_ok(!tcpclass_poll(classes, &pace, top, map) && !entries(), "and none");
	by_path.cgroup = "*";
	tap_ok(tcpclass_poll(classes, &pace, "/nowhere", map) == -ENOENT,
	       "a folder that is not there is an error");
}

int main(void)
{
	static const char *const made[] = {
		"/inner/deeper", "/inner", "/job_71/step_0", "/job_71/inner", "/job_71",
		"/other",	 ""};
	struct tcpclass *classes = NULL;

	if (!tcp_cgroup_find(top, sizeof(top)))
		return tap_skip_all("no unified cgroup hierarchy is mounted");
	map = bpf_map_create(BPF_MAP_TYPE_HASH, "tcp_cgroups", 8, 4, ESC_TCP_CGROUPS, NULL);
	if (map < 0 || mkdir(top, 0755) || tcpclass_new(&classes))
		return tap_bail("no map, or no cgroup");
	test_words(classes);
	test_look(classes);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		take_away(made[i]);
	tcpclass_free(classes);
	return tap_end();
}
