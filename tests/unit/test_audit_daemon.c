// SPDX-License-Identifier: BSD-2-Clause
/* Links and peers as the daemon reports them. */
#include <criterion/criterion.h>
#include <string.h>

#include "audit_tree.h"
#include "base/json.h"

/* A link that is down is reported once, from the loss of its carrier on, and is no flap. */
Test(audit_daemon, links_that_are_not_up, .fini = clean)
{
	static const struct {
		size_t index; /* of a NIC with an RDMA port, of the front end, neither */
		const char *state, *alarm, *link, *flaps;
	} rows[] = {
		{0, "down", NULL, "absent", "pass"},	    {0, "down", "down", "absent", "pass"},
		{0, "up", "flapping", "absent", "fail"},    {1, "down", "down", "absent", "pass"},
		{2, "down", NULL, "fail", "pass"},	    {2, "down", "down", "fail", "pass"},
		{2, "down", "flapping", "fail", "fail"},    {2, "unused", NULL, "unknown", "pass"},
		{2, "admin_down", NULL, "unknown", "pass"}, {2, "absent", NULL, "unknown", "pass"},
		{2, "", NULL, "unknown", "pass"},
	};
	static const char *const names[] = {"ens1f0", "front0", "back1"};

	unpack("irdma");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *replies = good_replies("ens1f0"), *report;
		json_t *link = json_array_get(
			json_object_get(json_object_get(replies, "links"), "links"), rows[i].index);

		json_object_set_new(link, "state", json_string(rows[i].state));
		if (rows[i].alarm)
			json_object_set_new(link, "alarm",
					    json_pack("{s:s}", "kind", rows[i].alarm));
		report = run(NULL, replies);
		cr_expect_str_eq(result_of(report, "backend.link", names[rows[i].index]),
				 rows[i].link, "row %zu", i);
		cr_expect_str_eq(result_of(report, "backend.flaps", names[rows[i].index]),
				 rows[i].flaps, "row %zu", i);
		json_decref(report);
		json_decref(replies);
	}
}

/* A host whose CPU is away for a while is no fault, nor are rails that are not connected. */
Test(audit_daemon, peers_that_are_not_up, .fini = clean)
{
	static const struct {
		const char *peer, *result;
	} rows[] = {
		{"{\"state\": \"up\", \"edge\": \"cross\"}", "pass"},
		{"{\"state\": \"suspect\", \"last_heard_ms\": 400}", "unknown"},
		{"{\"state\": \"suspect\", \"blame\": \"restart\"}", "unknown"},
		{"{\"state\": \"suspect\", \"last_heard_ms\": 1, \"no_replies\": true}", "fail"},
		{"{\"state\": \"down\", \"last_heard_ms\": 4000}", "fail"},
		{"{\"state\": \"down\"}", "fail"},
		{"{\"state\": \"down\", \"edge\": \"rack\"}", "fail"},
		{"{\"state\": \"down\", \"edge\": \"cross\"}", "pass"},
		{"{\"state\": \"suspect\", \"edge\": \"cross\"}", "pass"},
		{"{\"state\": \"down\", \"edge\": \"cross\", \"last_heard_ms\": 4000}", "fail"},
		{"{\"state\": \"\"}", "fail"},
		{"{\"state\": \"of a later release\"}", "fail"},
	};

	unpack("irdma");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *replies = good_replies("ens1f0"), *report, *first;
		json_t *list = json_object_get(json_object_get(replies, "peers"), "peers");
		json_t *peer = json_loads(rows[i].peer, 0, NULL);

		json_object_set_new(peer, "peer", json_string("h3"));
		json_object_set_new(peer, "interface", json_string("ens1f0"));
		json_array_append_new(list, peer);
		report = run(NULL, replies);
		cr_expect_str_eq(result_of(report, "backend.connectivity", "irdma0:1"),
				 rows[i].result, "%s", rows[i].peer);
		cr_expect_str_eq(result_of(report, "frontend.connectivity", "front0"), "pass");
		json_decref(report);
		/* One that is down is a fault beside one that is silent. */
		first = json_array_get(list, 1);
		json_object_set_new(first, "state", json_string("down"));
		report = run(NULL, replies);
		cr_expect_str_eq(result_of(report, "backend.connectivity", "irdma0:1"), "fail",
				 "%s", rows[i].peer);
		json_decref(report);
		json_decref(replies);
	}
}
