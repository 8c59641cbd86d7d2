// SPDX-License-Identifier: BSD-2-Clause
/* From exports to series, and their comparison. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "clocksync/cycles.h"
#include "colocation.h"

#define HZ_LEAST 1e5
#define HZ_MOST 1e11
/* Farther apart is no error of a clock. */
#define AHEAD_MOST_NS 1e15

static double number_at(const json_t *list, size_t at)
{
	const json_t *value = json_array_get(list, at);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

/* NULL, or why there is no series. */
static const char *take_points(const json_t *cycles, struct colocate_series *series, int *err)
{
	const json_t *ahead = json_object_get(cycles, "ahead_ns");
	const json_t *bound = json_object_get(cycles, "bound_ns");
	const json_t *first = json_object_get(cycles, "first_fabric_ns");
	double hz = json_number_value(json_object_get(cycles, "reference_hz"));
	size_t count = json_array_size(ahead), valid = 0;
	double *points, *bounds_ns;

	if (!count)
		return "no point yet: the clock has to be synced for some seconds";
	if (!(hz > HZ_LEAST && hz < HZ_MOST) || count > CYCLES_POINTS ||
	    json_array_size(bound) != count ||
	    json_integer_value(json_object_get(cycles, "step_ns")) != CYCLES_STEP_NS ||
	    !json_is_integer(first) || json_integer_value(first) <= 0)
		return "its points are not of this release's form";
	/* The bounds come after the points, in one block. */
	points = calloc(2 * count, sizeof(*points));
	if (!points) {
		*err = -ENOMEM;
		return NULL;
	}
	bounds_ns = points + count;
	*series = (struct colocate_series){
		.reference_hz = hz,
		.first = json_integer_value(first) / CYCLES_STEP_NS,
		.count = count,
		.ahead_ns = points,
		.bounds_ns = bounds_ns,
	};
	for (size_t i = 0; i < count; i++) {
		points[i] = number_at(ahead, i);
		bounds_ns[i] = number_at(bound, i);
		if (!(fabs(points[i]) < AHEAD_MOST_NS) || !(bounds_ns[i] >= 0)) {
			points[i] = NAN;
			continue;
		}
		valid++;
		series->bound_ns = fmax(series->bound_ns, bounds_ns[i]);
	}
	return valid < COLOCATE_POINTS_LEAST
		       ? "too few points: the clock has to be synced for half a minute"
		       : NULL;
}

static const char *take_export(const json_t *export, struct colocation_host *host, int *err)
{
	const json_t *cycles = json_object_get(json_object_get(export, "replies"), "cycles");
	const char *note = json_text(cycles, "note");

	host->name = json_text(export, "host");
	if (!cycles)
		return "its export has no `cycles`: its daemon is of an earlier release";
	return *note ? note : take_points(cycles, &host->series, err);
}

int colocation_read(struct colocation *out, const json_t **exports, size_t count, char **error)
{
	struct colocate_series *series = calloc(count + 1, sizeof(*series));
	int err = 0;

	*out = (struct colocation){.count = count, .hosts = calloc(count + 1, sizeof(*out->hosts))};
	if (!series || !out->hosts)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		out->hosts[i].note = take_export(exports[i], &out->hosts[i], &err);
		if (!out->hosts[i].note)
			series[i] = out->hosts[i].series;
	}
	if (!err)
		err = colocate_solve(series, count, &out->law);
	if (err == -E2BIG)
		explain(error, err, "%zu hosts have exports, %d at most: give those of a part",
			count, COLOCATE_HOSTS_MAX);
	for (size_t i = 0; !err && i < count; i++)
		if (!out->hosts[i].note && !(out->law.seconds[i] > 0))
			out->hosts[i].note =
				"its points do not cover the time that those of others "
				"have in common";
	free(series);
	return err;
}

void colocation_free(struct colocation *colocation)
{
	for (size_t i = 0; colocation->hosts && i < colocation->count; i++)
		free((void *)(uintptr_t)colocation->hosts[i].series.ahead_ns);
	free(colocation->hosts);
	colocate_free(&colocation->law);
	*colocation = (struct colocation){};
}
