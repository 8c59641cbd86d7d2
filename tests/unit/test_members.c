// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "fleet/fleet.h"

static int fleet_poll(struct fleet *fleet, uint64_t now_ns, char **error)
{
	struct fleet_read *read = fleet_read_new(fleet);
	int err;

	cr_assert(read);
	fleet_read_run(read);
	err = fleet_read_take(fleet, read, now_ns, error);
	fleet_read_free(read);
	return err;
}

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
		{"10.0.0.2", "h2"}, {"fd00::2", "h2"},	      {"10.3.0.2", "h2"},
		{"fd03::2", "h2"},  {"10.0.0.4", "10.0.0.4"}, {"10.3.0.4", "10.0.0.4"},
		{"10.3.0.3", NULL},
	};

	cr_assert_not_null(members, "%s", error);
	cr_assert_eq(members->targets, 3, "they are not probed");
	cr_assert_eq(members->count, 6, "a target named again is the same");
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
	cr_assert_eq(members->list[2].plane, MEMBER_BACKEND); /* 10.3.0.2 */
	cr_assert_eq(members->list[3].plane, MEMBER_ANY);     /* 10.3.0.4 */
	members_free(members);
}

Test(members, an_empty_list_is_a_fleet_too)
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
		{"[{\"targets\": []},\n 2]", {"entry 1", "object"}},
		{"[{\"targets\": []},\n]", {"m.json:2: not JSON", "']'"}},
		{"[{\"targets\": []}\n\n{\"targets\": []}]", {"m.json:3: not JSON", "comma"}},
		{"[{\"targets\": []}\n", {"m.json:2: not JSON", "comma"}},
		{"[{\"targets\": []}\n,\n{\"targets\": [\n}]", {"m.json:4: not JSON", "'}'"}},
		{"[{\"targets\": []}]\n]", {"m.json:2: not JSON", "more"}},
		{"[", {"m.json:1: not JSON", "end of file"}},
		{"7", {"m.json", "should be a list"}},
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

Test(members, nics_that_are_backups_of_each_other)
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

Test(fleet, another_list_is_applied_or_refused)
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
	cr_expect_eq(fleet_poll(fleet, 0, &error), 0, "the file is as it was at the start");
	replace(path, "[{\"targets\": [\"10.0.0.1\", \"10.0.0.2\"]}]");
	cr_expect_not(fleet_has_read(fleet, path), "not yet");
	cr_expect_eq(fleet_poll(fleet, 0, &error), 1);
	cr_expect(fleet_has_read(fleet, path));
	cr_expect_not(fleet_has_read(fleet, "/other"));
	cr_expect_not(fleet_has_read(NULL, path));
	cr_expect_eq(fleet_members(fleet)->count, 2);
	replace(path, "[{");
	cr_expect_not(fleet_has_read(fleet, path));
	cr_expect_eq(fleet_poll(fleet, 0, &error), -EINVAL);
	cr_expect_not(fleet_has_read(fleet, path), "it is refused again, with its error");
	cr_expect(error && strstr(error, "m.json"), "%s", error);
	free(error);
	cr_expect_eq(fleet_members(fleet)->count, 2, "the old ones stay");
	cr_expect_eq(fleet_poll(fleet, 0, &error), 0, "refused once");
	fleet_unsubscribe(fleet, &one);
	unlink(path);
	cr_expect_eq(fleet_poll(fleet, 0, &error), 0, "away while it is replaced");
	seen[1].first = NULL;
	replace(path, "[{\"targets\": [\"10.0.0.3\"]}]");
	cr_expect_eq(fleet_poll(fleet, 0, &error), 1);
	cr_expect_eq(seen[0].calls, 1);
	cr_expect_eq(seen[1].calls, 2);
	cr_expect_eq(seen[1].before, 2);
	fleet_free(fleet);
	unlink(path);
	rmdir(folder);
}

