// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/slew.h"
#include "clocksync/edgetrial.h"

#include <math.h>
#include <string.h>

/* Least squares over fewer readings predict nothing. */
#define READINGS_LEAST 2.0
/* A fit of more readings forgets the older ones: five minutes. */
#define READINGS_MOST 1200.0
/* Beside half of a width, until the noise is known; and at least: both clocks are whole ns. */
#define NOISE_BEGIN_NS 20.0
#define NOISE_LEAST_NS 1.0
#define NOISE_READINGS 24
#define NOISE_GAIN 0.01
#define MEDIAN 0.6745 /* of a normal distribution's size, in deviations */
#define WIDTH_GAIN 0.02
/* A reading that is off its prediction by so many deviations shows a change. */
#define SIGMAS 6.0
/* With so many readings after a change the fits still have points from before it. */
#define REFINE_FIRST 4
#define REFINE_AGAIN 8
/* A clock that NTP slews is slewed again: how long the last changes count for the bound. */
#define PEAK_S 300.0
/* Of a peer's rate from view to view: what is no correction, and how long ago it may have been. */
#define PEER_LEAST_PPB 20.0
#define PEER_GAIN 0.05
/* In the middle of a window it narrows the gap between the clouds by that part of its size. */
#define PEER_NARROWS 0.25
#define PEER_AHEAD_NS 250e6
#define PEER_BACK_NS 8e9
/* Beyond what the kernel slews by, it is another clock. */
#define RATE_MOST_PPB 2e8

/* A line by least squares: the local clock ahead of raw time, both since slew->first. */
struct fit {
	double weight, x_s, xx; /* mean of x, sum of squares about it */
	double level_ns, slope_ppb;
};

static double x_of(const struct slew *slew, const struct slew_reading *reading)
{
	return (double)ns_sub(reading->raw_ns, slew->first.raw_ns) * 1e-9;
}

static double y_of(const struct slew *slew, const struct slew_reading *reading)
{
	return (double)ns_sub(ns_sub(reading->local_ns, slew->first.local_ns),
			      ns_sub(reading->raw_ns, slew->first.raw_ns));
}

/* The rate @ppb as seen by a clock that runs faster by @than_ppb. */
static double slower_ppb(double ppb, double than_ppb)
{
	return (ppb - than_ppb) / (1 + than_ppb * 1e-9);
}

/* Its process was delayed between the clocks: by that more the reading may be off. */
static double wide_ns(const struct slew *slew, const struct slew_reading *reading)
{
	return fmax(0, (double)reading->width_ns - slew->width_ns) / 2;
}

static void sums_add(struct slew *slew, struct slew_sums *sums, const struct slew_reading *reading,
		     double sign)
{
	double x = x_of(slew, reading), y = y_of(slew, reading), weight = sign * reading->weight;

	sums->weight += weight;
	sums->x += weight * x;
	sums->y += weight * y;
	sums->xx += weight * x * x;
	sums->xy += weight * x * y;
}

/* Of the readings since the last change without the newest @without. */
static struct fit fit_of(struct slew *slew, unsigned int without)
{
	struct slew_sums sums = slew->sums;
	struct fit fit = {};

	for (unsigned int i = 0; i < without; i++)
		sums_add(slew, &sums, &slew->kept[slew->count - 1 - i], -1);
	fit.weight = sums.weight;
	fit.x_s = sums.x / sums.weight;
	fit.xx = sums.xx - sums.x * fit.x_s;
	fit.level_ns = sums.y / sums.weight;
	if (fit.xx > 0)
		fit.slope_ppb = (sums.xy - sums.y * fit.x_s) / fit.xx;
	return fit;
}

static double beyond_ns(const struct slew *slew, const struct fit *fit,
			const struct slew_reading *reading)
{
	return y_of(slew, reading) - fit->level_ns -
	       fit->slope_ppb * (x_of(slew, reading) - fit->x_s);
}

/* Standard deviation of a usual reading about the line, that of the line included, in noises. */
static double spread_at(const struct slew *slew, const struct fit *fit,
			const struct slew_reading *reading)
{
	double x_s = x_of(slew, reading) - fit->x_s;

	return sqrt(1 + 1 / fit->weight + (fit->xx > 0 ? x_s * x_s / fit->xx : 0));
}

