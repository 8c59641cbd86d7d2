// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steering by itself: after each look at the paths the policy (pacing/contend.h) is shown what
 * is known of each pair of addresses, and what it wants is ordered. Queue pairs that
 * stay where they are have an order too, which names their lane: so the kernel programs leave it
 * when it dies.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "net/ethtool.h"
#include "core/events.h"
#include "base/log.h"
#include "qp/table.h"
#include "net/rtnl.h"
#include "auto.h"

#define FRAME_BYTES 38		  /* of Ethernet, with preamble and gap, beside the MTU */
#define LOOKS 4			  /* on end: a burst of a few ms is no reason to move */
#define ONCE_STALE_NS 600000000ll /* paths are probed each 250 ms where nothing is steered */
#define CALM_LOOKS 10		  /* queue pairs are read every so often while nothing stands out */
#define LOST_TURNS 20 /* readings of the table without its pair: an order has no lane any more */

/* --- pairs --- */

/* Bytes a second of a path that begins at interface @port; 0: not known. */
static double capacity_of(const struct steer *steer, unsigned int port)
{
	double bps = steer_keys(steer->daemon->config)->capacity_bps;
	char name[16];

	if (bps <= 0 && steer_interface(steer, port, name))
		bps = ethtool_speed_bps(name);
	return bps / 8;
}

static void make_config(const struct steer *steer, unsigned int port, struct contend_config *config)
{
	struct link_facts link;
	char name[16];

	contend_config_default(config);
	config->looks = LOOKS;
	config->capacity_Bps = capacity_of(steer, port);
	if (steer_interface(steer, port, name) && !rtnl_link(name, &link))
		config->packet_bytes = link.mtu + FRAME_BYTES;
	config->moves_per_s = steer_keys(steer->daemon->config)->moves_per_s;
	config->moves_burst = fmax(config->moves_per_s / 2, 1);
}

static struct auto_pair *pair_find(const struct steer_auto *by_itself,
				   const struct path_pair_facts *facts)
{
	for (size_t i = 0; i < by_itself->count; i++) {
		struct auto_pair *pair = by_itself->pairs[i];

		if (pair->facts.port == facts->port &&
		    !memcmp(&pair->facts.key, &facts->key, sizeof(facts->key)))
			return pair;
	}
	return NULL;
}

static struct auto_pair *pair_add(struct steer *steer, struct steer_auto *by_itself,
				  const struct path_pair_facts *facts)
{
	struct contend_config config;

	if (by_itself->count == by_itself->room) {
		size_t room = by_itself->room ? 2 * by_itself->room : 8;
		void *pairs = realloc(by_itself->pairs, room * sizeof(struct auto_pair *));

		if (!pairs)
			return NULL;
		by_itself->pairs = pairs;
		by_itself->room = room;
	}
	make_config(steer, facts->port, &config);
	by_itself->pairs[by_itself->count] = auto_pair_new(facts, &config);
	if (!by_itself->pairs[by_itself->count])
		return NULL;
	return by_itself->pairs[by_itself->count++];
}

/* Pairs as the paths have them now. One without memory for it is not steered in this turn. */
static void see_pairs(struct steer *steer, struct steer_auto *by_itself)
{
	const struct path_pair_facts *facts;
	size_t count = paths_pairs(steer->paths, &facts);

	for (size_t i = 0; i < by_itself->count; i++)
		by_itself->pairs[i]->there = false;
	for (size_t i = 0; i < count; i++) {
		struct auto_pair *pair = pair_find(by_itself, &facts[i]);

		if (!pair)
			pair = pair_add(steer, by_itself, &facts[i]);
		if (!pair)
			continue;
		pair->there = true;
		pair->facts = facts[i];
	}
	for (size_t i = by_itself->count; i-- > 0;) {
		if (by_itself->pairs[i]->there)
			continue;
		auto_pair_free(by_itself->pairs[i]);
		by_itself->pairs[i] = by_itself->pairs[--by_itself->count];
	}
}

static void drop_pairs(struct steer_auto *by_itself)
{
	while (by_itself->count)
		auto_pair_free(by_itself->pairs[--by_itself->count]);
}

