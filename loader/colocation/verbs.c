// SPDX-License-Identifier: BSD-2-Clause
/* The verb; the command line runs it on exports, as `topo`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "colocation.h"
#include "report/report.h"
#include "topo/topo.h"

#define EXIT_FAILED 1
#define PAIRS_MOST 10000
#define SHOWN_FROM 0.01f /* pairs that are not decided, by their probability */

static const char *const verdicts[] = {"unknown", "same", "other"};

/* --- delay floors --- */

/* The least two-way floor of each pair of hosts, by colocate_index(); NULL: no memory. */
static double *take_floors(const struct colocation *colocation, const struct topo *topo)
{
	size_t count = colocation->count, pairs = count * (count - 1) / 2;
	size_t *host_of = calloc(topo->nic_count + 1, sizeof(*host_of));
	double *floors = calloc(pairs + 1, sizeof(*floors));
	json_t *ids = json_object();

	for (size_t i = 0; i < count; i++)
		json_object_set_new(ids, colocation->hosts[i].name, json_integer((json_int_t)i));
	for (size_t i = 0; host_of && i < topo->nic_count; i++) {
		const json_t *id = json_object_get(ids, topo->nics[i].host);

		host_of[i] = id ? (size_t)json_integer_value(id) : SIZE_MAX;
	}
	for (size_t i = 0; floors && i < pairs; i++)
		floors[i] = NAN;
	for (size_t i = 0; floors && host_of && i < topo->pair_count; i++) {
		size_t a = host_of[topo->pairs[i].a], b = host_of[topo->pairs[i].b];
		double *floor;

		if (a == SIZE_MAX || b == SIZE_MAX || a == b)
			continue;
		floor = &floors[colocate_index(count, a, b)];
		*floor = fmin(*floor, topo->pairs[i].floor_ns);
	}
	json_decref(ids);
	free(host_of);
	return floors;
}

/* --- JSON --- */

static json_t *host_json(const struct colocation *colocation, size_t at)
{
	const struct colocation_host *host = &colocation->hosts[at];
	json_t *row = json_object();

	json_put_text(row, "host", host->name);
	if (colocation->law.group[at] != SIZE_MAX)
		json_put_count(row, "group", colocation->law.group[at] + 1);
	json_put_text(row, "note", host->note);
	if (host->note)
		return row;
	json_put_real(row, "rate_hz", colocation->law.rate_hz[at]);
	json_put_real(row, "noise_ns", colocation->law.noise_ns[at]);
	json_put_real(row, "bound_ns", host->series.bound_ns);
	json_put_real(row, "compared_s", colocation->law.seconds[at]);
	return row;
}

static json_t *pair_json(const struct colocation *colocation, const double *floors, size_t a,
			 size_t b)
{
	size_t at = colocate_index(colocation->count, a, b);
	const struct colocate_pair *pair = &colocation->law.pairs[at];
	json_t *row = json_object();

	json_put_text(row, "a", colocation->hosts[a].name);
	json_put_text(row, "b", colocation->hosts[b].name);
	json_put_text(row, "verdict", verdicts[pair->verdict]);
	json_put_real(row, "probability", (double)pair->probability);
	json_put_real(row, "rate_ppb", (double)pair->rate_ppb);
	json_put_real(row, "correlation", (double)pair->correlation);
	json_put_bool(row, "scaled", pair->scaled);
	if (floors)
		json_put_real(row, "floor_ns", floors[at]);
	return row;
}

