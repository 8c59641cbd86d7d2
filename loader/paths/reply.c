// SPDX-License-Identifier: BSD-2-Clause
/* The verb `paths`, and `paths` in the reply to `status`. */
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "base/json.h"
#include "internal.h"

static const char *use_name(enum path_use use)
{
	static const char *const names[PATH_USES] = {"unused", "watched", "standby", "active"};

	return use < PATH_USES ? names[use] : "unused";
}

static void put_ns(json_t *object, const char *key, double ns)
{
	if (isfinite(ns))
		json_put_integer(object, key, (int64_t)rint(ns));
}

static json_t *delay_json(const struct quantiles *delays, double floor_ns, double now_ns)
{
	json_t *object = json_object();

	put_ns(object, "floor", floor_ns);
	put_ns(object, "now", now_ns);
	if (delays->samples) {
		json_put_integer(object, "min", delays->min_ns);
		json_put_integer(object, "p50", delays->p50_ns);
		json_put_integer(object, "p99", delays->p99_ns);
		json_put_integer(object, "max", delays->max_ns);
		json_put_count(object, "samples", delays->samples);
	}
	if (json_object_size(object))
		return object;
	json_decref(object);
	return NULL;
}

static void put_delays(json_t *object, const struct paths *paths, const struct path_facts *path)
{
	struct quantiles out, in;

	paths_quantiles(paths, path->slot, path->id, &out, &in);
	json_put(object, "owd_out_ns", delay_json(&out, path->floor_ns, path->delay_ns));
	json_put(object, "owd_in_ns", delay_json(&in, path->in_floor_ns, path->in_delay_ns));
	put_ns(object, "bound_ns", fmax(path->bound_ns, path->in_bound_ns));
}

/* Silent switches between those that replied are null. */
static void put_hops(json_t *object, const struct paths *paths, const struct path_facts *path)
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
	if (count)
		json_object_set(object, "hops", hops);
	json_decref(hops);
}

static void put_addresses(json_t *object, const struct path_pair_facts *pair)
{
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "peer", pair->peer);
	json_put_text(object, "from", address_format(&pair->key.src, text));
	json_put_text(object, "to", address_format(&pair->key.dst, text));
}

/* --- candidates --- */

static bool has_group(const void *path)
{
	return ((const struct path_facts *)path)->group;
}

static bool has_deadline(const void *path)
{
	return ((const struct path_facts *)path)->deadline_ns;
}

static bool has_diverted(const void *path)
{
	return ((const struct path_facts *)path)->diverted_packets;
}

#define PATH(member, type, key) FIELD(struct path_facts, member, type, key)
static const struct field path_fields[] = {
	{PATH(id, U32, "lane")},
	{PATH(sport, U16, "sport")},
	{PATH(group, U32, "group"), .known = has_group},
	{PATH(sent, U64, "sent")},
	{PATH(replied, U64, "answered")},
	{PATH(lost, U64, "lost")},
	{PATH(qps, U32, "qps")},
	{PATH(interval_ns, U64, "interval_ns")},
	{PATH(deadline_ns, U64, "dead_after_ns"), .known = has_deadline},
	{PATH(diverted_packets, U64, "diverted_packets"), .known = has_diverted},
	{},
};

static json_t *path_json(const struct paths *paths, const struct path_pair_facts *pair,
			 const struct path_facts *all, size_t count, const struct path_facts *path)
{
	/* One that was never replied to may be up or not. */
	bool unknown = path->state == PATHLIVE_UP && !path->heard;
	json_t *object = json_object();

	put_addresses(object, pair);
	fields_put(object, path_fields, path);
	json_put_text(object, "state",
		      pathlive_state_name(unknown ? PATHLIVE_SUSPECT : path->state));
	put_delays(object, paths, path);
	put_hops(object, paths, path);
	json_put_bool(object, "standby", !path->qps);
	json_put_text(object, "use", use_name(path->use));
	for (size_t i = 0; i < count; i++)
		if ((int)all[i].id == path->standby)
			json_put_count(object, "standby_sport", all[i].sport);
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
	{PAIR(candidates, U64, "lanes")},
	{PAIR(qps, U32, "qps")},
	{PAIR(replying, BOOL, "answers")},
	{PAIR(groups, U64, "groups"), .known = has_groups},
	{PAIR(complete, BOOL, "complete")},
	{PAIR(distance, U32, "distance"), .known = has_distance},
	{PAIR(routes, U32, "routes_changed")},
	{},
};

