// SPDX-License-Identifier: BSD-2-Clause
/*
 * Flaps and alarms of a link by its readings, with times and counters of the test. A seed as
 * argument of the environment, ESCAPEMENT_SEED, repeats a run.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/internal.h"
#include "tests/lib/rng.h"

#define S 1000000000ull
#define MIN (60 * S)
#define HOUR LINK_HOUR_NS
#define SETTLE (30 * S)
#define BASE (100 * HOUR) /* since the boot */

static const struct link_keys defaults = {
	.thresholds = {.list = {{8, LINK_HOUR_NS}}, .count = 1},
	.stable_after_ns = LINK_HOUR_NS,
	.down_after_ns = 10 * S,
	.settle_ns = SETTLE,
};

/* A NIC, as the kernel has it, and the daemon's entry. */
struct world {
	struct link_carrier nic;
	struct esc_link link;
	struct link_change change;
	uint64_t now_ns;
};

static enum link_step read_now(struct world *world, const struct link_keys *keys)
{
	link_take(&world->link, &world->nic, world->now_ns, keys->settle_ns, &world->change);
	return link_evaluate(&world->link, keys, world->now_ns);
}

/* Up for long, and known. */
static struct world begin(void)
{
	struct world world = {
		.nic = {.ifindex = 7,
			.admin_up = true,
			.carrier = true,
			.up_count = 1,
			.down_count = 1,
			.identity = 11},
		.now_ns = BASE,
	};

	read_now(&world, &defaults);
	return world;
}

static void flap(struct world *world, uint32_t times)
{
	world->nic.down_count += times;
	world->nic.up_count += times;
}

/* A new daemon has the map and nothing else. */
static void restart(struct world *world)
{
	struct world after = {.nic = world->nic, .link = world->link, .now_ns = world->now_ns};

	memset(world, 0xee, sizeof(*world));
	*world = after;
}

/* --- the window --- */

static unsigned int resets, restarts_done;

