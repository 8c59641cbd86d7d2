// SPDX-License-Identifier: BSD-2-Clause
/* The verb mesh, `rotation` in `status`, and the metrics. */
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "internal.h"

#define SILENT_SHOWN 16
/* On Ethernet with its preamble, CRC and gap: a request and its reply are of one size. */
#define WIRE_BYTES (38 + 20 + 8 + ESC_PATH_DATAGRAM_BYTES)

static const char *const kind_names[ROTATION_KINDS] = {"rack", "racks", "in_use"};

#define ROTATION_METRICS(X)                                                                        \
	X(ROTATION_ON, "rotation_on", GAUGE, "Whether NICs are measured in turn.")                 \
	X(ROTATION_PROBES_TOTAL, "rotation_probes_total", COUNTER,                                 \
	  "Probes of NICs in turn that were sent.")                                                \
	X(ROTATION_REPLIES_TOTAL, "rotation_replies_total", COUNTER, "Replies to them.")           \
	X(ROTATION_FAILED_TOTAL, "rotation_probes_failed_total", COUNTER,                          \
	  "Probes of NICs in turn that the kernel refused.")                                       \
	X(ROTATION_SKIPPED_TOTAL, "rotation_skipped_total", COUNTER,                               \
	  "Measurements left out: beyond the budget, or no address family in common.")             \
	X(ROTATION_PAIRS, "rotation_pairs", GAUGE,                                                 \
	  "Pairs of NICs of this host in its rack; pairs of racks of the fleet; addresses in "     \
	  "use.")                                                                                  \
	X(ROTATION_CYCLE, "rotation_cycle_seconds", GAUGE,                                         \
	  "Time in which each of these is measured once.")                                         \
	X(ROTATION_ANSWERED, "rotation_measured", GAUGE,                                           \
	  "Measurements of this host with a reply in the last whole cycle.")                       \
	X(ROTATION_SILENT, "rotation_silent", GAUGE,                                               \
	  "Measurements of this host without a reply in the last whole cycle.")
enum { ROTATION_METRICS(METRIC_ENUM) };
const struct metric rotation_metrics[] = {ROTATION_METRICS(METRIC){}};

#define COUNT(member, key, id)                                                                     \
	{                                                                                          \
		FIELD(struct rotation, member, U64, key), .metric = &rotation_metrics[id]          \
	}
static const struct field fields[] = {
	COUNT(sent, "sent", ROTATION_PROBES_TOTAL),
	COUNT(replied, "replied", ROTATION_REPLIES_TOTAL),
	COUNT(failed, "failed", ROTATION_FAILED_TOTAL),
	COUNT(skipped, "skipped", ROTATION_SKIPPED_TOTAL),
	{},
};

/* --- the verb --- */

static void put_tally(json_t *object, const char *key, const struct rotation_tally *tally)
{
	json_put(object, key,
		 json_pack("{s:I, s:I, s:I, s:I}", "measured", (json_int_t)tally->answered,
			   "silent", (json_int_t)tally->silent, "by_path",
			   (json_int_t)tally->by_path, "scheduled", (json_int_t)tally->asked));
}

static json_t *kind_json(const struct rotation *rotation, enum rotation_kind kind)
{
	json_t *object = json_object();

	json_put_text(object, "kind", kind_names[kind]);
	json_put_count(object, "pairs", rotation_pairs(rotation, kind));
	if (rotation_pairs(rotation, kind))
		json_put_real(object, "cycle_s", rotation_cycle_s(rotation, kind));
	put_tally(object, "now", &rotation->now[kind]);
	if (rotation->last[kind].whole)
		put_tally(object, "last", &rotation->last[kind]);
	return object;
}

static void put_quantiles(json_t *object, const char *key, const struct quantiles *delays)
{
	if (delays->samples)
		json_put(object, key,
			 json_pack("{s:I, s:I, s:I, s:I}", "min", (json_int_t)delays->min_ns, "p50",
				   (json_int_t)delays->p50_ns, "max", (json_int_t)delays->max_ns,
				   "samples", (json_int_t)delays->samples));
}

static json_t *result_json(const struct rotation_result *result, const char *host, const char *rail)
{
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "peer", host);
	json_put_text(object, "from", address_format(&result->key.src, text));
	json_put_text(object, "to", address_format(&result->key.dst, text));
	json_put_text(object, "rail", rail);
	json_put_real(object, "age_s", (double)(time_local_ns() - result->at_ns) / 1e9);
	json_put_count(object, "sent", result->sent);
	json_put_count(object, "lost", result->sent - result->replied);
	put_quantiles(object, "owd_out_ns", &result->out);
	put_quantiles(object, "owd_in_ns", &result->in);
	if (result->out.samples || result->in.samples)
		json_put_count(object, "bound_ns", (uint64_t)result->bound_ns);
	return object;
}

/*
 * Of @host alone, or @all hosts, any measurement that is kept; else those of the rack without a
 * reply.
 */
static json_t *results_json(const struct rotation *rotation, const char *host, bool all,
			    uint64_t *silent)
{
	const struct members *members = fleet_members(rotation->core->fleet);
	json_t *list = json_array();

	*silent = 0;
	for (size_t i = 0; members && i < ROTATION_RESULTS; i++) {
		const struct rotation_result *result = &rotation->results[i];
		const struct member *member;

		if (!result->at_ns || (!host && !all && result->replied))
			continue;
		member = members_find(members, &result->key.dst);
		if (!member || (host && strcmp(member->host, host)))
			continue;
		*silent += !result->replied;
		if (host || all || json_array_size(list) < SILENT_SHOWN)
			json_array_append_new(list,
					      result_json(result, member->host, member->rail));
	}
	return list;
}

