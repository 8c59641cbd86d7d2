// SPDX-License-Identifier: BSD-2-Clause
/* What the daemon makes of what processes count: findings. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/json.h"
#include "ibverbs/internal.h"

enum { FLUSHED = 5, RETRIES_EXCEEDED = 12 }; /* enum ibv_wc_status */

/* Two queue pairs to one peer and one to another, which polls at each poll of ours. */
static struct verbs_qp watched[3];
static struct process watched_process = {
	.name = "0123456789abcdef", .qps = watched, .count = 3, .pid = 5};

static void poll_watched(struct ibverbs *verbs, uint64_t now_ns)
{
	watched_process.polled_local_ns = now_ns;
	watch_poll(verbs, now_ns);
}

static size_t events_of(const struct ibverbs *verbs, const char *kind)
{
	json_t *all = events_since(verbs->core->events, 0), *event;
	size_t i, count = 0;

	json_array_foreach (all, i, event)
		count += !strcmp(json_text(event, "kind"), kind);
	json_decref(all);
	return count;
}

Test(ibverbs, failed_and_stuck_queue_pairs_are_findings)
{
	struct core core = {};
	struct ibverbs verbs = {
		.core = &core,
		.processes = {.idle_ns = 60000000000, .count = 1, .list = {&watched_process}}};

	cr_assert_eq(events_new(&core.events, 64, NULL), 0);
	for (uint32_t i = 0; i < 3; i++) {
		watched[i].is = (struct segment_qp){.state = SEGMENT_LIVE,
						    .flags = SEGMENT_HAS_PATH,
						    .qpn = i,
						    .remote[15] = i < 2 ? 1 : 2};
		watched[i].is.statuses[FLUSHED] = 100;
	}
	poll_watched(&verbs, 1);
	cr_expect_eq(verbs.condition_count, 0, "flushes are no failure");
	for (int i = 0; i < 3; i++)
		watched[i].is.statuses[RETRIES_EXCEEDED] = 1;
	poll_watched(&verbs, 2);
	poll_watched(&verbs, 3);
	cr_expect_eq(events_of(&verbs, "verbs_qp_failed"), 2, "one for each peer");
	watched[0].failures_before = 1; /* was reset */
	poll_watched(&verbs, 4);
	cr_expect_eq(events_of(&verbs, "verbs_qp_failed_over"), 0);
	watched[1].failures_before = 1;
	watched[2].is.state = SEGMENT_ENDED;
	watched[2].moved_local_ns = 5;
	poll_watched(&verbs, 6);
	cr_expect_eq(events_of(&verbs, "verbs_qp_failed_over"), 1, "the ended one is shown");
	poll_watched(&verbs, 60000000006);
	cr_expect_eq(events_of(&verbs, "verbs_qp_failed_over"), 2);

	watched[0].is.signaled = 7;
	watched[0].pending_local_ns = 100000000000;
	poll_watched(&verbs, 100000000000 + STUCK_NS - 1);
	cr_expect_eq(events_of(&verbs, "verbs_qp_stuck"), 0);
	watch_poll(&verbs, 100000000000 + 2 * STUCK_NS);
	cr_expect_eq(events_of(&verbs, "verbs_qp_stuck"), 0, "it does not poll");
	poll_watched(&verbs, 100000000000 + 2 * STUCK_NS);
	cr_expect_eq(events_of(&verbs, "verbs_qp_stuck"), 1);
	watched[0].pending_local_ns = 0;
	poll_watched(&verbs, 100000000000 + 2 * STUCK_NS + 1);
	cr_expect_eq(events_of(&verbs, "verbs_qp_stuck_over"), 1);
	cr_expect_eq(verbs.condition_count, 0);
	events_free(core.events);
}
