// SPDX-License-Identifier: BSD-2-Clause
#include "mesh.h"

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
#include "clocksync/local.h"

#define TICK_SLACK_NS 1000000
#define RETRY_NS 5000000000ull /* of what could not be opened: it costs a pass over all members */

const struct event_kind mesh_events[] = {MESH_EVENTS(EVENT_KIND){}};

void mesh_report(const struct mesh *mesh, unsigned int kind, const char *subject, json_t *seen)
{
	events_add(mesh->core->events,
		   &(struct event){.kind = &mesh_events[kind], .subject = subject, .seen = seen});
}

/* --- each 10 ms --- */

static uint64_t mesh_tick(void *context, uint64_t now_ns)
{
	struct mesh *mesh = context;

	clock_read_records(mesh->clock);
	if (now_ns >= mesh->state_due_ns) {
		mesh->state_due_ns = now_ns + MESH_STATE_NS;
		mesh_evaluate_peers(mesh, now_ns);
	}
	clock_tick(mesh->clock, now_ns);
	return MESH_TICK_NS;
}

static void on_fitted(void *context, struct clock_edge *edge, int64_t local_ns)
{
	struct mesh *mesh = context;

	mesh_check_path(mesh, mesh->peers[edge->slot], local_ns);
}

static const struct clock_listener listener = {on_fitted, mesh_take_query_reply};

/* --- once a second --- */

static void poll_kill_switch(struct mesh *mesh)
{
	bool paused = dataplane_is_off(mesh->dataplane);
	uint64_t now_ns = time_local_ns();
	struct mesh_peer *peer;

	if (paused == mesh->paused)
		return;
	mesh->paused = paused;
	sender_pause(mesh->sender, paused);
	for_each_peer (mesh, peer) {
		/* Nothing could be received while it was off: silence begins now. */
		peer->since_ns = now_ns;
		peer->heard_ns = peer->replied_ns = 0;
		mesh_set_state(peer, PEER_SUSPECT);
		peer->blame = NULL;
	}
	if (!paused && mesh->resume)
		mesh->resume(mesh->resume_context);
	mesh_write_fleet(mesh);
}

void mesh_apply(struct mesh *mesh)
{
	mesh_apply_planes(mesh);
	clock_configure(mesh->clock, mesh->planes[0].on || mesh->planes[1].on);
}

/* Another member list is in force: the planes follow it. */
static void on_members(void *context, const struct members *before)
{
	struct mesh *mesh = context;
	const struct members *now = fleet_members(mesh->core->fleet);
	const char *path = mesh->core->config->members;

	mesh_apply(mesh);
	log_info("members reloaded from %s: %zu addresses", path, now->count);
	mesh_report(mesh, MESH_MEMBERS_RELOADED, path,
		    json_pack("{s:I, s:I}", "addresses", (json_int_t)now->count, "before",
			      (json_int_t)(before ? before->count : 0)));
}

/* A list that is refused is an event, and changes nothing. */
static void poll_members(struct mesh *mesh)
{
	char *error = NULL;
	int err = fleet_poll(mesh->core->fleet, &error);
	const char *why = error ? error : strerror(-err);

	if (err < 0) {
		log_error("members refused, the old ones stay in force: %s", why);
		mesh_report(mesh, MESH_MEMBERS_REFUSED, mesh->core->config->members,
			    json_pack("{s:s}", "error", why));
	}
	free(error);
}

static void mesh_poll(void *self, uint64_t now_ns)
{
	struct mesh *mesh = self;
	bool changed = false, retry = false;
	struct mesh_peer *peer;

	/* What could not be opened: an interface without an address, a network not there yet. */
	for_each_peer (mesh, peer)
		retry |= !peer->edge->sending;
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];

		retry |= !plane->on && plane->configured && plane->roster.self != ROSTER_NOBODY;
	}
	if (retry && now_ns >= mesh->retry_due_ns) {
		mesh->retry_due_ns = now_ns + RETRY_NS;
		changed = true;
	}
	poll_kill_switch(mesh);
	poll_members(mesh);
	/* Programs that came or went, or another interface under the old name. */
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];

		if (plane->interface[0])
			changed |= plane->on == !!dataplane_stamps_missing(mesh->dataplane,
									   plane->interface) ||
				   if_nametoindex(plane->interface) != plane->ifindex;
	}
	if (changed && !mesh->paused)
		mesh_apply(mesh);
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

	(void)old;
	sender_set_spacing(mesh->sender, mesh->core->config->mesh.pair_spacing_ns);
	mesh_apply(mesh);
}

static void mesh_close(void *self)
{
	struct mesh *mesh = self;

	core_timer_free(mesh->timer);
	fleet_unsubscribe(mesh->core->fleet, &mesh->members);
	clock_listen(mesh->clock, NULL, NULL);
	mesh_free_planes(mesh);
	sender_free(mesh->sender);
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
	mesh->state_due_ns = time_local_ns() + MESH_STATE_NS;
	err = sender_new(&mesh->sender, core->config->mesh.pair_spacing_ns);
	if (err) {
		free(mesh);
		return explain(error, err, "the thread that sends probes: %s", strerror(-err));
	}
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		mesh->planes[i].plane = (enum fleet_plane)i;
		mesh->planes[i].roster.self = ROSTER_NOBODY;
	}
	mesh->paused = dataplane_is_off(mesh->dataplane);
	sender_pause(mesh->sender, mesh->paused);
	clock_listen(mesh->clock, &listener, mesh);
	mesh_apply(mesh);
	mesh->members = (struct fleet_subscriber){.changed = on_members, .context = mesh};
	fleet_subscribe(core->fleet, &mesh->members);
	err = core_timer_new(core, &mesh->timer, MESH_TICK_NS, TICK_SLACK_NS, mesh_tick, mesh);
	if (err < 0) {
		mesh_close(mesh);
		return explain(error, err, "sd-event: %s", strerror(-err));
	}
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
