// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>

#include "pacing/nicguard.h"

#define MS 1000000ull
#define RETURN (5000 * MS)
#define DEAD (100 * MS)

Test(nicguard, falls_at_once_and_returns_when_it_was_well_for_long_enough)
{
	struct nicguard guard = {};

	cr_expect(nicguard_fall(&guard, RETURN, 1000 * MS));
	cr_expect_not(nicguard_fall(&guard, RETURN, 1001 * MS), "it is told once");
	cr_expect_not(nicguard_up(&guard, 2000 * MS));
	cr_expect_not(nicguard_up(&guard, 6999 * MS));
	cr_expect(nicguard_up(&guard, 7000 * MS));
	cr_expect_not(guard.down);
	cr_expect_not(nicguard_up(&guard, 7001 * MS), "it is told once");
}

Test(nicguard, a_fall_while_it_is_held_begins_the_hold_anew)
{
	struct nicguard guard = {};

	nicguard_fall(&guard, RETURN, 1000 * MS);
	nicguard_up(&guard, 2000 * MS);
	nicguard_fall(&guard, RETURN, 6000 * MS);
	cr_expect_not(nicguard_up(&guard, 7100 * MS));
	cr_expect_not(nicguard_up(&guard, 12000 * MS));
	cr_expect(nicguard_up(&guard, 12100 * MS));
}

Test(nicguard, one_that_flaps_is_held_longer_each_time_up_to_a_bound)
{
	struct nicguard guard = {};
	uint64_t now = 1000 * MS, falls = 0, hold = 0;

	for (int i = 0; i < 12; i++) {
		falls += nicguard_fall(&guard, RETURN, now);
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
	nicguard_fall(&guard, RETURN, now);
	cr_expect_eq(guard.hold_ns, RETURN, "it is forgiven after a good while");
}

/* Two ways probed side by side every 20 ms, one of which answers until @until. */
static uint64_t silent_at(uint64_t until_ns, bool other_answers)
{
	struct nicguard_probes one, other;
	uint64_t now, newest;

	nicguard_begin(&one, 0);
	nicguard_begin(&other, 0);
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

Test(nicguard, a_way_is_silent_only_beside_one_that_answers)
{
	cr_expect_eq(silent_at(500 * MS, true), 600 * MS);
	cr_expect_eq(silent_at(5000 * MS, true), 0);
	cr_expect_eq(silent_at(500 * MS, false), 0, "nobody answers: the peer may be gone");
	cr_expect_eq(silent_at(0, true), 100 * MS, "one that never answered");
}

Test(nicguard, answers_that_are_late_or_forged_count_for_nothing)
{
	struct nicguard_probes probes;

	nicguard_begin(&probes, 0);
	for (int i = 1; i <= 70; i++)
		nicguard_send(&probes, i * MS);
	cr_expect_not(nicguard_reply(&probes, 70), "not sent yet");
	cr_expect_not(nicguard_reply(&probes, 1), "forgotten");
	cr_expect_not(nicguard_reply(&probes, UINT32_MAX));
	cr_expect(nicguard_reply(&probes, 60));
	cr_expect_eq(probes.replied_ns, 61 * MS);
	cr_expect_eq(probes.unreplied, 9);
	cr_expect_not(nicguard_reply(&probes, 60), "twice");
	cr_expect_not(nicguard_reply(&probes, 59), "older");
}
