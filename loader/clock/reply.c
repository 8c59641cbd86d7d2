// SPDX-License-Identifier: BSD-2-Clause
/* The clock's state as the verb `clock`, in `status`, and as metrics; without what is unknown. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

void clock_get(const struct clock *clock, struct clock_facts *out)
{
	const struct hostclock *host = &clock->host;
	const struct consensus *consensus = &host->consensus;

	/* A suspension that the loop has not noticed yet. */
	bool stood = (int64_t)(time_suspended_ns() - clock->suspended_ns) > ESC_SUSPENDED_MIN_NS;

	*out = (struct clock_facts){.state = stood ? CLOCK_FREE_RUNNING : host->state,
				    .monotonic_ns = (int64_t)time_local_ns()};
	out->local_ns = clock_local_at(clock, (uint64_t)out->monotonic_ns);
	out->used = consensus->used;
	out->reachable = consensus->reports;
	out->degree = consensus->degree;
	out->last_used_age_ns =
		consensus->last_used_ns ? out->local_ns - consensus->last_used_ns : -1;
	out->slews = clock->slew.changes;
	out->known = host->model.generation && out->state != CLOCK_FREE_RUNNING;
	if (!out->known)
		return;
	out->model = host->model;
	out->fabric_ns = clock_model_read(&host->model, out->local_ns);
	out->bound_ns = clock_model_bound(&host->model, out->local_ns);
	out->residual_ns = consensus->residual_ns;
	out->reach = consensus->reach;
	clock_get_tai(clock, out);
}

/* --- metrics --- */

enum { CLOCK_METRICS(METRIC_ENUM) };
const struct metric clock_metrics[] = {CLOCK_METRICS(METRIC){}};

static bool is_known(const void *facts)
{
	return ((const struct clock_facts *)facts)->known;
}

static bool has_tai(const void *facts)
{
	return is_known(facts) && ((const struct clock_facts *)facts)->tai_known;
}

#define CLOCK(member, type, key) FIELD(struct clock_facts, member, type, key)
#define NS(id) .metric = &clock_metrics[id], .divisor = 1e9
static const struct field clock_fields[] = {
	{CLOCK(local_ns, I64, "local_ns")},
	{CLOCK(monotonic_ns, I64, "monotonic_ns")},
	{CLOCK(used, U32, "peers_used"), .metric = &clock_metrics[CLOCK_PEERS]},
	{CLOCK(reachable, U32, "peers_reachable")},
	{CLOCK(degree, U32, "peers_configured")},
	{CLOCK(slews, U64, "local_rate_changes"), .metric = &clock_metrics[CLOCK_SLEWS]},
	{CLOCK(bound_ns, I64, "bound_ns"), .known = is_known, NS(CLOCK_ERROR_BOUND)},
	{CLOCK(fabric_ns, I64, "fabric_ns"), .known = is_known},
	{CLOCK(model.generation, U64, "generation"), .known = is_known},
	{CLOCK(residual_ns, REAL, "residual_ns"), .known = is_known, NS(CLOCK_RESIDUAL)},
	{CLOCK(reach, REAL, "reach"), .known = is_known},
	{CLOCK(tai_bound_ns, I64, NULL), .known = has_tai, NS(CLOCK_TAI_BOUND)},
	{},
};

static void write_cycles(const struct clock_cycles *own, FILE *out)
{
	struct cycles_rate rate;

	prom_count(FAMILY_OF(&clock_metrics[CLOCK_COUNTER_STEPS]), own->steps, NULL);
	if (!own->note && cycles_rate(&own->series, &rate))
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_COUNTER_FREQUENCY]), rate.hz, NULL);
}

