// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

#include <math.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "paths.h"
#include "api/report.h"

static const char *use_name(enum path_use use)
{
	static const char *const names[PATH_USES] = {"unused", "watched", "standby", "active"};

	return use < PATH_USES ? names[use] : "unused";
}

/* What is not known is left out. */
static void put_ns(json_t *object, const char *key, double ns)
{
	if (isfinite(ns))
		json_object_set_new(object, key, json_integer((json_int_t)rint(ns)));
}

static json_t *delay_json(const struct quantiles *delays, double floor_ns, double now_ns)
{
	json_t *object = json_object();

	put_ns(object, "floor", floor_ns);
	put_ns(object, "now", now_ns);
	if (delays->samples) {
		put_ns(object, "min", (double)delays->min_ns);
		put_ns(object, "p50", (double)delays->p50_ns);
		put_ns(object, "p99", (double)delays->p99_ns);
		put_ns(object, "max", (double)delays->max_ns);
		report_put_count(object, "samples", delays->samples);
	}
	if (json_object_size(object))
		return object;
	json_decref(object);
	return NULL;
}

static void put_delays(json_t *object, const struct paths *paths,
		       const struct path_lane_facts *lane)
{
	struct quantiles out, in;
	json_t *delays;

	paths_quantiles(paths, lane->slot, lane->lane, &out, &in);
	delays = delay_json(&out, lane->floor_ns, lane->delay_ns);
	if (delays)
		json_object_set_new(object, "owd_out_ns", delays);
	delays = delay_json(&in, lane->in_floor_ns, lane->in_delay_ns);
	if (delays)
		json_object_set_new(object, "owd_in_ns", delays);
	put_ns(object, "bound_ns", fmax(lane->bound_ns, lane->in_bound_ns));
}

/* Silent switches between those that answered are null. */
static void put_hops(json_t *object, const struct paths *paths, const struct path_lane_facts *lane)
{
	json_t *hops = json_array();
	char text[ADDRESS_TEXT_BYTES];
	size_t count = PATHLIVE_HOPS_MAX;

	while (count && !lane->hops[count - 1])
		count--;
	for (size_t i = 0; i < count; i++) {
		const struct esc_address *hop = paths_hop_address(paths, lane->hops[i]);

		json_array_append_new(hops,
				      hop ? json_string(address_format(hop, text)) : json_null());
	}
	if (count)
		json_object_set(object, "hops", hops);
	json_decref(hops);
}

static void put_failover(json_t *object, const struct path_lane_facts *lane,
			 const struct path_lane_facts *lanes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((int)lanes[i].lane == lane->standby)
			json_object_set_new(object, "standby_sport", json_integer(lanes[i].sport));
	if (lane->deadline_ns)
		put_ns(object, "dead_after_ns", (double)lane->deadline_ns);
	json_object_set_new(object, "diverted", json_boolean(lane->diverted_ns != 0));
	if (lane->diverted_packets)
		report_put_count(object, "diverted_packets", lane->diverted_packets);
}

static json_t *lane_json(const struct paths *paths, const struct path_pair_facts *pair,
			 const struct path_lane_facts *lanes, size_t count, size_t which)
{
	const struct path_lane_facts *lane = &lanes[which];
	json_t *object = json_object();
	char text[ADDRESS_TEXT_BYTES];

	report_put_text(object, "peer", pair->peer);
	report_put_text(object, "from", address_format(&pair->key.src, text));
	report_put_text(object, "to", address_format(&pair->key.dst, text));
	report_put_count(object, "lane", lane->lane);
	report_put_count(object, "sport", lane->sport);
	if (lane->group)
		report_put_count(object, "group", lane->group);
	/* Of one that was never answered nobody knows whether it is up. */
	report_put_text(object, "state",
			lane->heard || lane->state != PATHLIVE_UP
				? pathlive_state_name(lane->state)
				: pathlive_state_name(PATHLIVE_SUSPECT));
	put_delays(object, paths, lane);
	report_put_count(object, "sent", lane->sent);
	report_put_count(object, "answered", lane->answered);
	report_put_count(object, "lost", lane->lost);
	put_hops(object, paths, lane);
	report_put_count(object, "qps", lane->qps);
	json_object_set_new(object, "standby", json_boolean(!lane->qps));
	report_put_text(object, "use", use_name(lane->use));
	report_put_count(object, "interval_ns", lane->interval_ns);
	put_failover(object, lane, lanes, count);
	return object;
}

