// SPDX-License-Identifier: BSD-2-Clause
/*
 * `completion SHELL` prints a script that runs `completion words WORD...` at each completion: what
 * may stand in place of the last word, one a line, by the tables of the verbs.
 */
#include <net/if.h>
#include <string.h>

#include "base/json.h"
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

static void write_values(FILE *out, const struct verb_arg *arg)
{
	struct if_nameindex *list = NULL;

	for (const char *at = arg->choices; at && *at; at++)
		fputc(*at == '|' ? '\n' : *at, out);
	if (arg->choices)
		fputc('\n', out);
	else if (arg->type == VERB_INTERFACE)
		list = if_nameindex();
	for (const struct if_nameindex *one = list; one && one->if_index; one++)
		fprintf(out, "%s\n", one->if_name);
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
	size_t used = strlen(before->name);
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
	snprintf(before->name + used, sizeof(before->name) - used, "%s%s", used ? " " : "", word);
	before->verb = verbs_named(before->name);
}

void reference_candidates(FILE *out, const json_t *words)
{
	size_t i, count = json_array_size(words), skip;
	const char *last = json_string_value(json_array_get(words, count - 1));
	struct before before = {};
	struct verbs_words next;
	json_t *word;
	bool help;

	json_array_foreach (words, i, word)
		if (i + 1 < count)
			take_word(&before, json_string_value(word));
	if (before.option) {
		write_values(out, before.option);
		return;
	}
	if (last && *last == '-') {
		verb_for_each_arg (arg, before.verb)
			if (verb_arg_is_option(arg))
				fprintf(out, "%s\n", arg->name);
		fputs("--json\n--pretty\n--socket\n--help\n", out);
		return;
	}
	/* A further word of the name, and the next argument by its position. */
	help = before.verb && !strcmp(before.verb->name, "help");
	verbs_following(help ? "" : before.name, &next);
	for (i = 0; (help || !before.positionals) && i < next.count; i++)
		fprintf(out, "%s\n", next.list[i]);
	skip = before.positionals;
	verb_for_each_arg (arg, before.verb) {
		if (verb_arg_is_option(arg))
			continue;
		if (!skip || arg->repeated) {
			write_values(out, arg);
			return;
		}
		skip--;
	}
}

int cli_completion(const struct cli *cli)
{
	const char *shell = json_text(cli->args, "shell");

	if (!strcmp(shell, "words"))
		reference_candidates(stdout, json_object_get(cli->args, "words"));
	else
		reference_script(stdout, shell);
	return CLI_GOOD;
}
