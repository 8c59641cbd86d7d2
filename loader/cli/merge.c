// SPDX-License-Identifier: BSD-2-Clause
/*
 * Event logs of several hosts in one order. Each event happened within its bound of its fabric
 * time, and after those that its own host recorded before it: both together order events of two
 * hosts, or do not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "cli.h"

#define NOT_ORDERED_LISTED 16	/* ids of an event's `not_ordered_with` */
#define NOT_ORDERED_LOOKED 1000 /* lines above it among which they are looked for */

/* --- one log --- */

/* "HOST:START:NUMBER" of @host. */
static bool parse_id(const char *id, const char *host, struct merged *out)
{
	size_t bytes = strlen(host);
	char *end;

	if (!bytes || strncmp(id, host, bytes) || id[bytes] != ':' || !id[bytes + 1])
		return false;
	errno = 0;
	out->start = strtoull(id + bytes + 1, &end, 16);
	if (*end != ':' || end == id + bytes + 1 || end[1] < '0' || end[1] > '9')
		return false;
	out->number = strtoull(end + 1, &end, 10);
	return !*end && !errno;
}

/* False: it is no event. */
static bool parse_event(const json_t *event, struct merged *out)
{
	const int64_t most_ns = INT64_MAX / 4;
	const json_t *fabric = json_object_get(event, "fabric_ns");
	const json_t *bound = json_object_get(event, "bound_ns");
	int64_t fabric_ns = json_integer_value(fabric), bound_ns = json_integer_value(bound);

	out->host = json_text(event, "host");
	out->timed = fabric || bound;
	out->low_ns = INT64_MIN;
	out->high_ns = INT64_MAX;
	if (!*json_text(event, "kind") || !json_is_integer(json_object_get(event, "time_ns")) ||
	    !parse_id(json_text(event, "id"), out->host, out))
		return false;
	if (!out->timed)
		return true;
	if (!json_is_integer(fabric) || !json_is_integer(bound) || bound_ns < 0 ||
	    bound_ns >= most_ns || fabric_ns <= -most_ns || fabric_ns >= most_ns)
		return false;
	out->low_ns = fabric_ns - bound_ns;
	out->high_ns = fabric_ns + bound_ns;
	return true;
}

bool merge_line(struct merge *merge, const char *line, size_t bytes)
{
	struct merged one = {}, *added = NULL;
	json_t *event = json_loadb(line, bytes, 0, NULL);

	if (parse_event(event, &one))
		added = array_add(&merge->list, &merge->count, &merge->room, sizeof(one));
	if (!added) {
		json_decref(event);
		return false;
	}
	*added = one;
	added->event = event;
	return true;
}

/* --- the order --- */

