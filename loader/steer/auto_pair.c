// SPDX-License-Identifier: BSD-2-Clause
/* One pair of addresses as the contention policy is shown it: its paths and its queue pairs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qp/table.h"
#include "auto.h"

#define NO_PATH UINT32_MAX
#define SMOOTH_NS 40e6	       /* of rates: four looks */
#define STILL_NS 60000000000ll /* perhaps it has ended */
#define MESSAGE_PART 0.25      /* that a new mean counts */
#define MESSAGE_MOST_NS 10e9   /* of no use for a moment to wait for */

struct auto_pair *auto_pair_new(const struct path_pair_facts *facts,
				const struct contend_config *config)
{
	struct auto_pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return NULL;
	pair->facts = *facts;
	contend_init(&pair->contend, config);
	return pair;
}

void auto_pair_free(struct auto_pair *pair)
{
	if (!pair)
		return;
	free(pair->qps);
	free(pair->who);
	free(pair);
}

/* --- paths --- */

/* Lanes of one group are one path, which the first of them stands for. */
static uint8_t first_of_group(const struct auto_pair *pair, size_t lane)
{
	uint32_t group = pair->lanes[lane].group;

	for (size_t i = 0; group && i < lane; i++)
		if (pair->lanes[i].sport && pair->lanes[i].group == group)
			return (uint8_t)i;
	return (uint8_t)lane;
}

/* The one of a path's lanes that is known best: those in use are probed more often. */
static const struct path_facts *best_known(const struct auto_pair *pair, size_t path)
{
	const struct path_facts *best = NULL;

	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++) {
		const struct path_facts *lane = &pair->lanes[i];

		if (!lane->sport || pair->path[i] != path || !lane->usable)
			continue;
		if (!best || lane->interval_ns < best->interval_ns ||
		    (lane->interval_ns == best->interval_ns &&
		     lane->measured_ns > best->measured_ns))
			best = lane;
	}
	return best;
}

static void see_path(struct auto_pair *pair, size_t number)
{
	struct contend_path *path = &pair->paths[number];
	const struct path_facts *lane = NULL;

	/* What shares a path with another port is only known of groups. */
	if (pair->lanes[number].sport && pair->lanes[number].group && pair->path[number] == number)
		lane = best_known(pair, number);
	path->usable = lane && lane->measured_ns;
	if (!path->usable)
		return;
	path->floor_ns = lane->floor_ns;
	path->delay_ns = lane->delay_ns;
	path->worst_ns = lane->worst_ns >= lane->delay_ns ? lane->worst_ns : lane->delay_ns;
	path->noise_ns = isnan(lane->noise_ns) ? 0 : lane->noise_ns;
	path->bound_ns = lane->bound_ns;
	path->measured_ns = lane->measured_ns;
}

void auto_pair_see_lanes(struct auto_pair *pair, const struct paths *paths)
{
	struct path_facts found[ESC_PATH_LANES_MAX];
	uint16_t sports[ESC_PATH_LANES_MAX];
	bool another = false;
	size_t count = paths_candidates(paths, pair->facts.slot, found);

	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++)
		sports[i] = pair->lanes[i].sport;
	memset(pair->lanes, 0, sizeof(pair->lanes));
	for (size_t i = 0; i < count; i++)
		if (found[i].id < ESC_PATH_LANES_MAX)
			pair->lanes[found[i].id] = found[i];
	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++) {
		uint8_t first = first_of_group(pair, i);

		another |=
			sports[i] && (pair->path[i] != first || sports[i] != pair->lanes[i].sport);
		pair->path[i] = first;
	}
	if (another)
		contend_forget(pair->paths, ESC_PATH_LANES_MAX, pair->qps, pair->count);
	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++)
		see_path(pair, i);
}

uint32_t auto_pair_path_of(const struct auto_pair *pair, int lane)
{
	const struct path_facts *facts;

	if (lane < 0 || lane >= ESC_PATH_LANES_MAX || !pair->lanes[lane].sport)
		return NO_PATH;
	facts = &pair->lanes[lane];
	if (facts->diverted_ns && facts->standby >= 0 && facts->standby < ESC_PATH_LANES_MAX)
		return pair->path[facts->standby];
	return pair->path[lane];
}

int auto_pair_lane_for(const struct auto_pair *pair, uint32_t path)
{
	const struct path_facts *lane =
		path < ESC_PATH_LANES_MAX ? best_known(pair, path) : NULL;

	return lane ? (int)lane->id : -1;
}

bool auto_pair_is_calm(const struct auto_pair *pair)
{
	for (size_t i = 0; i < ESC_PATH_LANES_MAX; i++)
		if (pair->paths[i].stands_out)
			return false;
	for (size_t i = 0; i < pair->count; i++)
		if (pair->qps[i].ordered)
			return false;
	return true;
}

