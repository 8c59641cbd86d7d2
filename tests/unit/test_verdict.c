// SPDX-License-Identifier: BSD-2-Clause
/* Diagnoses of synthetic delays, case by case; random fleets: test_verdict_fleets.c. */
#include "verdict_fleet.h"

/* Four to one host, all at 10 us, three seconds long. */
static void four(struct fleet *fleet)
{
	fleet_open(fleet, 7);
	for (unsigned int i = 0; i < 4; i++)
		fleet_add(fleet, 3, 10);
	fleet_run(fleet, 12);
	cr_expect_eq(fleet_active(fleet), 0);
}

static double seen(const struct diag_event *event, const char *name)
{
	const struct diag_evidence *evidence = &event->of.evidence;

	for (size_t i = 0; i < evidence->seen_count; i++)
		if (!strcmp(evidence->seen[i].name, name))
			return evidence->seen[i].value;
	cr_expect_fail("no figure %s", name);
	return NAN;
}

static bool is_about(const struct diag_event *event, const struct diag_qp *qp)
{
	return event->of.subject.about == DIAG_ABOUT_QP &&
	       !memcmp(&event->of.subject.key, &qp->key, sizeof(qp->key));
}

/* --- outliers --- */

Test(outlier, one_of_four_is_named_within_a_second_and_cleared)
{
	const struct diag_event *event;
	struct fleet fleet;
	unsigned int ticks;

	four(&fleet);
	fleet.p50_us[2] = 94;
	ticks = fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 20);
	cr_expect(ticks && ticks <= 3, "%u ticks", ticks);
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_OUTLIER);
	cr_assert(event);
	cr_expect(is_about(event, &fleet.qps[2]));
	cr_expect_float_eq(seen(event, "p50_ns"), 94000, 40000);
	cr_expect_float_eq(seen(event, "siblings_p50_ns"), 10000, 4000);
	cr_expect_eq(seen(event, "siblings"), 3);
	cr_expect_eq(seen(event, "bound_ns"), 1500);
	fleet.p50_us[2] = 10;
	ticks = fleet_until(&fleet, DIAG_CLEAR, DIAG_OUTLIER, 40);
	cr_expect(ticks && ticks <= 10, "%u ticks", ticks);
	event = fleet_event(&fleet, DIAG_CLEAR, DIAG_OUTLIER);
	cr_assert(event && is_about(event, &fleet.qps[2]));
	cr_expect_str_eq(event->because, "well");
	fleet_run(&fleet, 20);
	cr_expect_eq(fleet_active(&fleet), 0);
	fleet_close(&fleet);
}

Test(outlier, is_active_as_long_as_the_delay)
{
	struct fleet fleet;

	four(&fleet);
	fleet.p50_us[1] = 94;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 20));
	for (unsigned int i = 0; i < 4 * 120; i++) {
		fleet_tick(&fleet);
		cr_assert(!fleet_event(&fleet, DIAG_CLEAR, DIAG_OUTLIER), "after %u ticks", i);
	}
	fleet_close(&fleet);
}

Test(outlier, all_slow_alike_is_none)
{
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 300;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 40), 0);
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_PATH_SLOW].active, 1);
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_CONGESTION].active, 0);
	fleet_close(&fleet);
}

Test(outlier, nothing_without_a_gap_to_the_second)
{
	struct fleet fleet;

	four(&fleet);
	fleet.p50_us[0] = 94;
	fleet.p50_us[3] = 80;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 40), 0);
	/* Two of four source ports: that is reported. */
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_IMBALANCE].active, 1);
	fleet_close(&fleet);
}

Test(outlier, one_of_two_by_a_wider_margin)
{
	const struct diag_event *event;
	struct fleet fleet;

	fleet_open(&fleet, 8);
	fleet_add(&fleet, 3, 30);
	fleet_add(&fleet, 3, 30);
	fleet_run(&fleet, 12);
	fleet.p50_us[1] = 70;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 20), 0);
	fleet.p50_us[1] = 400;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 4));
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_OUTLIER);
	cr_expect(event && is_about(event, &fleet.qps[1]));
	fleet_close(&fleet);
}

