// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "fleet/fleet.h"

static struct members *parse(const char *text, char **error)
{
	struct members *members = NULL;

	*error = NULL;
	members_parse("m.json", text, strlen(text), &members, error);
	return members;
}

Test(members, a_fleet)
{
	char *error, text[ADDRESS_TEXT_BYTES];
	struct members *members =
		parse("[{\"targets\": [\"10.0.0.3\", \"10.0.0.2:9100\"],"
		      "  \"labels\": {\"host\": \"h2\", \"rack\": \"r1\", \"other\": \"x\"}},"
		      " {\"targets\": [\"[fd00::2]:9100\", \"fd00::1\"]}, {\"targets\": []}]",
		      &error);

	cr_assert_not_null(members, "%s", error);
	cr_assert_eq(members->count, 4);
	/* By address, and ::ffff:10.0.0.2 comes before fd00::1. */
	cr_expect_str_eq(address_format(&members->list[0].address, text), "10.0.0.2");
	cr_expect_str_eq(members->list[0].host, "h2");
	cr_expect_str_eq(members->list[0].rack, "r1");
	cr_expect_str_eq(address_format(&members->list[1].address, text), "10.0.0.3");
	cr_expect_str_eq(address_format(&members->list[2].address, text), "fd00::1");
	cr_expect_str_eq(members->list[2].host, "fd00::1");
	cr_expect_null(members->list[2].rack);
	cr_expect_str_eq(address_format(&members->list[3].address, text), "fd00::2");
	members_free(members);
}

Test(members, further_addresses_are_of_the_same_host)
{
	char *error;
	struct esc_address address;
	struct members *members =
		parse("[{\"targets\": [\"10.0.0.2\", \"fd00::2\"], \"labels\": {\"host\": \"h2\","
		      "  \"addresses\": \"10.3.0.2,fd03::2, 10.0.0.2\", \"plane\": \"backend\"}},"
		      " {\"targets\": [\"10.0.0.4\"], \"labels\": {\"addresses\": \"10.3.0.4\"}}]",
		      &error);
	static const struct {
		const char *address, *host;
	} cases[] = {
		{"10.0.0.2", "h2"},	  {"fd00::2", "h2"},	    {"10.3.0.2", "h2"},
		{"fd03::2", "h2"},	  {"10.0.0.4", "10.0.0.4"}, {"10.3.0.4", "10.0.0.4"},
		{"10.3.0.3", NULL},
	};

	cr_assert_not_null(members, "%s", error);
	cr_assert_eq(members->count, 3, "they are not probed");
	cr_assert_eq(members->other_count, 3, "a target named again is none");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *host;

		cr_assert(address_parse(cases[i].address, &address));
		host = members_host(members, &address);
		if (cases[i].host)
			cr_assert_str_eq(host, cases[i].host);
		else
			cr_assert_null(host);
	}
	cr_assert_null(members_host(NULL, &address));
	cr_assert_eq(members->others[0].plane, MEMBER_BACKEND); /* 10.3.0.2 */
	cr_assert_eq(members->others[1].plane, MEMBER_ANY);	/* 10.3.0.4 */
	members_free(members);
}

Test(members, nobody_is_a_fleet_too)
{
	char *error;
	struct members *members = parse("[]", &error);

	cr_assert_not_null(members, "%s", error);
	cr_expect_eq(members->count, 0);
	members_free(members);
}

