// SPDX-License-Identifier: BSD-2-Clause
/* This host's clock: a round four times a second, and its result to all who read it. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "page.h"
#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "mesh/internal.h"

#define SECOND_NS 1000000000ll
#define Q40 1099511627776.0
/*
 * What a host's own two directions may differ by, halved, that no loop of the
 * graph can show: both ends stamp in tc egress and in XDP, so it is what two
 * hosts' kernels differ by between the stamp and the wire.
 */
#define ASYMMETRY_SOFTWARE_NS 30.0
/* A reply leaves from XDP, a request from tc: measured 190 ns apart, halved. */
#define ASYMMETRY_ONE_SIDED_NS 95.0
#define DOWN_STRETCH 10 /* of the interval, for a peer that is down: 20 ms until it is back */
#define REFUSED_TELL_NS (2 * SECOND_NS)
#define LIAR_TELL_NS (10 * SECOND_NS)
/* A model older than that is of another life of the machine's clock. */
#define TAKE_AGE_MAX_NS (3600 * SECOND_NS)

/* --- over a restart --- */

/*
 * The clock goes on from the model that the daemon before us published, as in
 * holdover: readers never see a step.
 */
static void clock_resume(struct mesh *mesh, const struct clock_model *model, int64_t now_ns)
{
	struct hostclock *clock = &mesh->clock;
	struct consensus *consensus = &clock->consensus;

	clock->model = *model;
	clock->state = CLOCK_HOLDOVER;
	consensus->line = (struct clock_line){
		.local_ns = model->turn_local_ns,
		.fabric_ns = model->turn_fabric_ns,
		.rate_ppb = model->rate / Q40 * 1e9,
	};
	consensus->line = clock_line_move(&consensus->line, now_ns, 0);
	consensus->has_line = true;
	consensus->generation = model->generation;
	consensus->last_used_ns = model->bound_local_ns;
	/* It was in step with the fleet: what comes is slewed to. */
	consensus->last_whole_ns = model->bound_local_ns;
	mesh->model_taken = true;
}

void mesh_clock_open(struct mesh *mesh)
{
	const struct esc_clock *map = mesh->maps.clock;
	int64_t now_ns = mesh_local_ns(mesh, mesh_monotonic_ns());
	struct hostclock_config config = {
		.degree = 1, .round_ns = HOSTCLOCK_ROUND_NS, .asymmetry_ns = ASYMMETRY_SOFTWARE_NS};
	const struct clock_model *model = &map->slot[map->generation & 1];
	int64_t age_ns = now_ns - model->bound_local_ns;

	hostclock_init(&mesh->clock, &config, now_ns);
	mesh->told_state = CLOCK_FREE_RUNNING;
	if (!map->generation || model->state == CLOCK_FREE_RUNNING || age_ns < 0 ||
	    age_ns > TAKE_AGE_MAX_NS)
		return;
	clock_resume(mesh, model, now_ns);
	mesh->told_state = CLOCK_HOLDOVER;
}

void mesh_clock_configure(struct mesh *mesh)
{
	const struct config *config = mesh->daemon->config;
	const struct members *members = fleet_members(mesh->daemon->core.fleet);
	unsigned int degree = mesh_plane_edges(mesh, FLEET_PLANE_BACKEND) +
			      mesh_plane_edges(mesh, FLEET_PLANE_FRONTEND);
	bool on = mesh->planes[0].on || mesh->planes[1].on;
	struct roster all;

	mesh->clock.config.degree = degree;
	mesh->clock.consensus.degree = degree;
	if (on && members && !roster_build_all(&all, members, config->host)) {
		if (all.self != ROSTER_NOBODY)
			mesh->clock.config.rank = graph_rank(all.ids, all.count, all.self, 0);
		roster_free(&all);
	}
	if (on && !mesh->clock_runs)
		mesh->clock.consensus.first_round_ns = mesh_local_ns(mesh, mesh_monotonic_ns());
	mesh->clock_runs = mesh->clock_runs || on || mesh->model_taken;
}

/* --- a round --- */

/* From which probes the peer's direction is known; a change begins the edge's window anew. */
static void edge_choose_side(struct mesh *mesh, struct mesh_edge *edge, int64_t now_ns)
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
	edge_init(&edge->edge, (int64_t)mesh->daemon->config->clock.window_ns);
	events_record(mesh->daemon->ledger, one_sided ? "peer_one_sided" : "peer_two_sided",
		   edge->host, NULL, NULL, NULL, NULL);
}

static const struct clock_view *edge_view(const struct mesh_edge *edge, int64_t now_ns)
{
	if (!edge->view_known || now_ns - edge->view_fresh_ns > MESH_VIEW_ROUNDS_NS)
		return NULL;
	return &edge->view;
}

static void edge_round(struct mesh *mesh, struct mesh_edge *edge, int64_t now_ns)
{
	int64_t base_ns = (int64_t)mesh->daemon->config->mesh.pair_interval_ns;
	const struct clock_view *view = edge_view(edge, now_ns);
	struct edge_prior prior;

	edge_choose_side(mesh, edge, now_ns);
	prior = consensus_prior(&mesh->clock.consensus, view);
	edge_fit(&edge->edge, now_ns, &prior, &mesh->scratch);
	mesh_path_round(mesh, edge, now_ns);
	edge->pair_interval_ns = base_ns * DOWN_STRETCH;
	if (edge->state != PEER_DOWN)
		edge->pair_interval_ns = edge_pair_interval(&edge->edge, base_ns);
}

/*
 * Edges may want more pairs than the configuration's mean where others want
 * fewer, never all of them: probes that make the load they suffer from would
 * call for more and more of themselves.
 */
