// SPDX-License-Identifier: BSD-2-Clause
/* Candidates of a topology, and the delays between them: measured, or estimated by the tree. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "internal.h"

#define TIERS 4 /* those of place_tier, and one for NICs whose leaf is not known */

/* Of one rail the NICs of candidates, and what its pairs have beside what both NICs add. */
struct rail {
	bool tree;	       /* a leaf is known */
	double path_ns[TIERS]; /* the median; NAN */
};

struct survey {
	struct place_hosts *fleet;
	const struct topo *topo;
	size_t *rail_of, *host_of; /* of each NIC; the host TOPO_NONE: no candidate */
	bool backend;		   /* a NIC is of this plane */
	struct rail *rails;
	size_t rail_count;
	size_t *begin, *pairs;	  /* of each NIC its pairs on its rail; @begin has one more */
	size_t *nic_begin, *nics; /* of each candidate its NICs; the same */
};

/* --- rails --- */

/* NICs of the plane "backend" alone, where there are any: jobs have no collectives on another. */
static bool is_counted(const struct survey *survey, size_t nic)
{
	return !survey->backend || !strcmp(survey->topo->nics[nic].plane, "backend");
}

static int number_rails(struct survey *survey)
{
	const struct topo *topo = survey->topo;
	json_t *ids = json_object();

	for (size_t i = 0; i < topo->nic_count; i++) {
		json_t *key = json_sprintf("%s/%s", topo->nics[i].plane, topo->nics[i].rail);
		json_t *id = json_object_get(ids, json_string_value(key));

		survey->backend |= !strcmp(topo->nics[i].plane, "backend");
		if (!id) {
			id = json_integer((json_int_t)survey->rail_count++);
			json_object_set_new(ids, json_string_value(key), id);
		}
		survey->rail_of[i] = (size_t)json_integer_value(id);
		json_decref(key);
	}
	json_decref(ids);
	survey->rails = calloc(survey->rail_count + 1, sizeof(*survey->rails));
	if (!survey->rails)
		return -ENOMEM;
	for (size_t i = 0; i < topo->nic_count; i++)
		if (topo->nics[i].leaf != TOPO_NONE && is_counted(survey, i)) {
			survey->rails[survey->rail_of[i]].tree = true;
			survey->fleet->tree = true;
		}
	return 0;
}

/* --- candidates --- */

/* Why the host of this NIC is no candidate (new reference); NULL: nothing against it. */
static json_t *objection_to(const struct survey *survey, size_t at)
{
	const struct topo_nic *nic = &survey->topo->nics[at];

	json_t *apart = json_object_get(survey->topo->apart, nic->host);

	if (apart)
		return json_incref(apart);
	if (!json_object_get(survey->topo->hosts, nic->host))
		return json_string("no export: what it measured is not known");
	if (2 * nic->down > nic->probed)
		return json_sprintf("%s is down for %u of %u NICs that probe it", nic->address,
				    nic->down, nic->probed);
	if (!survey->rails[survey->rail_of[at]].tree)
		return NULL;
	if (nic->leaf == TOPO_NONE)
		return json_sprintf("the leaf of %s is not known", nic->address);
	if (nic->conflict)
		return json_sprintf("switches and delays show different leaves for %s",
				    nic->address);
	if (!topo_is_certain(nic))
		return json_sprintf("the leaf of %s is certain by %.0f%% only", nic->address,
				    100 * (isfinite(nic->certainty) ? nic->certainty : 0));
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	int order = strverscmp(x, y);

	return order ? order : strcmp(x, y);
}

/* {host: its reason, or null} of all NICs (new reference). */
static json_t *judge_hosts(const struct survey *survey)
{
	json_t *hosts = json_object();

	for (size_t i = 0; i < survey->topo->nic_count; i++) {
		const char *host = survey->topo->nics[i].host;
		json_t *reason = json_object_get(hosts, host);

		if (!*host || !is_counted(survey, i) || (reason && !json_is_null(reason)))
			continue;
		reason = objection_to(survey, i);
		json_object_set_new(hosts, host, reason ? reason : json_null());
	}
	return hosts;
}

