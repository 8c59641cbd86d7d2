// SPDX-License-Identifier: BSD-2-Clause
/* The verb `paths`, and `paths` in the reply to `status`. */
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"

static void put_ns(json_t *object, const char *key, double ns)
{
	if (isfinite(ns))
		json_put_integer(object, key, (int64_t)rint(ns));
}

static void put_delay(json_t *object, const char *key, const struct quantiles *delays,
		      double floor_ns, double now_ns)
{
	json_t *delay = json_object();

	put_ns(delay, "floor", floor_ns);
	put_ns(delay, "now", now_ns);
	if (delays->samples) {
		json_put_integer(delay, "min", delays->min_ns);
		json_put_integer(delay, "p50", delays->p50_ns);
		json_put_integer(delay, "p99", delays->p99_ns);
		json_put_integer(delay, "max", delays->max_ns);
		json_put_count(delay, "samples", delays->samples);
	}
	if (json_object_size(delay))
		json_object_set(object, key, delay);
	json_decref(delay);
}

/* Silent switches between those that replied are null. */
static json_t *hops_json(const struct paths *paths, const struct path_facts *path)
{
	json_t *hops = json_array();
	char text[ADDRESS_TEXT_BYTES];
	size_t count = PATHLIVE_HOPS_MAX;

	while (count && !path->hops[count - 1])
		count--;
	for (size_t i = 0; i < count; i++) {
		const struct esc_address *hop = paths_hop_address(paths, path->hops[i]);

		json_array_append_new(hops,
				      hop ? json_string(address_format(hop, text)) : json_null());
	}
	return hops;
}

static void put_addresses(json_t *object, const struct path_pair_facts *pair)
{
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "peer", pair->peer);
	json_put_text(object, "from", address_format(&pair->key.src, text));
	json_put_text(object, "to", address_format(&pair->key.dst, text));
}

/* --- candidates --- */

static json_t *path_json(const struct paths *paths, const struct path_pair_facts *pair,
			 const struct path_facts *all, size_t count, const struct path_facts *path)
{
	static const char *const uses[PATH_USES] = {"unused", "tracked", "standby", "active"};
	/* One that was never replied to may be up or not. */
	bool unknown = path->state == PATHLIVE_UP && !path->heard;
	json_t *object = json_object(), *hops = hops_json(paths, path);
	struct quantiles out, in;

	paths_quantiles(paths, path->slot, path->id, &out, &in);
	put_addresses(object, pair);
	fields_put(object, path_fields, path);
	json_put_text(object, "state",
		      pathlive_state_name(unknown ? PATHLIVE_SUSPECT : path->state));
	put_delay(object, "owd_out_ns", &out, path->floor_ns, path->delay_ns);
	put_delay(object, "owd_in_ns", &in, path->in_floor_ns, path->in_delay_ns);
	put_ns(object, "bound_ns", fmax(path->bound_ns, path->in_bound_ns));
	if (json_array_size(hops))
		json_object_set(object, "hops", hops);
	json_decref(hops);
	json_put_bool(object, "standby", !path->qps);
	json_put_text(object, "use", uses[path->use]);
	for (size_t i = 0; i < count; i++)
		if ((int)all[i].id == path->backup)
			json_put_count(object, "backup_sport", all[i].sport);
	json_put_bool(object, "diverted", path->diverted_ns);
	return object;
}

/* --- pairs --- */

static bool has_groups(const void *pair)
{
	return ((const struct path_pair_facts *)pair)->groups;
}

static bool has_distance(const void *pair)
{
	return ((const struct path_pair_facts *)pair)->distance;
}

#define PAIR(member, type, key) FIELD(struct path_pair_facts, member, type, key)
static const struct field pair_fields[] = {
	{PAIR(slot, U32, "slot")},
	{PAIR(candidates, U64, "candidates")},
	{PAIR(qps, U32, "qps")},
	{PAIR(replying, BOOL, "replying")},
	{PAIR(groups, U64, "groups"), .known = has_groups},
	{PAIR(complete, BOOL, "complete")},
	{PAIR(distance, U32, "distance"), .known = has_distance},
	{PAIR(routes, U32, "routes_changed")},
	{},
};

static json_t *budget_json(const struct paths_facts *facts)
{
	const struct pathbudget_share *share = &facts->share;
	json_t *object =
		json_pack("{s:I, s:I, s:I, s:b}", "budget_pps", (json_int_t)facts->budget_pps,
			  "wanted_pps", (json_int_t)rint(share->wanted_pps), "granted_pps",
			  (json_int_t)rint(share->given_pps), "short", share->limited);

	json_put_count(object, "probe_interval_ns", share->interval_ns[PATH_ACTIVE]);
	json_put_count(object, "standby_interval_ns", share->interval_ns[PATH_STANDBY]);
	json_put_count(object, "tracked_interval_ns", share->interval_ns[PATH_WATCHED]);
	json_put_count(object, "sent", facts->sent);
	if (facts->failed) {
		json_put_count(object, "failed", facts->failed);
		json_put_text(object, "last_error", strerror(-facts->last_error));
	}
	json_put_count(object, "discovery_probes", facts->tries);
	return object;
}

static json_t *reply_paths(void *self, struct request *request)
{
	struct path_facts found[ESC_PATHS_MAX];
	json_t *list, *pairs, *pair, *result;
	const struct path_pair_facts *all;
	size_t count = paths_pairs(self, &all), known;
	/* A host, or an address of one; NULL: all. */
	const char *peer = request_text(request, "peer", NULL);
	char text[ADDRESS_TEXT_BYTES];
	struct paths_facts facts;

	list = json_array();
	pairs = json_array();
	for (size_t i = 0; i < count; i++) {
		if (peer && strcmp(all[i].peer, peer) &&
		    strcmp(address_format(&all[i].key.dst, text), peer))
			continue;
		known = paths_candidates(self, all[i].slot, found);
		for (size_t k = 0; k < known; k++)
			json_array_append_new(list,
					      path_json(self, &all[i], found, known, &found[k]));
		pair = json_object();
		put_addresses(pair, &all[i]);
		fields_put(pair, pair_fields, &all[i]);
		json_put_text(pair, "note", all[i].note);
		json_array_append_new(pairs, pair);
	}
	paths_get(self, &facts);
	result = json_pack("{s:o, s:o, s:b, s:o}", "paths", list, "pairs", pairs, "on", facts.on,
			   "budget", budget_json(&facts));
	json_put_text(result, "note", facts.note);
	if (!peer || json_array_size(pairs))
		return result;
	json_decref(result);
	return request_misuse(request,
			      "there are no paths to `%.64s`; give a host that `escapement paths` "
			      "lists, or its address",
			      peer);
}

const struct verb_handler paths_verb_handlers[] = {{"paths", reply_paths}, {}};

void paths_put_status(void *self, json_t *status)
{
	struct paths_facts facts;
	json_t *object;

	paths_get(self, &facts);
	object = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "on", facts.on, "peers",
			   (json_int_t)facts.pairs, "up", (json_int_t)facts.candidates[PATHLIVE_UP],
			   "suspect", (json_int_t)facts.candidates[PATHLIVE_SUSPECT], "down",
			   (json_int_t)facts.candidates[PATHLIVE_DOWN], "hold_down",
			   (json_int_t)facts.candidates[PATHLIVE_HOLD_DOWN], "budget",
			   budget_json(&facts));
	json_put_text(object, "note", facts.note);
	if (facts.pairs_refused)
		json_put_count(object, "refused", facts.pairs_refused);
	json_put(status, "paths", object);
}
