// SPDX-License-Identifier: BSD-2-Clause
/* Which packets are replies to which, and what an event about a queue pair reports. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/internal.h"
#include "core/events.h"

#define OURS 1
#define THEIRS 2

static struct esc_address address(uint8_t host)
{
	struct esc_address out = {.bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = host}};

	return out;
}

static struct qp_entry entry(enum esc_direction direction, uint32_t qpn, uint16_t sport)
{
	bool tx = direction == ESC_DIRECTION_TX;
	struct qp_entry out = {.key = {.src = address(tx ? OURS : THEIRS),
				       .dst = address(tx ? THEIRS : OURS),
				       .dest_qpn = qpn,
				       .direction = direction}};

	out.qp.sport = sport;
	out.qp.transport = ESC_TRANSPORT_RC;
	return out;
}

static const struct qp_entry *answer(const struct qp_entry *entries, size_t count, size_t of,
				     bool *nothing_back)
{
	const struct qp_entry *back;
	struct replies *replies;

	cr_assert_eq(replies_new(&replies, entries, count), 0);
	back = replies_of(replies, &entries[of], nothing_back);
	free(replies);
	return back;
}

Test(replies, return_on_the_same_port)
{
	struct qp_entry entries[] = {
		entry(ESC_DIRECTION_TX, 0x11, 50000), entry(ESC_DIRECTION_TX, 0x12, 50001),
		entry(ESC_DIRECTION_RX, 0x21, 50001), entry(ESC_DIRECTION_RX, 0x22, 50000)};
	bool nothing_back;

	cr_expect_eq(answer(entries, 4, 0, &nothing_back), &entries[3]);
	cr_expect_not(nothing_back);
	cr_expect_eq(answer(entries, 4, 1, &nothing_back), &entries[2]);
}

Test(replies, of_two_on_one_port_are_not_distinguished)
{
	struct qp_entry entries[] = {entry(ESC_DIRECTION_TX, 0x11, 50000),
				     entry(ESC_DIRECTION_TX, 0x12, 50000),
				     entry(ESC_DIRECTION_RX, 0x21, 50000)};
	bool nothing_back;

	cr_expect_null(answer(entries, 3, 0, &nothing_back));
	cr_expect_not(nothing_back);
}

Test(replies, of_a_queue_pair_that_was_there_before_are_left_out)
{
	struct qp_entry entries[] = {
		entry(ESC_DIRECTION_TX, 0x11, 50000), entry(ESC_DIRECTION_TX, 0x12, 50000),
		entry(ESC_DIRECTION_RX, 0x21, 50000), entry(ESC_DIRECTION_RX, 0x22, 50000)};
	bool nothing_back;

	entries[1].seen_local_ns = 20000000000;
	entries[3].seen_local_ns = 12000000000; /* stalled for 8 s */
	cr_expect_eq(answer(entries, 4, 1, &nothing_back), &entries[3]);
	cr_expect_null(answer(entries, 4, 0, &nothing_back));
	entries[2].seen_local_ns = 11000000000;
	cr_expect_null(answer(entries, 4, 1, &nothing_back));
}

Test(replies, of_one_that_ended_before_the_other_began_are_left_out_at_once)
{
	struct qp_entry entries[] = {
		entry(ESC_DIRECTION_TX, 0x11, 50000), entry(ESC_DIRECTION_TX, 0x12, 50000),
		entry(ESC_DIRECTION_RX, 0x21, 50000), entry(ESC_DIRECTION_RX, 0x22, 50000)};
	bool nothing_back;

	for (int i = 0; i < 4; i++) {
		entries[i].qp.first_local_ns = i % 2 ? 20000000000 : 10000000000;
		entries[i].seen_local_ns = i % 2 ? 22000000000 : 20500000000;
	}
	cr_expect_eq(answer(entries, 4, 1, &nothing_back), &entries[3]);
	entries[2].seen_local_ns = 21500000000; /* both are replied to */
	cr_expect_null(answer(entries, 4, 1, &nothing_back));
}

Test(replies, on_another_interface_or_of_another_host_are_none)
{
	struct qp_entry entries[] = {entry(ESC_DIRECTION_TX, 0x11, 50000),
				     entry(ESC_DIRECTION_RX, 0x21, 50000),
				     entry(ESC_DIRECTION_RX, 0x22, 50000)};
	bool nothing_back;

	entries[1].key.port = 1;
	entries[2].key.src = address(9);
	cr_expect_null(answer(entries, 3, 0, &nothing_back));
	cr_expect(nothing_back);
}

