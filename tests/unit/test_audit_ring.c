// SPDX-License-Identifier: BSD-2-Clause
/* The ring of bandwidth tests: perftest's command line and output, its order, and what its figures
 * mean. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/internal.h"
#include "base/json.h"
#include "pacing/random.h"
#include "perftest_output.h"
#include "ring/internal.h"

/* --- perftest --- */

/* With the queue pairs of the other end, whose numbers follow each other there. */
Test(audit_ring, output_of_perftest)
{
	static const struct {
		const char *text;
		size_t qps;
		double gbps;
		uint32_t first;
	} rows[] = {
		{perftest_1qp, 1, 0.033233, 0x11},
		{perftest_2qp, 2, 0.024849, 0x12},
		{perftest_4qp, 4, 0.034155, 0x14},
		{perftest_8qp, 8, 0.043787, 0x18},
		/* It prints a bandwidth, too: its exit status is what makes it no result. */
		{perftest_dead, 1, 0.002350, 0x20},
	};
	struct ring_result result;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ring_parse(rows[i].text, &result);
		cr_expect_float_eq(result.gbps, rows[i].gbps, 1e-9, "%zu: %f", i, result.gbps);
		cr_assert_eq(result.qpn_count, rows[i].qps, "%zu", i);
		for (size_t k = 0; k < rows[i].qps; k++)
			cr_expect_eq(result.remote_qpns[k], rows[i].first + k);
	}
	ring_parse("", &result);
	cr_expect(result.gbps == 0 && result.qpn_count == 0, "no server");
}

/* Cut off anywhere, or with any byte changed, it is a smaller result, or another one, and no crash.
 */
Test(audit_ring, broken_output)
{
	uint64_t seed = (uint64_t)time(NULL), state = seed;
	struct ring_result result;
	char text[sizeof(perftest_8qp)];

	printf("# SEED=%llu\n", (unsigned long long)seed);
	for (size_t cut = 0; cut < sizeof(perftest_8qp); cut++) {
		memcpy(text, perftest_8qp, sizeof(perftest_8qp));
		text[cut] = '\0';
		ring_parse(text, &result);
		cr_expect(result.gbps >= 0 && result.qpn_count <= 8);
		memcpy(text, perftest_8qp, sizeof(perftest_8qp));
		text[cut < sizeof(perftest_8qp) - 1 ? cut : 0] =
			(char)(1 + (int)(pacing_random_unit(&state) * 255));
		ring_parse(text, &result);
		cr_expect(result.gbps >= 0 && result.gbps < 1e6 &&
			  result.qpn_count <= RING_QPS_MOST);
	}
	ring_parse(NULL, &result);
	cr_expect(result.gbps == 0);
	/* In MiB/s, without --report_gbits, it is no result. */
	ring_parse(" #bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]\n"
		   " 65536 1000 100.00 99.00 0.001\n",
		   &result);
	cr_expect(result.gbps == 0);
}

Test(audit_ring, command_line)
{
	const struct ring_end end = {.device = "mlx5_1",
				     .port = 1,
				     .tcp_port = 18539,
				     .qps = 8,
				     .seconds = 2,
				     .gid_index = 3,
				     .traffic_class = 106,
				     .to = "10.0.0.2"};
	struct ring_end server = end;
	struct ring_argv argv;
	char line[256] = "";

	ring_argv(&end, &argv);
	for (size_t i = 0; argv.words[i]; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i ? " " : "",
			 argv.words[i]);
	cr_expect_str_eq(line,
			 "ib_write_bw -d mlx5_1 -i 1 -p 18539 -q 8 -t 8 -D 2 -x 3 --tclass 106 "
			 "-u 20 -F --report_gbits 10.0.0.2");
	server.to = NULL;
	server.gid_index = server.traffic_class = -1;
	ring_argv(&server, &argv);
	for (size_t i = 0; argv.words[i]; i++)
		cr_expect(strcmp(argv.words[i], "-x") && strcmp(argv.words[i], "--tclass"));
	cr_expect_str_eq(argv.words[argv.count - 1], "--report_gbits");
}

