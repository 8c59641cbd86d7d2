// SPDX-License-Identifier: BSD-2-Clause
/* The mesh's pure parts: the members of a plane, delays from passages, losses, the datagram. */
#include <criterion/criterion.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "clocksync/graph.h"
#include "clocksync/local.h"
#include "probe/probe.h"
#include "fleet/fleet.h"
#include "tests/lib/rng.h"

static struct members *members_of(const char *text)
{
	struct members *members = NULL;
	char *error = NULL;

	members_parse("m.json", text, strlen(text), &members, &error);
	cr_assert_not_null(members, "%s", error);
	return members;
}

static void expect_address(const struct roster_member *member, enum roster_family family,
			   const char *wanted)
{
	char text[ADDRESS_TEXT_BYTES];

	cr_assert(member->has[family], "%s has no address of family %d", member->host, family);
	cr_expect_str_eq(address_format(&member->address[family], text), wanted);
}

Test(roster, one_member_a_host)
{
	struct members *members =
		members_of("[{\"targets\": [\"10.0.0.9\", \"10.0.0.3\", \"fd00::3\"],"
			   "  \"labels\": {\"host\": \"b\"}},"
			   " {\"targets\": [\"10.0.0.1\"], \"labels\": {\"host\": \"a\"}},"
			   " {\"targets\": [\"10.0.0.7\"]}]");
	struct roster roster;

	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_BACKEND, "b"), 0);
	cr_assert_eq(roster.count, 3);
	cr_expect_str_eq(roster.list[0].host, "10.0.0.7",
			 "without a label the address is the name");
	cr_expect_str_eq(roster.list[1].host, "a");
	cr_expect_str_eq(roster.list[2].host, "b");
	cr_expect_eq(roster.self, 2);
	cr_expect_eq(roster.ids[2], graph_member_id("b"));
	expect_address(&roster.list[2], ROSTER_IPV4, "10.0.0.3");
	expect_address(&roster.list[2], ROSTER_IPV6, "fd00::3");
	cr_expect(!roster.list[1].has[ROSTER_IPV6]);
	roster_free(&roster);
	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_BACKEND, "c"), 0);
	cr_expect_eq(roster.self, ROSTER_NONE);
	roster_free(&roster);
	members_free(members);
}

Test(roster, planes)
{
	struct members *members = members_of(
		"[{\"targets\": [\"10.0.0.1\"], \"labels\": {\"host\": \"a\"}},"
		" {\"targets\": [\"10.1.0.1\"], \"labels\": {\"host\": \"a\", \"plane\": "
		"\"frontend\"}},"
		" {\"targets\": [\"10.0.0.2\"], \"labels\": {\"host\": \"b\", \"plane\": "
		"\"backend\"}}]");
	struct roster roster;

	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_FRONTEND, "a"), 0);
	cr_assert_eq(roster.count, 1, "b has no frontend");
	expect_address(&roster.list[0], ROSTER_IPV4, "10.1.0.1");
	roster_free(&roster);
	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_BACKEND, "a"), 0);
	cr_assert_eq(roster.count, 2);
	expect_address(&roster.list[0], ROSTER_IPV4, "10.0.0.1");
	roster_free(&roster);
	cr_assert_eq(roster_build(&roster, members, ROSTER_ALL_PLANES, "b"), 0);
	cr_expect_eq(roster.count, 2);
	cr_expect_eq(roster.self, 1);
	roster_free(&roster);
	members_free(members);
}

Test(roster, an_empty_list)
{
	struct members *members = members_of("[]");
	struct roster roster;

	cr_assert_eq(roster_build(&roster, members, FLEET_PLANE_BACKEND, "a"), 0);
	cr_expect_eq(roster.count, 0);
	cr_expect_eq(roster.self, ROSTER_NONE);
	roster_free(&roster);
	members_free(members);
}

Test(quantiles, of_few_and_many)
{
	int64_t values[1000];
	struct quantiles q;

	quantiles_of(values, 0, &q);
	cr_expect_eq(q.samples, 0);
	values[0] = -7;
	quantiles_of(values, 1, &q);
	cr_expect(q.min_ns == -7 && q.p50_ns == -7 && q.p99_ns == -7 && q.max_ns == -7);
	for (int i = 0; i < 1000; i++)
		values[i] = 1000 - i;
	quantiles_of(values, 1000, &q);
	cr_expect(q.min_ns == 1 && q.p50_ns == 500 && q.p99_ns == 990 && q.max_ns == 1000);
	cr_expect_eq(q.samples, 1000);
}

