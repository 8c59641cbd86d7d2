// SPDX-License-Identifier: BSD-2-Clause
/* The verb `paths`, `paths` in the reply to `status`, and the metrics. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"

#define PATHS_METRICS(X)                                                                           \
	X(PATHS_BY_STATE, "paths", GAUGE,                                                          \
	  "Candidate paths to all peers with queue pairs, by state: up, suspect, down or "         \
	  "hold_down.")                                                                            \
	X(PATH_PEERS, "path_peers", GAUGE, "Pairs of addresses that have candidate paths.")        \
	X(PATH_PEERS_REFUSED, "path_peers_refused_total", COUNTER,                                 \
	  "Times that a pair of addresses found no room for paths.")                               \
	X(PATH_PROBES, "path_probes_total", COUNTER, "Path probes handed to the kernel.")          \
	X(PATH_PROBES_FAILED, "path_probes_failed_total", COUNTER,                                 \
	  "Path probes that the kernel refused.")                                                  \
	X(PATH_PROBES_REPLIED, "path_probes_replied_total", COUNTER,                               \
	  "Path probes that were replied to.")                                                     \
	X(PATH_PROBES_LOST, "path_probes_lost_total", COUNTER,                                     \
	  "Path probes without a reply within a second.")                                          \
	X(PATH_QUOTES, "path_quotes_total", COUNTER,                                               \
	  "ICMP errors \"time exceeded\" received, by result: matched a path probe, unmatched, "   \
	  "other, or overflow of the socket's buffer.")                                            \
	X(PATH_PROBES_WANTED, "path_wanted_probes_per_second", GAUGE,                              \
	  "Path probes a second that the configured intervals need.")                              \
	X(PATH_PROBES_GRANTED, "path_granted_probes_per_second", GAUGE,                            \
	  "Path probes a second that are sent within the budget.")                                 \
	X(PATH_PROBES_BUDGET, "path_budget_probes_per_second", GAUGE, "paths.probe_budget_pps.")   \
	X(FAILOVER_DURATION, "failover_duration_seconds", HISTOGRAM,                               \
	  "From the last probe that the peer received on a path to the first packet that used "    \
	  "its standby.")                                                                          \
	X(PATHS_NOT_SHOWN, "paths_not_shown", GAUGE,                                               \
	  "Candidate paths without series of their own (textfile.top_paths).")                     \
	X(PATH_STATE, "path_state", GAUGE,                                                         \
	  "1 for the state of a candidate path, by source port: up, suspect, down or hold_down. "  \
	  "Ports with one path number share a path.")                                              \
	X(PATH_QPS, "path_qps", GAUGE, "Queue pairs whose packets are to use this path.")          \
	X(PATH_DIVERTED, "path_diverted", GAUGE, "1 while packets of this path use its backup.")   \
	X(PATH_OWD_P50, "path_owd_p50_seconds", GAUGE,                                             \
	  "Median one-way delay of a path's probes in the last seconds, in fabric time.")          \
	X(PATH_OWD_P99, "path_owd_p99_seconds", GAUGE, "99th percentile of the same.")             \
	X(PATH_OWD_BOUND, "path_owd_error_bound_seconds", GAUGE,                                   \
	  "Error bound of the delays of this path.")                                               \
	X(PATH_SENT, "path_sent_total", COUNTER, "Probes sent on a path.")                         \
	X(PATH_REPLIED, "path_replied_total", COUNTER, "Probes of a path that were replied to.")   \
	X(PATH_LOST, "path_lost_total", COUNTER,                                                   \
	  "Probes of a path without a reply within a second.")
enum { PATHS_METRICS(METRIC_ENUM) };
const struct metric paths_metrics[] = {PATHS_METRICS(METRIC){}};

const double paths_failover_bounds[PATHS_FAILOVER_BUCKETS - 1] = {
	0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 1,
};

/* --- fields of a candidate and of a pair --- */