static int by_time(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

/*
 * @flaps within an hour that begins at any second of the machine's hours; five restarts between
 * them, and a reset of the counters. Returns whether there was an alarm.
 */
static bool flaps_raise(struct rng *rng, unsigned int flaps, uint64_t phase_ns, uint64_t span_ns)
{
	struct world world = begin();
	uint64_t at_ns[16], start_ns = BASE + HOUR + phase_ns;
	unsigned int reset_at = 1 + rng_below(rng, flaps - 1), raised = 0;
	uint32_t restarts = 0;

	for (unsigned int i = 0; i < flaps; i++)
		at_ns[i] = start_ns + rng_below(rng, span_ns);
	at_ns[0] = start_ns;
	at_ns[1] = start_ns + span_ns - 1; /* the whole of it */
	qsort(at_ns, flaps, sizeof(at_ns[0]), by_time);
	for (unsigned int i = 0; i < flaps; i++) {
		if (i == reset_at && at_ns[i] > at_ns[i - 1] + SETTLE + 2) {
			/* The driver is loaded again, with its counters at 0 and another index. */
			world.now_ns = at_ns[i - 1] + 1;
			world.nic.ifindex++;
			world.nic.up_count = world.nic.down_count = 1;
			read_now(&world, &defaults);
			cr_assert(world.change.reset);
			resets++;
		}
		for (; restarts < 5 && rng_below(rng, 3); restarts++, restarts_done++)
			restart(&world);
		world.now_ns = at_ns[i];
		flap(&world, 1);
		raised += read_now(&world, &defaults) == LINK_RAISED;
	}
	cr_assert_leq(raised, 1, "one alarm, once");
	cr_assert_eq(world.link.flaps, flaps);
	return world.link.alarm_ns != 0;
}

Test(link_window, nine_in_an_hour_raise_it_and_eight_do_not_at_any_phase)
{
	const char *seed = getenv("ESCAPEMENT_SEED");
	struct rng rng;

	rng_seed(&rng, seed ? strtoull(seed, NULL, 0) : 20261124);
	for (uint64_t second = 0; second < 3600; second++) {
		uint64_t phase_ns = second * S + rng_below(&rng, S);

		cr_assert(flaps_raise(&rng, 9, phase_ns, HOUR), "9 within an hour, %lu s past it",
			  (unsigned long)second);
		cr_assert_not(flaps_raise(&rng, 8, phase_ns, HOUR), "8, %lu s past it",
			      (unsigned long)second);
		/* The ninth comes an hour after the first: no hour has nine. */
		cr_assert_not(flaps_raise(&rng, 9, phase_ns, HOUR + 1), "9 in more, %lu s past it",
			      (unsigned long)second);
	}
	cr_expect_gt(resets, 3 * 3600 * 3 / 4, "%u runs had a reset", resets);
	cr_expect_gt(restarts_done, 3 * 3600 * 4, "%u restarts", restarts_done);
}

/* Against a list of all times, with messages that show several flaps. */
Test(link_window, counts_are_those_of_a_list_of_all_flaps)
{
	static uint64_t times[60000];
	static const uint64_t spans_ns[] = {S, MIN, HOUR, 12 * HOUR};
	struct rng rng;

	rng_seed(&rng, 3);
	for (int run = 0; run < 200; run++) {
		struct world world = begin();
		size_t count = 0, messages = 1 + rng_below(&rng, ESC_LINK_FLAPS);
		uint64_t gap_ns = 1 + rng_below(&rng, 10 * MIN);

		for (size_t i = 0; i < messages; i++) {
			uint32_t flaps = 1 + rng_below(&rng, rng_below(&rng, 2) ? 1 : 200);

			world.now_ns += rng_below(&rng, gap_ns);
			flap(&world, flaps);
			read_now(&world, &defaults);
			while (flaps--)
				times[count++] = world.now_ns;
			for (size_t k = 0; k < 4; k++) {
				uint64_t expected = 0, since_ns = world.now_ns - spans_ns[k];

				for (size_t at = count; at > 0 && times[at - 1] > since_ns; at--)
					expected++;
				cr_assert_eq(link_count(&world.link, world.now_ns, spans_ns[k]),
					     expected);
			}
		}
		cr_assert_eq(world.link.flaps, count);
	}
}

Test(link_window, a_full_window_loses_no_count_above_the_largest_threshold)
{
	struct link_keys keys = defaults;
	struct world world = begin();

	keys.thresholds.list[0].more_than = LINK_MORE_THAN_MAX;
	for (uint32_t i = 1; i <= 100000; i++) {
		world.now_ns += 20 * 1000000;
		flap(&world, 1);
		cr_assert_eq(read_now(&world, &keys) == LINK_RAISED, i == LINK_MORE_THAN_MAX + 1);
	}
	cr_expect_eq(world.link.flaps, 100000);
	cr_expect_eq(link_count(&world.link, world.now_ns, HOUR), 100000, "all within the hour");
	world.now_ns += 2 * HOUR;
	cr_expect_eq(link_count(&world.link, world.now_ns, HOUR), 0);
}

Test(link_window, a_second_threshold_and_any)
{
	struct link_keys keys = defaults;
	struct world world = begin();

	keys.thresholds = (struct link_thresholds){.list = {{8, HOUR}, {3, 12 * HOUR}}, .count = 2};
	for (int i = 1; i <= 4; i++) {
		world.now_ns += 3 * HOUR;
		flap(&world, 1);
		cr_expect_eq(read_now(&world, &keys), i == 4 ? LINK_RAISED : LINK_NOTHING, "%d", i);
	}
	cr_expect_eq(world.link.alarm_more_than, 3);
	cr_expect_eq(world.link.alarm_within_ns, 12 * HOUR);
	keys.thresholds = (struct link_thresholds){.list = {{0, HOUR}}, .count = 1};
	world = begin();
	flap(&world, 1);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &keys), LINK_RAISED);
}

/* --- what is no flap --- */

Test(link_window, boot_planned_work_and_reloads_raise_nothing)
{
	struct link_keys keys = defaults;
	struct world world = {
		.nic = {.ifindex = 2, .admin_up = true, .up_count = 5, .down_count = 6},
		.now_ns = 20 * S};

	keys.thresholds.list[0].more_than = 0; /* any */
	read_now(&world, &keys);
	cr_expect_eq(world.link.flaps, 0, "what was before the first reading");
	world.now_ns = 25 * S;
	flap(&world, 3);
	read_now(&world, &keys);
	cr_expect_eq(world.change.planned, 3, "25 s after the boot");
	/* An operator sets it down, and up again; it trains. */
	world.nic.carrier = true;
	world.nic.up_count++;
	world.now_ns = HOUR;
	read_now(&world, &keys);
	world.nic = (struct link_carrier){.ifindex = 2, .up_count = 9, .down_count = 10};
	world.now_ns += S;
	read_now(&world, &keys);
	cr_expect_eq(world.change.planned, 1);
	world.nic.admin_up = true;
	world.now_ns += HOUR;
	flap(&world, 4);
	read_now(&world, &keys);
	cr_expect_eq(world.change.planned, 4, "until it is set up");
	flap(&world, 2);
	world.nic.carrier = true;
	world.nic.up_count++;
	world.now_ns += 5 * S;
	read_now(&world, &keys);
	cr_expect_eq(world.change.planned, 2, "5 s after it was set up");
	/* Another driver: new counters, and the same index or another one. */
	for (unsigned int i = 0; i < 2; i++) {
		world.now_ns += HOUR;
		world.nic.ifindex += i;
		world.nic.up_count = 1 + 2 * i;
		world.nic.down_count = 1 + 2 * i;
		read_now(&world, &keys);
		cr_expect(world.change.reset);
		world.now_ns += 29 * S;
		flap(&world, 1);
		read_now(&world, &keys);
		cr_expect_eq(world.change.planned, 1, "29 s after it was loaded");
	}
	cr_expect_eq(world.link.resets, 2);
	cr_expect_eq(world.link.flaps, 0);
	cr_expect_eq(world.link.alarm_ns, 0);
	/* Long after all that a flap is one. */
	world.now_ns += HOUR;
	flap(&world, 1);
	cr_expect_eq(read_now(&world, &keys), LINK_RAISED);
}

