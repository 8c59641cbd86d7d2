// SPDX-License-Identifier: BSD-2-Clause
#include "mesh.h"

#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/log.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "net/rtnl.h"

#define TICK_SLACK_NS 5000000
#define RETRY_NS 5000000000ull /* of what could not be opened: it costs a pass over all members */
/* Requests of a peer that are replied to, times what it sends (a quarter of the interval). */
#define REPLY_ROOM 4
#define REPLY_LEAST_PPS 2000
/* Entries of the maps of members: some 2 us each, of a tick of 20 ms. */
#define WRITES_PER_TICK 2048
#define WRITES_AT_ONCE 4096

const struct event_kind mesh_events[] = {MESH_EVENTS(EVENT_KIND){}};

void mesh_report(const struct mesh *mesh, unsigned int kind, const char *subject, json_t *seen)
{
	events_add(mesh->core->events,
		   &(struct event){.kind = &mesh_events[kind], .subject = subject, .seen = seen});
}

void mesh_report_peer(const struct mesh *mesh, const struct mesh_peer *peer, unsigned int kind,
		      json_t *seen)
{
	events_add(mesh->core->events, &(struct event){.kind = &mesh_events[kind],
						       .subject = peer->edge->host,
						       .part = peer->edge->part,
						       .seen = seen});
}

/* --- the map `fleet`, but for view and anchor --- */

/* The fleet's keys, our id and whether we reply. */
static void write_fleet(struct mesh *mesh)
{
	const struct config *config = mesh->core->config;
	const struct fleet_keys *keys = &config->keys;
	struct esc_fleet *fleet = clock_fleet(mesh->clock);
	uint64_t most_pps = 8 * REPLY_ROOM * 1000000000ull / config->mesh.pair_interval_ns;
	uint64_t words[2];
	uint32_t flags = 0;

	for (unsigned int slot = 0; slot < 2; slot++) {
		if (keys->have[slot])
			flags |= ESC_FLEET_HAS_KEY0 << slot;
		if (!fleet_keys_shared(keys, slot))
			continue;
		/* The words of SipHash are little-endian. */
		memcpy(words, keys->key[slot], sizeof(words));
		fleet->key[slot][0] = le64toh(words[0]);
		fleet->key[slot][1] = le64toh(words[1]);
		flags |= ESC_FLEET_SHARED0 << slot;
	}
	if (flags && keys->use)
		flags |= ESC_FLEET_USE_KEY1;
	if (!mesh->paused && (mesh->planes[0].on || mesh->planes[1].on))
		flags |= ESC_FLEET_REPLY;
	fleet->reply_max_pps = most_pps > REPLY_LEAST_PPS ? (uint32_t)most_pps : REPLY_LEAST_PPS;
	/* What a peer with our budget may send here alone, and some more. */
	fleet->path_max_pps = config->paths.budget_pps + config->paths.budget_pps / 4;
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh->planes[i].roster->self != ROSTER_NONE && mesh->planes[i].roster->count)
			fleet->self = mesh->planes[i].roster->ids[mesh->planes[i].roster->self];
	fleet->epoch = clock_epoch(mesh->clock);
	__atomic_store_n(&fleet->flags, flags, __ATOMIC_SEQ_CST);
	/* A key that is not valid any more is erased. */
	for (unsigned int slot = 0; slot < 2; slot++)
		if (!fleet_keys_shared(keys, slot))
			memset(fleet->key[slot], 0, sizeof(fleet->key[slot]));
}

/* --- each 20 ms --- */

static uint64_t mesh_tick(void *context, uint64_t now_ns)
{
	struct mesh *mesh = context;

	clock_read_records(mesh->clock);
	if (now_ns >= mesh->state_due_ns) {
		mesh->state_due_ns = now_ns + MESH_STATE_NS;
		if (now_ns >= mesh->history_due_ns) {
			mesh->history_due_ns = now_ns + MESH_HISTORY_NS;
			mesh_count_delays(mesh, now_ns);
		}
		mesh_evaluate_peers(mesh, now_ns);
		mesh_observe(mesh, now_ns);
	}
	mesh_write_some(mesh, WRITES_PER_TICK);
	clock_tick(mesh->clock, now_ns);
	return MESH_TICK_NS;
}

static void on_fitted(void *context, struct clock_edge *edge, int64_t local_ns)
{
	struct mesh *mesh = context;

	mesh_check_path(mesh, mesh->peers[edge->slot], local_ns);
}

static const struct clock_listener listener = {on_fitted, mesh_take_query_reply, mesh_take_report};

/* --- once a second --- */

/*
 * The budget of a host, in edges that are probed each pair_interval: those on rails, as if the host
 * had one NIC on each plane. All NICs, and the edges of racks and across rails, share it.
 */
