// SPDX-License-Identifier: BSD-2-Clause
/* The members file is watched: a good one comes into force, a bad one is told and changes nothing.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "core/events.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "nic/nic.h"
#include "internal.h"

static uint64_t mtime_ns(const struct stat *status)
{
	return (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;
}

/* True when the file is another one than last time; false also when there is none. */
static bool members_changed(struct mesh *mesh)
{
	const char *path = mesh->daemon->config->members;
	struct stat status;

	if (!path || stat(path, &status))
		return false; /* away while it is replaced: the next look finds it */
	if (mtime_ns(&status) == mesh->members_file.mtime_ns &&
	    status.st_ino == mesh->members_file.inode &&
	    (uint64_t)status.st_size == mesh->members_file.bytes)
		return false;
	mesh->members_file.mtime_ns = mtime_ns(&status);
	mesh->members_file.inode = status.st_ino;
	mesh->members_file.bytes = (uint64_t)status.st_size;
	return true;
}

void mesh_remember_members(struct mesh *mesh)
{
	members_changed(mesh);
	mesh->members_file.refused = false;
}

static void members_refuse(struct mesh *mesh, int err, const char *error)
{
	log_error("members refused, the old ones stay in force: %s",
		  error ? error : strerror(-err));
	events_record(mesh->daemon->ledger, "members_refused", mesh->daemon->config->members,
		   json_pack("{s:s}", "error", error ? error : strerror(-err)), NULL, NULL, NULL);
	mesh->members_file.refused = true;
}

void mesh_watch_members(struct mesh *mesh)
{
	struct config *config = mesh->daemon->core.own_config;
	struct members *fresh = NULL, *old = config->member_list;
	char *error = NULL;
	int err;

	if (!members_changed(mesh))
		return;
	err = members_load(config->members, &fresh, &error);
	if (err) {
		members_refuse(mesh, err, error);
		free(error);
		return;
	}
	mesh->members_file.refused = false;
	config->member_list = fresh;
	mesh_planes_apply(mesh);
	mesh_clock_configure(mesh);
	log_info("members reloaded from %s: %zu addresses", config->members, fresh->count);
	events_record(mesh->daemon->ledger, "members_reloaded", config->members,
		   json_pack("{s:I, s:I}", "addresses", (json_int_t)fresh->count, "before",
			     (json_int_t)(old ? old->count : 0)),
		   NULL, NULL, NULL);
	nics_members_changed(mesh->daemon->nics);
	members_free(old);
}
