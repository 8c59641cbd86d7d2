// SPDX-License-Identifier: BSD-2-Clause
/* The page between escapementd and libescapement, both ends. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "clock/internal.h"
/* The library itself: it is no part of the core. */
#include "loader/libescapement/escapement.c"

static char folder[64], path[96];

static void make_folder(void)
{
	strcpy(folder, "/tmp/esc-page-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/run/clock", folder);
}

static void remove_folder(void)
{
	char run[80];

	unlink(path);
	snprintf(run, sizeof(run), "%s/run", folder);
	rmdir(run);
	rmdir(folder);
}

TestSuite(library, .init = make_folder, .fini = remove_folder);

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct clockpage_layout *open_page(int64_t offset_ns, int64_t drift_ppb)
{
	struct clockpage_layout *page;
	char *error = NULL;

	cr_assert_eq(clockpage_open(&page, path, offset_ns, drift_ppb, &error), 0, "%s", error);
	return page;
}

/* Fabric time is local time and @ahead_ns, known @age_ns ago. */
static struct clock_model model_of(int64_t local_ns, int64_t ahead_ns, int64_t age_ns)
{
	struct clock_model model = {
		.ref_local_ns = local_ns - age_ns,
		.ref_fabric_ns = local_ns - age_ns + ahead_ns,
		.bound_local_ns = local_ns - age_ns,
		.bound_ns = 100,
		.generation = 1,
		.state = CLOCK_SYNCED,
	};

	model.slew_end_local_ns = model.ref_local_ns;
	model.slew_end_fabric_ns = model.ref_fabric_ns;
	return model;
}

Test(library, no_daemon_has_run)
{
	struct escapement_clock *clock = (void *)1;

	cr_expect_eq(escapement_clock_open(&clock, path), -ENOENT);
	cr_expect_null(clock);
	escapement_clock_close(clock);
}

Test(library, no_time_yet)
{
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	struct escapement_time time;

	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	cr_expect_eq(escapement_now(clock, &time), 0);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING);
	cr_expect_eq(time.earliest_ns, 0);
	escapement_clock_close(clock);
	clockpage_close(page);
}

static struct escapement_time read_with(const struct clock_model *model, int64_t offset_ns)
{
	struct clockpage_layout *page = open_page(offset_ns, 0);
	struct escapement_clock *clock;
	struct escapement_time time;

	clockpage_write(page, model, 0);
	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	cr_assert_eq(escapement_now(clock, &time), 0);
	escapement_clock_close(clock);
	clockpage_close(page);
	return time;
}

Test(library, the_interval_holds_the_time)
{
	int64_t before = now_ns(), after;
	struct clock_model model = model_of(before, 7000000000, 0);
	struct escapement_time time = read_with(&model, 0);

	after = now_ns();
	cr_expect_eq(time.status, ESCAPEMENT_SYNCED);
	cr_expect(time.earliest_ns <= after + 7000000000 && time.latest_ns >= before + 7000000000);
	cr_expect_geq(time.latest_ns - time.earliest_ns, 200);
	cr_expect_leq(time.latest_ns - time.earliest_ns, 210);
}

Test(library, the_lab_s_local_clock)
{
	int64_t before = now_ns();
	struct clock_model model = model_of(before - 400000000, 0, 0);
	struct escapement_time time = read_with(&model, -400000000);

	cr_expect(time.earliest_ns >= before - 400000200);
	cr_expect(time.earliest_ns < before - 400000000 + 1000000000);
}

Test(library, a_dead_daemon_shows)
{
	struct clock_model model = model_of(now_ns(), 0, 10000000000);
	struct escapement_time time = read_with(&model, 0);
	int64_t wide = time.latest_ns - time.earliest_ns;

	cr_expect_eq(time.status, ESCAPEMENT_HOLDOVER);
	cr_expect(wide > 200 + 2 * 240 && wide < 2000, "ten seconds alone: %lld ns",
		  (long long)wide);
	model = model_of(now_ns(), 0, 36000000000000);
	time = read_with(&model, 0);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING, "ten hours alone are worth nothing");
	cr_expect_eq(time.latest_ns, 0);
}

Test(library, free_running_has_no_time)
{
	struct clock_model model = model_of(now_ns(), 0, 0);
	struct escapement_time time;

	model.state = CLOCK_FREE_RUNNING;
	time = read_with(&model, 0);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING);
}

