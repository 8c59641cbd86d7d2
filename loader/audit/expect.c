// SPDX-License-Identifier: BSD-2-Clause
/* What an operator expects of the hosts: the file of `audit --expect`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/explain.h"
#include "base/units.h"
#include "internal.h"

#define AUDIT_CHECKS_MAX 128
#define SECTIONS 5

/* The check whose id is nearest to @id, or NULL. */
static const char *nearest_check(const char *id)
{
	const struct audit_check *check = NULL;
	const char *names[AUDIT_CHECKS_MAX];
	size_t count = 0;

	while ((check = audit_next(check)) && count < AUDIT_CHECKS_MAX)
		names[count++] = check->id;
	return nearest_name(id, names, count);
}

static int refuse(char **error, const char *key, const char *near)
{
	if (near)
		return explain(error, -EINVAL, "expected values: no check `%s`: did you mean `%s`?",
			       key, near);
	return explain(error, -EINVAL,
		       "expected values: no check `%s`: `escapement audit checks` lists them", key);
}

/* "pcie.width/mlx5_0:1" or "pcie.width". */
static int check_id(const char *key, char **error)
{
	char id[AUDIT_TEXT_BYTES];

	snprintf(id, sizeof(id), "%.*s", (int)strcspn(key, "/"), key);
	if (audit_named(id))
		return 0;
	return refuse(error, key, nearest_check(id));
}

static int check_section(const json_t *section, const char *name, char **error)
{
	const char *key;
	json_t *value;

	if (section && !json_is_object(section)) {
		return explain(error, -EINVAL,
			       "expected values: `%s` should be an object {\"ID\": \"TEXT\"}",
			       name);
	}
	json_object_foreach ((json_t *)section, key, value) {
		if (check_id(key, error))
			return -EINVAL;
		if (!json_is_string(value)) {
			return explain(error, -EINVAL,
				       "expected values: `%s` of `%s` should be a text in quotes",
				       key, name);
		}
	}
	return 0;
}

static int check_hosts(const json_t *of_hosts, char **error)
{
	const char *host;
	json_t *values;

	if (of_hosts && !json_is_object(of_hosts))
		return explain(
			error, -EINVAL,
			"expected values: `of_hosts` should be an object {\"HOST\": {\"ID\": "
			"\"TEXT\"}}");
	json_object_foreach ((json_t *)of_hosts, host, values)
		if (check_section(values, host, error))
			return -EINVAL;
	return 0;
}

int audit_expect_check(const json_t *expect, char **error)
{
	static const char *const sections[SECTIONS] = {"values", "waive", "off", "hosts",
						       "of_hosts"};
	const json_t *off = json_object_get(expect, "off"), *id;
	const char *key;
	json_t *value;
	size_t i;

	if (!json_is_object(expect)) {
		return explain(
			error, -EINVAL,
			"expected values: should be an object with `values`, `waive`, `off`, "
			"`hosts` and `of_hosts`");
	}
	json_object_foreach ((json_t *)expect, key, value) {
		for (i = 0; i < SECTIONS && strcmp(key, sections[i]); i++)
			;
		if (i == SECTIONS) {
			return explain(
				error, -EINVAL,
				"expected values: unknown key `%s`: there are `values`, `waive`, "
				"`off`, `hosts` and `of_hosts`",
				key);
		}
	}
	json_array_foreach (off, i, id)
		if (!json_is_string(id) || check_id(json_string_value(id), error)) {
			if (!*error)
				explain(error, -EINVAL,
					"expected values: `off` should be a list of checks");
			return -EINVAL;
		}
	return check_section(json_object_get(expect, "values"), "values", error) ||
			       check_section(json_object_get(expect, "waive"), "waive", error) ||
			       check_hosts(json_object_get(expect, "of_hosts"), error)
		       ? -EINVAL
		       : 0;
}
