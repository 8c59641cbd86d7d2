// SPDX-License-Identifier: BSD-2-Clause
#include <math.h>
#include <stdlib.h>

#include "internal.h"

size_t *sets_new(size_t count)
{
	size_t *sets = calloc(count + 1, sizeof(*sets));

	for (size_t i = 0; sets && i < count; i++)
		sets[i] = i;
	return sets;
}

size_t sets_find(size_t *sets, size_t of)
{
	while (sets[of] != of) {
		sets[of] = sets[sets[of]];
		of = sets[of];
	}
	return of;
}

bool sets_join(size_t *sets, size_t a, size_t b)
{
	a = sets_find(sets, a);
	b = sets_find(sets, b);
	if (a == b)
		return false;
	sets[a > b ? a : b] = a > b ? b : a;
	return true;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double quantile_of(double *values, size_t count, double share)
{
	if (!count)
		return NAN;
	qsort(values, count, sizeof(*values), by_value);
	return values[(size_t)(share * (double)(count - 1) + 0.5)];
}

double spread_of(const double *sorted, size_t count)
{
	return count ? (sorted[3 * count / 4] - sorted[count / 4]) / 2 : 0;
}

double normal_below(double sigmas)
{
	return 0.5 * erfc(-sigmas / M_SQRT2);
}
