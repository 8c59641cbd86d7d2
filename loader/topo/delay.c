// SPDX-License-Identifier: BSD-2-Clause
/*
 * Groups by delay. A two-way floor is what both NICs add, and the path: floor = own_a + own_b +
 * path. The path has one value for each tier. So the NICs' parts are fitted and taken off, the rest
 * is cut where it has a gap, and NICs are joined by the mean of what was measured between groups
 * (average linkage), nearest first.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define ROUNDS 5 /* of fitting and cutting; three change nothing more in simulations */
#define FIT_STEPS 12
#define GAP_SPREADS 5 /* a normal distribution that is cut in its middle has 3.4 */
#define SEGMENTS_MAX 8
#define SHIFT_TRIES 8 /* pairs of a NIC */
#define SHIFT_GAIN 0.7
#define VALLEY_BINS 8
#define GAP_LEAST_NS 200 /* two switches more, passed twice each, take longer */
#define GAP_LEAST 0.35	 /* of the widest gap: each tier adds a switch and its cable */
/* Of all pairs, and of those that are far: what leaves must explain. */
#define EXPLAINED_LEAST 0.85
#define FAR_LEAST 0.5

struct fit {
	struct topo *topo;
	size_t *pairs, pair_count; /* of this plane and rail, with a floor */
	size_t *begin, *ends;	   /* of each NIC its pairs, in @ends; @begin has one more */
	double *own, *rest;	   /* of each NIC; of each of @pairs */
	double centre[TOPO_TIERS_MAX], spread[TOPO_TIERS_MAX], cut[TOPO_TIERS_MAX];
	size_t in_tier[TOPO_TIERS_MAX];
	unsigned int tiers;
	double wide_ns; /* the median of bounds and disagreements of pairs */
};

static size_t other_end(const struct topo_pair *pair, size_t nic)
{
	return pair->a == nic ? pair->b : pair->a;
}

static bool is_same_rail(const struct topo_nic *a, const struct topo_nic *b)
{
	return !strcmp(a->plane, b->plane) && !strcmp(a->rail, b->rail);
}

/* --- the NICs' own parts --- */

/*
 * What its pairs leave for NIC @i: their quantile @share as if all were of the farthest tier, or
 * with 0 the mean, each by its tier. @values has room for all of them.
 */
static double own_of(const struct fit *fit, size_t i, double share, double *values)
{
	size_t count = fit->begin[i + 1] - fit->begin[i];
	double sum = 0, most = -fit->centre[0];

	for (size_t k = 0; k < count; k++) {
		const struct topo_pair *pair =
			&fit->topo->pairs[fit->pairs[fit->ends[fit->begin[i] + k]]];
		double own = pair->floor_ns - fit->own[other_end(pair, i)] -
			     (share > 0 ? 0 : fit->centre[pair->tier]);

		values[k] = own;
		sum += fmax(-most, fmin(most, own - fit->own[i]));
	}
	return share > 0 ? quantile_of(values, count, share) : fit->own[i] + sum / (double)count;
}

/*
 * At first by a quantile, since most pairs of a fleet are of the farthest tier; then by the mean,
 * in which all tiers count: between two pods alone, what one has more and the other less is not
 * seen. All NICs move at once and halfway, for the same reason.
 */
static int fit_own(struct fit *fit, double share)
{
	size_t nics = fit->topo->nic_count;
	double *values = calloc(fit->pair_count * 2 + 1, sizeof(*values));
	double *next = calloc(nics + 1, sizeof(*next));

	for (size_t step = 0; values && next && step < FIT_STEPS; step++) {
		for (size_t i = 0; i < nics; i++)
			if (fit->begin[i + 1] > fit->begin[i])
				next[i] = (fit->own[i] + own_of(fit, i, share, values)) / 2;
		memcpy(fit->own, next, nics * sizeof(*next));
	}
	for (size_t k = 0; values && next && k < fit->pair_count; k++) {
		const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[k]];

		fit->rest[k] = pair->floor_ns - fit->own[pair->a] - fit->own[pair->b];
	}
	free(next);
	free(values);
	return next && values ? 0 : -ENOMEM;
}

/* --- tiers --- */

