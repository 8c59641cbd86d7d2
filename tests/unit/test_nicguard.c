// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>

#include "pacing/nicguard.h"

#define MS 1000000ull
#define RETURN (5000 * MS)
#define DEAD (100 * MS)

Test(nicguard, falls_at_once_and_returns_when_it_was_well_for_long_enough)
{
	struct nicguard guard = {};

	cr_expect(nicguard_fail(&guard, RETURN, 1000 * MS));
	cr_expect_not(nicguard_fail(&guard, RETURN, 1001 * MS), "it is reported once");
	cr_expect_not(nicguard_up(&guard, 2000 * MS));
	cr_expect_not(nicguard_up(&guard, 6999 * MS));
	cr_expect(nicguard_up(&guard, 7000 * MS));
	cr_expect_not(guard.down);
	cr_expect_not(nicguard_up(&guard, 7001 * MS), "it is reported once");
}

Test(nicguard, a_fall_while_it_is_held_begins_the_hold_anew)
{
	struct nicguard guard = {};

	nicguard_fail(&guard, RETURN, 1000 * MS);
	nicguard_up(&guard, 2000 * MS);
	nicguard_fail(&guard, RETURN, 6000 * MS);
	cr_expect_not(nicguard_up(&guard, 7100 * MS));
	cr_expect_not(nicguard_up(&guard, 12000 * MS));
	cr_expect(nicguard_up(&guard, 12100 * MS));
}

Test(nicguard, one_that_flaps_is_held_longer_each_time_up_to_a_bound)
{
	struct nicguard guard = {};
	uint64_t now = 1000 * MS, falls = 0, hold = 0;

	for (int i = 0; i < 12; i++) {
		falls += nicguard_fail(&guard, RETURN, now);
		cr_expect_geq(guard.hold_ns, hold);
		hold = guard.hold_ns;
		nicguard_up(&guard, now);
		now += hold;
		cr_expect(nicguard_up(&guard, now));
		now += 1000 * MS;
	}
	cr_expect_eq(falls, 12);
	cr_expect_eq(hold, NICGUARD_MOST * RETURN);
	now += NICGUARD_SOON * hold;
	nicguard_fail(&guard, RETURN, now);
	cr_expect_eq(guard.hold_ns, RETURN, "it is forgiven after a good while");
}

/* Two routes probed side by side every 20 ms, one of which replies until @until. */
static uint64_t silent_at(uint64_t until_ns, bool other_answers)
{
	struct nicguard_probes one, other;
	uint64_t now, newest;

	nicguard_begin(&one, UINT32_MAX - 3, 0); /* it wraps */
	nicguard_begin(&other, 0, 0);
	for (now = 20 * MS; now < 2000 * MS; now += 20 * MS) {
		uint32_t a = nicguard_send(&one, now), b = nicguard_send(&other, now);

		if (now <= until_ns)
			nicguard_reply(&one, a);
		if (other_answers)
			nicguard_reply(&other, b);
		newest = one.replied_ns > other.replied_ns ? one.replied_ns : other.replied_ns;
		if (nicguard_is_silent(&one, newest, DEAD))
			return now;
		if (other_answers)
			cr_expect_not(nicguard_is_silent(&other, newest, DEAD));
	}
	return 0;
}

Test(nicguard, a_route_is_silent_only_beside_one_that_replies)
{
	cr_expect_eq(silent_at(500 * MS, true), 600 * MS);
	cr_expect_eq(silent_at(5000 * MS, true), 0);
	cr_expect_eq(silent_at(500 * MS, false), 0, "no route replies: the peer may be down");
	cr_expect_eq(silent_at(0, true), 100 * MS, "one that never replied");
}

/* 70 probes from @first on, and replies to some. */
static void check_replies(uint32_t first)
{
	struct nicguard_probes probes;

	nicguard_begin(&probes, first, 0);
	for (unsigned int i = 1; i <= 3; i++)
		nicguard_send(&probes, i * MS);
	cr_expect_not(nicguard_reply(&probes, first - 1), "before the first");
	for (unsigned int i = 4; i <= 70; i++)
		cr_expect_eq(nicguard_send(&probes, i * MS), first + i - 1);
	cr_expect_not(nicguard_reply(&probes, first + 70), "not sent yet");
	cr_expect_not(nicguard_reply(&probes, first + 1), "forgotten");
	cr_expect_not(nicguard_reply(&probes, first + UINT32_MAX));
	cr_expect(nicguard_reply(&probes, first + 60), "from %u on", first);
	cr_expect_eq(probes.replied_ns, 61 * MS);
	cr_expect_eq(probes.unreplied, 9);
	cr_expect_not(nicguard_reply(&probes, first + 60), "twice");
	cr_expect_not(nicguard_reply(&probes, first + 59), "older");
}

Test(nicguard, replies_that_are_late_or_forged_count_for_nothing)
{
	const uint32_t firsts[] = {0,	      1, 0x80000000u - 30, UINT32_MAX - 62, UINT32_MAX - 30,
				   UINT32_MAX};

	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
		check_replies(firsts[i]);
}
