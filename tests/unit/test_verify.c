// SPDX-License-Identifier: BSD-2-Clause
/* When a move is reverted, and when it is not. */
#include <criterion/criterion.h>

#include "pacing/verify.h"

#define MS 1000000ull

static struct verify_counts usual(void)
{
	return (struct verify_counts){.sent = 100000, .paired = true, .back = 3000};
}

static enum verify_result after(const struct verify_counts *before, bool forced,
				struct verify_counts more, uint64_t ms)
{
	struct verify_counts now = *before;
	struct verify verify;
	enum verify_result verdict;

	verify_start(&verify, before, 1000 * MS, forced);
	now.sent += more.sent;
	now.resent += more.resent;
	now.back += more.back;
	now.naks += more.naks;
	now.repeated += more.repeated;
	verdict = verify_poll(&verify, &now, 1000 * MS + 250 * MS);
	return verify_is_bad(verdict) ? verdict : verify_poll(&verify, &now, 1250 * MS + ms * MS);
}

Test(verify, a_path_that_swallows_everything_is_silent)
{
	struct verify_counts before = usual();

	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 20}, 500), VERIFY_SILENT);
	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 20}, 499), VERIFY_OPEN);
	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 7}, 5000), VERIFY_OPEN);
	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 20, .back = 1}, 500),
		     VERIFY_OPEN);
}

Test(verify, sending_nothing_is_not_silence)
{
	struct verify_counts before = usual();

	cr_assert_eq(after(&before, false, (struct verify_counts){}, 100000), VERIFY_OPEN);
}

Test(verify, a_failing_path_is_left_within_two_seconds)
{
	struct verify_counts now = usual();
	struct verify verify;
	uint64_t ms = 0;

	verify_start(&verify, &now, 0, false);
	for (; ms <= 7000; ms += 250) {
		now.sent += 100;
		now.back += 10;
		cr_assert(!verify_is_bad(verify_poll(&verify, &now, ms * MS)), "at %lu ms", ms);
	}
	/* In the midst of a stretch: a window, and the same again. */
	now.sent += 20;
	cr_assert(!verify_is_bad(verify_poll(&verify, &now, ms * MS)));
	for (ms += 250; ms <= 9000; ms += 250) {
		enum verify_result verdict;

		now.sent += 2;
		now.resent += 2;
		verdict = verify_poll(&verify, &now, ms * MS);
		if (verify_is_bad(verdict)) {
			cr_assert_eq(verdict, VERIFY_SILENT);
			break;
		}
	}
	cr_assert_leq(ms, 7000 + 1500);
	cr_assert_geq(ms, 7000 + 1000);
}

Test(verify, a_long_response_without_acknowledgements_is_no_failure)
{
	struct verify_counts now = usual();
	struct verify verify;

	verify_start(&verify, &now, 0, false);
	now.back += 10;
	for (uint64_t ms = 0; ms <= 4000; ms += 250) {
		now.sent +=
			1000; /* a READ's responses: nothing returns, nothing is retransmitted */
		cr_assert(!verify_is_bad(verify_poll(&verify, &now, ms * MS)));
	}
}

Test(verify, without_known_replies_there_is_no_silence)
{
	struct verify_counts before = {.sent = 1000};

	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 1000}, 5000),
		     VERIFY_PROVED);
	before.paired = true; /* a reply was never received: UC */
	cr_assert_eq(after(&before, false, (struct verify_counts){.sent = 1000}, 5000),
		     VERIFY_PROVED);
}

Test(verify, one_nak_is_free_and_a_forced_move_has_one_more)
{
	struct verify_counts before = usual(), more = {.sent = 200, .back = 20, .naks = 1};

	cr_assert_eq(after(&before, false, more, 100), VERIFY_OPEN);
	more.naks = 2;
	cr_assert_eq(after(&before, false, more, 100), VERIFY_NAKS);
	cr_assert_eq(after(&before, true, more, 100), VERIFY_OPEN);
	more.naks = 3;
	cr_assert_eq(after(&before, true, more, 100), VERIFY_NAKS);
}

Test(verify, a_fabric_that_always_lost_is_no_reason)
{
	struct verify_counts before = usual(), more = {.sent = 10000, .back = 300, .naks = 10};

	before.naks = 100; /* one in a thousand */
	cr_assert_eq(after(&before, false, more, 100), VERIFY_OPEN);
	more.naks = 22;
	cr_assert_eq(after(&before, false, more, 100), VERIFY_NAKS);
}