/* Where this host is, by its labels. */
static void put_self(json_t *object, const struct rotation *rotation)
{
	const struct members *members = fleet_members(rotation->core->fleet);
	const struct member_host *host;

	if (!members || rotation->self_rack == SIZE_MAX)
		return;
	host = &members->hosts[rotation->self_host];
	json_put_text(object, "rack", members_host_rack(members, host));
	json_put_text(object, "pod", members_host_pod(members, host));
	json_put_count(object, "rack_hosts", members->racks[rotation->self_rack].count);
	json_put_count(object, "racks", members->rack_count);
	json_put_count(object, "hosts", members->host_count);
}

/* The next one is of the slot that runs. */
static void put_running(json_t *object, const struct rotation *rotation)
{
	const struct members *members = fleet_members(rotation->core->fleet);
	json_t *list = json_array();
	char text[ADDRESS_TEXT_BYTES];

	for (size_t i = 0; i < rotation->active_count && i < SILENT_SHOWN; i++) {
		const struct rotation_active *active = &rotation->active[i];
		const char *host = members_host(members, &active->key.dst);

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s}", "kind", kind_names[active->kind],
						"peer", host ? host : "", "to",
						address_format(&active->key.dst, text)));
	}
	json_put(object, "running", list);
	json_put_count(object, "running_count", rotation->active_count);
}

static json_t *reply_mesh(void *self, struct request *request)
{
	const char *host = request_text(request, "host", NULL);
	bool all = request_flag(request, "all");
	const struct rotation *rotation = self;
	json_t *object = json_object(), *kinds = json_array(), *list;
	uint64_t silent;

	list = results_json(rotation, host, all, &silent);
	if (host && !json_array_size(list)) {
		json_decref(object);
		json_decref(kinds);
		json_decref(list);
		return request_misuse(request,
				      "no measurement of `%.64s` is kept; give a host of this "
				      "rack, or wait for a cycle (`escapement mesh`)",
				      host);
	}
	json_put_bool(object, "on", !rotation->note);
	json_put_text(object, "note", rotation->note);
	json_put_count(object, "budget_pps", rotation->core->config->mesh.rotation_pps);
	json_put_count(object, "budget_bytes_per_second",
		       (uint64_t)rotation->core->config->mesh.rotation_pps * WIRE_BYTES);
	put_self(object, rotation);
	for (unsigned int kind = 0; rotation->plan.most && kind < ROTATION_KINDS; kind++)
		json_array_append_new(kinds, kind_json(rotation, kind));
	json_put(object, "coverage", kinds);
	json_put(object, host || all ? "nics" : "silent", list);
	json_put_count(object, "silent_count", silent);
	if (!host && !all)
		put_running(object, rotation);
	fields_put(object, fields, rotation);
	return object;
}

const struct verb_handler rotation_verb_handlers[] = {{"mesh", reply_mesh}, {}};

/* --- status and metrics --- */

void rotation_put_status(void *self, json_t *status)
{
	const struct rotation *rotation = self;
	json_t *object;

	if (!rotation->core->config->mesh.rotation_pps)
		return;
	object = json_pack("{s:b}", "on", !rotation->note);
	json_put_text(object, "note", rotation->note);
	if (rotation_pairs(rotation, ROTATION_NEAR))
		json_put_real(object, "rack_s", rotation_cycle_s(rotation, ROTATION_NEAR));
	if (rotation_pairs(rotation, ROTATION_FAR))
		json_put_real(object, "racks_s", rotation_cycle_s(rotation, ROTATION_FAR));
	json_put(status, "rotation", object);
}

void rotation_write_metrics(void *self, FILE *out)
{
	const struct rotation *rotation = self;
	struct prom_family *pairs = FAMILY_OF(&rotation_metrics[ROTATION_PAIRS]);
	struct prom_family *cycle = FAMILY_OF(&rotation_metrics[ROTATION_CYCLE]);
	struct prom_family *answered = FAMILY_OF(&rotation_metrics[ROTATION_ANSWERED]);
	struct prom_family *silent = FAMILY_OF(&rotation_metrics[ROTATION_SILENT]);

	prom_count(FAMILY_OF(&rotation_metrics[ROTATION_ON]), !rotation->note, NULL);
	if (!rotation->plan.most)
		return;
	fields_write(out, fields, rotation, 1, 0, NULL, NULL);
	for (unsigned int k = 0; k < ROTATION_KINDS; k++)
		prom_count(pairs, rotation_pairs(rotation, k), "kind", kind_names[k], NULL);
	for (unsigned int k = 0; k < ROTATION_KINDS; k++)
		if (rotation_pairs(rotation, k))
			prom_value(cycle, rotation_cycle_s(rotation, k), "kind", kind_names[k],
				   NULL);
	for (unsigned int k = 0; k < ROTATION_KINDS; k++)
		if (rotation->last[k].whole)
			prom_count(answered, rotation->last[k].answered, "kind", kind_names[k],
				   NULL);
	for (unsigned int k = 0; k < ROTATION_KINDS; k++)
		if (rotation->last[k].whole)
			prom_count(silent, rotation->last[k].silent, "kind", kind_names[k], NULL);
}