static double noise_of(const struct slew *slew)
{
	return slew->learned < NOISE_READINGS
		       ? fmax(slew->noise_ns, slew->width_ns / 2 + NOISE_BEGIN_NS)
		       : slew->noise_ns;
}

/*
 * By how far a reading is off the line through the two before it, which no rate changes, and its
 * change in one round of many only: the median counts.
 */
static void noise_learn(struct slew *slew)
{
	const struct slew_reading *a, *b, *c;
	double ratio, off;
	bool larger;

	if (slew->count < 3)
		return;
	c = &slew->kept[slew->count - 1];
	b = c - 1;
	a = c - 2;
	ratio = (x_of(slew, c) - x_of(slew, b)) / (x_of(slew, b) - x_of(slew, a));
	off = y_of(slew, c) - y_of(slew, b) - ratio * (y_of(slew, b) - y_of(slew, a));
	off /= sqrt(1 + (1 + ratio) * (1 + ratio) + ratio * ratio);
	if (!slew->learned++)
		slew->noise_ns = NOISE_BEGIN_NS;
	larger = fabs(off) > MEDIAN * slew->noise_ns;
	slew->noise_ns *= exp((larger ? 1 : -1) * fmax(NOISE_GAIN, 2.0 / (slew->learned + 8)));
	slew->noise_ns = fmax(slew->noise_ns, NOISE_LEAST_NS);
}

static void keep(struct slew *slew, const struct slew_reading *reading)
{
	if (slew->count == SLEW_KEPT)
		memmove(slew->kept, slew->kept + 1, --slew->count * sizeof(slew->kept[0]));
	slew->kept[slew->count++] = *reading;
	if (slew->sums.weight > READINGS_MOST) {
		double part = READINGS_MOST / slew->sums.weight;

		slew->sums.weight *= part;
		slew->sums.x *= part;
		slew->sums.y *= part;
		slew->sums.xx *= part;
		slew->sums.xy *= part;
	}
	sums_add(slew, &slew->sums, reading, 1);
}

/* Goes on with the newest @count readings alone. */
static void restart(struct slew *slew, unsigned int count)
{
	unsigned int gone = slew->count - count;

	memmove(slew->kept, slew->kept + gone, count * sizeof(slew->kept[0]));
	slew->count = count;
	slew->sums = (struct slew_sums){};
	slew->first = slew->kept[0];
	for (unsigned int i = 0; i < count; i++)
		sums_add(slew, &slew->sums, &slew->kept[i], 1);
	slew->readings = count;
}

/* Whether the newest reading is beyond what those before the newest @without predict. */
static bool is_beyond(struct slew *slew, unsigned int without)
{
	const struct slew_reading *newest = &slew->kept[slew->count - 1];
	struct fit fit;

	if (slew->count < without + READINGS_LEAST)
		return false;
	fit = fit_of(slew, without);
	return fit.weight > READINGS_LEAST - 0.5 &&
	       fabs(beyond_ns(slew, &fit, newest)) >
		       SIGMAS * noise_of(slew) * spread_at(slew, &fit, newest) +
			       wide_ns(slew, newest);
}

/* Squares of the readings kept about two lines that meet in that before the newest @after. */
static double bend(struct slew *slew, unsigned int after, double *after_ppb)
{
	struct fit fit = fit_of(slew, after);
	const struct slew_reading *last = &slew->kept[slew->count - 1 - after];
	double squares = 0, xx = 0, xy = 0, x_s;

	for (unsigned int i = slew->count - after; i < slew->count; i++) {
		x_s = x_of(slew, &slew->kept[i]) - x_of(slew, last);
		xx += slew->kept[i].weight * x_s * x_s;
		xy += slew->kept[i].weight * x_s * beyond_ns(slew, &fit, &slew->kept[i]);
	}
	for (unsigned int i = 0; i < slew->count; i++) {
		double off = beyond_ns(slew, &fit, &slew->kept[i]);

		if (i >= slew->count - after)
			off -= xy / xx * (x_of(slew, &slew->kept[i]) - x_of(slew, last));
		squares += slew->kept[i].weight * off * off;
	}
	*after_ppb = fit.slope_ppb + xy / xx;
	return squares;
}

