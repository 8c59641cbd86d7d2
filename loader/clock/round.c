// SPDX-License-Identifier: BSD-2-Clause
/* A round, four times a second: fits, consensus, the model for all that read it, events. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "core/core.h"
#include "internal.h"

#define SECOND_NS 1000000000ll
#define Q40 1099511627776.0
/*
 * What a host's own two directions may differ by, halved, that no loop of the graph can show:
 * both ends take timestamps in tc egress and in XDP, so it is what two hosts' kernels differ by
 * between the timestamp and the wire.
 */
#define ASYMMETRY_SOFTWARE_NS 30.0
/* A reply leaves from XDP, a request from tc: measured 190 ns apart, halved. */
#define ASYMMETRY_ONE_SIDED_NS 95.0
#define DOWN_STRETCH 10 /* of the interval, for a peer that is down: 20 ms until it is back */
#define REFUSED_REPORT_NS (2 * SECOND_NS)
#define FALSETICKER_REPORT_NS (10 * SECOND_NS)
/* An older model is of another boot of the machine. */
#define TAKE_AGE_MAX_NS (3600 * SECOND_NS)

/* --- over a restart --- */

void clock_start_host(struct clock *clock)
{
	const struct esc_clock *map = clock->map;
	int64_t now_ns = clock_local_at(clock, time_local_ns());
	struct hostclock_config config = {
		.degree = 1, .round_ns = HOSTCLOCK_ROUND_NS, .asymmetry_ns = ASYMMETRY_SOFTWARE_NS};
	const struct clock_model *model = &map->slot[map->generation & 1];
	int64_t age_ns = now_ns - model->bound_local_ns;
	struct hostclock *host = &clock->host;
	struct consensus *consensus = &host->consensus;

	hostclock_init(host, &config, now_ns);
	clock->reported_state = CLOCK_FREE_RUNNING;
	if (!map->generation || model->state == CLOCK_FREE_RUNNING || age_ns < 0 ||
	    age_ns > TAKE_AGE_MAX_NS)
		return;
	/*
	 * The clock continues from the model that the daemon before published, as in holdover:
	 * readers never see a step.
	 */
	host->model = *model;
	host->state = clock->reported_state = CLOCK_HOLDOVER;
	consensus->line = (struct clock_line){
		.local_ns = model->turn_local_ns,
		.fabric_ns = model->turn_fabric_ns,
		.rate_ppb = model->rate / Q40 * 1e9,
	};
	consensus->line = clock_line_move(&consensus->line, now_ns, 0);
	consensus->has_line = true;
	consensus->generation = model->generation;
	consensus->last_used_ns = model->bound_local_ns;
	/* It agreed with the fleet: an offset from it is slewed, not stepped. */
	consensus->last_whole_ns = model->bound_local_ns;
	clock->model_taken = true;
}

/* --- fits --- */

/* Which probes the peer's direction is measured by; a change begins the edge's window anew. */
static void choose_side(struct clock *clock, struct clock_edge *edge, int64_t now_ns)
{
	bool requests = edge->request_local_ns && now_ns - edge->request_local_ns < SECOND_NS;
	bool replies = edge->reply_local_ns && now_ns - edge->reply_local_ns < SECOND_NS;
	bool one_sided = edge->one_sided;

	if (requests)
		one_sided = false;
	else if (replies && now_ns - edge->begun_local_ns > 2 * SECOND_NS)
		one_sided = true;
	if (one_sided == edge->one_sided)
		return;
	edge->one_sided = one_sided;
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	clock_report(clock, one_sided ? CLOCK_PEER_ONE_SIDED : CLOCK_PEER_TWO_SIDED, edge->host,
		     NULL);
}

static const struct clock_view *fresh_view(const struct clock_edge *edge, int64_t now_ns)
{
	if (!edge->view_known || now_ns - edge->view_fresh_ns > CLOCK_VIEW_FRESH_NS)
		return NULL;
	return &edge->view;
}

static void fit(struct clock *clock, struct clock_edge *edge, int64_t now_ns)
{
	int64_t base_ns = (int64_t)clock->core->config->mesh.pair_interval_ns;
	struct edge_prior prior;

	choose_side(clock, edge, now_ns);
	prior = consensus_prior(&clock->host.consensus, fresh_view(edge, now_ns));
	edge_fit(&edge->fit, now_ns, &prior, &clock->scratch);
	if (clock->listener)
		clock->listener->fitted(clock->listener_context, edge, now_ns);
	edge->pair_interval_ns =
		edge->down ? base_ns * DOWN_STRETCH : edge_pair_interval(&edge->fit, base_ns);
}

/*
 * Edges may want more pairs than the configuration's mean where others want fewer, never all of
 * them: probes that cause the load they suffer from would call for more and more probes.
 */
