// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reports of several hosts as one, without a server: values that should be equal are compared with
 * the majority, those that should be unique with all others. And what changed between two reports.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define MAJORITY_HOSTS_LEAST 3
#define MAJORITY_PERCENT 60

/* --- what a report is --- */

static int check_report(const json_t *report, char **error)
{
	const json_t *entry;
	size_t i;

	if (!json_is_object(report) || !json_is_array(json_object_get(report, "results")))
		return explain(error, -EINVAL,
			       "no audit report: make it with `escapement -j audit`, and give it "
			       "as it is");
	if (json_count(report, "version") != AUDIT_REPORT_VERSION)
		return explain(
			error, -EINVAL,
			"an audit report of version %llu, this program reads version %d: use "
			"the same release on all hosts",
			(unsigned long long)json_count(report, "version"), AUDIT_REPORT_VERSION);
	json_array_foreach (json_object_get(report, "results"), i, entry)
		if (!json_is_object(entry) || !*json_text(entry, "check") ||
		    !*json_text(entry, "result"))
			return explain(error, -EINVAL,
				       "result %zu of %s has no `check` or no `result`", i + 1,
				       json_text(report, "host"));
	return 0;
}

/* --- one report of many --- */

/* {HOST: its newest report} */
static json_t *newest_of(const json_t *reports)
{
	json_t *newest = json_object();
	const json_t *report;
	size_t i;

	json_array_foreach (reports, i, report) {
		const char *host = json_text(report, "host");
		const json_t *kept = json_object_get(newest, host);

		if (!kept || json_count(kept, "run_ns") <= json_count(report, "run_ns"))
			json_object_set(newest, host, (json_t *)report);
	}
	return newest;
}

/* The entries of an array of each report, each with its `host`. */
static json_t *gather(json_t *newest, const char *key)
{
	json_t *list = json_array(), *report;
	const json_t *entry;
	const char *host;
	size_t i;

	json_object_foreach (newest, host, report) {
		json_array_foreach (json_object_get(report, key), i, entry) {
			json_t *copy = json_deep_copy(entry);

			json_object_set_new(copy, "host", json_string(host));
			json_array_append_new(list, copy);
		}
	}
	return list;
}

void audit_conclude(json_t *entry, const char *result, const char *member, const char *text)
{
	const struct audit_check *check = audit_named(json_text(entry, "check"));

	json_object_set_new(entry, "result", json_string(result));
	json_put_name(entry, member, text);
	if (!strcmp(result, "fail") && check)
		json_put_text(entry, "remedy", check->remedy);
}

/* How many entries with @key have each value: {KEY: {VALUE: COUNT}}. */
static json_t *tally_of(const json_t *results, json_t *(*key_of)(const json_t *entry))
{
	json_t *tally = json_object(), *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		json_t *key = key_of(entry), *values;
		const char *value = json_text(entry, "value");

		if (key) {
			values = json_object_get(tally, json_string_value(key));
			if (!values) {
				values = json_object();
				json_object_set_new(tally, json_string_value(key), values);
			}
			json_object_set_new(
				values, value,
				json_integer((json_int_t)json_count(values, value) + 1));
		}
		json_decref(key);
	}
	return tally;
}

static bool is_recorded(const json_t *entry, enum audit_compare compare)
{
	const struct audit_check *check = audit_named(json_text(entry, "check"));

	return check && check->compare == compare &&
	       !strcmp(json_text(entry, "result"), "recorded");
}

/* Of the same NIC on all hosts: "nic.rate/mlx5_0:1". */
static json_t *majority_key(const json_t *entry)
{
	return is_recorded(entry, AUDIT_MAJORITY) ? json_sprintf("%s/%s", json_text(entry, "check"),
								 json_text(entry, "subject"))
						  : NULL;
}

/* Of all NICs of all hosts. */
static json_t *unique_key(const json_t *entry)
{
	return is_recorded(entry, AUDIT_UNIQUE) ? json_string(json_text(entry, "check")) : NULL;
}

static void compare_majority(json_t *results)
{
	json_t *tally = tally_of(results, majority_key), *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		json_t *key = majority_key(entry), *count;
		uint64_t all = 0, most = 0;
		const char *value, *common = "";

		if (!key)
			continue;
		json_object_foreach (json_object_get(tally, json_string_value(key)), value, count) {
			uint64_t hosts = (uint64_t)json_integer_value(count);

			all += hosts;
			if (hosts > most)
				common = value;
			most = hosts > most ? hosts : most;
		}
		json_decref(key);
		if (all < MAJORITY_HOSTS_LEAST || most * 100 < all * MAJORITY_PERCENT)
			audit_conclude(entry, "unknown", "reason",
				       all < MAJORITY_HOSTS_LEAST
					       ? "fewer than 3 hosts have it"
					       : "no value has a majority of 60%");
		else if (strcmp(json_text(entry, "value"), common))
			audit_conclude(entry, "fail", "expected", common);
		else
			audit_conclude(entry, "pass", "expected", common);
	}
	json_decref(tally);
}

