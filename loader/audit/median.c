// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bandwidths of a ring compared: what is much less than the median is slow. A NIC that is slow is
 * so to its successor and from its predecessor: then it is at fault, and what else is slow with it
 * is explained. What then is left is a pair, of which both ends are named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define HOSTS_LEAST 3
#define SHARE_LEAST 0.95

/* Entries of one check and one name of a NIC; borrowed. */
struct median_set {
	json_t **entries;
	size_t count;
	double median;
};

static double gbps_of(const json_t *entry)
{
	return json_number_value(json_object_get(entry, "gbps"));
}

static bool is_compared(const json_t *entry)
{
	const struct audit_check *check = audit_named(json_text(entry, "check"));

	return check && check->compare == AUDIT_MEDIAN &&
	       !strcmp(json_text(entry, "result"), "recorded");
}

static int by_gbps(const void *a, const void *b)
{
	double left = gbps_of(*(json_t *const *)a), right = gbps_of(*(json_t *const *)b);

	return (left > right) - (left < right);
}

static bool is_slow(const struct median_set *set, const json_t *entry)
{
	return entry && gbps_of(entry) < SHARE_LEAST * set->median;
}

/* The entry whose @key, an address, is @address; NULL. */
static json_t *entry_with(const struct median_set *set, const char *key, const char *address)
{
	for (size_t i = 0; *address && i < set->count; i++)
		if (!strcmp(json_text(set->entries[i], key), address))
			return set->entries[i];
	return NULL;
}

/* @entry is of a NIC that is slow both ways. Rings of two hosts have no third one to compare. */
static bool is_guilty(const struct median_set *set, const json_t *entry)
{
	return is_slow(set, entry) &&
	       is_slow(set, entry_with(set, "to", json_text(entry, "address")));
}

static void set_result(json_t *entry, const char *result)
{
	json_object_set_new(entry, "result", json_string(result));
}

static void judge(const struct median_set *set, json_t *entry)
{
	const struct audit_check *check = audit_named(json_text(entry, "check"));
	const json_t *next = entry_with(set, "address", json_text(entry, "to"));
	char text[AUDIT_TEXT_BYTES];

	if (set->count < HOSTS_LEAST) {
		set_result(entry, "unknown");
		json_put_text(entry, "reason", "fewer than 3 hosts have it");
	} else if (!is_slow(set, entry)) {
		set_result(entry, "pass");
	} else if (!is_guilty(set, entry) && is_guilty(set, next)) {
		snprintf(text, sizeof(text), "%s %s is slow", json_text(next, "host"),
			 json_text(next, "subject"));
		set_result(entry, "skipped");
		json_put_name(entry, "reason", text);
	} else {
		snprintf(text, sizeof(text), "%.2f Gbit/s, the median", set->median);
		set_result(entry, "fail");
		json_put_text(entry, "expected", text);
		json_put_text(entry, "remedy", check->remedy);
	}
}

static void judge_set(struct median_set *set)
{
	size_t middle = set->count / 2;
	json_t **sorted = calloc(set->count, sizeof(*sorted));

	if (sorted) {
		memcpy(sorted, set->entries, set->count * sizeof(*sorted));
		qsort(sorted, set->count, sizeof(*sorted), by_gbps);
		set->median = set->count % 2
				      ? gbps_of(sorted[middle])
				      : (gbps_of(sorted[middle - 1]) + gbps_of(sorted[middle])) / 2;
		for (size_t i = 0; i < set->count; i++)
			judge(set, set->entries[i]);
	}
	free(sorted);
}

void audit_compare_median(json_t *results)
{
	size_t all = json_array_size(results);
	struct median_set set = {.entries = calloc(all + 1, sizeof(json_t *))};

	/* What is judged is not "recorded" any more, so that each set is found once. */
	for (size_t i = 0; set.entries && i < all; i++) {
		const json_t *first = json_array_get(results, i);

		if (!is_compared(first))
			continue;
		set.count = 0;
		for (size_t k = i; k < all; k++) {
			json_t *entry = json_array_get(results, k);

			if (is_compared(entry) &&
			    !strcmp(json_text(entry, "check"), json_text(first, "check")) &&
			    !strcmp(json_text(entry, "subject"), json_text(first, "subject")))
				set.entries[set.count++] = entry;
		}
		judge_set(&set);
	}
	free(set.entries);
}
