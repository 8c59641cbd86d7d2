// SPDX-License-Identifier: BSD-2-Clause
/* Another member list: the planes follow it. A refused one is an event, and changes nothing. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/core.h"
#include "internal.h"

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

void mesh_poll_members(struct mesh *mesh)
{
	const char *path = mesh->core->config->members;
	char *error = NULL;
	int err = fleet_poll(mesh->core->fleet, &error);

	if (err < 0) {
		log_error("members refused, the old ones stay in force: %s",
			  error ? error : strerror(-err));
		mesh_report(mesh, MESH_MEMBERS_REFUSED, path,
			    json_pack("{s:s}", "error", error ? error : strerror(-err)));
	}
	free(error);
}

void mesh_subscribe_members(struct mesh *mesh)
{
	mesh->members.changed = on_members;
	mesh->members.context = mesh;
	fleet_subscribe(mesh->core->fleet, &mesh->members);
}