#define PATH(member, type, key) FIELD(struct path_facts, member, type, key)
static const struct field path_fields[] = {
	{PATH(id, U32, "path_id")},
	{PATH(sport, U16, "sport")},
	{PATH(group, U32, "group"), .nonzero = true},
	{PATH(sent, U64, "sent"), .metric = &paths_metrics[PATH_SENT]},
	{PATH(replied, U64, "replied"), .metric = &paths_metrics[PATH_REPLIED]},
	{PATH(lost, U64, "lost"), .metric = &paths_metrics[PATH_LOST]},
	{PATH(qps, U32, "qps")},
	{PATH(interval_ns, U64, "interval_ns")},
	{PATH(deadline_ns, U64, "dead_after_ns"), .nonzero = true},
	{PATH(diverted_packets, U64, "diverted_packets"), .nonzero = true},
	{},
};

/* One that was never replied to may be up or not. */
static enum pathlive_state shown_state(const struct path_facts *path)
{
	return path->state == PATHLIVE_UP && !path->received ? PATHLIVE_SUSPECT : path->state;
}

/* --- the verb `paths` --- */

static void put_ns(json_t *object, const char *key, double ns)
{
	if (isfinite(ns))
		json_put_integer(object, key, (int64_t)rint(ns));
}

static void put_delay(json_t *object, const char *key, const struct quantiles *delays,
		      const struct path_delay *now)
{
	json_t *delay;

	if (!now->at_ns)
		return;
	delay = json_object();
	put_ns(delay, "floor", now->floor_ns);
	put_ns(delay, "now", now->delay_ns);
	if (delays->samples) {
		json_put_integer(delay, "min", delays->min_ns);
		json_put_integer(delay, "p50", delays->p50_ns);
		json_put_integer(delay, "p99", delays->p99_ns);
		json_put_integer(delay, "max", delays->max_ns);
		json_put_count(delay, "samples", delays->samples);
	}
	json_put(object, key, delay);
}

static json_t *addresses_json(const struct path_pair_facts *pair)
{
	json_t *object = json_object();
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "peer", pair->peer);
	json_put_text(object, "from", address_format(&pair->key.src, text));
	json_put_text(object, "to", address_format(&pair->key.dst, text));
	return object;
}

static const char *pair_note(const struct paths *paths, const struct paths_pair *pair,
			     uint64_t now_ns)
{
	if (paths->paused)
		return "the kill switch is on";
	if (!pair->sending)
		return pair->open_error == -ENODEV
			       ? "its interface is not there, or lacks a program of ours"
			       : "the socket for its probes could not be opened; the log says why";
	if (!pair->replied_ns && now_ns - pair->since_ns > 2000000000)
		return "no reply to path probes from there: is escapementd running, with this host "
		       "in its members?";
	if (pair->replied_ns && !paths_pair_replies(pair, now_ns))
		return "no more replies to path probes";
	if (paths_is_silent(pair))
		return "no switch on the way replies: paths are distinguished by their delays "
		       "alone";
	if (pair->set.groups > paths->core->config->paths.per_peer)
		return "there are more paths than paths.per_peer allows";
	return NULL;
}

static json_t *pair_json(const struct paths *paths, const struct paths_pair *pair)
{
	json_t *object = addresses_json(&pair->facts);
	uint64_t now_ns = time_local_ns(), count = 0;

	for_each_candidate (pair, path)
		count++;
	json_put_count(object, "slot", pair->facts.slot);
	json_put_count(object, "candidates", count);
	json_put_count(object, "qps", pair->qps);
	json_put_bool(object, "replying", paths_pair_replies(pair, now_ns));
	if (pair->set.groups)
		json_put_count(object, "groups", pair->set.groups);
	json_put_bool(object, "complete", pathset_is_complete(&pair->set));
	if (pair->distance)
		json_put_count(object, "distance", pair->distance);
	json_put_count(object, "routes_changed", pair->set.generation);
	json_put_text(object, "note", pair_note(paths, pair, now_ns));
	return object;
}

