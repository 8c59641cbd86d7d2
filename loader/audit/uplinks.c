// SPDX-License-Identifier: BSD-2-Clause
/*
 * Missing uplinks of a ToR, by comparison with its siblings: each host records the switches that
 * the surveyed paths of its queue pairs cross, and a merge counts those behind each ToR (topo/).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"
#include "topo/topo.h"

#define CHECK "topology.uplinks"
#define POD_SWITCHES 3	 /* that a path within a pod crosses at most */
#define COMPLETE_LEAST 2 /* surveys: each misses a path in one of 20 */
#define SIBLINGS_LEAST 3 /* as of hosts */
#define SIBLINGS_PERCENT 60
#define NAMED_MOST 6

static const json_t *reply(const struct audit_run *run, const char *verb)
{
	return json_object_get(run->options->daemon, verb);
}

/* --- of a host --- */

struct census {
	json_t *rows;	  /* paths: one of each second switch, and one of each peer */
	json_t *switches; /* {ADDRESS: true}: the second ones */
	size_t pairs, leaving, complete;
};

static bool is_from(const json_t *row, const char *address)
{
	return !strcmp(json_text(row, "from"), address);
}

static void count_pairs(struct census *census, const json_t *pairs, const char *from)
{
	const json_t *pair;
	size_t i;

	json_array_foreach (pairs, i, pair) {
		if (!is_from(pair, from))
			continue;
		census->pairs++;
		if (json_count(pair, "distance") == 1)
			continue;
		census->leaving++;
		census->complete += json_is_true(json_object_get(pair, "complete"));
	}
}

static uint64_t distance_of(const json_t *pairs, const json_t *path)
{
	const json_t *pair;
	size_t i;

	json_array_foreach (pairs, i, pair)
		if (is_from(pair, json_text(path, "from")) &&
		    !strcmp(json_text(pair, "to"), json_text(path, "to")))
			return json_count(pair, "distance");
	return 0;
}

static void add_path(struct census *census, json_t *peers, const json_t *path, uint64_t distance)
{
	const char *to = json_text(path, "to");
	const char *second = json_string_value(json_array_get(json_object_get(path, "hops"), 1));
	bool is_new = !json_object_get(peers, to);
	json_t *row;

	if (second && distance != 1 && !json_object_get(census->switches, second)) {
		json_object_set_new(census->switches, second, json_true());
		is_new = true;
	}
	if (!is_new)
		return;
	json_object_set_new(peers, to, json_true());
	row = json_object();
	json_put_text(row, "from", json_text(path, "from"));
	json_put_text(row, "to", to);
	if (distance)
		json_put_count(row, "distance", distance);
	json_object_set(row, "hops", json_object_get(path, "hops"));
	json_array_append_new(census->rows, row);
}

static struct census census_of(const json_t *paths, const char *from)
{
	struct census census = {.rows = json_array(), .switches = json_object()};
	const json_t *pairs = json_object_get(paths, "pairs"), *path;
	json_t *peers = json_object();
	size_t i;

	count_pairs(&census, pairs, from);
	json_array_foreach (json_object_get(paths, "paths"), i, path)
		if (is_from(path, from) && !strcmp(json_text(path, "state"), "up"))
			add_path(&census, peers, path, distance_of(pairs, path));
	json_decref(peers);
	return census;
}

static const char *why_unknown(const struct census *census)
{
	if (!census->pairs)
		return "no paths were surveyed from it: it has no queue pairs";
	if (!census->leaving)
		return "no surveyed path leaves its ToR";
	if (!json_object_size(census->switches))
		return "no switch behind its ToR replies";
	return census->complete ? NULL : "the survey of its paths is not complete yet";
}

static void uplinks_of(struct audit_run *run, const json_t *plane, const json_t *nic)
{
	const char *interface = json_text(nic, "interface"), *subject = interface;
	struct census census = census_of(reply(run, "paths"), json_text(nic, "address"));
	const char *why = why_unknown(&census);
	json_t *entry;

	for (size_t i = 0; i < run->nic_count; i++)
		if (!strcmp(run->nics[i].netdev, interface))
			subject = run->nics[i].subject;
	if (why)
		audit_unknown(run, subject, "%s", why);
	else
		audit_record(run, subject, "%zu", json_object_size(census.switches));
	entry = json_array_get(run->results, json_array_size(run->results) - 1);
	if (!why) {
		json_put_text(entry, "address", json_text(nic, "address"));
		json_put_text(entry, "plane", json_text(plane, "plane"));
		json_put_text(entry, "rail", json_text(nic, "rail"));
		json_put_count(entry, "surveys", census.complete);
		json_object_set(entry, "paths", census.rows);
	}
	json_decref(census.rows);
	json_decref(census.switches);
}

