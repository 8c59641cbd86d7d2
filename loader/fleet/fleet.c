// SPDX-License-Identifier: BSD-2-Clause
/* The member list in force and its file. */
#include "fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/readfile.h"

/* --- the list in force: a good file replaces it, a bad one changes nothing --- */

struct fleet {
	char *path; /* NULL: no members file */
	struct members *members;
	struct stat file; /* as last read */
	bool file_good;
	struct fleet_subscriber *subscribers;
	char *host;
	uint64_t hold_ns;
	unsigned int degree;
	struct members *pending; /* held back; NULL: none */
	struct fleet_held held;	 /* of it */
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
	members_free(fleet->pending);
	free(fleet->host);
	free(fleet->path);
	free(fleet);
}

int fleet_configure(struct fleet *fleet, const char *host, uint64_t hold_ns, unsigned int degree)
{
	char *copy = strdup(host);

	if (!copy)
		return -ENOMEM;
	free(fleet->host);
	fleet->host = copy;
	fleet->hold_ns = hold_ns;
	fleet->degree = degree;
	return 0;
}

const struct members *fleet_members(const struct fleet *fleet)
{
	return fleet ? fleet->members : NULL;
}

int fleet_plan_take(struct fleet *fleet, struct fleet_plan **out)
{
	int err = 0;

	*out = NULL;
	if (fleet && fleet->members && fleet->host)
		err = members_plan(fleet->members, fleet->host, fleet->degree);
	if (err || !fleet || !fleet->members)
		return err;
	*out = fleet->members->plan;
	if (*out)
		(*out)->users++;
	return 0;
}

static bool is_other(const struct stat *before, const struct stat *now)
{
	return now->st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       now->st_mtim.tv_nsec != before->st_mtim.tv_nsec || now->st_ino != before->st_ino ||
	       now->st_size != before->st_size;
}

static void set_path(struct fleet *fleet, const char *path)
{
	free(fleet->path);
	fleet->path = path ? strdup(path) : NULL;
	fleet->file_good = fleet->path && !stat(fleet->path, &fleet->file);
}

bool fleet_has_read(const struct fleet *fleet, const char *path)
{
	struct stat now;

	return fleet && fleet->file_good && fleet->members && !strcmp(fleet->path, path) &&
	       !stat(path, &now) && !is_other(&fleet->file, &now);
}

static void set_pending(struct fleet *fleet, struct members *members)
{
	members_free(fleet->pending);
	fleet->pending = members;
}

struct members *fleet_set(struct fleet *fleet, const char *path, struct members *members)
{
	struct members *before = fleet->members;

	set_path(fleet, path);
	set_pending(fleet, NULL);
	fleet->members = members;
	return before;
}

/* 1: @members is taken over and held back; 0: it is to be applied; -ENOMEM. */
static int hold(struct fleet *fleet, struct members *members, uint64_t now_ns)
{
	struct fleet_held held = {.since_ns = now_ns};
	int err = fleet->host ? fleet_compare(fleet->members, members, fleet->host, &held) : 0;

	if (err <= 0)
		return err;
	if (fleet->pending && members_equal(fleet->pending, members))
		held.since_ns = fleet->held.since_ns;
	set_pending(fleet, members);
	fleet->held = held;
	return 1;
}

struct members *fleet_offer(struct fleet *fleet, const char *path, struct members *members,
			    uint64_t now_ns)
{
	if (!members || hold(fleet, members, now_ns) <= 0)
		return fleet_set(fleet, path, members);
	set_path(fleet, path);
	return NULL;
}

const struct fleet_held *fleet_held(const struct fleet *fleet, uint64_t now_ns, uint64_t *left_ns)
{
	uint64_t held_ns;

	if (!fleet || !fleet->pending)
		return NULL;
	held_ns = now_ns - fleet->held.since_ns;
	*left_ns = held_ns < fleet->hold_ns ? fleet->hold_ns - held_ns : 0;
	return &fleet->held;
}

/* --- the file, read by a worker --- */

struct fleet_read {
	char *path, *host; /* host: NULL: no plan is made */
	unsigned int degree;
	struct stat before, now;
	bool exists;
	struct members *members; /* NULL: the file is the same, or err */
	int err;
	char *error;
};

struct fleet_read *fleet_read_new(const struct fleet *fleet)
{
	struct fleet_read *read = fleet->path ? calloc(1, sizeof(*read)) : NULL;

	if (!read)
		return NULL;
	read->path = strdup(fleet->path);
	read->host = fleet->host ? strdup(fleet->host) : NULL;
	read->degree = fleet->degree;
	read->before = fleet->file;
	if (read->path && (read->host || !fleet->host))
		return read;
	fleet_read_free(read);
	return NULL;
}

