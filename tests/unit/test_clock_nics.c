// SPDX-License-Identifier: BSD-2-Clause
/* Timestamps of several NICs: what is shown of their difference, from when on, and what the bound
 * has of it. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/json.h"
#include "clock/internal.h"
#include "core/core.h"

#define NICS 3
#define ROUNDS 8 /* two seconds */

static struct config config;
static struct core core = {.config = &config};
static struct clock the_clock;
static struct clock_edge *edges[NICS];

/* A clock that is fabric time, an edge of each NIC to a host whose clock is it too. */
static void begin(void)
{
	static const char *const names[NICS] = {"eth1", "eth2", "eth3"};

	the_clock = (struct clock){.core = &core, .suspended_ns = time_suspended_ns()};
	hostclock_init(&the_clock.host,
		       &(struct hostclock_config){.degree = 1, .round_ns = HOSTCLOCK_ROUND_NS}, 0);
	the_clock.host.consensus.has_line = true;
	cr_assert_eq(events_new(&core.events, 64, NULL), 0);
	for (unsigned int i = 0; i < NICS; i++) {
		const struct clock_edge_config edge_config = {.plane = FLEET_PLANE_BACKEND,
							      .id = 2,
							      .host = "h2",
							      .part = "backend",
							      .port = i,
							      .interface = names[i],
							      .nic = i};

		edges[i] = clock_add_edge(&the_clock, &edge_config);
		cr_assert_not_null(edges[i]);
		edges[i]->view.state = CLOCK_SYNCED;
		edges[i]->view_known = true;
		edges[i]->fit.estimate.valid = true;
	}
}

static void end(void)
{
	for (unsigned int i = 0; i < NICS; i++)
		clock_remove_edge(&the_clock, edges[i]);
	events_free(core.events);
}

TestSuite(clock_nics, .init = begin, .fini = end);

/* A round in which the edges of the NICs show these errors of the clock. */
static void compare(int64_t first_ns, int64_t second_ns, int64_t third_ns)
{
	const int64_t errors_ns[NICS] = {first_ns, second_ns, third_ns};

	for (unsigned int i = 0; i < NICS; i++)
		edges[i]->fit.estimate.offset_ns = errors_ns[i];
	clock_compare_nics(&the_clock, 0);
}

static double offset_of(unsigned int port)
{
	double offset_ns;
	bool differs;

	clock_nic_offset(&the_clock, port, &offset_ns, &differs);
	return offset_ns;
}

static bool is_shown(unsigned int port)
{
	double offset_ns;
	bool differs;

	return clock_nic_offset(&the_clock, port, &offset_ns, &differs);
}

static bool is_different(unsigned int port)
{
	double offset_ns;
	bool differs;

	clock_nic_offset(&the_clock, port, &offset_ns, &differs);
	return differs;
}

/* Fits of few probes are far off: the first of them is an eighth of what is shown. */
Test(clock_nics, an_offset_is_shown_once_it_is_a_mean)
{
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		cr_expect_not(is_shown(2), "round %u", round);
		compare(0, 0, round == 1 ? -900 : -100);
	}
	cr_expect(is_shown(2));
	cr_expect_float_eq(offset_of(2), 200, 1e-6, "%f ns", offset_of(2));
	cr_expect_float_eq(offset_of(0), 0, 1e-6);
	compare(0, 0, -100);
	cr_expect_float_eq(offset_of(2), 200 - 100.0 / ROUNDS, 1e-6, "smoothed from then on");
	compare(0, 0, -100);
	cr_expect_float_eq(offset_of(2), 187.5 - 87.5 / ROUNDS, 1e-6);
}

Test(clock_nics, the_bound_has_all_that_they_differ_by_now_or_in_the_mean)
{
	cr_expect_eq(clock_nics_spread_ns(&the_clock), 0, "nothing is known");
	for (unsigned int round = 0; round < ROUNDS; round++)
		compare(0, 200, -300);
	cr_expect_float_eq(clock_nics_spread_ns(&the_clock), 500, 1e-6);
	compare(0, 200, -700);
	cr_expect_float_eq(clock_nics_spread_ns(&the_clock), 900, 1e-6, "at once, the mean is 350");
	compare(0, 0, 0);
	cr_expect_float_eq(clock_nics_spread_ns(&the_clock), 7 * (200 + 350) / 8.0, 1e-6,
			   "and less of it slowly");
}

Test(clock_nics, one_that_differs_is_left_out_after_two_seconds_and_taken_back_so)
{
	for (unsigned int round = 0; round < ROUNDS; round++)
		compare(0, 0, 0);
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		cr_expect_not(is_different(2), "round %u", round);
		compare(0, 0, -5000);
	}
	cr_expect(is_different(2));
	cr_expect_float_eq(offset_of(2), 5000, 1e-6, "nothing of before");
	cr_expect_eq(clock_nics_spread_ns(&the_clock), 0, "it is not in use");
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		cr_expect(is_different(2), "round %u", round);
		compare(0, 0, -100);
	}
	cr_expect_not(is_different(2));
	cr_expect_float_eq(offset_of(2), 100, 1e-6);
}

Test(clock_nics, an_exception_of_some_rounds_is_none)
{
	for (unsigned int round = 0; round < 3 * ROUNDS; round++)
		compare(0, 0, round % ROUNDS ? -5000 : 0);
	cr_expect_not(is_different(2));
}