void clock_write_metrics(void *self, FILE *out)
{
	struct prom_family *states = FAMILY_OF(&clock_metrics[CLOCK_STATES]);
	struct clock_facts clock;

	clock_get(self, &clock);
	write_cycles(&((const struct clock *)self)->cycles, out);
	for (unsigned int state = 0; state <= CLOCK_HOLDOVER; state++)
		prom_count(states, clock.state == state, "state", clock_state_name(state), NULL);
	fields_write(out, clock_fields, &clock, 1, sizeof(clock), NULL, NULL);
	if (clock.last_used_age_ns >= 0)
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_LAST_SYNC]),
			   ((double)time_realtime_ns() - (double)clock.last_used_age_ns) / 1e9,
			   NULL);
	if (clock.known)
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_FREQUENCY]), clock.model.rate / Q40,
			   NULL);
	if (has_tai(&clock))
		prom_value(FAMILY_OF(&clock_metrics[CLOCK_TAI_OFFSET]),
			   (double)ns_sub(clock.tai_ns, clock.fabric_ns) / 1e9, NULL);
}

/* --- replies --- */

static const struct field tai_fields[] = {
	{CLOCK(tai_ns, I64, "ns")},
	{CLOCK(tai_bound_ns, I64, "bound_ns")},
	{CLOCK(tai_hops, U32, "hops")},
	{},
};

#define FIT(member, type, key) FIELD(struct edge_estimate, member, type, key)
static const struct field fit_fields[] = {
	{FIT(local_ns, I64, "offset_local_ns")},
	{FIT(drift_ppb, REAL, "drift_ppb")},
	{FIT(residual_ns, REAL, "residual_ns")},
	{FIT(floor_ns, REAL, "floor_ns")},
	{FIT(noise_ns, REAL, "noise_ns")},
	{FIT(window_s, REAL, "window_s")},
	{FIT(pairs_kept, U32, "pairs_kept")},
	{FIT(pairs_seen, U32, "pairs_seen")},
	{FIT(averaged, U32, "averaged"), .nonzero = true},
	{FIT(flagged, BOOL, "flagged")},
	{},
};

/* The line in force; while readers slew it is another one, up to the end of the slew. */
static json_t *model_json(const struct clock_model *model, int64_t local_ns)
{
	bool slewed = local_ns >= model->slew_end_local_ns;
	json_t *object = json_object();

	json_put_integer(object, "ref_local_ns",
			 slewed ? model->slew_end_local_ns : model->ref_local_ns);
	json_put_integer(object, "ref_fabric_ns",
			 slewed ? model->slew_end_fabric_ns : model->ref_fabric_ns);
	json_put_real(object, "rate_ppb", (slewed ? model->rate : model->ref_rate) / Q40 * 1e9);
	if (!slewed) {
		json_put_integer(object, "slew_local_ns", model->slew_end_local_ns);
		json_put_integer(object, "slew_fabric_ns", model->slew_end_fabric_ns);
		json_put_real(object, "slew_rate_ppb", model->rate / Q40 * 1e9);
	}
	json_put_integer(object, "bound_local_ns", model->bound_local_ns);
	json_put_integer(object, "bound_ns", model->bound_ns);
	json_put_real(object, "bound_growth_ppb", model->bound_growth / Q40 * 1e9);
	json_put_real(object, "bound_late_ppb", model->bound_late / Q40 * 1e9);
	return object;
}

static json_t *peer_json(const struct clock *clock, const struct clock_edge *edge)
{
	static const char *const states[] = {"absent", "used", "refused_offset", "refused_drift",
					     "unsure"};
	const struct edge_estimate *fit = &edge->fit.estimate;
	const struct consensus_peer *peer = edge->place != CLOCK_PLACE_NONE
						    ? &clock->host.consensus.peers[edge->place]
						    : NULL; /* it has no place in the consensus */
	bool left_out = edge->use != CLOCK_USE;
	json_t *object = json_object();

	json_put_text(object, "peer", edge->host);
	json_put_text(object, "plane", config_plane_name(edge->plane));
	json_put_text(object, "interface", clock->nics[edge->port].interface);
	if (fit->valid) {
		json_put_real(object, "offset_ns",
			      (double)fit->offset_ns + fit->offset_fraction_ns);
		fields_put(object, fit_fields, fit);
	}
	json_put_bool(object, "one_sided", edge->one_sided);
	json_put_bool(object, "used", peer && !left_out && peer->status == CONSENSUS_USED);
	if (!peer)
		return object;
	json_put_text(object, "consensus",
		      edge->use == CLOCK_USE_NIC_DIFFERS    ? "nic_differs"
		      : edge->use == CLOCK_USE_EDGE_DIFFERS ? "differs"
							    : states[peer->status]);
	/* Of our clock, by this NIC pair where there are several with the peer. */
	if (edge->error_known && clock->places[edge->place].edges > 1)
		json_put_real(object, "error_ns", edge->error_ns);
	else if (peer->status != CONSENSUS_ABSENT)
		json_put_real(object, "error_ns", peer->offset_ns);
	if (peer->status != CONSENSUS_ABSENT)
		json_put_real(object, "error_ppb", peer->drift_ppb);
	return object;
}

