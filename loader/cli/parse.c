// SPDX-License-Identifier: BSD-2-Clause
/* The arguments of the command line, by the tables of the verbs. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/nearest.h"
#include "base/places.h"
#include "base/units.h"
#include "cli.h"

#define OPTIONS_MOST 32

/* Where the reading is. */
struct parsing {
	struct cli *cli;
	char **argv;
	int argc, at;
	const struct verb_arg *positional; /* the next one */
	bool only_words;		   /* behind -- */
	bool help, version;
};

/* Those that every verb has. */
static const struct verb_arg globals[] = {
	{"--json", .letter = 'j', .type = VERB_FLAG},
	{"--pretty", .letter = 'p', .type = VERB_FLAG},
	{"--socket", .value = "PATH", .type = VERB_TEXT},
	{"--help", .letter = 'h', .type = VERB_FLAG},
	{"--version", .letter = 'V', .type = VERB_FLAG},
	{},
};

int cli_fail(int code, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "escapement: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return code;
}

/* --- values --- */

static bool parse_count(const char *text, uint64_t *out)
{
	bool hex = !strncasecmp(text, "0x", 2);
	char *end;

	errno = 0;
	*out = strtoull(text, &end, hex ? 16 : 10);
	return !errno && end != text && !*end && *text != '-' && *text != '+' && *text != ' ';
}

static bool parse_number(const struct verb_arg *arg, const char *text, uint64_t *out)
{
	struct timespec now;

	if (arg->type == VERB_COUNT)
		return parse_count(text, out) && verbs_in_range(arg, *out);
	if (arg->type == VERB_DURATION)
		return !units_parse_duration(text, out, NULL) && verbs_in_range(arg, *out);
	clock_gettime(CLOCK_REALTIME, &now);
	return cli_parse_since(text, now.tv_sec * 1000000000ull + now.tv_nsec, out);
}

/* A new reference, or NULL when it is not what the argument has to be. */
static json_t *parse_value(const struct verb_arg *arg, const char *text)
{
	struct esc_address address;
	uint64_t number;

	switch (arg->type) {
	case VERB_COUNT:
	case VERB_DURATION:
	case VERB_SINCE:
		return parse_number(arg, text, &number) && number <= INT64_MAX
			       ? json_integer((json_int_t)number)
			       : NULL;
	case VERB_FLAG:
		return json_true();
	case VERB_CHOICE:
		return verbs_is_choice(arg->choices, text) ? json_string(text) : NULL;
	case VERB_ADDRESS:
		return address_parse(text, &address) ? json_string(text) : NULL;
	case VERB_TEXT:
	case VERB_INTERFACE:
	case VERB_QP:
		break;
	}
	return json_string(text); /* NULL: it is not UTF-8 */
}

/* "src>dst/qpn", of which the source may be missing. */
static bool parse_qp(json_t *args, const char *text)
{
	char *copy = strdup(text), *slash = strrchr(copy, '/'), *more = strchr(copy, '>');
	const char *dst = more ? more + 1 : copy;
	struct esc_address address;
	uint64_t qpn;
	bool good;

	if (slash)
		*slash = '\0';
	if (more)
		*more = '\0';
	good = slash && parse_count(slash + 1, &qpn) && qpn <= INT32_MAX &&
	       address_parse(dst, &address) && (!more || !*copy || address_parse(copy, &address));
	if (good) {
		json_object_set_new(args, "dst", json_string(dst));
		json_object_set_new(args, "qpn", json_integer((json_int_t)qpn));
		if (more && *copy)
			json_object_set_new(args, "src", json_string(copy));
	}
	free(copy);
	return good;
}

static int take_value(struct cli *cli, const struct verb_arg *arg, const char *text)
{
	char should[VERBS_SHOULD_BYTES];
	json_t *value = arg->type == VERB_QP ? NULL : parse_value(arg, text), *list;

	if (arg->type == VERB_QP && parse_qp(cli->args, text))
		return CLI_GOOD;
	if (!value)
		return cli_fail(CLI_USAGE, "%s %.128s: should be %s", arg->name, text,
				verbs_should(arg, should));
	if (!arg->repeated) {
		json_object_set_new(cli->args, arg->key, value);
		return CLI_GOOD;
	}
	list = json_object_get(cli->args, arg->key);
	if (!list) {
		list = json_array();
		json_object_set_new(cli->args, arg->key, list);
	}
	json_array_append_new(list, value);
	return CLI_GOOD;
}