/* Where two classes of @sorted, of @least at least, have the least squares; 0: nowhere. */
static size_t best_cut(const double *sorted, size_t count, size_t least)
{
	double all = 0, below = 0, best = 0;
	size_t at = 0;

	for (size_t i = 0; i < count; i++)
		all += sorted[i];
	for (size_t i = 1; i < count; i++) {
		double between, apart;

		below += sorted[i - 1];
		apart = below / (double)i - (all - below) / (double)(count - i);
		between = apart * apart * (double)i * (double)(count - i);
		if (between > best && i >= least && count - i >= least) {
			best = between;
			at = i;
		}
	}
	return at;
}

static void add_tier(struct fit *fit, const double *sorted, size_t count)
{
	unsigned int tier = fit->tiers++;

	fit->centre[tier] = sorted[count / 2];
	fit->spread[tier] = spread_of(sorted, count);
	fit->in_tier[tier] = count;
	if (tier)
		fit->cut[tier - 1] = (fit->centre[tier - 1] + fit->centre[tier]) / 2;
	fit->cut[tier] = INFINITY;
}

struct segment {
	size_t begin, end, cut; /* @cut: where it is divided best; 0: nowhere */
	double gain;		/* least squares that this takes off */
};

static void find_cut(struct segment *segment, const double *sorted, size_t least)
{
	const double *from = sorted + segment->begin;
	size_t count = segment->end - segment->begin, at = best_cut(from, count, least);
	double below = 0, above = 0;

	for (size_t i = 0; i < count; i++)
		*(i < at ? &below : &above) += from[i];
	segment->cut = at ? segment->begin + at : 0;
	segment->gain = 0;
	if (at) {
		double apart = below / (double)at - above / (double)(count - at);

		segment->gain = apart * apart * (double)at * (double)(count - at) / (double)count;
	}
}

/* How many of @sorted are in [@from, @to). */
static size_t count_between(const double *sorted, size_t count, double from, double to)
{
	size_t ends[2];

	for (unsigned int i = 0; i < 2; i++) {
		size_t low = 0, high = count;

		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (sorted[middle] < (i ? to : from))
				low = middle + 1;
			else
				high = middle;
		}
		ends[i] = low;
	}
	return ends[1] - ends[0];
}

/*
 * Whether values are rarer between two medians than at both: else the upper ones are the tail of
 * the lower ones. Outside of the medians only, since a tail is densest at its near end.
 */
static bool has_valley(const double *sorted, size_t count, double low, double high)
{
	double width = (high - low) / VALLEY_BINS;
	size_t valley = SIZE_MAX, peaks[2] = {};

	for (int bin = -2; bin <= VALLEY_BINS + 2; bin++) {
		double from = low + width * (bin - 0.5);
		size_t in = count_between(sorted, count, from, from + width);

		if (bin <= 0 && in > peaks[0])
			peaks[0] = in;
		else if (bin >= VALLEY_BINS && in > peaks[1])
			peaks[1] = in;
		else if (bin > 0 && bin < VALLEY_BINS && in < valley)
			valley = in;
	}
	return 2 * valley < (peaks[0] < peaks[1] ? peaks[0] : peaks[1]);
}

static double gap_of(const double *sorted, const struct segment *low)
{
	const struct segment *high = low + 1;

	return sorted[(high->begin + high->end) / 2] - sorted[(low->begin + low->end) / 2];
}

/* How far two neighbors are apart, in what they spread; 0: they are no two tiers. */
static double apart(const struct fit *fit, const double *sorted, const struct segment *low,
		    double widest_ns)
{
	const struct segment *high = low + 1;
	double gap = gap_of(sorted, low), from = sorted[(low->begin + low->end) / 2];
	double wide = fmax(spread_of(sorted + low->begin, low->end - low->begin),
			   spread_of(sorted + high->begin, high->end - high->begin));

	if (gap <= 2 * fit->wide_ns || gap < GAP_LEAST_NS || gap < GAP_LEAST * widest_ns ||
	    !has_valley(sorted, fit->pair_count, from, from + gap))
		return 0;
	return gap / (wide + 1);
}