Test(outlier, a_long_way_is_none)
{
	struct fleet fleet;

	fleet_open(&fleet, 9);
	for (unsigned int i = 0; i < 4; i++)
		fleet_add(&fleet, 3, i ? 10 : 200); /* from its first packet on */
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 60), 0);
	fleet_close(&fleet);
}

Test(outlier, siblings_of_a_job_to_several_hosts)
{
	const struct diag_event *event;
	struct fleet fleet;

	fleet_open(&fleet, 10);
	for (unsigned int i = 0; i < 6; i++)
		fleet_add(&fleet, 3 + i, 10 + 15 * i)->job = 77;
	fleet_run(&fleet, 12);
	fleet.p50_us[0] = 150; /* the shortest way, now not much above the longest */
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 8));
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_OUTLIER);
	cr_expect(event && is_about(event, &fleet.qps[0]));
	fleet_close(&fleet);
}

Test(outlier, idle_and_ended_are_not_recovered)
{
	const struct diag_event *event;
	struct fleet fleet;

	four(&fleet);
	fleet.p50_us[3] = 94;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 20));
	fleet.p50_us[3] = 0;
	cr_expect(fleet_until(&fleet, DIAG_CLEAR, DIAG_OUTLIER, 20));
	event = fleet_event(&fleet, DIAG_CLEAR, DIAG_OUTLIER);
	cr_expect(event && !strcmp(event->because, "idle"));
	fleet.p50_us[3] = 94;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 20));
	fleet.qp_count--;
	cr_expect_eq(fleet_until(&fleet, DIAG_CLEAR, DIAG_OUTLIER, 20), 1);
	event = fleet_event(&fleet, DIAG_CLEAR, DIAG_OUTLIER);
	cr_expect(event && !strcmp(event->because, "gone"));
	fleet_close(&fleet);
}

Test(outlier, a_larger_bound_requires_a_larger_difference)
{
	struct fleet fleet;

	four(&fleet);
	fleet.p50_us[2] = 60;
	for (unsigned int i = 0; i < 20; i++) {
		fleet_move(&fleet);
		for (unsigned int j = 0; j < 4; j++)
			fleet.qps[j].delay.bound_ns = 60000;
		fleet_judge(&fleet);
		cr_expect_not(fleet_event(&fleet, DIAG_BEGIN, DIAG_OUTLIER));
	}
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_OUTLIER, 4));
	fleet_close(&fleet);
}

/* --- in-band against out-of-band --- */

static void with_mesh(struct fleet *fleet, unsigned int qps)
{
	fleet_open(fleet, 11);
	for (unsigned int i = 0; i < qps; i++)
		fleet_add(fleet, 3, 6);
	fleet->peers[0] = (struct diag_peer){.src = fleet_address(1),
					     .address = fleet_address(3),
					     .source_port = 49152,
					     .up = true};
	fleet_delay(fleet, &fleet->peers[0].delay, 5, 0);
	fleet->peer_count = 1;
	fleet_run(fleet, 12);
	cr_expect_eq(fleet_active(fleet), 0);
}

Test(inband, far_above_the_mesh_is_reported_within_two_seconds)
{
	const struct diag_event *event;
	struct fleet fleet;
	unsigned int ticks;

	with_mesh(&fleet, 4);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 250;
	ticks = fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20);
	cr_expect(ticks && ticks <= 4, "%u ticks", ticks);
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION);
	cr_assert(event);
	cr_expect_eq(event->of.subject.about, DIAG_ABOUT_PAIR);
	cr_expect_float_eq(seen(event, "mesh_p50_ns"), 5000, 1);
	cr_expect_float_eq(seen(event, "ratio"), 50, 20);
	cr_expect_eq(seen(event, "source_ports"), 4);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 6;
	ticks = fleet_until(&fleet, DIAG_CLEAR, DIAG_MISCONFIGURATION, 40);
	cr_expect(ticks && ticks <= 12, "%u ticks", ticks);
	fleet_close(&fleet);
}