Test(members, each_mistake_has_its_sentence)
{
	static const struct {
		const char *text, *words[3];
	} bad[] = {
		{"", {"m.json:", "not JSON"}},
		{"[{\"targets\": [\"10.0.0.2\"]},\n oops]",
		 {"m.json:2: not JSON", "should look like"}},
		{"{}", {"list of objects"}},
		{"[1]", {"entry 0", "object"}},
		{"[{\"targets\": []}, {}]", {"entry 1", "targets", "missing"}},
		{"[{\"targets\": \"10.0.0.2\"}]", {"entry 0, targets", "no list"}},
		{"[{\"targets\": [\"10.0.0.2\", 7]}]", {"entry 0, targets[1]", "text"}},
		{"[{\"targets\": [\"h2\"]}]", {"targets[0]", "\"h2\"", "IP address"}},
		{"[{\"targets\": [\"10.0.0.256\"]}]", {"10.0.0.256"}},
		{"[{\"targets\": [\"\"]}]", {"targets[0]"}},
		{"[{\"targets\": [], \"labels\": []}]", {"entry 0, labels", "object"}},
		{"[{\"targets\": [], \"labels\": {\"host\": 3}}]", {"labels.host", "text"}},
		{"[{\"targets\": [], \"labels\": {\"host\": \"\"}}]", {"labels.host"}},
		{"[{\"targets\": [], \"labels\": {\"plane\": \"back\"}}]",
		 {"labels.plane", "\"back\"", "backend or frontend"}},
		{"[{\"targets\": [\"10.0.0.2\"]}, {\"targets\": [\"10.0.0.2:1\"]}]",
		 {"10.0.0.2", "twice"}},
		{"[{\"targets\": [], \"targets\": []}]", {"not JSON", "duplicate"}},
		{"[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"addresses\": \"10.3.0.2 h9\"}}]",
		 {"entry 0, labels.addresses", "\"h9\"", "commas"}},
		{"[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"addresses\": \" ,\"}}]",
		 {"labels.addresses", "none"}},
		{"[{\"targets\": [\"10.0.0.2\", \"10.0.0.3\"], \"labels\": {\"addresses\": "
		 "\"10.3.0.2\"}}]",
		 {"labels.addresses", "not known which host", "`host`"}},
		{"[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"addresses\": \"10.0.0.3\"}},"
		 " {\"targets\": [\"10.0.0.3\"]}]",
		 {"10.0.0.3", "10.0.0.2", "keep one"}},
		{"[{\"targets\": [\"10.0.0.2\"], \"labels\": {\"addresses\": \"10.3.0.2\"}},"
		 " {\"targets\": [\"10.0.0.3\"], \"labels\": {\"addresses\": \"10.3.0.2\"}}]",
		 {"10.3.0.2", "10.0.0.3", "keep one"}},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *error;
		struct members *members = parse(bad[i].text, &error);

		cr_assert_null(members, "%s is taken", bad[i].text);
		cr_assert_not_null(error);
		for (int w = 0; w < 3 && bad[i].words[w]; w++)
			cr_expect(strstr(error, bad[i].words[w]), "%s: lacks \"%s\": %s",
				  bad[i].text, bad[i].words[w], error);
		free(error);
	}
}

Test(members, long_targets_are_refused)
{
	char text[400], *error;

	memset(text, '1', sizeof(text));
	memcpy(text, "[{\"targets\":[\"", 14);
	strcpy(text + 300, "\"]}]");
	cr_expect_null(parse(text, &error));
	cr_expect(error && strlen(error) < 300, "the sentence stays short");
	free(error);
}

Test(members, nics_that_stand_in_for_each_other)
{
	char *error, text[ADDRESS_TEXT_BYTES];
	struct members *members =
		parse("[{\"targets\": [\"10.1.1.2\"], \"labels\": {\"host\": \"h1\","
		      "  \"nics\": \"10.1.1.2|10.2.1.2, 10.1.200.1=10.1.1.2|10.2.1.2,"
		      " fd00::1|fd00::2\"}}]",
		      &error);

	cr_assert_not_null(members, "%s", error);
	cr_assert_eq(members->nic_count, 3);
	cr_expect_str_eq(address_format(&members->nics[0].address, text), "10.1.1.2");
	cr_expect_str_eq(address_format(&members->nics[0].first, text), "10.1.1.2");
	cr_expect_str_eq(address_format(&members->nics[0].second, text), "10.2.1.2");
	cr_expect_str_eq(address_format(&members->nics[1].address, text), "10.1.200.1");
	cr_expect_str_eq(address_format(&members->nics[1].first, text), "10.1.1.2");
	cr_expect_str_eq(address_format(&members->nics[2].second, text), "fd00::2");
	cr_expect_str_eq(members->nics[2].host, "h1");
	members_free(members);
}

