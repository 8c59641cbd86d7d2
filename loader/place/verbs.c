// SPDX-License-Identifier: BSD-2-Clause
/* The verb; the command line runs it on exports, as `topo`. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/units.h"
#include "colocation/colocation.h"
#include "internal.h"
#include "report/report.h"

#define EXIT_FAILED 1
#define EXIT_USAGE 2

/* A choice and what it was made from. */
struct placement {
	struct place_hosts *fleet;
	const struct place_goal *goal;
	const struct place_choice *choice;
	size_t *ring; /* choice->hosts in the order of ranks */
};

/* --- one-way delays, half of two-way ones --- */

static void put_owd(json_t *object, const char *key, uint32_t two_way_ns)
{
	if (two_way_ns && two_way_ns != PLACE_UNKNOWN)
		json_put_integer(object, key, (int64_t)two_way_ns / 2);
}

static size_t cell(const struct placement *placement, size_t a, size_t b)
{
	return a * placement->fleet->map->count + b;
}

/* Of the chosen the one farthest from @host, TOPO_NONE: it is alone. */
static size_t farthest_from(const struct placement *placement, size_t host)
{
	const struct place_map *map = placement->fleet->map;
	size_t found = TOPO_NONE;

	for (size_t i = 0; i < placement->goal->hosts; i++) {
		size_t other = placement->choice->hosts[i];

		if (other != host &&
		    (found == TOPO_NONE || map->floor_ns[cell(placement, host, other)] >
						   map->floor_ns[cell(placement, host, found)]))
			found = other;
	}
	return found;
}

/* --- hosts --- */

static const char *tier_name(unsigned int tier)
{
	static const char *const names[] = {"one leaf", "one pod", "several pods"};

	return names[tier];
}

static void put_place(json_t *row, const struct placement *placement, size_t host)
{
	const struct topo_nic *nic =
		&placement->fleet->topo->nics[placement->fleet->first_nic[host]];

	if (nic->leaf == TOPO_NONE)
		return;
	json_put(row, "leaf", json_sprintf("leaf%zu", nic->leaf + 1));
	json_put(row, "pod", json_sprintf("pod%zu", nic->pod + 1));
}

static json_t *chosen_json(const struct placement *placement, size_t rank)
{
	const struct place_map *map = placement->fleet->map;
	size_t host = placement->ring[rank], far = farthest_from(placement, host);
	json_t *row = json_object();

	json_put_count(row, "rank", rank);
	json_put_text(row, "host", placement->fleet->names[host]);
	put_place(row, placement, host);
	if (far == TOPO_NONE)
		return row;
	put_owd(row, "worst_owd_ns", map->floor_ns[cell(placement, host, far)]);
	json_put_text(row, "farthest", placement->fleet->names[far]);
	json_put_bool(row, "estimated", map->estimated[cell(placement, host, far)]);
	return row;
}

/* What the host would have made of the choice, had it been taken in place of one. */
static json_t *release_json(const struct placement *placement, size_t host)
{
	const struct place_map *map = placement->fleet->map;
	size_t far = farthest_from(placement, host), at = cell(placement, host, far);
	unsigned int tier = 0;
	json_t *row = json_object();

	for (size_t i = 0; i < placement->goal->hosts; i++) {
		unsigned int one = map->tier[cell(placement, host, placement->choice->hosts[i])];

		tier = one > tier ? one : tier;
	}
	json_put_text(row, "host", placement->fleet->names[host]);
	put_place(row, placement, host);
	put_owd(row, "worst_owd_ns", map->floor_ns[at]);
	json_put_text(row, "farthest", placement->fleet->names[far]);
	json_put_bool(row, "estimated", map->estimated[at]);
	if (tier > placement->choice->value.tier)
		json_put_text(row, "reason",
			      tier == PLACE_CORE ? "in another pod" : "on another leaf");
	else if (placement->goal->hosts > 1 &&
		 map->floor_ns[at] > placement->choice->value.floor_ns)
		json_put_text(row, "reason", "farther than any chosen pair");
	else
		json_put_text(row, "reason", "no better than the chosen");
	return row;
}

static bool is_chosen(const struct placement *placement, size_t host)
{
	for (size_t i = 0; i < placement->goal->hosts; i++)
		if (placement->choice->hosts[i] == host)
			return true;
	return false;
}