Test(fleet, a_file_that_was_read_by_a_worker_is_used_once_and_while_it_is_the_same)
{
	char folder[] = "/tmp/test_members.XXXXXX", path[128], *error = NULL;
	struct members *members = NULL;
	struct fleet_read *read, *moved;
	int err = 1;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/m.json", folder);
	replace(path, "[{\"targets\": [\"10.0.0.1\", \"10.0.0.2\"]}]");
	cr_assert_not_null(read = fleet_read_file(path, "10.0.0.1", 4));
	cr_expect_not(fleet_read_use(read, path, &members, &err, &error), "not read yet");
	fleet_read_run(read);
	cr_assert_not_null(moved = fleet_read_move(read));
	fleet_read_free(read);
	cr_expect_not(fleet_read_use(moved, "/other", &members, &err, &error));
	cr_assert(fleet_read_use(moved, path, &members, &err, &error));
	cr_expect_eq(err, 0);
	cr_expect_eq(members->count, 2);
	cr_expect_not_null(members->plan, "made by the worker");
	members_free(members);
	cr_expect_not(fleet_read_use(moved, path, &members, &err, &error), "it was used");
	fleet_read_free(moved);

	cr_assert_not_null(read = fleet_read_file(path, "10.0.0.1", 4));
	fleet_read_run(read);
	replace(path, "[{\"targets\": [7]}]");
	cr_expect_not(fleet_read_use(read, path, &members, &err, &error), "it is another one");
	fleet_read_free(read);
	cr_assert_not_null(read = fleet_read_file(path, "10.0.0.1", 4));
	fleet_read_run(read);
	cr_assert(fleet_read_use(read, path, &members, &err, &error));
	cr_expect_eq(err, -EINVAL);
	cr_expect(error && strstr(error, "m.json"), "%s", error);
	free(error);
	fleet_read_free(read);
	cr_expect_not(fleet_read_use(NULL, path, &members, &err, &error));
	unlink(path);
	rmdir(folder);
}

/* --- lists that are held back --- */

/* Hosts "h@from" to "h@to". */
static void write_hosts(char *out, size_t size, int from, int to)
{
	size_t used = snprintf(out, size, "[");

	for (int i = from; i <= to; i++)
		used += snprintf(out + used, size - used,
				 "%s{\"targets\": [\"10.0.0.%d\", \"fd00::%d\"],"
				 " \"labels\": {\"host\": \"h%d\"}}",
				 i == from ? "" : ", ", i, i, i);
	snprintf(out + used, size - used, "]");
}

static struct members *hosts(int from, int to)
{
	char text[4096], *error;

	write_hosts(text, sizeof(text), from, to);
	return parse(text, &error);
}