/* Of the losses up to a set down the last one is the operator's. */
Test(link_window, a_flap_before_it_was_set_down_counts)
{
	struct world world = begin();

	flap(&world, 2);
	world.nic.down_count++;
	world.nic.admin_up = world.nic.carrier = false;
	world.now_ns += HOUR;
	read_now(&world, &defaults);
	cr_expect_eq(world.change.flaps, 2);
	cr_expect_eq(world.change.planned, 1);
}

Test(link_window, another_nic_of_the_name_has_no_flaps)
{
	struct world world = begin();

	flap(&world, 9);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
	world.nic.identity = 12;
	world.nic.ifindex = 9;
	read_now(&world, &defaults);
	cr_expect(world.change.replaced);
	cr_expect_eq(world.link.alarm_ns, 0);
	cr_expect_eq(link_count(&world.link, world.now_ns, HOUR), 0);
}

/* --- alarms: what users of other monitors reported --- */

/*
 * gpud 1247: a port that flapped and is stable since keeps a node drained until an operator comes.
 * Its remedy counts from the recovery, not from the flap: one that goes on flapping stays reported.
 */
Test(link_window, gpud_1247_ends_when_stable_and_not_while_it_flaps)
{
	struct world world = begin();

	flap(&world, 9);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
	for (int i = 0; i < 48; i++) {
		world.now_ns += HOUR - S;
		flap(&world, 1);
		cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
		cr_expect_neq(world.link.alarm_ns, 0, "it flaps each hour");
	}
	restart(&world);
	world.now_ns += HOUR - 1;
	cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
	world.now_ns += 1;
	cr_expect_eq(read_now(&world, &defaults), LINK_STABLE);
	cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING, "it does not come back");
}

/* The same, with a window that is longer than the time until it is stable. */
Test(link_window, gpud_1247_flaps_of_before_raise_it_no_more)
{
	struct link_keys keys = defaults;
	struct world world = begin();

	keys.thresholds = (struct link_thresholds){.list = {{3, 12 * HOUR}}, .count = 1};
	flap(&world, 4);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &keys), LINK_RAISED);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &keys), LINK_STABLE);
	flap(&world, 3);
	world.now_ns += S;
	cr_expect_eq(read_now(&world, &keys), LINK_NOTHING);
	cr_expect_eq(link_count(&world.link, world.now_ns, 12 * HOUR), 7, "they are still shown");
	flap(&world, 1);
	world.now_ns += S;
	cr_expect_eq(read_now(&world, &keys), LINK_RAISED);
	cr_expect_eq(world.link.alarm_flaps, 4);
}

/* gpud 1110: the alarm goes as soon as the port is back, before it was acknowledged. */
Test(link_window, gpud_1110_stays_when_the_port_is_back)
{
	struct world world = begin();

	flap(&world, 9); /* short drops: the carrier is there at each reading */
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
	for (int second = 0; second < 3599; second++) {
		world.now_ns += S;
		cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
		cr_expect_neq(world.link.alarm_ns, 0);
	}
}

Test(link_window, it_is_not_stable_without_a_carrier)
{
	struct world world = begin();

	flap(&world, 9);
	world.nic.down_count++;
	world.nic.carrier = false;
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
	world.now_ns += 100 * HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
	link_leave(&world.link);
	cr_expect_eq(link_evaluate(&world.link, &defaults, world.now_ns), LINK_NOTHING);
}

Test(link_window, an_acknowledgement_ends_it_over_restarts)
{
	struct world world = begin();

	cr_expect_not(link_acknowledge(&world.link, world.now_ns), "there is none");
	flap(&world, 9);
	world.now_ns += HOUR;
	read_now(&world, &defaults);
	world.now_ns += S;
	cr_expect(link_acknowledge(&world.link, world.now_ns));
	restart(&world);
	world.now_ns += S;
	flap(&world, 8);
	cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
	world.now_ns += S;
	flap(&world, 1);
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
}

