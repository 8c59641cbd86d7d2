// SPDX-License-Identifier: BSD-2-Clause
#include "fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clocksync/graph.h"

bool roster_is_ipv4(const struct esc_address *address)
{
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(address, mapped, sizeof(mapped));
}

/* By host, then as the address is wanted: labelled first, then the least. */
static int entry_compare(const void *a, const void *b)
{
	const struct member *one = *(const struct member *const *)a;
	const struct member *two = *(const struct member *const *)b;
	int order = strcmp(one->host, two->host);

	if (order)
		return order;
	if ((one->plane == MEMBER_ANY) != (two->plane == MEMBER_ANY))
		return one->plane == MEMBER_ANY ? 1 : -1;
	return memcmp(&one->address, &two->address, sizeof(one->address));
}

static int roster_fill(struct roster *out, const struct members *members, const char *host,
		       bool all, enum fleet_plane plane)
{
	const struct member **entries = calloc(members->count + 1, sizeof(*entries));
	enum member_plane on = plane == FLEET_PLANE_FRONTEND ? MEMBER_FRONTEND : MEMBER_BACKEND;
	size_t count = 0;

	memset(out, 0, sizeof(*out));
	out->self = ROSTER_NOBODY;
	out->list = calloc(members->count + 1, sizeof(*out->list));
	out->ids = calloc(members->count + 1, sizeof(*out->ids));
	if (!entries || !out->list || !out->ids) {
		free(entries);
		roster_free(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < members->count; i++)
		if (all || members->list[i].plane == MEMBER_ANY || members->list[i].plane == on)
			entries[count++] = &members->list[i];
	qsort(entries, count, sizeof(*entries), entry_compare);
	for (size_t i = 0; i < count; i++) {
		enum roster_family family =
			roster_is_ipv4(&entries[i]->address) ? ROSTER_IPV4 : ROSTER_IPV6;
		struct roster_member *member = &out->list[out->count ? out->count - 1 : 0];

		if (!i || strcmp(member->host, entries[i]->host)) {
			member = &out->list[out->count];
			member->host = entries[i]->host;
			member->id = graph_member_id(member->host);
			if (!strcmp(member->host, host))
				out->self = out->count;
			out->ids[out->count++] = member->id;
		}
		if (member->has[family])
			continue;
		member->has[family] = true;
		member->address[family] = entries[i]->address;
	}
	free(entries);
	return 0;
}

int roster_build(struct roster *out, const struct members *members, enum fleet_plane plane,
		 const char *host)
{
	return roster_fill(out, members, host, false, plane);
}

int roster_build_all(struct roster *out, const struct members *members, const char *host)
{
	return roster_fill(out, members, host, true, FLEET_PLANE_BACKEND);
}

void roster_free(struct roster *roster)
{
	free(roster->list);
	free(roster->ids);
	*roster = (struct roster){.self = ROSTER_NOBODY};
}

const struct roster_member *roster_find(const struct roster *roster, uint64_t id)
{
	for (size_t i = 0; i < roster->count; i++)
		if (roster->ids[i] == id)
			return &roster->list[i];
	return NULL;
}
