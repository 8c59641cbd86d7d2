// SPDX-License-Identifier: BSD-2-Clause
/*
 * One series against what it usually is. A diurnal load makes queues long at times, and leaves
 * times in which there are none: so the least delay and the highest rate of each bin are compared,
 * which it hardly changes, and with the worst of the same hour of the days before and of the hours
 * beside it, in which it changed them as well.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SPAN_BINS (3 * BASELINE_BINS) /* in which the bins of a ring are, at most */
#define OUTLIER_SPREADS 4	      /* deviations that a bin counts for, ... */
#define OUTLIER_LEAST 0.01	      /* ... or this share */
#define BOUNDS 2		      /* usual bounds; a bin with more is not learned */

static const char *const kind_names[] = {"nic_pair_delay", "path_delay", "qp_delay",
					 "qp_throughput"};
static const char *const state_names[] = {"learning", "idle", "usual", "slower", "variable"};

const char *baseline_kind_name(enum baseline_kind kind)
{
	return kind_names[kind];
}

const char *baseline_state_name(enum baseline_state state)
{
	return state_names[state];
}

static bool is_rate(const struct baseline_series *series)
{
	return series->key.kind == BASELINE_THROUGHPUT;
}

/* By how much @value is slower than @base. A delay may be close to 0, or below it by its bound. */
static double slower_by(const struct baseline_series *series, double value, double base)
{
	double change = (value - base) / fmax(fabs(base), 1);

	return is_rate(series) ? -change : change;
}

/* --- learning --- */

static void learn(struct baseline_series *series, const struct baseline_bin *bin)
{
	struct baseline_slot *slot = &series->slots[bin->hour];
	float most = BOUNDS * series->bound, off;

	/* Of a time in which the clock was much worse little is known. */
	if (slot->bins >= BASELINE_SLOT_LEAST) {
		series->bound += (fminf(bin->bound, most) - series->bound) / (float)slot->bins;
		if (bin->bound > most)
			return;
	} else {
		series->bound += (bin->bound - series->bound) / (float)(slot->bins + 1);
	}

	if (slot->bins < BASELINE_SLOT_AGE)
		slot->bins++;
	if (slot->bins == 1) {
		slot->center = bin->value;
		slot->spread = 0;
	}
	off = bin->value - slot->center;
	most = fmaxf(OUTLIER_SPREADS * slot->spread, (float)OUTLIER_LEAST * fabsf(slot->center));
	if (slot->bins > BASELINE_SLOT_LEAST)
		off = fmaxf(fminf(off, most), -most);
	slot->center += off / (float)slot->bins;
	slot->spread += (fabsf(off) - slot->spread) / (float)slot->bins;
}

/* What leaves the ring was usual, unless the series is slower. */
static void drop_oldest(struct baseline_series *series)
{
	if (!series->slower_ns)
		learn(series, &series->bins[series->first]);
	series->first = (series->first + 1) % BASELINE_BINS;
	series->count--;
}

/* --- the reference --- */

/* The worse of the two. */
static bool is_worse(const struct baseline_series *series, const struct baseline_slot *slot,
		     const struct baseline_slot *than)
{
	return !than ||
	       (is_rate(series) ? slot->center < than->center : slot->center > than->center);
}

/* The worst of some hours; NULL: none is known. */
static const struct baseline_slot *worst_slot(const struct baseline_series *series,
					      unsigned int from, unsigned int count)
{
	const struct baseline_slot *worst = NULL;

	for (unsigned int i = 0; i < count; i++) {
		const struct baseline_slot *slot = &series->slots[(from + i) % BASELINE_SLOTS];

		if (slot->bins >= BASELINE_SLOT_LEAST && is_worse(series, slot, worst))
			worst = slot;
	}
	return worst;
}

/* base, need and shows, for bins of @hour; @bound: of the newest one. */
static void compare_with(struct baseline_series *series, const struct baseline_law *law,
			 unsigned int hour, float bound, uint64_t now_ns)
{
	const struct baseline_slot *slot = worst_slot(series, hour + BASELINE_SLOTS - 1, 3);
	const struct baseline_slot *own;

	series->need = 0;
	if (!slot)
		slot = worst_slot(series, 0, BASELINE_SLOTS);
	if (!slot || now_ns - series->first_ns < law->learn_ns)
		return;
	series->base = slot->center;
	own = &series->slots[hour];
	series->need = (float)fmax(BASELINE_MARGIN * law->slower,
				   BASELINE_SPREADS * slot->spread / fmaxf(fabsf(slot->center), 1));
	series->shows = series->need;
	if (own->bins >= BASELINE_SLOT_LEAST)
		series->shows += (float)fabs(slower_by(series, slot->center, own->center));
	if (!is_rate(series))
		series->shows = fmaxf(series->shows,
				      (bound + series->bound) / fmaxf(fabsf(slot->center), 1));
}

/* --- the ring --- */

static int compare(const void *a, const void *b)
{
	float one = *(const float *)a, two = *(const float *)b;

	return (one > two) - (one < two);
}

double baseline_now(const struct baseline_series *series, double *bound)
{
	float values[BASELINE_BINS], most = 0;
	unsigned int count = series->count;

	for (unsigned int i = 0; i < count; i++) {
		const struct baseline_bin *bin = &series->bins[(series->first + i) % BASELINE_BINS];

		values[i] = bin->value;
		most = fmaxf(most, bin->bound);
	}
	if (bound)
		*bound = most;
	if (!count)
		return NAN;
	qsort(values, count, sizeof(values[0]), compare);
	return ((double)values[(count - 1) / 2] + (double)values[count / 2]) / 2;
}

