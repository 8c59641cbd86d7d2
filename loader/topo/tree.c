// SPDX-License-Identifier: BSD-2-Clause
/* One tree of what switches and delays show. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "internal.h"

#define DOUBTFUL 0.9 /* below: marked */

struct grouping {
	size_t *switch_leaf, *switch_pod, *delay_leaf, *delay_pod;
	size_t *leaf, *pod;
	bool *known; /* by switches */
};

bool topo_is_certain(const struct topo_nic *nic)
{
	if (nic->conflict)
		return false;
	return nic->by == TOPO_BY_DELAYS ? nic->certainty >= DOUBTFUL : nic->by != TOPO_BY_NONE;
}

/* --- both kinds of evidence --- */

/* How many of the NICs in a set there are. */
static size_t *count_sets(size_t *sets, size_t nics)
{
	size_t *counts = calloc(nics + 1, sizeof(*counts));

	for (size_t i = 0; counts && i < nics; i++)
		counts[sets_find(sets, i)]++;
	return counts;
}

/*
 * A NIC of which switches tell nothing joins the leaf of those with which delays group it. Where
 * both tell, switches win, and a difference is a conflict: of a group by delay the leaf of its
 * first NIC that switches know stands for all.
 */
static int fuse_leaves(struct topo *topo, struct grouping *of)
{
	size_t nics = topo->nic_count, *stands = calloc(nics + 1, sizeof(*stands));
	size_t *by_delay = count_sets(of->delay_leaf, nics);
	size_t *by_switch = count_sets(of->switch_leaf, nics);

	if (!stands || !by_delay || !by_switch) {
		free(stands);
		free(by_delay);
		free(by_switch);
		return -ENOMEM;
	}
	for (size_t i = 0; i < nics; i++) {
		sets_join(of->leaf, i, sets_find(of->switch_leaf, i));
		if (of->known[i] && !stands[sets_find(of->delay_leaf, i)])
			stands[sets_find(of->delay_leaf, i)] = i + 1;
	}
	for (size_t i = 0; i < nics; i++) {
		size_t group = sets_find(of->delay_leaf, i), stand = stands[group];
		bool delay = by_delay[group] > 1, agree;
		struct topo_nic *nic = &topo->nics[i];

		if (!of->known[i]) {
			sets_join(of->leaf, i, stand ? stand - 1 : group);
			nic->by = delay ? TOPO_BY_DELAYS : TOPO_BY_NONE;
			nic->certainty = delay ? nic->certainty : NAN;
			continue;
		}
		agree = delay && stand &&
			sets_find(of->switch_leaf, i) == sets_find(of->switch_leaf, stand - 1);
		nic->conflict = delay && !agree;
		nic->by = agree ? TOPO_BY_BOTH : TOPO_BY_SWITCHES;
		nic->certainty = NAN; /* a reply is no matter of probability */
	}
	free(stands);
	free(by_delay);
	free(by_switch);
	return 0;
}

/* By switches where a path crosses more than the switches of one pod, else by delay. */
static void fuse_pods(const struct topo *topo, struct grouping *of)
{
	bool crossed = false;

	for (size_t i = 0; i < topo->path_count; i++)
		crossed |= (topo->paths[i].distance ? topo->paths[i].distance
						    : topo->paths[i].hop_count) > 3;
	for (size_t i = 0; i < topo->nic_count; i++) {
		bool by_switch = crossed && of->known[i];

		sets_join(of->pod, i, sets_find(of->leaf, i));
		sets_join(of->pod, i, sets_find(by_switch ? of->switch_pod : of->delay_pod, i));
	}
}

/* --- leaves --- */

static const struct topo *sorting;

static int by_place(const void *a, const void *b)
{
	const struct topo_nic *x = &sorting->nics[*(const size_t *)a];
	const struct topo_nic *y = &sorting->nics[*(const size_t *)b];
	int order = strcmp(x->plane, y->plane);

	order = order ? order : strverscmp(x->rail, y->rail);
	order = order ? order : strverscmp(x->host, y->host);
	order = order ? order : strverscmp(x->interface, y->interface);
	return order ? order : strcmp(x->address, y->address);
}

