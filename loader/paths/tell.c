// SPDX-License-Identifier: BSD-2-Clause
/* Events of candidate paths. A spine that dies takes a lane of every peer along: they are bounded.
 */
#include "base/address.h"
#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "internal.h"

static bool may_tell(struct paths *paths)
{
	uint64_t second = time_local_ns() / 1000000000;

	if (second != paths->events_second) {
		if (paths->events_left_out)
			events_record(paths->daemon->ledger, "path_events_left_out", "paths",
				   json_pack("{s:I}", "events", (json_int_t)paths->events_left_out),
				   NULL, NULL, NULL);
		paths->events_second = second;
		paths->events_told = paths->events_left_out = 0;
	}
	if (paths->events_told++ < PATHS_EVENTS_PER_S)
		return true;
	paths->events_left_out++;
	return false;
}

static void put_us(json_t *object, const char *key, int64_t ns)
{
	json_object_set_new(object, key, json_real((double)ns / 1e3));
}

/* Which lane it is, and whom it crosses. */
static json_t *lane_json(const struct paths *paths, const struct paths_pair *pair,
			 unsigned int number)
{
	const struct paths_lane *lane = &pair->lanes[number];
	int index = paths_set_index(pair, lane->sport);
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];
	json_t *seen =
		json_pack("{s:s, s:s, s:i, s:i, s:i}", "from", address_format(&pair->key.src, from),
			  "to", address_format(&pair->key.dst, to), "sport", (int)lane->sport,
			  "lane", (int)number, "qps", (int)lane->qps);
	json_t *hops = json_array();

	for (size_t i = 0; index >= 0 && i < PATHSET_HOPS; i++) {
		const struct esc_address *hop =
			paths_hop_address(paths, pair->set.ports[index].hops[i]);

		if (hop)
			json_array_append_new(hops, json_string(address_format(hop, from)));
	}
	if (json_array_size(hops))
		json_object_set(seen, "hops", hops);
	json_decref(hops);
	return seen;
}

static void put_standby(json_t *object, const struct paths_pair *pair, unsigned int number)
{
	int standby = pair->lanes[number].standby;

	if (standby >= 0)
		json_object_set_new(object, "standby_sport",
				    json_integer(pair->lanes[standby].sport));
}

void paths_tell_down(struct paths *paths, const struct paths_pair *pair, unsigned int number,
		     const struct pathlive_lane *live)
{
	const struct paths_lane *lane = &pair->lanes[number];
	json_t *seen, *done = json_object();

	if (!may_tell(paths)) {
		json_decref(done);
		return;
	}
	seen = lane_json(paths, pair, number);
	if (lane->damp.no_carrier) {
		json_object_set_new(seen, "no_carrier", json_string(pair->interface));
	} else {
		json_object_set_new(seen, "unheard", json_integer(live->unheard));
		if (live->heard_peer_ns)
			put_us(seen, "silent_us",
			       (int64_t)(live->word_peer_ns - live->heard_peer_ns));
		put_us(seen, "deadline_us", (int64_t)lane->deadline_ns);
	}
	put_standby(done, pair, number);
	log_warning("the path to %s by source port %u is down", pair->host, lane->sport);
	events_record(paths->daemon->ledger, "path_down", pair->host, seen, done,
		   json_pack("{s:f}", "back_after_s", (double)lane->damp.hold_ns / 1e9), NULL);
}

void paths_tell_up(struct paths *paths, const struct paths_pair *pair, unsigned int number,
		   int64_t died_ns, uint64_t diverted_ns, uint64_t packets)
{
	const struct paths_lane *lane = &pair->lanes[number];
	json_t *seen, *done = json_object();

	if (!may_tell(paths)) {
		json_decref(done);
		return;
	}
	seen = lane_json(paths, pair, number);
	json_object_set_new(seen, "down_s",
			    json_real((double)(lane->damp.returned_ns - died_ns) / 1e9));
	json_object_set_new(seen, "alive_s", json_real((double)lane->damp.hold_ns / 1e9));
	if (diverted_ns)
		json_object_set_new(done, "returned", json_true());
	if (diverted_ns)
		json_object_set_new(done, "packets_by_standby", json_integer((json_int_t)packets));
	log_info("the path to %s by source port %u is up again", pair->host, lane->sport);
	events_record(paths->daemon->ledger, "path_up", pair->host, seen, done, NULL, NULL);
}

void paths_tell_failover(struct paths *paths, const struct paths_pair *pair, unsigned int number,
			 const struct esc_lane *now, int64_t heard_ns)
{
	json_t *seen, *done = json_object(), *result;

	if (!may_tell(paths)) {
		json_decref(done);
		return;
	}
	seen = lane_json(paths, pair, number);
	put_us(seen, "deadline_us", (int64_t)pair->lanes[number].deadline_ns);
	put_standby(done, pair, number);
	result = json_pack("{s:I}", "packets", (json_int_t)now->diverted);
	/* From when the peer last heard the lane to the first packet that took the other. */
	if (heard_ns)
		put_us(result, "failover_us", (int64_t)now->diverted_ns - heard_ns);
	events_record(paths->daemon->ledger, "path_failover", pair->host, seen, done, NULL, result);
}

void paths_tell_let_go(struct paths *paths, const struct paths_pair *pair, unsigned int number,
		       uint64_t diverted_ns, uint64_t packets)
{
	json_t *seen, *done;

	if (!diverted_ns || !may_tell(paths))
		return;
	seen = lane_json(paths, pair, number);
	done = json_pack("{s:b, s:I}", "returned", true, "packets_by_standby", (json_int_t)packets);
	json_object_set_new(seen, "peer_answers", json_false());
	events_record(paths->daemon->ledger, "path_let_go", pair->host, seen, done, NULL, NULL);
}

void paths_tell_routes(struct paths *paths, const struct paths_pair *pair)
{
	if (!may_tell(paths))
		return;
	events_record(paths->daemon->ledger, "paths_changed", pair->host,
		   json_pack("{s:i, s:i}", "ports", (int)pair->set.count, "paths",
			     (int)pair->set.groups),
		   json_pack("{s:s}", "surveyed", "anew"), NULL, NULL);
}

void paths_tell_budget(struct paths *paths)
{
	const struct pathbudget_share *share = &paths->share;
	json_t *seen = json_pack("{s:f, s:i}", "wanted_pps", share->wanted_pps, "budget_pps",
				 (int)paths->daemon->config->paths.budget_pps);
	json_t *done = json_object();

	put_us(done, "probe_interval_us", (int64_t)share->interval_ns[PATH_ACTIVE]);
	put_us(done, "standby_interval_us", (int64_t)share->interval_ns[PATH_STANDBY]);
	put_us(done, "watch_interval_us", (int64_t)share->interval_ns[PATH_WATCHED]);
	events_record(paths->daemon->ledger, share->bites ? "path_budget_short" : "path_budget_enough",
		   "paths", seen, done, NULL, NULL);
}

void paths_tell_full(struct paths *paths, const struct paths_pair *pair)
{
	log_warning("there is no room in the map paths (%d) for paths to %s: its queue pairs "
		    "leave as they come",
		    ESC_PATH_SLOTS_MAX, pair->host);
	events_record(paths->daemon->ledger, "paths_full", pair->host,
		   json_pack("{s:i}", "slots", ESC_PATH_SLOTS_MAX), NULL, NULL, NULL);
}