static void spread_budget(struct mesh *mesh)
{
	double base_ns = (double)mesh->daemon->config->mesh.pair_interval_ns;
	double wanted = 0, edges = 0, stretch;

	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++)
		if (mesh->edges[slot]) {
			wanted += base_ns / (double)mesh->edges[slot]->pair_interval_ns;
			edges++;
		}
	stretch = wanted > edges ? wanted / edges : 1;
	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++) {
		struct mesh_edge *edge = mesh->edges[slot];

		if (!edge)
			continue;
		edge->pair_interval_ns = (int64_t)((double)edge->pair_interval_ns * stretch);
		if (edge->sending)
			sender_set_interval(edge->sending, (uint64_t)edge->pair_interval_ns);
	}
}

static size_t gather(struct mesh *mesh, int64_t now_ns,
		     struct consensus_input input[CONSENSUS_PEERS_MAX])
{
	bool one_sided = false;
	size_t count = 0;

	memset(input, 0, CONSENSUS_PEERS_MAX * sizeof(*input));
	for (size_t slot = 0; slot < MESH_EDGES_MAX; slot++) {
		struct mesh_edge *edge = mesh->edges[slot];

		if (!edge)
			continue;
		edge_round(mesh, edge, now_ns);
		if (slot >= CONSENSUS_PEERS_MAX)
			continue;
		one_sided = one_sided || edge->one_sided;
		input[slot].edge = &edge->edge.estimate;
		input[slot].view = edge_view(edge, now_ns);
		input[slot].view_age_ns = now_ns - edge->view_local_ns;
		count = slot + 1;
	}
	spread_budget(mesh);
	mesh->clock.config.asymmetry_ns =
		ASYMMETRY_SOFTWARE_NS + (one_sided ? ASYMMETRY_ONE_SIDED_NS : 0);
	return count;
}

static void publish(struct mesh *mesh)
{
	struct esc_clock *map = mesh->maps.clock;
	uint64_t generation = map->generation + 1;
	struct clock_view view;

	hostclock_view(&mesh->clock, &view);
	mesh_write_view(mesh, &view);
	if (!mesh->clock.model.generation)
		return;
	map->slot[generation & 1] = mesh->clock.model;
	__atomic_store_n(&map->generation, generation, __ATOMIC_RELEASE);
	if (mesh->page)
		clockpage_write(mesh->page, &mesh->clock.model);
}

/* --- events --- */

static void tell_state(struct mesh *mesh)
{
	const struct hostclock *clock = &mesh->clock;
	json_t *seen;

	if (clock->state == mesh->told_state)
		return;
	seen = json_pack("{s:s, s:i, s:i}", "before", clock_state_name(mesh->told_state), "heard",
			 (int)clock->consensus.heard, "used", (int)clock->consensus.used);
	if (clock->state != CLOCK_FREE_RUNNING)
		json_object_set_new(seen, "bound_ns", json_integer(clock->model.bound_ns));
	log_info("the clock is %s", clock_state_name(clock->state));
	events_record(mesh->daemon->ledger, "clock_state", clock_state_name(clock->state), seen, NULL,
		   NULL, NULL);
	mesh->told_state = clock->state;
}

static json_t *word_json(const struct consensus_peer *peer)
{
	return json_pack("{s:s, s:f, s:f}", "refused_for",
			 peer->verdict == CONSENSUS_REFUSED_DRIFT ? "drift" : "offset", "offset_ns",
			 peer->offset_ns, "drift_ppb", peer->drift_ppb);
}

/* Refused for long while the others agree: it lies, or its path is uneven. */
static void tell_peer(struct mesh *mesh, size_t slot, int64_t now_ns)
{
	const struct consensus_peer *peer = &mesh->clock.consensus.peers[slot];
	struct mesh_edge *edge = mesh->edges[slot];
	int64_t refused_ns = peer->refused_since_ns ? now_ns - peer->refused_since_ns : 0;

	if (peer->verdict == CONSENSUS_USED) {
		if (edge->refused_told)
			events_record(mesh->daemon->ledger, "clock_accepted", edge->host, NULL, NULL,
				   NULL, NULL);
		edge->refused_told = edge->liar_told = false;
		return;
	}
	if (peer->verdict == CONSENSUS_ABSENT || mesh->clock.state != CLOCK_SYNCED)
		return;
	if (refused_ns > REFUSED_TELL_NS && !edge->refused_told) {
		edge->refused_told = true;
		events_record(mesh->daemon->ledger, "clock_refused", edge->host, word_json(peer), NULL,
			   NULL, NULL);
	}
	if (refused_ns > LIAR_TELL_NS && !edge->liar_told) {
		edge->liar_told = true;
		log_warning(
			"peer %s says another time than the others, %.0f ns off, for %lld s: it "
			"is left out of the clock",
			edge->host, -peer->offset_ns, (long long)(refused_ns / SECOND_NS));
		events_record(mesh->daemon->ledger, "clock_liar", edge->host, word_json(peer), NULL,
			   NULL, NULL);
	}
}

void mesh_clock_round(struct mesh *mesh, uint64_t now_ns)
{
	struct consensus_input input[CONSENSUS_PEERS_MAX];
	int64_t local_ns = mesh_local_ns(mesh, now_ns);
	size_t count;

	if (!mesh->clock_runs)
		return;
	count = gather(mesh, local_ns, input);
	/* The fits took a while: the round's time is when its model begins. */
	local_ns = mesh_local_ns(mesh, mesh_monotonic_ns());
	hostclock_round(&mesh->clock, local_ns, input, count);
	publish(mesh);
	mesh_anchor_round(mesh, local_ns);
	mesh->rounds++;
	tell_state(mesh);
	for (size_t slot = 0; slot < CONSENSUS_PEERS_MAX; slot++)
		if (mesh->edges[slot])
			tell_peer(mesh, slot, local_ns);
}