/* --- orders of those that stay --- */

static struct steered *order_of(struct steer *steer, struct auto_qp *who)
{
	struct steered *entry;

	if (who->at < steer->count &&
	    !memcmp(&steer->list[who->at].key, &who->key, sizeof(who->key)))
		return &steer->list[who->at];
	entry = steer_find(steer, &who->key);
	if (entry)
		who->at = entry - steer->list;
	return entry;
}

/* The lanes were numbered anew, or its own port is known to be of another one. */
static void follow_lanes(struct steer *steer, const struct auto_pair *pair,
			 const struct auto_qp *who, struct steered *entry, uint64_t now_ns)
{
	struct steer_lane_order order = {.slot = pair->facts.slot,
					 .lane = entry->want.lane,
					 .sport = entry->want.sport,
					 .reason = STEER_BY_COVER};

	if (who->home >= 0)
		entry->home = (uint8_t)who->home;
	if (!entry->done)
		return;
	if (!order.sport)
		order.lane = entry->home;
	for (unsigned int i = 0; order.sport && i < ESC_PATH_LANES_MAX; i++)
		if (pair->lanes[i].sport == order.sport)
			order.lane = i;
	if (order.slot != entry->want.slot || order.lane != entry->want.lane)
		steer_order_lane(steer, entry, &order, now_ns);
}

static void cover(struct steer *steer, const struct auto_pair *pair, struct auto_qp *who,
		  uint64_t now_ns)
{
	struct steer_auto *by_itself = steer->by_itself;
	struct steered *entry = order_of(steer, who);
	struct esc_qp qp;

	if (entry && entry->by_itself) {
		entry->turn = by_itself->turn;
		follow_lanes(steer, pair, who, entry, now_ns);
		return;
	}
	if (entry || who->home < 0 || steer_read_qp(steer, &who->key, &qp))
		return;
	entry = steer_cover(steer, &who->key, &qp, pair->facts.slot, (unsigned int)who->home,
			    now_ns);
	if (entry)
		entry->turn = by_itself->turn;
	else
		auto_tell_full(steer, &who->key);
}

static void see_table(struct steer *steer, struct steer_auto *by_itself, uint64_t now_ns)
{
	const struct qp_entry *entries;
	size_t count;

	by_itself->table_local_ns = qptable_refreshed_ns(steer->daemon->qps);
	by_itself->turn++;
	entries = qptable_entries(steer->daemon->qps, &count);
	for (size_t i = 0; i < by_itself->count; i++) {
		struct auto_pair *pair = by_itself->pairs[i];

		if (!(steer_ports(steer) >> pair->facts.port & 1) ||
		    auto_pair_see_table(pair, steer->paths, entries, count, now_ns))
			continue;
		for (size_t q = 0; q < pair->count; q++)
			cover(steer, pair, &pair->who[q], now_ns);
	}
	for (size_t i = steer->count; i-- > 0;)
		if (steer->list[i].by_itself && by_itself->turn - steer->list[i].turn > LOST_TURNS)
			steer_uncover(steer, &steer->list[i]);
}

/* --- a look --- */

/* The lane that its packets take now, as far as orders say. */
static int lane_of(struct steer *steer, const struct auto_pair *pair, const struct auto_qp *who,
		   const struct steered *entry)
{
	uint16_t sport;

	if (!entry)
		return who->home;
	if (entry->by_itself && entry->done)
		return entry->want.lane;
	if (entry->by_itself)
		return who->lane >= 0 ? who->lane : entry->stood_lane;
	sport = entry->now.sport ? entry->now.sport : who->own_sport;
	return paths_id_of(steer->paths, pair->facts.slot, sport);
}

/* An order that waits; the policy may have dropped it, or a daemon before us left it. */
static void follow_order(struct steer *steer, const struct auto_pair *pair, size_t q,
			 struct steered *entry, uint64_t now_ns)
{
	if (pair->qps[q].ordered)
		auto_follow_hold(steer, pair, q, entry);
	else if (entry->reason != STEER_BY_COVER)
		auto_withdraw(steer, pair, entry, now_ns);
}