static unsigned int count_pairs(const struct mesh *mesh)
{
	unsigned int pairs = 0;

	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct fleet_mesh *plane = mesh->planes[i].mesh;
		unsigned int edges = 0, most;

		for (size_t k = 0; k < plane->edge_count; k++)
			edges += plane->edges[k].kind == FLEET_EDGE_RAIL;
		if (!plane->own_count)
			continue;
		most = (edges + plane->own_count - 1) / plane->own_count;
		if (most < mesh->core->config->mesh.degree)
			most = mesh->core->config->mesh.degree;
		pairs += edges < most ? edges : most;
	}
	return pairs;
}

/* All planes, the maps and the clock, by the configuration and the members in force. */
static void apply(struct mesh *mesh)
{
	bool first = !clock_rounds(mesh->clock) && !mesh_count_peers(mesh, FLEET_PLANE_BACKEND);
	struct fleet_plan *before = NULL, *plan = NULL;
	bool changed = mesh->stale;

	if (mesh->stale) {
		mesh->plan_error = fleet_plan_take(mesh->core->fleet, &plan);
		before = mesh_use_plan(mesh, plan);
	}
	mesh->edges_left_out = 0;
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		changed |= mesh_apply_plane(mesh, &mesh->planes[i], first);
	mesh->stale = false;
	if (changed) {
		mesh_write_begin(mesh);
		mesh_write_some(mesh, WRITES_AT_ONCE);
	}
	write_fleet(mesh);
	clock_configure(mesh->clock, mesh->plan, mesh->planes[0].on || mesh->planes[1].on,
			count_pairs(mesh));
	fleet_plan_drop(before);
}

/* Another member list is in force: the planes follow it. */
static void on_members(void *context, const struct members *before)
{
	struct mesh *mesh = context;
	const struct members *now = fleet_members(mesh->core->fleet);
	const char *path = mesh->core->config->members;

	mesh_forget_racks(mesh);
	mesh->stale = true;
	apply(mesh);
	log_info("members reloaded from %s: %zu addresses", path, now->targets);
	mesh_report(mesh, MESH_MEMBERS_RELOADED, path,
		    json_pack("{s:I, s:I}", "addresses", (json_int_t)now->targets, "before",
			      (json_int_t)(before ? before->targets : 0)));
}

static void report_held(struct mesh *mesh, uint64_t now_ns)
{
	const char *path = mesh->core->config->members;
	uint64_t left_ns = 0;
	const struct fleet_held *held = fleet_held(mesh->core->fleet, now_ns, &left_ns);
	uint64_t since_ns = held ? held->since_ns : 0;

	if (since_ns == mesh->held_since_ns)
		return;
	mesh->held_since_ns = since_ns;
	if (!held)
		return;
	log_warning("members of %s held back, the old ones stay in force: %s; `escapement reload "
		    "--force` applies them at once",
		    path, held->reason);
	mesh_report(mesh, MESH_MEMBERS_HELD, path,
		    json_pack("{s:s, s:I, s:I, s:I, s:I}", "reason", held->reason, "hosts",
			      (json_int_t)held->hosts, "before", (json_int_t)held->before, "lost",
			      (json_int_t)held->lost, "applied_in_s",
			      (json_int_t)(left_ns / 1000000000)));
}

/* A list that is refused or held back is an event, and changes nothing. */
static void take_members(void *context, void *read)
{
	uint64_t now_ns = time_local_ns();
	struct mesh *mesh = context;
	char *error = NULL;
	int err = fleet_read_take(mesh->core->fleet, read, now_ns, &error);
	const char *why = error ? error : strerror(-err);

	report_held(mesh, now_ns);
	if (err < 0) {
		log_error("members refused, the old ones stay in force: %s", why);
		mesh_report(mesh, MESH_MEMBERS_REFUSED, mesh->core->config->members,
			    json_pack("{s:s}", "error", why));
	}
	free(error);
}

static const struct core_work read_work = {"members", fleet_read_run, take_members,
					   fleet_read_free};

static void poll_members(struct mesh *mesh)
{
	struct fleet_read *read;

	/* A reload reads it, too: not both at a time, for the memory that takes. */
	if (core_worker_busy(mesh->reader) || core_reload_reads(mesh->core))
		return;
	read = fleet_read_new(mesh->core->fleet);
	if (read && core_worker_start(mesh->reader, read))
		fleet_read_free(read);
}