json_t *clock_facts_json(const struct clock_facts *clock)
{
	json_t *object = json_object(), *tai;

	json_put_text(object, "state", clock_state_name(clock->state));
	fields_put(object, clock_fields, clock);
	if (clock->known)
		json_put(object, "model", model_json(&clock->model, clock->local_ns));
	json_put_text(object, "tai_note", clock->tai_note);
	json_put_text(object, "tai_anchors", clock->tai_anchors);
	if (clock->known && clock->tai_known) {
		tai = json_object();
		fields_put(tai, tai_fields, clock);
		json_put_real(tai, "anchor_age_s", (double)clock->tai_age_ns / 1e9);
		json_put_text(tai, "anchor", clock->tai_anchor);
		json_put(object, "tai", tai);
	}
	json_put_text(object, "timestamp_source", "xdp");
	if (clock->last_used_age_ns >= 0)
		json_put_real(object, "last_sync_age_ms", (double)clock->last_used_age_ns / 1e6);
	return object;
}

static int edge_compare(const void *a, const void *b)
{
	const struct clock_edge *one = *(struct clock_edge *const *)a;
	const struct clock_edge *two = *(struct clock_edge *const *)b;

	if (one->plane != two->plane)
		return one->plane < two->plane ? -1 : 1;
	if (strcmp(one->host, two->host) != 0)
		return strverscmp(one->host, two->host);
	return one->port != two->port ? (int)one->port - (int)two->port
				      : (one->nic > two->nic) - (one->nic < two->nic);
}

/* With one NIC there is nothing that it could differ from. */
static json_t *nics_json(const struct clock *clock)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++) {
		const struct clock_nic *nic = &clock->nics[i];
		json_t *object;

		if (!nic->edges)
			continue;
		object = json_object();
		json_put_text(object, "interface", nic->interface);
		if (nic->measured) {
			json_put_real(object, "offset_ns", nic->offset_ns);
			json_put_bool(object, "differs", nic->differs);
		}
		json_array_append_new(list, object);
	}
	return list;
}

static json_t *reply_clock(void *self, struct request *request)
{
	struct clock_edge *sorted[CLOCK_EDGES_MAX], *edge;
	json_t *object, *list = json_array();
	const struct clock *clock = self;
	struct clock_facts facts;
	size_t count = 0;

	(void)request;
	clock_get(clock, &facts);
	object = clock_facts_json(&facts);
	for_each_edge (clock, edge)
		sorted[count++] = edge;
	qsort(sorted, count, sizeof(sorted[0]), edge_compare);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, peer_json(clock, sorted[i]));
	json_put(object, "peers", list);
	json_put(object, "nics", nics_json(clock));
	return object;
}

const struct verb_handler clock_verb_handlers[] = {
	{"clock", reply_clock}, {"cycles", clock_reply_cycles}, {}};

void clock_put_status(void *self, json_t *status)
{
	json_t *object = json_object();
	struct clock_facts clock;

	clock_get(self, &clock);
	json_put_text(object, "state", clock_state_name(clock.state));
	if (clock.known)
		json_put_integer(object, "bound_ns", clock.bound_ns);
	json_put_count(object, "peers_used", clock.used);
	json_put_count(object, "peers_configured", clock.degree);
	json_put_text(object, "timestamp_source", "xdp");
	json_put_text(object, "tai_note", clock.tai_note);
	json_put(status, "clock", object);
}
