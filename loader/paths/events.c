// SPDX-License-Identifier: BSD-2-Clause
/* Events of candidate paths. A spine that fails takes one of every peer along: they are bounded. */
#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

enum { PATHS_EVENTS(EVENT_ENUM) };
const struct event_kind paths_events[] = {PATHS_EVENTS(EVENT_KIND){}};

static bool may_report(struct paths *paths)
{
	uint64_t second = time_local_ns() / 1000000000;

	if (second != paths->events_second) {
		if (paths->events_left_out)
			events_add(paths->core->events,
				   &(struct event){
					   .kind = &paths_events[PATH_EVENTS_LEFT_OUT],
					   .subject = "paths",
					   .seen = json_pack("{s:I}", "events",
							     (json_int_t)paths->events_left_out),
				   });
		paths->events_second = second;
		paths->events_reported = paths->events_left_out = 0;
	}
	if (paths->events_reported++ < PATHS_EVENTS_PER_S)
		return true;
	paths->events_left_out++;
	return false;
}

static void put_us(json_t *object, const char *key, int64_t ns)
{
	json_put_real(object, key, (double)ns / 1e3);
}

/* Which candidate it is, and the switches on its route. */
static json_t *describe(const struct paths *paths, const struct paths_pair *pair, unsigned int id)
{
	const struct candidate *path = &pair->candidates[id];
	int index = paths_set_index(pair, path->sport);
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];
	json_t *seen =
		json_pack("{s:s, s:s, s:i, s:i, s:i}", "from", address_format(&pair->key.src, from),
			  "to", address_format(&pair->key.dst, to), "sport", (int)path->sport,
			  "lane", (int)id, "qps", (int)path->qps);
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

static void put_standby(json_t *object, const struct paths_pair *pair, unsigned int id)
{
	int standby = pair->candidates[id].standby;

	if (standby >= 0)
		json_put_count(object, "standby_sport", pair->candidates[standby].sport);
}

void paths_report_down(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		       const struct pathlive_lane *live)
{
	const struct candidate *path = &pair->candidates[id];
	json_t *seen, *done;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	if (path->damp.no_carrier) {
		json_put_text(seen, "no_carrier", pair->interface);
	} else {
		json_put_count(seen, "unheard", live->unheard);
		if (live->heard_peer_ns)
			put_us(seen, "silent_us",
			       (int64_t)(live->word_peer_ns - live->heard_peer_ns));
		put_us(seen, "deadline_us", (int64_t)path->deadline_ns);
	}
	done = json_object();
	put_standby(done, pair, id);
	log_warning("the path to %s by source port %u is down", pair->host, path->sport);
	events_add(paths->core->events,
		   &(struct event){
			   .kind = &paths_events[PATH_DOWN],
			   .subject = pair->host,
			   .seen = seen,
			   .done = done,
			   .expected = json_pack("{s:f}", "back_after_s",
						 (double)path->damp.hold_ns / 1e9),
		   });
}

void paths_report_up(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		     int64_t died_ns, uint64_t diverted_ns, uint64_t packets)
{
	const struct candidate *path = &pair->candidates[id];
	json_t *seen, *done;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	json_put_real(seen, "down_s", (double)(path->damp.returned_ns - died_ns) / 1e9);
	json_put_real(seen, "alive_s", (double)path->damp.hold_ns / 1e9);
	done = json_object();
	if (diverted_ns) {
		json_put_bool(done, "returned", true);
		json_put_count(done, "packets_by_standby", packets);
	}
	log_info("the path to %s by source port %u is up again", pair->host, path->sport);
	events_add(paths->core->events, &(struct event){.kind = &paths_events[PATH_UP],
							.subject = pair->host,
							.seen = seen,
							.done = done});
}

void paths_report_failover(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   const struct esc_lane *now, int64_t heard_ns)
{
	json_t *seen, *done, *result;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	put_us(seen, "deadline_us", (int64_t)pair->candidates[id].deadline_ns);
	done = json_object();
	put_standby(done, pair, id);
	result = json_pack("{s:I}", "packets", (json_int_t)now->diverted);
	/* From the last probe that the peer received to the first packet on the standby. */
	if (heard_ns)
		put_us(result, "failover_us", (int64_t)now->diverted_ns - heard_ns);
	events_add(paths->core->events, &(struct event){.kind = &paths_events[PATH_FAILOVER],
							.subject = pair->host,
							.seen = seen,
							.done = done,
							.result = result});
}

void paths_report_released(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   uint64_t diverted_ns, uint64_t packets)
{
	json_t *seen;

	if (!diverted_ns || !may_report(paths))
		return;
	seen = describe(paths, pair, id);
	json_put_bool(seen, "peer_answers", false);
	events_add(paths->core->events,
		   &(struct event){
			   .kind = &paths_events[PATH_RELEASED],
			   .subject = pair->host,
			   .seen = seen,
			   .done = json_pack("{s:b, s:I}", "returned", true, "packets_by_standby",
					     (json_int_t)packets),
		   });
}

void paths_report_routes(struct paths *paths, const struct paths_pair *pair)
{
	if (!may_report(paths))
		return;
	events_add(paths->core->events,
		   &(struct event){
			   .kind = &paths_events[PATHS_CHANGED],
			   .subject = pair->host,
			   .seen = json_pack("{s:i, s:i}", "ports", (int)pair->set.count, "paths",
					     (int)pair->set.groups),
			   .done = json_pack("{s:s}", "surveyed", "anew"),
		   });
}

void paths_report_budget(struct paths *paths)
{
	const struct pathbudget_share *share = &paths->share;
	json_t *done = json_object();

	put_us(done, "probe_interval_us", (int64_t)share->interval_ns[PATH_ACTIVE]);
	put_us(done, "standby_interval_us", (int64_t)share->interval_ns[PATH_STANDBY]);
	put_us(done, "watch_interval_us", (int64_t)share->interval_ns[PATH_WATCHED]);
	events_add(paths->core->events,
		   &(struct event){
			   .kind = &paths_events[share->limited ? PATH_BUDGET_SHORT
								: PATH_BUDGET_RESTORED],
			   .subject = "paths",
			   .seen = json_pack("{s:f, s:i}", "wanted_pps", share->wanted_pps,
					     "budget_pps",
					     (int)paths->core->config->paths.budget_pps),
			   .done = done,
		   });
}

void paths_report_full(struct paths *paths, const struct paths_pair *pair)
{
	log_warning("there is no room in the map paths (%d) for paths to %s: its queue pairs "
		    "are not steered",
		    ESC_PATH_SLOTS_MAX, pair->host);
	events_add(paths->core->events,
		   &(struct event){
			   .kind = &paths_events[PATH_TABLE_FULL],
			   .subject = pair->host,
			   .seen = json_pack("{s:i}", "slots", ESC_PATH_SLOTS_MAX),
		   });
}
