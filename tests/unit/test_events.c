// SPDX-License-Identifier: BSD-2-Clause
/* Every kind of event, as it is written: the schema, what it is of, and what it begins and ends. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "core/events.h"
#include "daemon/daemon.h"
#include "maps/maps.h"

#define FLUSH_MS 10000

static const struct event_kind *kind_named(const char *name)
{
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++)
			if (!strcmp(kind->name, name))
				return kind;
	return NULL;
}

static bool fabric_time(void *context, int64_t *fabric_ns, int64_t *bound_ns)
{
	*fabric_ns = 5000;
	*bound_ns = 70;
	return *(const bool *)context;
}

static bool owner(void *context, const struct esc_qp_key *qp, uint32_t *pid, const char **job)
{
	(void)context;
	*pid = qp->dest_qpn;
	*job = qp->dest_qpn ? "job_7/step_0" : "";
	return true;
}

static json_t *newest(struct events *events)
{
	json_t *list = events_since(events, 0);
	json_t *event = json_incref(json_array_get(list, json_array_size(list) - 1));

	json_decref(list);
	return event;
}

/* As little and as much as an event may have, of each kind. */
Test(events, every_kind_is_by_the_schema)
{
	char folder[] = "/tmp/esc-events-XXXXXX", path[64], command[128];
	const struct esc_qp_key qp = {.dest_qpn = 17};
	struct events *events;
	bool known = false;
	size_t kinds = 0;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/events.jsonl", folder);
	cr_assert_eq(events_new(&events, 8, path), 0);
	events_set_host(events, "h1");
	events_set_clock(events, fabric_time, &known);
	events_set_owners(events, owner, NULL);
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++, kinds++) {
			known = false;
			events_add(events, &(struct event){.kind = kind});
			known = true;
			events_add(events, &(struct event){.kind = kind,
							   .subject = "s",
							   .part = "p",
							   .qp = &qp,
							   .seen = json_pack("{s:i}", "x_ns", 1),
							   .done = json_object(),
							   .expected = json_object(),
							   .result = json_object()});
		}
	cr_expect_gt(kinds, 90);
	cr_assert(events_flush(events, FLUSH_MS));
	snprintf(command, sizeof(command), "tests/lib/eventschema.py %s", path);
	cr_expect_eq(system(command), 0);
	snprintf(command, sizeof(command), "sed -i '1s/\"version\":1/\"version\":1,\"more\":1/' %s",
		 path);
	cr_assert_eq(system(command), 0);
	snprintf(command, sizeof(command), "tests/lib/eventschema.py %s >/dev/null", path);
	cr_expect_neq(system(command), 0, "another member is refused");
	events_free(events);
	unlink(path);
	rmdir(folder);
}

Test(events, what_a_kind_ends_another_begins)
{
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++) {
			const struct event_kind *begin =
				kind->begins ? kind_named(kind->begins) : NULL;
			bool ended = false;

			cr_expect(!kind->begins || !kind->ends, "%s", kind->name);
			cr_expect(!kind->begins || begin, "%s", kind->name);
			if (begin)
				cr_expect(begin->begins && !strcmp(begin->begins, kind->begins) &&
						  begin->about == kind->about,
					  "%s", kind->name);
			if (kind->ends && strcmp(kind->ends, EVENT_ENDS_ALL)) {
				begin = kind_named(kind->ends);
				cr_expect(begin && begin->begins && begin->about == kind->about,
					  "%s", kind->name);
			}
			for (const struct event_kind *const *more = daemon_event_kinds();
			     kind->begins && *more; more++)
				for (const struct event_kind *end = *more; end->name; end++)
					ended |= end->ends && !strcmp(end->ends, kind->begins);
			cr_expect(!kind->begins || ended, "%s never ends", kind->name);
			cr_expect(kind->severity < EVENT_WARNING || !kind->begins || kind->remedy,
				  "%s has no remedy", kind->name);
		}
}

static void expect_fault(struct events *events, struct event event, const char *fault)
{
	json_t *object;

	events_add(events, &event);
	object = newest(events);
	cr_expect_str_eq(json_text(object, "fault"), fault);
	json_decref(object);
}

/* The same thing has the same name on each host, two things have two. */
Test(events, a_fault_is_named_alike_on_every_host)
{
	const struct event_kind of_host = {.name = "a"},
				of_peer = {.name = "b", .about = EVENT_PEER},
				of_nic = {.name = "c", .about = EVENT_NIC},
				of_qp = {.name = "d", .about = EVENT_QP};
	struct events *events;

	cr_assert_eq(events_new(&events, 8, NULL), 0);
	events_set_host(events, "h1");
	expect_fault(events, (struct event){.kind = &of_host, .subject = "h1"}, "host:h1");
	expect_fault(events, (struct event){.kind = &of_host}, "host:h1");
	expect_fault(events, (struct event){.kind = &of_host, .subject = "RTNL"}, "host:h1/RTNL");
	expect_fault(events, (struct event){.kind = &of_peer, .subject = "h2", .part = "backend"},
		     "host:h2/backend");
	expect_fault(events, (struct event){.kind = &of_nic, .subject = "eth1"}, "nic:h1/eth1");
	expect_fault(events, (struct event){.kind = &of_qp, .subject = "a>b/1"}, "qp:a>b/1");
	expect_fault(events, (struct event){.kind = &of_qp, .subject = "eth1", .about = EVENT_NIC},
		     "nic:h1/eth1");
	events_free(events);
}

Test(events, the_owner_of_a_queue_pair_is_there_when_it_is_known)
{
	const struct event_kind kind = {.name = "k", .about = EVENT_QP, .remedy = "one"};
	const struct esc_qp_key known = {.dest_qpn = 17}, unknown = {};
	struct events *events;
	json_t *event;

	cr_assert_eq(events_new(&events, 8, NULL), 0);
	events_set_owners(events, owner, NULL);
	events_add(events, &(struct event){.kind = &kind, .qp = &known});
	event = newest(events);
	cr_expect_eq(json_count(event, "pid"), 17);
	cr_expect_str_eq(json_text(event, "job"), "job_7/step_0");
	cr_expect_str_eq(json_text(event, "remedy"), "one");
	json_decref(event);
	events_add(events, &(struct event){.kind = &kind, .qp = &unknown, .remedy = "two"});
	event = newest(events);
	cr_expect_null(json_object_get(event, "pid"));
	cr_expect_null(json_object_get(event, "job"));
	cr_expect_str_eq(json_text(event, "remedy"), "two");
	json_decref(event);
	events_set_owners(events, NULL, NULL);
	events_add(events, &(struct event){.kind = &kind, .qp = &known});
	event = newest(events);
	cr_expect_null(json_object_get(event, "pid"));
	json_decref(event);
	events_free(events);
}
