// SPDX-License-Identifier: BSD-2-Clause
/*
 * Records of probes into the edges; and a round, four times a second: fits, consensus, the model
 * for all that read it, events.
 */
#include <bpf/libbpf.h>
#include <string.h>

#include "base/log.h"
#include "base/now.h"
#include "internal.h"

#define SECOND_NS 1000000000ll
/*
 * What a host's own two directions may differ by, halved, that no loop of the graph can show:
 * both ends take timestamps in tc egress and in XDP, so it is what two hosts' kernels differ by
 * between the timestamp and the wire.
 */
#define ASYMMETRY_SOFTWARE_NS 30.0
/* A reply leaves from XDP, a request from tc: measured 190 ns apart, halved. */
#define ASYMMETRY_ONE_SIDED_NS 95.0
#define SLEW_READINGS 5 /* the narrowest counts */
#define DOWN_STRETCH 10 /* of the interval, for a peer that is down: 20 ms until it is back */
#define REFUSED_REPORT_NS (2 * SECOND_NS)
#define FALSETICKER_REPORT_NS (10 * SECOND_NS)
/* An older model is of another boot of the machine. */
#define TAKE_AGE_MAX_NS (3600 * SECOND_NS)

/* --- records --- */

/* Once for all edges to the host; a part of its own ends what was reported of the edge. */
static void report_restart(struct clock *clock, const struct clock_edge *edge, uint64_t epoch)
{
	struct clock_place *place =
		edge->place == CLOCK_PLACE_NONE ? NULL : &clock->places[edge->place];

	if (edge->one_sided || !place || place->epoch != epoch)
		clock_report_edge(clock, edge, CLOCK_PEER_RESTARTED, NULL);
	if (place)
		place->epoch = epoch;
}

void clock_restart_edge(struct clock *clock, struct clock_edge *edge, uint64_t epoch,
			int64_t now_ns)
{
	if (edge->epoch && edge->epoch != epoch)
		report_restart(clock, edge, epoch);
	else if (edge->one_sided)
		clock_report_edge(clock, edge, CLOCK_PEER_TWO_SIDED, NULL);
	edge->epoch = epoch;
	edge->begun_local_ns = now_ns;
	edge->view_known = false;
	edge->anchor.sequence = 0;
	edge->request_local_ns = edge->reply_local_ns = 0;
	edge->one_sided = false;
	edge->known.valid = false;
	edge->early_ns[CLOCK_FORWARD] = edge->early_ns[CLOCK_BACKWARD] = 0;
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	passages_clear(&edge->out);
	passages_clear(&edge->in);
	passages_clear(&edge->back);
}

/*
 * A view that stays the same for more rounds than get lost is of a daemon that is gone: the kernel
 * programs go on replying for a while. Its age counts from when it last changed.
 */
static void take_view(struct clock_edge *edge, const struct esc_probe_event *event,
		      int64_t local_ns)
{
	if (!(event->flags & ESC_PROBE_VIEW))
		return;
	if (!edge->view_known || edge->view.generation != event->view_generation ||
	    edge->view.ref_local_ns != event->view_ref_local_ns)
		edge->view_fresh_ns = local_ns;
	edge->view = (struct clock_view){
		.ref_local_ns = event->view_ref_local_ns,
		.ref_fabric_ns = event->view_ref_fabric_ns,
		.rate_q40 = event->view_rate_q40,
		.ref_fraction = event->view_ref_fraction,
		.bound_ns = event->view_bound_ns,
		.generation = event->view_generation,
		.reach = event->view_reach,
		.state = event->view_state,
	};
	edge->view_known = true;
	edge->view_local_ns = local_ns;
}

/* What the peer reports of the direction to it, and of its NICs. */
static void take_reports(struct clock *clock, struct clock_edge *edge,
			 const struct esc_probe_event *event, int64_t local_ns)
{
	int64_t age_ns = event->received_age_us * 1000ll;

	if (event->received_age_us != ESC_PROBE_NEVER &&
	    local_ns - age_ns > edge->confirmed_local_ns)
		edge->confirmed_local_ns = local_ns - age_ns;
	if (clock->listener)
		clock->listener->reported(clock->listener_context, edge, event->view_nic_report,
					  local_ns);
}