/* NICs of a host and steps have ports of their own. */
Test(audit_ring, ports)
{
	const struct ring_plan plan = {.traffic_ns = 2000000000, .orders = 2};
	bool used[65536] = {};

	cr_expect_eq(ring_steps(&plan), 8);
	for (unsigned int place = 0; place < 64; place++)
		for (unsigned int step = 0; step < 8; step++) {
			unsigned int port = ring_port(place, step);

			cr_assert(port < 32768 && !used[port]); /* below those of connections */
			used[port] = true;
		}
}

/* --- the order --- */

Test(audit_ring, order)
{
	json_t *members = json_pack("[{s:s}, {s:s}, {s:s}, {s:s}]", "host", "n1", "host", "n2",
				    "host", "n10", "host", "n3");
	size_t order[4];
	char *error = NULL;

	cr_assert(!ring_members_order(members, NULL, order, &error));
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(order[i], i);
	/* By rank and not by line; what is twice counts once; what is not there comes last. */
	cr_assert(!ring_members_order(
		members,
		"rank 1=n1 slot=0\nrank 0=n10 slot=0\n\n# x\nrank 2=n10 slot=0\n"
		"rank 3=other slot=0\nrank 4=n3 slot=0",
		order, &error));
	cr_expect(order[0] == 2 && order[1] == 0 && order[2] == 3 && order[3] == 1);
	cr_assert(!ring_members_order(members, "n3\r\nn2\n", order, &error));
	cr_expect(order[0] == 3 && order[1] == 1 && order[2] == 0 && order[3] == 2);
	cr_expect(ring_members_order(members, "n3\nrank x=n1\n", order, &error) == -EINVAL);
	cr_expect(error && strstr(error, "line 2") && strstr(error, "topo --ranks"), "%s", error);
	free(error);
	json_decref(members);
}

/* --- the checks of a host --- */

static json_t *row(const char *order, int qps, double gbps, const char *key, const char *why)
{
	json_t *object =
		json_pack("{s:s, s:i, s:s, s:s, s:s, s:s}", "order", order, "qps", qps, "nic",
			  "mlx5_0:1", "address", "10.0.0.1", "peer", "h2", "to", "10.0.0.2");

	if (gbps > 0)
		json_put_real(object, "gbps", gbps);
	if (key)
		json_put_text(object, key, why);
	return object;
}

static json_t *report_of(json_t *ring, const json_t *expect)
{
	struct audit_options options = {
		.root = "/nowhere", .ring = ring, .only = "ring", .expect = expect};
	json_t *report = audit_local(&options);

	json_decref(ring);
	cr_assert(report);
	return report;
}

static const json_t *entry_of(const json_t *report, const char *host, const char *check)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry)
		if (!strcmp(json_text(entry, "check"), check) &&
		    !strcmp(json_text(entry, "host"), host))
			return entry;
	return NULL;
}

static const char *result_of(const json_t *report, const char *host, const char *check)
{
	return json_text(entry_of(report, host, check), "result");
}

