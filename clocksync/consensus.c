// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/consensus.h"

#include <math.h>
#include <string.h>

#include "clocksync/reports.h"

#define MS 1000000LL
#define SCALE_START_NS 100.0
#define SCALE_START_PPB 200.0
#define OWN_OFF_GATES 4.0
#define OWN_OFF_PREDICTION_ERRORS 2.0
#define SETTLE_ROUNDS 6
#define YIELD_ROUNDS 3
#define REACH_SAFE 0.6 /* a partition with this part of the members ignores others */
#define REACH_MARGIN 0.08
#define REACH_WHOLE 0.6 /* more than half: neither of two halves is the fleet */
#define SHRINK_LEAST 0.02
#define SHRINK_MOST 0.5
#define SHRINK_NOISES 2.0
#define PRIOR_SPAN_MIN_PPB 200.0
#define PRIOR_SPAN_SCALES 5.0

/* How far an edge's drift may be from that of both lines; see consensus_prior(). */
static double prior_span_ppb(const struct consensus *consensus)
{
	return fmax(PRIOR_SPAN_MIN_PPB, PRIOR_SPAN_SCALES * consensus->scale_ppb);
}

void consensus_init(struct consensus *consensus, unsigned degree, int64_t now_ns)
{
	memset(consensus, 0, sizeof(*consensus));
	consensus->degree = degree;
	consensus->first_round_ns = now_ns;
	consensus->scale_ns = SCALE_START_NS;
	consensus->scale_ppb = SCALE_START_PPB;
	consensus->prediction_error_ns = PREDICTION_ERROR_START_NS;
	consensus->step_error_ns = PREDICTION_ERROR_START_NS;
	consensus->residual_ns = SCALE_START_NS;
}

void consensus_peer_init(struct consensus *consensus, size_t slot)
{
	memset(&consensus->peers[slot], 0, sizeof(consensus->peers[slot]));
}

void consensus_restart(struct consensus *consensus, int64_t now_ns)
{
	struct consensus before = *consensus;

	consensus_init(consensus, before.degree, now_ns);
	consensus->line = before.line;
	consensus->restarted = true;
	consensus->generation = before.generation;
	consensus->moves = before.moves + 1;
	consensus->holdover = before.holdover;
	holdover_begin(&consensus->holdover);
	memcpy(consensus->peers, before.peers, sizeof(consensus->peers));
}

void consensus_bootstrap(struct consensus *consensus, int64_t now_ns)
{
	if (consensus->restarted)
		consensus->line = clock_line_move(&consensus->line, now_ns, 0);
	else
		consensus->line = (struct clock_line){.local_ns = now_ns, .fabric_ns = now_ns};
	consensus->has_line = true;
	consensus->generation++;
}

int64_t consensus_bootstrap_wait(size_t rank)
{
	size_t steps = rank < 16 ? rank : 16;

	return (int64_t)(rank ? 1000 + 500 * steps : 500) * MS;
}

/* True: another group has more of the members, or as many and is ahead; *@centre is its offset. */
static bool must_yield(struct consensus *consensus, const struct reports *reports, double *centre)
{
	const double here = 0;
	const struct report *other;
	double reach;
	unsigned votes;
	bool better = false;

	other = reports_most_supported(consensus, reports, &here, &votes);
	if (consensus->reach < REACH_SAFE && other && votes >= reports_quorum(reports)) {
		reach = reports_reach(consensus, reports, other->offset);
		better = reach > consensus->reach + REACH_MARGIN ||
			 (reach > consensus->reach - REACH_MARGIN && other->offset > 0);
	}
	consensus->yielding = better ? consensus->yielding + 1 : 0;
	if (consensus->yielding < YIELD_ROUNDS)
		return false;
	*centre = other->offset;
	return true;
}

/*
 * Two thirds of the neighbours agree on an offset within our own recent prediction error:
 * our own clock has moved, not theirs.
 */
static bool own_line_off(const struct consensus *consensus, const struct reports *reports,
			 const struct report *best, unsigned votes)
{
	double near = OWN_OFF_GATES * GATE_SCALES * consensus->scale_ns +
		      OWN_OFF_PREDICTION_ERRORS * consensus->prediction_error_ns;

	return best && 3 * votes >= 2 * reports->count && fabs(best->offset) <= near;
}

/*
 * The only neighbour that reports is behind: as between equal partitions, the one behind moves. Its
 * clock may have stopped, as that of a paused virtual machine, before its daemon has seen it.
 */
static bool only_neighbour_is_behind(const struct consensus *consensus,
				     const struct reports *reports)
{
	const struct report *other = &reports->at[0];

	return consensus->settled && reports->count == 1 && other->offset < 0 &&
	       (consensus->degree <= 1 || other->reach < REACH_WHOLE);
}

