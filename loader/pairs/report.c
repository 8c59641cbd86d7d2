// SPDX-License-Identifier: BSD-2-Clause
/* The replies to the verbs: what a run found, by NIC of this host. */
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"

#define SHOWN_MOST 256 /* faulty pairs of a NIC: of a NIC that is down all are */

static const char *const fault_names[PAIRS_FAULTS] = {
	[PAIRS_SILENT] = "silent",   [PAIRS_LOSS] = "loss",	      [PAIRS_MTU] = "mtu",
	[PAIRS_LATENCY] = "latency", [PAIRS_ASYMMETRY] = "asymmetry",
};
static const char *const class_names[PAIRS_CLASSES] = {"rack", "pod", "fabric"};

static void put_delays(json_t *object, const struct pairs_pair *result)
{
	if (result->out_ns)
		json_put_count(object, "owd_out_ns", result->out_ns);
	if (result->in_ns)
		json_put_count(object, "owd_in_ns", result->in_ns);
	if (result->out_ns || result->in_ns)
		json_put_count(object, "bound_ns", result->bound_ns);
}

static json_t *fault_json(const struct pairs_lane *lane, uint32_t at, enum pairs_fault fault,
			  const struct pairs_limit limits[PAIRS_CLASSES])
{
	const struct pairs_pair *result = &lane->results[at];
	const struct pairs_limit *limit = &limits[result->class];
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "fault", fault_names[fault]);
	json_put_name(object, "peer", lane->others[at]->host);
	json_put_text(object, "to", address_format(&lane->others[at]->address, text));
	json_put_text(object, "class", class_names[result->class]);
	json_put_count(object, "sent", result->sent);
	json_put_count(object, "lost", result->sent - result->replied);
	if (fault == PAIRS_SILENT)
		json_put_bool(object, "echo", result->small_replied > 0);
	if (fault == PAIRS_MTU)
		json_put_count(object, "bytes", lane->mtu);
	if (fault == PAIRS_LATENCY)
		json_put_count(object, "limit_ns", limit->limit_ns);
	if (fault == PAIRS_ASYMMETRY)
		json_put_count(object, "limit_ns", limit->asymmetry_ns);
	put_delays(object, result);
	return object;
}

struct sums {
	uint64_t pairs, used, sent, replied, full, small;
	uint64_t faults[PAIRS_FAULTS];
};

static void put_sums(json_t *object, const struct sums *sums)
{
	json_t *counts = json_object();

	json_put_count(object, "measured", sums->pairs);
	json_put_count(object, "used", sums->used);
	json_put_count(object, "sent", sums->sent);
	json_put_count(object, "lost", sums->sent - sums->replied);
	json_put_count(object, "full_size_replied", sums->full);
	json_put_count(object, "small_replied", sums->small);
	for (unsigned int i = 0; i < PAIRS_FAULTS; i++)
		json_put_count(counts, fault_names[i], sums->faults[i]);
	json_put(object, "faults", counts);
}

static json_t *classes_json(const struct pairs_limit limits[PAIRS_CLASSES])
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < PAIRS_CLASSES; i++)
		if (limits[i].pairs)
			json_array_append_new(list,
					      json_pack("{s:s, s:I, s:I, s:I, s:b}", "class",
							class_names[i], "pairs",
							(json_int_t)limits[i].pairs, "median_ns",
							(json_int_t)limits[i].median_ns, "limit_ns",
							(json_int_t)limits[i].limit_ns, "judged",
							limits[i].pairs >= PAIRS_JUDGED_LEAST));
	return list;
}

/* Adds the faults of a pair to @list. */
static void add_faults(const struct pairs_lane *lane, uint32_t at,
		       const struct pairs_limit limits[PAIRS_CLASSES], struct sums *sums,
		       json_t *list)
{
	unsigned int faults = pairs_judge(&lane->results[at], limits);

	for (unsigned int i = 0; i < PAIRS_FAULTS; i++) {
		if (!(faults & 1u << i))
			continue;
		sums->faults[i]++;
		if (json_array_size(list) < SHOWN_MOST)
			json_array_append_new(list, fault_json(lane, at, i, limits));
	}
}

static json_t *result_json(const struct pairs_lane *lane, uint32_t at)
{
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_name(object, "peer", lane->others[at]->host);
	json_put_text(object, "to", address_format(&lane->others[at]->address, text));
	put_delays(object, &lane->results[at]);
	return object;
}