static void spread_budget(struct clock *clock)
{
	double base_ns = (double)clock->core->config->mesh.pair_interval_ns;
	double wanted = 0, edges = 0, stretch;
	struct clock_edge *edge;

	for_each_edge (clock, edge) {
		wanted += base_ns / (double)edge->pair_interval_ns;
		edges++;
	}
	stretch = wanted > edges ? wanted / edges : 1;
	for_each_edge (clock, edge) {
		edge->pair_interval_ns = (int64_t)((double)edge->pair_interval_ns * stretch);
		if (edge->sending)
			sender_set_interval(edge->sending, (uint64_t)edge->pair_interval_ns);
	}
}

static size_t fit_all(struct clock *clock, int64_t now_ns,
		      struct consensus_input input[CONSENSUS_PEERS_MAX])
{
	struct clock_edge *edge;
	bool one_sided = false;
	size_t count = 0;

	memset(input, 0, CONSENSUS_PEERS_MAX * sizeof(*input));
	for_each_edge (clock, edge) {
		fit(clock, edge, now_ns);
		if (edge->slot >= CONSENSUS_PEERS_MAX)
			continue;
		one_sided = one_sided || edge->one_sided;
		input[edge->slot] = (struct consensus_input){
			.edge = &edge->fit.estimate,
			.view = fresh_view(edge, now_ns),
			.view_age_ns = now_ns - edge->view_local_ns,
		};
		count = edge->slot + 1;
	}
	spread_budget(clock);
	clock->host.config.asymmetry_ns =
		ASYMMETRY_SOFTWARE_NS + (one_sided ? ASYMMETRY_ONE_SIDED_NS : 0);
	return count;
}

/* --- events --- */

static void report_state(struct clock *clock)
{
	const struct hostclock *host = &clock->host;
	json_t *seen;

	if (host->state == clock->reported_state)
		return;
	seen = json_pack("{s:s, s:i, s:i}", "before", clock_state_name(clock->reported_state),
			 "reachable", (int)host->consensus.heard, "used",
			 (int)host->consensus.used);
	if (host->state != CLOCK_FREE_RUNNING)
		json_object_set_new(seen, "bound_ns", json_integer(host->model.bound_ns));
	log_info("the clock is %s", clock_state_name(host->state));
	clock_report(clock, CLOCK_STATE, clock_state_name(host->state), seen);
	clock->reported_state = host->state;
}

static json_t *estimate_json(const struct consensus_peer *peer)
{
	return json_pack("{s:s, s:f, s:f}", "reason",
			 peer->status == CONSENSUS_REFUSED_DRIFT ? "drift" : "offset", "offset_ns",
			 peer->offset_ns, "drift_ppb", peer->drift_ppb);
}

/* Refused for long while the others agree: it is a falseticker, or its path is asymmetric. */
static void report_peer(struct clock *clock, struct clock_edge *edge, int64_t now_ns)
{
	const struct consensus_peer *peer = &clock->host.consensus.peers[edge->slot];
	int64_t refused_ns = peer->refused_since_ns ? now_ns - peer->refused_since_ns : 0;

	if (peer->status == CONSENSUS_USED) {
		if (edge->refused_reported)
			clock_report(clock, CLOCK_ACCEPTED, edge->host, NULL);
		edge->refused_reported = edge->falseticker_reported = false;
		return;
	}
	if (peer->status == CONSENSUS_ABSENT || clock->host.state != CLOCK_SYNCED)
		return;
	if (refused_ns > REFUSED_REPORT_NS && !edge->refused_reported) {
		edge->refused_reported = true;
		clock_report(clock, CLOCK_REFUSED, edge->host, estimate_json(peer));
	}
	if (refused_ns > FALSETICKER_REPORT_NS && !edge->falseticker_reported) {
		edge->falseticker_reported = true;
		log_warning("peer %s is a falseticker: its time is %.0f ns off that of the others "
			    "for %lld s, and is not used for the clock",
			    edge->host, -peer->offset_ns, (long long)(refused_ns / SECOND_NS));
		clock_report(clock, CLOCK_FALSETICKER, edge->host, estimate_json(peer));
	}
}

void clock_round(struct clock *clock, uint64_t now_ns)
{
	struct consensus_input input[CONSENSUS_PEERS_MAX];
	int64_t local_ns = clock_local_at(clock, now_ns);
	struct clock_edge *edge;
	struct clock_view view;
	size_t count;

	if (!clock->runs)
		return;
	count = fit_all(clock, local_ns, input);
	/* The fits took a while: the round's time is when its model begins. */
	local_ns = clock_local_at(clock, time_local_ns());
	hostclock_round(&clock->host, local_ns, input, count);
	hostclock_view(&clock->host, &view);
	clock_write_view(clock, &view);
	if (clock->host.model.generation)
		clock_write_model(clock);
	clock_anchor_round(clock, local_ns);
	clock->rounds++;
	report_state(clock);
	for_each_edge (clock, edge)
		if (edge->slot < CONSENSUS_PEERS_MAX)
			report_peer(clock, edge, local_ns);
}