static void uplinks(struct audit_run *run)
{
	const json_t *probing = json_object_get(reply(run, "status"), "probing"), *plane, *nic;
	size_t i, k, count = 0;

	json_array_foreach (json_object_get(probing, "planes"), i, plane)
		json_array_foreach (json_object_get(plane, "nics"), k, nic) {
			count++;
			uplinks_of(run, plane, nic);
		}
	if (!reply(run, "status") || !reply(run, "paths"))
		audit_unknown(run, "", "no escapementd replies");
	else if (!count)
		audit_unknown(run, "", "no NIC of this host is a member");
}

/* --- of many hosts --- */

struct tor {
	size_t pod;	  /* the first ToR of its pod */
	uint64_t surveys; /* that are complete, of all its NICs */
	json_t *first;	  /* entry of its first NIC */
	json_t *nics;	  /* "HOST NIC, HOST NIC" */
	size_t named;
	const char *name; /* by LLDP; NULL: none, "": several */
};

/* Of the ToRs of a pod that are counted: how many, and how many have the most usual number of
 * uplinks. */
struct pod {
	size_t of, most, uplinks;
};

struct siblings {
	struct topo *topo;
	struct tor *tors;  /* by leaf of topo */
	struct pod *pods;  /* by its first ToR */
	json_t *neighbors; /* {"HOST NIC": "SWITCH PORT"}, by lldpd */
};

static bool is_of_census(const json_t *entry)
{
	return !strcmp(json_text(entry, "check"), CHECK) &&
	       !strcmp(json_text(entry, "result"), "recorded") &&
	       json_is_array(json_object_get(entry, "paths"));
}

static int read_entries(struct topo *topo, json_t *results)
{
	json_t *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		json_t *paths = json_object_get(entry, "paths"), *export;
		int err;

		if (!is_of_census(entry))
			continue;
		topo_nic(topo, json_text(entry, "address"), json_text(entry, "host"),
			 json_text(entry, "subject"), json_text(entry, "plane"),
			 json_text(entry, "rail"));
		export = json_pack("{s:s, s:{s:{s:O, s:O}}}", "host", json_text(entry, "host"),
				   "replies", "paths", "paths", paths, "pairs", paths);
		err = topo_read(topo, export, NULL);
		json_decref(export);
		if (err)
			return err;
	}
	return topo_solve(topo);
}

/* New reference. */
static json_t *nic_name(const json_t *entry)
{
	return json_sprintf("%s %s", json_text(entry, "host"), json_text(entry, "subject"));
}

static size_t leaf_of(const struct siblings *all, const json_t *entry)
{
	const json_t *id = json_object_get(all->topo->nic_ids, json_text(entry, "address"));

	return id ? all->topo->nics[json_integer_value(id)].leaf : TOPO_NONE;
}

static void read_neighbors(struct siblings *all, const json_t *results)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (results, i, entry) {
		json_t *key;

		if (strcmp(json_text(entry, "check"), "nic.neighbor"))
			continue;
		key = nic_name(entry);
		json_object_set(all->neighbors, json_string_value(key),
				json_object_get(entry, "value"));
		json_decref(key);
	}
}

static bool same_switch(const char *one, const char *other)
{
	size_t bytes = strcspn(one, " ");

	return bytes == strcspn(other, " ") && !strncmp(one, other, bytes);
}

static void add_nic(struct siblings *all, struct tor *tor, json_t *entry)
{
	json_t *nic = nic_name(entry), *longer;
	const char *neighbor = json_text(all->neighbors, json_string_value(nic));

	tor->surveys += json_count(entry, "surveys");
	tor->first = tor->first ? tor->first : entry;
	if (!tor->name)
		tor->name = neighbor;
	else if (!same_switch(tor->name, neighbor))
		tor->name = "";
	if (tor->named++ < NAMED_MOST) {
		longer = json_sprintf("%s%s%s", tor->nics ? json_string_value(tor->nics) : "",
				      tor->nics ? ", " : "", json_string_value(nic));
		json_decref(tor->nics);
		tor->nics = longer;
	}
	json_decref(nic);
}

/* ToRs that a path within a pod connects are siblings. */
static void join_pods(struct siblings *all)
{
	const struct topo *topo = all->topo;

	for (size_t i = 0; i < topo->leaf_count; i++)
		all->tors[i].pod = i;
	for (size_t i = 0; i < topo->path_count; i++) {
		const struct topo_path *path = &topo->paths[i];
		size_t a = topo->nics[path->a].leaf, b = topo->nics[path->b].leaf, from;

		if (a == TOPO_NONE || b == TOPO_NONE || all->tors[a].pod == all->tors[b].pod ||
		    !path->distance || path->distance > POD_SWITCHES)
			continue;
		from = all->tors[b].pod;
		for (size_t k = 0; k < topo->leaf_count; k++)
			if (all->tors[k].pod == from)
				all->tors[k].pod = all->tors[a].pod;
	}
}

static bool is_counted(const struct siblings *all, size_t at)
{
	return all->tors[at].surveys >= COMPLETE_LEAST && all->topo->leaves[at].uplinks;
}