/* How many readings were taken since the change that the newest shows. */
static unsigned int bend_find(struct slew *slew, double *ppb)
{
	double least = INFINITY, found_ppb;
	unsigned int found = 1;

	*ppb = slew->rate_ppb;

	for (unsigned int after = 1; after + READINGS_LEAST <= slew->count; after++) {
		double squares = bend(slew, after, &found_ppb);

		if (squares < least) {
			least = squares;
			found = after;
			*ppb = found_ppb;
		}
	}
	return found;
}

/* It was another rate from the reading before the newest @after on; until the next at most. */
static void change_make(struct slew *slew, unsigned int after, bool certain, double ppb,
			struct slew_change *change)
{
	double before_ppb = slew->rate_ppb;

	restart(slew, after + 1);
	change->from_ns = slew->first.local_ns;
	change->until_ns = certain ? change->from_ns : slew->kept[1].local_ns;
	change->ppb = slower_ppb(ppb, before_ppb);
	slew->rate_ppb = slew->told_ppb = ppb;
}

static double rate_of_last(const struct slew *slew)
{
	const struct slew_reading *a = &slew->kept[slew->count - 2], *b = a + 1;
	double ran_ns = (double)ns_sub(b->raw_ns, a->raw_ns);

	return ((double)ns_sub(b->local_ns, a->local_ns) - ran_ns) / ran_ns * 1e9;
}

static void peak_learn(struct slew *slew, double ppb, double ran_s)
{
	slew->peak_ppb *= fmax(0, 1 - ran_s / PEAK_S);
	slew->peak_ppb = fmax(slew->peak_ppb, fabs(ppb));
}

/* The rate is known better with more readings, while fits have points from before its change. */
static bool refine(struct slew *slew, struct slew_change *change)
{
	double ppb = fit_of(slew, 0).slope_ppb;

	slew->rate_ppb = ppb;
	if (!slew->changes || (slew->readings != REFINE_FIRST && slew->readings != REFINE_AGAIN))
		return false;
	*change = (struct slew_change){slew->first.local_ns, slew->first.local_ns,
				       slower_ppb(ppb, slew->told_ppb)};
	slew->told_ppb = ppb;
	return true;
}

static bool is_other_clock(const struct slew *slew, const struct slew_reading *reading)
{
	const struct slew_reading *last = &slew->kept[slew->count - 1];
	double ran_ns = (double)ns_sub(reading->raw_ns, last->raw_ns);
	double more_ns = (double)ns_sub(reading->local_ns, last->local_ns) - ran_ns;

	return ran_ns <= 0 || fabs(more_ns) > RATE_MOST_PPB * 1e-9 * ran_ns;
}

/* The newest readings before the change against it: in one round, in a second, in four. */
static bool has_changed(struct slew *slew)
{
	return is_beyond(slew, 1) || is_beyond(slew, 4) || is_beyond(slew, 16);
}

bool slew_add(struct slew *slew, const struct slew_reading *read, struct slew_change *change)
{
	struct slew_reading reading = *read;
	double ran_s, wide, ppb;
	unsigned int after;

	if (!slew->count || is_other_clock(slew, &reading)) {
		*slew = (struct slew){.changes = slew->changes,
				      .first = reading,
				      .width_ns = (double)reading.width_ns,
				      .peak_ppb = slew->peak_ppb};
		reading.weight = 1;
		keep(slew, &reading);
		slew->readings = 1;
		return false;
	}
	ran_s = x_of(slew, &reading) - x_of(slew, &slew->kept[slew->count - 1]);
	slew->width_ns +=
		WIDTH_GAIN * (fmin((double)reading.width_ns, 2 * slew->width_ns) - slew->width_ns);
	wide = wide_ns(slew, &reading) / noise_of(slew);
	reading.weight = 1 / (1 + wide * wide);
	keep(slew, &reading);
	slew->readings++;
	noise_learn(slew);
	if (slew->unsettled) {
		/* It changed some time before the last reading: this shows the rest of it. */
		slew->unsettled = false;
		change_make(slew, 1, true, rate_of_last(slew), change);
		peak_learn(slew, change->ppb + slew->unsettled_ppb, ran_s);
		return true;
	}
	if (!has_changed(slew)) {
		peak_learn(slew, 0, ran_s);
		return refine(slew, change);
	}
	after = bend_find(slew, &ppb);
	change_make(slew, after, false, ppb, change);
	slew->changes++;
	slew->unsettled = after == 1;
	slew->unsettled_ppb = change->ppb;
	peak_learn(slew, change->ppb, ran_s);
	return true;
}