static void take_reply(struct clock *clock, struct clock_edge *edge,
		       const struct esc_probe_event *event, int64_t now_ns)
{
	struct clock_probe forward = {(int64_t)event->t1, (int64_t)event->t2, event->pair};
	struct clock_probe backward = {(int64_t)event->t3, (int64_t)event->t4, event->pair};

	edge->replies++;
	edge->reply_local_ns = (int64_t)event->t4;
	losses_reply(&edge->losses, event->sequence);
	if (event->flags & ESC_PROBE_QUERY)
		return; /* of no pair: no warm-up packet preceded it */
	if (!clock_check_passage(clock, edge, CLOCK_BACKWARD, &backward) ||
	    !clock_check_passage(clock, edge, CLOCK_FORWARD, &forward))
		return;
	passages_add(&edge->out, (int64_t)event->t1, (int64_t)event->t2);
	passages_add(&edge->back, (int64_t)event->t3, (int64_t)event->t4);
	edge_add(&edge->fit, CLOCK_FORWARD, &forward, now_ns);
	if (edge->one_sided)
		edge_add(&edge->fit, CLOCK_BACKWARD, &backward, now_ns);
}

/*
 * The peer's request went from tc egress to XDP, as ours do, so that what the two directions have
 * in common cancels; a reply leaves from XDP.
 */
static void take_request(struct clock *clock, struct clock_edge *edge,
			 const struct esc_probe_event *event, int64_t now_ns)
{
	struct clock_probe backward = {(int64_t)event->t1, (int64_t)event->t2, event->pair};

	edge->requests++;
	edge->request_local_ns = (int64_t)event->t2;
	if (event->flags & ESC_PROBE_QUERY)
		return;
	if (!clock_check_passage(clock, edge, CLOCK_BACKWARD, &backward))
		return;
	passages_add(&edge->in, (int64_t)event->t1, (int64_t)event->t2);
	if (!edge->one_sided)
		edge_add(&edge->fit, CLOCK_BACKWARD, &backward, now_ns);
}

/* NULL: it is of no neighbor. */
static struct clock_edge *edge_of(const struct clock *clock, const struct esc_probe_event *event)
{
	bool frontend = event->flags & ESC_PROBE_PLANE;
	uint8_t plane = frontend ? FLEET_PLANE_FRONTEND : FLEET_PLANE_BACKEND;

	for (size_t slot = 0; slot < clock->slots; slot++) {
		const struct clock_edge_key *key = &clock->keys[slot];

		if (key->id == event->peer && key->nic == event->nic && key->plane == plane &&
		    key->port == event->port && clock->edges[slot])
			return clock->edges[slot];
	}
	return NULL;
}

int clock_take_record(void *context, void *data, size_t bytes)
{
	const struct esc_probe_event *event = data;
	struct clock *clock = context;
	struct clock_edge *from;
	int64_t now_ns = clock->read_local_ns;
	bool reply;

	if (bytes < sizeof(*event))
		return 0;
	reply = event->kind == ESC_PROBE_EVENT_REPLY;
	if (reply && event->flags & ESC_PROBE_QUERY && clock->listener)
		clock->listener->query_replied(clock->listener_context, event);
	from = edge_of(clock, event);
	/* Of no neighbor, or in the ring while the peer restarted. XDP checked a reply's epoch. */
	if (!from || (event->epoch < from->epoch && !reply))
		return 0;
	if (event->epoch != from->epoch)
		clock_restart_edge(clock, from, event->epoch, now_ns);
	take_view(from, event, (int64_t)(reply ? event->t4 : event->t2));
	take_reports(clock, from, event, (int64_t)(reply ? event->t4 : event->t2));
	from->anchor = (struct anchor_report){
		.ref_fabric_ns = event->anchor_ref_fabric_ns,
		.ahead_ns = event->anchor_ahead_ns,
		.rate_q40 = event->anchor_rate_q40,
		.sequence = event->anchor_sequence,
		.bound_ns = event->anchor_bound_ns,
		.anchor = event->anchor_id,
		.hops = event->anchor_hops,
	};
	if (reply)
		take_reply(clock, from, event, now_ns);
	else if (event->kind == ESC_PROBE_EVENT_REQUEST)
		take_request(clock, from, event, now_ns);
	return 0;
}

