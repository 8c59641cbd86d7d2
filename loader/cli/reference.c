// SPDX-License-Identifier: BSD-2-Clause
/* The tables of the verbs as `help`, as a part of escapement(1), and as completion of shells. */
#include <ctype.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mdoc.h"
#include "base/units.h"
#include "cli.h"

#define LINE_COLUMNS 80
#define NAME_COLUMNS 24

/* The verb at which the columns of this output are explained; NULL: at this one. */
static const struct verb *explained_at(const struct verb *verb, const struct verb_section *output)
{
	const struct verb *other = NULL;

	while (output && (other = verbs_next(other)))
		if (other->output == output)
			return other == verb ? NULL : other;
	return NULL;
}

/* A verb that changes something, in the daemon or here. */
#define ROOT_ALONE "Needs root."

static bool needs_root(const struct verb *verb)
{
	return !verb->reads && strcmp(verb->name, "help") && strcmp(verb->name, "completion");
}

/* --- help --- */

/* From column @at on, further lines at @indent. A tab is a space where no line ends. */
static void write_wrapped(const char *text, size_t at, size_t indent)
{
	for (bool first = true; *text; first = false) {
		size_t bytes = strcspn(text, " ");
		bool wrap = !first && at + 1 + bytes > LINE_COLUMNS;

		if (wrap)
			printf("\n%*s", (int)indent, "");
		else if (!first)
			putchar(' ');
		for (size_t i = 0; i < bytes; i++)
			putchar(text[i] == '\t' ? ' ' : text[i]);
		at = (wrap ? indent : at + !first) + bytes;
		text += bytes + (text[bytes] == ' ');
	}
	putchar('\n');
}

/* "  NAME    text". */
static void write_entry(const char *name, const char *text)
{
	int used = printf("  %-*s ", NAME_COLUMNS - 3, name);

	if (used > NAME_COLUMNS)
		printf("\n%*s", NAME_COLUMNS, "");
	write_wrapped(text, NAME_COLUMNS, NAME_COLUMNS);
}

/* What follows an option's name: "", or its value behind @space. */
static const char *value_of(const struct verb_arg *arg, const char **space)
{
	bool valued = verb_arg_is_option(arg) && arg->type != VERB_FLAG;

	*space = valued ? *space : "";
	return !valued ? "" : arg->value ? arg->value : "N";
}

static void write_args(const struct verb *verb)
{
	char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES], range[VERBS_SHOULD_BYTES];
	char name[64], text[512];

	if (verb->args)
		putchar('\n');
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
		write_entry(name, text);
	}
}

static void write_columns(const struct verb *verb, const struct verb_section *sections)
{
	const struct verb *other = explained_at(verb, sections);

	if (other) {
		printf("\nThe output is that of `%s`.\n", other->name);
		return;
	}
	for (; sections && (sections->rows || sections->text || sections->sections); sections++) {
		if (sections->columns)
			printf("\nColumns:\n");
		for (const struct column *column = sections->columns; column && column->header;
		     column++)
			if (table_has(column, sections->live) && *column->help)
				write_entry(column->header, column->help);
		write_columns(verb, sections->sections);
	}
}

/* @name and the verbs that begin with it and a space: how many there are. */
static size_t write_verbs(const char *name)
{
	size_t bytes = strlen(name), count = 0, used;
	const struct verb *verb = NULL;
	char text[1024];

	while ((verb = verbs_next(verb))) {
		if (strncmp(verb->name, name, bytes) ||
		    (verb->name[bytes] && verb->name[bytes] != ' '))
			continue;
		if (count++)
			putchar('\n');
		/* The synopsis: each argument stays on one line. */
		used = snprintf(text, sizeof(text), "escapement %s", verb->name);
		for (char *at = strchr(text, ' ') + 1; (at = strchr(at, ' '));)
			*at = '\t';
		verb_for_each_arg (arg, verb) {
			const char *space = "\t", *value = value_of(arg, &space);
			bool choice = arg->choices && !verb_arg_is_option(arg);

			if (used < sizeof(text))
				used += snprintf(text + used, sizeof(text) - used, " %s%s%s%s%s%s",
						 arg->required ? "" : "[",
						 choice ? arg->choices : arg->name, space, value,
						 arg->repeated ? "..." : "",
						 arg->required ? "" : "]");
		}
		write_wrapped(text, 0, 4);
		printf("\n%c%s.\n", toupper((unsigned char)verb->summary[0]), verb->summary + 1);
		if (verb->help)
			write_wrapped(verb->help, 0, 0);
		if (needs_root(verb))
			write_wrapped(ROOT_ALONE, 0, 0);
		write_args(verb);
		write_columns(verb, verb->output);
	}
	return count;
}

