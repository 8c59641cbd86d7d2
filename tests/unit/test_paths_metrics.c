// SPDX-License-Identifier: BSD-2-Clause
/* Candidate paths in the metrics: which one by one, how many, and what is not known is absent. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "paths/internal.h"

static struct path_pair_facts pair;
static struct path_row list[4];
static size_t not_shown;

static struct path_row row(unsigned int id, enum pathlive_state state, unsigned int qps)
{
	return (struct path_row){
		.pair = &pair,
		.netdev = "eth1",
		.path = {.id = id,
			 .sport = 50000 + id,
			 .state = state,
			 .received = true,
			 .out = {.bound_ns = NAN},
			 .in = {.bound_ns = NAN},
			 .qps = qps},
	};
}

static void setup(void)
{
	memset(&pair, 0, sizeof(pair));
	pair.port = 3;
	snprintf(pair.peer, sizeof(pair.peer), "h2");
	address_parse("10.0.0.1", &pair.key.src);
	address_parse("10.0.0.2", &pair.key.dst);
	list[0] = row(0, PATHLIVE_UP, 1);
	list[1] = row(1, PATHLIVE_UP, 3);
	list[2] = row(2, PATHLIVE_HOLD_DOWN, 0);
	list[3] = row(3, PATHLIVE_DOWN, 0);
	not_shown = 0;
}

TestSuite(paths_metrics, .init = setup);

static char *written(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputc('\n', out);
	paths_write_rows(out, list, 4, not_shown);
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

#define ROUTE "netdev=\"eth1\",peer=\"h2\",src=\"10.0.0.1\",dst=\"10.0.0.2\""

Test(paths_metrics, failed_ones_first_then_the_busiest)
{
	static const unsigned int want[] = {3, 2, 1, 0};

	paths_sort_rows(list, 4);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(list[i].path.id, want[i], "%zu: %u", i, list[i].path.id);
	list[3].path.diverted_ns = 1;
	paths_sort_rows(list, 4);
	cr_expect_eq(list[2].path.id, 0, "one that is diverted is listed before a healthy one");
}

Test(paths_metrics, state_and_counts)
{
	list[0].path.group = 7;
	list[0].path.sent = 10;
	list[0].path.replied = 8;
	list[0].path.lost = 2;
	list[0].path.diverted_ns = 5;
	not_shown = 9;
	expect("escapement_path_state{" ROUTE ",sport=\"50000\",path=\"7\",state=\"up\"} 1", true);
	expect("escapement_path_state{" ROUTE ",sport=\"50003\",state=\"up\"} 0", true);
	expect("escapement_path_state{" ROUTE ",sport=\"50002\",state=\"hold_down\"} 1", true);
	expect("escapement_path_qps{" ROUTE ",sport=\"50001\"} 3", true);
	expect("escapement_path_diverted{" ROUTE ",sport=\"50000\",path=\"7\"} 1", true);
	expect("escapement_path_sent_total{" ROUTE ",sport=\"50000\"} 10", true);
	expect("escapement_path_replied_total{" ROUTE ",sport=\"50000\"} 8", true);
	expect("escapement_path_lost_total{" ROUTE ",sport=\"50000\"} 2", true);
	expect("escapement_paths_not_shown 9", true);
}

Test(paths_metrics, one_of_which_no_probe_was_received_is_not_up)
{
	list[0].path.received = false;
	expect("escapement_path_state{" ROUTE ",sport=\"50000\",state=\"suspect\"} 1", true);
}

Test(paths_metrics, a_delay_that_is_not_known_is_absent)
{
	char *text = written();

	cr_expect_null(strstr(text, "path_owd"), "%s", text);
	free(text);
	list[1].out = (struct quantiles){
		.samples = 3, .min_ns = 1000, .p50_ns = 2000, .p99_ns = 3000, .max_ns = 4000};
	list[1].path.out.bound_ns = 250;
	expect("escapement_path_owd_p99_seconds{" ROUTE ",sport=\"50001\",direction=\"out\"} 3e-06",
	       true);
	expect("escapement_path_owd_error_bound_seconds{" ROUTE
	       ",sport=\"50001\",direction=\"out\"} 2.5e-07",
	       true);
	text = written();
	cr_expect_null(strstr(text, "direction=\"in\""), "%s", text);
	free(text);
}

static char *all_written(struct paths *paths)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	paths_write_metrics(paths, out);
	fclose(out);
	return text;
}

Test(paths_metrics, without_paths_there_is_nothing)
{
	static struct config config;
	static struct core core = {.config = &config};
	static struct paths paths = {.core = &core};
	char *text;

	cr_assert_eq(pathsend_new(&paths.send), 0);
	text = all_written(&paths);
	cr_expect_str_eq(text, "");
	free(text);
	paths.facts.on = true;
	text = all_written(&paths);
	cr_expect(strstr(text, "\nescapement_paths{state=\"up\"} 0\n"), "%s", text);
	cr_expect(strstr(text, "\nescapement_paths_not_shown 0\n"), "%s", text);
	free(text);
	pathsend_free(paths.send);
}