/* Rows of the chosen in the order of ranks, and of the others. */
static void put_hosts(json_t *result, const struct placement *placement)
{
	json_t *chosen = json_array(), *release = json_array(), *one;
	json_t *names = json_array(), *released = json_array();
	const struct place_hosts *fleet = placement->fleet;
	char *text;
	size_t i;

	for (i = 0; i < placement->goal->hosts; i++) {
		json_array_append_new(chosen, chosen_json(placement, i));
		json_array_append_new(names, json_string(fleet->names[placement->ring[i]]));
	}
	for (i = 0; i < fleet->map->count; i++)
		if (!is_chosen(placement, i)) {
			json_array_append_new(release, release_json(placement, i));
			json_array_append_new(released, json_string(fleet->names[i]));
		}
	json_array_foreach (fleet->left_out, i, one)
		json_array_append(released, json_object_get(one, "host"));
	text = topo_fold_names(names);
	json_put_text(result, "node_list", text);
	free(text);
	text = topo_fold_names(released);
	json_put_text(result, "release_list", text);
	free(text);
	json_put(result, "chosen", chosen);
	json_put(result, "not_chosen", release);
	json_put(result, "left_out", json_incref(fleet->left_out));
	json_put(result, "hosts", names);
	json_put(result, "release", released);
}

/* --- the choice --- */

static void put_worst(json_t *result, const struct placement *placement)
{
	const struct place_choice *choice = placement->choice;
	const struct place_map *map = placement->fleet->map;
	size_t worst = TOPO_NONE, far, host;
	uint32_t upper;

	for (size_t i = 0; i < placement->goal->hosts; i++) {
		host = choice->hosts[i];
		far = farthest_from(placement, host);
		if (far == TOPO_NONE)
			return;
		if (map->floor_ns[cell(placement, host, far)] == choice->value.floor_ns &&
		    worst == TOPO_NONE)
			worst = host;
	}
	far = farthest_from(placement, worst);
	upper = map->upper_ns[cell(placement, worst, far)];
	json_put(result, "worst_pair",
		 json_pack("[s, s]", placement->fleet->names[worst], placement->fleet->names[far]));
	json_put_bool(result, "worst_estimated", map->estimated[cell(placement, worst, far)]);
	put_owd(result, "worst_owd_ns", choice->value.floor_ns);
	if (upper != PLACE_UNKNOWN && upper > choice->value.floor_ns)
		json_put_count(result, "worst_bound_ns", (upper - choice->value.floor_ns + 1) / 2);
	if (choice->value.p99_ns)
		json_put_count(result, "worst_two_way_p99_ns", choice->value.p99_ns);
}

static void put_proof(json_t *result, const struct placement *placement)
{
	const struct place_choice *choice = placement->choice;

	json_put_bool(result, "exact", choice->exact);
	if (placement->goal->hosts < 2)
		return;
	if (!choice->tier_exact) {
		json_put_bool(result, "tier_open", true);
		return;
	}
	put_owd(result, "least_owd_ns", choice->least_ns);
	if (choice->value.floor_ns != PLACE_UNKNOWN && choice->least_ns)
		json_put_real(result, "gap",
			      ((double)choice->value.floor_ns - choice->least_ns) /
				      choice->least_ns);
	json_put_bool(result, "p99_open", choice->floor_exact && !choice->exact);
}

/* How many pairs of the chosen are measured; leaves and pods; the worst pair of all candidates. */
static void put_counts(json_t *result, const struct placement *placement)
{
	const struct place_map *map = placement->fleet->map;
	const size_t *hosts = placement->choice->hosts;
	size_t measured = 0, estimated = 0, groups = 0;
	bool *seen = calloc(map->group_count + 1, sizeof(*seen));
	uint32_t worst = 0;

	for (size_t i = 0; i < placement->goal->hosts; i++) {
		if (seen && !seen[map->group[hosts[i]]]) {
			seen[map->group[hosts[i]]] = true;
			groups++;
		}
		for (size_t k = 0; k < i; k++)
			*(map->estimated[cell(placement, hosts[i], hosts[k])] ? &estimated
									      : &measured) += 1;
	}
	free(seen);
	for (size_t i = 0; i < map->count * map->count; i++)
		if (map->floor_ns[i] != PLACE_UNKNOWN && map->floor_ns[i] > worst)
			worst = map->floor_ns[i];
	json_put_count(result, "wanted", placement->goal->hosts);
	json_put_count(result, "candidates", map->count);
	json_put_count(result, "pairs_measured", measured);
	json_put_count(result, "pairs_estimated", estimated);
	put_owd(result, "candidates_worst_owd_ns", worst);
	if (!placement->fleet->tree)
		return;
	json_put_text(result, "within", tier_name(placement->choice->value.tier));
	json_put_count(result, "leaf_groups", groups);
}

