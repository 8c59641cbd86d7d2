// SPDX-License-Identifier: BSD-2-Clause
/*
 * `completion SHELL` prints a script that runs `completion words WORD...` at each completion: what
 * may stand in place of the last word, one a line, by the tables of the verbs.
 */
#include <net/if.h>
#include <string.h>

#include "cli.h"
#include "reference.h"

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

void reference_script(FILE *out, const char *shell)
{
	fputs(strcmp(shell, "zsh") ? bash_script : zsh_script, out);
}

static bool is_option(const struct verb_arg *arg)
{
	return arg->name[0] == '-';
}

static void write_choices(FILE *out, const char *choices)
{
	for (; *choices; choices++)
		fputc(*choices == '|' ? '\n' : *choices, out);
	fputc('\n', out);
}

static void write_interfaces(FILE *out)
{
	struct if_nameindex *list = if_nameindex();

	for (const struct if_nameindex *one = list; one && one->if_index; one++)
		fprintf(out, "%s\n", one->if_name);
	if (list)
		if_freenameindex(list);
}

static void write_values(FILE *out, const struct verb_arg *arg)
{
	if (arg->choices)
		write_choices(out, arg->choices);
	else if (arg->type == VERB_INTERFACE)
		write_interfaces(out);
}

/* The words that follow @prefix in names, each once: verbs that share one are neighbours. */
static void write_names(FILE *out, const char *prefix)
{
	size_t bytes = strlen(prefix), last_bytes = 0;
	const struct verb *verb = NULL;
	const char *last = "";

	while ((verb = verbs_next(verb))) {
		const char *word = verb->name + bytes + (bytes != 0);

		if (strncmp(verb->name, prefix, bytes) || (bytes && verb->name[bytes] != ' '))
			continue;
		if (strcspn(word, " ") != last_bytes || strncmp(word, last, last_bytes))
			fprintf(out, "%.*s\n", (int)strcspn(word, " "), word);
		last = word;
		last_bytes = strcspn(word, " ");
	}
}

static const struct verb_arg *option_of(const struct verb *verb, const char *word)
{
	for (const struct verb_arg *arg = verb ? verb->args : NULL; arg && arg->name; arg++)
		if (is_option(arg) && arg->type != VERB_FLAG &&
		    (!strcmp(arg->name, word) ||
		     (arg->letter && word[0] == '-' && word[1] == arg->letter && !word[2])))
			return arg;
	return NULL;
}

/* What the words before the last say. */
struct before {
	char name[64]; /* of the verb, as far as it goes */
	const struct verb *verb;
	const struct verb_arg *option; /* whose value the last word is */
	size_t positionals;
};

/* True when some name begins with these words. */
static bool is_name(const char *words)
{
	size_t bytes = strlen(words);
	const struct verb *verb = NULL;

	while ((verb = verbs_next(verb)))
		if (!strncmp(verb->name, words, bytes) &&
		    (!verb->name[bytes] || verb->name[bytes] == ' '))
			return true;
	return false;
}

static void take_word(struct before *before, const char *word)
{
	static const struct verb_arg socket = {.name = "--socket"};
	char longer[sizeof(before->name)];

	if (before->option) {
		before->option = NULL;
	} else if (word[0] == '-') {
		before->option =
			strcmp(word, socket.name) ? option_of(before->verb, word) : &socket;
	} else {
		snprintf(longer, sizeof(longer), "%.40s%s%.20s", before->name,
			 *before->name ? " " : "", word);
		if (!before->positionals && is_name(longer)) {
			memcpy(before->name, longer, sizeof(longer));
			before->verb = verbs_named(longer);
		} else {
			before->positionals++;
		}
	}
}

static void write_options(FILE *out, const struct verb *verb)
{
	for (const struct verb_arg *arg = verb ? verb->args : NULL; arg && arg->name; arg++)
		if (is_option(arg))
			fprintf(out, "%s\n", arg->name);
	fputs("--json\n--pretty\n--socket\n--help\n", out);
}

static void write_positional(FILE *out, const struct verb *verb, size_t skip)
{
	for (const struct verb_arg *arg = verb ? verb->args : NULL; arg && arg->name; arg++) {
		if (is_option(arg))
			continue;
		if (!skip || arg->repeated) {
			write_values(out, arg);
			return;
		}
		skip--;
	}
}

void reference_candidates(FILE *out, const json_t *words)
{
	struct before before = {};
	size_t i, count = json_array_size(words);
	const json_t *last = json_array_get(words, count - 1);
	json_t *word;
	bool help;

	json_array_foreach (words, i, word)
		if (i + 1 < count)
			take_word(&before, json_string_value(word));
	help = before.verb && !strcmp(before.verb->name, "help");
	if (before.option) {
		write_values(out, before.option);
	} else if (last && *json_string_value(last) == '-') {
		write_options(out, before.verb);
	} else {
		if (help || !before.positionals)
			write_names(out, help ? "" : before.name);
		write_positional(out, before.verb, before.positionals);
	}
}

int cli_completion(const struct cli *cli)
{
	const char *shell = cli_text(cli->args, "shell");

	if (!strcmp(shell, "words"))
		reference_candidates(stdout, json_object_get(cli->args, "words"));
	else
		reference_script(stdout, shell);
	return CLI_GOOD;
}
