// SPDX-License-Identifier: BSD-2-Clause
/* The delays of the last pages of `top`, as a line of bars for each queue pair. */
#include <sys/param.h>

#include "base/json.h"
#include "cli.h"

#define LEVELS 8

static void name_of(char out[160], const json_t *qp)
{
	snprintf(out, 160, "%.150s %.2s", json_text(qp, "key"), json_text(qp, "direction"));
}

static bool has_number(const json_t *values)
{
	json_t *value;
	size_t i;

	json_array_foreach (values, i, value)
		if (json_is_number(value))
			return true;
	return false;
}

void trend_add(json_t *trend, const json_t *qps, size_t shown)
{
	json_t *values, *qp, *owd;
	char name[160];
	const char *key;
	size_t i;
	void *next;

	json_array_foreach (qps, i, qp) {
		if (i == shown)
			break;
		name_of(name, qp);
		if (!json_object_get(trend, name))
			json_object_set_new(trend, name, json_array());
	}
	json_object_foreach (trend, key, values) {
		json_array_append_new(values, json_null());
		if (json_array_size(values) > TREND_MOST)
			json_array_remove(values, 0);
	}
	json_array_foreach (qps, i, qp) {
		name_of(name, qp);
		values = json_object_get(trend, name);
		owd = json_object_get(json_object_get(qp, "owd_ns"), "p99");
		if (i < shown && json_is_number(owd))
			json_array_set(values, json_array_size(values) - 1, owd);
	}
	json_object_foreach_safe(trend, next, key, values) if (!has_number(values))
		json_object_del(trend, key);
}

const json_t *trend_of(const json_t *trend, const json_t *qp)
{
	char name[160];

	name_of(name, qp);
	return json_object_get(trend, name);
}

void trend_write(FILE *out, const json_t *values, size_t cells, bool utf8)
{
	static const char *const blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[LEVELS] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	size_t count = json_array_size(values), first = count > cells ? count - cells : 0, i;
	double least = 0, most = 0, span;
	bool any = false;
	json_t *value;

	json_array_foreach (values, i, value) {
		double delay = json_number_value(value);

		if (i < first || !json_is_number(value))
			continue;
		least = any ? MIN(least, delay) : delay;
		most = any ? MAX(most, delay) : delay;
		any = true;
	}
	/* Changes by less than the shortest delay do not fill the height. */
	span = MAX(most - least, MAX(least, 1));
	for (i = count - first; i < cells; i++)
		fputc(' ', out);
	for (i = first; i < count; i++) {
		value = json_array_get(values, i);
		if (json_is_number(value)) {
			double part = (json_number_value(value) - least) / span;
			size_t level = MIN((size_t)(part * LEVELS), LEVELS - 1);

			fputs(utf8 ? blocks[level] : ascii[level], out);
		} else {
			fputc(' ', out);
		}
	}
}