static void note(json_t *notes, const char *text)
{
	json_array_append_new(notes, json_pack("{s:s}", "note", text));
}

static void put_notes(json_t *result, const struct placement *placement)
{
	json_t *notes = json_array(), *one;
	size_t i;

	if (!placement->fleet->tree)
		note(notes, "no leaf is known: chosen by delays alone (`escapement topo` has the "
			    "reasons)");
	if (json_count(result, "pairs_estimated"))
		note(notes, "pairs that were not measured are estimated: the median of their tier "
			    "with what both NICs add");
	if (placement->choice->value.floor_ns == PLACE_UNKNOWN)
		note(notes, "some chosen pairs were not measured, and nothing like them was: their "
			    "delay is not known");
	json_array_foreach (placement->fleet->topo->notes, i, one)
		json_array_append(notes, one);
	json_put(result, "notes", notes);
}

/* --- errors --- */

/* Candidates that share their leaves with most others. */
static size_t largest_group(const struct place_map *map)
{
	size_t *sizes = calloc(map->group_count + 1, sizeof(*sizes)), most = 0;

	for (size_t i = 0; sizes && i < map->count; i++)
		if (++sizes[map->group[i]] > most)
			most = sizes[map->group[i]];
	free(sizes);
	return most;
}

static void explain_few(const struct place_hosts *fleet, const struct place_goal *goal,
			char **error)
{
	const json_t *first = json_array_get(fleet->left_out, 0);

	if (first)
		explain(error, 0,
			"%zu hosts are asked for, %zu can be chosen; %zu are left out: %s (%s)%s",
			goal->hosts, fleet->map->count, json_array_size(fleet->left_out),
			json_text(first, "host"), json_text(first, "reason"),
			json_array_size(fleet->left_out) > 1 ? " and others" : "");
	else
		explain(error, 0, "%zu hosts are asked for, these exports have %zu", goal->hosts,
			fleet->map->count);
}

/* The limit cannot be met: by which pair the closest choice exceeds it. */
static void explain_limit(struct place_hosts *fleet, const struct place_goal *goal, bool proven,
			  char **error)
{
	struct place_choice closest = {};
	struct placement placement = {.fleet = fleet, .goal = goal, .choice = &closest};
	char limit[UNITS_TEXT_BYTES];
	const struct place_map *map = fleet->map;
	size_t a = 0, b = 0;

	units_duration(limit, goal->most_ns / 2);
	if (place_closest(map, goal, &closest)) {
		explain(error, 0, "no choice of %zu hosts within %s was found", goal->hosts, limit);
		return;
	}
	for (size_t i = 0; i < goal->hosts; i++)
		for (size_t k = 0; k < goal->hosts; k++) {
			size_t x = closest.hosts[i], y = closest.hosts[k];

			if (map->upper_ns[cell(&placement, x, y)] >
			    map->upper_ns[cell(&placement, a, b)]) {
				a = x;
				b = y;
			}
		}
	if (map->upper_ns[cell(&placement, a, b)] == PLACE_UNKNOWN)
		explain(error, 0,
			"no %zu hosts are known to be within %s of each other: %s and %s were "
			"not measured, and nothing like them was",
			goal->hosts, limit, fleet->names[a], fleet->names[b]);
	else
		explain(error, 0,
			"%s %zu hosts within %s of each other: the closest choice has up to "
			"%.2fus between %s and %s%s, its bound included",
			proven ? "there are no" : "no choice was found of", goal->hosts, limit,
			map->upper_ns[cell(&placement, a, b)] / 2e3, fleet->names[a],
			fleet->names[b],
			map->estimated[cell(&placement, a, b)] ? " (estimated)" : "");
	free(closest.hosts);
}