static void convert_line(struct clock_line *line, const struct slew_change *change)
{
	*line = clock_line_move(line, change->from_ns, 0);
	line->rate_ppb = slower_ppb(line->rate_ppb, change->ppb);
}

void slew_host(struct hostclock *host, const struct slew_change *change)
{
	struct consensus *consensus = &host->consensus;

	if (consensus->has_line || consensus->restarted)
		convert_line(&consensus->line, change);
	for (unsigned int i = 0; i < CONSENSUS_PAST; i++)
		if (consensus->past_ns[i])
			convert_line(&consensus->past[i], change);
	if (consensus->holdover.count)
		convert_line(&consensus->holdover.base, change);
}

/* Of the clock that runs faster by @ppb since @from_ns of it: ours, or the peer's. */
static void convert_cell(struct edge_cell *cell, int64_t from_ns, double ppb, bool peer)
{
	for (unsigned int i = 0; i < cell->count; i++) {
		struct edge_point *point = &cell->points[i];
		int64_t at_ns = peer ? ns_add(point->x_ns, point->y_ns) : point->x_ns;
		int64_t before_ns = ns_sub(at_ns, from_ns), moved_ns;

		if (before_ns >= 0)
			continue;
		moved_ns = llrint((double)before_ns * ppb * 1e-9);
		point->x_ns += peer ? 0 : moved_ns;
		point->y_ns += peer ? moved_ns : -moved_ns;
	}
}

static void convert_edge(struct edge *edge, const struct slew_change *change, bool peer)
{
	int64_t ahead_ns = peer ? edge->estimate.offset_ns : 0;
	int64_t first = ns_sub(change->from_ns, ahead_ns) / edge->bucket_ns;
	int64_t last = ns_sub(change->until_ns, ahead_ns) / edge->bucket_ns;

	for (unsigned int i = 0; i < EDGE_BUCKETS; i++) {
		struct edge_bucket *bucket = &edge->buckets[i];

		if (bucket->index < 0)
			continue;
		if (bucket->index >= first && bucket->index <= last &&
		    change->until_ns != change->from_ns) {
			*bucket = (struct edge_bucket){.index = -1};
			continue;
		}
		for (unsigned int s = 0; s < 2; s++) {
			convert_cell(&bucket->all[s], change->from_ns, change->ppb, peer);
			convert_cell(&bucket->kept[s], change->from_ns, change->ppb, peer);
		}
	}
}

void slew_edge(struct edge *edge, const struct slew_change *change)
{
	convert_edge(edge, change, false);
	edge->slope_ppb = slower_ppb(edge->slope_ppb, change->ppb);
	for (unsigned int i = 0; i < sizeof(edge->past) / sizeof(edge->past[0]); i++)
		edge->past[i].drift_ppb = slower_ppb(edge->past[i].drift_ppb, change->ppb);
}

static void peer_changed(struct edge *edge, const struct slew_change *change)
{
	double faster = 1 + change->ppb * 1e-9;

	convert_edge(edge, change, true);
	edge->slope_ppb = edge->slope_ppb * faster + change->ppb;
	for (unsigned int i = 0; i < sizeof(edge->past) / sizeof(edge->past[0]); i++)
		edge->past[i].drift_ppb = edge->past[i].drift_ppb * faster + change->ppb;
}

/* Learned from changes that no slew makes; the first are of a clock that converges. */
static double usual_learn(double usual_ppb, double changed_ppb)
{
	double most_ppb = 3 * usual_ppb;

	if (usual_ppb <= 0)
		return fmax(PEER_LEAST_PPB, 3 * fabs(changed_ppb));
	changed_ppb = fmin(fabs(changed_ppb), most_ppb);
	return sqrt(usual_ppb * usual_ppb * (1 - PEER_GAIN) +
		    changed_ppb * changed_ppb * PEER_GAIN);
}

