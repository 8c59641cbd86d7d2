// SPDX-License-Identifier: BSD-2-Clause
/* From exports to NICs, pairs with their delays, and paths with their switches. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

#define NICS_MAX 1000000
#define RUN_AGE_MOST_NS 3600e9 /* of a run of all pairs: cables move */

struct topo *topo_new(void)
{
	struct topo *topo = calloc(1, sizeof(*topo));

	if (!topo)
		return NULL;
	topo->names = json_object();
	topo->nic_ids = json_object();
	topo->pair_ids = json_object();
	topo->hop_ids = json_object();
	topo->hosts = json_object();
	topo->notes = json_array();
	topo->tiers = json_array();
	return topo;
}

void topo_free(struct topo *topo)
{
	if (!topo)
		return;
	json_decref(topo->names);
	json_decref(topo->nic_ids);
	json_decref(topo->pair_ids);
	json_decref(topo->hop_ids);
	json_decref(topo->hosts);
	json_decref(topo->notes);
	json_decref(topo->tiers);
	json_decref(topo->apart);
	free(topo->nics);
	free(topo->pairs);
	free(topo->paths);
	free(topo->leaves);
	free(topo);
}

/* The text as a key of topo->names, which outlives it. */
static const char *kept(struct topo *topo, const char *text)
{
	void *at;

	if (!*text)
		return "";
	if (!json_object_get(topo->names, text))
		json_object_set_new(topo->names, text, json_true());
	at = json_object_iter_at(topo->names, text);
	if (!at)
		topo->err = -ENOMEM;
	return at ? json_object_iter_key(at) : "";
}

static void fill(struct topo *topo, const char **to, const char *text)
{
	if (!**to)
		*to = kept(topo, text);
}

size_t topo_nic(struct topo *topo, const char *address, const char *host, const char *interface,
		const char *plane, const char *rail)
{
	json_t *id = json_object_get(topo->nic_ids, address);
	struct topo_nic *nic;

	if (!*address || topo->nic_count >= NICS_MAX)
		return TOPO_NONE;
	if (!id) {
		nic = array_add(&topo->nics, &topo->nic_count, &topo->nic_room, sizeof(*nic));
		if (!nic) {
			topo->err = -ENOMEM;
			return TOPO_NONE;
		}
		*nic = (struct topo_nic){.host = "",
					 .interface = "",
					 .plane = "",
					 .rail = "",
					 .address = kept(topo, address),
					 .leaf = TOPO_NONE,
					 .pod = TOPO_NONE,
					 .certainty = NAN,
					 .own_ns = NAN};
		id = json_integer((json_int_t)topo->nic_count - 1);
		json_object_set_new(topo->nic_ids, address, id);
	}
	nic = &topo->nics[json_integer_value(id)];
	fill(topo, &nic->host, host);
	fill(topo, &nic->interface, interface);
	fill(topo, &nic->plane, plane);
	fill(topo, &nic->rail, rail);
	return (size_t)json_integer_value(id);
}

static struct topo_pair *find_pair(struct topo *topo, size_t a, size_t b, bool fresh)
{
	struct topo_pair *pair;
	json_t *id = NULL;
	char key[48];

	if (!fresh) {
		snprintf(key, sizeof(key), "%zx %zx", a < b ? a : b, a < b ? b : a);
		id = json_object_get(topo->pair_ids, key);
	}
	if (id)
		return &topo->pairs[json_integer_value(id)];
	pair = array_add(&topo->pairs, &topo->pair_count, &topo->pair_room, sizeof(*pair));
	if (!pair) {
		topo->err = -ENOMEM;
		return NULL;
	}
	*pair = (struct topo_pair){.a = a < b ? a : b,
				   .b = a < b ? b : a,
				   .floor_ns = NAN,
				   .disagree_ns = NAN,
				   .bound_ns = NAN,
				   .p99_ns = NAN};
	if (!fresh)
		json_object_set_new(topo->pair_ids, key,
				    json_integer((json_int_t)topo->pair_count - 1));
	return pair;
}