/* --- queue pairs --- */

static void see_messages(struct contend_qp *qp, double mean_ns)
{
	if (mean_ns > MESSAGE_MOST_NS)
		return;
	qp->message_ns += qp->message_ns > 0 ? MESSAGE_PART * (mean_ns - qp->message_ns) : mean_ns;
}

void auto_qp_see(struct auto_qp *who, struct contend_qp *qp, const struct esc_qp *read,
		 int64_t now_ns)
{
	double ns = (double)(now_ns - who->read_ns);
	uint64_t messages = read->messages - who->messages;

	if (!who->read_ns || read->packets < who->packets || ns <= 0) {
		who->still_ns = now_ns;
	} else {
		double rate = (double)(read->bytes - who->bytes) * 1e9 / ns;

		qp->rate_Bps += (1 - exp(-ns / SMOOTH_NS)) * (rate - qp->rate_Bps);
		qp->idle_gap_ns =
			read->packets == who->packets ? (double)(now_ns - who->still_ns) : 0;
		if (read->packets != who->packets)
			who->still_ns = now_ns;
		if (messages && who->message_ns)
			see_messages(qp, (double)(now_ns - who->message_ns) / (double)messages);
		if (messages)
			who->message_ns = now_ns;
	}
	who->read_ns = now_ns;
	who->packets = read->packets;
	who->bytes = read->bytes;
	who->messages = read->messages;
}

static bool is_of_pair(const struct auto_pair *pair, const struct esc_qp_key *key)
{
	return key->direction == ESC_DIRECTION_TX && key->port == pair->facts.port &&
	       !memcmp(&key->src, &pair->facts.key.src, sizeof(key->src)) &&
	       !memcmp(&key->dst, &pair->facts.key.dst, sizeof(key->dst));
}

static int add_qp(struct auto_pair *pair, const struct qp_entry *entry)
{
	if (pair->count == pair->room) {
		size_t room = pair->room ? 2 * pair->room : 8;
		void *qps = realloc(pair->qps, room * sizeof(*pair->qps)), *who;

		if (!qps)
			return -ENOMEM;
		pair->qps = qps;
		who = realloc(pair->who, room * sizeof(*pair->who));
		if (!who)
			return -ENOMEM;
		pair->who = who;
		pair->room = room;
	}
	pair->qps[pair->count] = (struct contend_qp){.path = NO_PATH};
	pair->who[pair->count] = (struct auto_qp){
		.key = entry->key,
		.first_local_ns = entry->qp.first_local_ns,
		.own_sport = entry->qp.sport,
		.home = -1,
		.lane = -1,
	};
	pair->count++;
	return 0;
}

/* Its number, or SIZE_MAX. Tables are sorted, so it is mostly the one behind the last. */
static size_t find_qp(const struct auto_pair *pair, const struct qp_entry *entry, size_t from)
{
	for (size_t n = 0; n < pair->count; n++) {
		size_t i = (from + n) % pair->count;

		if (pair->who[i].first_local_ns == entry->qp.first_local_ns &&
		    !memcmp(&pair->who[i].key, &entry->key, sizeof(entry->key)))
			return i;
	}
	return SIZE_MAX;
}

static void drop_gone(struct auto_pair *pair)
{
	for (size_t i = pair->count; i-- > 0;) {
		if (pair->who[i].there)
			continue;
		pair->count--;
		pair->who[i] = pair->who[pair->count];
		pair->qps[i] = pair->qps[pair->count];
	}
}

/* It may have ended, and a lane that its order leads to is wanted by one that moves. */
static bool is_in_the_way(const struct auto_pair *pair, const struct qp_entry *entry,
			  uint64_t now_ns)
{
	return pair->facts.crowded && (int64_t)(now_ns - entry->seen_local_ns) > STILL_NS;
}

int auto_pair_see_table(struct auto_pair *pair, const struct paths *paths,
			const struct qp_entry *entries, size_t count, uint64_t now_ns)
{
	size_t at = 0;

	for (size_t i = 0; i < pair->count; i++)
		pair->who[i].there = false;
	for (size_t i = 0; i < count; i++) {
		struct auto_qp *who;

		if (!is_of_pair(pair, &entries[i].key) || is_in_the_way(pair, &entries[i], now_ns))
			continue;
		at = find_qp(pair, &entries[i], at);
		if (at == SIZE_MAX) {
			if (add_qp(pair, &entries[i]))
				return -ENOMEM;
			at = pair->count - 1;
		}
		who = &pair->who[at];
		who->there = true;
		who->own_sport = entries[i].qp.sport;
		who->home = paths_id_of(paths, pair->facts.slot, who->own_sport);
		at++;
	}
	drop_gone(pair);
	return 0;
}
