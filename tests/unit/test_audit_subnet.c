// SPDX-License-Identifier: BSD-2-Clause
/* The links of an InfiniBand subnet, of recorded output of infiniband-diags (with ibsim): 3 leaves,
 * 2 spines. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../lib/tree.h"
#include "audit/internal.h"
#include "base/json.h"
#include "base/readfile.h"
#include "net/iblinks.h"
#include "pacing/random.h"

#define FIXTURES "tests/fixtures/subnet/"

static char *fixture(const char *name)
{
	char path[256], *text = NULL, *error = NULL;
	size_t bytes;

	snprintf(path, sizeof(path), FIXTURES "%s", name);
	cr_assert_eq(readfile(path, 1 << 20, &text, &bytes, NULL, &error), 0, "%s", error);
	return text;
}

static void put_text(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	put(name, "");
	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "w");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

/* @now: of iblinkinfo; NULL: the tools are not there. */
static json_t *report_of(const char *now, const char *before, const char *errors)
{
	struct audit_options options = {
		.root = root, .subnet = true, .subnet_links = before, .only = "backend.subnet"};

	unpack("mlx5-infiniband");
	if (now)
		put_text("command/iblinkinfo", now);
	if (errors)
		put_text("command/ibqueryerrors", errors);
	return audit_local(&options);
}

static const json_t *entry_of(const json_t *report, const char *check, size_t at)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry)
		if (!strcmp(json_text(entry, "check"), check) && !at--)
			return entry;
	return NULL;
}

static const char *text_of(const json_t *report, const char *check, size_t at, const char *key)
{
	return json_text(entry_of(report, check, at), key);
}

Test(subnet, a_cut_link, .fini = clean)
{
	char *before = fixture("iblinkinfo"), *cut = fixture("iblinkinfo-cut");
	json_t *report = report_of(before, before, NULL);

	cr_expect_str_eq(text_of(report, "subnet.uplinks", 0, "result"), "pass");
	cr_expect_str_eq(text_of(report, "subnet.uplinks", 0, "value"),
			 "2 links of each of 3 switches with hosts");
	cr_expect_str_eq(text_of(report, "subnet.links", 0, "result"), "pass");
	cr_expect_str_eq(text_of(report, "subnet.errors", 0, "result"), "unknown");
	json_decref(report);
	report = report_of(cut, before, NULL);
	cr_expect_str_eq(text_of(report, "subnet.uplinks", 0, "result"), "fail");
	cr_expect_str_eq(text_of(report, "subnet.uplinks", 0, "subject"), "leaf1");
	cr_expect_str_eq(text_of(report, "subnet.uplinks", 0, "value"),
			 "1 of 2 links to other switches");
	cr_expect_null(entry_of(report, "subnet.uplinks", 1));
	cr_expect_str_eq(text_of(report, "subnet.links", 0, "result"), "fail");
	cr_expect_str_eq(text_of(report, "subnet.links", 0, "subject"), "leaf1:6");
	cr_expect_str_eq(text_of(report, "subnet.links", 0, "value"), "no link to spine2:1");
	cr_expect_null(entry_of(report, "subnet.links", 1), "once, and no other");
	cr_expect(*text_of(report, "subnet.links", 0, "remedy"));
	json_decref(report);
	free(before);
	free(cut);
}

/* ibsim's ports could all be 12X; without that text nothing is slow. */
Test(subnet, speed_and_errors, .fini = clean)
{
	char *links = fixture("iblinkinfo"), *errors = fixture("ibqueryerrors"), *at;
	json_t *report = report_of(links, NULL, errors);

	cr_expect_str_eq(text_of(report, "subnet.speed", 0, "result"), "fail");
	cr_expect(strstr(text_of(report, "subnet.speed", 0, "value"), "Could be 12X"));
	cr_expect_str_eq(text_of(report, "subnet.links", 0, "result"), "unknown");
	cr_expect_str_eq(text_of(report, "subnet.errors", 0, "subject"), "spine2:1");
	cr_expect_str_eq(text_of(report, "subnet.errors", 1, "subject"), "leaf2:5");
	cr_expect_str_eq(text_of(report, "subnet.errors", 1, "value"), "[LinkDownedCounter == 9]");
	cr_expect_null(entry_of(report, "subnet.errors", 2));
	json_decref(report);
	while ((at = strstr(links, "Could be")))
		memset(at, ' ', 8);
	report = report_of(links, NULL,
			   "## Summary: 9 nodes checked, 0 bad nodes found\n"
			   "##          44 ports checked, 0 ports have errors\n");
	cr_expect_str_eq(text_of(report, "subnet.speed", 0, "result"), "pass");
	cr_expect_str_eq(text_of(report, "subnet.errors", 0, "result"), "pass");
	json_decref(report);
	report = report_of(NULL, NULL, NULL);
	for (size_t i = 0; i < json_array_size(json_object_get(report, "results")); i++)
		cr_expect_str_eq(
			json_text(json_array_get(json_object_get(report, "results"), i), "result"),
			"unknown");
	json_decref(report);
	free(links);
	free(errors);
}

/* Any change of a byte, any end: ports with their texts, and no crash. */
Test(subnet, broken_output)
{
	char *text = fixture("iblinkinfo"), *copy = strdup(text);
	uint64_t seed = (uint64_t)time(NULL), state = seed;
	size_t bytes = strlen(text);

	printf("# SEED=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 3000; i++) {
		struct iblinks subnet = {};

		memcpy(copy, text, bytes + 1);
		for (int k = 0; k < 1 + i % 20; k++)
			copy[(size_t)(pacing_random_unit(&state) * (double)bytes)] =
				(char)(pacing_random_unit(&state) * 256);
		copy[(size_t)(pacing_random_unit(&state) * (double)bytes)] = '\0';
		iblinks_parse(&subnet, copy);
		for (size_t p = 0; p < subnet.count; p++)
			cr_expect(memchr(subnet.ports[p].name, 0, sizeof(subnet.ports[p].name)) &&
				  memchr(subnet.ports[p].state, 0, sizeof(subnet.ports[p].state)));
		free(subnet.ports);
	}
	free(copy);
	free(text);
}