/* Sets the centre of this round's gate; false: no neighbour to follow. */
static bool choose_centre(struct consensus *consensus, const struct reports *reports,
			  double *centre, bool *moved)
{
	const struct report *best;
	unsigned own = 0, votes;

	*centre = 0;
	*moved = false;
	if (!reports->count)
		return false;
	if (consensus->has_line)
		own = reports_support(consensus, reports, 0, NULL);
	best = reports_most_supported(consensus, reports, NULL, &votes);
	if (consensus->settled && own >= reports_quorum(reports)) {
		if (2 * own < reports->count && own_line_off(consensus, reports, best, votes))
			*centre = best->offset;
		else
			*moved = must_yield(consensus, reports, centre);
		return true;
	}
	if (consensus->has_line && (votes <= own || votes < reports_quorum(reports)))
		return own > 0;
	*moved = !report_agrees(consensus, best, 0) &&
		 !(consensus->settled && own_line_off(consensus, reports, best, votes));
	if (*moved && only_neighbour_is_behind(consensus, reports))
		return false;
	*centre = best->offset;
	return true;
}

/* Weighted mean of the drifts inside the drift gate, around the incumbent or the median. */
static double mean_drift(struct consensus *consensus, struct reports *reports, bool incumbent)
{
	double drift[CONSENSUS_PEERS_MAX], centre = 0, sum = 0, weights = 0, own = 0, gate;
	size_t count = 0, near = 0;

	gate = GATE_SCALES * consensus->scale_ppb;
	for (size_t i = 0; i < reports->count; i++) {
		const struct report *report = &reports->at[i];

		if (!report->in)
			continue;
		drift[count++] = report->drift;
		/* An uncertain drift does not contradict ours. */
		near += fabs(report->drift) <= fmax(gate, GATE_SCALES * report->drift_sigma);
	}
	if (!incumbent || 2 * near < count)
		centre = reports_median(drift, count);
	for (size_t i = 0; i < reports->count; i++) {
		struct report *report = &reports->at[i];

		if (!report->in)
			continue;
		if (fabs(report->drift - centre) > fmax(gate, GATE_SCALES * report->drift_sigma)) {
			report->in = count < 3; /* with two, either one may be the falseticker */
			if (!report->in)
				consensus->peers[report->slot].status = CONSENSUS_REFUSED_DRIFT;
		}
		if (!report->in)
			continue;
		sum += report->drift_weight * report->drift;
		weights += report->drift_weight;
		own += 1 / (report->drift_sigma * report->drift_sigma + SIGMA_LEAST_NS);
	}
	consensus->formal_ppb = own > 0 ? 1 / sqrt(own) : consensus->formal_ppb;
	return weights > 0 ? sum / weights : centre;
}

/*
 * Only differences of rates are observed: the common rate would random-walk with the noise of
 * the edges, and a host in holdover could not follow it. Each oscillator is steadier than
 * that, so each host shrinks its rate towards its own long-term (holdover) rate.
 */
static double shrink_rate(const struct consensus *consensus, double rate_ppb)
{
	double deviation = holdover_deviation_ppb(&consensus->holdover),
	       noise = consensus->formal_ppb;
	double part, ahead;

	if (deviation < 0)
		return rate_ppb;
	noise = fmax(noise, consensus->scale_ppb / sqrt(fmax(1, consensus->used)));
	/*
	 * The slopes are limited to that. With a larger noise, the formal one of paths where every
	 * packet waits, two hosts would follow what their offsets did to the recorded rate, and not
	 * the slopes.
	 */
	noise = fmin(noise, prior_span_ppb(consensus));
	part = fmax(SHRINK_LEAST,
		    noise * noise / (noise * noise + deviation * deviation + SIGMA_LEAST_NS));
	part = fmin(part, SHRINK_MOST);
	ahead = holdover_ppb(&consensus->holdover, &consensus->line) - rate_ppb;
	/* Beyond the noise it is the oscillator's own change, e.g. of temperature. */
	ahead = fmin(fmax(ahead, -SHRINK_NOISES * noise), SHRINK_NOISES * noise);
	return rate_ppb + part * ahead;
}

static double mean_offset(struct consensus *consensus, const struct reports *reports, double centre)
{
	double sum = 0, weights = 0, own = 0, age = 0;

	for (size_t i = 0; i < reports->count; i++) {
		const struct report *report = &reports->at[i];

		if (!report->in)
			continue;
		sum += report->weight * report->offset;
		weights += report->weight;
		age += report->weight * report->age_s;
		own += 1 / (report->sigma * report->sigma + SIGMA_LEAST_NS * SIGMA_LEAST_NS);
	}
	consensus->formal_ns = own > 0 ? 1 / sqrt(own) : consensus->formal_ns;
	consensus->lag_s = weights > 0 ? age / weights : consensus->lag_s;
	return weights > 0 ? sum / weights : centre;
}

static void settle(struct consensus *consensus, const struct reports *reports, int64_t now_ns,
		   bool moved)
{
	const double here = 0;
	unsigned others;
	bool agreed = !moved && consensus->used >= reports_quorum(reports);

	reports_most_supported(consensus, reports, &here, &others);
	agreed = agreed && (2 * consensus->used > reports->count || consensus->used >= 2 * others);
	if (moved) {
		consensus->settled = false;
		consensus->settling = 0;
		consensus->yielding = 0;
		consensus->moves++;
		consensus->reach = 0;
	}
	if (!consensus->settled) {
		consensus->settling = agreed ? consensus->settling + 1 : 0;
		consensus->settled = consensus->settling >= SETTLE_ROUNDS;
	}
	consensus->last_used_ns = now_ns;
}

