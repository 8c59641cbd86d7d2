// SPDX-License-Identifier: BSD-2-Clause
#include "delayhist.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void delayhist_free(struct delayhist *hist)
{
	free(hist->bars);
	*hist = (struct delayhist){};
}

void delayhist_clear(struct delayhist *hist)
{
	hist->count = 0;
}

/* An eighth more than needed: most additions raise bars that are there. */
static int delayhist_reserve(struct delayhist *hist, size_t room)
{
	struct delayhist_bar *grown;

	if (room <= hist->room)
		return 0;
	room += room / 8 + 4;
	grown = reallocarray(hist->bars, room, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	hist->bars = grown;
	hist->room = room;
	return 0;
}

/* The place of @bucket among the bars, whether it is there or not. */
static size_t place_of(const struct delayhist *hist, uint32_t bucket)
{
	size_t low = 0, high = hist->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (hist->bars[middle].bucket < bucket)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_bar(const struct delayhist *hist, size_t place, uint32_t bucket)
{
	return place < hist->count && hist->bars[place].bucket == bucket;
}

/* Adds to the bar at @place, or inserts it there; @hist has room for one more. */
static void add_bar(struct delayhist *hist, size_t place, const struct delayhist_bar *bar)
{
	if (has_bar(hist, place, bar->bucket)) {
		hist->bars[place].count += bar->count;
		return;
	}
	memmove(&hist->bars[place + 1], &hist->bars[place],
		(hist->count++ - place) * sizeof(hist->bars[0]));
	hist->bars[place] = *bar;
}

int delayhist_add(struct delayhist *hist, const struct delayhist *more)
{
	size_t fresh = 0;
	int err;

	for (size_t i = 0; i < more->count; i++)
		fresh += !has_bar(hist, place_of(hist, more->bars[i].bucket), more->bars[i].bucket);
	err = delayhist_reserve(hist, hist->count + fresh);
	if (err)
		return err;
	for (size_t i = 0; i < more->count; i++)
		add_bar(hist, place_of(hist, more->bars[i].bucket), &more->bars[i]);
	return 0;
}

int delayhist_count(struct delayhist *hist, uint32_t bucket)
{
	struct delayhist_bar bar = {.bucket = bucket & 0xffff, .count = 1};
	size_t place = place_of(hist, bar.bucket);
	int err = has_bar(hist, place, bar.bucket) ? 0 : delayhist_reserve(hist, hist->count + 1);

	if (!err)
		add_bar(hist, place, &bar);
	return err;
}

int delayhist_add_since(struct delayhist *hist, const uint32_t now[ESC_OWD_BUCKETS],
			const uint32_t before[ESC_OWD_BUCKETS])
{
	struct delayhist_bar bars[ESC_OWD_BUCKETS];
	struct delayhist since = {.bars = bars};

	for (uint32_t i = 0; i < ESC_OWD_BUCKETS; i++) {
		uint32_t count = now[i] - (before ? before[i] : 0); /* they wrap */

		if (count)
			bars[since.count++] = (struct delayhist_bar){i, count};
	}
	return delayhist_add(hist, &since);
}

uint64_t delayhist_samples(const struct delayhist *hist)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < hist->count; i++)
		samples += hist->bars[i].count;
	return samples;
}

static uint64_t bucket_end(uint32_t bucket)
{
	return bucket + 1 < ESC_OWD_BUCKETS ? esc_owd_bucket_floor(bucket + 1) : INT64_MAX;
}

/* The last bucket has no end: what is known is where it begins. */
static double bucket_middle(uint32_t bucket)
{
	double floor = (double)esc_owd_bucket_floor(bucket);

	return bucket + 1 < ESC_OWD_BUCKETS ? (floor + (double)bucket_end(bucket)) / 2 : floor;
}

int64_t delayhist_quantile(const struct delayhist *hist, double q)
{
	uint64_t samples = delayhist_samples(hist), passed = 0;
	uint64_t rank = (uint64_t)ceil(q * (double)samples);

	for (size_t i = 0; i < hist->count; i++) {
		passed += hist->bars[i].count;
		if (passed >= rank)
			return (int64_t)bucket_middle(hist->bars[i].bucket);
	}
	return 0;
}

double delayhist_sum(const struct delayhist *hist)
{
	double sum = 0;

	for (size_t i = 0; i < hist->count; i++)
		sum += bucket_middle(hist->bars[i].bucket) * (double)hist->bars[i].count;
	return sum;
}

void delayhist_below(const struct delayhist *hist, const int64_t *bounds_ns, size_t count,
		     uint64_t *below)
{
	uint64_t passed = 0;
	size_t i = 0;

	for (size_t k = 0; k < count; k++) {
		for (;
		     i < hist->count && bucket_middle(hist->bars[i].bucket) <= (double)bounds_ns[k];
		     i++)
			passed += hist->bars[i].count;
		below[k] = passed;
	}
}

/* @ns, brought into the bucket; the first one has no lower bound, the last one no upper one. */
static int64_t clamp(int64_t ns, uint32_t bucket)
{
	if (bucket && ns < (int64_t)esc_owd_bucket_floor(bucket))
		return (int64_t)esc_owd_bucket_floor(bucket);
	if (bucket + 1 < ESC_OWD_BUCKETS && ns >= (int64_t)bucket_end(bucket))
		return (int64_t)bucket_end(bucket) - 1;
	return ns;
}

void delayhist_clamp(const struct delayhist *hist, int64_t *min_ns, int64_t *max_ns)
{
	if (!hist->count)
		return;
	*min_ns = clamp(*min_ns, hist->bars[0].bucket);
	*max_ns = clamp(*max_ns, hist->bars[hist->count - 1].bucket);
}

/* --- of a list --- */

static int64_t middle_of(int64_t a, int64_t b, int64_t c)
{
	int64_t low = a < b ? a : b, high = a < b ? b : a;

	return c < low ? low : c < high ? c : high;
}

/* The value of @rank in sorted order, from 0, by quickselect (Hoare's FIND): O(n) on average. */
static int64_t select_rank(int64_t *values, size_t count, size_t rank)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)count - 1, at = (ptrdiff_t)rank;

	while (low < high) {
		int64_t pivot = middle_of(values[low], values[(low + high) / 2], values[high]);
		ptrdiff_t left = low, right = high;

		while (left <= right) {
			int64_t value;

			while (values[left] < pivot)
				left++;
			while (values[right] > pivot)
				right--;
			if (left > right)
				break;
			value = values[left];
			values[left++] = values[right];
			values[right--] = value;
		}
		if (right < at)
			low = left;
		if (at < left)
			high = right;
	}
	return values[rank];
}

double quantiles_seconds(const struct quantiles *delays, unsigned int stat)
{
	const int64_t ns[] = {delays->min_ns, delays->p50_ns, delays->p99_ns, delays->max_ns};

	return delays->samples ? (double)ns[stat] / 1e9 : NAN;
}

void quantiles_of(int64_t *values, size_t count, struct quantiles *out)
{
	size_t middle = (count - 1) / 2;

	memset(out, 0, sizeof(*out));
	if (!count)
		return;
	out->samples = count;
	out->min_ns = out->max_ns = values[0];
	for (size_t i = 1; i < count; i++) {
		out->min_ns = values[i] < out->min_ns ? values[i] : out->min_ns;
		out->max_ns = values[i] > out->max_ns ? values[i] : out->max_ns;
	}
	out->p50_ns = select_rank(values, count, middle);
	/* What is below the median is in front of it. */
	out->p99_ns = select_rank(values + middle, count - middle,
				  (size_t)ceil(0.99 * (double)count) - 1 - middle);
}
