// SPDX-License-Identifier: BSD-2-Clause
/* Findings by events: what begins, continues and ends one, its members, and how it is shown. */

#include "finding/finding.h"
#include "finding/internal.h"
#include "replies.h"
#include "shown.h"

extern const struct capability finding_capability;

static const struct event_kind down = {.name = "peer_down",
				       .severity = EVENT_WARNING,
				       .about = EVENT_PEER,
				       .begins = "peer_down",
				       .remedy = "See its daemon."},
			       changed = {.name = "peer_down_changed",
					  .severity = EVENT_NOTICE,
					  .about = EVENT_PEER,
					  .begins = "peer_down"},
			       up = {.name = "peer_up", .about = EVENT_PEER, .ends = "peer_down"},
			       refused = {.name = "clock_refused",
					  .severity = EVENT_NOTICE,
					  .about = EVENT_PEER,
					  .begins = "clock_refused"},
			       left = {.name = "peer_left",
				       .about = EVENT_PEER,
				       .ends = EVENT_ENDS_ALL},
			       tor = {.name = "tor_down",
				      .severity = EVENT_CRITICAL,
				      .about = EVENT_FABRIC,
				      .begins = "tor_down"},
			       tor_up = {.name = "tor_up",
					 .about = EVENT_FABRIC,
					 .ends = "tor_down"},
			       single = {.name = "peer_path_changed", .about = EVENT_PEER};

static struct core core;
static void *self;

static bool fabric_time(void *context, int64_t *fabric_ns, int64_t *bound_ns)
{
	(void)context;
	*fabric_ns = 5000;
	*bound_ns = 70;
	return true;
}

static void begin(void)
{
	char *error = NULL;

	cr_assert_eq(events_new(&core.events, 8, NULL), 0);
	events_set_host(core.events, "h1");
	events_set_clock(core.events, fabric_time, NULL);
	cr_assert_eq(finding_capability.open(&self, &core, NULL, &error), 0, "%s", error);
}

static void end(void)
{
	finding_capability.close(self);
	events_free(core.events);
}

TestSuite(findings, .init = begin, .fini = end);

static void add(const struct event_kind *kind, const char *subject, json_t *seen)
{
	events_add(core.events,
		   &(struct event){.kind = kind,
				   .subject = subject,
				   .fault = kind->about == EVENT_FABRIC ? subject : NULL,
				   .seen = seen});
}

/* "critical tor_down tor:leaf1;..." of all, in their order. */
static const char *shown(void)
{
	static char out[4096];
	json_t *list = findings_list(self, NULL);

	out[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s %s %s", i ? ";" : "",
			 text(one, "severity"), text(one, "kind"), text(one, "id"));
	}
	json_decref(list);
	return out;
}

Test(findings, a_condition_is_open_from_its_begin_to_its_end)
{
	cr_expect_str_eq(shown(), "");
	add(&single, "h2", NULL);
	add(&up, "h2", NULL);
	cr_expect_str_eq(shown(), "");
	add(&down, "h2", NULL);
	add(&down, "h3", NULL);
	cr_expect_str_eq(shown(), "warning peer_down host:h2;warning peer_down host:h3");
	add(&up, "h2", NULL);
	cr_expect_str_eq(shown(), "warning peer_down host:h3");
	add(&left, "h3", NULL);
	cr_expect_str_eq(shown(), "");
}

Test(findings, what_continues_keeps_its_begin_and_severity)
{
	json_t *list;
	const json_t *one;
	uint64_t since_ns;

	add(&down, "h2", json_pack("{s:i}", "x", 1));
	list = findings_list(self, NULL);
	since_ns = (uint64_t)number(json_array_get(list, 0), "since_ns");
	cr_expect_gt(since_ns, 0);
	json_decref(list);
	add(&changed, "h2", json_pack("{s:i}", "x", 2));
	cr_expect_str_eq(shown(), "warning peer_down host:h2");
	list = findings_list(self, NULL);
	one = json_array_get(list, 0);
	cr_expect_eq(number(one, "since_ns"), (int64_t)since_ns);
	cr_expect_eq(number(one, "since_fabric_ns"), 5000);
	cr_expect_eq(number(one, "bound_ns"), 70);
	cr_expect_eq(number(get(one, "evidence"), "x"), 2);
	cr_expect_str_eq(text(one, "remedy"), "See its daemon.");
	json_decref(list);
}