/* The two neighbors that are the least apart. */
static unsigned int nearest(const struct fit *fit, const double *sorted, const struct segment *list,
			    unsigned int used, double *by)
{
	double widest_ns = 0;
	unsigned int best = 0;

	for (unsigned int i = 0; i + 1 < used; i++)
		widest_ns = fmax(widest_ns, gap_of(sorted, &list[i]));
	*by = INFINITY;
	for (unsigned int i = 0; i + 1 < used; i++) {
		double now = apart(fit, sorted, &list[i], widest_ns);

		if (now < *by ||
		    (now == *by && gap_of(sorted, &list[i]) < gap_of(sorted, &list[best]))) {
			best = i;
			*by = now;
		}
	}
	return best;
}

/*
 * Divides where it takes off most, again and again, and joins what is not apart: a small tier
 * between two large ones is cut with its neighbors at first.
 */
static void cut_tiers(struct fit *fit, const double *sorted, size_t count)
{
	struct segment list[SEGMENTS_MAX] = {{.end = count}};
	/* Fewer are no tier: the least of a few floors is far off now and then. */
	size_t least = 2 + (size_t)(sqrt((double)count) / 3);
	unsigned int used = 1, best;

	for (; used < SEGMENTS_MAX; used++) {
		best = 0;
		for (unsigned int i = 0; i < used; i++) {
			find_cut(&list[i], sorted, least);
			best = list[i].gain > list[best].gain ? i : best;
		}
		if (!list[best].cut)
			break;
		memmove(&list[best + 1], &list[best], (used - best) * sizeof(*list));
		list[best + 1].begin = list[best].end = list[best].cut;
	}
	while (used > 1) {
		double by;

		best = nearest(fit, sorted, list, used, &by);
		if (used <= TOPO_TIERS_MAX && by > GAP_SPREADS)
			break;
		list[best].end = list[best + 1].end;
		memmove(&list[best + 1], &list[best + 2], (used - best - 2) * sizeof(*list));
		used--;
	}
	for (unsigned int i = 0; i < used; i++)
		add_tier(fit, sorted + list[i].begin, list[i].end - list[i].begin);
}

static unsigned int tier_of(const struct fit *fit, double rest)
{
	unsigned int tier = 0;

	while (tier + 1 < fit->tiers && rest >= fit->cut[tier])
		tier++;
	return tier;
}

static int find_tiers(struct fit *fit)
{
	double *sorted = calloc(fit->pair_count + 1, sizeof(*sorted)), far;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, fit->rest, fit->pair_count * sizeof(*sorted));
	quantile_of(sorted, fit->pair_count, 0.5);
	fit->tiers = 0;
	cut_tiers(fit, sorted, fit->pair_count);
	free(sorted);
	for (size_t k = 0; k < fit->pair_count; k++)
		fit->topo->pairs[fit->pairs[k]].tier = tier_of(fit, fit->rest[k]);
	/* All are relative to the farthest: half of its centre is each NIC's own. */
	far = fit->centre[fit->tiers - 1];
	for (unsigned int tier = 0; tier < fit->tiers; tier++) {
		fit->centre[tier] -= far;
		fit->cut[tier] -= far;
	}
	for (size_t k = 0; k < fit->pair_count; k++)
		fit->rest[k] -= far;
	for (size_t i = 0; i < fit->topo->nic_count; i++)
		fit->own[i] += far / 2;
	return 0;
}

/* What the pairs of a NIC are off their nearest tiers by when its own part were @more. */
static double misfit(const struct fit *fit, size_t nic, double more)
{
	double most = -fit->centre[0] / fit->tiers, sum = 0;

	for (size_t k = fit->begin[nic]; k < fit->begin[nic + 1]; k++) {
		double rest = fit->rest[fit->ends[k]] - more, off = most;

		for (unsigned int tier = 0; tier < fit->tiers; tier++)
			off = fmin(off, fabs(rest - fit->centre[tier]));
		sum += off;
	}
	return sum;
}

/*
 * A NIC with nearly all pairs in one tier was fitted to that as if it were the farthest, or between
 * two. What each of some of its pairs would make it in each tier is tried.
 */