/* --- options --- */

static bool is_option(const struct verb_arg *arg)
{
	return arg->name[0] == '-';
}

/* The one of @args that an option of @bytes names, whole or by a beginning that no other has. */
static const struct verb_arg *find_option(const struct verb_arg *args, const char *name,
					  size_t bytes, unsigned int *found)
{
	const struct verb_arg *one = NULL;

	for (; args && args->name; args++) {
		if (!is_option(args) || strncmp(args->name, name, bytes))
			continue;
		one = args;
		++*found;
		if (!args->name[bytes]) {
			*found = 1;
			break;
		}
	}
	return one;
}

static const struct verb_arg *find_letter(const struct verb_arg *args, char letter)
{
	for (; args && args->name; args++)
		if (args->letter && args->letter == letter)
			return args;
	return NULL;
}

static int unknown_option(const struct parsing *in, const char *option, size_t bytes)
{
	const struct verb *verb = in->cli->verb;
	const char *names[OPTIONS_MOST], *near;
	char given[64];
	size_t count = 0;

	snprintf(given, sizeof(given), "%.*s", (int)bytes, option);
	for (const struct verb_arg *arg = verb ? verb->args : NULL;
	     arg && arg->name && count < OPTIONS_MOST; arg++)
		if (is_option(arg))
			names[count++] = arg->name;
	near = nearest_name(given, names, count);
	if (near)
		return cli_fail(CLI_USAGE, "`%s` has no %s; did you mean %s?", verb->name, given,
				near);
	if (verb)
		return cli_fail(CLI_USAGE, "`%s` has no %s; `escapement help %s` lists what it has",
				verb->name, given, verb->name);
	return cli_fail(CLI_USAGE, "there is no option %s before the verb; `escapement help` lists "
				   "those that there are",
			given);
}

static int take_global(struct parsing *in, const struct verb_arg *arg, const char *value)
{
	switch (arg->letter) {
	case 'j':
		in->cli->format = CLI_JSON;
		break;
	case 'p':
		in->cli->format = CLI_PRETTY;
		break;
	case 'h':
		in->help = true;
		break;
	case 'V':
		in->version = true;
		break;
	default:
		in->cli->socket = value;
	}
	return CLI_GOOD;
}

/* @attached: what follows "=", or the letter; NULL: the next word. */
static int take_found(struct parsing *in, const struct verb_arg *arg, bool global,
		      const char *attached)
{
	const char *value = attached;

	if (arg->type != VERB_FLAG && !value) {
		if (in->at >= in->argc)
			return cli_fail(CLI_USAGE, "%s needs a value, %s", arg->name,
					arg->value ? arg->value : "N");
		value = in->argv[in->at++];
	}
	return global ? take_global(in, arg, value) : take_value(in->cli, arg, value ? value : "");
}

static int take_long(struct parsing *in, const char *option)
{
	const char *equals = strchr(option, '=');
	size_t bytes = equals ? (size_t)(equals - option) : strlen(option);
	const struct verb_arg *args = in->cli->verb ? in->cli->verb->args : NULL;
	unsigned int own = 0, global = 0;
	const struct verb_arg *arg = find_option(args, option, bytes, &own);
	const struct verb_arg *other = find_option(globals, option, bytes, &global);
	bool exact = (arg && !arg->name[bytes]) || (other && !other->name[bytes]);

	if (other && (!arg || !other->name[bytes])) {
		arg = other;
		own = 0;
	} else {
		global = exact ? 0 : global;
	}
	if (own + global > 1)
		return cli_fail(CLI_USAGE, "%s is the beginning of more than one option; write more "
					   "of it",
				option);
	if (!arg)
		return unknown_option(in, option, bytes);
	if (equals && arg->type == VERB_FLAG)
		return cli_fail(CLI_USAGE, "%s takes no value", arg->name);
	return take_found(in, arg, arg == other, equals ? equals + 1 : NULL);
}

/* "-j", "-jp", "-n1" or "-n 1". */
static int take_letters(struct parsing *in, const char *letters)
{
	int code = CLI_GOOD;

	for (; !code && *letters; letters++) {
		const struct verb_arg *args = in->cli->verb ? in->cli->verb->args : NULL;
		const struct verb_arg *arg = find_letter(args, *letters);
		bool global = !arg;
		char name[3] = {'-', *letters, '\0'};

		arg = arg ? arg : find_letter(globals, *letters);
		if (!arg)
			return unknown_option(in, name, 2);
		if (arg->type != VERB_FLAG)
			return take_found(in, arg, global, letters[1] ? letters + 1 : NULL);
		code = take_found(in, arg, global, NULL);
	}
	return code;
}

