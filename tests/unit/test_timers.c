// SPDX-License-Identifier: BSD-2-Clause
/* Timers of the core. Those that must not be due are so in minutes: a busy machine is late. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "core/core.h"

#define MS_NS 1000000ull
#define FAR_NS (600 * 1000 * MS_NS)

static struct core core;
static char ran[16];
static struct core_timer *first, *second;

static void begin(void)
{
	core = (struct core){};
	cr_assert_geq(sd_event_new(&core.loop), 0);
	first = second = NULL;
	memset(ran, 0, sizeof(ran));
}

static void end(void)
{
	core_timer_free(first);
	core_timer_free(second);
	cr_expect_null(core.timers);
	cr_expect_null(core.wake, "the last timer takes the source with it");
	sd_event_unref(core.loop);
}

TestSuite(timers, .init = begin, .fini = end);

static uint64_t ran_as(const char *name, uint64_t again_ns)
{
	strncat(ran, name, 1);
	return again_ns;
}

static uint64_t run_once(void *name, uint64_t now_ns)
{
	cr_expect_gt(now_ns, 0);
	return ran_as(name, 0);
}

static uint64_t run_at_once_again(void *name, uint64_t now_ns)
{
	(void)now_ns;
	return ran_as(name, 1);
}

static uint64_t run_far(void *name, uint64_t now_ns)
{
	(void)now_ns;
	return ran_as(name, FAR_NS);
}

static uint64_t free_first(void *name, uint64_t now_ns)
{
	(void)now_ns;
	core_timer_free(first);
	first = NULL;
	return ran_as(name, 1);
}

/* In place of itself another one, of minutes. */
static uint64_t replace_first(void *name, uint64_t now_ns)
{
	(void)now_ns;
	core_timer_free(first);
	cr_expect_eq(core_timer_new(&core, &first, FAR_NS, 0, run_once, "x"), 0);
	return ran_as(name, 1);
}

static void new_timer(struct core_timer **out, uint64_t first_ns, uint64_t slack_ns,
		      core_timer_fn *fn, char *name)
{
	cr_assert_eq(core_timer_new(&core, out, first_ns, slack_ns, fn, name), 0);
}

/* How often the loop dispatched something until nothing is left to do. */
static int dispatched(void)
{
	int times = 0;

	while (sd_event_run(core.loop, 0) > 0)
		times++;
	return times;
}

Test(timers, one_wake_runs_all_that_are_due_the_first_one_first)
{
	struct core_timer *third;

	new_timer(&third, FAR_NS, 0, run_once, "x");
	new_timer(&second, 20 * MS_NS, 0, run_once, "b");
	new_timer(&first, 5 * MS_NS, FAR_NS, run_once, "a");
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_str_eq(ran, "ab", "the first one waits for the second, as its slack allows");
	cr_expect_eq(dispatched(), 0, "each once");
	core_timer_free(third);
}

Test(timers, slack_is_waited_for_and_not_what_comes_later)
{
	uint64_t begun_ns = time_local_ns();

	new_timer(&second, FAR_NS, 0, run_once, "x");
	new_timer(&first, 5 * MS_NS, 10 * MS_NS, run_once, "a");
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_geq(time_local_ns() - begun_ns, 5 * MS_NS);
	cr_expect_str_eq(ran, "a");
}

Test(timers, one_that_is_due_at_once_again_lets_the_loop_go_on)
{
	new_timer(&first, 0, 0, run_at_once_again, "a");
	new_timer(&second, 0, 0, run_once, "b");
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_eq(strlen(ran), 2, "%s: each once in one wake", ran);
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_eq(strlen(ran), 3, "%s", ran);
	cr_expect_eq(ran[2], 'a');
}

Test(timers, freed_by_its_own_function)
{
	new_timer(&first, 0, 0, free_first, "a");
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_eq(dispatched(), 0);
	cr_expect_str_eq(ran, "a");
	new_timer(&first, 0, 0, replace_first, "b");
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_eq(dispatched(), 0, "the new one is not due");
	cr_expect_str_eq(ran, "ab");
}

Test(timers, freed_by_another_that_runs_before_it)
{
	uint64_t begun_ns = time_local_ns();

	new_timer(&second, 0, 0, free_first, "a");
	new_timer(&first, MS_NS, 0, run_once, "x");
	while (time_local_ns() < begun_ns + 2 * MS_NS)
		;
	cr_expect_eq(sd_event_run(core.loop, UINT64_MAX), 1);
	cr_expect_str_eq(ran, "a", "both were due");
}

Test(timers, run_now)
{
	new_timer(&first, 0, 0, run_far, "a");
	core_timer_run(first);
	cr_expect_str_eq(ran, "a");
	cr_expect_eq(dispatched(), 0, "it is due in minutes now");
	core_timer_run(first);
	cr_expect_str_eq(ran, "aa");
	new_timer(&second, 0, 0, run_once, "b");
	core_timer_run(second);
	cr_expect_eq(dispatched(), 0, "it has ended");
	core_timer_run(second);
	cr_expect_str_eq(ran, "aabb");
}

static atomic_bool ended;

static void *busy(void *unused)
{
	while (!ended)
		;
	return unused;
}

/* What `loop_delayed` has of a loop that other programs kept from running. */
Test(timers, wait_for_a_cpu)
{
	int fd = core_open_cpu_wait();
	uint64_t begun_ns = time_local_ns(), wait_ns = core_cpu_wait_ns(fd), took_ns;
	cpu_set_t one;
	pthread_t other;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_eq(pthread_create(&other, NULL, busy, NULL), 0, "on the same CPU");
	while (time_local_ns() < begun_ns + 400 * MS_NS)
		;
	wait_ns = core_cpu_wait_ns(fd) - wait_ns;
	close(fd);
	took_ns = time_local_ns() - begun_ns;
	ended = true;
	pthread_join(other, NULL);
	cr_expect_gt(wait_ns, took_ns / 8, "about half of the time: %lu ns", wait_ns);
	cr_expect_lt(wait_ns, took_ns, "%lu ns of %lu", wait_ns, took_ns);
}