/* Which probes it is compared with, how old and how exact they are. */
Test(inband, names_the_probes)
{
	static const struct {
		enum diag_source source;
		const char *name, *p50, *bound;
	} cases[] = {
		{DIAG_BY_MESH, "mesh", "mesh_p50_ns", "mesh_bound_ns"},
		{DIAG_BY_PATH, "path", "path_p50_ns", "path_bound_ns"},
		{DIAG_BY_ROTATION, "rotation", "rotation_p50_ns", "rotation_bound_ns"},
	};

	for (size_t c = 0; c < 3; c++) {
		const struct diag_event *event;
		struct fleet fleet;

		with_mesh(&fleet, 4);
		fleet.peers[0].source = cases[c].source;
		fleet.peers[0].age_ns = 1200000000;
		for (unsigned int i = 0; i < 4; i++)
			fleet.p50_us[i] = 250;
		cr_assert(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20));
		event = fleet_event(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION);
		cr_assert(event);
		cr_expect_str_eq(event->of.evidence.probes, cases[c].name);
		cr_expect_float_eq(seen(event, cases[c].p50), 5000, 1);
		cr_expect_float_eq(seen(event, cases[c].bound), 1500, 1);
		cr_expect_float_eq(seen(event, "probes_age_ns"), 1.2e9, 1);
		fleet_close(&fleet);
	}
}

Test(inband, old_probes_are_no_measure)
{
	struct fleet fleet;

	with_mesh(&fleet, 4);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 250;
	fleet.peers[0].age_ns = LAW_PROBES_AGE_NS + 1;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20), 0);
	fleet.peers[0].age_ns = LAW_PROBES_AGE_NS;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20));
	fleet_close(&fleet);
}

Test(inband, probes_of_another_address_of_ours_are_no_measure)
{
	struct fleet fleet;

	with_mesh(&fleet, 4);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 250;
	fleet.peers[0].src = fleet_address(2);
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20), 0);
	fleet_close(&fleet);
}

Test(inband, one_slow_source_port_is_none)
{
	struct fleet fleet;

	with_mesh(&fleet, 4);
	fleet.p50_us[2] = 250;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20), 0);
	fleet_close(&fleet);
}

Test(inband, a_slow_mesh_is_no_measure)
{
	struct fleet fleet;

	with_mesh(&fleet, 4);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 250;
	fleet_delay(&fleet, &fleet.peers[0].delay, 200, 0);
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20), 0);
	fleet_close(&fleet);
}

/* Ticks with twice the load: it has a standing queue. */
Test(inband, a_queue_of_its_own_load_is_none)
{
	struct fleet fleet;

	with_mesh(&fleet, 1);
	fleet.p50_us[0] = 250;
	for (unsigned int i = 0; i < 20; i++) {
		fleet_move(&fleet);
		fleet.qps[0].bytes += 1000000;
		fleet_judge(&fleet);
		/* The rate is a mean over the ticks: the first is not all of it. */
		cr_assert_not(fleet_event(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION), "tick %u", i);
	}
	/* The load as before and the delay stays: not its own. */
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 12));
	fleet_close(&fleet);
}

Test(inband, slow_from_the_first_packet_on)
{
	struct fleet fleet;
	unsigned int ticks;

	with_mesh(&fleet, 0);
	fleet_add(&fleet, 3, 400);
	ticks = fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 20);
	cr_expect(ticks && ticks <= 4, "%u ticks", ticks);
	fleet_close(&fleet);
}

Test(inband, rocev1_is_named_at_once)
{
	const struct diag_event *event;
	struct fleet fleet;

	with_mesh(&fleet, 2);
	fleet.port.rocev1_rx += 3;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION, 2), 1);
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_MISCONFIGURATION);
	cr_assert(event);
	cr_expect_eq(event->of.subject.about, DIAG_ABOUT_PORT);
	cr_expect_str_eq(event->of.evidence.cause, "RoCEv1");
	cr_expect_eq(seen(event, "rocev1_rx_frames"), 3);
	fleet_close(&fleet);
}

