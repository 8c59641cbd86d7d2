// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/reports.h"

#include <math.h>

#define MODELS_SIGMA_PPB                                                                           \
	20.0		     /* limit of the error of the drift that an offset is extrapolated by */
#define BLEND_WANDER_PPB 4.0 /* wander of the models' own drift in a second */
#define VIEW_STALE_NS 1500000000LL
#define EDGE_STALE_NS 4000000000LL
/*
 * A report with so many times the error of our own line is unsure: the mean of many standing
 * queues is a queue. Our own line has the error of the reports that it is the mean of, and
 * that grows by the error of the holdover rate.
 */
#define UNSURE_SCALES 10.0
#define UNSURE_FORMALS 10.0
/* Changes of lateness below these are the fits' noise. */
#define LATE_NOISES 2.0
#define LATE_PART 0.1
/* Lateness below these is not seen, and has moved our line before the correction. */
#define LATE_UNSEEN_NOISES 4.0

static double compose_ppb(double a, double b)
{
	return a + b + a * b * 1e-9;
}

/* Local time to the neighbour's clock by the edge, then to fabric time by its line. */
static struct clock_line line_through(const struct clock_line *theirs,
				      const struct edge_estimate *edge, double drift_ppb,
				      int64_t now_ns)
{
	double ahead = (double)ns_sub(now_ns, edge->local_ns) * drift_ppb * 1e-9;
	double fraction = edge->offset_fraction_ns + ahead, rest;
	int64_t remote = ns_add(ns_add(now_ns, edge->offset_ns), (int64_t)floor(fraction));
	struct clock_line line = {.local_ns = now_ns};

	fraction -= floor(fraction);
	line.fabric_ns = clock_line_at(theirs, remote, &rest);
	line.fraction_ns = rest + fraction * (1 + theirs->rate_ppb * 1e-9);
	line.rate_ppb = compose_ppb(theirs->rate_ppb, drift_ppb);
	return line;
}

/*
 * The drift to extrapolate an edge's offset to now: the fit's and the models', weighted by
 * their variances. The models lag behind, the fit is noisy under load.
 */
static double drift_blend(const struct consensus *consensus, const struct clock_line *theirs,
			  const struct edge_estimate *edge)
{
	double models, fit = edge->drift_sigma_ppb * edge->drift_sigma_ppb;
	double lag =
		BLEND_WANDER_PPB * BLEND_WANDER_PPB + consensus->scale_ppb * consensus->scale_ppb;

	if (!consensus->settled)
		return edge->drift_ppb;
	models = (consensus->line.rate_ppb - theirs->rate_ppb) / (1 + theirs->rate_ppb * 1e-9);
	return (edge->drift_ppb * lag + models * fit) / (lag + fit);
}

/* A fit's time is about the middle of its window. */
static int64_t edge_stale_ns(const struct edge_estimate *edge)
{
	int64_t window_ns = (int64_t)(edge->window_s * 1e9);

	return window_ns > EDGE_STALE_NS ? window_ns : EDGE_STALE_NS;
}

static bool usable(const struct consensus_input *input, int64_t now_ns)
{
	return input->edge && input->edge->valid && input->view &&
	       input->view_age_ns <= VIEW_STALE_NS && input->view_age_ns >= 0 &&
	       ns_sub(now_ns, input->edge->local_ns) <= edge_stale_ns(input->edge);
}

static void report_weigh(struct report *report, const struct edge_estimate *edge, double carried_s,
			 double unexplained_ns, const struct consensus *consensus)
{
	double own = consensus->settled ? consensus->scale_ns : 0;
	double own_ppb = consensus->settled ? consensus->scale_ppb : SCALE_MIN_PPB;
	double carry = carried_s * fmin(edge->drift_sigma_ppb,
					consensus->settled ? MODELS_SIGMA_PPB : INFINITY);

	report->age_s = carried_s;
	report->sigma = hypot(hypot(edge->offset_sigma_ns, carry), unexplained_ns);
	report->late_error = fmin(edge->late_ns,
				  LATE_UNSEEN_NOISES * edge->noise_ns + LATE_PART * edge->late_ns);
	report->drift_sigma = edge->drift_sigma_ppb;
	own = fmax(own, SCALE_MIN_NS);
	report->weight = 1 / (own * own + report->sigma * report->sigma);
	report->drift_weight = 1 / (own_ppb * own_ppb + report->drift_sigma * report->drift_sigma);
}

/* Bound of our own line's error since it last agreed with most of the fleet. */
static double growth_ns(const struct consensus *consensus, int64_t now_ns)
{
	int64_t last_ns = consensus->last_used_ns;
	double alone_s;

	if (consensus->last_whole_ns && consensus->last_whole_ns < last_ns)
		last_ns = consensus->last_whole_ns;
	alone_s = (double)ns_sub(now_ns, last_ns) * 1e-9;
	if (!consensus->settled || alone_s <= 0)
		return 0;
	return alone_s * (holdover_error_ppb(&consensus->holdover) +
			  holdover_wander(&consensus->holdover) * alone_s / 2);
}

static bool is_unsure(const struct consensus *consensus, const struct report *report)
{
	double own = fmax(UNSURE_SCALES * fmax(consensus->scale_ns, SCALE_MIN_NS),
			  UNSURE_FORMALS * consensus->formal_ns);

	return consensus->settled && !report->one_side &&
	       report->sigma > own + consensus->growth_ns;
}

