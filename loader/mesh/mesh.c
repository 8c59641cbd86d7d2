// SPDX-License-Identifier: BSD-2-Clause
#include "mesh.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <libgen.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "clock/page.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "clocksync/local.h"

#define TURN_SLACK_US 1000
#define RETRY_NS 5000000000ull /* of what could not be opened: it costs a look at every member */

uint64_t mesh_monotonic_ns(void)
{
	return time_local_ns();
}

int64_t mesh_local_ns(const struct mesh *mesh, uint64_t monotonic_ns)
{
	return clock_local_ns(monotonic_ns, mesh->lab_offset_ns, mesh->lab_drift_ppb);
}

/* --- the loop --- */

static void mesh_turn(struct mesh *mesh)
{
	uint64_t now_ns = mesh_monotonic_ns();

	mesh_ring_read(mesh);
	if (now_ns >= mesh->state_due_ns) {
		mesh->state_due_ns = now_ns + MESH_STATE_NS;
		mesh_watch_peers(mesh, now_ns);
	}
	if (now_ns >= mesh->round_due_ns) {
		mesh->round_due_ns += HOSTCLOCK_ROUND_NS;
		if (mesh->round_due_ns <= now_ns)
			mesh->round_due_ns = now_ns + HOSTCLOCK_ROUND_NS;
		mesh_clock_round(mesh, now_ns);
	}
}

static int mesh_on_turn(sd_event_source *source, uint64_t due_us, void *context)
{
	struct mesh *mesh = context;

	(void)due_us;
	mesh_turn(mesh);
	sd_event_source_set_time_relative(source, MESH_TURN_NS / 1000);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- once a second --- */

static void mesh_watch_switch(struct mesh *mesh)
{
	bool paused = dataplane_is_off(mesh->daemon->dataplane);
	uint64_t now_ns = mesh_monotonic_ns();

	if (paused == mesh->paused)
		return;
	mesh->paused = paused;
	sender_pause(mesh->sender, paused);
	for (size_t i = 0; i < MESH_EDGES_MAX; i++) {
		if (!mesh->edges[i])
			continue;
		/* Nothing could be heard while it was off: silence begins now. */
		mesh->edges[i]->since_ns = now_ns;
		mesh->edges[i]->heard_ns = mesh->edges[i]->replied_ns = 0;
		mesh->edges[i]->state = PEER_SUSPECT;
		mesh->edges[i]->blame = NULL;
	}
	if (!paused && mesh->resume)
		mesh->resume(mesh->resume_context);
	mesh_write_fleet(mesh);
}

void mesh_on_resume(struct mesh *mesh, void (*resume)(void *context), void *context)
{
	mesh->resume = resume;
	mesh->resume_context = context;
}

/* Programs that came or went, or another interface under the old name. */
static bool plane_changed(const struct mesh *mesh, const struct mesh_plane *plane)
{
	bool stamps;

	if (!plane->interface[0])
		return false;
	stamps = !dataplane_stamps_missing(mesh->daemon->dataplane, plane->interface);
	return stamps != plane->on || if_nametoindex(plane->interface) != plane->ifindex;
}

static bool edges_want_sockets(const struct mesh *mesh)
{
	for (size_t i = 0; i < MESH_EDGES_MAX; i++)
		if (mesh->edges[i] && !mesh->edges[i]->sending)
			return true;
	return false;
}

/* An interface that has no address yet, a network that is not there yet. */
static bool planes_want_more(const struct mesh *mesh)
{
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		const struct mesh_plane *plane = &mesh->planes[i];

		if (!plane->on && plane->configured && plane->roster.self != ROSTER_NOBODY)
			return true;
	}
	return edges_want_sockets(mesh);
}