/* For how long it has sent nothing while an acknowledge lacks; 0: not so, or not known. */
static double unanswered_ns(struct steer *steer, const struct auto_qp *who,
			    const struct steered *entry, const struct esc_qp *read)
{
	struct esc_qp back;

	if (who->still_ns >= who->read_ns || !entry || !entry->has_back ||
	    !(read->requests.flags & ESC_PSN_VALID) || steer_read_qp(steer, &entry->back, &back) ||
	    !(back.responses.flags & ESC_PSN_VALID) || back.responses.next == read->requests.next)
		return 0;
	return (double)(who->read_ns - who->still_ns);
}

static void read_qp(struct steer *steer, struct auto_pair *pair, size_t q, uint64_t now_ns)
{
	struct auto_qp *who = &pair->who[q];
	struct contend_qp *qp = &pair->qps[q];
	struct steered *entry = order_of(steer, who);
	struct esc_qp read;

	if (steer_read_qp(steer, &who->key, &read) || read.first_local_ns != who->first_local_ns) {
		qp->path = UINT32_MAX;
		return;
	}
	auto_qp_see(who, qp, &read, (int64_t)now_ns);
	qp->unanswered_ns = unanswered_ns(steer, who, entry, &read);
	if (entry && entry->by_itself && !entry->done && read.steer.done == entry->want.order) {
		steer_look_at(steer, entry, now_ns);
		entry = order_of(steer, who);
	}
	if (entry && entry->by_itself && !entry->done)
		follow_order(steer, pair, q, entry, now_ns);
	who->lane = lane_of(steer, pair, who, entry);
	qp->path = auto_pair_path_of(pair, who->lane);
	qp->pinned = !entry || !entry->by_itself || steer_is_held(steer, &who->key, now_ns);
}

static void look_at_pair(struct steer *steer, struct auto_pair *pair, uint64_t now_ns)
{
	struct steer_auto *by_itself = steer->by_itself;
	struct contend_act acts[STEER_AUTO_ACTS_MOST];
	size_t count;

	auto_pair_see_lanes(pair, steer->paths);
	if (!auto_pair_is_calm(pair) || !(pair->skipped++ % CALM_LOOKS))
		for (size_t q = 0; q < pair->count; q++)
			read_qp(steer, pair, q, now_ns);
	count = contend_look(&pair->contend, &by_itself->budget, (int64_t)now_ns,
			     &by_itself->random, pair->paths, ESC_PATH_LANES_MAX, pair->qps,
			     pair->count, acts, STEER_AUTO_ACTS_MOST);
	for (size_t i = 0; i < count; i++) {
		by_itself->acts[acts[i].kind]++;
		auto_carry_out(steer, pair, &acts[i], now_ns);
	}
}

static void on_look(void *context, uint64_t now_ns)
{
	struct steer *steer = context;
	struct steer_auto *by_itself = steer->by_itself;

	if (!by_itself->on || !steer_ports(steer) || !paths_are_probed(steer->paths))
		return;
	see_pairs(steer, by_itself);
	if (by_itself->table_local_ns != qptable_refreshed_ns(steer->daemon->qps))
		see_table(steer, by_itself, now_ns);
	for (size_t i = 0; i < by_itself->count; i++)
		if (steer_ports(steer) >> by_itself->pairs[i]->facts.port & 1)
			look_at_pair(steer, by_itself->pairs[i], now_ns);
}

/* --- from start to end --- */

int steer_auto_new(struct steer *steer)
{
	steer->by_itself = calloc(1, sizeof(*steer->by_itself));
	if (!steer->by_itself)
		return -ENOMEM;
	/* Hosts that draw alike move alike. */
	if (getrandom(&steer->by_itself->random, sizeof(uint64_t), 0) != sizeof(uint64_t))
		return -EIO;
	return 0;
}

void steer_auto_free(struct steer_auto *by_itself)
{
	if (!by_itself)
		return;
	drop_pairs(by_itself);
	free(by_itself->pairs);
	free(by_itself);
}

void steer_follow_paths(struct steer *steer, struct paths *paths)
{
	steer->paths = paths;
	if (paths)
		paths_on_tick(paths, on_look, steer);
}

