// SPDX-License-Identifier: BSD-2-Clause
/*
 * The JSON of the socket, and of HTTP, as a JSON schema: requests by the tables of arguments, and
 * of replies the members that the tables of the command line show, with what is known of them
 * there.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define DIALECT "https://json-schema.org/draft/2020-12/schema"
#define ABOUT                                                                                      \
	"A request is a line, {\"verb\": VERB, \"args\": {...}}, and so is its reply: {\"ok\": "   \
	"true, "                                                                                   \
	"\"result\": ...} or {\"ok\": false, \"error\": SENTENCE, \"exit\": STATUS}. "             \
	"request.VERB "                                                                            \
	"describes the first, reply.VERB the result, which escapement-serve(8) has alone. "        \
	"Members "                                                                                 \
	"are added; none is renamed or removed within a version. One that is not known is "        \
	"absent. "                                                                                 \
	"Units are the end of the name."

/* --- replies --- */

/* The schema of a member of @schema, which becomes that of an object. */
static json_t *member(json_t *schema, const char *name, size_t bytes)
{
	json_t *members, *found;
	char key[128];

	snprintf(key, sizeof(key), "%.*s", (int)bytes, name);
	json_object_set_new(schema, "type", json_string("object"));
	members = json_object_get(schema, "properties");
	if (!members) {
		members = json_object();
		json_object_set_new(schema, "properties", members);
	}
	found = json_object_get(members, key);
	if (!found) {
		found = json_object();
		json_object_set_new(members, key, found);
	}
	return found;
}

static json_t *entries(json_t *schema)
{
	json_t *found = json_object_get(schema, "items");

	json_object_set_new(schema, "type", json_string("array"));
	if (!found) {
		found = json_object();
		json_object_set_new(schema, "items", found);
	}
	return found;
}

/* "owd_ns.p50", "ways[usable].way": the schema of what it ends at. */
static json_t *at_path(json_t *schema, const char *path, size_t bytes)
{
	const char *end = path + bytes;

	while (path < end) {
		size_t part = strcspn(path, ".[");

		part = path + part > end ? (size_t)(end - path) : part;
		schema = member(schema, path, part);
		path += part;
		if (path < end && *path == '[') {
			schema = entries(schema);
			path += strcspn(path, "]") + 1;
		}
		path += path < end;
	}
	return schema;
}

/* A key of base/verb.h: paths with |, + and / between them. */
static void add_key(json_t *schema, const char *key, size_t bytes, enum column_format format,
		    const char *help)
{
	const char *end = key + bytes;

	while (key < end && *key != '@') {
		size_t part = strcspn(key, "|+/");
		json_t *found;

		part = key + part > end ? (size_t)(end - key) : part;
		found = at_path(schema, key, part);
		if (format != FORMAT_TEXT && !json_object_get(found, "type"))
			json_object_set_new(found, "type", json_string("number"));
		if (help && *help && !json_object_get(found, "description"))
			json_object_set_new(found, "description", json_string(help));
		key += part + 1;
	}
}

static enum column_format format_named(const char *name, size_t bytes)
{
	static const char *const names[] = {
#define X(id, text) text,
		COLUMN_FORMATS(X)
#undef X
	};

	for (int i = 0; i < FORMATS; i++)
		if (strlen(names[i]) == bytes && !strncmp(names[i], name, bytes))
			return (enum column_format)i;
	return FORMAT_TEXT;
}

/* Each {key:format} of a template. */
static void add_template(json_t *schema, const char *template, const char *help)
{
	for (const char *at = strchr(template, '{'); at; at = strchr(at, '{')) {
		size_t bytes = strcspn(++at, "}"), key = strcspn(at, ":}");
		enum column_format format = FORMAT_TEXT;

		if (key < bytes)
			format = format_named(at + key + 1, bytes - key - 1);
		add_key(schema, at, key, format, help);
	}
}