static int compare_own(const void *a, const void *b)
{
	const struct merged *x = a, *y = b;
	int hosts = strcmp(x->host, y->host);

	if (hosts)
		return hosts;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int compare_merged(const void *a, const void *b)
{
	const struct merged *x = a, *y = b;

	if (x->key_ns != y->key_ns)
		return x->key_ns < y->key_ns ? -1 : 1;
	if (x->wall_ns != y->wall_ns)
		return x->wall_ns < y->wall_ns ? -1 : 1;
	return compare_own(a, b);
}

/* Those that are in two files are kept once. @merge is in the order of compare_own(). */
static void drop_copies(struct merge *merge)
{
	size_t kept = 0;

	for (size_t i = 0; i < merge->count; i++) {
		if (kept && !compare_own(&merge->list[kept - 1], &merge->list[i]))
			json_decref(merge->list[i].event);
		else
			merge->list[kept++] = merge->list[i];
	}
	merge->count = kept;
}

/*
 * The events of one host, in their order, which is certain: none was before an earlier one. What
 * contradicts a later one is of another fabric time, from before the fleet's was reset: of it
 * only the order is used.
 */
static void narrow(struct merged *list, size_t count)
{
	int64_t low_ns = INT64_MIN, high_ns = INT64_MAX, key_ns = INT64_MAX;
	uint64_t wall_ns = 0;
	bool other = false;

	for (size_t i = count; i-- > 0;) {
		other = other || list[i].low_ns > high_ns;
		if (other)
			list[i].low_ns = INT64_MIN;
		if (other || high_ns < list[i].high_ns)
			list[i].high_ns = high_ns;
		high_ns = list[i].high_ns;
		list[i].timed = list[i].timed && !other;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t at_ns = json_count(list[i].event, "time_ns");

		if (list[i].low_ns < low_ns)
			list[i].low_ns = low_ns;
		low_ns = list[i].low_ns;
		wall_ns = list[i].wall_ns = at_ns > wall_ns ? at_ns : wall_ns;
		if (low_ns > INT64_MIN && list[i].high_ns < INT64_MAX)
			key_ns = low_ns + (list[i].high_ns - low_ns) / 2;
		list[i].key_ns = key_ns;
	}
	/* Before its first with a time: with that. */
	for (size_t i = count; i-- > 0;) {
		if (list[i].low_ns > INT64_MIN)
			key_ns = list[i].key_ns;
		list[i].key_ns = list[i].low_ns > INT64_MIN ? list[i].key_ns : key_ns;
	}
}

static bool is_before(const struct merged *a, const struct merged *b)
{
	return !strcmp(a->host, b->host) || a->high_ns < b->low_ns;
}

void merge_sort(struct merge *merge)
{
	size_t begin = 0;

	if (merge->count)
		qsort(merge->list, merge->count, sizeof(*merge->list), compare_own);
	drop_copies(merge);
	for (size_t i = 1; i <= merge->count; i++) {
		if (i < merge->count && !strcmp(merge->list[i].host, merge->list[begin].host))
			continue;
		narrow(merge->list + begin, i - begin);
		begin = i;
	}
	if (merge->count)
		qsort(merge->list, merge->count, sizeof(*merge->list), compare_merged);
}

/* --- what the bounds do not order --- */

/* The shown events of a host so far. */
struct shown {
	const char *host;
	const struct merged **list;
	size_t count, room;
};

static int compare_hosts(const void *a, const void *b)
{
	return strcmp(((const struct shown *)a)->host, ((const struct shown *)b)->host);
}

/* One for each host; NULL: no memory. */
static struct shown *list_hosts(const struct merge *merge, size_t *count)
{
	struct shown *hosts = calloc(merge->count + 1, sizeof(*hosts));
	size_t kept = 0;

	if (!hosts)
		return NULL;
	for (size_t i = 0; i < merge->count; i++)
		hosts[i].host = merge->list[i].host;
	qsort(hosts, merge->count, sizeof(*hosts), compare_hosts);
	for (size_t i = 0; i < merge->count; i++)
		if (!kept || compare_hosts(&hosts[kept - 1], &hosts[i]))
			hosts[kept++] = hosts[i];
	*count = kept;
	return hosts;
}

/* How many of @from, of which each is after those before it, may be after @one. */
static size_t count_not_before(const struct shown *from, const struct merged *one)
{
	size_t low = 0, high = from->count;

	if (!strcmp(from->host, one->host))
		return 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (is_before(from->list[middle], one))
			low = middle + 1;
		else
			high = middle;
	}
	return from->count - low;
}

size_t merge_count_not_ordered(struct merge *merge, const json_t *args)
{
	size_t count = 0, not_ordered = 0;
	struct shown *hosts = list_hosts(merge, &count);

	for (size_t i = 0; hosts && i < merge->count; i++) {
		struct merged *one = &merge->list[i];
		const struct shown key = {.host = one->host};
		struct shown *own;
		const struct merged **place;

		if (!cli_event_matches(args, one->event) ||
		    json_count(one->event, "time_ns") < json_count(args, "since_ns"))
			continue;
		for (size_t h = 0; h < count; h++)
			one->not_ordered += count_not_before(&hosts[h], one);
		not_ordered += one->not_ordered != 0;
		own = bsearch(&key, hosts, count, sizeof(*hosts), compare_hosts);
		place = array_add(&own->list, &own->count, &own->room, sizeof(*place));
		if (place)
			*place = one;
		one->shown = true;
	}
	for (size_t h = 0; hosts && h < count; h++)
		free(hosts[h].list);
	free(hosts);
	return not_ordered;
}

void merge_free(struct merge *merge)
{
	for (size_t i = 0; i < merge->count; i++)
		json_decref(merge->list[i].event);
	free(merge->list);
	*merge = (struct merge){};
}

/* The nearest of those above it. */
void merge_put_not_ordered(const struct merge *merge, const struct merged *one)
{
	json_t *ids = json_array();
	size_t looked = 0;

	for (const struct merged *above = one; above-- > merge->list;) {
		if (++looked > NOT_ORDERED_LOOKED || json_array_size(ids) == NOT_ORDERED_LISTED ||
		    json_array_size(ids) == one->not_ordered)
			break;
		if (above->shown && !is_before(above, one))
			json_array_append(ids, json_object_get(above->event, "id"));
	}
	json_put_count(one->event, "not_ordered", one->not_ordered);
	json_put(one->event, "not_ordered_with", ids);
}