bool steer_auto_is_on(const struct steer_auto *by_itself)
{
	return by_itself->on;
}

void steer_auto_switch(struct steer *steer, bool on, const char *by)
{
	struct steer_auto *by_itself = steer->by_itself;

	if (by_itself->on == on)
		return;
	by_itself->on = on;
	by_itself->table_local_ns = 0;
	if (!on) {
		steer_uncover_all(steer);
		drop_pairs(by_itself);
	}
	log_info("steering by itself is %s (by %s)", on ? "on" : "off", by);
	events_record(steer->daemon->ledger, on ? "steer_auto_on" : "steer_auto_off", "daemon", NULL,
		   json_pack("{s:s}", "by", by), NULL, NULL);
}

void steer_auto_reconfigure(struct steer *steer)
{
	for (size_t i = 0; i < steer->by_itself->count; i++) {
		struct auto_pair *pair = steer->by_itself->pairs[i];

		make_config(steer, pair->facts.port, &pair->contend.config);
	}
}

void steer_auto_get(const struct steer_auto *by_itself, struct steer_facts *out)
{
	out->by_itself = by_itself->on;
	out->moves_refused = by_itself->budget.refused;
	memcpy(out->acts, by_itself->acts, sizeof(out->acts));
}

/* --- the plan --- */

/* Rates as the table has them: nobody looks every 10 ms while steering by itself is off. */
static void take_rates(struct auto_pair *pair, const struct qp_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t q = 0; q < pair->count; q++)
			if (!memcmp(&entries[i].key, &pair->who[q].key, sizeof(entries[i].key)))
				pair->qps[q].rate_Bps = entries[i].bytes_per_second;
}

/* As the policy would see the pair if it had looked until now. */
static void look_once(struct steer *steer, struct auto_pair *pair, uint64_t now_ns)
{
	struct contend_budget budget = {0};
	const struct qp_entry *entries;
	uint64_t random = 0;
	size_t count;

	pair->contend.config.stale_ns = ONCE_STALE_NS;
	entries = qptable_entries(steer->daemon->qps, &count);
	auto_pair_see_lanes(pair, steer->paths);
	if (auto_pair_see_table(pair, steer->paths, entries, count, now_ns))
		return;
	take_rates(pair, entries, count);
	for (size_t q = 0; q < pair->count; q++) {
		const struct steered *entry = order_of(steer, &pair->who[q]);
		int lane = lane_of(steer, pair, &pair->who[q], entry);

		pair->qps[q].path = auto_pair_path_of(pair, lane);
		pair->qps[q].pinned = entry && !entry->by_itself;
	}
	for (unsigned int i = 0; i < pair->contend.config.looks; i++)
		contend_look(&pair->contend, &budget, (int64_t)now_ns, &random, pair->paths,
			     ESC_PATH_LANES_MAX, pair->qps, pair->count, NULL, 0);
}

static json_t *plan_now(struct steer *steer, uint64_t now_ns)
{
	struct steer_auto once = {0};
	json_t *pairs = json_array();

	core_refresh(&steer->daemon->core);
	see_pairs(steer, &once);
	for (size_t i = 0; i < once.count; i++) {
		look_once(steer, once.pairs[i], now_ns);
		json_array_append_new(pairs, auto_show_pair(once.pairs[i], (int64_t)now_ns));
	}
	drop_pairs(&once);
	free(once.pairs);
	return pairs;
}

json_t *steer_plan(struct steer *steer)
{
	const struct steer_auto *by_itself = steer->by_itself;
	uint64_t now_ns = time_local_ns();
	json_t *pairs;

	if (!steer->paths)
		return json_pack("{s:b, s:[], s:s}", "auto", by_itself->on, "pairs", "note",
				 "there are no paths to choose from; `escapement paths` says why");
	if (!by_itself->on)
		return json_pack("{s:b, s:o}", "auto", false, "pairs", plan_now(steer, now_ns));
	pairs = json_array();
	for (size_t i = 0; i < by_itself->count; i++)
		json_array_append_new(pairs, auto_show_pair(by_itself->pairs[i], (int64_t)now_ns));
	return json_pack("{s:b, s:o}", "auto", true, "pairs", pairs);
}