static void count_pods(struct siblings *all)
{
	json_t *tally = json_object();
	char key[64];

	for (size_t i = 0; i < all->topo->leaf_count; i++) {
		struct pod *pod = &all->pods[all->tors[i].pod];
		size_t uplinks = all->topo->leaves[i].uplinks, same;

		if (!is_counted(all, i))
			continue;
		snprintf(key, sizeof(key), "%zu %zu", all->tors[i].pod, uplinks);
		same = json_count(tally, key) + 1;
		json_put_count(tally, key, same);
		pod->of++;
		if (same <= pod->most)
			continue;
		pod->most = same;
		pod->uplinks = uplinks;
	}
	json_decref(tally);
}

static void fail_tor(const struct siblings *all, size_t at, const char *expected)
{
	const struct tor *tor = &all->tors[at];
	const char *name = tor->name ? tor->name : "";
	char text[AUDIT_TEXT_BYTES];

	snprintf(text, sizeof(text), "%zu uplinks of %.*s%sthe ToR of %s%s",
		 all->topo->leaves[at].uplinks, (int)strcspn(name, " "), name, *name ? ", " : "",
		 json_string_value(tor->nics), tor->named > NAMED_MOST ? ", ..." : "");
	json_put_name(tor->first, "value", text);
	audit_conclude(tor->first, "fail", "expected", expected);
}

static void judge_nic(const struct siblings *all, json_t *entry)
{
	size_t at = leaf_of(all, entry);
	char expected[AUDIT_TEXT_BYTES];
	const struct pod *pod;

	if (at == TOPO_NONE || !is_counted(all, at)) {
		audit_conclude(entry, "unknown", "reason",
			       at == TOPO_NONE
				       ? "the switches do not show which NICs share its ToR"
				       : "the surveys of fewer than 2 pairs that leave its ToR are "
					 "complete");
		return;
	}
	pod = &all->pods[all->tors[at].pod];
	snprintf(expected, sizeof(expected), "%zu, as %zu of %zu ToRs of the pod", pod->uplinks,
		 pod->most, pod->of);
	if (pod->of < SIBLINGS_LEAST || pod->most * 100 < pod->of * SIBLINGS_PERCENT)
		audit_conclude(entry, "unknown", "reason",
			       pod->of < SIBLINGS_LEAST
				       ? "fewer than 3 ToRs of the pod were surveyed"
				       : "no number of uplinks is that of 60% of the ToRs of the "
					 "pod");
	else if (all->topo->leaves[at].uplinks >= pod->uplinks)
		audit_conclude(entry, "pass", "expected", expected);
	else if (entry == all->tors[at].first)
		fail_tor(all, at, expected);
	else
		audit_explain(entry, json_sprintf("the ToR of %s %s, which failed",
						  json_text(all->tors[at].first, "host"),
						  json_text(all->tors[at].first, "subject")));
}

static void judge_all(struct siblings *all, const json_t *results)
{
	json_t *entry;
	size_t i, at;

	read_neighbors(all, results);
	json_array_foreach (results, i, entry) {
		at = is_of_census(entry) ? leaf_of(all, entry) : TOPO_NONE;
		if (at != TOPO_NONE)
			add_nic(all, &all->tors[at], entry);
	}
	join_pods(all);
	count_pods(all);
	json_array_foreach (results, i, entry)
		if (is_of_census(entry))
			judge_nic(all, entry);
}

void audit_compare_siblings(json_t *results)
{
	struct siblings all = {.topo = topo_new(), .neighbors = json_object()};
	json_t *entry;
	size_t i;

	if (all.topo && !read_entries(all.topo, results)) {
		all.tors = calloc(all.topo->leaf_count + 1, sizeof(*all.tors));
		all.pods = calloc(all.topo->leaf_count + 1, sizeof(*all.pods));
		if (all.tors && all.pods)
			judge_all(&all, results);
		for (i = 0; all.tors && i < all.topo->leaf_count; i++)
			json_decref(all.tors[i].nics);
	}
	json_array_foreach (results, i, entry)
		if (!strcmp(json_text(entry, "check"), CHECK))
			json_object_del(entry, "paths");
	free(all.tors);
	free(all.pods);
	json_decref(all.neighbors);
	topo_free(all.topo);
}

/* clang-format off: a table */

const struct audit_check audit_topology_checks[] = {
	{CHECK, .group = "backend", .name = "uplinks of the ToR", .compare = AUDIT_SIBLINGS,
	 .source = "escapement paths", .criterion = "as many as of most ToRs of the pod",
	 .remedy = "look for ports to spines that are down on the ToR that is named; reseat or "
		   "replace cables",
	 .unknown = "no queue pair's paths were surveyed, switches do not reply, or fewer than 3 "
		    "ToRs of the pod are known",
	 .severity = "critical", .run = uplinks},
	{},
};
