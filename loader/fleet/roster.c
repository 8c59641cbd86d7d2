// SPDX-License-Identifier: BSD-2-Clause
/* The roster of a mesh, and all that a host makes of a list. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "clocksync/graph.h"
#include "fleet.h"

/* --- the roster: a host each --- */

static int id_compare(const void *a, const void *b)
{
	const uint64_t *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

static struct roster_member *add_host(struct roster *out, const char *host, const char *self)
{
	struct roster_member *member = &out->list[out->count];

	member->host = host;
	member->id = graph_member_id(host);
	if (!strcmp(host, self))
		out->self = out->count;
	out->ids[out->count++] = member->id;
	return member;
}

int roster_build(struct roster *out, const struct members *members, int plane, const char *host)
{
	const struct member *best[ROSTER_FAMILIES] = {};
	size_t room = members->host_count + 1;
	struct roster_member *last = NULL;

	*out = (struct roster){
		.list = calloc(room, sizeof(*out->list)),
		.ids = calloc(room, sizeof(*out->ids)),
		.sorted = calloc(room, sizeof(*out->sorted)),
		.self = ROSTER_NONE,
	};
	if (!out->list || !out->ids || !out->sorted) {
		roster_free(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < members->targets; i++) {
		const struct member *entry = &members->list[members->by_host[i]];
		int family = address_is_ipv4(&entry->address) ? ROSTER_IPV4 : ROSTER_IPV6;

		if (plane != ROSTER_ALL_PLANES && !member_is_on(entry, (enum fleet_plane)plane))
			continue;
		if (!last || (last->host != entry->host && strcmp(last->host, entry->host) != 0)) {
			last = add_host(out, entry->host, host);
			memset(best, 0, sizeof(best));
		}
		if (best[family] && !member_precedes(entry, best[family]))
			continue;
		best[family] = entry;
		last->has[family] = true;
		last->address[family] = entry->address;
	}
	memcpy(out->sorted, out->ids, out->count * sizeof(*out->sorted));
	qsort(out->sorted, out->count, sizeof(*out->sorted), id_compare);
	return 0;
}

void roster_free(struct roster *roster)
{
	free(roster->list);
	free(roster->ids);
	free(roster->sorted);
	*roster = (struct roster){.self = ROSTER_NONE};
}

size_t roster_missing(const struct roster *of, const struct roster *other,
		      void (*found)(void *context, const char *host), void *context)
{
	size_t missing = 0;

	/* Both are sorted by host. */
	for (size_t i = 0, k = 0; i < of->count; i++) {
		const char *host = of->list[i].host;

		if (k < other->count && other->ids[k] == of->ids[i]) {
			k++;
			continue;
		}
		while (k < other->count && strcmp(other->list[k].host, host) < 0)
			k++;
		if (k < other->count && !strcmp(other->list[k].host, host)) {
			k++;
			continue;
		}
		missing++;
		if (found)
			found(context, host);
	}
	return missing;
}

/* --- the plan --- */

static int plan_fill(struct fleet_plan *plan, const struct members *members)
{
	int err = roster_build(&plan->all, members, ROSTER_ALL_PLANES, plan->host);

	if (!err && plan->all.self != ROSTER_NONE)
		plan->rank = graph_rank(plan->all.ids, plan->all.count, plan->all.self, 0);
	for (int plane = 0; !err && plane < 2; plane++) {
		err = roster_build(&plan->rosters[plane], members, plane, plan->host);
		if (!err)
			err = fleet_mesh_build(&plan->meshes[plane], members,
					       (enum fleet_plane)plane, plan->host, plan->degree);
	}
	return err;
}

int members_plan(struct members *members, const char *host, unsigned int degree)
{
	struct fleet_plan *plan = members->plan;
	int err;

	if (plan && plan->degree == degree && !strcmp(plan->host, host))
		return 0;
	plan = calloc(1, sizeof(*plan));
	if (!plan)
		return -ENOMEM;
	plan->users = 1;
	plan->degree = degree;
	snprintf(plan->host, sizeof(plan->host), "%s", host);
	err = plan_fill(plan, members);
	if (err) {
		fleet_plan_drop(plan);
		return err;
	}
	fleet_plan_drop(members->plan);
	members->plan = plan;
	return 0;
}

void fleet_plan_drop(struct fleet_plan *plan)
{
	if (!plan || --plan->users)
		return;
	roster_free(&plan->all);
	for (int plane = 0; plane < 2; plane++) {
		roster_free(&plan->rosters[plane]);
		fleet_mesh_free(&plan->meshes[plane]);
	}
	free(plan);
}