void mesh_look(struct mesh *mesh)
{
	uint64_t now_ns = mesh_monotonic_ns();
	bool changed = now_ns >= mesh->retry_due_ns && planes_want_more(mesh);

	if (changed)
		mesh->retry_due_ns = now_ns + RETRY_NS;
	mesh_watch_switch(mesh);
	mesh_watch_members(mesh);
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		changed = changed || plane_changed(mesh, &mesh->planes[i]);
	if (!changed || mesh->paused)
		return;
	mesh_planes_apply(mesh);
	mesh_clock_configure(mesh);
}

void mesh_reconfigure(struct mesh *mesh)
{
	sender_set_spacing(mesh->sender, mesh->daemon->config->mesh.pair_spacing_ns);
	mesh_planes_apply(mesh);
	mesh_clock_configure(mesh);
}

/* --- from nothing to probes --- */

static void mesh_open_page(struct mesh *mesh)
{
	char *copy = strdup(mesh->daemon->config->socket), *path = NULL, *error = NULL;

	if (copy && asprintf(&path, "%s/clock", dirname(copy)) >= 0 &&
	    clockpage_open(&mesh->page, path, mesh->lab_offset_ns, mesh->lab_drift_ppb, &error))
		log_warning("%s", error ? error : path);
	free(error);
	free(path);
	free(copy);
}

/* Later than the one before, also when somebody has set the clock back. */
static uint64_t mesh_new_epoch(const struct mesh *mesh)
{
	uint64_t before = mesh->maps.fleet->epoch, now = time_realtime_ns();

	return now > before ? now : before + 1;
}

int mesh_new(struct mesh **out, struct daemon *daemon, char **error)
{
	struct mesh *mesh = calloc(1, sizeof(*mesh));
	uint64_t now_ns = mesh_monotonic_ns();
	int err;

	*out = NULL;
	if (!mesh)
		return -ENOMEM;
	mesh->daemon = daemon;
	mesh->lab_offset_ns = daemon->config->lab.clock_offset_ns;
	mesh->lab_drift_ppb = daemon->config->lab.clock_drift_ppb;
	for (unsigned int i = 0; i < MESH_PLANES; i++) {
		mesh->planes[i].plane = (enum fleet_plane)i;
		mesh->planes[i].roster.self = ROSTER_NOBODY;
	}
	mesh->state_due_ns = now_ns + MESH_STATE_NS;
	/* Hosts that started together are not to have their rounds together. */
	mesh->round_due_ns = now_ns + daemon->start_realtime_ns / 1000 % HOSTCLOCK_ROUND_NS;
	err = mesh_maps_open(mesh, error);
	if (!err)
		err = mesh_ring_open(mesh, error);
	if (!err) {
		err = sender_new(&mesh->sender, daemon->config->mesh.pair_spacing_ns);
		if (err)
			explain(error, err, "the thread that sends probes: %s", strerror(-err));
	}
	if (err) {
		mesh_free(mesh);
		return err;
	}
	mesh->epoch = mesh_new_epoch(mesh);
	mesh->paused = dataplane_is_off(daemon->dataplane);
	sender_pause(mesh->sender, mesh->paused);
	mesh_open_page(mesh);
	mesh_clock_open(mesh);
	mesh_reconfigure(mesh);
	mesh_subscribe_members(mesh);
	err = sd_event_add_time_relative(daemon->event, &mesh->timer, CLOCK_MONOTONIC,
					 MESH_TURN_NS / 1000, TURN_SLACK_US, mesh_on_turn, mesh);
	if (err < 0) {
		mesh_free(mesh);
		return explain(error, err, "sd-event: %s", strerror(-err));
	}
	*out = mesh;
	return 0;
}

void mesh_free(struct mesh *mesh)
{
	if (!mesh)
		return;
	sd_event_source_disable_unref(mesh->timer);
	fleet_unsubscribe(mesh->daemon->core.fleet, &mesh->members);
	if (mesh->sender)
		mesh_planes_free(mesh);
	sender_free(mesh->sender);
	ring_buffer__free(mesh->ring);
	mesh_maps_close(mesh);
	clockpage_close(mesh->page);
	free(mesh);
}