static json_t *path_json(const struct paths *paths, const struct paths_pair *pair,
			 const struct path_facts *path)
{
	static const char *const uses[PATH_USES] = {"unused", "tracked", "standby", "active"};
	const struct candidate *candidates = pair->candidates;
	json_t *object = addresses_json(&pair->facts), *hops;
	int64_t now_ns = (int64_t)time_local_ns();
	char text[ADDRESS_TEXT_BYTES];
	struct quantiles out, in;
	size_t hop_count = PATHLIVE_HOPS_MAX;

	pathstat_quantiles(&candidates[path->id].out, now_ns, &out);
	pathstat_quantiles(&candidates[path->id].in, now_ns, &in);
	fields_put(object, path_fields, path);
	json_put_text(object, "state", pathlive_state_name(shown_state(path)));
	put_delay(object, "owd_out_ns", &out, &path->out);
	put_delay(object, "owd_in_ns", &in, &path->in);
	put_ns(object, "bound_ns", fmax(path->out.bound_ns, path->in.bound_ns));
	/* Silent switches between those that replied are null. */
	while (hop_count && !path->hops[hop_count - 1])
		hop_count--;
	hops = hop_count ? json_array() : NULL;
	for (size_t i = 0; i < hop_count; i++) {
		const struct esc_address *hop = paths_hop_address(paths, path->hops[i]);

		json_array_append_new(hops,
				      hop ? json_string(address_format(hop, text)) : json_null());
	}
	json_put(object, "hops", hops);
	json_put_bool(object, "standby", !path->qps);
	json_put_text(object, "use", uses[path->use]);
	if (path->backup >= 0)
		json_put_count(object, "backup_sport", candidates[path->backup].facts.sport);
	json_put_bool(object, "diverted", path->diverted_ns);
	return object;
}

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

#define QUOTE(member) FIELD(struct paths_quotes, member, U64, #member)
static const struct field quote_fields[] = {
	{QUOTE(matched)}, {QUOTE(unmatched)}, {QUOTE(other)}, {QUOTE(overflow)}, {},
};

static json_t *quotes_json(const struct paths_quotes *quotes)
{
	json_t *object = json_object();

	fields_put(object, quote_fields, quotes);
	return object;
}

static json_t *reply_paths(void *self, struct request *request)
{
	/* A host, or an address of one; NULL: all. */
	const char *peer = request_text(request, "peer", NULL);
	json_t *list = json_array(), *pairs = json_array(), *object;
	struct path_facts found[ESC_PATHS_MAX];
	char text[ADDRESS_TEXT_BYTES];
	const struct paths *paths = self;
	const struct paths_pair *pair;
	struct paths_facts facts;

	for_each_pair (paths, pair) {
		size_t count;

		if (peer && strcmp(pair->facts.peer, peer) &&
		    strcmp(address_format(&pair->facts.key.dst, text), peer))
			continue;
		count = paths_candidates(paths, pair->facts.slot, found);
		for (size_t k = 0; k < count; k++)
			json_array_append_new(list, path_json(paths, pair, &found[k]));
		json_array_append_new(pairs, pair_json(paths, pair));
	}
	paths_get(paths, &facts);
	object = json_pack("{s:o, s:o, s:b, s:o}", "paths", list, "pairs", pairs, "on", facts.on,
			   "budget", budget_json(&facts));
	json_put_text(object, "note", facts.note);
	if (!peer || json_array_size(pairs))
		return object;
	json_decref(object);
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
	object = json_pack("{s:b, s:I}", "on", facts.on, "peers", (json_int_t)facts.pairs);
	for (unsigned int state = 0; state < 4; state++)
		json_put_count(object, pathlive_state_name(state), facts.candidates[state]);
	json_put(object, "budget", budget_json(&facts));
	json_put(object, "quotes", quotes_json(&facts.quotes));
	json_put_text(object, "note", facts.note);
	if (facts.pairs_refused)
		json_put_count(object, "refused", facts.pairs_refused);
	json_put(status, "paths", object);
}

/* --- metrics --- */