static void compare_unique(json_t *results)
{
	json_t *tally = tally_of(results, unique_key), *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		json_t *key = unique_key(entry);
		const json_t *values = key ? json_object_get(tally, json_string_value(key)) : NULL;

		if (key)
			audit_conclude(entry,
				       json_count(values, json_text(entry, "value")) > 1 ? "fail"
											 : "pass",
				       "expected", "unique");
		json_decref(key);
	}
	json_decref(tally);
}

/* No peer of several is up: then the peers are not what is wrong. */
static bool is_cut_off(const json_t *entry)
{
	return !strcmp(json_text(entry, "result"), "fail") && json_object_get(entry, "peers_up") &&
	       !json_count(entry, "peers_up") &&
	       json_array_size(json_object_get(entry, "peers_down")) > 1;
}

/*
 * {HOST: true} of those with a port that is not active, a front end without a link, a NIC that is
 * cut off, or no key where others have one. fabric.pairs: as audit_blame() left it.
 */
static json_t *hosts_down(const json_t *results)
{
	static const char *const checks[] = {"nic.active", "frontend.link", "fabric.pairs",
					     "clock.key"};
	json_t *hosts = json_object();
	const json_t *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		bool down = is_cut_off(entry);

		for (size_t k = 0; k < sizeof(checks) / sizeof(checks[0]); k++)
			down |= !strcmp(json_text(entry, "result"), "fail") &&
				!strcmp(json_text(entry, "check"), checks[k]);
		if (down)
			json_object_set_new(hosts, json_text(entry, "host"), json_true());
	}
	return hosts;
}

/* {"HOST/SUBJECT": true} of the results of a check that failed. */
static json_t *failed_of(const json_t *results, const char *check)
{
	json_t *failed = json_object(), *key;
	const json_t *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		if (strcmp(json_text(entry, "check"), check) ||
		    strcmp(json_text(entry, "result"), "fail"))
			continue;
		key = json_sprintf("%s/%s", json_text(entry, "host"), json_text(entry, "subject"));
		json_object_set_new(failed, json_string_value(key), json_true());
		json_decref(key);
	}
	return failed;
}

/*
 * Peers that drop the probes of a host without a key, and those of a NIC that none replies to, are
 * down, or silent for less than mesh.down_after: the cause is one, and is reported as that.
 */
static void explain_host(json_t *results)
{
	static const struct {
		const char *check, *cause;
		bool of_host;
	} rows[] = {
		{"clock.synced", "clock.key", true},
		{"frontend.connectivity", "clock.key", true},
		{"backend.connectivity", "clock.key", true},
		{"backend.connectivity", "fabric.pairs", false},
	};

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		json_t *failed = failed_of(results, rows[k].cause), *entry, *key;
		size_t i;

		json_array_foreach (results, i, entry) {
			const char *result = json_text(entry, "result");

			if (strcmp(json_text(entry, "check"), rows[k].check) ||
			    (strcmp(result, "fail") && strcmp(result, "unknown")))
				continue;
			key = json_sprintf("%s/%s", json_text(entry, "host"),
					   rows[k].of_host ? "" : json_text(entry, "subject"));
			if (json_object_get(failed, json_string_value(key)))
				audit_explain(entry, json_sprintf("%s failed", rows[k].cause));
			json_decref(key);
		}
		json_decref(failed);
	}
}

/* A peer whose own NIC is down is no error of those that probe it. */
static void explain_peers(json_t *results)
{
	json_t *down = hosts_down(results), *entry, *peer;
	size_t i, k;

	json_array_foreach (results, i, entry) {
		const json_t *peers = json_object_get(entry, "peers_down");
		bool explained =
			peers && !strcmp(json_text(entry, "result"), "fail") && !is_cut_off(entry);

		json_array_foreach (peers, k, peer)
			explained &= json_object_get(down, json_string_value(peer)) != NULL;
		if (!explained)
			continue;
		json_object_set_new(entry, "result", json_string("skipped"));
		json_object_set_new(entry, "reason",
				    json_sprintf("NICs are down: %s",
						 json_string_value(json_array_get(peers, 0))));
	}
	json_decref(down);
}

/* A host that sent no report is an error: it may be the one at fault. */
static void add_silent(json_t *results, const json_t *newest, const json_t *hosts)
{
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host)
		if (!json_object_get(newest, json_string_value(host)))
			json_array_append_new(
				results,
				json_pack(
					"{s:O, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "host",
					host, "check", "report", "group", "configuration", "name",
					"audit report", "subject", "", "result", "fail", "value",
					"missing", "expected", "a report", "remedy",
					"run `escapement -j audit` there, and read why it failed"));
}

