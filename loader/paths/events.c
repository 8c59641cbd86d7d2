// SPDX-License-Identifier: BSD-2-Clause
#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define PATH_PART_BYTES (2 * ADDRESS_TEXT_BYTES + 8)
#define EVENTS_PER_S 32 /* a spine that fails takes one path of every peer along: one fault */

#define PATHS_EVENTS(X)                                                                            \
	X(PATH_DOWN, "path_down", WARNING,                                                         \
	  "A candidate path is down: its packets take its backup.", .about = EVENT_PATH,           \
	  .begins = "path_down",                                                                   \
	  .remedy = "`seen.hops` has the switches that it passes; see their links.")               \
	X(PATH_UP, "path_up", NOTICE, "A candidate path is up again, after its hold-down.",        \
	  .about = EVENT_PATH, .ends = "path_down")                                                \
	X(PATH_DROPPED, "path_dropped", NOTICE,                                                    \
	  "A path that was down is not a candidate any more.", .about = EVENT_PATH,                \
	  .ends = "path_down")                                                                     \
	X(PATH_FAILOVER, "path_failover", WARNING,                                                 \
	  "Packets of a path that is down took its backup.", .about = EVENT_PATH)                  \
	X(PATH_RELEASED, "path_released", NOTICE,                                                  \
	  "Packets left a backup without replies, of a peer without reports.",                     \
	  .about = EVENT_PATH)                                                                     \
	X(PATHS_CHANGED, "paths_changed", NOTICE,                                                  \
	  "Routes to a peer changed; paths are discovered again.", .about = EVENT_PEER)            \
	X(PATH_BUDGET_SHORT, "path_budget_short", WARNING,                                         \
	  "Paths are probed less often than configured: the budget is spent.",                     \
	  .begins = "path_budget_short",                                                           \
	  .remedy = "Raise `paths.probe_budget_pps` on all hosts, or the probe intervals.")        \
	X(PATH_BUDGET_RESTORED, "path_budget_restored", NOTICE,                                    \
	  "The budget allows the configured intervals again.", .ends = "path_budget_short")        \
	X(PATH_TABLE_FULL, "path_table_full", WARNING,                                             \
	  "A pair of addresses found no free slot in `paths`.", .about = EVENT_PEER)               \
	X(PATH_EVENTS_SUPPRESSED, "path_events_suppressed", WARNING,                               \
	  "More events of paths than are recorded in a second.")
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
		if (paths->events_suppressed)
			add(paths, PATH_EVENTS_SUPPRESSED, "paths",
			    (struct event){
				    .seen = json_pack("{s:I}", "events",
						      (json_int_t)paths->events_suppressed)});
		paths->events_second = second;
		paths->events_reported = paths->events_suppressed = 0;
	}
	if (paths->events_reported++ < EVENTS_PER_S)
		return true;
	paths->events_suppressed++;
	return false;
}

/* The path of a candidate, where all of a peer's have one subject. */
static const char *path_part(const struct paths_pair *pair, const struct candidate *path,
			     char out[PATH_PART_BYTES])
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];

	snprintf(out, PATH_PART_BYTES, "%s>%s/%u", address_format(&pair->facts.key.src, src),
		 address_format(&pair->facts.key.dst, dst), path->facts.sport);
	return out;
}

static void put_us(json_t *object, const char *key, int64_t ns)
{
	json_put_real(object, key, (double)ns / 1e3);
}

/* Which candidate it is, and the switches on its route; NULL: not to be reported. */
static json_t *describe(struct paths *paths, const struct paths_pair *pair,
			const struct candidate *path)
{
	int index = paths_set_index(pair, path->facts.sport);
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];
	json_t *hops = NULL, *seen;

	if (!may_report(paths))
		return NULL;
	seen = json_pack("{s:s, s:s, s:i, s:i, s:i}", "from",
			 address_format(&pair->facts.key.src, from), "to",
			 address_format(&pair->facts.key.dst, to), "sport", (int)path->facts.sport,
			 "path_id", (int)path->facts.id, "qps", (int)path->facts.qps);
	for (size_t i = 0; index >= 0 && i < PATHSET_HOPS; i++) {
		const struct esc_address *hop =
			paths_hop_address(paths, pair->set.ports[index].hops[i]);

		if (!hop)
			continue;
		hops = hops ? hops : json_array();
		json_array_append_new(hops, json_string(address_format(hop, from)));
	}
	json_put(seen, "hops", hops);
	return seen;
}

static json_t *backup_json(const struct paths_pair *pair, const struct candidate *path)
{
	int backup = path->facts.backup;
	json_t *object = json_object();

	if (backup >= 0)
		json_put_count(object, "backup_sport", pair->candidates[backup].facts.sport);
	return object;
}

