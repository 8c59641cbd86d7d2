// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which NIC is at fault where pairs fail. A NIC with a fault fails with most others, each of which
 * fails with it alone: so the NIC with the most failing pairs is at fault if these are a third of
 * all it has, and two at least; what fails with it is explained, and the next one is looked for.
 * What then is left are pairs: a path between two NICs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "internal.h"

#define NONE SIZE_MAX

struct blame_nic {
	const char *address;
	const char *host; /* by its report, or by those of others */
	json_t *entry;	  /* its result; NULL: no report */
	size_t failing;	  /* pairs that are not explained */
	uint64_t pairs;	  /* that it has */
	bool guilty;
};

struct blame_pair {
	size_t ends[2];
	unsigned int seen; /* a bit for each end whose report has it */
	bool explained;
};

struct blame {
	const char *check;
	struct blame_nic *nics;
	size_t count, room;
	struct blame_pair *pairs;
	size_t pair_count, pair_room;
	json_t *numbers; /* {ADDRESS: nic}, {ADDRESS ADDRESS: pair} */
};

/* Delays of both ends were measured at once: one end alone was held up. */
static bool needs_both(const struct blame *blame)
{
	return !strcmp(blame->check, "fabric.latency") || !strcmp(blame->check, "fabric.asymmetry");
}

static size_t number_of(const struct blame *blame, const char *key)
{
	const json_t *number = json_object_get(blame->numbers, key);

	return number ? (size_t)json_integer_value(number) : NONE;
}

/* NONE: no memory. */
static size_t nic_of(struct blame *blame, const char *address)
{
	size_t at = number_of(blame, address);

	if (at != NONE ||
	    array_reserve(&blame->nics, &blame->room, blame->count + 1, sizeof(*blame->nics)))
		return at;
	json_object_set_new(blame->numbers, address, json_integer((json_int_t)blame->count));
	blame->nics[blame->count] = (struct blame_nic){.address = address};
	return blame->count++;
}

static void add_pair(struct blame *blame, size_t from, const json_t *pair)
{
	size_t to = nic_of(blame, json_text(pair, "to")), at;
	size_t low = from < to ? from : to, high = from < to ? to : from;
	char key[64];

	if (to == NONE || to == from)
		return;
	if (!blame->nics[to].host)
		blame->nics[to].host = json_text(pair, "peer");
	snprintf(key, sizeof(key), "%zu %zu", low, high);
	at = number_of(blame, key);
	if (at == NONE) {
		if (array_reserve(&blame->pairs, &blame->pair_room, blame->pair_count + 1,
				  sizeof(*blame->pairs)))
			return;
		at = blame->pair_count++;
		blame->pairs[at] = (struct blame_pair){.ends = {low, high}};
		json_object_set_new(blame->numbers, key, json_integer((json_int_t)at));
	}
	blame->pairs[at].seen |= from == low ? 1u : 2u;
}

/* All entries of the check first: what a report has of a NIC goes before what others have. */
static void read_results(struct blame *blame, json_t *results)
{
	json_t *entry, *pair;
	size_t i, k, at;

	json_array_foreach (results, i, entry) {
		if (strcmp(json_text(entry, "check"), blame->check) ||
		    !*json_text(entry, "address"))
			continue;
		at = nic_of(blame, json_text(entry, "address"));
		if (at == NONE)
			continue;
		blame->nics[at].entry = entry;
		blame->nics[at].host = json_text(entry, "host");
		blame->nics[at].pairs = json_count(entry, "pairs_measured");
	}
	json_array_foreach (results, i, entry) {
		if (strcmp(json_text(entry, "check"), blame->check))
			continue;
		at = number_of(blame, json_text(entry, "address"));
		json_array_foreach (json_object_get(entry, "pairs"), k, pair)
			if (at != NONE)
				add_pair(blame, at, pair);
	}
}

/* An end that measured the pair and found nothing wrong with it. */
static bool contradicts(const struct blame_nic *nic)
{
	const char *result = nic->entry ? json_text(nic->entry, "result") : "";

	return !strcmp(result, "pass") || !strcmp(result, "fail") || !strcmp(result, "waived");
}

static void weigh(struct blame *blame)
{
	for (size_t i = 0; i < blame->pair_count; i++) {
		struct blame_pair *pair = &blame->pairs[i];
		struct blame_nic *low = &blame->nics[pair->ends[0]];
		struct blame_nic *high = &blame->nics[pair->ends[1]];

		if (needs_both(blame) && pair->seen != 3 &&
		    contradicts(pair->seen == 1 ? high : low)) {
			pair->explained = true;
			continue;
		}
		low->failing++;
		high->failing++;
		/* A host without a report has as many pairs as the others. */
		if (!low->entry && high->pairs > low->pairs)
			low->pairs = high->pairs;
		if (!high->entry && low->pairs > high->pairs)
			high->pairs = low->pairs;
	}
}