static void shift_own(struct fit *fit)
{
	for (size_t i = 0; i < fit->topo->nic_count; i++) {
		size_t count = fit->begin[i + 1] - fit->begin[i];
		double best = SHIFT_GAIN * misfit(fit, i, 0), by = 0;

		for (size_t k = 0; k < count; k += count / SHIFT_TRIES + 1)
			for (unsigned int tier = 0; tier < fit->tiers; tier++) {
				double more =
					fit->rest[fit->ends[fit->begin[i] + k]] - fit->centre[tier];
				double off = misfit(fit, i, more);

				if (off < best) {
					best = off;
					by = more;
				}
			}
		fit->own[i] += by;
		for (size_t k = fit->begin[i]; by != 0 && k < fit->begin[i + 1]; k++)
			fit->rest[fit->ends[k]] -= by;
	}
	for (size_t k = 0; k < fit->pair_count; k++)
		fit->topo->pairs[fit->pairs[k]].tier = tier_of(fit, fit->rest[k]);
}

/* --- groups --- */

struct near {
	double off_ns;
	size_t at; /* of fit->pairs */
};

static int by_off(const void *a, const void *b)
{
	double x = ((const struct near *)a)->off_ns, y = ((const struct near *)b)->off_ns;

	return (x > y) - (x < y);
}

/* The members of each set in a ring, so that a set is walked from any of them. */
struct groups {
	size_t *sets, *next, *size;
};

/* The mean of what was measured between two groups; the smaller one is walked. */
static double mean_between(const struct fit *fit, const struct groups *groups, size_t a, size_t b)
{
	size_t small = groups->size[a] < groups->size[b] ? a : b, large = small == a ? b : a;
	size_t nic = small, count = 0;
	double sum = 0;

	do {
		for (size_t k = fit->begin[nic]; k < fit->begin[nic + 1]; k++) {
			const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[fit->ends[k]]];

			if (sets_find(groups->sets, other_end(pair, nic)) == large) {
				sum += fit->rest[fit->ends[k]];
				count++;
			}
		}
		nic = groups->next[nic];
	} while (nic != small);
	return count ? sum / (double)count : INFINITY;
}

static void join(struct groups *groups, size_t a, size_t b)
{
	size_t next = groups->next[a], size = groups->size[a] + groups->size[b];

	groups->next[a] = groups->next[b];
	groups->next[b] = next;
	sets_join(groups->sets, a, b);
	groups->size[sets_find(groups->sets, a)] = size;
}

/* Joins groups of @groups that are nearer than tier @tier + 1. */
static int link_groups(const struct fit *fit, struct groups *groups, unsigned int tier)
{
	struct near *list = calloc(fit->pair_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	/* What is at the centre of its tier first: the lowest ones are those that are off. */
	for (size_t k = 0; k < fit->pair_count; k++)
		if (fit->rest[k] < fit->cut[tier])
			list[count++] = (struct near){fabs(fit->rest[k] - fit->centre[tier]), k};
	qsort(list, count, sizeof(*list), by_off);
	/* A pair that one outlier kept apart may be joined once its groups have grown. */
	for (unsigned int pass = 0; pass < 3; pass++)
		for (size_t i = 0; i < count; i++) {
			const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[list[i].at]];
			size_t a = sets_find(groups->sets, pair->a);
			size_t b = sets_find(groups->sets, pair->b);

			if (a != b && mean_between(fit, groups, a, b) < fit->cut[tier])
				join(groups, a, b);
		}
	free(list);
	return 0;
}

/* How certain a NIC is in its group and in no other: its means against the cut. */
static void set_certainty(const struct fit *fit, size_t *sets)
{
	double sigma = 1.4826 * fmax(fit->spread[0], fit->spread[1]) + fit->wide_ns + 1;

	for (size_t i = 0; i < fit->topo->nic_count; i++) {
		size_t inside = 0, outside = 0;
		double in = 0, out = 0;

		for (size_t k = fit->begin[i]; k < fit->begin[i + 1]; k++) {
			size_t at = fit->ends[k];
			const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[at]];
			bool same = sets_find(sets, i) == sets_find(sets, other_end(pair, i));

			*(same ? &in : &out) += fit->rest[at] - fit->cut[0];
			*(same ? &inside : &outside) += 1;
		}
		if (inside && outside)
			fit->topo->nics[i].certainty =
				normal_below(-in / sqrt((double)inside) / sigma) *
				normal_below(out / sqrt((double)outside) / sigma);
		if (fit->begin[i + 1] > fit->begin[i])
			fit->topo->nics[i].own_ns = fit->own[i];
	}
}