double baseline_change(const struct baseline_series *series)
{
	if (series->need <= 0 || !series->count)
		return NAN;
	return slower_by(series, baseline_now(series, NULL), series->base);
}

/* By more than @share, and a delay by more than what both may be wrong by. */
static bool is_slower(const struct baseline_series *series, const struct baseline_bin *bin,
		      double share)
{
	if (slower_by(series, bin->value, series->base) <= share)
		return false;
	return is_rate(series) || bin->value - series->base > bin->bound + series->bound;
}

static unsigned int count_slower(const struct baseline_series *series, double share)
{
	unsigned int slower = 0;

	for (unsigned int i = 0; i < series->count; i++)
		slower += is_slower(series, &series->bins[i], share);
	return slower;
}

static enum baseline_step evaluate(struct baseline_series *series, const struct baseline_law *law,
				   uint64_t now_ns)
{
	unsigned int slower;

	compare_with(series, law, (unsigned int)(now_ns / BASELINE_HOUR_NS % BASELINE_SLOTS),
		     series->open.bound, now_ns);
	if (series->need <= 0 || series->count < BASELINE_BINS)
		return BASELINE_NOTHING;
	slower = count_slower(series, series->need * BASELINE_SINGLE);
	if (!series->slower_ns && slower >= BASELINE_MOST &&
	    count_slower(series, series->need) >= BASELINE_FIRM) {
		series->slower_ns = now_ns - BASELINE_BINS * law->bin_ns;
		return BASELINE_BEGINS;
	}
	if (series->slower_ns && BASELINE_BINS - slower >= BASELINE_MOST) {
		series->slower_ns = 0;
		return BASELINE_ENDS;
	}
	return BASELINE_NOTHING;
}

static enum baseline_step close_bin(struct baseline_series *series, const struct baseline_law *law,
				    uint64_t now_ns)
{
	const struct baseline_bin *bin = &series->open;

	series->is_open = false;
	if (series->count == BASELINE_BINS)
		drop_oldest(series);
	/* Times without values, as between jobs: the bins before are of another time. */
	while (series->count && bin->number - series->bins[series->first].number > SPAN_BINS)
		drop_oldest(series);
	series->bins[(series->first + series->count++) % BASELINE_BINS] = *bin;
	return evaluate(series, law, now_ns);
}

/* --- from outside --- */

/* Slower for a week: that is what is usual now. */
static enum baseline_step accept_slower(struct baseline_series *series, uint64_t now_ns)
{
	memset(series->slots, 0, sizeof(series->slots));
	series->first_ns = now_ns;
	series->slower_ns = 0;
	series->count = 0;
	series->need = series->bound = 0;
	return BASELINE_ACCEPTED;
}

enum baseline_step baseline_pass(struct baseline_series *series, const struct baseline_law *law,
				 uint64_t now_ns)
{
	uint32_t number = (uint32_t)(now_ns / law->bin_ns);
	enum baseline_step step = BASELINE_NOTHING;

	if (series->slower_ns && now_ns > series->slower_ns + BASELINE_ACCEPT_NS)
		return accept_slower(series, now_ns);
	if (series->is_open && series->open.number != number)
		step = close_bin(series, law, now_ns);
	if (series->slower_ns && now_ns > series->seen_ns + BASELINE_SILENT_BINS * law->bin_ns) {
		series->slower_ns = 0;
		series->count = 0;
		step = BASELINE_GOES;
	}
	return step;
}

enum baseline_step baseline_take(struct baseline_series *series, const struct baseline_law *law,
				 uint64_t now_ns, double value, double bound)
{
	enum baseline_step step;
	struct baseline_bin *open = &series->open;

	/* The system clock was set back, or far ahead: hours and times are other ones. */
	if (series->seen_ns > now_ns)
		series->seen_ns = now_ns;
	if (!series->first_ns || series->first_ns > now_ns)
		series->first_ns = now_ns;
	if (series->slower_ns > now_ns)
		series->slower_ns = now_ns;
	step = baseline_pass(series, law, now_ns);
	series->seen_ns = now_ns;
	if (!series->is_open) {
		*open = (struct baseline_bin){
			(float)value, (float)bound, (uint32_t)(now_ns / law->bin_ns),
			(uint32_t)(now_ns / BASELINE_HOUR_NS % BASELINE_SLOTS)};
		series->is_open = true;
		return step;
	}
	open->value = is_rate(series) ? fmaxf(open->value, (float)value)
				      : fminf(open->value, (float)value);
	open->bound = fmaxf(open->bound, (float)bound);
	return step;
}

bool baseline_leans(const struct baseline_series *series)
{
	return series->slower_ns ||
	       baseline_change(series) > (double)series->need * BASELINE_SINGLE;
}

enum baseline_state baseline_state(const struct baseline_series *series,
				   const struct baseline_law *law, uint64_t now_ns)
{
	if (series->slower_ns)
		return BASELINE_SLOWER;
	if (now_ns > series->seen_ns + SPAN_BINS * law->bin_ns)
		return BASELINE_IDLE;
	if (series->need <= 0)
		return BASELINE_LEARNING;
	/* Nothing is compared until the ring is full. */
	if (series->count < BASELINE_BINS)
		return BASELINE_IDLE;
	return (double)series->shows > BASELINE_SURE * law->slower ? BASELINE_VARIABLE
								   : BASELINE_USUAL;
}