/* All NICs of the rail in the order of hosts, ours included. */
static json_t *members_json(const struct pairs_lane *lane)
{
	char text[ADDRESS_TEXT_BYTES];
	json_t *list = json_array();

	for (uint32_t i = 0; i < lane->count; i++) {
		json_t *object = json_object();

		json_put_name(object, "host", lane->others[i]->host);
		json_put_text(object, "address", address_format(&lane->others[i]->address, text));
		json_put_count(object, "place", lane->places[i]);
		json_array_append_new(list, object);
	}
	return list;
}

/* @each: with the delays of each pair. */
static json_t *lane_json(const struct pairs *pairs, const struct pairs_lane *lane, bool each)
{
	struct pairs_load load = pairs_load(&pairs->plan, lane->mtu);
	struct pairs_limit limits[PAIRS_CLASSES] = {};
	json_t *object = json_object(), *list = json_array(), *results = json_array();
	char text[ADDRESS_TEXT_BYTES];
	struct sums sums = {};

	if (pairs_limits(lane->results, lane->count, limits))
		memset(limits, 0, sizeof(limits)); /* delays are not judged */
	for (uint32_t i = 0; i < lane->count; i++) {
		const struct pairs_pair *result = &lane->results[i];

		/* The pair of the round that runs has not all its replies. */
		if (i == lane->partner || !pairs_is_measured(result))
			continue;
		sums.pairs++;
		sums.used += result->used;
		sums.sent += result->sent;
		sums.replied += result->replied;
		sums.full += result->full_replied;
		sums.small += result->small_replied;
		add_faults(lane, i, limits, &sums, list);
		if (each && result->replied)
			json_array_append_new(results, result_json(lane, i));
	}
	json_put_text(object, "interface", lane->own.interface);
	json_put_text(object, "address", address_format(&lane->own.address, text));
	json_put_text(object, "rail", lane->self->rail);
	json_put_text(object, "plane",
		      lane->own.plane == FLEET_PLANE_FRONTEND ? "frontend" : "backend");
	json_put_count(object, "pairs", lane->count - 1);
	json_put_count(object, "mtu", lane->mtu);
	json_put_real(object, "budget_pps", load.packets_per_second);
	json_put_count(object, "budget_bytes_per_second", load.bytes_per_second);
	json_put_count(object, "budget_bytes", load.bytes);
	put_sums(object, &sums);
	json_put(object, "classes", classes_json(limits));
	json_put(object, "faulty", list);
	if (each) {
		json_put(object, "results", json_incref(results));
		json_put(object, "members", members_json(lane));
	}
	json_decref(results);
	return object;
}

static json_t *reply_pairs(void *self, struct request *request)
{
	const struct pairs *pairs = self;
	json_t *object = json_object(), *list = json_array();
	bool each = request_flag(request, "all");

	json_put_text(object, "state", pairs->state);
	json_put_text(object, "note", pairs->note);
	json_put_bool(object, "under_way",
		      !strcmp(pairs->state, "waiting") || !strcmp(pairs->state, "running"));
	for (size_t i = 0; i < pairs->lane_count; i++)
		json_array_append_new(list, lane_json(pairs, &pairs->lanes[i], each));
	if (pairs->plan.rounds) {
		json_put_count(object, "run_ns", pairs->plan.run_ns);
		json_put_count(object, "round_ns", pairs->plan.round_ns);
		json_put_count(object, "rounds", pairs->plan.rounds);
		json_put_count(object, "round", pairs->round);
		json_put_real(object, "takes_s",
			      (double)(pairs->plan.rounds * pairs->plan.round_ns) / 1e9);
		json_put_count(object, "over_ns",
			       pairs->plan.run_ns + pairs->plan.most_rounds * pairs->plan.round_ns);
		json_put_count(object, "sent", pairs->sent);
		json_put_count(object, "replied", pairs->replied);
		json_put_count(object, "failed", pairs->failed);
		json_put_count(object, "nics_left_out", pairs->left_out);
	}
	json_put(object, "nics", list);
	return object;
}

static json_t *reply_start(void *self, struct request *request)
{
	char *error = NULL;

	if (pairs_start(self, request_count(request, "run", 0), request_count(request, "round", 0),
			&error))
		return request_fail(request, REQUEST_FAILED, error);
	return reply_pairs(self, request);
}

static json_t *reply_stop(void *self, struct request *request)
{
	pairs_stop(self, "by `escapement pairs stop`");
	return reply_pairs(self, request);
}

const struct verb_handler pairs_verb_handlers[] = {
	{"pairs", reply_pairs}, {"pairs start", reply_start}, {"pairs stop", reply_stop}, {}};
