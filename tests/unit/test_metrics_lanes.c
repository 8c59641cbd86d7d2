// SPDX-License-Identifier: BSD-2-Clause
/* Candidate paths one by one in escapement.prom: which, how many, and what is not known is absent.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "api/metrics.h"

static struct metrics_facts facts;
static struct path_pair_facts pair;
static struct metrics_lane list[4];

static struct metrics_lane lane(unsigned int number, enum pathlive_state state, unsigned int qps)
{
	return (struct metrics_lane){
		.pair = &pair,
		.lane = {.lane = number,
			 .sport = 50000 + number,
			 .state = state,
			 .heard = true,
			 .bound_ns = NAN,
			 .in_bound_ns = NAN,
			 .qps = qps},
	};
}

static void setup(void)
{
	memset(&facts, 0, sizeof(facts));
	memset(&pair, 0, sizeof(pair));
	pair.port = 3;
	snprintf(pair.peer, sizeof(pair.peer), "h2");
	address_parse("10.0.0.1", &pair.key.src);
	address_parse("10.0.0.2", &pair.key.dst);
	facts.ports[0].info.index = 3;
	snprintf(facts.ports[0].info.name, sizeof(facts.ports[0].info.name), "eth1");
	facts.port_count = 1;
	facts.paths.there = facts.paths.on = true;
	list[0] = lane(0, PATHLIVE_UP, 1);
	list[1] = lane(1, PATHLIVE_UP, 3);
	list[2] = lane(2, PATHLIVE_HELD, 0);
	list[3] = lane(3, PATHLIVE_DOWN, 0);
	facts.lanes = (struct metrics_lanes){.list = list, .count = 4};
}

TestSuite(metrics_lanes, .init = setup);

static char *written(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputc('\n', out);
	metrics_write_lanes(out, &facts);
	fclose(out);
	return text;
}

static void expect(const char *line, bool there)
{
	char *text = written(), whole[256];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_expect_eq(strstr(text, whole) != NULL, there, "%s: %s in%s", line,
		     there ? "should be" : "should not be", text);
	free(text);
}

#define WAY "netdev=\"eth1\",peer=\"h2\",src=\"10.0.0.1\",dst=\"10.0.0.2\""

Test(metrics_lanes, trouble_comes_first_then_the_busiest)
{
	static const unsigned int want[] = {3, 2, 1, 0};

	metrics_lanes_sort(list, 4);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(list[i].lane.lane, want[i], "%zu: %u", i, list[i].lane.lane);
	list[3].lane.diverted_ns = 1;
	metrics_lanes_sort(list, 4);
	cr_expect_eq(list[2].lane.lane, 0, "one that is diverted comes before one that is well");
}

Test(metrics_lanes, state_and_counts)
{
	list[0].lane.group = 7;
	list[0].lane.sent = 10;
	list[0].lane.answered = 8;
	list[0].lane.lost = 2;
	list[0].lane.diverted_ns = 5;
	facts.lanes.left_out = 9;
	expect("escapement_path_state{" WAY ",sport=\"50000\",path=\"7\"} 2", true);
	expect("escapement_path_state{" WAY ",sport=\"50003\"} 0", true);
	expect("escapement_path_state{" WAY ",sport=\"50002\"} 3", true);
	expect("escapement_path_qps{" WAY ",sport=\"50001\"} 3", true);
	expect("escapement_path_diverted{" WAY ",sport=\"50000\",path=\"7\"} 1", true);
	expect("escapement_path_sent_total{" WAY ",sport=\"50000\"} 10", true);
	expect("escapement_path_answered_total{" WAY ",sport=\"50000\"} 8", true);
	expect("escapement_path_lost_total{" WAY ",sport=\"50000\"} 2", true);
	expect("escapement_paths_left_out 9", true);
}

Test(metrics_lanes, one_that_was_never_heard_is_not_up)
{
	list[0].lane.heard = false;
	expect("escapement_path_state{" WAY ",sport=\"50000\"} 1", true);
}

Test(metrics_lanes, a_delay_that_is_not_known_is_absent)
{
	char *text = written();

	cr_expect_null(strstr(text, "path_owd"), "%s", text);
	free(text);
	list[1].out = (struct quantiles){
		.samples = 3, .min_ns = 1000, .p50_ns = 2000, .p99_ns = 3000, .max_ns = 4000};
	list[1].lane.bound_ns = 250;
	expect("escapement_path_owd_seconds{" WAY
	       ",sport=\"50001\",direction=\"out\",stat=\"p99\"} 3e-06",
	       true);
	expect("escapement_path_owd_error_bound_seconds{" WAY
	       ",sport=\"50001\",direction=\"out\"} 2.5e-07",
	       true);
	text = written();
	cr_expect_null(strstr(text, "direction=\"in\""), "%s", text);
	free(text);
}

Test(metrics_lanes, without_paths_there_is_nothing)
{
	char *text;

	facts.paths.on = false;
	text = written();
	cr_expect_str_eq(text, "\n");
	free(text);
	metrics_lanes_gather(NULL, 32, &facts.lanes);
	cr_expect_eq(facts.lanes.count + facts.lanes.left_out, 0);
	free(facts.lanes.list);
}
