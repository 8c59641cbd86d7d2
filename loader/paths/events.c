// SPDX-License-Identifier: BSD-2-Clause
/* Events of candidate paths. A spine that fails takes one of every peer along: they are bounded. */
#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

enum { PATHS_EVENTS(EVENT_ENUM) };
const struct event_kind paths_events[] = {PATHS_EVENTS(EVENT_KIND){}};

/* @event: but for kind and subject. */
static void add(struct paths *paths, int kind, const char *subject, struct event event)
{
	event.kind = &paths_events[kind];
	event.subject = subject;
	events_add(paths->core->events, &event);
}

static bool may_report(struct paths *paths)
{
	uint64_t second = time_local_ns() / 1000000000;

	if (second != paths->events_second) {
		if (paths->events_left_out)
			add(paths, PATH_EVENTS_SUPPRESSED, "paths",
			    (struct event){.seen = json_pack("{s:I}", "events",
							     (json_int_t)paths->events_left_out)});
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
			  "path_id", (int)id, "qps", (int)path->qps);
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

static json_t *standby_json(const struct paths_pair *pair, unsigned int id)
{
	int backup = pair->candidates[id].backup;
	json_t *object = json_object();

	if (backup >= 0)
		json_put_count(object, "backup_sport", pair->candidates[backup].sport);
	return object;
}

void paths_report_down(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		       const struct pathlive_path *live)
{
	const struct candidate *path = &pair->candidates[id];
	json_t *seen;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	if (path->damp.no_carrier) {
		json_put_text(seen, "no_carrier", pair->interface);
	} else {
		json_put_count(seen, "probes_unreceived", live->unconfirmed);
		if (live->received_peer_ns)
			put_us(seen, "silent_us",
			       (int64_t)(live->report_peer_ns - live->received_peer_ns));
		put_us(seen, "deadline_us", (int64_t)path->deadline_ns);
	}
	log_warning("the path to %s by source port %u is down", pair->host, path->sport);
	add(paths, PATH_DOWN, pair->host,
	    (struct event){
		    .seen = seen,
		    .done = standby_json(pair, id),
		    .expected =
			    json_pack("{s:f}", "return_after_s", (double)path->damp.hold_ns / 1e9),
	    });
}

/* Packets are on their own path again; @diverted_ns: since when they were not, 0: they were. */
static json_t *returned_json(uint64_t diverted_ns, uint64_t packets)
{
	return diverted_ns ? json_pack("{s:b, s:I}", "returned", true, "packets_on_backup",
				       (json_int_t)packets)
			   : json_object();
}

void paths_report_up(struct paths *paths, const struct paths_pair *pair, unsigned int id,
		     int64_t died_ns, uint64_t diverted_ns, uint64_t packets)
{
	const struct candidate *path = &pair->candidates[id];
	json_t *seen;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	json_put_real(seen, "down_s", (double)(path->damp.returned_ns - died_ns) / 1e9);
	json_put_real(seen, "up_for_s", (double)path->damp.hold_ns / 1e9);
	log_info("the path to %s by source port %u is up again", pair->host, path->sport);
	add(paths, PATH_UP, pair->host,
	    (struct event){.seen = seen, .done = returned_json(diverted_ns, packets)});
}

void paths_report_failover(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   const struct esc_path *now, int64_t heard_ns)
{
	json_t *seen, *result;

	if (!may_report(paths))
		return;
	seen = describe(paths, pair, id);
	put_us(seen, "deadline_us", (int64_t)pair->candidates[id].deadline_ns);
	result = json_pack("{s:I}", "packets", (json_int_t)now->diverted);
	/* From the last probe that the peer received to the first packet on the standby. */
	if (heard_ns)
		put_us(result, "failover_us", (int64_t)now->diverted_ns - heard_ns);
	add(paths, PATH_FAILOVER, pair->host,
	    (struct event){.seen = seen, .done = standby_json(pair, id), .result = result});
}

void paths_report_released(struct paths *paths, const struct paths_pair *pair, unsigned int id,
			   uint64_t diverted_ns, uint64_t packets)
{
	json_t *seen;

	if (!diverted_ns || !may_report(paths))
		return;
	seen = describe(paths, pair, id);
	json_put_bool(seen, "peer_replies", false);
	add(paths, PATH_RELEASED, pair->host,
	    (struct event){.seen = seen, .done = returned_json(diverted_ns, packets)});
}

void paths_report_routes(struct paths *paths, const struct paths_pair *pair)
{
	if (may_report(paths))
		add(paths, PATHS_CHANGED, pair->host,
		    (struct event){.seen = json_pack("{s:i, s:i}", "ports", (int)pair->set.count,
						     "paths", (int)pair->set.groups),
				   .done = json_pack("{s:s}", "discovery", "restarted")});
}

void paths_report_budget(struct paths *paths)
{
	const struct pathbudget_share *share = &paths->total.share;
	json_t *done = json_object();

	put_us(done, "probe_interval_us", (int64_t)share->interval_ns[PATH_ACTIVE]);
	put_us(done, "standby_interval_us", (int64_t)share->interval_ns[PATH_STANDBY]);
	put_us(done, "tracked_interval_us", (int64_t)share->interval_ns[PATH_WATCHED]);
	add(paths, share->limited ? PATH_BUDGET_SHORT : PATH_BUDGET_RESTORED, "paths",
	    (struct event){
		    .seen = json_pack("{s:f, s:i}", "wanted_pps", share->wanted_pps, "budget_pps",
				      (int)paths->core->config->paths.budget_pps),
		    .done = done,
	    });
}

void paths_report_full(struct paths *paths, const struct paths_pair *pair)
{
	log_warning("there is no room in the map paths (%d) for paths to %s: its queue pairs "
		    "are not steered",
		    ESC_PATH_SLOTS_MAX, pair->host);
	add(paths, PATH_TABLE_FULL, pair->host,
	    (struct event){.seen = json_pack("{s:i}", "slots", ESC_PATH_SLOTS_MAX)});
}
