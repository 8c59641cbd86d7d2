// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/colocategroup.h"

#include <errno.h>
#include <stdlib.h>

#define LIKELY 0.9f

/* Hosts in lists, one for each group that there may be. */
struct clusters {
	size_t *of;	 /* of each host, the first host of its list */
	size_t *next;	 /* SIZE_MAX: the last */
	uint32_t *named; /* pairs, the most certain first */
};

static struct colocate_pair *pair_of(const struct colocate *out, size_t a, size_t b)
{
	return &out->pairs[colocate_index(out->count, a, b)];
}

/* One pair of many may be certain by chance: half of those between two lists have to be likely. */
static bool is_agreed(const struct colocate *out, const struct clusters *clusters, size_t a,
		      size_t b)
{
	size_t likely = 0, all = 0;

	for (size_t i = a; i != SIZE_MAX; i = clusters->next[i])
		for (size_t k = b; k != SIZE_MAX; k = clusters->next[k]) {
			if (pair_of(out, i, k)->probability < COLOCATE_PRIOR)
				return false;
			likely += pair_of(out, i, k)->probability > LIKELY;
			all++;
		}
	return 2 * likely >= all;
}

static void join(struct clusters *clusters, size_t a, size_t b)
{
	size_t last = a;

	while (clusters->next[last] != SIZE_MAX)
		last = clusters->next[last];
	clusters->next[last] = b;
	for (size_t i = b; i != SIZE_MAX; i = clusters->next[i])
		clusters->of[i] = a;
}

static int by_probability(const void *a, const void *b, void *context)
{
	const struct colocate_pair *pairs = context;
	float x = pairs[*(const uint32_t *)a].probability;
	float y = pairs[*(const uint32_t *)b].probability;

	return x != y ? (x < y) - (x > y)
		      : (*(const uint32_t *)a > *(const uint32_t *)b) -
				(*(const uint32_t *)a < *(const uint32_t *)b);
}

/* The two hosts of a pair by its index. */
static void hosts_of(size_t count, size_t index, size_t *a, size_t *b)
{
	*a = 0;
	while (index >= count - 1 - *a)
		index -= count - 1 - (*a)++;
	*b = *a + 1 + index;
}

static void make_clusters(struct colocate *out, struct clusters *clusters)
{
	size_t pairs = out->count ? out->count * (out->count - 1) / 2 : 0, named = 0, a, b;

	for (size_t i = 0; i < out->count; i++) {
		clusters->of[i] = i;
		clusters->next[i] = SIZE_MAX;
	}
	for (size_t i = 0; i < pairs; i++)
		if (out->pairs[i].verdict == COLOCATE_SAME)
			clusters->named[named++] = (uint32_t)i;
	qsort_r(clusters->named, named, sizeof(clusters->named[0]), by_probability, out->pairs);
	for (size_t i = 0; i < named; i++) {
		hosts_of(out->count, clusters->named[i], &a, &b);
		a = clusters->of[a];
		b = clusters->of[b];
		if (a != b && is_agreed(out, clusters, a, b))
			join(clusters, a, b);
	}
}

int colocate_group(struct colocate *out)
{
	size_t count = out->count, pairs = count ? count * (count - 1) / 2 : 0, same = 0;
	struct clusters clusters = {calloc(count + 1, sizeof(size_t)),
				    calloc(count + 1, sizeof(size_t)),
				    calloc(pairs + 1, sizeof(uint32_t))};
	int err = clusters.of && clusters.next && clusters.named ? 0 : -ENOMEM;

	if (err)
		goto out;
	make_clusters(out, &clusters);
	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++)
			same += clusters.of[i] == clusters.of[k];
	out->too_many =
		count >= COLOCATE_SHARE_FLEET && (double)same > COLOCATE_SHARE_MOST * (double)pairs;
	for (size_t i = 0; i < count; i++)
		out->group[i] = SIZE_MAX;
	for (size_t i = 0, at = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++, at++) {
			struct colocate_pair *pair = &out->pairs[at];

			if (out->too_many || clusters.of[i] != clusters.of[k]) {
				if (pair->verdict == COLOCATE_SAME)
					pair->verdict = COLOCATE_UNKNOWN;
				continue;
			}
			pair->verdict = COLOCATE_SAME;
			out->expected_false_pairs += 1 - (double)pair->probability;
			if (out->group[i] == SIZE_MAX)
				out->group[i] = out->group_count++;
			out->group[k] = out->group[i];
		}
out:
	free(clusters.of);
	free(clusters.next);
	free(clusters.named);
	return err;
}
