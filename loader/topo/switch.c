// SPDX-License-Identifier: BSD-2-Clause
/*
 * Groups by the replies of switches. A switch replies with the address of the port on which a
 * request came: the first of a path is of the NIC's own port, the second of a link from its leaf,
 * so NICs on one leaf have the same set of second addresses. Where switches reply with one address
 * for all ports, the first is the leaf. How many switches a reply crossed shows the tier of a pair,
 * also when no switch replies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

#define SHARE_LEAST 0.5

struct member {
	size_t address, nic;
};

struct replies {
	struct member *list;
	size_t count, room;
};

static int by_nic(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->nic != y->nic)
		return x->nic < y->nic ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

static int by_address(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->nic > y->nic) - (x->nic < y->nic);
}

/* The addresses at @hop (from 0) of the paths of each NIC that cross at least @least switches. */
static int collect(const struct topo *topo, unsigned int hop, unsigned int least,
		   struct replies *out)
{
	size_t kept = 0;

	for (size_t i = 0; i < topo->path_count; i++) {
		const struct topo_path *path = &topo->paths[i];
		unsigned int length = path->distance ? path->distance : path->hop_count;
		struct member *place;

		if (!path->hops[hop] || length < least)
			continue;
		place = array_add(&out->list, &out->count, &out->room, sizeof(*place));
		if (!place)
			return -ENOMEM;
		*place = (struct member){path->hops[hop], path->a};
	}
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_nic);
	for (size_t i = 0; i < out->count; i++)
		if (!kept || by_nic(&out->list[kept - 1], &out->list[i]))
			out->list[kept++] = out->list[i];
	out->count = kept;
	return 0;
}

/* NICs with the same address. Returns the share of NICs that share one. */
static double join_shared(struct replies *replies, size_t *sets)
{
	size_t shared = 0;

	if (!replies->count)
		return 0;
	qsort(replies->list, replies->count, sizeof(*replies->list), by_address);
	for (size_t i = 1; i < replies->count; i++) {
		const struct member *one = &replies->list[i - 1], *two = &replies->list[i];

		if (one->address == two->address) {
			shared++;
			if (sets)
				sets_join(sets, one->nic, two->nic);
		}
	}
	return (double)shared / (double)replies->count;
}

static size_t end_of(const struct replies *replies, size_t at)
{
	size_t end = at;

	while (end < replies->count && replies->list[end].nic == replies->list[at].nic)
		end++;
	return end;
}

static double jaccard(const struct replies *replies, size_t a, size_t b)
{
	size_t end_a = end_of(replies, a), end_b = end_of(replies, b), both = 0;
	size_t all = end_a - a + end_b - b;

	while (a < end_a && b < end_b) {
		if (replies->list[a].address == replies->list[b].address)
			both++, a++, b++;
		else if (replies->list[a].address < replies->list[b].address)
			a++;
		else
			b++;
	}
	return all > both ? (double)both / (double)(all - both) : 1;
}

/*
 * NICs with similar sets of addresses. Each is compared with the last NICs that had one of its
 * addresses, so the work is by addresses and not by pairs of NICs.
 */
static int join_similar(struct replies *replies, size_t addresses, size_t *sets)
{
	size_t *last = calloc(addresses + 2, sizeof(*last));

	if (!last)
		return -ENOMEM;
	if (replies->count)
		qsort(replies->list, replies->count, sizeof(*replies->list), by_nic);
	for (size_t at = 0; at < replies->count; at = end_of(replies, at)) {
		size_t end = end_of(replies, at);

		for (size_t i = at; i < end; i++) {
			size_t before = last[replies->list[i].address];

			if (before && jaccard(replies, before - 1, at) >= SHARE_LEAST)
				sets_join(sets, replies->list[before - 1].nic,
					  replies->list[at].nic);
			last[replies->list[i].address] = at + 1;
		}
	}
	free(last);
	return 0;
}

static void join_by_distance(const struct topo *topo, size_t *leaf, size_t *pod, bool *known)
{
	for (size_t i = 0; i < topo->path_count; i++) {
		const struct topo_path *path = &topo->paths[i];

		if (path->hop_count >= 2 && path->hops[1])
			known[path->a] = true;
		if (path->distance == 1) {
			sets_join(leaf, path->a, path->b);
			known[path->a] = known[path->b] = true;
		}
		if (path->distance && path->distance <= 3)
			sets_join(pod, path->a, path->b);
	}
}

int switch_group(struct topo *topo, size_t *leaf, size_t *pod, bool *known)
{
	struct replies first = {}, second = {}, third = {};
	size_t addresses = json_object_size(topo->hop_ids);
	bool by_switch; /* one address for all ports */
	int err = collect(topo, 0, 1, &first);

	if (!err)
		err = collect(topo, 1, 2, &second);
	if (!err)
		err = collect(topo, 2, 4, &third);
	if (!err) {
		join_by_distance(topo, leaf, pod, known);
		by_switch = join_shared(&first, NULL) > 0.3;
		if (by_switch)
			join_shared(&first, leaf);
		else
			err = join_similar(&second, addresses, leaf);
		for (size_t i = 0; by_switch && i < first.count; i++)
			known[first.list[i].nic] = true;
	}
	if (!err)
		err = join_similar(by_switch ? &second : &third, addresses, pod);
	for (size_t i = 0; !err && i < topo->nic_count; i++)
		sets_join(pod, i, sets_find(leaf, i));
	free(first.list);
	free(second.list);
	free(third.list);
	return err;
}