static int by_value(const void *a, const void *b)
{
	const int64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

/* As sorting them gives, with few different values and many, in any order. */
Test(quantiles, of_lists_in_any_order)
{
	int64_t values[500], sorted[500];
	struct quantiles q;
	struct rng rng;

	rng_seed(&rng, 20261128);
	for (int round = 0; round < 2000; round++) {
		size_t count = 1 + rng_below(&rng, 500);
		uint64_t different = 1 + rng_below(&rng, round % 2 ? 4 : 1000000);

		for (size_t i = 0; i < count; i++)
			values[i] = (int64_t)rng_below(&rng, different) - 2;
		if (round % 5 == 0)
			qsort(values, count, sizeof(values[0]), by_value);
		memcpy(sorted, values, count * sizeof(sorted[0]));
		qsort(sorted, count, sizeof(sorted[0]), by_value);
		quantiles_of(values, count, &q);
		cr_assert_eq(q.min_ns, sorted[0]);
		cr_assert_eq(q.p50_ns, sorted[(count - 1) / 2]);
		cr_assert_eq(q.p99_ns, sorted[(size_t)ceil(0.99 * (double)count) - 1]);
		cr_assert_eq(q.max_ns, sorted[count - 1]);
	}
}

/* Two clocks that differ by a second and 50 ppm: the delay comes out as it was. */
Test(passages, delays_in_fabric_time)
{
	struct clock_line ours = {.local_ns = 5000000000, .fabric_ns = 9000000000000000000};
	struct clock_line theirs = {.local_ns = 6000000000,
				    .fabric_ns = 9000000000000000000,
				    .fraction_ns = 0.25,
				    .rate_ppb = -50000};
	static struct passages passages;
	struct quantiles q;

	for (int64_t i = 0; i < 3000; i++) {
		int64_t tx_ns = 5000000000 + i * 1000000;
		/* Their clock is faster: 1.00005 of it to each of fabric time, within a ppb. */
		int64_t fabric_ns = i * 1000000 + 800;
		int64_t rx_ns = 6000000000 + fabric_ns + fabric_ns / 20000;

		passages_add(&passages, tx_ns, rx_ns);
	}
	passages_delays(&passages, true, 5000000000 + 2000 * 1000000ll, &ours, &theirs, &q);
	cr_expect_eq(q.samples, 1000, "only the last second: %zu", q.samples);
	cr_expect(q.min_ns >= 790 && q.max_ns <= 810, "%lld to %lld", (long long)q.min_ns,
		  (long long)q.max_ns);
	passages_delays(&passages, true, 0, &ours, &theirs, &q);
	cr_expect_eq(q.samples, PASSAGES_KEPT, "no more than are kept");
	passages_clear(&passages);
	passages_delays(&passages, true, 0, &ours, &theirs, &q);
	cr_expect_eq(q.samples, 0);
}

/* The same passages seen from the other end. */
Test(passages, coming_in)
{
	struct clock_line ours = {.local_ns = 100, .fabric_ns = 1100};
	struct clock_line theirs = {.local_ns = 5100, .fabric_ns = 1100};
	static struct passages passages;
	struct quantiles q;

	passages_add(&passages, 5200, 150); /* left at fabric 1200, came at 1150 */
	passages_delays(&passages, false, 151, &ours, &theirs, &q);
	cr_expect_eq(q.samples, 0, "its time here is before");
	passages_delays(&passages, false, 150, &ours, &theirs, &q);
	cr_expect_eq(q.samples, 1);
	cr_expect_eq(q.min_ns, -50, "shown as it is: the bound says how wrong it may be");
}

/* A window is read from its end: one that was overtaken is not its beginning. */
Test(passages, overtaken)
{
	struct clock_line line = {};
	static struct passages passages;
	struct quantiles q;

	passages_add(&passages, 900000000, 900000010);
	passages_add(&passages, 1000000000, 1000000010);
	passages_add(&passages, 999999999, 1000000020);
	passages_add(&passages, 1000000001, 1000000011);
	passages_delays(&passages, true, 1000000000, &line, &line, &q);
	cr_expect_eq(q.samples, 2, "%zu", q.samples);
	passages_round_trips(&passages, &passages, 1000000000, &q);
	cr_expect_eq(q.samples, 2, "%zu", q.samples);
}

Test(losses, replied_late_lost)
{
	static struct losses losses;

	losses_begin(&losses, 100);
	for (uint32_t s = 100; s < 110; s++)
		if (s != 103 && s != 104)
			losses_reply(&losses, s);
	losses_expire(&losses, 110);
	cr_expect_eq(losses.replied, 8);
	cr_expect_eq(losses.lost, 2);
	losses_reply(&losses, 103);
	cr_expect_eq(losses.late, 1);
	cr_expect_eq(losses.lost, 2, "a loss is not undone");
	losses_reply(&losses, 112);
	losses_reply(&losses, 111);
	losses_reply(&losses, 111);
	cr_expect_eq(losses.reordered, 1);
	cr_expect_eq(losses.replied, 10, "a double counts once");
	losses_expire(&losses, 105);
	cr_expect_eq(losses.lost, 2, "time does not go back");
	losses_expire(&losses, 113);
	cr_expect_eq(losses.lost, 3);
	losses_skip(&losses, 120);
	losses_expire(&losses, 121);
	cr_expect_eq(losses.lost, 4, "what was skipped is not lost");
}

Test(losses, numbers_wrap)
{
	static struct losses losses;
	uint32_t first = UINT32_MAX - 500;

	losses_begin(&losses, first);
	for (uint32_t i = 0; i < 100000; i++) {
		if (i % 10)
			losses_reply(&losses, first + i);
		if (i >= 1000)
			losses_expire(&losses, first + i - 1000);
	}
	losses_expire(&losses, first + 100000);
	cr_expect_eq(losses.replied, 90000);
	cr_expect_eq(losses.lost, 10000);
	cr_expect_eq(losses.late, 0);
	cr_expect_eq(losses.reordered, 0);
}

Test(probe, each_run_begins_at_another_number)
{
	uint32_t one = probe_first_sequence(), least = one;

	for (int i = 0; i < 8; i++) {
		uint32_t next = probe_first_sequence();

		cr_expect_neq(next, one);
		least = next > least ? least : next;
	}
	cr_expect_gt(least, 1000, "it is by chance with one run in 400,000");
}

Test(probe, source_ports)
{
	uint64_t a = graph_member_id("a"), b = graph_member_id("b");

	cr_expect_eq(probe_source_port(a, b), probe_source_port(b, a), "both ends choose alike");
	cr_expect_neq(probe_source_port(a, b), probe_source_port(a, graph_member_id("c")));
	for (int i = 0; i < 1000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "h%d", i);
		cr_assert(probe_source_port(a, graph_member_id(name)) >= PROBESOCK_PORT_BASE);
	}
}