static json_t *pair_json(const struct path_pair_facts *pair)
{
	json_t *object = json_object();
	char text[ADDRESS_TEXT_BYTES];

	report_put_text(object, "peer", pair->peer);
	report_put_text(object, "from", address_format(&pair->key.src, text));
	report_put_text(object, "to", address_format(&pair->key.dst, text));
	report_put_count(object, "slot", pair->slot);
	report_put_count(object, "lanes", pair->lanes);
	report_put_count(object, "qps", pair->qps);
	json_object_set_new(object, "answers", json_boolean(pair->answers));
	if (pair->groups)
		report_put_count(object, "groups", pair->groups);
	json_object_set_new(object, "complete", json_boolean(pair->complete));
	if (pair->distance)
		report_put_count(object, "distance", pair->distance);
	report_put_count(object, "routes_changed", pair->routes);
	report_put_text(object, "note", pair->note);
	return object;
}

static json_t *budget_json(const struct paths_facts *facts)
{
	const struct pathbudget_share *share = &facts->share;
	json_t *object =
		json_pack("{s:I, s:I, s:I, s:b}", "budget_pps", (json_int_t)facts->budget_pps,
			  "wanted_pps", (json_int_t)rint(share->wanted_pps), "given_pps",
			  (json_int_t)rint(share->given_pps), "short", share->bites);

	report_put_count(object, "probe_interval_ns", share->interval_ns[PATH_ACTIVE]);
	report_put_count(object, "standby_interval_ns", share->interval_ns[PATH_STANDBY]);
	report_put_count(object, "watch_interval_ns", share->interval_ns[PATH_WATCHED]);
	report_put_count(object, "sent", facts->sent);
	if (facts->failed) {
		report_put_count(object, "failed", facts->failed);
		report_put_text(object, "last_error", strerror(-facts->last_error));
	}
	report_put_count(object, "tries", facts->tries);
	return object;
}

static bool pair_is(const struct path_pair_facts *pair, const char *peer)
{
	char text[ADDRESS_TEXT_BYTES];

	return !peer || !strcmp(pair->peer, peer) ||
	       !strcmp(address_format(&pair->key.dst, text), peer);
}

json_t *report_paths(const struct daemon *daemon, const char *peer)
{
	json_t *list = json_array(), *pairs = json_array(), *result;
	const struct path_pair_facts *all;
	struct paths_facts facts;
	size_t count = paths_pairs(daemon->paths, &all);

	paths_get(daemon->paths, &facts);
	for (size_t i = 0; i < count; i++) {
		struct path_lane_facts lanes[ESC_PATH_LANES_MAX];
		size_t lane_count;

		if (!pair_is(&all[i], peer))
			continue;
		lane_count = paths_lanes(daemon->paths, all[i].slot, lanes);
		for (size_t k = 0; k < lane_count; k++)
			json_array_append_new(
				list, lane_json(daemon->paths, &all[i], lanes, lane_count, k));
		json_array_append_new(pairs, pair_json(&all[i]));
	}
	result = json_pack("{s:o, s:o, s:b, s:o}", "paths", list, "pairs", pairs, "on", facts.on,
			   "budget", budget_json(&facts));
	if (facts.note[0])
		report_put_text(result, "note", facts.note);
	return result;
}

void report_put_paths(json_t *status, const struct daemon *daemon)
{
	struct paths_facts facts;
	json_t *object;

	paths_get(daemon->paths, &facts);
	if (!facts.there)
		return;
	object = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "on", facts.on, "peers",
			   (json_int_t)facts.pairs, "up", (json_int_t)facts.lanes[PATHLIVE_UP],
			   "suspect", (json_int_t)facts.lanes[PATHLIVE_SUSPECT], "down",
			   (json_int_t)facts.lanes[PATHLIVE_DOWN], "held",
			   (json_int_t)facts.lanes[PATHLIVE_HELD], "budget", budget_json(&facts));
	report_put_text(object, "note", facts.note);
	if (facts.pairs_refused)
		report_put_count(object, "refused", facts.pairs_refused);
	json_object_set_new(status, "paths", object);
}