/*
 * Whether leaves explain the tiers: what is far is between them, what is near within. Noise in the
 * floors has tiers now and then, and no tree.
 */
static bool is_tree(const struct fit *fit, size_t *leaf)
{
	size_t far = 0, between = 0, explained = 0;

	for (size_t k = 0; k < fit->pair_count; k++) {
		const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[k]];
		bool apart = sets_find(leaf, pair->a) != sets_find(leaf, pair->b);

		far += pair->tier > 0;
		between += pair->tier > 0 && apart;
		explained += (pair->tier > 0) == apart;
	}
	return (double)between >= FAR_LEAST * (double)far &&
	       (double)explained >= EXPLAINED_LEAST * (double)fit->pair_count;
}

/* Each NIC of the rail alone. */
static void part_all(struct fit *fit, size_t *leaf)
{
	for (size_t i = 0; i < fit->topo->nic_count; i++)
		if (fit->begin[i + 1] > fit->begin[i])
			leaf[i] = i;
	for (size_t k = 0; k < fit->pair_count; k++)
		fit->topo->pairs[fit->pairs[k]].tier = 0;
	fit->tiers = 1;
}

static int group_all(struct fit *fit, size_t *leaf, size_t *pod)
{
	size_t nics = fit->topo->nic_count;
	struct groups groups = {
		.sets = leaf, .next = sets_new(nics), .size = calloc(nics + 1, sizeof(size_t))};
	int err = groups.next && groups.size ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < nics; i++)
		groups.size[i] = 1;
	if (!err && fit->tiers > 1)
		err = link_groups(fit, &groups, 0);
	if (!err && fit->tiers > 1 && !is_tree(fit, leaf))
		part_all(fit, leaf);
	if (!err && fit->tiers > 1)
		set_certainty(fit, leaf);
	for (size_t i = 0; !err && i < nics; i++)
		sets_join(pod, i, sets_find(leaf, i));
	/* The ring and the sizes are those of the leaves: pods go on from there. */
	groups.sets = pod;
	for (size_t k = 0; !err && fit->tiers == 2 && k < fit->pair_count; k++)
		sets_join(pod, fit->topo->pairs[fit->pairs[k]].a,
			  fit->topo->pairs[fit->pairs[k]].b);
	if (!err && fit->tiers > 2)
		err = link_groups(fit, &groups, fit->tiers - 2);
	free(groups.next);
	free(groups.size);
	return err;
}

/* --- a rail --- */

static void put_tiers(struct fit *fit, const struct topo_nic *nic)
{
	for (unsigned int tier = 0; tier < fit->tiers; tier++) {
		json_t *row = json_pack("{s:s*, s:s*, s:i, s:I, s:I, s:I}", "plane",
					*nic->plane ? nic->plane : NULL, "rail",
					*nic->rail ? nic->rail : NULL, "tier", (int)tier, "pairs",
					(json_int_t)fit->in_tier[tier], "nearer_ns",
					(json_int_t)-llrint(fit->centre[tier]), "spread_ns",
					(json_int_t)llrint(fit->spread[tier]));

		json_array_append_new(fit->topo->tiers, row);
	}
	if (fit->tiers < 2)
		topo_note(
			fit->topo,
			json_sprintf("%s%s: flat: what the floors of %zu pairs differ by is their "
				     "spread and bounds (%.0f ns, %.0f ns), or no tree, so "
				     "delays show no leaves",
				     *nic->rail	   ? "rail "
				     : *nic->plane ? "plane "
						   : "all NICs",
				     *nic->rail ? nic->rail : nic->plane, fit->pair_count,
				     fit->spread[0], fit->wide_ns));
}