void clock_read_records(struct clock *clock)
{
	clock->read_local_ns = clock_local_at(clock, time_local_ns());
	ring_buffer__consume(clock->ring);
}

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
	clock->suspended_ns = time_suspended_ns();
	if (map->suspended_ns &&
	    (int64_t)(clock->suspended_ns - map->suspended_ns) > ESC_SUSPENDED_MIN_NS)
		return;
	if (!map->generation || model->state == CLOCK_FREE_RUNNING || age_ns < 0 ||
	    age_ns > TAKE_AGE_MAX_NS)
		return;
	/* Continues from the model of the previous daemon, as in holdover: readers see no step. */
	host->model = *model;
	host->state = clock->reported_state = CLOCK_HOLDOVER;
	consensus->line = (struct clock_line){
		.local_ns = model->slew_end_local_ns,
		.fabric_ns = model->slew_end_fabric_ns,
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

/* Which probes measure the peer's direction; a change restarts the edge's window. */
static void choose_side(struct clock *clock, struct clock_edge *edge, int64_t now_ns)
{
	bool requests = edge->request_local_ns && now_ns - edge->request_local_ns < SECOND_NS;
	bool replies = edge->reply_local_ns && now_ns - edge->reply_local_ns < SECOND_NS;
	bool one_sided = edge->one_sided;

	if (requests)
		one_sided = false;
	else if (replies && !edge->restarts && now_ns - edge->begun_local_ns > 2 * SECOND_NS)
		one_sided = true;
	if (one_sided == edge->one_sided)
		return;
	edge->one_sided = one_sided;
	edge_init(&edge->fit, (int64_t)clock->core->config->clock.window_ns);
	clock_report_edge(clock, edge, one_sided ? CLOCK_PEER_ONE_SIDED : CLOCK_PEER_TWO_SIDED,
			  NULL);
}

static const struct clock_view *fresh_view(const struct clock_edge *edge, int64_t now_ns)
{
	if (!edge->view_known || now_ns - edge->view_fresh_ns > CLOCK_VIEW_FRESH_NS)
		return NULL;
	return &edge->view;
}

/* A neighbor for the consensus: the edges to it as one, and the newest of what it sent. */
static size_t gather_inputs(struct clock *clock, int64_t now_ns,
			    struct consensus_input input[CONSENSUS_PEERS_MAX])
{
	const struct clock_edge *edge;
	size_t count = 0;

	memset(input, 0, CONSENSUS_PEERS_MAX * sizeof(*input));
	for_each_edge (clock, edge) {
		const struct clock_view *view = fresh_view(edge, now_ns);
		int64_t age_ns = now_ns - edge->view_local_ns;
		struct consensus_input *in;

		if (edge->place == CLOCK_PLACE_NONE)
			continue;
		in = &input[edge->place];
		in->edge = &clock->places[edge->place].estimate;
		if (view && (!in->view || age_ns < in->view_age_ns)) {
			in->view = view;
			in->view_age_ns = age_ns;
		}
		if (edge->place >= count)
			count = edge->place + 1;
	}
	return count;
}

static size_t fit_all(struct clock *clock, int64_t now_ns,
		      struct consensus_input input[CONSENSUS_PEERS_MAX])
{
	int64_t base_ns = (int64_t)clock->core->config->mesh.pair_interval_ns;
	const struct clock_view *view;
	struct edge_prior prior;
	struct clock_edge *edge;
	bool one_sided = false;
	double pairs = 0, stretch;

	for_each_edge (clock, edge) {
		choose_side(clock, edge, now_ns);
		view = fresh_view(edge, now_ns);
		slew_peer(&edge->fit, view, now_ns, &clock->scratch);
		prior = consensus_prior(&clock->host.consensus, view);
		if (!edge_fit(&edge->fit, now_ns, &prior, &clock->scratch))
			edge->known = edge->fit.estimate;
		if (clock->listener)
			clock->listener->fitted(clock->listener_context, edge, now_ns);
		edge->pair_interval_ns = edge->down ? base_ns * DOWN_STRETCH
						    : edge_pair_interval(&edge->fit, base_ns);
		pairs += (double)base_ns / (double)edge->pair_interval_ns;
		one_sided = one_sided || (edge->one_sided && edge->place != CLOCK_PLACE_NONE);
	}
	stretch = edge_stretch(pairs, clock->pairs);
	for_each_edge (clock, edge) {
		edge->pair_interval_ns = (int64_t)((double)edge->pair_interval_ns * stretch);
		if (edge->sending)
			sender_set_interval(edge->sending, (uint64_t)edge->pair_interval_ns);
	}
	clock_compare_nics(clock, now_ns);
	clock_combine_edges(clock);
	clock->host.config.asymmetry_ns = ASYMMETRY_SOFTWARE_NS +
					  (one_sided ? ASYMMETRY_ONE_SIDED_NS : 0) +
					  clock_nics_spread_ns(clock);
	return gather_inputs(clock, now_ns, input);
}

/* --- events --- */

static json_t *estimate_json(const struct consensus_peer *peer)
{
	return json_pack("{s:s, s:f, s:f}", "reason",
			 peer->status == CONSENSUS_REFUSED_DRIFT ? "drift" : "offset", "offset_ns",
			 peer->offset_ns, "drift_ppb", peer->drift_ppb);
}

static void report_place(const struct clock *clock, const struct clock_place *place,
			 unsigned int kind, json_t *seen)
{
	events_add(clock->core->events, &(struct event){.kind = &clock_events[kind],
							.subject = place->host,
							.part = place->part,
							.seen = seen});
}

void clock_report_place(struct clock *clock, struct clock_place *place, int64_t now_ns)
{
	const struct consensus_peer *peer = &clock->host.consensus.peers[place - clock->places];
	int64_t apart_ns = peer->apart_since_ns ? now_ns - peer->apart_since_ns : 0;

	if (peer->status == CONSENSUS_ABSENT)
		return;
	if (!peer->apart_since_ns) {
		if (place->refused_reported)
			report_place(clock, place, CLOCK_ACCEPTED, NULL);
		place->refused_reported = place->falseticker_reported = false;
		return;
	}
	if (clock->host.state != CLOCK_SYNCED)
		return;
	if (apart_ns > REFUSED_REPORT_NS && !place->refused_reported) {
		place->refused_reported = true;
		report_place(clock, place, CLOCK_REFUSED, estimate_json(peer));
	}
	if (apart_ns > FALSETICKER_REPORT_NS && !place->falseticker_reported) {
		place->falseticker_reported = true;
		log_warning("peer %s is a falseticker: its time is %.0f ns off that of the others "
			    "for %lld s, and is not used for the clock",
			    place->host, -peer->offset_ns, (long long)(apart_ns / SECOND_NS));
		report_place(clock, place, CLOCK_FALSETICKER, estimate_json(peer));
	}
}

/* NTP slews the local clock: its rate against that of CLOCK_MONOTONIC_RAW, which nothing slews. */
static void follow_slew(struct clock *clock)
{
	struct slew_reading reading = {.width_ns = INT64_MAX};
	struct slew_change change;
	struct clock_edge *edge;
	bool changed;

	for (int i = 0; i < SLEW_READINGS; i++) {
		uint64_t before_ns = time_local_ns(), raw_ns = now_clock_ns(CLOCK_MONOTONIC_RAW);
		int64_t width_ns = (int64_t)(time_local_ns() - before_ns);

		if (width_ns >= reading.width_ns)
			continue;
		reading.local_ns = clock_local_at(clock, before_ns + (uint64_t)width_ns / 2);
		reading.raw_ns = (int64_t)raw_ns;
		reading.width_ns = width_ns;
	}
	changed = slew_add(&clock->slew, &reading, &change);
	clock->host.slew_ppb = clock->slew.peak_ppb;
	if (!changed)
		return;
	slew_host(&clock->host, &change);
	for_each_edge (clock, edge)
		slew_edge(&edge->fit, &change);
}

void clock_tick(struct clock *clock, uint64_t now_ns)
{
	struct consensus_input input[CONSENSUS_PEERS_MAX];
	int64_t local_ns = clock_local_at(clock, now_ns);
	const struct hostclock *host = &clock->host;
	struct clock_view view;
	json_t *seen;
	size_t count;

	clock_check_suspended(clock, time_suspended_ns());
	if (now_ns < clock->round_due_ns)
		return;
	clock->round_due_ns += HOSTCLOCK_ROUND_NS;
	if (clock->round_due_ns <= now_ns)
		clock->round_due_ns = now_ns + HOSTCLOCK_ROUND_NS;
	if (!clock->runs)
		return;
	clock_restart_early(clock, local_ns);
	follow_slew(clock);
	count = fit_all(clock, local_ns, input);
	/* The fits took a while: the round's time is when its model begins. */
	local_ns = clock_local_at(clock, time_local_ns());
	hostclock_round(&clock->host, local_ns, input, count);
	hostclock_view(host, &view);
	clock_write_view(clock, &view);
	if (host->model.generation)
		clock_write_model(clock);
	clock_anchor_round(clock, local_ns);
	clock_cycles_round(clock, local_ns);
	clock->rounds++;

	if (host->state != clock->reported_state) {
		seen = json_pack("{s:s, s:i, s:i}", "before",
				 clock_state_name(clock->reported_state), "reachable",
				 (int)host->consensus.reports, "used", (int)host->consensus.used);
		if (host->state != CLOCK_FREE_RUNNING)
			json_object_set_new(seen, "bound_ns", json_integer(host->model.bound_ns));
		log_info("the clock is %s", clock_state_name(host->state));
		clock_report(clock, CLOCK_STATE, clock_state_name(host->state), seen);
		clock->reported_state = host->state;
	}
	for (size_t i = 0; i < CONSENSUS_PEERS_MAX; i++)
		if (clock->places[i].edges)
			clock_report_place(clock, &clock->places[i], local_ns);
}