Test(findings, a_fault_is_one_finding_by_its_worst_condition)
{
	json_t *list;

	add(&refused, "h2", NULL);
	add(&down, "h2", NULL);
	cr_expect_str_eq(shown(), "warning peer_down host:h2");
	list = findings_list(self, NULL);
	cr_expect_eq(json_array_size(get(json_array_get(list, 0), "conditions")), 2);
	json_decref(list);
	add(&up, "h2", NULL);
	cr_expect_str_eq(shown(), "notice clock_refused host:h2");
	add(&down, "h2", NULL);
	add(&left, "h2", NULL);
	cr_expect_str_eq(shown(), "", "all of it end");
}

Test(findings, members_have_none_of_their_own)
{
	json_t *list;

	add(&down, "h2", NULL);
	add(&down, "h3", NULL);
	add(&down, "h4", NULL);
	add(&tor, "tor:leaf1", json_pack("{s:[s,s,s]}", "members", "host:h2", "host:h3", "x"));
	cr_expect_str_eq(shown(), "critical tor_down tor:leaf1;warning peer_down host:h4");
	list = findings_list(self, NULL);
	cr_expect_eq(json_array_size(get(json_array_get(list, 0), "members")), 3);
	cr_expect_null(get(get(json_array_get(list, 0), "evidence"), "members"));
	json_decref(list);
	add(&up, "h2", NULL);
	add(&tor_up, "tor:leaf1", NULL);
	cr_expect_str_eq(shown(), "warning peer_down host:h3;warning peer_down host:h4");
	add(&tor, "tor:a", json_pack("{s:[s,s]}", "members", "tor:b", "tor:a"));
	add(&tor, "tor:b", json_pack("{s:[s]}", "members", "tor:a"));
	add(&left, "h3", NULL);
	add(&left, "h4", NULL);
	cr_expect_str_eq(shown(), "critical tor_down tor:a;critical tor_down tor:b",
			 "each has the other one: neither is lost");
}

/* The log records 64 of a kind at once; the end of each is taken all the same. */
Test(findings, an_end_that_is_not_recorded_ends_it)
{
	char name[16];

	events_limit(core.events);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		add(&down, name, NULL);
	}
	cr_expect_eq(((struct findings *)self)->count, 200);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		add(&up, name, NULL);
	}
	cr_expect_str_eq(shown(), "");
}

Test(findings, the_table_is_bounded)
{
	char name[16], *metrics;

	for (int i = 0; i < FINDING_CONDITIONS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		add(&down, name, NULL);
	}
	add(&down, "h7", NULL);
	add(&tor, "tor:leaf1", NULL);
	metrics = metrics_of(&finding_capability, self);
	expect_line(metrics, "escapement_findings{kind=\"peer_down\",severity=\"warning\"} 1024");
	expect_line(metrics, "escapement_findings_left_out_total 11");
	free(metrics);
	add(&up, "h7", NULL);
	add(&tor, "tor:leaf1", NULL);
	metrics = metrics_of(&finding_capability, self);
	expect_line(metrics, "escapement_findings{kind=\"tor_down\",severity=\"critical\"} 1");
	expect_families(metrics, finding_metrics);
	free(metrics);
}

Test(findings, the_verb_shows_all_or_one)
{
	struct request request;
	json_t *reply = replies_get(finding_verb_handlers, self, "findings", "{}", &request), *one;

	cr_expect_eq(number(reply, "count"), 0);
	json_decref(reply);
	add(&down, "h2", json_pack("{s:i}", "silent_ms", 1200));
	reply = replies_get(finding_verb_handlers, self, "findings", "{\"id\":\"host:h2\"}",
			    &request);
	one = json_array_get(get(reply, "findings"), 0);
	cr_expect_eq(number(get(one, "evidence"), "silent_ms"), 1200);
	cr_expect_str_eq(text(one, "host"), "h1");
	json_decref(reply);
	reply = replies_get(finding_verb_handlers, self, "findings", "{\"id\":\"host:h9\"}",
			    &request);
	cr_expect_null(reply);
	cr_expect(strstr(request.error, "host:h9"), "%s", request.error);
	free(request.error);
	reply = replies_get(finding_verb_handlers, self, "findings", "{\"job\":\"7\"}", &request);
	cr_expect_eq(number(reply, "count"), 0, "it is of no job");
	json_decref(reply);
	reply = status_of(&finding_capability, self);
	cr_expect_str_eq(text(get(reply, "findings"), "worst"), "host:h2");
	json_decref(reply);
}