struct fleet_read *fleet_read_file(const char *path, const char *host, unsigned int degree)
{
	struct fleet_read *read = calloc(1, sizeof(*read));

	if (!read)
		return NULL;
	read->path = strdup(path);
	read->host = strdup(host);
	read->degree = degree;
	if (read->path && read->host)
		return read;
	fleet_read_free(read);
	return NULL;
}

struct fleet_read *fleet_read_move(struct fleet_read *read)
{
	struct fleet_read *moved = malloc(sizeof(*moved));

	if (!moved)
		return NULL;
	*moved = *read;
	read->path = read->host = read->error = NULL;
	read->members = NULL;
	return moved;
}

bool fleet_read_use(struct fleet_read *read, const char *path, struct members **members, int *err,
		    char **error)
{
	struct stat now;

	if (!read || (!read->members && !read->err) || strcmp(read->path, path) != 0 ||
	    stat(path, &now) || is_other(&read->now, &now))
		return false;
	*members = read->members;
	*err = read->err;
	*error = read->error;
	read->members = NULL;
	read->error = NULL;
	read->err = 0;
	return true;
}

void fleet_read_run(void *job)
{
	struct fleet_read *read = job;

	read->exists = !stat(read->path, &read->now);
	if (read->exists && is_other(&read->before, &read->now))
		read->err = members_load(read->path, &read->members, &read->error);
	/* Without memory it is tried again where the plan is used, and reported there. */
	if (read->members && read->host)
		members_plan(read->members, read->host, read->degree);
}

void fleet_read_free(void *job)
{
	struct fleet_read *read = job;

	if (!read)
		return;
	members_free(read->members);
	free(read->error);
	free(read->host);
	free(read->path);
	free(read);
}

/* What is to be applied now. *@out stays NULL: nothing. */
static int take(struct fleet *fleet, struct fleet_read *read, uint64_t now_ns, struct members **out)
{
	uint64_t left_ns;
	int err = read->err;

	if (!read->exists)
		return 0;
	if (!err && !read->members) {
		if (!fleet_held(fleet, now_ns, &left_ns) || left_ns)
			return 0;
		*out = fleet->pending;
		fleet->pending = NULL;
		return 0;
	}
	fleet->file = read->now;
	fleet->file_good = !err;
	if (!err)
		err = hold(fleet, read->members, now_ns);
	if (!err)
		*out = read->members;
	if (err >= 0)
		read->members = NULL;
	/* A list that was held back is not the newest one any more. */
	if (err <= 0)
		set_pending(fleet, NULL);
	return err < 0 ? err : 0;
}

int fleet_read_take(struct fleet *fleet, struct fleet_read *read, uint64_t now_ns, char **error)
{
	struct members *before = fleet->members, *members = NULL;
	int err;

	/* The configuration was read meanwhile: with another file, or this one. */
	if (!fleet->path || strcmp(fleet->path, read->path) ||
	    is_other(&fleet->file, &read->before))
		return 0;
	err = take(fleet, read, now_ns, &members);
	if (err) {
		*error = read->error;
		read->error = NULL;
	}
	if (err || !members)
		return err;
	fleet->members = members;
	for (struct fleet_subscriber *at = fleet->subscribers; at; at = at->next)
		at->changed(at->context, before);
	members_free(before);
	return 1;
}

/* That of the plan, or one that is made in @scratch. */
static const struct roster *roster_of(const struct members *members, const char *host,
				      struct roster *scratch, int *err)
{
	if (members && members->plan && !strcmp(members->plan->host, host))
		return &members->plan->all;
	if (members && !*err)
		*err = roster_build(scratch, members, ROSTER_ALL_PLANES, host);
	return scratch;
}

int fleet_compare(const struct members *now, const struct members *next, const char *host,
		  struct fleet_held *out)
{
	struct roster scratch[2] = {};
	int err = 0;
	const struct roster *old = roster_of(now, host, &scratch[0], &err);
	const struct roster *new = roster_of(next, host, &scratch[1], &err);

	if (err || !old->count)
		goto out;
	out->hosts = new->count;
	out->before = old->count;
	out->lost = roster_missing(old, new, NULL, NULL);
	err = 1;
	if (!new->count)
		snprintf(out->reason, sizeof(out->reason), "it has no hosts");
	else if (old->self != ROSTER_NONE && new->self == ROSTER_NONE)
		snprintf(out->reason, sizeof(out->reason), "it does not have host %.64s", host);
	else if (out->lost > old->count / 2)
		snprintf(out->reason, sizeof(out->reason), "it loses %zu of %zu hosts", out->lost,
			 old->count);
	else
		err = 0;
out:
	roster_free(&scratch[0]);
	roster_free(&scratch[1]);
	return err;
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