static void add_sections(json_t *schema, const struct verb_section *sections)
{
	for (const struct verb_section *one = sections;
	     one && (one->when || one->rows || one->text || one->columns || one->sections); one++) {
		json_t *row = schema;

		if (one->rows)
			row = entries(at_path(schema, one->rows, strlen(one->rows)));
		if (one->text)
			add_template(row, one->text, NULL);
		for (const struct column *column = one->columns; column && column->header; column++)
			if (strchr(column->key, '{'))
				add_template(row, column->key, column->help);
			else
				add_key(row, column->key, strlen(column->key), column->format,
					column->help);
		add_sections(row, one->sections);
	}
}

static json_t *reply_schema(const struct verb *verb)
{
	json_t *schema = json_pack("{s:s, s:s}", "description", verb->summary, "type", "object");

	add_sections(schema, verb->output);
	for (size_t i = 0; !strcmp(verb->name, "status") && verbs_sets[i]; i++) {
		add_sections(schema, verbs_sets[i]->status);
		add_sections(schema, verbs_sets[i]->health);
	}
	return schema;
}

/* --- requests --- */

static json_t *value_schema(const struct verb_arg *arg)
{
	json_t *schema = json_object(), *choices;
	const char *type = arg->type == VERB_FLAG ? "boolean" : "string";

	if (arg->type == VERB_COUNT || arg->type == VERB_DURATION || arg->type == VERB_SINCE) {
		type = "integer";
		json_object_set_new(schema, "minimum", json_integer((json_int_t)arg->least));
		if (arg->most)
			json_object_set_new(schema, "maximum", json_integer((json_int_t)arg->most));
	}
	json_object_set_new(schema, "type", json_string(type));
	if (arg->type == VERB_CHOICE) {
		char *copy = strdup(arg->choices), *save = NULL, *word;

		choices = json_array();
		for (word = strtok_r(copy, "|", &save); word; word = strtok_r(NULL, "|", &save))
			json_array_append_new(choices, json_string(word));
		json_object_set_new(schema, "enum", choices);
		free(copy);
	}
	return schema;
}

static json_t *request_schema(const struct verb *verb)
{
	const char *name = verb->request ? verb->request : verb->name, *rest = strchr(name, ' ');
	json_t *args = json_object(), *required = json_array();
	char first[64];

	cli_request_verb(verb, first);
	if (rest)
		json_object_set_new(args, "what", json_pack("{s:s}", "const", rest + 1));
	if (rest)
		json_array_append_new(required, json_string("what"));
	verb_for_each_arg (arg, verb) {
		json_t *one;

		if (!arg->key || arg->local)
			continue;
		one = value_schema(arg);
		if (arg->repeated)
			one = json_pack("{s:s, s:o}", "type", "array", "items", one);
		json_object_set_new(one, "description", json_string(arg->help));
		json_object_set_new(args, arg->key, one);
		if (arg->required)
			json_array_append_new(required, json_string(arg->key));
	}
	return json_pack("{s:s, s:s, s:[s], s:{s:{s:s}, s:{s:s, s:o, s:o, s:b}}}", "description",
			 verb->summary, "type", "object", "required", "verb", "properties", "verb",
			 "const", first, "args", "type", "object", "properties", args, "required",
			 required, "additionalProperties", 0);
}

void cli_write_schema(FILE *out)
{
	json_t *parts = json_object(), *schema;
	const struct verb *verb = NULL;
	char name[128];

	while ((verb = verbs_next(verb))) {
		if (!verbs_reads_alone(verb))
			continue;
		snprintf(name, sizeof(name), "request.%s", verb->name);
		json_object_set_new(parts, name, request_schema(verb));
		snprintf(name, sizeof(name), "reply.%s", verb->name);
		json_object_set_new(parts, name, reply_schema(verb));
	}
	schema = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:o}", "$schema", DIALECT, "$id", "urn:escapement:api:1",
		"$comment", "SPDX-License-Identifier: BSD-2-Clause", "title",
		"Verbs of escapementd that change nothing", "description", ABOUT, "$defs", parts);
	json_dumpf(schema, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(schema);
}