/* The peer's line of @view instead of that of before: whether its clock changed, and how. */
static bool peer_change(const struct edge *edge, const struct clock_line *line,
			struct slew_change *change)
{
	const struct clock_line *before = &edge->peer.line;
	double changed_ppb = line->rate_ppb - before->rate_ppb, back_ns;
	double window_s = EDGE_BUCKETS * (double)edge->bucket_ns * 1e-9;
	double noise_ns = edge_margin_noise_ns(edge, edge->estimate.residual_ns);

	if (edge->peer.usual_ppb <= 0 ||
	    fabs(changed_ppb) < fmax(PEER_LEAST_PPB, SIGMAS * edge->peer.usual_ppb))
		return false;
	/* The points could not show it, and it makes no difference. */
	if (PEER_NARROWS * fabs(changed_ppb) * window_s < noise_ns)
		return false;
	/* Both lines are the same where it changed. */
	back_ns = clock_line_gap(line, before, line->local_ns) / changed_ppb * 1e9;
	if (back_ns < -PEER_AHEAD_NS || back_ns > PEER_BACK_NS)
		return false;
	back_ns = fmax(back_ns, 0);
	change->from_ns = ns_sub(line->local_ns, (int64_t)back_ns);
	change->until_ns = ns_add(change->from_ns, (int64_t)fmin(back_ns, HOSTCLOCK_ROUND_NS));
	change->ppb = slower_ppb(before->rate_ppb, line->rate_ppb);
	return true;
}

/*
 * Whether the points fit one line better as they are or as they were before they were converted.
 * @now: also when the difference may be noise.
 */
static void peer_judge(struct edge *edge, int64_t now_ns, struct edge_scratch *scratch, bool now)
{
	struct slew_change back = {edge->peer.from_ns, edge->peer.from_ns,
				   slower_ppb(0, edge->peer.ppb)};
	int64_t last = now_ns / edge->bucket_ns;
	struct edge_window window = {.first = last - EDGE_BUCKETS + 1, .last = last};
	struct edge before = *edge;
	double spread_ns = 0, before_spread_ns = 0, more_ns;

	peer_changed(&before, &back);
	more_ns = edge_trial_margin_ns(edge, &window, scratch, &spread_ns) -
		  edge_trial_margin_ns(&before, &window, scratch, &before_spread_ns);
	if (!isfinite(more_ns))
		return;
	if (!now && fabs(more_ns) <= edge_margin_noise_ns(edge, fmax(spread_ns, before_spread_ns)))
		return;
	if (more_ns < 0)
		*edge = before;
	edge->peer.unproven = false;
}

/* No point of before the change is left. */
static bool peer_is_past(const struct edge *edge, int64_t now_ns)
{
	int64_t since_ns = ns_sub(ns_add(now_ns, edge->estimate.offset_ns), edge->peer.from_ns);

	return since_ns > EDGE_BUCKETS * edge->bucket_ns;
}

void slew_peer(struct edge *edge, const struct clock_view *view, int64_t now_ns,
	       struct edge_scratch *scratch)
{
	struct clock_line line;
	struct slew_change change;

	if (!view || !clock_view_get(view, &line)) {
		edge->peer.known = false;
		return;
	}
	if (edge->peer.unproven && peer_is_past(edge, now_ns))
		edge->peer.unproven = false;
	if (edge->peer.unproven)
		peer_judge(edge, now_ns, scratch, false);
	if (edge->peer.known && line.local_ns != edge->peer.line.local_ns) {
		if (peer_change(edge, &line, &change)) {
			if (edge->peer.unproven)
				peer_judge(edge, now_ns, scratch, true);
			peer_changed(edge, &change);
			edge->peer.unproven = true;
			edge->peer.from_ns = change.from_ns;
			edge->peer.ppb = change.ppb;
		}
		edge->peer.usual_ppb =
			usual_learn(edge->peer.usual_ppb, line.rate_ppb - edge->peer.line.rate_ppb);
	}
	edge->peer.known = true;
	edge->peer.line = line;
}