void topo_add_pair(struct topo *topo, size_t a, size_t b, double floor_ns, double bound_ns,
		   bool fresh)
{
	struct topo_pair *pair;

	if (a == TOPO_NONE || b == TOPO_NONE || a == b || !(floor_ns > 0) || !isfinite(floor_ns))
		return;
	pair = find_pair(topo, a, b, fresh);
	if (!pair)
		return;
	if (isfinite(pair->floor_ns))
		pair->disagree_ns = fabs(pair->floor_ns - floor_ns);
	if (!(pair->floor_ns <= floor_ns))
		pair->floor_ns = floor_ns;
	if (!(pair->bound_ns <= bound_ns))
		pair->bound_ns = bound_ns;
}

static double number_of(const json_t *object, const char *member, const char *key)
{
	const json_t *value = json_object_get(json_object_get(object, member), key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static void take_p99(struct topo *topo, size_t a, size_t b, double p99_ns)
{
	struct topo_pair *pair;

	if (a == TOPO_NONE || b == TOPO_NONE || a == b || !(p99_ns > 0))
		return;
	pair = find_pair(topo, a, b, false);
	if (pair && !(pair->p99_ns >= p99_ns))
		pair->p99_ns = p99_ns;
}

/*
 * A round trip has no error of the clock. In the sum of both directions as one host measured them
 * the offset of the two clocks is the same with opposite signs, so that it is exact as well unless
 * the models changed in between, which the bound of one direction limits.
 */
static void take_delay(struct topo *topo, size_t a, size_t b, const json_t *row)
{
	double rtt_ns = number_of(row, "rtt_ns", "floor");
	double out_ns = number_of(row, "owd_out_ns", "min");
	double in_ns = number_of(row, "owd_in_ns", "min");
	const json_t *bound = json_object_get(row, "bound_ns");

	if (!(rtt_ns > 0)) /* a release before, or of no neighbor */
		rtt_ns = number_of(row, "rtt_ns", "min");
	if (rtt_ns > 0) {
		topo_add_pair(topo, a, b, rtt_ns, 0, false);
		take_p99(topo, a, b, number_of(row, "rtt_ns", "p99"));
	} else if (isfinite(out_ns + in_ns)) {
		topo_add_pair(topo, a, b, out_ns + in_ns,
			      json_is_number(bound) ? json_number_value(bound) : NAN, false);
		take_p99(topo, a, b,
			 number_of(row, "owd_out_ns", "p99") + number_of(row, "owd_in_ns", "p99"));
	}
}

static const json_t *reply(const json_t *export, const char *verb)
{
	return json_object_get(json_object_get(export, "replies"), verb);
}

/* {interface: index} of the host's own NICs (new reference). */
static json_t *take_own(struct topo *topo, const char *host, const json_t *status)
{
	json_t *own = json_object();
	const json_t *plane, *nic;
	size_t i, k, at;

	json_array_foreach (json_object_get(json_object_get(status, "probing"), "planes"), i, plane)
		json_array_foreach (json_object_get(plane, "nics"), k, nic) {
			at = topo_nic(topo, json_text(nic, "address"), host,
				      json_text(nic, "interface"), json_text(plane, "plane"),
				      json_text(nic, "rail"));
			if (at != TOPO_NONE)
				json_object_set_new(own, json_text(nic, "interface"),
						    json_integer((json_int_t)at));
		}
	return own;
}

static void take_peers(struct topo *topo, const json_t *own, const json_t *peers)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(peers, "peers"), i, row) {
		const char *rail = json_text(row, "peer_rail");
		size_t to =
			topo_nic(topo, json_text(row, "address"), json_text(row, "peer"), "",
				 json_text(row, "plane"), *rail ? rail : json_text(row, "rail"));
		const json_t *from = json_object_get(own, json_text(row, "interface"));
		bool down = !strcmp(json_text(row, "state"), "down");

		if (to != TOPO_NONE) {
			topo->nics[to].probed++;
			topo->nics[to].down += down;
		}
		if (from && !down)
			take_delay(topo, (size_t)json_integer_value(from), to, row);
	}
}

static void take_mesh(struct topo *topo, const char *host, const json_t *mesh)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(mesh, "nics"), i, row)
		take_delay(topo, topo_nic(topo, json_text(row, "from"), host, "", "", ""),
			   topo_nic(topo, json_text(row, "to"), json_text(row, "peer"), "", "",
				    json_text(row, "rail")),
			   row);
}