/* Pairs of one machine, and those that may be. */
static void put_pairs(json_t *result, const struct colocation *colocation, const double *floors)
{
	size_t count = colocation->count, counts[3] = {};
	json_t *same = json_array(), *open = json_array();

	for (size_t i = 0, at = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++, at++) {
			const struct colocate_pair *pair = &colocation->law.pairs[at];
			json_t *list = pair->verdict == COLOCATE_SAME ? same : open;

			counts[pair->verdict]++;
			if (json_array_size(list) < PAIRS_MOST &&
			    (list == same || (pair->verdict == COLOCATE_UNKNOWN &&
					      pair->probability >= SHOWN_FROM)))
				json_array_append_new(list, pair_json(colocation, floors, i, k));
		}
	json_put_count(result, "pairs_same", counts[COLOCATE_SAME]);
	json_put_count(result, "pairs_other", counts[COLOCATE_OTHER]);
	json_put_count(result, "pairs_unknown", counts[COLOCATE_UNKNOWN]);
	json_put_real(result, "expected_false_pairs", colocation->law.expected_false_pairs);
	json_put(result, "same", same);
	json_put(result, "undecided", open);
}

static json_t *group_json(const struct colocation *colocation, const double *floors, size_t group)
{
	json_t *row = json_object(), *names = json_array();
	double certainty = 1, floor_ns = NAN;

	for (size_t i = 0; i < colocation->count; i++) {
		if (colocation->law.group[i] != group)
			continue;
		json_array_append_new(names, json_string(colocation->hosts[i].name));
		for (size_t k = 0; k < i; k++) {
			size_t at = colocate_index(colocation->count, k, i);

			if (colocation->law.group[k] != group)
				continue;
			certainty = fmin(certainty, (double)colocation->law.pairs[at].probability);
			floor_ns = floors ? fmin(floor_ns, floors[at]) : floor_ns;
		}
	}
	json_put_count(row, "group", group + 1);
	json_put_real(row, "probability", certainty);
	json_put_real(row, "floor_ns", floor_ns);
	json_put(row, "hosts", names);
	return row;
}

static void note(json_t *notes, json_t *text)
{
	json_array_append_new(notes, json_pack("{s:o}", "note", text));
}

static void put_notes(json_t *result, const struct colocation *colocation)
{
	json_t *notes = json_array();
	size_t compared = 0;
	double least_s = INFINITY;

	for (size_t i = 0; i < colocation->count; i++)
		if (!colocation->hosts[i].note) {
			compared++;
			least_s = fmin(least_s, colocation->law.seconds[i]);
		}
	if (colocation->count < 2)
		note(notes,
		     json_string("one host has no pairs: collect `escapement -j report` of all "
				 "hosts, and give these with --from"));
	else if (compared && compared < COLOCATE_FLEET_LEAST)
		note(notes, json_sprintf("%zu hosts are compared by their rates alone; with %d or "
					 "more the wander of their counters tells as well",
					 compared, COLOCATE_FLEET_LEAST));
	if (colocation->law.too_many)
		note(notes,
		     json_sprintf("more than %.0f%% of all pairs seem to be of one machine: "
				  "their counters have something else in common, and none is named",
				  100 * COLOCATE_SHARE_MOST));
	if (json_count(result, "pairs_unknown") && isfinite(least_s) && least_s < 7000)
		note(notes, json_sprintf("points of %.0f s were compared; with up to two hours "
					 "more pairs are decided",
					 least_s));
	json_put(result, "notes", notes);
}

static json_t *colocation_json(const struct colocation *colocation, const double *floors)
{
	json_t *result = json_object(), *hosts = json_array(), *groups = json_array();

	json_put_count(result, "host_count", colocation->count);
	put_pairs(result, colocation, floors);
	for (size_t i = 0; i < colocation->law.group_count; i++)
		json_array_append_new(groups, group_json(colocation, floors, i));
	json_put(result, "groups", groups);
	for (size_t i = 0; i < colocation->count; i++)
		json_array_append_new(hosts, host_json(colocation, i));
	json_put(result, "hosts", hosts);
	put_notes(result, colocation);
	return result;
}

