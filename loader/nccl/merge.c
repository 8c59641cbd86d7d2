// SPDX-License-Identifier: BSD-2-Clause
/* Communicators of several hosts, joined from their JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define MERGE_PARTS 8192 /* of a communicator */

static json_t *find(const json_t *list, const char *communicator)
{
	json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (!strcmp(json_text(one, "communicator"), communicator))
			return one;
	return NULL;
}

static void join(json_t *joined, const json_t *one)
{
	static const char *const lists[] = {"ranks", "operations", "qps", "recent"};
	json_t *to = find(joined, json_text(one, "communicator")), *value;
	const char *key;

	if (!to) {
		to = json_object();
		json_object_foreach ((json_t *)one, key, value)
			json_object_set_new(to, key, json_deep_copy(value));
		json_array_append_new(joined, to);
		return;
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		value = json_object_get(one, lists[i]);
		if (json_is_array(value) && json_is_array(json_object_get(to, lists[i])))
			json_array_extend(json_object_get(to, lists[i]), value);
	}
}

static int by_collective(const void *a, const void *b)
{
	const struct nccl_part *x = a, *y = b;
	int order = strcmp(x->func, y->func);

	if (order)
		return order;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static const char *host_of(const json_t *communicator, int32_t rank)
{
	json_t *one;
	size_t i;

	json_array_foreach (json_object_get(communicator, "ranks"), i, one)
		if (json_is_integer(json_object_get(one, "rank")) &&
		    json_integer_value(json_object_get(one, "rank")) == rank)
			return json_text(one, "host");
	return NULL;
}

static json_t *named_verdict(const json_t *communicator, const struct nccl_verdict *verdict)
{
	json_t *object = nccl_verdict_json(verdict);

	json_put_text(object, "host", host_of(communicator, verdict->rank));
	if (verdict->cause == CAUSE_LINK)
		json_put_text(object, "peer", host_of(communicator, verdict->peer));
	return object;
}

/* The verdict that most collectives share, if at least two do. */
static void put_verdict(json_t *communicator, const struct nccl_verdict verdicts[], size_t count)
{
	size_t best = 0, most = 0;

	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t k = 0; verdicts[i].cause != CAUSE_NONE && k < count; k++)
			same += verdicts[k].cause == verdicts[i].cause &&
				verdicts[k].rank == verdicts[i].rank &&
				verdicts[k].peer == verdicts[i].peer;
		if (same > most) {
			most = same;
			best = i;
		}
	}
	json_put_count(communicator, "judged", count);
	json_object_del(communicator, "verdict");
	if (most < 2)
		return;
	json_put(communicator, "verdict", named_verdict(communicator, &verdicts[best]));
	json_put_count(json_object_get(communicator, "verdict"), "collectives", most);
}

/* Parts of the collective that begins at @first. */
static size_t count_of(const struct nccl_part parts[], size_t known, size_t first)
{
	size_t count = 1;

	while (first + count < known && parts[first + count].sequence == parts[first].sequence &&
	       !strcmp(parts[first + count].func, parts[first].func))
		count++;
	return count;
}

static void judge(json_t *communicator)
{
	struct nccl_part *parts = calloc(MERGE_PARTS, sizeof(*parts));
	struct nccl_verdict *verdicts = calloc(MERGE_PARTS, sizeof(*verdicts));
	const struct nccl_part *of[RANKS_MAX];
	size_t known = 0, judged = 0, whole = 0, count, i;
	json_t *one;

	if (!parts || !verdicts)
		goto out;
	json_array_foreach (json_object_get(communicator, "recent"), i, one)
		if (known < MERGE_PARTS && nccl_part_parse(one, &parts[known]) &&
		    parts[known].algo[0])
			known++;
	qsort(parts, known, sizeof(*parts), by_collective);
	for (i = 0; i < known; i += count) {
		count = count_of(parts, known, i);
		whole = count > whole ? count : whole;
	}
	/* Hosts were asked one after the other: what one of them has no part of is not compared. */
	for (i = 0; i < known; i += count) {
		count = count_of(parts, known, i);
		for (size_t k = 0; k < count && k < RANKS_MAX; k++)
			of[k] = &parts[i + k];
		if (count == whole)
			nccl_judge(of, count < RANKS_MAX ? count : RANKS_MAX, false,
				   &verdicts[judged++]);
	}
	put_verdict(communicator, verdicts, judged);
out:
	free(parts);
	free(verdicts);
}

json_t *nccl_merge(const json_t *communicators)
{
	json_t *joined = json_array(), *one;
	size_t i;

	json_array_foreach (communicators, i, one)
		if (json_is_object(one))
			join(joined, one);
	json_array_foreach (joined, i, one)
		judge(one);
	return joined;
}