static void explain_none(struct place_hosts *fleet, const struct place_goal *goal, int err,
			 char **error)
{
	if (goal->hosts > fleet->map->count)
		explain_few(fleet, goal, error);
	else if (goal->same_leaf && largest_group(fleet->map) < goal->hosts)
		explain(error, 0,
			"no %zu hosts share their leaf on every rail: at most %zu do; without "
			"--same-rail they may be on several leaves",
			goal->hosts, largest_group(fleet->map));
	else if (err == -ENOENT || err == -EAGAIN)
		explain_limit(fleet, goal, err == -ENOENT, error);
	else
		explain(error, 0, "%s", strerror(-err));
}

/* --- formats --- */

static char *text_of(const json_t *result, const json_t *args)
{
	bool ranks = json_object_get(args, "ranks") != NULL;
	char *text = NULL;
	size_t bytes, i;
	const json_t *one;
	FILE *out;

	if (json_object_get(args, "slurm"))
		return strdup(json_text(result, "node_list"));
	if (!ranks && !json_object_get(args, "hostfile"))
		return NULL;
	out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	json_array_foreach (json_object_get(result, "hosts"), i, one) {
		fputs(i ? "\n" : "", out);
		if (ranks)
			fprintf(out, "rank %zu=%s slot=0", i, json_string_value(one));
		else
			fputs(json_string_value(one), out);
	}
	fclose(out);
	return text;
}

/* Names that these formats cannot have are an error, not a line that means something else. */
static int put_text(json_t *result, const json_t *args, char **error)
{
	char *text = text_of(result, args);
	const json_t *one;
	size_t i;

	if (!text)
		return 0;
	json_array_foreach (json_object_get(result, "hosts"), i, one)
		if (!topo_is_node_name(json_string_value(one))) {
			free(text);
			return explain(error, -EINVAL,
				       "`%.64s` is no name of a host that this format can have; "
				       "`-j` has it",
				       json_string_value(one));
		}
	json_put_text(result, "text", text);
	free(text);
	return 0;
}

/* --- place --- */

static json_t *placement_json(struct place_hosts *fleet, const struct place_goal *goal,
			      const struct place_choice *choice)
{
	struct placement placement = {fleet, goal, choice,
				      calloc(goal->hosts + 1, sizeof(*placement.ring))};
	json_t *result;

	if (!placement.ring)
		return NULL;
	memcpy(placement.ring, choice->hosts, goal->hosts * sizeof(*placement.ring));
	ring_order(fleet->map, placement.ring, goal->hosts);
	result = json_pack("{s:s, s:i}", "format", "escapement-placement", "version", 1);
	put_counts(result, &placement);
	put_worst(result, &placement);
	put_proof(result, &placement);
	if (choice->rule.group_most)
		json_put_count(result, "most_of_a_leaf", choice->rule.group_most);
	put_hosts(result, &placement);
	put_notes(result, &placement);
	free(placement.ring);
	return result;
}

static int take_goal(const json_t *args, struct place_goal *goal, char **error)
{
	*goal = (struct place_goal){
		.hosts = json_count(args, "hosts"),
		.most_ns = 2 * json_count(args, "max_owd_ns"),
		.spread = json_object_get(args, "spread"),
		.pack = json_object_get(args, "pack"),
		.same_leaf = json_object_get(args, "same_rail"),
	};
	if (goal->spread && (goal->pack || goal->same_leaf))
		return explain(error, -EINVAL, "--spread contradicts %s",
			       goal->pack ? "--pack" : "--same-rail");
	return 0;
}

static json_t *choose(struct place_hosts *fleet, const struct place_goal *goal, const json_t *args,
		      char **error)
{
	struct place_choice choice;
	json_t *result;
	int err;

	if (!fleet->tree && (goal->same_leaf || goal->spread || goal->pack)) {
		explain(error, 0,
			"no leaf is known, so that --spread, --pack and --same-rail mean nothing; "
			"`escapement topo` has the reasons");
		return NULL;
	}
	err = place_solve(fleet->map, goal, &choice);
	if (err) {
		explain_none(fleet, goal, err, error);
		return NULL;
	}
	result = placement_json(fleet, goal, &choice);
	free(choice.hosts);
	if (result && put_text(result, args, error)) {
		json_decref(result);
		return NULL;
	}
	return result;
}