Test(probe, datagram)
{
	struct probe_datagram datagram;
	const struct esc_probe *probe = &datagram.probe;

	probe_datagram_init(&datagram, 0x1122, 0x3344, 0x5566, ESC_PROBE_PLANE);
	probe_datagram_number(&datagram, ESC_PROBE_OPCODE_REQUEST, 0x01020304, 9, ESC_PROBE_SECOND);
	cr_expect_eq(datagram.bth.opcode, 0xe5);
	cr_expect_eq(be16toh(datagram.bth.pkey), 0xffff);
	cr_expect_eq(be32toh(datagram.bth.psn), 0x020304, "24 bits of it");
	cr_expect_eq(be32toh(probe->magic), ESC_PROBE_MAGIC);
	cr_expect_eq(probe->version, ESC_PROBE_VERSION);
	cr_expect_eq(probe->flags, ESC_PROBE_PLANE | ESC_PROBE_SECOND);
	cr_expect_eq(be64toh(probe->sender), 0x1122);
	cr_expect_eq(be64toh(probe->target), 0x3344);
	cr_expect_eq(be64toh(probe->epoch), 0x5566);
	cr_expect_eq(be32toh(probe->sequence), 0x01020304);
	cr_expect_eq(be32toh(probe->pair), 9);
	probe_datagram_number(&datagram, ESC_PROBE_OPCODE_WARMUP, 1, 10, 0);
	cr_expect_eq(probe->flags, ESC_PROBE_PLANE, "the plane stays, the rest is of one packet");
}

Test(local, skew)
{
	cr_expect_eq(clock_local_ns(123, 0, 0), 123);
	cr_expect_eq(clock_local_ns(1000000000, -5, 0), 999999995);
	cr_expect_eq(clock_local_ns(1000000000, 0, 30000), 1000030000);
	cr_expect_eq(clock_local_ns(1000000000, 0, -30000), 999970000);
	/* A year of nanoseconds times the drift is more than 64 bits. */
	cr_expect_eq(clock_local_ns(31536000000000000ull, 0, 400000),
		     31536000000000000ll + 12614400000000ll);
	for (uint64_t t = 1, last = 0; t < 10000000000ull; t = t * 3 + 1) {
		cr_expect((uint64_t)clock_local_ns(t, 0, -400000) >= last);
		last = (uint64_t)clock_local_ns(t, 0, -400000);
	}
}