/* False: no neighbour is accepted. */
static bool mark_peers(struct consensus *consensus, struct reports *reports, double centre)
{
	bool any = false;

	for (size_t i = 0; i < reports->count; i++) {
		struct report *report = &reports->at[i];
		bool agrees = report_agrees(consensus, report, centre);

		report->in = agrees && !report->unsure;
		any = any || report->in;
		consensus->peers[report->slot].status = report->in ? CONSENSUS_USED
							: agrees   ? CONSENSUS_UNSURE
								   : CONSENSUS_REFUSED_OFFSET;
	}
	return any;
}

/* Only rounds in which the host was synced count for the holdover rate. */
static void record_rate(struct consensus *consensus, int64_t now_ns, bool moved)
{
	if (moved || !consensus->settled)
		holdover_begin(&consensus->holdover);
	else if (consensus->reach >= REACH_WHOLE)
		holdover_add(&consensus->holdover, &consensus->line, now_ns);
}

static void count_peers(struct consensus *consensus, const struct reports *reports, int64_t now_ns)
{
	consensus->used = consensus->unsure = 0;
	consensus->reports = (unsigned)reports->count;
	for (size_t i = 0; i < reports->count; i++) {
		struct consensus_peer *peer = &consensus->peers[reports->at[i].slot];

		if (peer->status == CONSENSUS_USED) {
			peer->refused_since_ns = 0;
			peer->rounds_used++;
			consensus->used++;
			continue;
		}
		if (peer->status == CONSENSUS_UNSURE) {
			peer->refused_since_ns = 0;
			consensus->unsure++;
			continue;
		}
		if (!peer->refused_since_ns)
			peer->refused_since_ns = now_ns;
		peer->rounds_refused++;
	}
	if (consensus->unsure &&
	    consensus->used + consensus->unsure >= REACH_WHOLE * consensus->degree)
		consensus->last_agreed_ns = now_ns;
}

/*
 * No usable neighbour: continues at the holdover rate from the next reading on. Corrections of the
 * offset are in that rate; after large ones the line's own is better, which only the slopes
 * changed.
 */
static enum consensus_result hold_rate(struct consensus *consensus)
{
	if (consensus->settled &&
	    holdover_deviation_ppb(&consensus->holdover) <= prior_span_ppb(consensus))
		consensus->line.rate_ppb = holdover_ppb(&consensus->holdover, &consensus->line);
	return CONSENSUS_NOTHING;
}

enum consensus_result consensus_round(struct consensus *consensus, int64_t now_ns,
				      const struct consensus_input *input, size_t count)
{
	bool had_line = consensus->has_line, moved;
	double centre, offset, drift;
	struct reports reports;

	if (count > CONSENSUS_PEERS_MAX)
		count = CONSENSUS_PEERS_MAX;
	reports_gather(consensus, now_ns, input, count, &reports);
	if (!choose_centre(consensus, &reports, &centre, &moved)) {
		consensus->reports = (unsigned)reports.count;
		consensus->used = consensus->unsure = 0;
		return hold_rate(consensus);
	}
	if (!mark_peers(consensus, &reports, centre)) {
		count_peers(consensus, &reports, now_ns);
		consensus_learn_reach(consensus, &reports);
		return hold_rate(consensus);
	}
	drift = mean_drift(consensus, &reports, consensus->settled && !moved);
	offset = mean_offset(consensus, &reports, centre);
	if (reports.count == 1 && had_line && !moved) {
		/* Half of the way: two hosts that both moved fully would swap offsets. */
		offset /= 2;
		drift /= 2;
	}
	count_peers(consensus, &reports, now_ns);
	consensus->line = clock_line_move(&reports.base, now_ns, offset);
	consensus->line.rate_ppb = reports.base.rate_ppb + drift;
	if (consensus->settled && !moved)
		consensus->line.rate_ppb = shrink_rate(consensus, consensus->line.rate_ppb);
	consensus->has_line = true;
	consensus->generation++;
	consensus_learn(consensus, &reports, now_ns, offset, moved || !had_line);
	settle(consensus, &reports, now_ns, moved);
	record_rate(consensus, now_ns, moved);
	consensus_learn_reach(consensus, &reports);
	if (consensus->reach >= REACH_WHOLE)
		consensus->last_whole_ns = now_ns;
	return !had_line ? CONSENSUS_JOINED : moved ? CONSENSUS_MOVED : CONSENSUS_STEPPED;
}

struct edge_prior consensus_prior(const struct consensus *consensus, const struct clock_view *view)
{
	struct edge_prior prior = {.known = false};
	struct clock_line theirs;

	if (!consensus->settled || !view || !clock_view_get(view, &theirs))
		return prior;
	prior.known = true;
	prior.drift_ppb =
		(consensus->line.rate_ppb - theirs.rate_ppb) / (1 + theirs.rate_ppb * 1e-9);
	prior.span_ppb = prior_span_ppb(consensus);
	return prior;
}