Test(inband, rocev1_of_before_is_no_news)
{
	struct fleet fleet;

	fleet_open(&fleet, 12);
	fleet.port.rocev1_rx = 1000;
	fleet_run(&fleet, 8);
	cr_expect_eq(fleet_active(&fleet), 0);
	fleet_close(&fleet);
}

/* --- stalls --- */

/* @i has sent requests without a reply, and is idle. */
static void halt(struct fleet *fleet, size_t i, unsigned int psns)
{
	fleet->p50_us[i] = 0;
	fleet->halted[i] = true;
	fleet->qps[i].next_psn = (fleet->qps[i].acked_psn + psns) & ESC_PSN_MASK;
}

Test(stall, retransmissions_without_a_reply)
{
	const struct diag_event *event;
	struct fleet fleet;
	unsigned int ticks = 0;

	four(&fleet);
	halt(&fleet, 1, 20);
	while (ticks < 20) {
		fleet.qps[1].retransmits += 20;
		ticks++;
		fleet_tick(&fleet);
		if (fleet_event(&fleet, DIAG_BEGIN, DIAG_STALLED))
			break;
	}
	cr_expect(ticks >= 2 && ticks <= 4, "%u ticks", ticks);
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_STALLED);
	cr_assert(event && is_about(event, &fleet.qps[1]));
	cr_expect_eq(seen(event, "unacknowledged_packets"), 20);
	fleet.p50_us[1] = 10;
	cr_expect_eq(fleet_until(&fleet, DIAG_CLEAR, DIAG_STALLED, 4), 1);
	fleet_close(&fleet);
}

/* A container can send packets of any queue pair; none of the host's devices has it. */
Test(stall, what_no_device_of_the_host_sent_is_none)
{
	struct fleet fleet;

	four(&fleet);
	halt(&fleet, 1, 20);
	fleet.qps[1].foreign = true;
	for (unsigned int ticks = 0; ticks < 20; ticks++) {
		fleet.qps[1].retransmits += 20;
		fleet_tick(&fleet);
		cr_expect(!fleet_event(&fleet, DIAG_BEGIN, DIAG_STALLED));
	}
	fleet_close(&fleet);
}

Test(stall, in_the_midst_of_a_message)
{
	struct fleet fleet;

	four(&fleet);
	halt(&fleet, 0, 64);
	fleet.qps[0].mid_message = true;
	/* Its process may have been killed. */
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40), 0);
	fleet.qps[0].alive = true;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 8));
	fleet_close(&fleet);
}

/* Within a second, and before the transport retransmits; one that is idle behind its last packet is
 * none. */
Test(stall, a_reply_is_due)
{
	unsigned int ticks;
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 3; i++)
		fleet.qps[i].alive = true;
	fleet.qps[0].asked = fleet.qps[1].asked = true;
	halt(&fleet, 0, 5);
	halt(&fleet, 1, 0);
	halt(&fleet, 2, 5);
	ticks = fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40);
	cr_expect(ticks >= 2 && ticks <= 3, "%u ticks", ticks);
	cr_expect(is_about(fleet_event(&fleet, DIAG_BEGIN, DIAG_STALLED), &fleet.qps[0]));
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40), 0);
	fleet_close(&fleet);
}

Test(stall, after_the_last_packet_of_one_that_settles)
{
	unsigned int ticks;
	struct fleet fleet;

	four(&fleet);
	fleet.qps[0].alive = true;
	halt(&fleet, 0, 0);
	fleet_run(&fleet, 8);
	fleet.p50_us[0] = 10;
	fleet_run(&fleet, 1);
	halt(&fleet, 0, 5);
	ticks = fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40);
	cr_expect(ticks >= 6 && ticks <= 8, "%u ticks", ticks);
	fleet_close(&fleet);
}

Test(stall, idle_is_none)
{
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 4; i++)
		halt(&fleet, i, 0);
	fleet.qps[2].retransmits += 5;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 100), 0);
	fleet_close(&fleet);
}

