// SPDX-License-Identifier: BSD-2-Clause
/* `help`: the verbs, or one of them with its arguments and columns, from the tables. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli.h"
#include "reference.h"
#include "render.h"

#define LINE_COLUMNS 80
#define NAME_COLUMNS 24

/* From column @at on, further lines at @indent. A tab is a space where no line ends. */
static void write_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
	for (bool first = true; *text; first = false) {
		size_t bytes = strcspn(text, " ");
		bool wrap = !first && at + 1 + bytes > LINE_COLUMNS;

		if (wrap)
			fprintf(out, "\n%*s", (int)indent, "");
		else if (!first)
			fputc(' ', out);
		for (size_t i = 0; i < bytes; i++)
			fputc(text[i] == '\t' ? ' ' : text[i], out);
		at = (wrap ? indent : at + !first) + bytes;
		text += bytes + (text[bytes] == ' ');
	}
	fputc('\n', out);
}

/* "  NAME    text". */
static void write_entry(FILE *out, const char *name, const char *text)
{
	int used = fprintf(out, "  %-*s ", NAME_COLUMNS - 3, name);

	if (used > NAME_COLUMNS)
		fprintf(out, "\n%*s", NAME_COLUMNS, "");
	write_wrapped(out, text, NAME_COLUMNS, NAME_COLUMNS);
}

/* What follows an option's name: "", or its value behind @space. */
static const char *value_of(const struct verb_arg *arg, const char **space)
{
	bool valued = verb_arg_is_option(arg) && arg->type != VERB_FLAG;

	*space = valued ? *space : "";
	return !valued ? "" : arg->value ? arg->value : "N";
}

/* Each argument stays on one line. */
static void write_synopsis(FILE *out, const struct verb *verb)
{
	char text[1024];
	size_t used = snprintf(text, sizeof(text), "escapement %s", verb->name);

	for (char *at = strchr(text, ' ') + 1; (at = strchr(at, ' '));)
		*at = '\t';
	verb_for_each_arg (arg, verb) {
		const char *space = "\t", *value = value_of(arg, &space);

		if (used < sizeof(text))
			used += snprintf(
				text + used, sizeof(text) - used, " %s%s%s%s%s%s",
				arg->required ? "" : "[",
				!verb_arg_is_option(arg) && arg->choices ? arg->choices : arg->name,
				space, value, arg->repeated ? "..." : "", arg->required ? "" : "]");
	}
	write_wrapped(out, text, 0, 4);
}

static void write_list(FILE *out)
{
	const struct verb *verb = NULL;

	fprintf(out, "escapement [-j|-p] [--socket PATH] VERB ...\n\n");
	while ((verb = verbs_next(verb)))
		write_entry(out, verb->name, verb->summary);
	fprintf(out,
		"\nVerbs and options may be shortened to what no other begins with.\n"
		"  -j, --json           print JSON on one line\n"
		"  -p, --pretty         print JSON, indented\n"
		"      --socket PATH    the daemon's socket; $ESCAPEMENT_SOCKET\n"
		"\nExit status: 0 success, 1 a check failed or nothing was found, 2 usage error,\n"
		"3 no daemon, 4 permission denied. `escapement help VERB` and escapement(1) "
		"explain\n"
		"more.\n");
}

/* --- one verb --- */

const struct verb *reference_owner(const struct verb_section *output)
{
	const struct verb *verb = NULL;

	while (output && (verb = verbs_next(verb)))
		if (verb->output == output)
			return verb;
	return NULL;
}

static void write_args(FILE *out, const struct verb *verb)
{
	char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES], range[VERBS_SHOULD_BYTES];
	char name[64], text[512];

	if (verb->args)
		fputc('\n', out);
	verb_for_each_arg (arg, verb) {
		const char *space = " ", *value = value_of(arg, &space), *more = range;
		char letter[8] = "";

		if (arg->letter)
			snprintf(letter, sizeof(letter), "-%c, ", arg->letter);
		snprintf(name, sizeof(name), "%s%s%s%s", letter, arg->name, space, value);
		/* "1 to 65535", "1us to 1s", "one of a, b"; "" where the help says it all. */
		range[0] = '\0';
		if (arg->type == VERB_CHOICE && verb_arg_is_option(arg))
			more = verbs_should(arg, range);
		else if (arg->type == VERB_COUNT && arg->most)
			snprintf(range, sizeof(range), "%llu to %llu",
				 (unsigned long long)arg->least, (unsigned long long)arg->most);
		else if (arg->most)
			snprintf(range, sizeof(range), "%s to %s",
				 units_duration(least, arg->least),
				 units_duration(most, arg->most));
		snprintf(text, sizeof(text), "%s%s%s", arg->help, *more ? "; " : "", more);
		write_entry(out, name, text);
	}
}

static void write_columns(FILE *out, const struct verb *verb, const struct verb_section *sections)
{
	const struct verb *other = reference_owner(sections);

	if (other && other != verb) {
		fprintf(out, "\nThe output is that of `%s`.\n", other->name);
		return;
	}
	for (; sections && (sections->rows || sections->text || sections->sections); sections++) {
		if (sections->columns)
			fprintf(out, "\nColumns:\n");
		for (const struct column *column = sections->columns; column && column->header;
		     column++)
			if (table_has(column, sections->live) && *column->help)
				write_entry(out, column->header, column->help);
		write_columns(out, verb, sections->sections);
	}
}

static bool write_below(FILE *out, const char *prefix, bool blank);

static void write_verb(FILE *out, const struct verb *verb)
{
	write_synopsis(out, verb);
	fprintf(out, "\n%c%s.\n", toupper((unsigned char)verb->summary[0]), verb->summary + 1);
	if (verb->help)
		write_wrapped(out, verb->help, 0, 0);
	write_args(out, verb);
	write_columns(out, verb, verb->output);
	write_below(out, verb->name, true);
}

/*
 * The verbs whose names begin with the words @prefix, "config", with a blank line before each, of
 * the first one if @blank. False: there is none.
 */
static bool write_below(FILE *out, const char *prefix, bool blank)
{
	size_t bytes = strlen(prefix);
	const struct verb *verb = NULL;
	bool found = false;

	while (bytes && (verb = verbs_next(verb)))
		if (!strncmp(verb->name, prefix, bytes) && verb->name[bytes] == ' ') {
			if (blank || found)
				fputc('\n', out);
			write_verb(out, verb);
			found = true;
		}
	return found;
}

int cli_help(const struct cli *cli)
{
	const json_t *list = json_object_get(cli->args, "verb");
	size_t count = 0, i, used = 0;
	char joined[256] = "", *words[8], *save = NULL, *error = NULL;
	const struct verb *verb;
	json_t *word;

	json_array_foreach (list, i, word)
		if (used < sizeof(joined))
			used += snprintf(joined + used, sizeof(joined) - used, "%s%s", i ? " " : "",
					 json_string_value(word));
	if (!used) {
		write_list(stdout);
		return CLI_GOOD;
	}
	if (!verbs_named(joined) && write_below(stdout, joined, false))
		return CLI_GOOD;
	for (char *part = strtok_r(joined, " ", &save); part && count < 8;
	     part = strtok_r(NULL, " ", &save))
		words[count++] = part;
	verb = verbs_find(words, count, &used, &error);
	if (verb && used == count) {
		write_verb(stdout, verb);
		return CLI_GOOD;
	}
	cli_fail(CLI_USAGE, "%s",
		 error ? error : "there is no such verb; `escapement help` lists them");
	free(error);
	return CLI_USAGE;
}
