// SPDX-License-Identifier: BSD-2-Clause
/* The list of paths, for people and for programs, and the text of an error. */
#include "serve.h"

#include <stdlib.h>
#include <string.h>

#include "api/verbs.h"

char *page_error(const char *sentence, size_t *bytes)
{
	/* A quoted word of a request may be no UTF-8. */
	json_t *object = json_pack("{s:s}", "error", sentence);
	char *text, *body = NULL;
	int length;

	if (!object)
		object = json_pack("{s:s}", "error", "the request cannot be shown as text");
	text = json_dumps(object, JSON_COMPACT);
	length = text ? asprintf(&body, "%s\n", text) : -1;
	json_decref(object);
	free(text);
	*bytes = length < 0 ? 0 : (size_t)length;
	return length < 0 ? NULL : body;
}

/* --- / --- */

/* Texts of our own tables: they have neither quotes nor ampersands, but "<" may be. */
static void write_text(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text == '<' || *text == '>' || *text == '&')
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text, out);
}

static void write_row(FILE *out, const char *path, const char *args, const char *summary)
{
	fprintf(out, "<tr><td><a href=\"%s\">%s</a>", path, path);
	write_text(out, args);
	fputs("</td><td>", out);
	write_text(out, summary);
	fputs("</td></tr>\n", out);
}

static void write_verb(FILE *out, const struct verb *verb)
{
	const struct route route = {ROUTE_VERB, verb, NULL};
	char path[ROUTE_PATH_BYTES], name[64], args[512] = "";
	size_t used = 0;

	route_path(verb, path);
	verb_for_each_arg (arg, verb) {
		if (!route_takes(&route, arg) || used >= sizeof(args))
			continue;
		route_arg_name(arg, name);
		used += (size_t)snprintf(args + used, sizeof(args) - used, "%c%s%s",
					 used ? '&' : '?', name, arg->type == VERB_FLAG ? "" : "=");
	}
	write_row(out, path, args, verb->summary);
}

char *page_index(size_t *bytes)
{
	const struct verb *verb = NULL;
	char *body = NULL;
	FILE *out = open_memstream(&body, bytes);

	if (!out)
		return NULL;
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Escapement"
	      "</title>\n<style>body{font-family:sans-serif;margin:2em}td{padding:.2em 1em .2em 0;"
	      "vertical-align:top}</style></head>\n<body><h1>Escapement " ESC_VERSION "</h1>\n"
	      "<p>What escapementd of this host knows, read-only. <code>escapement help</code> "
	      "explains each verb.</p>\n<table>\n",
	      out);
	write_row(out, "/metrics", "", "metrics for Prometheus");
	write_row(out, "/health", "", "200 when this host is healthy, 503 with the reasons");
	write_row(out, "/report", "", "delays, paths and queue pairs of this host as pictures");
	write_row(out, SERVE_API "/", "", "the list below as JSON");
	while ((verb = verbs_next(verb)))
		if (verbs_reads_alone(verb))
			write_verb(out, verb);
	fputs("</table></body></html>\n", out);
	return fclose(out) ? NULL : body;
}

/* --- /api/v1/ --- */

static json_t *describe(const struct verb *verb)
{
	const struct route route = {ROUTE_VERB, verb, NULL};
	char path[ROUTE_PATH_BYTES], name[64];
	json_t *args = json_array();

	route_path(verb, path);
	verb_for_each_arg (arg, verb) {
		char should[VERBS_SHOULD_BYTES];

		if (!route_takes(&route, arg))
			continue;
		route_arg_name(arg, name);
		json_array_append_new(args, json_pack("{s:s, s:s, s:s, s:b}", "name", name, "value",
						      verbs_should(arg, should), "help", arg->help,
						      "repeated", arg->repeated));
	}
	return json_pack("{s:s, s:s, s:s, s:o}", "path", path, "verb", verb->name, "summary",
			 verb->summary, "args", args);
}

char *page_list(size_t *bytes)
{
	json_t *list = json_array(), *object;
	const struct verb *verb = NULL;
	char *text, *body = NULL;
	int length;

	while ((verb = verbs_next(verb)))
		if (verbs_reads_alone(verb))
			json_array_append_new(list, describe(verb));
	object = json_pack("{s:i, s:s, s:o}", "api", 1, "version", ESC_VERSION, "verbs", list);
	text = json_dumps(object, JSON_COMPACT);
	length = text ? asprintf(&body, "%s\n", text) : -1;
	json_decref(object);
	free(text);
	*bytes = length < 0 ? 0 : (size_t)length;
	return length < 0 ? NULL : body;
}