Test(stall, a_tail_without_an_ack_is_learned)
{
	struct fleet fleet;

	four(&fleet);
	fleet.qps[0].alive = true;
	halt(&fleet, 0, 3);
	fleet_run(&fleet, 4); /* idle for a second, and on it goes */
	fleet.p50_us[0] = 10;
	fleet_run(&fleet, 4);
	halt(&fleet, 0, 3);
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 100), 0);
	fleet.qps[0].retransmits++; /* but this is none */
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 3));
	fleet_close(&fleet);
}

Test(stall, unpaired_is_not_evaluated)
{
	struct fleet fleet;

	four(&fleet);
	halt(&fleet, 1, 20);
	fleet.qps[1].paired = false;
	fleet.qps[1].retransmits += 100;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40), 0);
	fleet.qps[1].nothing_back = true;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 8));
	fleet_close(&fleet);
}

Test(stall, a_port_without_visibility_reports_nothing)
{
	struct fleet fleet;

	four(&fleet);
	fleet.port.counts_rx = false;
	halt(&fleet, 1, 20);
	fleet.qps[1].paired = false;
	fleet.qps[1].nothing_back = true;
	fleet.qps[1].retransmits += 100;
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 40), 0);
	fleet_close(&fleet);
}

Test(stall, wraps_with_the_psn)
{
	struct fleet fleet;

	four(&fleet);
	fleet.qps[1].acked_psn = 0xfffff0;
	halt(&fleet, 1, 32);
	fleet_tick(&fleet);
	fleet.qps[1].retransmits++;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_STALLED, 5));
	fleet_close(&fleet);
}

/* --- causes --- */

/* Looks in which @qp loses; returns how many until the event, 0: none. */
static unsigned int lose(struct fleet *fleet, size_t i, enum diag_kind kind, unsigned int most)
{
	for (unsigned int ticks = 1; ticks <= most; ticks++) {
		fleet_move(fleet);
		fleet->qps[i].nak_sequence++;
		fleet->qps[i].retransmits += 12;
		fleet_judge(fleet);
		if (fleet_event(fleet, DIAG_BEGIN, kind))
			return ticks;
	}
	return 0;
}

Test(cause, loss_without_delay)
{
	const struct diag_event *event;
	struct fleet fleet;

	four(&fleet);
	cr_expect(lose(&fleet, 2, DIAG_LOSS, 12));
	event = fleet_event(&fleet, DIAG_BEGIN, DIAG_LOSS);
	cr_assert(event);
	cr_expect_eq(seen(event, "qps_losing"), 1);
	cr_expect_eq(seen(event, "dest_qpn"), fleet.qps[2].key.dest_qpn);
	fleet_close(&fleet);
}

Test(cause, one_loss_is_none)
{
	struct fleet fleet;

	four(&fleet);
	cr_expect_eq(lose(&fleet, 2, DIAG_LOSS, 1), 0);
	cr_expect_eq(fleet_until(&fleet, DIAG_BEGIN, DIAG_LOSS, 40), 0);
	fleet_close(&fleet);
}

Test(cause, loss_with_delay_is_congestion)
{
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 500;
	cr_expect(lose(&fleet, 2, DIAG_CONGESTION, 12));
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_LOSS].active, 0);
	fleet_close(&fleet);
}

Test(cause, delay_with_marks_is_congestion)
{
	const struct diag_event *event = NULL;
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 200;
	for (unsigned int ticks = 0; ticks < 12 && !event; ticks++) {
		fleet_move(&fleet);
		for (unsigned int i = 0; i < 4; i++)
			fleet.qps[i].delay.ce = 20;
		fleet_judge(&fleet);
		event = fleet_event(&fleet, DIAG_BEGIN, DIAG_CONGESTION);
	}
	cr_assert(event);
	cr_expect(seen(event, "ce_ratio") > 0.1);
	fleet_close(&fleet);
}

Test(cause, one_path_is_an_imbalance)
{
	struct fleet fleet;

	four(&fleet);
	fleet.p50_us[1] = 200;
	cr_expect(fleet_until(&fleet, DIAG_BEGIN, DIAG_IMBALANCE, 6));
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_PATH_SLOW].active, 0);
	fleet_close(&fleet);
}

