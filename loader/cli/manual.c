// SPDX-License-Identifier: BSD-2-Clause
/* The list of verbs of escapement(1), in mdoc. */
#include <ctype.h>
#include <string.h>

#include "api/verbs.h"
#include "base/mdoc.h"
#include "reference.h"
#include "render.h"

static void write_sentence(FILE *out, const char *text)
{
	char sentence[1024];

	snprintf(sentence, sizeof(sentence), "%c%s.", toupper((unsigned char)*text), text + 1);
	mdoc_write(out, sentence);
}

static void write_option(FILE *out, const struct verb_arg *arg)
{
	if (arg->letter)
		fprintf(out, "Fl %c | ", arg->letter);
	fprintf(out, "Fl Fl %s", arg->name + 2);
	if (arg->type != VERB_FLAG)
		fprintf(out, " Ar %s", arg->value ? arg->value : "N");
}

static void write_synopsis_arg(FILE *out, const struct verb_arg *arg)
{
	fputs(arg->required ? "." : ".Op ", out);
	if (verb_arg_is_option(arg)) {
		write_option(out, arg);
	} else if (arg->choices) {
		fputs("Cm ", out);
		for (const char *at = arg->choices; *at; at++)
			fprintf(out, *at == '|' ? " | " : "%c", *at);
	} else {
		fprintf(out, "Ar %s", arg->name);
	}
	fputs(arg->repeated ? " ...\n" : "\n", out);
}

static void write_args(FILE *out, const struct verb *verb)
{
	if (!verb->args)
		return;
	fputs(".Bl -tag -width Ds\n", out);
	verb_for_each_arg (arg, verb) {
		fputs(".It ", out);
		if (verb_arg_is_option(arg))
			write_option(out, arg);
		else
			fprintf(out, "Ar %s", arg->name);
		fputc('\n', out);
		write_sentence(out, arg->help);
	}
	fputs(".El\n", out);
}

/* The columns of a verb; those of another verb are explained there. */
static void write_columns(FILE *out, const struct verb *verb, const struct verb_section *sections)
{
	const struct verb *other = reference_owner(sections);

	if (other && other != verb) {
		fprintf(out, "The output is that of\n.Cm %s .\n", other->name);
		return;
	}
	for (; sections && (sections->rows || sections->text || sections->sections); sections++) {
		const struct column *column = sections->columns;

		if (column)
			fprintf(out,
				".Pp\nColumns, and the keys in\n.Va %s :\n.Bl -tag -width "
				"PROBE_EVERY -compact\n",
				sections->rows);
		for (; column && column->header; column++) {
			if (!table_has(column, sections->live))
				continue;
			fprintf(out, ".It %s", column->header);
			if (!strpbrk(column->key, "{|+/["))
				fprintf(out, " Pq Va %s", column->key);
			fputc('\n', out);
			write_sentence(out, column->help);
		}
		if (sections->columns)
			fputs(".El\n", out);
		write_columns(out, verb, sections->sections);
	}
}

void reference_man(FILE *out)
{
	const struct verb *verb = NULL;

	fputs(".Bl -tag -width Ds\n", out);
	while ((verb = verbs_next(verb))) {
		fprintf(out, ".It Xo\n.Cm %s\n", verb->name);
		verb_for_each_arg (arg, verb)
			write_synopsis_arg(out, arg);
		fputs(".Xc\n", out);
		write_sentence(out, verb->summary);
		if (verb->help)
			mdoc_write(out, verb->help);
		write_args(out, verb);
		write_columns(out, verb, verb->output);
	}
	fputs(".El\n", out);
}