/* --- ports down by design --- */

/* Without a carrier since the boot; what other monitors made of such ports. */
static bool is_reported(bool had_carrier, bool member, bool admin_up)
{
	struct link_entry entry = {.member = member};
	struct world world = {.nic = {.ifindex = 3,
				      .admin_up = admin_up,
				      .down_count = 1,
				      .up_count = had_carrier},
			      .now_ns = 5 * S};
	bool down = false;

	for (int minute = 0; minute < 24 * 60; minute++) {
		cr_expect_eq(read_now(&world, &defaults), LINK_NOTHING);
		entry.link = world.link;
		down = down ||
		       link_is_down(&world.link, &defaults, link_is_expected(&entry), world.now_ns);
		world.now_ns += MIN;
		if (minute % 100 == 0)
			restart(&world);
	}
	cr_expect_eq(world.link.flaps, 0);
	return down;
}

Test(link_window, ports_down_by_design_are_not_reported)
{
	static const struct {
		const char *report;
		bool had_carrier, member, admin_up, down;
	} ports[] = {
		/* A second port that the provider disables, without an address: state DOWN,
		 * phys_state Disabled. Reported as fatal at the first poll. */
		{"NVSentinel 1361: unprovisioned port of a dual-port card", false, false, true,
		 false},
		{"NVSentinel 1361: the same, set down", false, false, false, false},
		/* Its remedy: a port that was never seen in use needs positive evidence. */
		{"NVSentinel 1462: first seen down, no evidence of peers", false, false, true,
		 false},
		{"NVSentinel 1462: first seen down, peers are told its address", false, true, true,
		 true},
		{"NVSentinel 1462: it was up", true, false, true, true},
		/* A management NIC and ports that were renumbered by a reboot. */
		{"NVSentinel 1529: set down, and members have its address", false, true, false,
		 false},
	};

	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		cr_expect_eq(is_reported(ports[i].had_carrier, ports[i].member, ports[i].admin_up),
			     ports[i].down, "%s", ports[i].report);
}

/* NVSentinel 1529: a latch that outlives the reboot. The map is empty then, and so is the entry. */
Test(link_window, nvsentinel_1529_nothing_outlives_a_reboot)
{
	struct world world = begin(), after = {.nic = world.nic, .now_ns = 40 * S};

	flap(&world, 9);
	world.now_ns += HOUR;
	cr_expect_eq(read_now(&world, &defaults), LINK_RAISED);
	after.nic.up_count = after.nic.down_count = 12; /* while switches came up */
	cr_expect_eq(read_now(&after, &defaults), LINK_NOTHING);
	cr_expect_eq(after.link.alarm_ns, 0);
	cr_expect_eq(after.link.flaps, 0);
}

/* --- what the reading shows besides --- */

Test(link_window, loss_and_return_of_the_carrier)
{
	struct world world = begin();

	world.nic.down_count++;
	world.nic.carrier = false;
	world.now_ns += HOUR;
	read_now(&world, &defaults);
	cr_expect_eq(world.change.flaps, 1);
	cr_expect(link_is_lost(&world.link, true, world.now_ns), "at once");
	cr_expect_not(link_is_lost(&world.link, false, world.now_ns), "down by design");
	world.now_ns += 9 * S;
	cr_expect_not(link_is_down(&world.link, &defaults, true, world.now_ns));
	world.now_ns += S;
	cr_expect(link_is_down(&world.link, &defaults, true, world.now_ns));
	world.nic.up_count++;
	world.nic.carrier = true;
	read_now(&world, &defaults);
	cr_expect(world.change.returned);
	cr_expect_eq(world.change.lasted_ns, 10 * S);
	cr_expect_not(link_is_down(&world.link, &defaults, true, world.now_ns));
	cr_expect_not(link_is_lost(&world.link, true, world.now_ns));
}

/* What is planned is no loss: set down, and within `settle` of being set up. */
Test(link_window, a_planned_loss_is_no_problem)
{
	struct world world = begin();

	world.nic.down_count++;
	world.nic.admin_up = world.nic.carrier = false;
	world.now_ns += HOUR;
	read_now(&world, &defaults);
	cr_expect_not(link_is_lost(&world.link, true, world.now_ns));
	world.nic.admin_up = true;
	world.now_ns += S;
	read_now(&world, &defaults);
	cr_expect_not(link_is_lost(&world.link, true, world.now_ns + SETTLE - 1));
	cr_expect(link_is_lost(&world.link, true, world.now_ns + SETTLE), "it did not come back");
}