/* Names in order into fleet->names, those with a reason into fleet->left_out. */
static int list_candidates(struct survey *survey, const json_t *hosts, size_t *count)
{
	size_t all = 0, kept = 0;
	const char **names = calloc(json_object_size(hosts) + 1, sizeof(*names)), *host;
	json_t *reason;

	if (!names)
		return -ENOMEM;
	json_object_foreach ((json_t *)hosts, host, reason)
		names[all++] = host;
	qsort(names, all, sizeof(*names), by_name);
	for (size_t i = 0; i < all; i++) {
		reason = json_object_get(hosts, names[i]);
		if (json_is_null(reason))
			names[kept++] = names[i];
		else
			json_array_append_new(
				survey->fleet->left_out,
				json_pack("{s:s, s:O}", "host", names[i], "reason", reason));
	}
	*count = kept;
	survey->fleet->names = names;
	return 0;
}

/* Of a candidate its NIC of the first rail. */
static size_t first_nic(const struct survey *survey, size_t host)
{
	const struct topo_nic *nics = survey->topo->nics;
	size_t best = survey->nics[survey->nic_begin[host]];

	for (size_t k = survey->nic_begin[host] + 1; k < survey->nic_begin[host + 1]; k++) {
		size_t at = survey->nics[k];
		int order = strverscmp(nics[at].rail, nics[best].rail);

		if (!order)
			order = strverscmp(nics[at].interface, nics[best].interface);
		best = order < 0 ? at : best;
	}
	return best;
}