/* A comparison may have failed a NIC that its own host could not judge. */
static void update_nics(json_t *nics, const json_t *results)
{
	json_t *failed = json_object(), *subjects, *row;
	const json_t *entry, *subject;
	size_t i, k;

	json_array_foreach (results, i, entry) {
		const char *host = json_text(entry, "host");

		if (strcmp(json_text(entry, "result"), "fail") != 0)
			continue;
		if (!json_object_get(failed, host))
			json_object_set_new(failed, host, json_array());
		json_array_append_new(json_object_get(failed, host),
				      json_string(json_text(entry, "subject")));
	}
	json_array_foreach (nics, i, row) {
		subjects = json_object_get(failed, json_text(row, "host"));
		json_array_foreach (subjects, k, subject)
			if (audit_concerns(json_string_value(subject), json_text(row, "nic"),
					   json_text(row, "netdev")))
				json_object_set_new(row, "status", json_string("fail"));
	}
	json_decref(failed);
}

struct ranked {
	const json_t *entry;
	size_t at;
};

static int by_host(const void *a, const void *b)
{
	const struct ranked *left = a, *right = b;
	int hosts = strcmp(json_text(left->entry, "host"), json_text(right->entry, "host"));

	return hosts ? hosts : (left->at > right->at) - (left->at < right->at);
}

/* In the order of hosts; those of a host stay in theirs. */
static json_t *sorted(const json_t *list)
{
	size_t count = json_array_size(list);
	struct ranked *order = calloc(count ? count : 1, sizeof(*order));
	json_t *out = json_array();

	for (size_t i = 0; order && i < count; i++)
		order[i] = (struct ranked){json_array_get(list, i), i};
	if (order)
		qsort(order, count, sizeof(*order), by_host);
	for (size_t i = 0; order && i < count; i++)
		json_array_append(out, (json_t *)order[i].entry);
	free(order);
	return out;
}

json_t *audit_merge(const json_t *reports, const json_t *hosts, char **error)
{
	json_t *newest, *results, *nics, *merged;
	const json_t *report;
	uint64_t newest_ns = 0;
	size_t i;

	json_array_foreach (reports, i, report) {
		if (check_report(report, error))
			return NULL;
		if (!*json_text(report, "host")) {
			explain(error, -EINVAL,
				"an audit report without `host`: give the hosts' own");
			return NULL;
		}
		if (json_count(report, "run_ns") > newest_ns)
			newest_ns = json_count(report, "run_ns");
	}
	newest = newest_of(reports);
	results = gather(newest, "results");
	nics = gather(newest, "nics");
	compare_majority(results);
	compare_unique(results);
	audit_compare_siblings(results);
	audit_compare_median(results);
	audit_blame(results);
	explain_host(results);
	explain_peers(results);
	add_silent(results, newest, hosts);
	update_nics(nics, results);
	merged = json_pack("{s:i, s:I, s:s, s:o, s:o}", "version", AUDIT_REPORT_VERSION, "run_ns",
			   (json_int_t)newest_ns, "state", "merged", "nics", sorted(nics),
			   "results", sorted(results));
	audit_count(merged);
	json_decref(nics);
	json_decref(results);
	json_decref(newest);
	return merged;
}

/* --- two reports compared --- */

/* {HOST/CHECK/SUBJECT: result} */
static json_t *index_of(const json_t *report)
{
	json_t *index = json_object(), *entry, *key;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry) {
		key = json_sprintf("%s/%s/%s", json_text(entry, "host"), json_text(entry, "check"),
				   json_text(entry, "subject"));
		json_object_set(index, json_string_value(key), entry);
		json_decref(key);
	}
	return index;
}

static void add_change(json_t *changes, const json_t *entry, const json_t *before,
		       const json_t *after)
{
	json_t *change = json_object();

	json_put_text(change, "host", json_text(entry, "host"));
	json_put_text(change, "check", json_text(entry, "check"));
	json_put_text(change, "subject", json_text(entry, "subject"));
	json_put_text(change, "before", before ? json_text(before, "result") : "absent");
	json_put_text(change, "after", after ? json_text(after, "result") : "absent");
	json_put_text(change, "value_before", json_text(before, "value"));
	json_put_text(change, "value_after", json_text(after, "value"));
	json_array_append_new(changes, change);
}

json_t *audit_diff(const json_t *before, const json_t *after, char **error)
{
	json_t *old, *new, *changes, *entry;
	const json_t *other;
	uint64_t worse = 0;
	const char *key;

	if (check_report(before, error) || check_report(after, error))
		return NULL;
	old = index_of(before);
	new = index_of(after);
	changes = json_array();
	json_object_foreach (new, key, entry) {
		other = json_object_get(old, key);
		if (other && !strcmp(json_text(other, "result"), json_text(entry, "result")) &&
		    !strcmp(json_text(other, "value"), json_text(entry, "value")))
			continue;
		worse += !strcmp(json_text(entry, "result"), "fail") &&
			 strcmp(json_text(other, "result"), "fail") != 0;
		add_change(changes, entry, other, entry);
	}
	json_object_foreach (old, key, entry)
		if (!json_object_get(new, key))
			add_change(changes, entry, entry, NULL);
	json_decref(old);
	json_decref(new);
	return json_pack("{s:I, s:I, s:o, s:I, s:b}", "before_ns",
			 (json_int_t)json_count(before, "run_ns"), "after_ns",
			 (json_int_t)json_count(after, "run_ns"), "changes", changes, "errors",
			 (json_int_t)worse, "failed", worse > 0);
}