/* Numbers of leaves and pods in the order of their first NIC. */
static int number_leaves(struct topo *topo, struct grouping *of)
{
	size_t *order = sets_new(topo->nic_count),
	       *pods = calloc(topo->nic_count + 1, sizeof(*pods));
	size_t *leaves = calloc(topo->nic_count + 1, sizeof(*leaves));
	int err = order && pods && leaves ? 0 : -ENOMEM;

	sorting = topo;
	if (!err && topo->nic_count)
		qsort(order, topo->nic_count, sizeof(*order), by_place);
	for (size_t i = 0; !err && i < topo->nic_count; i++) {
		size_t at = order[i], leaf = sets_find(of->leaf, at), pod = sets_find(of->pod, at);
		struct topo_nic *nic = &topo->nics[at];
		struct topo_leaf *of_nic;

		if (nic->by == TOPO_BY_NONE)
			continue;
		if (!pods[pod])
			pods[pod] = ++topo->pod_count;
		if (!leaves[leaf]) {
			of_nic = array_add(&topo->leaves, &topo->leaf_count, &topo->leaf_room,
					   sizeof(*of_nic));
			if (!of_nic) {
				err = -ENOMEM;
				break;
			}
			*of_nic = (struct topo_leaf){
				.pod = pods[pod] - 1, .first = at, .certainty = NAN};
			leaves[leaf] = topo->leaf_count;
		}
		nic->leaf = leaves[leaf] - 1;
		nic->pod = pods[pod] - 1;
		of_nic = &topo->leaves[nic->leaf];
		of_nic->nics++;
		of_nic->by |= nic->by;
		if (!(nic->certainty >= of_nic->certainty) && isfinite(nic->certainty))
			of_nic->certainty = nic->certainty;
	}
	free(order);
	free(pods);
	free(leaves);
	return err;
}

/* Distinct second switches of the paths from the NICs of a leaf. */
static int count_uplinks(struct topo *topo)
{
	json_t *seen = json_object();
	char key[64];

	for (size_t i = 0; i < topo->path_count; i++) {
		size_t leaf = topo->nics[topo->paths[i].a].leaf;

		if (leaf == TOPO_NONE || topo->paths[i].hop_count < 2 || !topo->paths[i].hops[1])
			continue;
		snprintf(key, sizeof(key), "%zu %zu", leaf, topo->paths[i].hops[1]);
		if (json_object_get(seen, key))
			continue;
		json_object_set_new(seen, key, json_true());
		topo->leaves[leaf].uplinks++;
	}
	json_decref(seen);
	return 0;
}

/* --- notes --- */

void topo_note(struct topo *topo, json_t *text)
{
	json_array_append_new(topo->notes, json_pack("{s:o}", "note", text));
}

static void add_notes(struct topo *topo)
{
	json_t *missing = json_object(), *one;
	size_t unknown = 0, doubtful = 0, conflicts = 0;
	const char *host;

	for (size_t i = 0; i < topo->nic_count; i++) {
		const struct topo_nic *nic = &topo->nics[i];

		unknown += nic->leaf == TOPO_NONE;
		doubtful += nic->leaf != TOPO_NONE && !topo_is_certain(nic);
		conflicts += nic->conflict;
		if (*nic->host && !json_object_get(topo->hosts, nic->host))
			json_object_set_new(missing, nic->host, json_true());
	}
	if (unknown)
		topo_note(topo,
			  json_sprintf("of %zu of %zu NICs no leaf is known: they are in no group",
				       unknown, topo->nic_count));
	if (doubtful)
		topo_note(
			topo,
			json_sprintf("%zu NICs are not certain (by delays below %.0f%%, or placed "
				     "elsewhere by switches): marked with ?",
				     doubtful, DOUBTFUL * 100));
	if (conflicts)
		topo_note(
			topo,
			json_sprintf("%zu NICs are placed on other leaves by delays than by switch "
				     "replies, which were taken",
				     conflicts));
	json_object_foreach (missing, host, one) {
		topo_note(topo,
			  json_sprintf("%zu hosts without an export, %s among them: what they "
				       "measured is missing",
				       json_object_size(missing), host));
		break;
	}
	json_decref(missing);
}

