// SPDX-License-Identifier: BSD-2-Clause
/* Another member list: the planes follow it. A refused one is an event, and changes nothing. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/events.h"
#include "daemon/daemon.h"
#include "fleet/fleet.h"
#include "internal.h"

static void on_members(void *context, const struct members *before)
{
	struct mesh *mesh = context;
	const struct members *now = fleet_members(mesh->daemon->core.fleet);
	const char *path = mesh->daemon->config->members;

	mesh_planes_apply(mesh);
	mesh_clock_configure(mesh);
	log_info("members reloaded from %s: %zu addresses", path, now->count);
	events_record(mesh->daemon->ledger, "members_reloaded", path,
		      json_pack("{s:I, s:I}", "addresses", (json_int_t)now->count, "before",
				(json_int_t)(before ? before->count : 0)),
		      NULL, NULL, NULL);
}

void mesh_watch_members(struct mesh *mesh)
{
	const char *path = mesh->daemon->config->members;
	char *error = NULL;
	int err = fleet_poll(mesh->daemon->core.fleet, &error);

	if (err < 0) {
		log_error("members refused, the old ones stay in force: %s",
			  error ? error : strerror(-err));
		events_record(mesh->daemon->ledger, "members_refused", path,
			      json_pack("{s:s}", "error", error ? error : strerror(-err)), NULL,
			      NULL, NULL);
	}
	free(error);
}

void mesh_subscribe_members(struct mesh *mesh)
{
	mesh->members.changed = on_members;
	mesh->members.context = mesh;
	fleet_subscribe(mesh->daemon->core.fleet, &mesh->members);
}