Test(audit_ring, checks_of_a_host)
{
	json_t *least = json_pack("{s:{s:s, s:s}}", "values", "ring.host_1qp", "90 Gbit/s",
				  "ring.topology_1qp", "98.5");
	json_t *ring = json_pack("{s:[o, o, o, o, o]}", "rows", row("host", 1, 97.3, NULL, NULL),
				 row("host", 2, 0, "error", perftest_dead_stderr),
				 row("host", 4, 0, "error", perftest_no_server_stderr),
				 row("host", 8, 0, "missed", "this host began too late"),
				 row("topology", 1, 98.4, NULL, NULL));
	json_t *report = report_of(ring, least);

	cr_expect_str_eq(result_of(report, "", "ring.host_1qp"), "pass");
	cr_expect_str_eq(result_of(report, "", "ring.topology_1qp"), "fail");
	cr_expect_str_eq(json_text(entry_of(report, "", "ring.topology_1qp"), "value"),
			 "98.40 Gbit/s to h2");
	cr_expect_str_eq(result_of(report, "", "ring.host_2qp"), "fail");
	cr_expect(strstr(json_text(entry_of(report, "", "ring.host_2qp"), "value"),
			 "to h2: ethernet_read_keys"));
	/* No one listens: that host took no part, of which its own report says why. */
	cr_expect_str_eq(result_of(report, "", "ring.host_4qp"), "unknown");
	cr_expect_str_eq(result_of(report, "", "ring.host_8qp"), "unknown");
	cr_expect_null(entry_of(report, "", "ring.topology_2qp"));
	json_decref(report);
	report = report_of(json_pack("{s:s}", "note", "ib_write_bw is not installed here"), NULL);
	cr_expect_str_eq(result_of(report, "", "ring.host_1qp"), "unknown");
	json_decref(report);
	report = report_of(NULL, NULL);
	cr_expect_str_eq(result_of(report, "", "ring.host_1qp"), "unknown");
	json_decref(report);
	json_decref(least);
}

/* --- many hosts --- */

/* A ring of @count hosts, of which host @slow has half of the others' both ways, or only to its
 * successor. */
static json_t *fleet(size_t count, size_t slow, bool both)
{
	json_t *reports = json_array();

	for (size_t i = 0; i < count; i++) {
		bool is_slow = i == slow || (both && (i + 1) % count == slow);
		json_t *entry = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:o, s:o}", "check",
					  "ring.host_1qp", "group", "ring", "name", "x", "subject",
					  "mlx5_0:1", "result", "recorded", "value",
					  is_slow ? "48.00 Gbit/s" : "97.00 Gbit/s", "gbps",
					  (is_slow ? 48.0 : 97.0) + (double)i / 100, "address",
					  json_sprintf("10.0.0.%zu", i), "to",
					  json_sprintf("10.0.0.%zu", (i + 1) % count));

		json_array_append_new(reports,
				      json_pack("{s:i, s:i, s:o, s:[], s:[o]}", "version", 1,
						"run_ns", 1, "host", json_sprintf("h%zu", i),
						"nics", "results", entry));
	}
	return reports;
}

static json_t *merged(size_t count, size_t slow, bool both)
{
	json_t *reports = fleet(count, slow, both), *report;
	char *error = NULL;

	report = audit_merge(reports, NULL, &error);
	cr_assert(report, "%s", error);
	json_decref(reports);
	return report;
}

Test(audit_ring, a_slow_nic_is_named_and_not_those_beside_it)
{
	for (size_t count = 3; count < 12; count++)
		for (size_t slow = 0; slow < count; slow++) {
			json_t *report = merged(count, slow, true);
			char host[16], before[16];

			snprintf(host, sizeof(host), "h%zu", slow);
			snprintf(before, sizeof(before), "h%zu", (slow + count - 1) % count);
			if (count > 4) {
				cr_expect_str_eq(result_of(report, host, "ring.host_1qp"), "fail");
				cr_expect_str_eq(result_of(report, before, "ring.host_1qp"),
						 "skipped");
				cr_expect_eq(json_count(report, "errors"), 1, "%zu of %zu", slow,
					     count);
			}
			json_decref(report);
			report = merged(count, slow, false);
			cr_expect_str_eq(result_of(report, host, "ring.host_1qp"), "fail",
					 "one way");
			cr_expect_eq(json_count(report, "errors"), 1);
			json_decref(report);
		}
}

Test(audit_ring, nothing_is_compared_with_one_other_host)
{
	json_t *report = merged(2, 0, false), *same = merged(8, 99, true);

	cr_expect_str_eq(result_of(report, "h0", "ring.host_1qp"), "unknown");
	cr_expect_eq(json_count(report, "errors"), 0);
	cr_expect_eq(json_count(same, "errors"), 0);
	cr_expect_eq(json_count(same, "passed"), 8);
	json_decref(report);
	json_decref(same);
}
