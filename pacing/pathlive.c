// SPDX-License-Identifier: BSD-2-Clause
#include "pacing/pathlive.h"

#include <errno.h>
#include <math.h>

#define MS 1000000ll
#define SECOND 1000000000ll
#define SPREADS 4 /* of the RTT, as in TCP's retransmission timer (RFC 6298) */

void pathlive_config_default(struct pathlive_config *config)
{
	*config = (struct pathlive_config){
		.dead_after_ns = 3 * MS,
		.return_after_ns = 5 * SECOND,
		.hold_least_ns = SECOND,
		.hold_most_ns = 60 * SECOND,
	};
}

uint64_t pathlive_deadline(const struct pathlive_config *config, double rtt_ns, double spread_ns,
			   double interval_ns)
{
	double least = PATHLIVE_UNCONFIRMED * fmax(interval_ns, 0);
	double slow = fmax(rtt_ns, 0) + SPREADS * fmax(spread_ns, 0);

	/* fmax() ignores a NAN. */
	return (uint64_t)fmin(fmax(fmax((double)config->dead_after_ns, least), slow),
			      (double)config->hold_most_ns);
}

const char *pathlive_state_name(enum pathlive_state state)
{
	static const char *const names[] = {"up", "suspect", "down", "hold_down"};

	return (unsigned)state < 4 ? names[state] : "unknown";
}

enum pathlive_state pathlive_evaluate(const struct pathlive_path *path, uint64_t deadline_ns,
				      uint64_t now_ns)
{
	if (pathlive_is_dead(path, deadline_ns))
		return PATHLIVE_DOWN;
	if (path->unconfirmed >= PATHLIVE_UNCONFIRMED && now_ns > path->since_ns &&
	    now_ns - path->since_ns >= deadline_ns)
		return PATHLIVE_SUSPECT;
	return PATHLIVE_UP;
}

static void path_failed(struct pathlive_damp *damp, const struct pathlive_config *config,
			int64_t now_ns)
{
	bool was_up = damp->state == PATHLIVE_UP || damp->state == PATHLIVE_SUSPECT;
	int64_t hold_ns = config->hold_least_ns;

	/* The number of failures is halved per hold_most of uptime. */
	if (damp->failed_ns && damp->up_since_ns)
		for (int64_t up_ns = now_ns - damp->up_since_ns;
		     up_ns >= config->hold_most_ns && damp->failures; up_ns -= config->hold_most_ns)
			damp->failures /= 2;
	damp->failures++;
	for (unsigned i = 1; i < damp->failures && hold_ns < config->hold_most_ns; i++)
		hold_ns *= 2;
	if (was_up && damp->returned_ns && now_ns - damp->returned_ns < config->hold_most_ns)
		hold_ns = config->hold_most_ns;
	/* A longer hold-down after a failure soon after a return is kept. */
	if (!was_up && damp->hold_ns > hold_ns)
		hold_ns = damp->hold_ns;
	if (hold_ns < config->return_after_ns)
		hold_ns = config->return_after_ns;
	damp->hold_ns = hold_ns < config->hold_most_ns ? hold_ns : config->hold_most_ns;
	damp->state = PATHLIVE_DOWN;
	damp->failed_ns = now_ns;
	damp->up_since_ns = 0;
	damp->fail_count++;
}

static void path_alive(struct pathlive_damp *damp, enum pathlive_state seen, int64_t now_ns)
{
	if (!damp->up_since_ns)
		damp->up_since_ns = now_ns;
	if (damp->state == PATHLIVE_UP || damp->state == PATHLIVE_SUSPECT) {
		damp->state = seen;
		return;
	}
	damp->state = PATHLIVE_HOLD_DOWN;
	/* Suspect: the hold-down restarts. */
	if (seen == PATHLIVE_SUSPECT)
		damp->up_since_ns = now_ns;
	if (now_ns - damp->up_since_ns < damp->hold_ns)
		return;
	damp->state = PATHLIVE_UP;
	damp->returned_ns = now_ns;
	damp->return_count++;
}

enum pathlive_state pathlive_step(struct pathlive_damp *damp, const struct pathlive_config *config,
				  enum pathlive_state seen, int64_t now_ns)
{
	bool dead = seen == PATHLIVE_DOWN || damp->no_carrier;

	if (!dead)
		path_alive(damp, seen, now_ns);
	else if (damp->state != PATHLIVE_DOWN)
		path_failed(damp, config, now_ns);
	return damp->state;
}

enum pathlive_state pathlive_carrier(struct pathlive_damp *damp,
				     const struct pathlive_config *config, bool carrier,
				     int64_t now_ns)
{
	damp->no_carrier = !carrier;
	if (!carrier)
		return pathlive_step(damp, config, PATHLIVE_DOWN, now_ns);
	return damp->state; /* a carrier alone does not show that the path is up: the next report
			       does */
}

/* Number of known common switches of two paths, less those that all paths have in common. */
static unsigned shared_hops(const struct pathlive_choice *paths, size_t count, size_t a, size_t b)
{
	unsigned shared = 0;

	for (size_t h = 0; h < PATHLIVE_HOPS_MAX; h++) {
		uint64_t hop = paths[a].hops[h];
		bool everywhere = true;

		if (!hop || paths[b].hops[h] != hop)
			continue;
		for (size_t p = 0; p < count; p++)
			everywhere &= paths[p].hops[h] == hop;
		shared += !everywhere;
	}
	return shared;
}

/* Lower is better; the delay decides between equals. */
static unsigned rank(const struct pathlive_choice *paths, size_t count, size_t of, size_t p)
{
	bool same = paths[of].group && paths[p].group == paths[of].group;
	unsigned value = shared_hops(paths, count, of, p);

	/* The same path under another port helps only if the grouping was wrong. */
	value += same ? 2 * PATHLIVE_HOPS_MAX : 0;
	return value + (paths[p].state == PATHLIVE_UP ? 0 : 4 * PATHLIVE_HOPS_MAX);
}

static bool is_faster(const struct pathlive_choice *a, const struct pathlive_choice *b)
{
	if (isnan(a->delay_ns) || isnan(b->delay_ns))
		return !isnan(a->delay_ns) && isnan(b->delay_ns);
	return a->delay_ns < b->delay_ns - fmax(fmax(a->spread_ns, b->spread_ns), 0);
}

int pathlive_choose_backup(const struct pathlive_choice *paths, size_t count, size_t of)
{
	unsigned best_rank = 0;
	int best = -ENOENT;

	for (size_t p = 0; p < count; p++) {
		unsigned value;

		if (p == of ||
		    (paths[p].state != PATHLIVE_UP && paths[p].state != PATHLIVE_HOLD_DOWN))
			continue;
		value = rank(paths, count, of, p);
		if (best < 0 || value < best_rank ||
		    (value == best_rank && is_faster(&paths[p], &paths[best]))) {
			best = (int)p;
			best_rank = value;
		}
	}
	return best;
}