static double real_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Floors of the last run of all pairs, when it ended within the last hour, or is under way. */
static void take_run(struct topo *topo, const char *host, const json_t *run, const json_t *clock)
{
	double end_ns = real_of(run, "run_ns") + real_of(run, "rounds") * real_of(run, "round_ns");
	const json_t *nic, *row;
	size_t i, k;

	if (!(real_of(clock, "fabric_ns") - end_ns < RUN_AGE_MOST_NS))
		return;
	json_array_foreach (json_object_get(run, "nics"), i, nic) {
		size_t from =
			topo_nic(topo, json_text(nic, "address"), host, json_text(nic, "interface"),
				 json_text(nic, "plane"), json_text(nic, "rail"));

		json_array_foreach (json_object_get(nic, "results"), k, row)
			topo_add_pair(topo, from,
				      topo_nic(topo, json_text(row, "to"), json_text(row, "peer"),
					       "", json_text(nic, "plane"), json_text(nic, "rail")),
				      real_of(row, "owd_out_ns") + real_of(row, "owd_in_ns"),
				      real_of(row, "bound_ns"), false);
	}
}

static size_t hop_number(struct topo *topo, const char *address)
{
	json_t *id = json_object_get(topo->hop_ids, address);

	if (!*address)
		return 0;
	if (!id) {
		id = json_integer((json_int_t)json_object_size(topo->hop_ids) + 1);
		json_object_set_new(topo->hop_ids, address, id);
	}
	return (size_t)json_integer_value(id);
}

static json_t *ends_of(const json_t *row)
{
	return json_sprintf("%s %s", json_text(row, "from"), json_text(row, "to"));
}

/* {"from to": distance}, of the first pair with these ends (new reference). */
static json_t *index_distances(const json_t *paths)
{
	json_t *distances = json_object(), *ends;
	const json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(paths, "pairs"), i, pair) {
		ends = ends_of(pair);
		if (!json_object_get(distances, json_string_value(ends)))
			json_put_count(distances, json_string_value(ends),
				       json_count(pair, "distance"));
		json_decref(ends);
	}
	return distances;
}

static unsigned int distance_of(const json_t *distances, const json_t *row)
{
	json_t *ends = ends_of(row);
	uint64_t distance = json_count(distances, json_string_value(ends));

	json_decref(ends);
	return (unsigned int)distance;
}

static void take_paths(struct topo *topo, const char *host, const json_t *paths)
{
	json_t *distances = index_distances(paths);
	const json_t *row, *hop;
	size_t i, k;

	json_array_foreach (json_object_get(paths, "paths"), i, row) {
		struct topo_path path = {
			.a = topo_nic(topo, json_text(row, "from"), host, "", "", ""),
			.b = topo_nic(topo, json_text(row, "to"), json_text(row, "peer"), "", "",
				      ""),
			.distance = distance_of(distances, row)};
		struct topo_path *place;

		if (path.a == TOPO_NONE || path.b == TOPO_NONE || path.a == path.b)
			continue;
		json_array_foreach (json_object_get(row, "hops"), k, hop)
			if (k < TOPO_HOPS_MAX) {
				const char *text = json_string_value(hop);

				path.hops[k] = hop_number(topo, text ? text : "");
				path.hop_count = (unsigned int)k + 1;
			}
		place = array_add(&topo->paths, &topo->path_count, &topo->path_room, sizeof(path));
		if (place)
			*place = path;
		else
			topo->err = -ENOMEM;
	}
	json_decref(distances);
}

int topo_read(struct topo *topo, const json_t *export, char **error)
{
	const char *host = json_text(export, "host");
	json_t *own;

	if (!*host)
		return explain(error, -EINVAL, "an export without the name of its host");
	json_object_set(topo->hosts, host, json_object_get(export, "time_ns"));
	own = take_own(topo, host, reply(export, "status"));
	take_peers(topo, own, reply(export, "peers"));
	json_decref(own);
	take_mesh(topo, host, reply(export, "mesh"));
	take_run(topo, host, reply(export, "pairs"), reply(export, "clock"));
	take_paths(topo, host, reply(export, "paths"));
	return topo->err;
}
