// SPDX-License-Identifier: BSD-2-Clause
/* The reading: exact, monotone, continuous from model to model. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "clocksync/reader.h"
#include "tests/lib/rng.h"

#define SEED 20240607

/* The product by 128 bits, rounded down. */
static long long scale_exact(long long delta, long long rate)
{
	return (long long)(((__int128)delta * rate) >> CLOCK_RATE_SHIFT);
}

Test(clock_model, the_product_is_exact_over_its_whole_range)
{
	struct rng rng;

	rng_seed(&rng, SEED);
	cr_log_info("seed %d\n", SEED);
	for (int i = 0; i < 200000; i++) {
		long long delta = (long long)rng_next(&rng) >> (12 + rng_below(&rng, 50));
		long long rate = (long long)rng_next(&rng) >> (34 + rng_below(&rng, 29));

		cr_assert_eq(clock_scale(delta, rate), scale_exact(delta, rate), "%lld * %lld",
			     delta, rate);
	}
	cr_assert_eq(clock_scale(-(1ll << 52), CLOCK_RATE_MAX),
		     scale_exact(-(1ll << 52), CLOCK_RATE_MAX));
	cr_assert_eq(clock_scale((1ll << 52) - 1, -CLOCK_RATE_MAX),
		     scale_exact((1ll << 52) - 1, -CLOCK_RATE_MAX));
}

Test(clock_model, readings_follow_the_line_within_a_nanosecond)
{
	struct clock_line line = {.local_ns = 1000000000000,
				  .fabric_ns = 77,
				  .fraction_ns = 0.25,
				  .rate_ppb = -12345.678};
	struct clock_model model = {0};
	double fraction;

	cr_assert_lt(fabs(reader_aim(&model, &line, line.local_ns, 250000000, true)), 1);
	for (int64_t t = 0; t < 3600000000000; t += 999999937) {
		int64_t whole = clock_line_at(&line, line.local_ns + t, &fraction);
		double away =
			(double)(clock_model_read(&model, line.local_ns + t) - whole) - fraction;

		cr_assert_leq(fabs(away), 1 + 0.5e-12 * (double)t + 1.0, "%f ns after %f s", away,
			      (double)t * 1e-9);
	}
}

Test(clock_model, successive_models_are_continuous_and_never_go_back)
{
	struct clock_model model = {0};
	struct clock_line line = {.local_ns = 5000000000, .fabric_ns = 900};
	int64_t last = INT64_MIN, now = line.local_ns;
	struct rng rng;

	rng_seed(&rng, SEED);
	reader_aim(&model, &line, now, 250000000, true);
	for (int round = 0; round < 400; round++) {
		double jump = (round % 40 ? 50 : 200000) * rng_normal(&rng);
		int64_t before, next;

		line = clock_line_move(&line, now, jump);
		line.rate_ppb = 30000 * (2 * rng_unit(&rng) - 1);
		before = clock_model_read(&model, now);
		reader_aim(&model, &line, now, 250000000, false);
		cr_assert_eq(clock_model_read(&model, now), before, "a step of the reading");
		next = now + (int64_t)(250000000 * (0.5 + rng_unit(&rng)));
		for (; now < next; now += 1 + (int64_t)rng_below(&rng, 700000)) {
			int64_t reading = clock_model_read(&model, now);

			cr_assert_geq(reading, last, "went back by %ld", (long)(last - reading));
			last = reading;
		}
	}
}

Test(clock_model, a_slow_correction_ends_at_the_line)
{
	struct clock_line line = {.local_ns = 1000, .fabric_ns = 0};
	struct clock_model model = {0};

	reader_aim(&model, &line, 1000, 250000000, true);
	line.fabric_ns -= 1000000; /* we are 1 ms ahead: two seconds at 500 ppm */
	reader_aim(&model, &line, 1000, 250000000, false);
	cr_assert_eq(model.slew_end_local_ns, 1000 + 2000000000);
	cr_assert_leq(llabs(clock_model_read(&model, 3000001000) - (3000000000 - 1000000)), 2);
}

Test(clock_model, the_bound_grows_with_age)
{
	struct clock_model model = {
		.bound_local_ns = 1000, .bound_ns = 50, .bound_growth = 1099512 /* 1 ppm */};

	cr_assert_eq(clock_model_bound(&model, 0), 51);
	cr_assert_eq(clock_model_bound(&model, 1000), 51);
	cr_assert_eq(clock_model_bound(&model, 1000001000), 51 + 1000);
	model.bound_late = 2 * model.bound_growth;
	cr_assert_eq(clock_model_bound(&model, 1000001000), 51 + 1000);
	cr_assert_eq(clock_model_bound(&model, 2000001000), 51 + 3 * 2000);
}

Test(clock_model, views_carry_a_line_without_loss_that_matters)
{
	struct rng rng;

	rng_seed(&rng, SEED);
	for (int i = 0; i < 1000; i++) {
		struct clock_line line = {.local_ns = (int64_t)(rng_next(&rng) >> 4),
					  .fabric_ns = (int64_t)(rng_next(&rng) >> 4),
					  .fraction_ns = 5 * rng_normal(&rng),
					  .rate_ppb = 50000 * rng_normal(&rng)};
		struct clock_view view = {.state = CLOCK_SYNCED};
		struct clock_line back;

		clock_view_put(&view, &line);
		cr_assert(clock_view_get(&view, &back));
		cr_assert_lt(fabs(clock_line_gap(&line, &back, line.local_ns + 1000000000)), 0.001);
	}
}

Test(clock_model, a_view_without_time_or_with_an_impossible_rate_is_refused)
{
	struct clock_view view = {.state = CLOCK_FREE_RUNNING};
	struct clock_line line;

	cr_assert_not(clock_view_get(&view, &line));
	view.state = CLOCK_SYNCED;
	view.rate_q40 = 1ll << 31;
	cr_assert_not(clock_view_get(&view, &line));
}