static int index_pairs(struct fit *fit)
{
	size_t nics = fit->topo->nic_count, *fill = calloc(nics + 1, sizeof(*fill));

	fit->begin = calloc(nics + 2, sizeof(*fit->begin));
	fit->ends = calloc(2 * fit->pair_count + 1, sizeof(*fit->ends));
	fit->own = calloc(nics + 1, sizeof(*fit->own));
	fit->rest = calloc(fit->pair_count + 1, sizeof(*fit->rest));
	if (!fill || !fit->begin || !fit->ends || !fit->own || !fit->rest) {
		free(fill);
		return -ENOMEM;
	}
	for (size_t k = 0; k < fit->pair_count; k++) {
		fit->begin[fit->topo->pairs[fit->pairs[k]].a + 1]++;
		fit->begin[fit->topo->pairs[fit->pairs[k]].b + 1]++;
	}
	for (size_t i = 0; i < nics; i++) {
		fit->begin[i + 1] += fit->begin[i];
		fill[i] = fit->begin[i];
	}
	for (size_t k = 0; k < fit->pair_count; k++) {
		const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[k]];

		fit->ends[fill[pair->a]++] = k;
		fit->ends[fill[pair->b]++] = k;
	}
	free(fill);
	return 0;
}

/* Half of the least floor of each NIC. */
static void set_start(struct fit *fit)
{
	for (size_t i = 0; i < fit->topo->nic_count; i++) {
		fit->own[i] = fit->begin[i + 1] > fit->begin[i] ? INFINITY : 0;
		for (size_t k = fit->begin[i]; k < fit->begin[i + 1]; k++)
			fit->own[i] = fmin(fit->own[i],
					   fit->topo->pairs[fit->pairs[fit->ends[k]]].floor_ns / 2);
	}
}

/* What one floor may be off by: its bound, or what its two ends disagree by. */
static double width_of_pairs(const struct fit *fit)
{
	double *values = calloc(fit->pair_count + 1, sizeof(*values)), wide = 0;
	size_t count = 0;

	for (size_t k = 0; values && k < fit->pair_count; k++) {
		const struct topo_pair *pair = &fit->topo->pairs[fit->pairs[k]];
		double bound = isfinite(pair->bound_ns) ? pair->bound_ns : 0;

		if (isfinite(pair->disagree_ns) || bound > 0)
			values[count++] =
				fmax(isfinite(pair->disagree_ns) ? pair->disagree_ns : 0, bound);
	}
	if (count)
		wide = quantile_of(values, count, 0.5);
	free(values);
	return wide;
}

static int fit_tiers(struct fit *fit, double start)
{
	int err = 0;

	for (unsigned int round = 0; !err && round < ROUNDS; round++) {
		err = fit_own(fit, round ? 0 : start);
		err = err ? err : find_tiers(fit);
		if (err || fit->tiers < 2)
			break;
		shift_own(fit);
	}
	return err;
}

static int group_rail(struct topo *topo, size_t nic, size_t *pairs, size_t count, size_t *leaf,
		      size_t *pod)
{
	static const double starts[] = {0.75, 0.5, 0.9}; /* the next where there is one tier */
	struct fit fit = {.topo = topo, .pairs = pairs, .pair_count = count};
	int err = index_pairs(&fit);

	fit.wide_ns = err ? 0 : width_of_pairs(&fit);
	for (size_t i = 0; !err && i < sizeof(starts) / sizeof(*starts) && fit.tiers < 2; i++) {
		set_start(&fit);
		err = fit_tiers(&fit, starts[i]);
	}
	if (!err)
		err = group_all(&fit, leaf, pod);
	if (!err)
		put_tiers(&fit, &topo->nics[nic]);
	free(fit.begin);
	free(fit.ends);
	free(fit.own);
	free(fit.rest);
	return err;
}

int delay_group(struct topo *topo, size_t *leaf, size_t *pod)
{
	size_t *list = calloc(topo->pair_count + 1, sizeof(*list));
	bool *done = calloc(topo->nic_count + 1, sizeof(*done));
	int err = list && done ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < topo->nic_count; i++) {
		size_t count = 0;

		if (done[i])
			continue;
		for (size_t k = i; k < topo->nic_count; k++)
			done[k] |= is_same_rail(&topo->nics[i], &topo->nics[k]);
		for (size_t k = 0; k < topo->pair_count; k++) {
			struct topo_pair *pair = &topo->pairs[k];

			pair->cross = !is_same_rail(&topo->nics[pair->a], &topo->nics[pair->b]);
			if (!pair->cross && isfinite(pair->floor_ns) &&
			    is_same_rail(&topo->nics[i], &topo->nics[pair->a]))
				list[count++] = k;
		}
		if (count)
			err = group_rail(topo, i, list, count, leaf, pod);
	}
	free(list);
	free(done);
	return err;
}
