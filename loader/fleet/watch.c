// SPDX-License-Identifier: BSD-2-Clause
/* The member list in force, and its file: a good one replaces the list, a bad one changes nothing.
 */
#include "fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fleet {
	char *path; /* NULL: no members file */
	struct members *members;
	uint64_t mtime_ns, inode, bytes; /* of the file as last read */
	struct fleet_subscriber *subscribers;
};

int fleet_new(struct fleet **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void fleet_free(struct fleet *fleet)
{
	if (!fleet)
		return;
	members_free(fleet->members);
	free(fleet->path);
	free(fleet);
}

const struct members *fleet_members(const struct fleet *fleet)
{
	return fleet ? fleet->members : NULL;
}

/* Whether it is another file than last time; false also when there is none. */
static bool file_changed(struct fleet *fleet)
{
	struct stat status;
	uint64_t mtime_ns;

	if (!fleet->path || stat(fleet->path, &status))
		return false;
	mtime_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
	if (mtime_ns == fleet->mtime_ns && status.st_ino == fleet->inode &&
	    (uint64_t)status.st_size == fleet->bytes)
		return false;
	fleet->mtime_ns = mtime_ns;
	fleet->inode = status.st_ino;
	fleet->bytes = (uint64_t)status.st_size;
	return true;
}

struct members *fleet_set(struct fleet *fleet, const char *path, struct members *members)
{
	struct members *before = fleet->members;

	free(fleet->path);
	fleet->path = path ? strdup(path) : NULL;
	fleet->members = members;
	file_changed(fleet);
	return before;
}

int fleet_poll(struct fleet *fleet, char **error)
{
	struct members *before = fleet->members, *members = NULL;
	int err;

	if (!file_changed(fleet))
		return 0;
	err = members_load(fleet->path, &members, error);
	if (err)
		return err;
	fleet->members = members;
	for (struct fleet_subscriber *at = fleet->subscribers; at; at = at->next)
		at->changed(at->context, before);
	members_free(before);
	return 1;
}

void fleet_subscribe(struct fleet *fleet, struct fleet_subscriber *subscriber)
{
	struct fleet_subscriber **at = &fleet->subscribers;

	while (*at)
		at = &(*at)->next;
	subscriber->next = NULL;
	*at = subscriber;
}

void fleet_unsubscribe(struct fleet *fleet, const struct fleet_subscriber *subscriber)
{
	struct fleet_subscriber **at = &fleet->subscribers;

	while (*at && *at != subscriber)
		at = &(*at)->next;
	if (*at)
		*at = subscriber->next;
}
