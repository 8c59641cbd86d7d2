// SPDX-License-Identifier: BSD-2-Clause
/*
 * From a path and its query to requests of the socket. The paths are those of verbs that change
 * nothing, by the attribute `reads` of their table: there is none for another verb.
 */
#include "serve.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/verbs.h"
#include "base/explain.h"
#include "base/units.h"
#include "cli/cli.h"
#include "report/report.h"

#define PATHS_MOST 64

static const struct {
	const char *path, *verb;
	enum route_kind kind;
} fixed[] = {
	{"/", NULL, ROUTE_INDEX},
	{SERVE_API, NULL, ROUTE_LIST},
	{SERVE_API "/", NULL, ROUTE_LIST},
	{"/metrics", NULL, ROUTE_METRICS},
	{"/health", "health", ROUTE_HEALTH},
	{SERVE_API "/health", "health", ROUTE_HEALTH},
	{"/report", NULL, ROUTE_REPORT},
};
#define FIXED (sizeof(fixed) / sizeof(fixed[0]))

void route_path(const struct verb *verb, char out[ROUTE_PATH_BYTES])
{
	snprintf(out, ROUTE_PATH_BYTES, SERVE_API "/%s", verb->name);
	for (char *at = out; *at; at++)
		if (*at == ' ')
			*at = '/';
}

static const struct verb *verb_at(const char *path)
{
	char own[ROUTE_PATH_BYTES];
	const struct verb *verb = NULL;

	while ((verb = verbs_next(verb))) {
		route_path(verb, own);
		if (!strcmp(own, path))
			return verb;
	}
	return NULL;
}

static void explain_unknown(const char *path, const struct verb *verb, char **error)
{
	char room[PATHS_MOST][ROUTE_PATH_BYTES];
	const char *names[PATHS_MOST], *near;
	/* What all of them begin with says nothing. */
	size_t bytes = strlen(SERVE_API "/"), count = 0;
	size_t prefix = strncmp(path, SERVE_API "/", bytes) ? 0 : bytes;

	if (verb) {
		explain(error, 0, "`%s` is not served over HTTP: %s", verb->name,
			verb->reads ? "the command line makes it" : "it may change something");
		return;
	}
	while ((verb = verbs_next(verb)) && count < PATHS_MOST) {
		if (!verbs_reads_alone(verb))
			continue;
		route_path(verb, room[count]);
		names[count] = room[count] + prefix;
		count++;
	}
	for (size_t i = 0; !prefix && i < FIXED && count < PATHS_MOST; i++)
		names[count++] = fixed[i].path;
	near = nearest_name(path + prefix, names, count);
	if (near)
		explain(error, 0, "there is no %.64s; did you mean %s%s?", path,
			prefix ? SERVE_API "/" : "", near);
	else
		explain(error, 0, "there is no %.64s; / lists what there is", path);
}

bool route_find(struct route *out, const char *path, char **error)
{
	const struct verb *verb;

	*error = NULL;
	*out = (struct route){};
	for (size_t i = 0; i < FIXED; i++)
		if (!strcmp(fixed[i].path, path)) {
			out->kind = fixed[i].kind;
			out->verb = fixed[i].verb ? verbs_named(fixed[i].verb) : NULL;
			out->args = json_object();
			return true;
		}
	verb = verb_at(path);
	if (!verb || !verbs_reads_alone(verb)) {
		explain_unknown(path, verb, error);
		return false;
	}
	*out = (struct route){ROUTE_VERB, verb, json_object()};
	return true;
}

void route_clear(struct route *route)
{
	json_decref(route->args);
	*route = (struct route){};
}

/* --- arguments --- */

void route_arg_name(const struct verb_arg *arg, char out[64])
{
	snprintf(out, 64, "%s", arg->name + (verb_arg_is_option(arg) ? 2 : 0));
	for (char *at = out; *at; at++)
		*at = (char)tolower((unsigned char)*at);
}

bool route_takes(const struct route *route, const struct verb_arg *arg)
{
	if (route->kind == ROUTE_HEALTH)
		return strcmp(arg->name, "--format") != 0;
	return !arg->local && !arg->streams;
}

static void explain_argument(const struct route *route, const char *name, char **error)
{
	char room[PATHS_MOST][64];
	const char *names[PATHS_MOST], *near;
	size_t count = 0;

	verb_for_each_arg (arg, route->verb) {
		if (!route_takes(route, arg) || count == PATHS_MOST)
			continue;
		route_arg_name(arg, room[count]);
		names[count] = room[count];
		count++;
	}
	near = nearest_name(name, names, count);
	explain(error, 0,
		near ? "there is no argument `%.40s` here; did you mean `%s`?"
		     : "there is no argument `%.40s` here%s",
		name, near ? near : "");
}

bool route_take(struct route *route, const char *name, const char *value, char **error)
{
	char own[64], should[VERBS_SHOULD_BYTES];

	*error = NULL;
	verb_for_each_arg (arg, route->verb) {
		bool flag = arg->type == VERB_FLAG;

		route_arg_name(arg, own);
		if (strcmp(own, name) || !route_takes(route, arg))
			continue;
		if (!arg->repeated && arg->key && json_object_get(route->args, arg->key))
			explain(error, 0, "`%s` is given twice", own);
		else if (flag ? value && *value && strcmp(value, "true") && strcmp(value, "1")
			      : !value || !cli_put_value(route->args, arg, value))
			explain(error, 0, "`%s` should be %s", own,
				flag ? "true, or be left out" : verbs_should(arg, should));
		else if (flag)
			cli_put_value(route->args, arg, "");
		return !*error;
	}
	explain_argument(route, name, error);
	return false;
}

char *route_key(const struct route *route)
{
	char *args = json_dumps(route->args, JSON_COMPACT | JSON_SORT_KEYS), *key = NULL;

	if (!args ||
	    asprintf(&key, "%d %s %s", route->kind, route->verb ? route->verb->name : "", args) < 0)
		key = NULL;
	free(args);
	return key;
}

/* --- requests to the daemon --- */

static bool report_request(size_t i, const char **verb, json_t **args)
{
	for (const struct report_verb *one = report_verbs; one->verb; one++) {
		if (!verbs_named(one->verb) || i--)
			continue;
		*verb = one->verb;
		*args = one->flag ? json_pack("{s:b}", one->flag, 1) : json_object();
		return true;
	}
	return false;
}

bool route_request(const struct route *route, size_t i, const char **verb, char room[64],
		   json_t **args)
{
	static const char *const health[] = {"status", "findings"};
	struct cli cli = {.verb = route->verb, .args = route->args};

	if (route->kind == ROUTE_REPORT)
		return report_request(i, verb, args);
	if (route->kind == ROUTE_HEALTH && i < 2 && verbs_named(health[i])) {
		*verb = health[i];
		*args = json_object();
		return true;
	}
	if (route->kind == ROUTE_METRICS && !i) {
		*verb = "metrics";
		*args = json_object();
		return true;
	}
	if (route->kind != ROUTE_VERB || i)
		return false;
	*verb = cli_request_verb(route->verb, room);
	*args = cli_request_args(&cli);
	return true;
}