#define FACT(member, type, id)                                                                     \
	{                                                                                          \
		FIELD(struct paths_facts, member, type, NULL), .metric = &paths_metrics[id]        \
	}
static const struct field facts_fields[] = {
	FACT(pairs, U64, PATH_PEERS),
	FACT(pairs_refused, U64, PATH_PEERS_REFUSED),
	FACT(sent, U64, PATH_PROBES),
	FACT(failed, U64, PATH_PROBES_FAILED),
	FACT(replied, U64, PATH_PROBES_REPLIED),
	FACT(lost, U64, PATH_PROBES_LOST),
	FACT(share.wanted_pps, REAL, PATH_PROBES_WANTED),
	FACT(share.given_pps, REAL, PATH_PROBES_GRANTED),
	FACT(budget_pps, U32, PATH_PROBES_BUDGET),
	{},
};

static int trouble_of(const struct path_facts *path)
{
	static const int trouble[] = {
		[PATHLIVE_SUSPECT] = 1, [PATHLIVE_HOLD_DOWN] = 2, [PATHLIVE_DOWN] = 3};

	return path->state == PATHLIVE_UP ? path->diverted_ns != 0 : trouble[path->state];
}

static int by_importance(const void *a, const void *b)
{
	const struct path_facts *one = &((const struct path_row *)a)->path;
	const struct path_facts *two = &((const struct path_row *)b)->path;
	int by_trouble = trouble_of(two) - trouble_of(one);

	if (by_trouble)
		return by_trouble;
	if (one->qps != two->qps)
		return one->qps > two->qps ? -1 : 1;
	if (one->slot != two->slot)
		return one->slot < two->slot ? -1 : 1;
	return (one->id > two->id) - (one->id < two->id);
}

void paths_sort_rows(struct path_row *rows, size_t count)
{
	qsort(rows, count, sizeof(*rows), by_importance);
}

struct row_labels {
	bool gauge;		 /* the group may change, and a counter would begin again */
	struct prom_label extra; /* of a gauge */
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], sport[16], group[16];
	struct prom_label list[8];
};

static const struct prom_label *labels_of(const void *row_, void *context)
{
	const struct path_row *row = row_;
	struct row_labels *labels = context;

	address_format(&row->pair->key.src, labels->src);
	address_format(&row->pair->key.dst, labels->dst);
	snprintf(labels->sport, sizeof(labels->sport), "%u", row->path.sport);
	*labels->group = '\0';
	if (labels->gauge && row->path.group)
		snprintf(labels->group, sizeof(labels->group), "%u", row->path.group);
	memcpy(labels->list,
	       (struct prom_label[8]){{"netdev", row->netdev},
				      {"peer", row->pair->peer},
				      {"src", labels->src},
				      {"dst", labels->dst},
				      {"sport", labels->sport},
				      {"path", labels->group},
				      labels->extra},
	       sizeof(labels->list));
	return labels->list;
}

/* Median, 99th percentile, or the bound of the error; NAN: not known. */
static double delay_seconds(const struct quantiles *delays, const struct path_delay *now,
			    unsigned int stat)
{
	if (stat == 2)
		return now->bound_ns / 1e9;
	return quantiles_seconds(delays, 1 + stat);
}