static int take_option(struct parsing *in, const char *option)
{
	return option[1] == '-' ? take_long(in, option) : take_letters(in, option + 1);
}

/* --- words --- */

static const struct verb_arg *next_positional(const struct verb_arg *arg)
{
	while (arg && arg->name && is_option(arg))
		arg++;
	return arg && arg->name ? arg : NULL;
}

static int take_positional(struct parsing *in, const char *word)
{
	const struct verb_arg *arg = in->positional;

	if (!arg)
		return cli_fail(CLI_USAGE, "`%s` takes no further argument: %.64s",
				in->cli->verb->name, word);
	if (!arg->repeated)
		in->positional = next_positional(arg + 1);
	return take_value(in->cli, arg, word);
}

static int take_verb(struct parsing *in)
{
	char *error = NULL;
	size_t words = 0, used;

	while (in->at + (int)words < in->argc && in->argv[in->at + words][0] != '-')
		words++;
	in->cli->verb = verbs_find(in->argv + in->at, words, &used, &error);
	if (!in->cli->verb) {
		cli_fail(CLI_USAGE, "%s", error ? error : "out of memory");
		free(error);
		return CLI_USAGE;
	}
	in->at += (int)used;
	in->positional = next_positional(in->cli->verb->args);
	return CLI_GOOD;
}

static int take_argument(struct parsing *in)
{
	const char *word = in->argv[in->at];

	if (!in->only_words && !strcmp(word, "--")) {
		in->only_words = true;
		in->at++;
		return CLI_GOOD;
	}
	if (!in->only_words && word[0] == '-' && word[1]) {
		in->at++;
		return take_option(in, word);
	}
	if (!in->cli->verb)
		return take_verb(in);
	in->at++;
	return take_positional(in, word);
}

static int check_required(const struct cli *cli)
{
	char should[VERBS_SHOULD_BYTES];

	for (const struct verb_arg *arg = cli->verb->args; arg && arg->name; arg++)
		if (arg->required && !json_object_get(cli->args, arg->key))
			return cli_fail(CLI_USAGE, "`%s` needs %s, %s; `escapement help %s` explains it",
					cli->verb->name, arg->name, verbs_should(arg, should),
					cli->verb->name);
	return CLI_GOOD;
}

/* `VERB --help` is `help VERB`. */
static void ask_help(struct cli *cli)
{
	json_t *words = json_array();

	if (cli->verb)
		json_array_append_new(words, json_string(cli->verb->name));
	json_object_set_new(cli->args, "verb", words);
	cli->verb = verbs_named("help");
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	struct parsing in = {.cli = cli, .argc = argc, .argv = argv, .at = 1};
	int code = CLI_GOOD;

	cli->socket = getenv("ESCAPEMENT_SOCKET");
	if (!cli->socket || !*cli->socket)
		cli->socket = PLACES_SOCKET;
	cli->args = json_object();
	while (!code && in.at < argc && !in.help)
		code = take_argument(&in);
	if (code)
		return code;
	if (in.help)
		ask_help(cli);
	else if (in.version)
		cli->verb = verbs_named("version");
	if (!cli->verb)
		return cli_fail(CLI_USAGE, "no verb; `escapement status` is a beginning, "
					   "`escapement help` lists them");
	code = check_required(cli);
	return code ? code : -1;
}

/* --- for the daemon --- */

const char *cli_request_verb(const struct verb *verb, char out[64])
{
	snprintf(out, 64, "%s", verb->request ? verb->request : verb->name);
	out[strcspn(out, " ")] = '\0';
	return out;
}

json_t *cli_request_args(const struct cli *cli)
{
	const char *what = strchr(cli->verb->request ? cli->verb->request : cli->verb->name, ' ');
	json_t *args = json_copy(cli->args);

	for (const struct verb_arg *arg = cli->verb->args; arg && arg->name; arg++)
		if (arg->local && arg->key)
			json_object_del(args, arg->key);
	if (what)
		json_object_set_new(args, "what", json_string(what + 1));
	return args;
}