Test(verify, a_window_retransmitted_twice)
{
	struct verify_counts now = {.sent = 1000};
	struct verify verify;

	verify_start(&verify, &now, 0, false);
	now.sent += 100;
	cr_assert_eq(verify_poll(&verify, &now, 100 * MS), VERIFY_OPEN);
	now.sent += 128;
	now.resent += 100;
	cr_assert_eq(verify_poll(&verify, &now, 200 * MS), VERIFY_OPEN, "less than half");
	now.sent += 156;
	now.resent += 156;
	cr_assert_eq(verify_poll(&verify, &now, 300 * MS), VERIFY_RESENT);
	verify_start(&verify, &now, 0, false);
	now.sent++;
	cr_assert_eq(verify_poll(&verify, &now, 100 * MS), VERIFY_OPEN);
	now.sent += 30;
	now.resent += 30;
	cr_assert_eq(verify_poll(&verify, &now, 200 * MS), VERIFY_OPEN, "too few to evaluate by");
}

Test(verify, what_the_path_before_lost_is_retransmitted_first)
{
	struct verify_counts now = {.sent = 1000, .resent = 300};
	struct verify verify;

	verify_start(&verify, &now, 0, false);
	for (uint64_t ms = 100; ms <= 400; ms += 100) {
		now.sent += 32;
		now.resent += 32;
		cr_assert_eq(verify_poll(&verify, &now, ms * MS), VERIFY_OPEN);
	}
	/* With what is new the last of it. */
	now.sent += 30;
	now.resent += 20;
	cr_assert_eq(verify_poll(&verify, &now, 500 * MS), VERIFY_OPEN);
	now.sent += 200;
	now.resent += 190;
	cr_assert_eq(verify_poll(&verify, &now, 600 * MS), VERIFY_RESENT);
	/* New packets took the old path, after the counts were taken. */
	verify_start(&verify, &now, 0, false);
	now.sent += 18;
	now.resent += 2;
	cr_assert_eq(verify_poll(&verify, &now, 100 * MS), VERIFY_OPEN);
	now.sent += 32;
	now.resent += 32;
	cr_assert_eq(verify_poll(&verify, &now, 400 * MS), VERIFY_OPEN);
	/* Nothing but repeats: then it is this path that loses. */
	verify_start(&verify, &now, 0, false);
	for (uint64_t ms = 100; ms <= 10000; ms += 100) {
		enum verify_result verdict;

		now.sent += 8;
		now.resent += 8;
		verdict = verify_poll(&verify, &now, ms * MS);
		if (ms <= 3000)
			cr_assert_eq(verdict, VERIFY_OPEN, "at %lu ms", ms);
		if (verify_is_bad(verdict))
			return;
	}
	cr_assert_fail("never");
}

Test(verify, lost_replies)
{
	struct verify_counts before = usual(), more = {.sent = 10, .back = 64, .repeated = 40};

	cr_assert_eq(after(&before, false, more, 0), VERIFY_ASKED);
	more.repeated = 30;
	cr_assert_eq(after(&before, false, more, 0), VERIFY_OPEN);
}

Test(verify, proof_takes_time_and_traffic_and_begins_anew)
{
	struct verify_counts now = usual();
	struct verify verify;

	verify_start(&verify, &now, 0, false);
	now.sent += 1000;
	now.back += 100;
	cr_assert_eq(verify_poll(&verify, &now, 4999 * MS), VERIFY_OPEN);
	cr_assert_eq(verify_poll(&verify, &now, 5000 * MS), VERIFY_PROVED);
	cr_assert_eq(verify_poll(&verify, &now, 9000 * MS), VERIFY_OPEN);
	/* It fails an hour later. */
	now.sent += 128;
	cr_assert_eq(verify_poll(&verify, &now, 3600000 * MS), VERIFY_OPEN);
	cr_assert_eq(verify_poll(&verify, &now, 3600500 * MS), VERIFY_SILENT);
}

Test(verify, every_result_has_a_meaning)
{
	for (int verdict = 0; verdict < VERIFY_RESULTS; verdict++)
		cr_assert(verify_name(verdict) && verify_meaning(verdict));
}