void paths_write_rows(FILE *out, const struct path_row *rows, size_t count, size_t not_shown)
{
	struct prom_family *states = FAMILY_OF(&paths_metrics[PATH_STATE]);
	struct prom_family *qps = FAMILY_OF(&paths_metrics[PATH_QPS]);
	struct prom_family *diverted = FAMILY_OF(&paths_metrics[PATH_DIVERTED]);
	struct row_labels gauge = {.gauge = true}, counter = {};

	prom_count(FAMILY_OF(&paths_metrics[PATHS_NOT_SHOWN]), not_shown, NULL);
	for (size_t i = 0; i < 4 * count; i++) {
		const struct path_row *row = &rows[i / 4];

		gauge.extra = (struct prom_label){"state", pathlive_state_name(i % 4)};
		prom_sample_count(states, i % 4 == shown_state(&row->path), labels_of(row, &gauge));
	}
	gauge.extra = (struct prom_label){};
	for (size_t i = 0; i < count; i++)
		prom_sample_count(qps, rows[i].path.qps, labels_of(&rows[i], &gauge));
	for (size_t i = 0; i < count; i++)
		prom_sample_count(diverted, rows[i].path.diverted_ns != 0,
				  labels_of(&rows[i], &gauge));
	for (unsigned int s = 0; s < 3; s++) {
		struct prom_family *family = FAMILY_OF(&paths_metrics[PATH_OWD_P50 + s]);

		for (size_t i = 0; i < 2 * count; i++) {
			const struct path_row *row = &rows[i / 2];
			double seconds = delay_seconds(i % 2 ? &row->in : &row->out,
						       i % 2 ? &row->path.in : &row->path.out, s);

			gauge.extra = (struct prom_label){"direction", i % 2 ? "in" : "out"};
			if (isfinite(seconds))
				prom_sample(family, seconds, labels_of(row, &gauge));
		}
	}
	fields_write(out, path_fields, rows, count, sizeof(*rows), labels_of, &counter);
}

void paths_write_metrics(void *self, FILE *out)
{
	const struct paths *paths = self;
	size_t most = paths->core->config->textfile.top_paths, count = 0;
	int64_t now_ns = (int64_t)time_local_ns();
	struct path_facts found[ESC_PATHS_MAX];
	const struct paths_pair *pair;
	struct paths_facts facts;
	struct prom_family *states = FAMILY_OF(&paths_metrics[PATHS_BY_STATE]);
	struct prom_family *quotes = FAMILY_OF(&paths_metrics[PATH_QUOTES]);
	uint64_t below[PATHS_FAILOVER_BUCKETS];
	struct prom_histogram failovers = {.bounds = paths_failover_bounds,
					   .below = below,
					   .bound_count = PATHS_FAILOVER_BUCKETS - 1};
	struct path_row *rows;

	paths_get(paths, &facts);
	if (!facts.on)
		return;
	for (unsigned int state = 0; state < 4; state++)
		prom_count(states, facts.candidates[state], "state", pathlive_state_name(state),
			   NULL);
	fields_write(out, facts_fields, &facts, 1, sizeof(facts), NULL, NULL);
	prom_count(quotes, facts.quotes.matched, "result", "matched", NULL);
	prom_count(quotes, facts.quotes.unmatched, "result", "unmatched", NULL);
	prom_count(quotes, facts.quotes.other, "result", "other", NULL);
	prom_count(quotes, facts.quotes.overflow, "result", "overflow", NULL);
	for (unsigned int i = 0; i < PATHS_FAILOVER_BUCKETS; i++)
		below[i] = failovers.count += facts.failover[i];
	failovers.sum = facts.failover_sum_s;
	prom_histogram(FAMILY_OF(&paths_metrics[FAILOVER_DURATION]), &failovers, NULL);
	rows = calloc(facts.pairs * ESC_PATHS_MAX + 1, sizeof(*rows));
	if (!rows)
		return;
	for_each_pair (paths, pair) {
		size_t more = paths_candidates(paths, pair->facts.slot, found);

		for (size_t k = 0; k < more; k++)
			rows[count++] = (struct path_row){
				.pair = &pair->facts,
				.netdev = dataplane_port_name(paths->dataplane, pair->facts.port),
				.path = found[k],
			};
	}
	paths_sort_rows(rows, count);
	most = count < most ? count : most;
	for (size_t i = 0; i < most; i++) {
		pair = paths->by_slot[rows[i].path.slot];
		pathstat_quantiles(&pair->candidates[rows[i].path.id].out, now_ns, &rows[i].out);
		pathstat_quantiles(&pair->candidates[rows[i].path.id].in, now_ns, &rows[i].in);
	}
	paths_write_rows(out, rows, most, count - most);
	free(rows);
}