int topo_solve(struct topo *topo)
{
	struct grouping of = {sets_new(topo->nic_count),
			      sets_new(topo->nic_count),
			      sets_new(topo->nic_count),
			      sets_new(topo->nic_count),
			      sets_new(topo->nic_count),
			      sets_new(topo->nic_count),
			      calloc(topo->nic_count + 1, sizeof(bool))};
	int err = topo->err;

	if (!of.switch_leaf || !of.switch_pod || !of.delay_leaf || !of.delay_pod || !of.leaf ||
	    !of.pod || !of.known)
		err = -ENOMEM;
	if (!err)
		err = switch_group(topo, of.switch_leaf, of.switch_pod, of.known);
	if (!err)
		err = delay_group(topo, of.delay_leaf, of.delay_pod);
	if (!err)
		err = fuse_leaves(topo, &of);
	if (!err)
		fuse_pods(topo, &of);
	if (!err)
		err = number_leaves(topo, &of);
	if (!err)
		err = count_uplinks(topo);
	if (!err)
		add_notes(topo);
	free(of.switch_leaf);
	free(of.switch_pod);
	free(of.delay_leaf);
	free(of.delay_pod);
	free(of.leaf);
	free(of.pod);
	free(of.known);
	return err;
}

/* --- JSON --- */

static const char *by_name(enum topo_by by)
{
	static const char *const names[] = {"none", "delays", "switches", "both"};

	return names[by];
}

static json_t *nic_json(const struct topo_nic *nic)
{
	json_t *object = json_object();

	json_put_text(object, "host", nic->host);
	json_put_text(object, "interface", nic->interface);
	json_put_text(object, "address", nic->address);
	json_put_text(object, "plane", nic->plane);
	json_put_text(object, "rail", nic->rail);
	if (nic->leaf != TOPO_NONE) {
		json_put(object, "leaf", json_sprintf("leaf%zu", nic->leaf + 1));
		json_put(object, "pod", json_sprintf("pod%zu", nic->pod + 1));
		if (isfinite(nic->certainty))
			json_put_real(object, "certainty", nic->certainty);
	}
	json_put_text(object, "by", by_name(nic->by));
	json_put_bool(object, "certain", topo_is_certain(nic));
	if (nic->conflict)
		json_put_bool(object, "conflict", true);
	return object;
}

static json_t *leaf_json(const struct topo *topo, size_t at)
{
	const struct topo_leaf *leaf = &topo->leaves[at];
	const struct topo_nic *first = &topo->nics[leaf->first];
	json_t *object = json_object();

	json_put(object, "leaf", json_sprintf("leaf%zu", at + 1));
	json_put(object, "pod", json_sprintf("pod%zu", leaf->pod + 1));
	json_put_text(object, "plane", first->plane);
	json_put_text(object, "rail", first->rail);
	json_put_count(object, "nic_count", leaf->nics);
	if (isfinite(leaf->certainty))
		json_put_real(object, "certainty", leaf->certainty);
	json_put_text(object, "by", by_name(leaf->by));
	if (leaf->uplinks)
		json_put_count(object, "uplinks", leaf->uplinks);
	json_put(object, "hosts", json_array());
	return object;
}

json_t *topo_json(const struct topo *topo)
{
	json_t *nics = json_array(), *leaves = json_array(), *hosts = json_object(), *result;
	size_t *order = sets_new(topo->nic_count);

	sorting = topo;
	if (order && topo->nic_count)
		qsort(order, topo->nic_count, sizeof(*order), by_place);
	for (size_t i = 0; i < topo->leaf_count; i++)
		json_array_append_new(leaves, leaf_json(topo, i));
	for (size_t i = 0; order && i < topo->nic_count; i++) {
		const struct topo_nic *nic = &topo->nics[order[i]];

		json_array_append_new(nics, nic_json(nic));
		if (*nic->host)
			json_object_set_new(hosts, nic->host, json_true());
		if (nic->leaf != TOPO_NONE && *nic->host)
			json_array_append_new(
				json_object_get(json_array_get(leaves, nic->leaf), "hosts"),
				json_string(nic->host));
	}
	result = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:O, s:O}", "format",
			   "escapement-topology", "version", 1, "host_count",
			   (json_int_t)json_object_size(hosts), "nic_count",
			   (json_int_t)topo->nic_count, "pairs", (json_int_t)topo->pair_count,
			   "pods", (json_int_t)topo->pod_count, "leaves", leaves, "nics", nics,
			   "tiers", topo->tiers, "notes", topo->notes);
	json_decref(hosts);
	free(order);
	json_put(result, "misplaced", check_rails(result));
	return result;
}
