// SPDX-License-Identifier: BSD-2-Clause
/*
 * A list that is replaced by another one: what the loop does of it, and the worker. FLEET_HOSTS:
 * how many hosts, of 8 NICs each. The times are printed; the limit is wide.
 */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fleet/fleet.h"

#define RAILS 8
#define HOSTS 5000
#define LOOP_LIMIT_S 1.0

static struct seen {
	struct fleet *fleet;
	struct fleet_plan *plan;
	size_t joined, left;
} seen;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double heap_mb(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)(info.uordblks + info.hblkhd) / 1e6;
}

/* As a file is replaced: in one step. Hosts @first to @first + @hosts - 1. */
static void write_list(const char *path, unsigned int first, unsigned int hosts)
{
	char other[128];
	FILE *out;

	snprintf(other, sizeof(other), "%s.new", path);
	out = fopen(other, "w");
	cr_assert_not_null(out);
	for (unsigned int i = 0; i < hosts * RAILS; i++) {
		unsigned int host = first + i / RAILS, rail = i % RAILS;

		fprintf(out,
			"%s{\"targets\": [\"10.%u.%u.%u\"], \"labels\": {\"host\": \"host%06u\", "
			"\"rail\": \"%u\", \"rack\": \"rack%u\", \"plane\": \"%s\"}}",
			i ? "," : "[", rail * 16 + host / 65536, host / 256 % 256, host % 256, host,
			rail + 1, host / 32, "backend");
	}
	fprintf(out, "]");
	cr_assert_eq(fclose(out), 0);
	cr_assert_eq(rename(other, path), 0);
}

/* What the mesh does with it, but for its own peers. */
static void on_members(void *context, const struct members *before)
{
	struct fleet_plan *last = seen.plan;

	(void)context;
	(void)before;
	cr_assert_eq(fleet_plan_take(seen.fleet, &seen.plan), 0);
	seen.joined = roster_missing(&seen.plan->rosters[0], &last->rosters[0], NULL, NULL);
	seen.left = roster_missing(&last->rosters[0], &seen.plan->rosters[0], NULL, NULL);
	fleet_plan_drop(last);
}

static double replace(const char *path, unsigned int first, unsigned int hosts)
{
	struct fleet_read *read;
	double begun, run, taken, freed;
	char *error = NULL;

	write_list(path, first, hosts);
	begun = now_s();
	read = fleet_read_new(seen.fleet);
	cr_assert_not_null(read);
	fleet_read_run(read);
	run = now_s();
	cr_assert_eq(fleet_read_take(seen.fleet, read, 0, &error), 1, "%s", error);
	taken = now_s();
	fleet_read_free(read);
	freed = now_s();
	fprintf(stderr,
		"%u hosts, %zu addresses: worker %.3f s, loop %.1f ms, freed in %.1f ms, heap %.0f "
		"MB\n",
		hosts, fleet_members(seen.fleet)->count, run - begun, (taken - run) * 1e3,
		(freed - taken) * 1e3, heap_mb());
	return freed - run;
}

Test(fleet_size, loop_time, .timeout = 300)
{
	unsigned int hosts = getenv("FLEET_HOSTS") ? atoi(getenv("FLEET_HOSTS")) : HOSTS;
	struct fleet_subscriber subscriber = {.changed = on_members};
	char folder[] = "/tmp/fleetXXXXXX", path[64];

	cr_assert(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/m.json", folder);
	write_list(path, 0, 2);
	cr_assert_eq(fleet_new(&seen.fleet), 0);
	cr_assert_eq(fleet_configure(seen.fleet, "host000001", 0, 10), 0);
	{
		struct members *first = NULL;
		char *error = NULL;

		cr_assert_eq(members_load(path, &first, &error), 0, "%s", error);
		cr_assert_null(fleet_set(seen.fleet, path, first));
	}
	cr_assert_eq(fleet_plan_take(seen.fleet, &seen.plan), 0);
	fleet_subscribe(seen.fleet, &subscriber);
	cr_expect_lt(replace(path, 0, hosts), LOOP_LIMIT_S);
	cr_expect_eq(seen.joined, hosts - 2);
	cr_expect_lt(replace(path, 1, hosts), LOOP_LIMIT_S);
	cr_expect_eq(seen.joined, 1);
	cr_expect_eq(seen.left, 1);
	cr_expect_eq(seen.plan->meshes[0].own_count, RAILS);
	cr_expect_gt(seen.plan->meshes[0].edge_count, RAILS * 3);
	fleet_plan_drop(seen.plan);
	fleet_free(seen.fleet);
	unlink(path);
	rmdir(folder);
}