Test(members, nics_that_are_not_understood_are_refused)
{
	static const struct {
		const char *nics, *named;
	} cases[] = {
		{"10.1.1.2", "FIRST|SECOND"},
		{"10.1.1.2|nowhere", "nowhere"},
		{"10.1.1.2|fd00::2", "one IP version"},
		{"10.1.1.2|10.2.1.2=10.3.1.2", "FIRST|SECOND"},
		{"10.1.1.2|10.2.1.2, 10.1.1.2|10.3.1.2", "twice"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct members *members;
		char *error, *text;

		cr_assert(asprintf(&text,
				   "[{\"targets\": [\"10.1.1.2\"], \"labels\": {\"host\": \"h1\", "
				   "\"nics\": \"%s\"}}]",
				   cases[i].nics) > 0);
		members = parse(text, &error);
		cr_expect_null(members, "%s", cases[i].nics);
		cr_expect(error && strstr(error, cases[i].named), "%s: %s", cases[i].nics, error);
		free(error);
		free(text);
	}
}

/* --- the list in force --- */

static struct seen {
	unsigned int calls;
	size_t before;
	struct fleet *fleet;
	struct seen *first; /* was called before this one */
} seen[2];

static void on_change(void *context, const struct members *before)
{
	struct seen *one = context;

	one->calls++;
	one->before = before ? before->count : 0;
	cr_expect_not_null(fleet_members(one->fleet));
	cr_expect(!one->first || one->first->calls == one->calls, "in the order of subscription");
}

static void replace(const char *path, const char *text)
{
	char fresh[160];
	FILE *file;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(rename(fresh, path), 0);
}

Test(fleet, another_list_comes_into_force_or_is_refused)
{
	struct fleet_subscriber one = {.changed = on_change, .context = &seen[0]};
	struct fleet_subscriber two = {.changed = on_change, .context = &seen[1]};
	char folder[] = "/tmp/test_members.XXXXXX", path[128], *error = NULL;
	struct fleet *fleet;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/m.json", folder);
	replace(path, "[{\"targets\": [\"10.0.0.1\"]}]");
	cr_assert_eq(fleet_new(&fleet), 0);
	cr_expect_null(fleet_set(fleet, path, NULL));
	seen[0].fleet = seen[1].fleet = fleet;
	seen[1].first = &seen[0];
	fleet_subscribe(fleet, &one);
	fleet_subscribe(fleet, &two);
	cr_expect_eq(fleet_poll(fleet, &error), 0, "the file is as it was at the start");
	replace(path, "[{\"targets\": [\"10.0.0.1\", \"10.0.0.2\"]}]");
	cr_expect_eq(fleet_poll(fleet, &error), 1);
	cr_expect_eq(fleet_members(fleet)->count, 2);
	replace(path, "[{");
	cr_expect_eq(fleet_poll(fleet, &error), -EINVAL);
	cr_expect(error && strstr(error, "m.json"), "%s", error);
	free(error);
	cr_expect_eq(fleet_members(fleet)->count, 2, "the old ones stay");
	cr_expect_eq(fleet_poll(fleet, &error), 0, "refused once");
	fleet_unsubscribe(fleet, &one);
	unlink(path);
	cr_expect_eq(fleet_poll(fleet, &error), 0, "away while it is replaced");
	seen[1].first = NULL;
	replace(path, "[{\"targets\": [\"10.0.0.3\"]}]");
	cr_expect_eq(fleet_poll(fleet, &error), 1);
	cr_expect_eq(seen[0].calls, 1);
	cr_expect_eq(seen[1].calls, 2);
	cr_expect_eq(seen[1].before, 2);
	fleet_free(fleet);
	unlink(path);
	rmdir(folder);
}