static void mesh_poll(void *self, uint64_t now_ns)
{
	struct mesh *mesh = self;
	bool paused = dataplane_is_off(mesh->dataplane), changed = false, retry = false;
	struct mesh_peer *peer;

	if (paused != mesh->paused) {
		mesh->paused = paused;
		sender_pause(mesh->sender, paused);
		/* Nothing could be received while it was off: silence begins now. */
		for_each_peer (mesh, peer) {
			peer->since_ns = now_ns;
			peer->received_ns = peer->replied_ns = 0;
			mesh_set_state(peer, PEER_SUSPECT);
			peer->facts.blame = NULL;
		}
		if (!paused && mesh->resume)
			mesh->resume(mesh->resume_context);
		write_fleet(mesh);
	}
	report_held(mesh, now_ns);
	poll_members(mesh);
	/* What could not be opened: an interface without an address, a network not there yet. */
	for_each_peer (mesh, peer)
		retry |= !peer->edge->sending;
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];

		retry |= !plane->on && plane->configured && plane->roster->self != ROSTER_NONE;
		/* Programs that came or went, or another interface under the old name. */
		for (unsigned int k = 0; k < plane->mesh->own_count; k++) {
			const struct mesh_nic *nic = &plane->nics[k];

			retry |= !nic->on && plane->configured;
			changed |= nic->interface[0] &&
				   (nic->on == !!dataplane_lacks(mesh->dataplane, nic->interface) ||
				    if_nametoindex(nic->interface) != nic->ifindex);
		}
	}
	if (retry && now_ns >= mesh->retry_due_ns && !rtnl_wait(CORE_RTNL_MS)) {
		mesh->retry_due_ns = now_ns + RETRY_NS;
		changed = true;
	}
	if (changed && !mesh->paused)
		apply(mesh);
}

/* --- from start to end --- */

void mesh_on_resume(struct mesh *mesh, void (*resume)(void *context), void *context)
{
	mesh->resume = resume;
	mesh->resume_context = context;
}

void mesh_on_reply(struct mesh *mesh, void (*add)(void *context, json_t *peers), void *context)
{
	mesh->add = add;
	mesh->add_context = context;
}

static void mesh_reconfigure(void *self, const struct config *old)
{
	struct mesh *mesh = self;

	mesh_report_authentication(mesh, old, mesh->core->config);
	sender_set_spacing(mesh->sender, mesh->core->config->mesh.pair_spacing_ns);
	mesh->stale = true;
	apply(mesh);
}

static void mesh_close(void *self)
{
	struct mesh *mesh = self;

	/* Our programs reply until the heartbeat has timed out, and the next daemon is there. */
	clock_set_report(mesh->clock, FAULT_REPORT_RESTARTS);
	core_timer_free(mesh->timer);
	fleet_unsubscribe(mesh->core->fleet, &mesh->members);
	clock_listen(mesh->clock, NULL, NULL);
	core_worker_free(mesh->reader);
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		delayhist_free(&mesh->planes[i].owd_out);
		delayhist_free(&mesh->planes[i].owd_in);
	}
	delayhist_free(&mesh->scratch);
	clock_configure(mesh->clock, NULL, false, 0);
	mesh_free_planes(mesh);
	sender_free(mesh->sender);
	mesh_write_end(mesh);
	free(mesh);
}

static int mesh_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct mesh *mesh = calloc(1, sizeof(*mesh));
	int err;

	if (!mesh)
		return -ENOMEM;
	mesh->core = core;
	mesh->dataplane = needs[0];
	mesh->clock = needs[1];
	mesh->peers_fd = dataplane_map_fd(mesh->dataplane, "peers");
	mesh->addresses_fd = dataplane_map_fd(mesh->dataplane, "peer_addresses");
	probesock_use_map(dataplane_map_fd(mesh->dataplane, "probe_sockets"));
	mesh->sequence = probe_first_sequence();
	mesh->state_due_ns = time_local_ns() + MESH_STATE_NS;
	err = core_worker_new(core, &mesh->reader, &read_work, mesh);
	if (err < 0) {
		free(mesh);
		return explain(error, err, "sd-event: %s", strerror(-err));
	}
	err = sender_new(&mesh->sender, core->config->mesh.pair_spacing_ns);
	if (err) {
		core_worker_free(mesh->reader);
		free(mesh);
		return explain(error, err, "the thread that sends probes: %s", strerror(-err));
	}
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		mesh->planes[i].plane = (enum fleet_plane)i;
		mesh_plane_use_plan(mesh, &mesh->planes[i]);
	}
	mesh->paused = dataplane_is_off(mesh->dataplane);
	sender_pause(mesh->sender, mesh->paused);
	clock_listen(mesh->clock, &listener, mesh);
	mesh->stale = true;
	apply(mesh);
	mesh->members = (struct fleet_subscriber){.changed = on_members, .context = mesh};
	fleet_subscribe(core->fleet, &mesh->members);
	err = core_timer_new(core, &mesh->timer, MESH_TICK_NS, TICK_SLACK_NS, mesh_tick, mesh);
	if (err < 0) {
		mesh_close(mesh);
		return explain(error, err, "sd-event: %s", strerror(-err));
	}
	mesh_report_authentication(mesh, NULL, core->config);
	*self = mesh;
	return 0;
}

const struct capability mesh_capability = {
	.name = "mesh",
	.needs = {"dataplane", "clock"},
	.verbs = mesh_verb_handlers,
	.events = mesh_events,
	.metrics = mesh_metrics,
	.open = mesh_open,
	.close = mesh_close,
	.tick_ns = 1000000000,
	.tick = mesh_poll,
	.reconfigure = mesh_reconfigure,
	.status = mesh_put_status,
	.write_metrics = mesh_write_metrics,
};
