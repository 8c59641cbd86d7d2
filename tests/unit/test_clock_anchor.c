// SPDX-License-Identifier: BSD-2-Clause
/* TAI beside fabric time: measured in one place, handed on, never accepted from another. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/anchor.h"
#include "tests/lib/rng.h"

#define SECOND 1000000000ll

Test(clock_anchor, tai_is_read_within_its_bound)
{
	struct anchor_meter meter = {.count = 0};
	struct anchor_report word = {.sequence = 0};
	int64_t tai, bound;
	struct rng rng;

	rng_seed(&rng, 20240607);
	cr_assert_not(anchor_read(&word, 0, 10, &tai, &bound));
	for (int64_t s = 0; s < 40; s++) {
		int64_t fabric = 5000 + s * SECOND, noise = (int64_t)(20 * rng_normal(&rng));

		anchor_measure(&meter, fabric, fabric + 37 * SECOND + s * 800 + noise, 100, 7,
			       &word);
	}
	cr_assert(anchor_read(&word, 5000 + 45 * SECOND, 10, &tai, &bound));
	cr_assert_leq(llabs(tai - (5000 + 82 * SECOND + 45 * 800)), bound);
	cr_assert_leq(bound, 1000);
	cr_assert_not(anchor_read(&word, 5000 + 1000 * SECOND, 10, &tai, &bound));
}

Test(clock_anchor, a_set_of_tai_is_followed_at_once)
{
	struct anchor_meter meter = {.count = 0};
	struct anchor_report word = {.sequence = 0};
	int64_t tai, bound;

	for (int64_t s = 0; s < 20; s++)
		anchor_measure(&meter, s * SECOND, s * SECOND + (s < 15 ? 0 : 3600 * SECOND), 50, 7,
			       &word);
	cr_assert(anchor_read(&word, 19 * SECOND, 0, &tai, &bound));
	cr_assert_eq(tai, 3619 * SECOND);
}

Test(clock_anchor, its_number_wraps_around_zero_which_is_no_report)
{
	struct anchor_meter meter = {.count = 0};
	struct anchor_report word = {.sequence = UINT32_MAX - 1}, far = {.sequence = 0};

	for (int64_t s = 0; s < 4; s++) {
		anchor_measure(&meter, s * SECOND, s * SECOND, 50, 7, &word);
		cr_expect(anchor_receive(&far, &word, 7), "%u is newer", word.sequence);
	}
	cr_expect_eq(word.sequence, 3);
}

Test(clock_anchor, the_newest_report_of_the_right_host_is_forwarded)
{
	struct anchor_report source = {.sequence = 5, .anchor = 7, .ahead_ns = 9},
			     mine = {.sequence = 0};

	cr_assert_not(anchor_receive(&mine, &source, 8), "not the anchor that was configured");
	cr_assert(anchor_receive(&mine, &source, 7));
	cr_assert_eq(mine.hops, 1);
	cr_assert_not(anchor_receive(&mine, &source, 7), "nothing new");
	source.sequence = 4;
	cr_assert_not(anchor_receive(&mine, &source, 7), "older");
	source.sequence = 6;
	source.hops = ANCHOR_HOPS_MAX;
	cr_assert_not(anchor_receive(&mine, &source, 7), "too far");
	source.hops = 3;
	cr_assert(anchor_receive(&mine, &source, 7));
}
