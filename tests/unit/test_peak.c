// SPDX-License-Identifier: BSD-2-Clause
/* The highest rate between two readings of a counter. */
#include <criterion/criterion.h>

#include "peak/internal.h"
#include "tests/lib/rng.h"

#define S 1000000000ull
#define MS 1000000ull

Test(peak, one_reading_is_no_rate)
{
	struct peak peak = {};
	double rate;

	cr_expect_not(peak_get(&peak, S, &rate));
	peak_take(&peak, S, S, 1000000);
	cr_expect_not(peak_get(&peak, S, &rate));
	peak_take(&peak, S + 10 * MS, S + 10 * MS, 1000000);
	cr_expect(peak_get(&peak, S + 10 * MS, &rate));
	cr_expect_eq(rate, 0);
}

Test(peak, a_rate_is_never_above_what_there_was)
{
	struct peak peak = {};
	double rate;

	/* 1000 bytes between two readings that took 1 ms and 2 ms, 10 ms apart: at least so much.
	 */
	peak_take(&peak, S, S + 1 * MS, 5000);
	peak_take(&peak, S + 11 * MS, S + 13 * MS, 6000);
	cr_expect(peak_get(&peak, S + 13 * MS, &rate));
	cr_expect_float_eq(rate, 1000 / 0.013, 1e-3);
}

Test(peak, a_counter_that_begins_again_has_no_rate)
{
	struct peak peak = {};
	double rate;

	peak_take(&peak, S, S, 1000000);
	peak_take(&peak, S + 10 * MS, S + 10 * MS, 10);
	cr_expect_not(peak_get(&peak, S + 10 * MS, &rate));
	peak_take(&peak, S + 20 * MS, S + 20 * MS, 110);
	cr_expect(peak_get(&peak, S + 20 * MS, &rate));
	cr_expect_float_eq(rate, 10000, 1e-6);
}

/* A burst is shown for 70 s at least, and not for more than 80. */
Test(peak, a_burst_stays_for_seventy_seconds)
{
	struct rng rng;

	rng_seed(&rng, 7);
	for (int run = 0; run < 50; run++) {
		uint64_t now_ns = 100 * S + rng_below(&rng, 20000) * MS, burst_ns = 0, bytes = 0;
		struct peak peak = {};
		double rate;

		for (int i = 0; i < 20000; i++) {
			now_ns += 10 * MS;
			bytes += 10;
			if (i == 50) {
				bytes += 62500;
				burst_ns = now_ns;
			}
			peak_take(&peak, now_ns, now_ns, bytes);
			if (!burst_ns)
				continue;
			cr_assert(peak_get(&peak, now_ns, &rate));
			if (now_ns - burst_ns < 70 * S)
				cr_assert_float_eq(rate, 6251000, 1);
			if (now_ns - burst_ns > 80 * S)
				cr_assert_float_eq(rate, 1000, 1e-3);
		}
	}
}