int cli_help(struct cli *cli)
{
	const json_t *list = json_object_get(cli->args, "verb");
	size_t count = 0, i, used;
	char joined[256] = "", *words[8], *save = NULL, *error = NULL;
	const struct verb *verb = NULL;
	json_t *word;

	json_array_foreach (list, i, word)
		text_append(joined, sizeof(joined), " ", json_string_value(word));
	if (!*joined) {
		puts("escapement [-j|-p] [--socket PATH] VERB ...\n");
		while ((verb = verbs_next(verb)))
			write_entry(verb->name, verb->summary);
		puts("\nVerbs and options may be shortened to what no other begins with.\n"
		     "  -j, --json           print JSON on one line\n"
		     "  -p, --pretty         print JSON, indented\n"
		     "      --socket PATH    the daemon's socket; $ESCAPEMENT_SOCKET\n"
		     "\nExit status: 0 success, 1 a check failed or nothing was found, 2 usage "
		     "error,\n"
		     "3 no daemon, 4 permission denied. `escapement help VERB` and escapement(1) "
		     "explain\nmore.");
	}
	if (!*joined || write_verbs(joined))
		return CLI_GOOD;
	for (char *part = strtok_r(joined, " ", &save); part && count < 8;
	     part = strtok_r(NULL, " ", &save))
		words[count++] = part;
	verb = verbs_find(words, count, &used, &error);
	if (verb && used == count && write_verbs(verb->name))
		return CLI_GOOD;
	cli_fail(CLI_USAGE, "%s",
		 error ? error : "there is no such verb; `escapement help` lists them");
	free(error);
	return CLI_USAGE;
}

/* --- escapement(1) --- */

static void write_sentence(const char *text)
{
	char sentence[1024];

	snprintf(sentence, sizeof(sentence), "%c%s.", toupper((unsigned char)*text), text + 1);
	mdoc_write(stdout, sentence);
}

static void write_man_arg(const struct verb_arg *arg)
{
	if (arg->letter)
		printf("Fl %c | ", arg->letter);
	if (verb_arg_is_option(arg))
		printf("Fl Fl %s", arg->name + 2);
	else
		printf("Ar %s", arg->name);
	if (verb_arg_is_option(arg) && arg->type != VERB_FLAG)
		printf(" Ar %s", arg->value ? arg->value : "N");
}

static void write_man_columns(const struct verb *verb, const struct verb_section *sections)
{
	const struct verb *other = explained_at(verb, sections);

	if (other) {
		printf("The output is that of\n.Cm %s .\n", other->name);
		return;
	}
	for (; sections && (sections->rows || sections->text || sections->sections); sections++) {
		const struct column *column = sections->columns;

		if (column)
			printf(".Pp\nColumns, and the keys in\n.Va %s :\n.Bl -tag -width "
			       "PROBE_EVERY -compact\n",
			       sections->rows);
		for (; column && column->header; column++) {
			if (!table_has(column, sections->live))
				continue;
			printf(".It %s", column->header);
			if (!strpbrk(column->key, "{|+/["))
				printf(" Pq Va %s", column->key);
			putchar('\n');
			write_sentence(column->help);
		}
		if (sections->columns)
			fputs(".El\n", stdout);
		write_man_columns(verb, sections->sections);
	}
}

void cli_write_manual(void)
{
	const struct verb *verb = NULL;

	fputs(".Bl -tag -width Ds\n", stdout);
	while ((verb = verbs_next(verb))) {
		printf(".It Xo\n.Cm %s\n", verb->name);
		verb_for_each_arg (arg, verb) {
			bool choice = arg->choices && !verb_arg_is_option(arg);

			fputs(arg->required ? "." : ".Op ", stdout);
			fputs(choice ? "Cm " : "", stdout);
			for (const char *at = arg->choices; choice && *at; at++)
				printf(*at == '|' ? " | " : "%c", *at);
			if (!choice)
				write_man_arg(arg);
			fputs(arg->repeated ? " ...\n" : "\n", stdout);
		}
		fputs(".Xc\n", stdout);
		write_sentence(verb->summary);
		if (verb->help)
			mdoc_write(stdout, verb->help);
		if (needs_root(verb))
			mdoc_write(stdout, ROOT_ALONE);
		fputs(verb->args ? ".Bl -tag -width Ds\n" : "", stdout);
		verb_for_each_arg (arg, verb) {
			fputs(".It ", stdout);
			write_man_arg(arg);
			putchar('\n');
			write_sentence(arg->help);
		}
		fputs(verb->args ? ".El\n" : "", stdout);
		write_man_columns(verb, verb->output);
	}
	fputs(".El\n", stdout);
}

