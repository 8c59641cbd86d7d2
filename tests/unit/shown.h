/* SPDX-License-Identifier: BSD-2-Clause */
/* What a module shows, JSON and metrics, as a test reads it. */
#ifndef ESC_TESTS_UNIT_SHOWN_H
#define ESC_TESTS_UNIT_SHOWN_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

static inline const json_t *get(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}

/* -1: absent. */
static inline int64_t number(const json_t *object, const char *key)
{
	const json_t *value = get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static inline double real_number(const json_t *object, const char *key)
{
	return json_number_value(get(object, key));
}

static inline const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(get(object, key));

	return value ? value : "(absent)";
}

/* New reference: what @capability replies to its first verb without arguments. */
static inline json_t *reply_of(const struct capability *capability, void *self)
{
	struct request request = {};
	json_t *result = capability->verbs[0].reply(self, &request);

	cr_assert_not_null(result, "%s", request.error);
	return result;
}

static inline json_t *status_of(const struct capability *capability, void *self)
{
	json_t *status = json_object();

	capability->status(self, status);
	return status;
}

/* Malloc'd; it begins with a newline. */
static inline char *metrics_of(const struct capability *capability, void *self)
{
	char *metrics = NULL;
	size_t bytes;
	FILE *out = open_memstream(&metrics, &bytes);

	cr_assert_not_null(out);
	fputc('\n', out);
	capability->write_metrics(self, out);
	fclose(out);
	return metrics;
}

static inline void expect_line(const char *metrics, const char *line)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_expect(strstr(metrics, whole), "%s is not in%s", line, metrics);
}

static inline void expect_no_family(const char *metrics, const char *name)
{
	cr_expect_null(strstr(metrics, name), "%s is in%s", name, metrics);
}

/* Each family of the table is in @metrics, and none other; promtool accepts them where it is. */
static inline void expect_families(const char *metrics, const struct metric *table)
{
	static const char type[] = "\n# TYPE escapement_";
	size_t listed = 0, written = 0;
	char name[128];
	FILE *pipe;

	for (; table[listed].name; listed++) {
		snprintf(name, sizeof(name), "%s%s ", type, table[listed].name);
		cr_expect(strstr(metrics, name), "%s is not in%s", table[listed].name, metrics);
	}
	for (const char *at = metrics; (at = strstr(at, type)); at++)
		written++;
	cr_expect_eq(written, listed, "%zu families, %zu in the table", written, listed);
	if (system("promtool --version >/dev/null 2>&1"))
		return;
	pipe = popen("promtool check metrics", "w");
	cr_assert_not_null(pipe);
	fputs(metrics + 1, pipe);
	cr_expect_eq(WEXITSTATUS(pclose(pipe)), 0);
}

#endif