/*
 * Of each group of hosts that share a machine the first @most are candidates. Returns whether that
 * leaves one out.
 */
static bool set_apart(struct topo *topo, const struct colocation *colocation, size_t most)
{
	bool some = false;

	json_decref(topo->apart);
	topo->apart = json_object();
	for (size_t i = 0; i < colocation->count; i++) {
		const char *first = NULL;
		size_t before = 0;

		for (size_t k = 0; k < i && colocation->law.group[i] != SIZE_MAX; k++) {
			if (colocation->law.group[k] != colocation->law.group[i])
				continue;
			first = first ? first : colocation->hosts[k].name;
			before++;
		}
		if (before < most)
			continue;
		some = true;
		json_object_set_new(topo->apart, colocation->hosts[i].name,
				    json_sprintf("it shares its machine with %s", first));
	}
	return some;
}

/*
 * First of all as few hosts of one machine as possible. So one of each is tried, then two, until
 * there is a choice; without any the error is that of all hosts.
 */
static json_t *choose_apart(struct topo *topo, const struct colocation *colocation,
			    const struct place_goal *goal, const json_t *args, char **error)
{
	struct place_hosts fleet;
	json_t *result = NULL;
	bool some = true;

	for (size_t most = 1; some && !result; most++) {
		free(*error);
		*error = NULL;
		some = set_apart(topo, colocation, most);
		if (hosts_of_topo(&fleet, topo, error))
			return NULL;
		result = choose(&fleet, goal, args, error);
		if (result && colocation->law.group_count)
			json_put_count(result, "most_of_a_machine", most);
		hosts_free(&fleet);
	}
	return result;
}

static json_t *run_place(const json_t *args, int *exit, char **error)
{
	struct colocation colocation = {};
	const json_t **exports = NULL;
	struct report *report = NULL;
	struct topo *topo = NULL;
	struct place_goal goal;
	json_t *result = NULL;
	size_t count = 0;

	*exit = EXIT_USAGE;
	if (take_goal(args, &goal, error))
		return NULL;
	*exit = EXIT_FAILED;
	if (!topo_exports_of_args(args, &report, &exports, &count, error))
		topo = topo_of_exports(exports, count, error);
	if (topo && !colocation_read(&colocation, exports, count, error))
		result = choose_apart(topo, &colocation, &goal, args, error);
	colocation_free(&colocation);
	topo_free(topo);
	free(exports);
	report_free(report);
	return result;
}

/* clang-format off: tables */

static const struct column chosen[] = {
	{"RANK", "rank", FORMAT_COUNT, .help = "its place in a ring, in which neighbors are near"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "a chosen host"},
	{"LEAF", "leaf", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "of its first NIC"},
	{"POD", "pod", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "the same"},
	{"WORST", "worst_owd_ns", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "one-way floor of its farthest pair on its worst rail"},
	{"TO", "<|{farthest}|><|{estimated:?, estimated|}|>", FORMAT_TEXT,
	 COLUMN_LEFT | COLUMN_OPTIONAL, .help = "the other host of that pair"},
	{},
};

static const struct column not_chosen[] = {
	{"RELEASE", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "a host that is not chosen"},
	{"LEAF", "leaf", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "of its first NIC"},
	{"POD", "pod", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "the same"},
	{"WORST", "worst_owd_ns", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "one-way floor to the chosen host that is farthest from it"},
	{"TO", "<|{farthest}|><|{estimated:?, estimated|}|>", FORMAT_TEXT,
	 COLUMN_LEFT | COLUMN_OPTIONAL, .help = "that host"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "why it is not chosen"},
	{},
};

static const struct column left_out[] = {
	{"LEFT_OUT", "host", FORMAT_TEXT, COLUMN_LEFT, .help = "a host that was no candidate"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "why"},
	{},
};