Test(replies, on_another_port_are_perhaps_those_of_a_peer_that_steers)
{
	struct qp_entry entries[] = {
		entry(ESC_DIRECTION_TX, 0x11, 50000), entry(ESC_DIRECTION_TX, 0x12, 50001),
		entry(ESC_DIRECTION_RX, 0x21, 50001), entry(ESC_DIRECTION_RX, 0x22, 50001)};
	bool nothing_back;

	for (int i = 0; i < 4; i++)
		entries[i].seen_local_ns = 20000000000;
	cr_expect_null(answer(entries, 4, 0, &nothing_back));
	cr_expect_not(nothing_back, "two return where one is requested: one is of 50000");
	cr_expect_null(answer(entries, 3, 0, &nothing_back));
	cr_expect(nothing_back, "one returns, and is for 50001");
	entries[3].qp.sport = 60000;
	cr_expect_null(answer(entries, 4, 0, &nothing_back));
	cr_expect_not(nothing_back, "nothing is sent from 60000");
	entries[3].seen_local_ns = 14000000000;
	cr_expect_null(answer(entries, 4, 0, &nothing_back));
	cr_expect(nothing_back, "it has come for six seconds no more");
}

Test(replies, to_datagrams_there_are_none)
{
	struct qp_entry entries[] = {entry(ESC_DIRECTION_TX, 0x11, 50000),
				     entry(ESC_DIRECTION_RX, 0x21, 50000)};
	bool nothing_back;

	entries[0].qp.transport = ESC_TRANSPORT_UD;
	cr_expect_null(answer(entries, 2, 0, &nothing_back));
	cr_expect_not(nothing_back);
}

static struct diag_event outlier(enum diag_phase phase)
{
	struct diag_event event = {.phase = phase,
				   .of = {.kind = DIAG_OUTLIER, .first_ns = 1000000000},
				   .now_ns = 1500000000,
				   .because = phase == DIAG_CLEAR ? "well" : NULL};
	struct qp_entry of = entry(ESC_DIRECTION_TX, 17, 50000);

	event.of.subject = (struct diag_subject){DIAG_ABOUT_QP, of.key};
	diag_see(&event.of.evidence, "p50_ns", 94000);
	diag_see(&event.of.evidence, "ce_ratio", 0.25);
	diag_expect(&event.of.evidence, "p50_max_ns", 21000);
	event.of.evidence.cause = "its path, or the load on it";
	return event;
}

static json_t *told(struct events *ledger, size_t i)
{
	json_t *events = events_since(ledger, 0), *event;

	event = json_incref(json_array_get(events, i));
	json_decref(events);
	cr_assert(event);
	return event;
}

static const char *text(const json_t *event, const char *part, const char *key)
{
	const json_t *object = part ? json_object_get(event, part) : event;

	return json_string_value(json_object_get(object, key));
}

Test(diagnosis_events, begin_and_end_of_an_outlier)
{
	struct diag_event begin = outlier(DIAG_BEGIN), end = outlier(DIAG_CLEAR);
	struct events *ledger;
	json_t *event;

	cr_assert_eq(events_new(&ledger, 10, NULL), 0);
	diagnose_emit(ledger, &begin, "eth1");
	diagnose_emit(ledger, &end, "eth1");
	event = told(ledger, 0);
	cr_expect_str_eq(text(event, NULL, "kind"), "qp_outlier");
	cr_expect_str_eq(text(event, NULL, "subject"), "10.0.0.1>10.0.0.2/17");
	cr_expect_str_eq(text(event, "seen", "interface"), "eth1");
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(event, "seen"), "p50_ns")),
		     94000);
	cr_expect_eq(json_integer_value(
			     json_object_get(json_object_get(event, "expected"), "p50_max_ns")),
		     21000);
	cr_expect_null(json_object_get(event, "result"));
	json_decref(event);
	event = told(ledger, 1);
	cr_expect_str_eq(text(event, NULL, "kind"), "qp_outlier_cleared");
	cr_expect_str_eq(text(event, "result", "reason"), "well");
	cr_expect_float_eq(
		json_real_value(json_object_get(json_object_get(event, "result"), "duration_s")),
		0.5, 1e-9);
	json_decref(event);
	events_free(ledger);
}

Test(diagnosis_events, suppressed_ones_are_counted)
{
	struct diag_event more = {.phase = DIAG_MORE, .of = {.kind = DIAG_STALLED}, .left_out = 7};
	struct events *ledger;
	json_t *event;

	cr_assert_eq(events_new(&ledger, 10, NULL), 0);
	diagnose_emit(ledger, &more, "eth1");
	event = told(ledger, 0);
	cr_expect_str_eq(text(event, NULL, "subject"), "more");
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(event, "seen"), "suppressed")),
		7);
	json_decref(event);
	events_free(ledger);
}