Test(library, the_page_outlives_the_daemon)
{
	struct clock_model model = model_of(now_ns(), 5, 0);
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	struct escapement_time time;
	struct stat first, second;

	cr_assert_eq(stat(path, &first), 0);
	cr_expect_eq(first.st_mode & 0777, 0644);
	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	clockpage_close(page);
	page = open_page(0, 0);
	cr_assert_eq(stat(path, &second), 0);
	cr_expect_eq(first.st_ino, second.st_ino, "readers keep what they have mapped");
	clockpage_write(page, &model, 0);
	cr_assert_eq(escapement_now(clock, &time), 0);
	cr_expect_eq(time.status, ESCAPEMENT_SYNCED);
	clockpage_close(page);
	page = open_page(17, 0);
	cr_assert_eq(escapement_now(clock, &time), 0);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING, "a model of another local clock");
	escapement_clock_close(clock);
	clockpage_close(page);
}

Test(library, a_foreign_file_is_replaced_and_not_read)
{
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	char bytes[CLOCKPAGE_BYTES] = "hello";
	int fd;

	clockpage_close(page);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	cr_expect_eq(escapement_clock_open(&clock, path), -EPROTO);
	page = open_page(0, 0);
	cr_expect_eq(escapement_clock_open(&clock, path), 0);
	escapement_clock_close(clock);
	clockpage_close(page);
	cr_assert_eq(truncate(path, 10), 0);
	cr_expect_eq(escapement_clock_open(&clock, path), -EPROTO);
}

Test(library, a_page_left_locked_is_detected)
{
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	struct escapement_time time;

	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	/* As a daemon that was killed in the middle leaves it. */
	int fd = open(path, O_RDWR);
	uint32_t odd = 1;
	cr_assert_eq(pwrite(fd, &odd, 4, offsetof(struct clockpage_layout, sequence)), 4);
	close(fd);
	cr_expect_eq(escapement_now(clock, &time), -EAGAIN);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING);
	clockpage_close(page);
	page = open_page(0, 0);
	cr_expect_eq(escapement_now(clock, &time), 0, "the next daemon mends it");
	escapement_clock_close(clock);
	clockpage_close(page);
}

/* All fields of a model have one number: a torn read would mix two. */
static volatile bool writing;

static void *write_models(void *context)
{
	struct clockpage_layout *page = context;

	for (int64_t i = 1; writing; i++) {
		struct clock_model model = model_of(now_ns(), i % 2 ? 0 : 1000000000000000, 0);

		clockpage_write(page, &model, 0);
	}
	return NULL;
}

Test(library, a_read_is_never_torn)
{
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	struct escapement_time time;
	pthread_t writer;
	uint64_t reads = 0;

	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	writing = true;
	cr_assert_eq(pthread_create(&writer, NULL, write_models, page), 0);
	for (int i = 0; i < 300000; i++) {
		int64_t local = now_ns(), middle, away;

		if (escapement_now(clock, &time) || time.status != ESCAPEMENT_SYNCED)
			continue;
		reads++;
		middle = time.earliest_ns + (time.latest_ns - time.earliest_ns) / 2;
		away = middle - local;
		if (away > 500000000000000)
			away -= 1000000000000000;
		cr_assert(away > -1000000000 && away < 10000000000, "%lld", (long long)away);
	}
	writing = false;
	pthread_join(writer, NULL);
	cr_expect(reads > 1000);
	escapement_clock_close(clock);
	clockpage_close(page);
}

Test(library, a_suspension_since_the_model)
{
	struct clock_model model = model_of(now_ns(), 0, 0);
	struct clockpage_layout *page = open_page(0, 0);
	struct escapement_clock *clock;
	struct escapement_time time;

	cr_assert_eq(escapement_clock_open(&clock, path), 0);
	clockpage_write(page, &model, time_suspended_ns());
	cr_assert_eq(escapement_now(clock, &time), 0);
	cr_expect_eq(time.status, ESCAPEMENT_SYNCED);
	/* As if the machine had been suspended for two seconds since. */
	page->suspended_ns -= 2000000000;
	cr_assert_eq(escapement_now(clock, &time), 0);
	cr_expect_eq(time.status, ESCAPEMENT_FREE_RUNNING);
	cr_expect_eq(time.earliest_ns, 0);
	escapement_clock_close(clock);
	clockpage_close(page);
}
