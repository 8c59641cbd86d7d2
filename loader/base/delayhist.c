// SPDX-License-Identifier: BSD-2-Clause
#include "delayhist.h"

#include <errno.h>
#include <math.h>
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

/* Bars of @more that @hist does not have. */
static size_t count_new(const struct delayhist *hist, const struct delayhist *more)
{
	size_t at = 0, fresh = 0;

	for (size_t i = 0; i < more->count; i++) {
		while (at < hist->count && hist->bars[at].bucket < more->bars[i].bucket)
			at++;
		fresh += at == hist->count || hist->bars[at].bucket != more->bars[i].bucket;
	}
	return fresh;
}

int delayhist_add(struct delayhist *hist, const struct delayhist *more)
{
	size_t old = hist->count, from = more->count, fresh = count_new(hist, more), to;
	int err = delayhist_reserve(hist, old + fresh);

	if (err)
		return err;
	/* From the end, so that what is moved is never overwritten before. */
	to = hist->count = old + fresh;
	while (from) {
		struct delayhist_bar bar = more->bars[from - 1];

		if (old && hist->bars[old - 1].bucket > bar.bucket) {
			hist->bars[--to] = hist->bars[--old];
			continue;
		}
		if (old && hist->bars[old - 1].bucket == bar.bucket)
			bar.count += hist->bars[--old].count;
		hist->bars[--to] = bar;
		from--;
	}
	return 0;
}

int delayhist_count(struct delayhist *hist, uint32_t bucket)
{
	size_t low = 0, high = hist->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (hist->bars[middle].bucket < bucket)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == hist->count || hist->bars[low].bucket != bucket) {
		int err = delayhist_reserve(hist, hist->count + 1);

		if (err)
			return err;
		memmove(&hist->bars[low + 1], &hist->bars[low],
			(hist->count - low) * sizeof(hist->bars[0]));
		hist->bars[low] = (struct delayhist_bar){.bucket = bucket & 0xffff};
		hist->count++;
	}
	hist->bars[low].count++;
	return 0;
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

/* @ns, brought into the bucket; the first one has no lower bound, the last one no upper one. */
static int64_t clamp(int64_t ns, uint32_t bucket)
{
	if (bucket && ns < (int64_t)esc_owd_bucket_floor(bucket))
		return (int64_t)esc_owd_bucket_floor(bucket);
	if (bucket + 1 < ESC_OWD_BUCKETS && ns >= (int64_t)bucket_end(bucket))
		return (int64_t)bucket_end(bucket) - 1;
	return ns;
}

int64_t delayhist_clamp_min(const struct delayhist *hist, int64_t ns)
{
	return hist->count ? clamp(ns, hist->bars[0].bucket) : ns;
}

int64_t delayhist_clamp_max(const struct delayhist *hist, int64_t ns)
{
	return hist->count ? clamp(ns, hist->bars[hist->count - 1].bucket) : ns;
}