/* What this host alone knows is an export, which --from takes as well. */
static void put_export(json_t *result, const json_t *export)
{
	static const char *const keys[] = {"format", "version", "time_ns", "host", "replies"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set(result, keys[i], json_object_get(export, keys[i]));
}

static json_t *run_colocation(const json_t *args, int *exit, char **error)
{
	struct colocation colocation = {};
	const json_t **exports = NULL;
	struct report *report = NULL;
	json_t *result = NULL;
	struct topo *topo = NULL;
	double *floors = NULL;
	size_t count = 0;

	*exit = EXIT_FAILED;
	if (topo_exports_of_args(args, &report, &exports, &count, error))
		goto out;
	if (!count) {
		explain(error, 0, "no export of a host is in these files");
		goto out;
	}
	if (colocation_read(&colocation, exports, count, error))
		goto out;
	topo = topo_new();
	for (size_t i = 0; topo && i < count; i++)
		if (topo_read(topo, exports[i], error))
			goto out;
	floors = topo ? take_floors(&colocation, topo) : NULL;
	result = colocation_json(&colocation, floors);
	if (!json_object_get(args, "from"))
		put_export(result, exports[0]);
out:
	free(floors);
	topo_free(topo);
	colocation_free(&colocation);
	free(exports);
	report_free(report);
	return result;
}

/* clang-format off: tables */

static const struct column groups[] = {
	{"MACHINE", "group", FORMAT_COUNT, .help = "a number for it"},
	{"CERTAIN", "probability", FORMAT_SHARE, .help = "of the least certain pair"},
	{"FLOOR", "floor_ns", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "least two-way delay between two of them; no part of the probability"},
	{"HOSTS", "hosts", FORMAT_TEXT, COLUMN_LEFT, .help = "virtual machines that share it"},
	{},
};

static const struct column undecided[] = {
	{"UNDECIDED", "a", FORMAT_TEXT, COLUMN_LEFT, .help = "two hosts that may share a machine"},
	{"AND", "b", FORMAT_TEXT, COLUMN_LEFT, .help = "the other"},
	{"PROBABILITY", "probability", FORMAT_SHARE, .help = "that they do; 99% are needed"},
	{"RATE_PPB", "rate_ppb", FORMAT_REAL, .help = "of one counter against the other, in 10^-9"},
	{},
};

static const struct column left_out[] = {
	{"NOT_COMPARED", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "a host"},
	{"REASON", "note", FORMAT_TEXT, COLUMN_LEFT, .help = "why"},
	{},
};

static const struct verb_section output[] = {
	{.header = "Pairs",
	 .text = "{pairs_same} share a machine, {pairs_other} do not, {pairs_unknown} not decided; "
		 "{expected_false_pairs:real} of those named are expected to be wrong"},
	{.rows = "groups", .columns = groups},
	{.rows = "undecided", .columns = undecided, .most = 50},
	{.rows = "hosts", .only = "note", .columns = left_out},
	{.rows = "notes", .header = "Note", .text = "{note}"},
	{},
};

static const struct verb_arg args_of_colocation[] = {
	TOPO_FROM,
	{},
};

static const struct verb verbs[] = {
	{.name = "colocation",
	 .place = VERB_HERE,
	 .reads = true,
	 .run = run_colocation,
	 .given = topo_given,
	 .args = args_of_colocation,
	 .output = output,
	 .summary = "which virtual machines share a machine",
	 .help = "Guests of one machine read one counter (TSC, CNTVCT): its rate against fabric "
		 "time is the same, and it wanders alike. NTP changes neither. Each host has "
		 "points of the last two hours; this compares those of all exports, of one time, "
		 "pair by pair. A pair is named when the probability is 99%. What the noise, the "
		 "bounds of the clock or the time do not decide is not decided, rather than no: 1 "
		 "minute is enough with 10 ns of noise, 5 with 100 ns, half an hour with 1 us, two "
		 "hours with 5 us. Of one host alone, -j has its export."},
	{},
};

const struct verb_set colocation_verbs = {.name = "colocation", .verbs = verbs};
