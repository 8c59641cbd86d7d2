// SPDX-License-Identifier: BSD-2-Clause
/* Which NIC pairs lose a part of their probes for long. ESCAPEMENT_SEED repeats a run. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "mesh/internal.h"
#include "tests/lib/rng.h"

/* In a tenth: the default, of a peer that is probed each 20 ms, in a minute. */
#define PROBES 3000u
#define RUNS 500

static struct mesh_loss loss;
static uint64_t lost, replied;

static void take(unsigned int count, unsigned int of)
{
	lost += count;
	replied += of - count;
	mesh_loss_take(&loss, lost, replied, false);
}

static void begin(void)
{
	mesh_loss_reset(&loss, lost, replied);
}

static unsigned int draw_lost(struct rng *rng, unsigned int of, double share)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < of; i++)
		count += rng_below(rng, 1000000) < share * 1e6;
	return count;
}

Test(mesh_loss, half_a_percent_is_found_within_the_time)
{
	const char *text = getenv("ESCAPEMENT_SEED");
	uint64_t seed = text && *text ? strtoull(text, NULL, 0) : 20261126;
	unsigned int found = 0, wrong = 0;
	struct rng rng;

	printf("# seed %llu\n", (unsigned long long)seed);
	rng_seed(&rng, seed);
	for (int run = 0; run < RUNS; run++) {
		begin();
		for (int tenth = 0; tenth < MESH_LOSS_TENTHS; tenth++)
			take(draw_lost(&rng, PROBES, 0.005), PROBES);
		found += loss.lossy;
		begin();
		for (int tenth = 0; tenth < 100; tenth++) {
			take(draw_lost(&rng, PROBES, 0.0001), PROBES);
			wrong += loss.lossy;
		}
	}
	cr_expect_eq(found, RUNS, "0.5%%: %u of %u", found, RUNS);
	cr_expect_eq(wrong, 0, "0.01%% in 100 tenths: %u times", wrong);
}

Test(mesh_loss, it_is_no_burst_and_no_flap)
{
	begin();
	for (int tenth = 0; tenth < 200; tenth++) {
		/* Five of ten lose much: short failures, one after the other. */
		take(tenth % 2 ? 300 : 0, PROBES);
		cr_assert_not(loss.lossy);
	}
}

Test(mesh_loss, it_ends_when_it_is_over)
{
	int tenth = 0;

	begin();
	for (int i = 0; i < 7; i++)
		take(15, PROBES);
	cr_expect_not(loss.lossy);
	cr_expect(mesh_loss_leans(&loss));
	take(15, PROBES);
	cr_expect(loss.lossy);
	cr_expect_float_eq(mesh_loss_share(&loss), 0.005, 1e-9);
	for (; loss.lossy && tenth < 20; tenth++)
		take(0, PROBES);
	cr_expect_eq(tenth, 8, "eight of ten without a loss: %d", tenth);
}

Test(mesh_loss, few_probes_show_nothing)
{
	begin();
	for (int tenth = 0; tenth < 20; tenth++)
		take(1, 99);
	cr_expect_not(loss.lossy);
	begin();
	for (int tenth = 0; tenth < 20; tenth++)
		take(1, 100);
	cr_expect(loss.lossy);
}

Test(mesh_loss, counters_that_begin_again)
{
	begin();
	for (int tenth = 0; tenth < 20; tenth++)
		take(15, PROBES);
	cr_expect(loss.lossy);
	mesh_loss_take(&loss, 0, 0, false);
	cr_expect(!loss.lossy && !loss.count, "nothing is known of before");
}

/* Failures that are reported as such, one after the other, are no loss of a part beside them. */
Test(mesh_loss, what_was_lost_whole_is_left_out)
{
	begin();
	for (int tenth = 0; tenth < 100; tenth++) {
		lost += 250;
		replied += PROBES - 250;
		mesh_loss_take(&loss, lost, replied, true);
	}
	cr_expect_not(loss.lossy);
	cr_expect_not(mesh_loss_leans(&loss));
	for (int i = 0; i < 8; i++) {
		take(15, PROBES);
		mesh_loss_take(&loss, lost += 250, replied, true);
	}
	cr_expect(loss.lossy, "a part was lost in the others");
	cr_expect_float_eq(mesh_loss_share(&loss), 0.005, 1e-9);
}