static const struct verb_section output[] = {
	{.when = "text", .text = "{text}"},
	{.when = "!text",
	 .header = "Chosen",
	 .text = "{wanted} of {candidates} candidates: {node_list}"},
	{.when = "!text within",
	 .header = "Within",
	 .text = "{within}; leaf groups: {leaf_groups}<|, at most {most_of_a_leaf} hosts of "
		 "each|>"},
	{.when = "!text most_of_a_machine",
	 .header = "Machines",
	 .text = "at most {most_of_a_machine} of the hosts that share one"},
	{.when = "!text worst_owd_ns",
	 .header = "Worst pair",
	 .text = "{worst_pair}: one-way floor {worst_owd_ns:time}<|, bound {worst_bound_ns:time}|>"
		 "<|{worst_estimated:?, estimated|}|><|; no pair has a two-way "
		 "p99 above {worst_two_way_p99_ns:time}|>"},
	{.when = "!text candidates_worst_owd_ns",
	 .header = "Candidates",
	 .text = "the worst pair of all has {candidates_worst_owd_ns:time}"},
	{.when = "!text exact", .header = "Exact", .text = "no choice is better"},
	{.when = "!text !exact least_owd_ns !p99_open",
	 .header = "Gap",
	 .text = "{gap:share} at most: no choice has a worst pair below {least_owd_ns:time}"},
	{.when = "!text p99_open",
	 .header = "Gap",
	 .text = "none of the worst floor; a lower worst p99 could not be excluded"},
	{.when = "!text tier_open",
	 .header = "Gap",
	 .text = "a choice of fewer tiers could not be excluded"},
	{.when = "!text pairs_measured+pairs_estimated",
	 .header = "Pairs",
	 .text = "{pairs_measured} measured, {pairs_estimated} estimated"},
	{.when = "!text release_list", .header = "Release", .text = "{release_list}"},
	{.when = "!text", .rows = "chosen", .columns = chosen},
	{.when = "!text", .rows = "not_chosen", .columns = not_chosen},
	{.when = "!text", .rows = "left_out", .columns = left_out},
	{.when = "!text", .rows = "notes", .header = "Note", .text = "{note}"},
	{},
};

static const struct verb_arg args_of_place[] = {
	{"N", .type = VERB_COUNT, .key = "hosts", .local = true, .required = true, .least = 1,
	 .most = PLACE_HOSTS_MAX, .help = "how many hosts"},
	TOPO_FROM,
	{"--max-owd", "TIME", .type = VERB_DURATION, .key = "max_owd_ns", .local = true, .least = 1,
	 .most = 1000000000,
	 .help = "the longest one-way floor, with its bound, that any two may have"},
	{"--pack", .type = VERB_FLAG, .key = "pack", .local = true,
	 .help = "first of all as few leaves as possible"},
	{"--spread", .type = VERB_FLAG, .key = "spread", .local = true,
	 .help = "first of all as few hosts of one leaf as possible"},
	{"--same-rail", .type = VERB_FLAG, .key = "same_rail", .local = true,
	 .help = "on each rail all on one leaf"},
	{"--hosts", .type = VERB_FLAG, .key = "hostfile", .local = true,
	 .help = "the hosts alone, one a line, in the order of ranks"},
	{"--slurm", .type = VERB_FLAG, .key = "slurm", .local = true,
	 .help = "the node list alone, as Slurm folds it"},
	{"--ranks", .type = VERB_FLAG, .key = "ranks", .local = true,
	 .help = "a rank file of Open MPI in which neighbors are near"},
	{},
};

static const struct verb verbs[] = {
	{.name = "place",
	 .place = VERB_HERE,
	 .reads = true,
	 .run = run_place,
	 .given = topo_given,
	 .args = args_of_place,
	 .output = output,
	 .summary = "choose hosts for a job",
	 .help = "Of the hosts that have exports the N that are nearest to each other: first the "
		 "fewest tiers (one leaf, one pod, several), then the least floor of the worst "
		 "pair on its worst rail, then the least p99 of any pair that has one. A pair that "
		 "was not measured is estimated by its tier. Hosts without an export, that are "
		 "down, or whose leaf is not certain are left out. When a better choice cannot be "
		 "excluded, the gap is stated. A leaf group has the hosts that share their leaf on "
		 "every rail. Of virtual machines that are known to share a machine (`escapement "
		 "colocation`) as few as possible are chosen, before all else."},
	{},
};

const struct verb_set place_verbs = {.name = "place", .verbs = verbs};