static void convict(struct blame *blame, size_t at)
{
	blame->nics[at].guilty = true;
	for (size_t i = 0; i < blame->pair_count; i++) {
		struct blame_pair *pair = &blame->pairs[i];

		if (pair->explained || (pair->ends[0] != at && pair->ends[1] != at))
			continue;
		pair->explained = true;
		blame->nics[pair->ends[0] == at ? pair->ends[1] : pair->ends[0]].failing--;
	}
}

static void find_guilty(struct blame *blame)
{
	for (;;) {
		size_t worst = NONE;

		for (size_t i = 0; i < blame->count; i++) {
			const struct blame_nic *nic = &blame->nics[i];

			if (!nic->guilty && nic->failing >= 2 && nic->failing * 3 >= nic->pairs &&
			    (worst == NONE || nic->failing > blame->nics[worst].failing))
				worst = i;
		}
		if (worst == NONE)
			return;
		convict(blame, worst);
	}
}

/* --- what becomes of the entries --- */

static void put_guilty(const struct blame *blame, const struct blame_nic *nic, json_t *results)
{
	const struct audit_check *check = audit_named(blame->check);
	json_t *entry = nic->entry;

	if (!entry) {
		entry = json_object();
		json_put_text(entry, "check", check->id);
		json_put_text(entry, "group", check->group);
		json_put_text(entry, "name", check->name);
		json_put_name(entry, "host", nic->host);
		json_put_text(entry, "subject", nic->address);
		json_array_append_new(results, entry);
	} else if (!strcmp(json_text(entry, "result"), "waived")) {
		return;
	} else if (!strcmp(json_text(entry, "result"), "fail")) {
		return; /* it has its own words for it */
	}
	json_put_text(entry, "result", "fail");
	json_put_text(entry, "severity", check->severity);
	json_put(entry, "value",
		 json_sprintf("%zu of %llu pairs, by the reports of others", nic->failing,
			      (unsigned long long)nic->pairs));
	json_put_text(entry, "expected", check->criterion);
	json_put_text(entry, "remedy", check->remedy);
	json_object_del(entry, "reason");
}

/* The other end of one of its pairs that is at fault; NULL: some pair is not explained by any. */
static const struct blame_nic *culprit_of(const struct blame *blame, size_t at)
{
	const struct blame_nic *culprit = NULL;

	if (blame->nics[at].failing)
		return NULL;
	for (size_t i = 0; i < blame->pair_count; i++) {
		const size_t *ends = blame->pairs[i].ends;

		if (ends[0] != at && ends[1] != at)
			continue;
		if (blame->nics[ends[ends[0] == at]].guilty)
			culprit = &blame->nics[ends[ends[0] == at]];
	}
	return culprit;
}

void audit_explain(json_t *entry, json_t *reason)
{
	static const char *const of_failures[] = {"value", "expected", "remedy", "severity"};

	for (size_t i = 0; i < sizeof(of_failures) / sizeof(of_failures[0]); i++)
		json_object_del(entry, of_failures[i]);
	json_put_text(entry, "result", reason ? "skipped" : "pass");
	json_put(entry, "reason", reason);
}

static void put_innocent(const struct blame *blame, size_t at)
{
	const struct blame_nic *nic = &blame->nics[at], *culprit = culprit_of(blame, at);

	if (!nic->entry || strcmp(json_text(nic->entry, "result"), "fail") || nic->failing)
		return;
	audit_explain(nic->entry,
		      culprit ? json_sprintf("%s of %s %s, which failed", blame->check,
					     culprit->host,
					     culprit->entry ? json_text(culprit->entry, "subject")
							    : culprit->address)
			      : NULL);
	if (!culprit)
		json_put(nic->entry, "value",
			 json_sprintf("%llu pairs, those that failed by this end alone",
				      (unsigned long long)nic->pairs));
}

static void blame_check(const char *check, json_t *results)
{
	struct blame blame = {.check = check, .numbers = json_object()};

	read_results(&blame, results);
	weigh(&blame);
	find_guilty(&blame);
	for (size_t i = 0; i < blame.count; i++)
		if (blame.nics[i].guilty)
			put_guilty(&blame, &blame.nics[i], results);
		else
			put_innocent(&blame, i);
	json_decref(blame.numbers);
	free(blame.nics);
	free(blame.pairs);
}

void audit_blame(json_t *results)
{
	for (const struct audit_check *check = audit_fabric_checks; check->id; check++)
		blame_check(check->id, results);
}
