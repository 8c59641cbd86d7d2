// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/hostclock.h"

#include <math.h>
#include <string.h>

#define Q40 1099511627776.0
#define HOLDOVER_AFTER_NS 1000000000LL
#define BOOTSTRAP_ANYWAY_NS 10000000000LL

void hostclock_init(struct hostclock *clock, const struct hostclock_config *config, int64_t now_ns)
{
	memset(clock, 0, sizeof(*clock));
	clock->config = *config;
	if (!clock->config.round_ns)
		clock->config.round_ns = HOSTCLOCK_ROUND_NS;
	consensus_init(&clock->consensus, config->degree, now_ns);
}

static enum clock_state state_of(const struct hostclock *clock, int64_t now_ns)
{
	const struct consensus *consensus = &clock->consensus;
	/* A host that has settled was synced, also while its readings were slewing. */
	bool was = clock->state == CLOCK_SYNCED || clock->state == CLOCK_HOLDOVER ||
		   consensus->settled;

	if (!consensus->has_line || clock->bound.now_ns > CLOCK_BOUND_MAX_NS)
		return CLOCK_FREE_RUNNING;
	if (ns_sub(now_ns, consensus->last_used_ns) > HOLDOVER_AFTER_NS)
		return was ? CLOCK_HOLDOVER : CLOCK_CONVERGING;
	if (!consensus->settled)
		return CLOCK_CONVERGING;
	if (consensus->last_whole_ns &&
	    ns_sub(now_ns, consensus->last_whole_ns) > HOLDOVER_AFTER_NS &&
	    ns_sub(now_ns, consensus->last_agreed_ns) > HOLDOVER_AFTER_NS)
		return CLOCK_HOLDOVER;
	return fabs(clock->behind_ns) * 2 > clock->bound.now_ns ? CLOCK_CONVERGING : CLOCK_SYNCED;
}

/* A neighbour has fabric time: wait for the edge's fit, up to BOOTSTRAP_ANYWAY_NS. */
static bool neighbour_has_time(const struct consensus_input *input, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (input[i].view && input[i].view->state != CLOCK_FREE_RUNNING &&
		    input[i].view_age_ns < HOLDOVER_AFTER_NS)
			return true;
	return false;
}

/* Half of the neighbours were measured, with a fabric time or without. */
static bool enough_respond(const struct hostclock *clock, const struct consensus_input *input,
			   size_t count)
{
	size_t valid = 0;

	for (size_t i = 0; i < count; i++)
		valid += input[i].edge && input[i].edge->valid;
	return valid && 2 * valid >= clock->consensus.degree;
}

static void bootstrap_if_alone(struct hostclock *clock, int64_t now_ns,
			       const struct consensus_input *input, size_t count)
{
	struct consensus *consensus = &clock->consensus;
	int64_t waited;

	/* Alone, a host that had a fabric time cannot know that of the others. */
	if (consensus->restarted && !enough_respond(clock, input, count))
		consensus->first_round_ns = now_ns;
	waited = ns_sub(now_ns, consensus->first_round_ns);
	if (consensus->has_line || waited < consensus_bootstrap_wait(clock->config.rank))
		return;
	if (neighbour_has_time(input, count) && waited < BOOTSTRAP_ANYWAY_NS)
		return;
	consensus_bootstrap(consensus, now_ns);
	consensus->last_used_ns = now_ns;
}

static void model_finish(struct hostclock *clock, int64_t now_ns)
{
	struct clock_model *model = &clock->model;

	model->bound_local_ns = now_ns;
	model->bound_ns = (unsigned)fmin(rint(clock->bound.now_ns), 4e9);
	model->bound_growth = (unsigned)(clock->bound.growth_ppb * 1e-9 * Q40);
	model->bound_late = (unsigned)(clock->bound.late_ppb * 1e-9 * Q40);
	model->state = clock->state;
	model->generation++;
}

/*
 * No usable neighbour until the bound exceeded CLOCK_BOUND_MAX_NS, as in a network outage.
 * Hosts in this state send no fabric time: without a restart, a fleet of them would wait for each
 * other.
 */
static bool is_lost(const struct hostclock *clock, int64_t now_ns)
{
	return clock->state == CLOCK_FREE_RUNNING && clock->consensus.has_line &&
	       ns_sub(now_ns, clock->consensus.last_used_ns) > HOLDOVER_AFTER_NS;
}

static void mark_apart(struct consensus_peer *peer, const struct clock_view *view, double bound_ns,
		       int64_t now_ns)
{
	double limit_ns = (bound_ns + view->bound_ns) / (peer->apart_since_ns ? 2 : 1);

	if (!peer->refused_since_ns || fabs(peer->offset_ns) <= limit_ns)
		peer->apart_since_ns = 0;
	else if (!peer->apart_since_ns)
		peer->apart_since_ns = now_ns;
}

enum clock_state hostclock_round(struct hostclock *clock, int64_t now_ns,
				 const struct consensus_input *input, size_t count)
{
	bool may_step = clock->state == CLOCK_FREE_RUNNING || !clock->model.generation;

	if (is_lost(clock, now_ns))
		consensus_restart(&clock->consensus, now_ns);
	clock->last_result = consensus_round(&clock->consensus, now_ns, input, count);
	if (clock->last_result == CONSENSUS_NOTHING)
		bootstrap_if_alone(clock, now_ns, input, count);
	if (!clock->consensus.has_line)
		return clock->state = CLOCK_FREE_RUNNING;
	/* The first seconds, not settled yet: readings were never reported as synced. */
	may_step |= clock->state == CLOCK_CONVERGING && !clock->consensus.settled &&
		    !clock->consensus.last_whole_ns;
	clock->behind_ns = reader_aim(&clock->model, &clock->consensus.line, now_ns,
				      clock->config.round_ns, may_step);
	bound_compute(&clock->consensus, now_ns, clock->config.asymmetry_ns, clock->behind_ns,
		      &clock->bound);
	clock->bound.growth_ppb += clock->slew_ppb;
	for (size_t i = 0; i < count; i++)
		if (clock->consensus.peers[i].status != CONSENSUS_ABSENT)
			mark_apart(&clock->consensus.peers[i], input[i].view, clock->bound.now_ns,
				   now_ns);
	clock->state = state_of(clock, now_ns);
	model_finish(clock, now_ns);
	return clock->state;
}

void hostclock_view(const struct hostclock *clock, struct clock_view *view)
{
	const struct consensus *consensus = &clock->consensus;

	memset(view, 0, sizeof(*view));
	view->state = (uint8_t)clock->state;
	if (clock->state == CLOCK_FREE_RUNNING)
		return;
	clock_view_put(view, &consensus->line);
	view->bound_ns = clock->model.bound_ns;
	/* The model's, of every round: one that stays the same is of a host that is gone. */
	view->generation = (uint32_t)clock->model.generation;
	view->reach = (uint16_t)(consensus->reach * CLOCK_REACH_ONE);
}

const char *clock_state_name(enum clock_state state)
{
	static const char *const names[] = {"free_running", "converging", "synced", "holdover"};

	return (unsigned)state < 4 ? names[state] : "free_running";
}