static json_t *pair_json(const struct path_pair_facts *pair)
{
	json_t *object = json_object();

	put_addresses(object, pair);
	fields_put(object, pair_fields, pair);
	json_put_text(object, "note", pair->note);
	return object;
}

static json_t *budget_json(const struct paths_facts *facts)
{
	const struct pathbudget_share *share = &facts->share;
	json_t *object =
		json_pack("{s:I, s:I, s:I, s:b}", "budget_pps", (json_int_t)facts->budget_pps,
			  "wanted_pps", (json_int_t)rint(share->wanted_pps), "given_pps",
			  (json_int_t)rint(share->given_pps), "short", share->limited);

	json_put_count(object, "probe_interval_ns", share->interval_ns[PATH_ACTIVE]);
	json_put_count(object, "standby_interval_ns", share->interval_ns[PATH_STANDBY]);
	json_put_count(object, "watch_interval_ns", share->interval_ns[PATH_WATCHED]);
	json_put_count(object, "sent", facts->sent);
	if (facts->failed) {
		json_put_count(object, "failed", facts->failed);
		json_put_text(object, "last_error", strerror(-facts->last_error));
	}
	json_put_count(object, "tries", facts->tries);
	return object;
}

static bool pair_is(const struct path_pair_facts *pair, const char *peer)
{
	char text[ADDRESS_TEXT_BYTES];

	return !peer || !strcmp(pair->peer, peer) ||
	       !strcmp(address_format(&pair->key.dst, text), peer);
}

static void append_pair(const struct paths *paths, const struct path_pair_facts *pair,
			json_t *list, json_t *pairs)
{
	struct path_facts found[ESC_PATH_LANES_MAX];
	size_t count = paths_candidates(paths, pair->slot, found);

	for (size_t k = 0; k < count; k++)
		json_array_append_new(list, path_json(paths, pair, found, count, &found[k]));
	json_array_append_new(pairs, pair_json(pair));
}

static json_t *show(const struct paths *paths, const char *peer)
{
	json_t *list = json_array(), *pairs = json_array(), *result;
	const struct path_pair_facts *all;
	size_t count = paths_pairs(paths, &all);
	struct paths_facts facts;

	for (size_t i = 0; i < count; i++)
		if (pair_is(&all[i], peer))
			append_pair(paths, &all[i], list, pairs);
	paths_get(paths, &facts);
	result = json_pack("{s:o, s:o, s:b, s:o}", "paths", list, "pairs", pairs, "on", facts.on,
			   "budget", budget_json(&facts));
	json_put_text(result, "note", facts.note);
	return result;
}

static json_t *reply_paths(void *self, struct request *request)
{
	const char *peer; /* a host, or an address of one; NULL: all */
	json_t *result;

	if (!request_text(request, "peer", NULL, &peer))
		return NULL;
	result = show(self, peer);
	if (!peer || json_array_size(json_object_get(result, "pairs")))
		return result;
	json_decref(result);
	return request_misuse(
		request,
		"there are no paths to `%.64s`; give a host that `escapement paths` lists, or "
		"its address",
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
			   (json_int_t)facts.candidates[PATHLIVE_DOWN], "held",
			   (json_int_t)facts.candidates[PATHLIVE_HELD], "budget",
			   budget_json(&facts));
	json_put_text(object, "note", facts.note);
	if (facts.pairs_refused)
		json_put_count(object, "refused", facts.pairs_refused);
	json_put(status, "paths", object);
}