Test(cause, receiver_not_ready)
{
	struct fleet fleet;

	four(&fleet);
	for (unsigned int ticks = 0; ticks < 6; ticks++) {
		fleet_move(&fleet);
		fleet.qps[0].rnr_naks += 2;
		fleet.qps[0].retransmits += 20;
		fleet_judge(&fleet);
	}
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_HOST].active, 1);
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_LOSS].active, 0);
	fleet_close(&fleet);
}

Test(cause, queue_of_the_sending_host)
{
	struct fleet fleet;

	four(&fleet);
	for (unsigned int i = 0; i < 4; i++)
		fleet.p50_us[i] = 900;
	for (unsigned int ticks = 0; ticks < 6; ticks++) {
		fleet_move(&fleet);
		for (unsigned int i = 0; i < 4; i++) {
			fleet.qps[i].queue_known = true;
			fleet.qps[i].queue_max_ns = 0.9 * fleet.qps[i].delay.max_ns;
		}
		fleet_judge(&fleet);
	}
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_HOST].active, 1);
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_PATH_SLOW].active, 0);
	fleet_close(&fleet);
}

/* --- the book --- */

Test(book, a_burst_is_reported_as_a_sum)
{
	size_t begun = 0, cleared = 0, more = 0;
	uint64_t left_out = 0;
	struct fleet fleet;

	fleet_open(&fleet, 13);
	for (unsigned int i = 0; i < 60; i++)
		fleet_add(&fleet, 3 + i % 60, 10);
	fleet_run(&fleet, 12);
	for (unsigned int i = 0; i < 60; i++)
		fleet.p50_us[i] = 500;
	for (unsigned int tick = 0; tick < 80; tick++) {
		fleet_tick(&fleet);
		for (size_t i = 0; i < fleet.event_count; i++) {
			begun += fleet.events[i].phase == DIAG_BEGIN;
			more += fleet.events[i].phase == DIAG_MORE;
			left_out += fleet.events[i].left_out;
		}
	}
	cr_expect_eq(fleet.diagnoses->book.kinds[DIAG_PATH_SLOW].active, 60);
	cr_expect(begun <= 12 && more >= 1 && more <= 4, "%zu %zu", begun, more);
	cr_expect_eq(begun + left_out, 60);
	for (unsigned int i = 0; i < 60; i++)
		fleet.p50_us[i] = 10;
	for (unsigned int tick = 0; tick < 40; tick++) {
		fleet_tick(&fleet);
		for (size_t i = 0; i < fleet.event_count; i++)
			cleared += fleet.events[i].phase == DIAG_CLEAR;
	}
	cr_expect_eq(cleared, begun);
	cr_expect_eq(fleet_active(&fleet), 0);
	fleet_close(&fleet);
}

/* Bad for 2 s of every 6: held longer each time, so that an hour has few events. */
Test(book, a_flapping_one_is_held)
{
	struct fleet fleet;
	size_t events = 0;

	four(&fleet);
	for (unsigned int tick = 0; tick < 4 * 3600; tick++) {
		fleet.p50_us[1] = tick % 24 < 8 ? 200 : 10;
		fleet_tick(&fleet);
		for (size_t i = 0; i < fleet.event_count; i++)
			events += fleet.events[i].of.kind == DIAG_OUTLIER;
	}
	cr_expect(events >= 2 && events <= 20, "%zu events", events);
	fleet_close(&fleet);
}

Test(book, a_worse_delay_is_a_change)
{
	struct fleet fleet;

	four(&fleet);
	fleet.noise = 0.02;
	fleet.p50_us[1] = 100;
	fleet_run(&fleet, 50);
	fleet.p50_us[1] = 400;
	cr_expect(fleet_until(&fleet, DIAG_CHANGE, DIAG_OUTLIER, 2));
	cr_expect_eq(fleet_until(&fleet, DIAG_CHANGE, DIAG_OUTLIER, 60), 0);
	fleet_close(&fleet);
}
