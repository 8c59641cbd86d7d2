// SPDX-License-Identifier: BSD-2-Clause
/* What the daemon makes of what processes count: findings, and delays of messages. */
#include <criterion/criterion.h>
#include <stdlib.h>
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

/* --- reports of messages --- */

static struct fleet_keys keys_of(unsigned char first)
{
	struct fleet_keys keys = {.have[0] = true};

	memset(keys.key[0], 7, sizeof(keys.key[0]));
	keys.key[0][0] = first;
	return keys;
}

static struct verbs_report report_of(size_t count)
{
	struct verbs_report report = {.posted_qpn = 17, .received_qpn = 0xabcdef, .count = count};

	memset(&report.posted_at, 1, 16);
	memset(&report.received_at, 2, 16);
	for (size_t i = 0; i < count; i++)
		report.samples[i] = (struct verbs_sample){.number = i << 40,
							  .fabric_ns = -5 + (int64_t)i,
							  .bound_ns = 3,
							  .bytes = 1u << i};
	return report;
}

Test(ibverbs, reports_are_read_as_they_were_written)
{
	struct fleet_keys keys = keys_of(2), others = keys_of(4), none = {};
	struct verbs_report report, read;
	uint8_t bytes[REPORT_BYTES];
	uint64_t peer;
	size_t size;

	for (size_t count = 1; count <= REPORT_SAMPLES; count++) {
		report = report_of(count);
		size = report_encode(&report, &keys, 1, 2, bytes);
		cr_assert(report_decode(bytes, size, &keys, 2, &peer, &read));
		cr_expect_eq(peer, 1);
		cr_expect_eq(read.count, count);
		cr_expect_eq(read.posted_qpn, 17);
		cr_expect_eq(read.received_qpn, 0xabcdef);
		cr_expect_arr_eq(&read.posted_at, &report.posted_at, 16);
		cr_expect_arr_eq(&read.received_at, &report.received_at, 16);
		for (size_t i = 0; i < count; i++) {
			cr_expect_eq(read.samples[i].number, report.samples[i].number);
			cr_expect_eq(read.samples[i].fabric_ns, report.samples[i].fabric_ns);
			cr_expect_eq(read.samples[i].bytes, report.samples[i].bytes);
		}
		cr_expect_not(report_decode(bytes, size, &keys, 3, &peer, &read), "for another");
		cr_expect_not(report_decode(bytes, size, &others, 2, &peer, &read), "another key");
		cr_expect_not(report_decode(bytes, size, &none, 2, &peer, &read), "no key");
		for (size_t bit = 0; bit < 8 * size; bit++) {
			bytes[bit / 8] ^= 1u << bit % 8;
			cr_expect_not(report_decode(bytes, size, &keys, 2, &peer, &read), "bit %zu",
				      bit);
			bytes[bit / 8] ^= 1u << bit % 8;
		}
		for (size_t cut = 0; cut < size; cut++)
			cr_expect_not(report_decode(bytes, cut, &keys, 2, &peer, &read));
	}
	size = report_encode(&report, &none, 1, 2, bytes);
	cr_expect(report_decode(bytes, size, &none, 2, &peer, &read), "neither has a key");
	cr_expect_not(report_decode(bytes, size, &keys, 2, &peer, &read));
}

static unsigned int joined(struct verbs_delays *delays, uint64_t number, int64_t at_ns,
			   uint32_t bytes)
{
	return delays_join(delays, &(struct verbs_sample){.number = number,
							  .fabric_ns = at_ns,
							  .bound_ns = 10,
							  .bytes = bytes});
}

Test(ibverbs, messages_are_joined_by_their_number)
{
	struct verbs_qp qp = {.is = {.state = SEGMENT_LIVE, .generation = 3}};
	struct process process = {.qps = &qp, .count = 1};
	struct segment_sample raw = {.generation = 3, .bytes = 100};
	struct verbs_delays *delays;

	for (raw.number = 0; raw.number < DELAY_SAMPLES + 8; raw.number++)
		delays_take(&process, &raw, 1000 * (int64_t)raw.number, 20);
	raw.generation = 2;
	delays_take(&process, &raw, 1, 20);
	raw = (struct segment_sample){.generation = 3, .slot = 1};
	delays_take(&process, &raw, 1, 20);
	raw = (struct segment_sample){.generation = 3, .end = 9};
	delays_take(&process, &raw, 1, 20);
	delays = qp.delays;
	cr_assert_not_null(delays);
	cr_expect_eq(delays->ends[0].count, DELAY_SAMPLES + 8, "another's, and none, are left out");
	cr_expect_eq(joined(delays, 1, 2000, 100), 0, "overwritten");
	cr_expect_eq(joined(delays, 20, 20500, 100), 1);
	cr_expect_eq(joined(delays, 20, 20500, 100), 0, "a report that is repeated");
	cr_expect_eq(joined(delays, 21, 20990, 100), 1, "before its post, within the bounds");
	cr_expect_eq(delays->joined, 2);
	cr_expect_eq(delays->sum_ns, 500);
	cr_expect_eq(delays->max_ns, 500);
	cr_expect_eq(delays->bound_ns, 30);
	cr_expect_eq(joined(delays, 22, 21900, 100), 0, "beyond the bounds");
	cr_expect_eq(joined(delays, 23, 23100, 100), 1);
	cr_expect_eq(joined(delays, 24, 24100, 99), 0, "of another size");
	cr_expect_eq(joined(delays, 25, 25100, 100), 0, "their numbers mean nothing any more");
	free(delays);
}