Test(fleet, what_is_held_back)
{
	static const struct {
		int before[2], after[2];
		const char *host, *reason; /* NULL: it is applied */
	} cases[] = {
		{{1, 10}, {1, 10}, "h1", NULL},
		{{1, 10}, {1, 20}, "h1", NULL},
		{{1, 10}, {1, 5}, "h1", NULL}, /* just half */
		{{1, 10}, {1, 4}, "h1", "it loses 6 of 10 hosts"},
		{{1, 3}, {1, 1}, "h1", "it loses 2 of 3 hosts"},
		{{1, 2}, {1, 1}, "h1", NULL},
		{{1, 2}, {1, 0}, "h1", "it has no hosts"},
		{{1, 1}, {1, 0}, "h9", "it has no hosts"},
		{{1, 10}, {2, 10}, "h1", "it does not have host h1"},
		{{1, 10}, {2, 10}, "h11", NULL}, /* it was not there before */
		{{1, 10}, {4, 30}, "h5", NULL},
		{{1, 10}, {7, 30}, "h8", "it loses 6 of 10 hosts"}, /* however many come */
		{{1, 0}, {1, 0}, "h1", NULL},
		{{1, 0}, {2, 3}, "h1", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct members *before = hosts(cases[i].before[0], cases[i].before[1]);
		struct members *after = hosts(cases[i].after[0], cases[i].after[1]);
		struct fleet_held held = {};

		cr_assert(before && after);
		cr_expect_eq(fleet_compare(before, after, cases[i].host, &held),
			     cases[i].reason != NULL, "case %zu: %s", i, held.reason);
		cr_expect_str_eq(held.reason, cases[i].reason ? cases[i].reason : "", "case %zu",
				 i);
		cr_expect_eq(fleet_compare(NULL, after, cases[i].host, &held), 0);
		members_free(before);
		members_free(after);
	}
}

#define HOLD_NS 300000000000ull

static struct held_world {
	char folder[32], path[128];
	struct fleet *fleet;
} held;

static void replace_hosts(int from, int to)
{
	char text[4096];

	write_hosts(text, sizeof(text), from, to);
	replace(held.path, text);
}

/* Ten hosts are in force, this one is h1. */
static void begin_held(void)
{
	strcpy(held.folder, "/tmp/test_members.XXXXXX");
	cr_assert_not_null(mkdtemp(held.folder));
	snprintf(held.path, sizeof(held.path), "%s/m.json", held.folder);
	replace_hosts(1, 10);
	cr_assert_eq(fleet_new(&held.fleet), 0);
	cr_assert_eq(fleet_configure(held.fleet, "h1", HOLD_NS, 10), 0);
	cr_expect_null(fleet_set(held.fleet, held.path, hosts(1, 10)));
}

static void end_held(void)
{
	fleet_free(held.fleet);
	unlink(held.path);
	rmdir(held.folder);
}

/* Addresses in force, two for each host. */
static size_t in_force_at(uint64_t now_ns)
{
	char *error = NULL;
	int err = fleet_poll(held.fleet, now_ns, &error);

	cr_expect(err >= 0, "%s", error);
	free(error);
	return fleet_members(held.fleet)->count;
}

TestSuite(held, .init = begin_held, .fini = end_held);

Test(held, until_it_was_stable)
{
	const struct fleet_held *list;
	uint64_t left_ns;

	replace_hosts(1, 0);
	cr_expect_eq(in_force_at(1000), 20);
	list = fleet_held(held.fleet, 1000 + HOLD_NS / 2, &left_ns);
	cr_assert_not_null(list);
	cr_expect_str_eq(list->reason, "it has no hosts");
	cr_expect_eq(left_ns, HOLD_NS - HOLD_NS / 2);
	replace_hosts(1, 0);
	cr_expect_eq(in_force_at(1000 + HOLD_NS / 2), 20);
	cr_expect_eq(fleet_held(held.fleet, 0, &left_ns)->since_ns, 1000,
		     "written again, the same");
	replace_hosts(1, 2);
	cr_expect_eq(in_force_at(1000 + HOLD_NS), 20, "another one: the time starts over");
	cr_expect_eq(in_force_at(1000 + 2 * HOLD_NS - 1), 20);
	cr_expect_eq(in_force_at(1000 + 2 * HOLD_NS), 4);
	cr_expect_null(fleet_held(held.fleet, 0, &left_ns));
}

Test(held, until_the_file_is_whole_again)
{
	uint64_t left_ns;
	char *error;

	replace_hosts(1, 3);
	cr_expect_eq(in_force_at(0), 20);
	replace_hosts(1, 9);
	cr_expect_eq(in_force_at(HOLD_NS - 1), 18);
	cr_expect_null(fleet_held(held.fleet, 0, &left_ns));
	cr_expect_eq(in_force_at(2 * HOLD_NS), 18);
	/* A file that is not valid was not stable either. */
	replace_hosts(1, 3);
	cr_expect_eq(in_force_at(3 * HOLD_NS), 18);
	replace(held.path, "[{");
	cr_expect_eq(fleet_poll(held.fleet, 4 * HOLD_NS - 2, &error), -EINVAL);
	free(error);
	replace_hosts(1, 3);
	cr_expect_eq(in_force_at(4 * HOLD_NS - 1), 18);
	cr_expect_eq(in_force_at(4 * HOLD_NS + 1), 18);
	unlink(held.path);
	cr_expect_eq(in_force_at(6 * HOLD_NS), 18, "away while it is replaced");
	replace_hosts(1, 3);
	cr_expect_eq(in_force_at(6 * HOLD_NS + 1), 18, "it has just been read");
	cr_expect_eq(in_force_at(6 * HOLD_NS + 2), 6);
}

Test(held, a_reload_with_and_without_force)
{
	uint64_t left_ns;

	replace_hosts(2, 10);
	cr_expect_null(fleet_offer(held.fleet, held.path, hosts(2, 10), 7));
	cr_expect_eq(fleet_members(held.fleet)->count, 20);
	cr_expect_eq(fleet_held(held.fleet, 0, &left_ns)->since_ns, 7);
	cr_expect_null(fleet_offer(held.fleet, held.path, hosts(2, 10), 8));
	cr_expect_eq(fleet_held(held.fleet, 0, &left_ns)->since_ns, 7);
	cr_expect_eq(in_force_at(9), 20, "the reload has read this file");
	members_free(fleet_set(held.fleet, held.path, hosts(2, 10)));
	cr_expect_eq(fleet_members(held.fleet)->count, 18);
	cr_expect_null(fleet_held(held.fleet, 0, &left_ns));
	/* Without a members file nothing is probed: that is what the configuration says. */
	members_free(fleet_offer(held.fleet, NULL, NULL, 9));
	cr_expect_null(fleet_members(held.fleet));
}