/*
 * Lateness in one direction moves an edge's offset by as much, in both by nothing, and which it is
 * shows by our own line, which was right until it began: as far as the lateness changed, so may the
 * correction, towards our line. It is held while the lateness lasts, so that the edge still shows
 * what the clocks do, also while we are not settled after a move. What the change does not explain
 * (one delay began as another ended) counts as the edge's error.
 */
static double corrected(struct consensus_peer *peer, const struct edge_estimate *edge, bool settled,
			double offset)
{
	double change = fabs(edge->late_ns - peer->late_ns), rest;

	if (settled && change > LATE_NOISES * edge->noise_ns + LATE_PART * edge->late_ns) {
		rest = offset - peer->correct_ns;
		peer->correct_ns += fmin(fmax(rest, -change), change);
		peer->unexplained_ns = fmax(0, fabs(rest) - change);
		peer->late_ns = edge->late_ns;
	}
	if (edge->late_ns <= 0)
		peer->unexplained_ns = 0;
	peer->correct_ns = fmin(fmax(peer->correct_ns, -edge->late_ns), edge->late_ns);
	return offset - peer->correct_ns;
}

void reports_gather(struct consensus *consensus, int64_t now_ns,
		    const struct consensus_input *input, size_t count, struct reports *reports)
{
	bool based = consensus->has_line;

	reports->count = 0;
	consensus->growth_ns = growth_ns(consensus, now_ns);
	if (based)
		reports->base = clock_line_move(&consensus->line, now_ns, 0);
	for (size_t i = 0; i < count; i++) {
		struct report *report = &reports->at[reports->count];
		const struct edge_estimate *edge = input[i].edge;
		struct clock_line theirs, through;

		consensus->peers[i].status = CONSENSUS_ABSENT;
		if (!usable(&input[i], now_ns) || !clock_view_get(input[i].view, &theirs))
			continue;
		through =
			line_through(&theirs, edge, drift_blend(consensus, &theirs, edge), now_ns);
		if (!based)
			reports->base = through;
		based = true;
		report->slot = i;
		report->offset = clock_line_gap(&through, &reports->base, now_ns);
		consensus->peers[i].offset_ns = report->offset;
		report->offset =
			corrected(&consensus->peers[i], edge, consensus->settled, report->offset);
		report->drift =
			compose_ppb(theirs.rate_ppb, edge->drift_ppb) - reports->base.rate_ppb;
		report->reach = input[i].view->reach / (double)CLOCK_REACH_ONE;
		report->in = false;
		report->flagged = edge->flagged;
		report->one_side = edge->one_side;
		report_weigh(report, edge, (double)ns_sub(now_ns, edge->local_ns) * 1e-9,
			     consensus->peers[i].unexplained_ns, consensus);
		report->unsure = is_unsure(consensus, report);
		consensus->peers[i].drift_ppb = report->drift;
		reports->count++;
	}
}

bool report_agrees(const struct consensus *consensus, const struct report *report, double centre)
{
	double own = centre == 0 ? consensus->growth_ns : 0;

	return fabs(report->offset - centre) <=
	       GATE_SCALES * fmax(consensus->scale_ns, report->sigma) + own;
}

/* Votes that a value needs: max(count / 4, min(count / 2, 3)), rounded up. */
unsigned reports_quorum(const struct reports *reports)
{
	unsigned quarter = (unsigned)(reports->count + 3) / 4;
	unsigned half = (unsigned)(reports->count + 1) / 2;

	return quarter > 3 ? quarter : half < 3 ? half : 3;
}

unsigned reports_support(const struct consensus *consensus, const struct reports *reports,
			 double centre, const double *apart)
{
	unsigned count = 0;

	for (size_t i = 0; i < reports->count; i++)
		count += report_agrees(consensus, &reports->at[i], centre) &&
			 !(apart && report_agrees(consensus, &reports->at[i], *apart));
	return count;
}

const struct report *reports_most_supported(const struct consensus *consensus,
					    const struct reports *reports, const double *apart,
					    unsigned *votes)
{
	const struct report *best = NULL;

	*votes = 0;
	for (size_t i = 0; i < reports->count; i++) {
		const struct report *report = &reports->at[i];
		unsigned here;

		if (report->unsure || (apart && report_agrees(consensus, report, *apart)))
			continue;
		here = reports_support(consensus, reports, report->offset, apart);
		if (here > *votes || (best && here == *votes && report->sigma < best->sigma)) {
			*votes = here;
			best = report;
		}
	}
	return best;
}

double reports_median(double *v, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		double moved = v[i];
		size_t j = i;

		for (; j && v[j - 1] > moved; j--)
			v[j] = v[j - 1];
		v[j] = moved;
	}
	return count % 2 ? v[count / 2] : (v[count / 2 - 1] + v[count / 2]) / 2;
}

double reports_reach(const struct consensus *consensus, const struct reports *reports,
		     double centre)
{
	double reach[CONSENSUS_PEERS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < reports->count; i++)
		if (report_agrees(consensus, &reports->at[i], centre))
			reach[count++] = reports->at[i].reach;
	return count ? reports_median(reach, count) : 0;
}