/* The candidate of each NIC, and of each candidate its NICs; names become those of the topology. */
static int index_hosts(struct survey *survey, size_t count)
{
	const struct topo *topo = survey->topo;
	struct place_hosts *fleet = survey->fleet;
	json_t *ids = json_object();

	survey->nic_begin = calloc(count + 2, sizeof(*survey->nic_begin));
	survey->nics = calloc(topo->nic_count + 1, sizeof(*survey->nics));
	fleet->first_nic = calloc(count + 1, sizeof(*fleet->first_nic));
	if (!survey->nic_begin || !survey->nics || !fleet->first_nic) {
		json_decref(ids);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		json_object_set_new(ids, fleet->names[i], json_integer((json_int_t)i));
	for (size_t i = 0; i < topo->nic_count; i++) {
		const json_t *id = json_object_get(ids, topo->nics[i].host);

		if (!is_counted(survey, i))
			id = NULL;
		survey->host_of[i] = id ? (size_t)json_integer_value(id) : TOPO_NONE;
		if (id)
			survey->nic_begin[survey->host_of[i] + 2]++;
	}
	json_decref(ids);
	for (size_t i = 0; i < count; i++)
		survey->nic_begin[i + 2] += survey->nic_begin[i + 1];
	for (size_t i = 0; i < topo->nic_count; i++)
		if (survey->host_of[i] != TOPO_NONE)
			survey->nics[survey->nic_begin[survey->host_of[i] + 1]++] = i;
	for (size_t i = 0; i < count; i++) {
		fleet->first_nic[i] = first_nic(survey, i);
		fleet->names[i] = topo->nics[fleet->first_nic[i]].host;
	}
	return 0;
}

/* Hosts whose NICs have the same leaves. */
static void group_hosts(struct survey *survey)
{
	struct place_map *map = survey->fleet->map;
	json_t *ids = json_object();

	for (size_t i = 0; i < map->count; i++) {
		json_t *key = json_string(""), *longer, *id;

		for (size_t k = survey->nic_begin[i]; k < survey->nic_begin[i + 1]; k++) {
			const struct topo_nic *nic = &survey->topo->nics[survey->nics[k]];

			if (nic->leaf == TOPO_NONE)
				continue;
			longer = json_sprintf("%s %zu:%zu", json_string_value(key),
					      survey->rail_of[survey->nics[k]], nic->leaf);
			json_decref(key);
			key = longer;
		}
		id = json_object_get(ids, json_string_value(key));
		if (!id) {
			id = json_integer((json_int_t)map->group_count++);
			json_object_set_new(ids, json_string_value(key), id);
		}
		map->group[i] = (size_t)json_integer_value(id);
		json_decref(key);
	}
	json_decref(ids);
}

/* --- what paths of a tier have --- */

static size_t tier_of(const struct topo *topo, size_t a, size_t b)
{
	const struct topo_nic *x = &topo->nics[a], *y = &topo->nics[b];

	if (x->leaf == TOPO_NONE || y->leaf == TOPO_NONE)
		return TIERS - 1;
	return x->leaf == y->leaf ? PLACE_LEAF : x->pod == y->pod ? PLACE_POD : PLACE_CORE;
}

static double own_of(const struct topo *topo, size_t nic)
{
	return isfinite(topo->nics[nic].own_ns) ? topo->nics[nic].own_ns : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void set_medians(struct survey *survey, double *values)
{
	const struct topo *topo = survey->topo;

	for (size_t rail = 0; rail < survey->rail_count; rail++)
		for (size_t tier = 0; tier < TIERS; tier++) {
			size_t count = 0;

			for (size_t i = 0; i < topo->pair_count; i++) {
				const struct topo_pair *pair = &topo->pairs[i];

				if (!pair->cross && isfinite(pair->floor_ns) &&
				    survey->rail_of[pair->a] == rail &&
				    tier_of(topo, pair->a, pair->b) == tier)
					values[count++] = pair->floor_ns - own_of(topo, pair->a) -
							  own_of(topo, pair->b);
			}
			qsort(values, count, sizeof(*values), by_value);
			survey->rails[rail].path_ns[tier] = count ? values[count / 2] : NAN;
		}
}

/* A tier without a measured pair has at most what farther ones have; NAN: nothing is known. */
static double estimate(const struct survey *survey, size_t a, size_t b)
{
	const struct rail *rail = &survey->rails[survey->rail_of[a]];
	size_t tier = tier_of(survey->topo, a, b);

	while (tier < TIERS - 1 && !isfinite(rail->path_ns[tier]))
		tier++;
	return rail->path_ns[tier] + own_of(survey->topo, a) + own_of(survey->topo, b);
}

/* --- pairs --- */

static int index_pairs(struct survey *survey)
{
	const struct topo *topo = survey->topo;

	survey->begin = calloc(topo->nic_count + 3, sizeof(*survey->begin));
	survey->pairs = calloc(2 * topo->pair_count + 1, sizeof(*survey->pairs));
	if (!survey->begin || !survey->pairs)
		return -ENOMEM;
	for (size_t i = 0; i < topo->pair_count; i++) {
		survey->begin[topo->pairs[i].a + 2]++;
		survey->begin[topo->pairs[i].b + 2]++;
	}
	for (size_t i = 0; i < topo->nic_count; i++)
		survey->begin[i + 2] += survey->begin[i + 1];
	for (size_t i = 0; i < topo->pair_count; i++) {
		survey->pairs[survey->begin[topo->pairs[i].a + 1]++] = i;
		survey->pairs[survey->begin[topo->pairs[i].b + 1]++] = i;
	}
	return 0;
}

static uint32_t in_ns(double value)
{
	return !isfinite(value) || value >= PLACE_UNKNOWN ? PLACE_UNKNOWN
	       : value < 1				  ? 1
							  : (uint32_t)lrint(value);
}

static void raise(uint32_t *to, uint32_t value)
{
	*to = *to > value ? *to : value;
}

/* The worst rail stands for two hosts. @pair NULL: not measured. */
static void put_nics(struct survey *survey, size_t a, size_t b, const struct topo_pair *pair)
{
	struct place_map *map = survey->fleet->map;
	size_t at = survey->host_of[a] * map->count + survey->host_of[b];
	size_t tier = tier_of(survey->topo, a, b);
	double floor_ns, bound_ns = 0;

	if (tier < TIERS - 1 && tier > map->tier[at])
		map->tier[at] = (uint8_t)tier;
	if (pair && isfinite(pair->floor_ns)) {
		floor_ns = pair->floor_ns;
		bound_ns = isfinite(pair->bound_ns) ? pair->bound_ns : 0;
		if (isfinite(pair->p99_ns))
			raise(&map->p99_ns[at], in_ns(pair->p99_ns));
	} else {
		floor_ns = estimate(survey, a, b);
		map->estimated[at] = true;
	}
	raise(&map->floor_ns[at], in_ns(floor_ns));
	raise(&map->upper_ns[at], in_ns(floor_ns + bound_ns));
}

/* All pairs of NIC @nic on its rail. @with: of each NIC the pair with it from 1, 0 at first. */
static void put_nic(struct survey *survey, size_t nic, size_t *with)
{
	const struct topo *topo = survey->topo;

	for (size_t k = survey->begin[nic]; k < survey->begin[nic + 1]; k++) {
		const struct topo_pair *pair = &topo->pairs[survey->pairs[k]];

		with[pair->a == nic ? pair->b : pair->a] = survey->pairs[k] + 1;
	}
	for (size_t i = 0; i < topo->nic_count; i++)
		if (survey->rail_of[i] == survey->rail_of[nic] && survey->host_of[i] != TOPO_NONE &&
		    survey->host_of[i] != survey->host_of[nic])
			put_nics(survey, nic, i, with[i] ? &topo->pairs[with[i] - 1] : NULL);
	for (size_t k = survey->begin[nic]; k < survey->begin[nic + 1]; k++) {
		const struct topo_pair *pair = &topo->pairs[survey->pairs[k]];

		with[pair->a == nic ? pair->b : pair->a] = 0;
	}
}

static int put_pairs(struct survey *survey)
{
	struct place_map *map = survey->fleet->map;
	size_t *with = calloc(survey->topo->nic_count + 1, sizeof(*with));
	double *values = calloc(survey->topo->pair_count + 1, sizeof(*values));

	if (with && values) {
		set_medians(survey, values);
		for (size_t i = 0; i < survey->topo->nic_count; i++)
			if (survey->host_of[i] != TOPO_NONE)
				put_nic(survey, i, with);
		/* No rail that both hosts have. */
		for (size_t i = 0; i < map->count * map->count; i++)
			if (!map->floor_ns[i] && i / map->count != i % map->count)
				map->floor_ns[i] = map->upper_ns[i] = PLACE_UNKNOWN;
	}
	free(values);
	free(with);
	return with && values ? 0 : -ENOMEM;
}

static int build(struct survey *survey, char **error)
{
	size_t count = 0;
	json_t *hosts;
	int err = number_rails(survey);

	if (err)
		return err;
	hosts = judge_hosts(survey);
	err = list_candidates(survey, hosts, &count);
	if (!err && count > PLACE_HOSTS_MAX)
		err = explain(error, -E2BIG,
			      "%zu hosts are candidates, %d at most: give the exports of a part",
			      count, PLACE_HOSTS_MAX);
	if (!err)
		err = index_hosts(survey, count);
	json_decref(hosts);
	if (!err && !(survey->fleet->map = map_new(count)))
		err = -ENOMEM;
	if (err)
		return err;
	group_hosts(survey);
	err = index_pairs(survey);
	return err ? err : put_pairs(survey);
}

int hosts_of_topo(struct place_hosts *fleet, const struct topo *topo, char **error)
{
	struct survey survey = {
		.fleet = fleet,
		.topo = topo,
		.rail_of = calloc(topo->nic_count + 1, sizeof(size_t)),
		.host_of = calloc(topo->nic_count + 1, sizeof(size_t)),
	};
	int err;

	*fleet = (struct place_hosts){.topo = topo, .left_out = json_array()};
	err = survey.rail_of && survey.host_of ? build(&survey, error) : -ENOMEM;
	free(survey.rail_of);
	free(survey.host_of);
	free(survey.rails);
	free(survey.begin);
	free(survey.pairs);
	free(survey.nic_begin);
	free(survey.nics);
	if (err)
		hosts_free(fleet);
	return err;
}

void hosts_free(struct place_hosts *fleet)
{
	map_free(fleet->map);
	free(fleet->names);
	free(fleet->first_nic);
	json_decref(fleet->left_out);
	*fleet = (struct place_hosts){};
}