/* --- completion --- */

/*
 * `completion SHELL` prints a script that runs `completion words WORD...` at each completion: what
 * may stand in place of the last word, one a line, by the tables of the verbs.
 */
static const char bash_script[] =
	"# bash completion for escapement: `escapement completion bash`\n"
	"_escapement()\n"
	"{\n"
	"\tlocal words\n"
	"\twords=$(escapement completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
	"}\n"
	"complete -o bashdefault -o default -F _escapement escapement\n";

static const char zsh_script[] =
	"#compdef escapement\n"
	"# zsh completion for escapement: `escapement completion zsh`\n"
	"local -a candidates\n"
	"candidates=(${(f)\"$(escapement completion words -- \"${(@)words[2,CURRENT]}\" "
	"2>/dev/null)\"})\n"
	"if (( $#candidates )); then\n"
	"\tcompadd -- $candidates\n"
	"else\n"
	"\t_files\n"
	"fi\n";

void cli_write_script(const char *shell)
{
	fputs(strcmp(shell, "zsh") ? bash_script : zsh_script, stdout);
}

static void write_values(const struct verb_arg *arg)
{
	struct if_nameindex *list = NULL;

	for (const char *at = arg->choices; at && *at; at++)
		putchar(*at == '|' ? '\n' : *at);
	if (arg->choices)
		putchar('\n');
	else if (arg->type == VERB_INTERFACE)
		list = if_nameindex();
	for (const struct if_nameindex *one = list; one && one->if_index; one++)
		puts(one->if_name);
	if (list)
		if_freenameindex(list);
}

/* The option of @verb, or --socket, that @word is and that has a value. */
static const struct verb_arg *option_of(const struct verb *verb, const char *word)
{
	static const struct verb_arg socket = {.name = "--socket"};

	verb_for_each_arg (arg, verb)
		if (verb_arg_is_option(arg) && arg->type != VERB_FLAG &&
		    (!strcmp(arg->name, word) ||
		     (arg->letter && word[0] == '-' && word[1] == arg->letter && !word[2])))
			return arg;
	return strcmp(word, socket.name) ? NULL : &socket;
}

/* What the words before the last are. */
struct before {
	char name[VERBS_NAME_BYTES]; /* of the verb, as far as it goes */
	const struct verb *verb;
	const struct verb_arg *option; /* the last word is its value */
	size_t positionals;
};

static void take_word(struct before *before, const char *word)
{
	struct verbs_words next;
	bool known = false;

	if (before->option || word[0] == '-') {
		before->option = before->option ? NULL : option_of(before->verb, word);
		return;
	}
	verbs_following(before->name, &next);
	for (size_t i = 0; !before->positionals && i < next.count; i++)
		known = known || !strcmp(next.list[i], word);
	if (!known) {
		before->positionals++;
		return;
	}
	text_append(before->name, sizeof(before->name), " ", word);
	before->verb = verbs_named(before->name);
}

int cli_completion(struct cli *cli)
{
	const json_t *words = json_object_get(cli->args, "words");
	const char *shell = json_text(cli->args, "shell"), *last;
	size_t i, count = json_array_size(words), skip;
	struct before before = {};
	struct verbs_words next;
	json_t *word;
	bool help;

	if (strcmp(shell, "words")) {
		cli_write_script(shell);
		return CLI_GOOD;
	}
	last = json_string_value(json_array_get(words, count - 1));
	json_array_foreach (words, i, word)
		if (i + 1 < count)
			take_word(&before, json_string_value(word));
	if (before.option) {
		write_values(before.option);
		return CLI_GOOD;
	}
	if (last && *last == '-') {
		verb_for_each_arg (arg, before.verb)
			if (verb_arg_is_option(arg))
				puts(arg->name);
		puts("--json\n--pretty\n--socket\n--help");
		return CLI_GOOD;
	}
	/* A further word of the name, and the next argument by its position. */
	help = before.verb && !strcmp(before.verb->name, "help");
	verbs_following(help ? "" : before.name, &next);
	for (i = 0; (help || !before.positionals) && i < next.count; i++)
		puts(next.list[i]);
	skip = before.positionals;
	verb_for_each_arg (arg, before.verb) {
		if (verb_arg_is_option(arg))
			continue;
		if (!skip || arg->repeated) {
			write_values(arg);
			return CLI_GOOD;
		}
		skip--;
	}
	return CLI_GOOD;
}