void paths_report_down(struct paths *paths, const struct paths_pair *pair,
		       const struct candidate *path, const struct pathlive_path *live)
{
	json_t *seen = describe(paths, pair, path);
	char part[PATH_PART_BYTES];

	if (!seen)
		return;
	if (path->damp.no_carrier) {
		json_put_text(seen, "no_carrier", pair->interface);
	} else {
		json_put_count(seen, "probes_unreceived", live->unconfirmed);
		if (live->received_peer_ns)
			put_us(seen, "silent_us",
			       (int64_t)(live->report_peer_ns - live->received_peer_ns));
		put_us(seen, "deadline_us", (int64_t)path->facts.deadline_ns);
	}
	log_warning("the path to %s by source port %u is down", pair->facts.peer,
		    path->facts.sport);
	add(paths, PATH_DOWN, pair->facts.peer,
	    (struct event){
		    .part = path_part(pair, path, part),
		    .seen = seen,
		    .done = backup_json(pair, path),
		    .expected =
			    json_pack("{s:f}", "return_after_s", (double)path->damp.hold_ns / 1e9),
	    });
}

void paths_report_return(struct paths *paths, const struct paths_pair *pair,
			 const struct candidate *path, int64_t failed_ns, uint64_t diverted_ns)
{
	json_t *seen = describe(paths, pair, path), *done;
	char part[PATH_PART_BYTES];

	if (!seen)
		return;
	if (failed_ns) {
		json_put_real(seen, "down_s", (double)(path->damp.returned_ns - failed_ns) / 1e9);
		json_put_real(seen, "up_for_s", (double)path->damp.hold_ns / 1e9);
		log_info("the path to %s by source port %u is up again", pair->facts.peer,
			 path->facts.sport);
	} else {
		json_put_bool(seen, "peer_replies", false);
	}
	done = diverted_ns ? json_pack("{s:b, s:I}", "returned", true, "packets_on_backup",
				       (json_int_t)path->map->diverted)
			   : json_object();
	add(paths, failed_ns ? PATH_UP : PATH_RELEASED, pair->facts.peer,
	    (struct event){.part = path_part(pair, path, part), .seen = seen, .done = done});
}

void paths_report_dropped(struct paths *paths, const struct paths_pair *pair,
			  const struct candidate *path)
{
	char part[PATH_PART_BYTES];

	if (path->facts.sport && path->facts.state == PATHLIVE_DOWN)
		add(paths, PATH_DROPPED, pair->facts.peer,
		    (struct event){.part = path_part(pair, path, part)});
}

void paths_report_failover(struct paths *paths, const struct paths_pair *pair,
			   const struct candidate *path, int64_t received_ns)
{
	json_t *seen = describe(paths, pair, path), *result;
	char part[PATH_PART_BYTES];

	if (!seen)
		return;
	put_us(seen, "deadline_us", (int64_t)path->facts.deadline_ns);
	result = json_pack("{s:I}", "packets", (json_int_t)path->map->diverted);
	if (received_ns)
		put_us(result, "failover_us", (int64_t)path->facts.diverted_ns - received_ns);
	add(paths, PATH_FAILOVER, pair->facts.peer,
	    (struct event){.part = path_part(pair, path, part),
			   .seen = seen,
			   .done = backup_json(pair, path),
			   .result = result});
}

void paths_report_routes(struct paths *paths, const struct paths_pair *pair)
{
	if (may_report(paths))
		add(paths, PATHS_CHANGED, pair->facts.peer,
		    (struct event){.seen = json_pack("{s:i, s:i}", "ports", (int)pair->set.count,
						     "paths", (int)pair->set.groups),
				   .done = json_pack("{s:s}", "discovery", "restarted")});
}

void paths_report_budget(struct paths *paths)
{
	const struct pathbudget_share *share = &paths->facts.share;
	const uint64_t *interval_ns = share->interval_ns;

	add(paths, share->limited ? PATH_BUDGET_SHORT : PATH_BUDGET_RESTORED, "paths",
	    (struct event){
		    .seen = json_pack("{s:f, s:i}", "wanted_pps", share->wanted_pps, "budget_pps",
				      (int)paths->core->config->paths.budget_pps),
		    .done = json_pack("{s:f, s:f, s:f}", "probe_interval_us",
				      (double)interval_ns[PATH_ACTIVE] / 1e3, "standby_interval_us",
				      (double)interval_ns[PATH_STANDBY] / 1e3,
				      "tracked_interval_us",
				      (double)interval_ns[PATH_WATCHED] / 1e3),
	    });
}

void paths_report_full(struct paths *paths, const char *host)
{
	log_warning("there is no room in the map paths (%d) for paths to %s: its queue pairs "
		    "are not steered",
		    ESC_PATH_SLOTS_MAX, host);
	add(paths, PATH_TABLE_FULL, host,
	    (struct event){.seen = json_pack("{s:i}", "slots", ESC_PATH_SLOTS_MAX)});
}
