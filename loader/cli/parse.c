// SPDX-License-Identifier: BSD-2-Clause
/* The arguments of the command line, by the tables of the verbs. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/units.h"
#include "base/now.h"
#include "base/verb.h"
#include "cli.h"

#define OPTIONS_MOST 32
#define OF_VERB 256 /* the value of a verb's first option, for getopt */

static const struct option globals[] = {
	{"json", no_argument, NULL, 'j'},	  {"pretty", no_argument, NULL, 'p'},
	{"socket", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},	  {},
};
#define GLOBALS (sizeof(globals) / sizeof(globals[0]) - 1)

/* --- values --- */

static bool parse_count(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, strncasecmp(text, "0x", 2) ? 10 : 16);
	return !errno && end != text && !*end && *out <= INT64_MAX && !strpbrk(text, "+- ");
}

bool cli_parse_since(const char *text, uint64_t now_realtime_ns, uint64_t *since_ns)
{
	static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					      "%Y-%m-%dT%H:%M",	   "%Y-%m-%d %H:%M",
					      "%H:%M:%S",	   "%H:%M",
					      "%Y-%m-%d"};
	time_t now = now_realtime_ns / 1000000000, seconds;
	const char *end = NULL;
	uint64_t ago_ns;
	struct tm tm;

	if (!units_parse_duration(text, &ago_ns, NULL)) {
		*since_ns = ago_ns < now_realtime_ns ? now_realtime_ns - ago_ns : 0;
		return true;
	}
	if (text[0] == '@') { /* seconds since 1970 */
		errno = 0;
		*since_ns = strtoull(text + 1, (char **)&end, 10);
		if (end == text + 1 || *end || errno || text[1] == '-' ||
		    *since_ns > INT64_MAX / 1000000000)
			return false;
		*since_ns *= 1000000000;
		return true;
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		localtime_r(&now, &tm); /* the day, for a time without one */
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
		end = strptime(text, formats[i], &tm);
		if (end && (!*end || !strcmp(end, "Z")))
			break;
		end = NULL;
	}
	if (!end)
		return false;
	tm.tm_isdst = -1;
	seconds = *end ? timegm(&tm) : mktime(&tm);
	*since_ns = seconds * 1000000000ull;
	return seconds >= 0 && seconds <= INT64_MAX / 1000000000;
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
	good = slash && parse_count(slash + 1, &qpn) && address_parse(dst, &address) &&
	       (!more || !*copy || address_parse(copy, &address));
	if (good) {
		json_object_set_new(args, "dst", json_string(dst));
		json_object_set_new(args, "qpn", json_integer((json_int_t)qpn));
		if (more && *copy)
			json_object_set_new(args, "src", json_string(copy));
	}
	free(copy);
	return good;
}

bool cli_put_value(json_t *args, const struct verb_arg *arg, const char *text)
{
	json_t *value = NULL, *list;
	uint64_t number = 0;
	bool good = false;

	switch (arg->type) {
	case VERB_QP:
		return parse_qp(args, text);
	case VERB_FLAG:
		value = json_true();
		break;
	case VERB_COUNT:
		good = parse_count(text, &number);
		break;
	case VERB_DURATION:
		good = !units_parse_duration(text, &number, NULL);
		break;
	case VERB_SINCE:
		good = cli_parse_since(text, time_realtime_ns(), &number);
		break;
	default:
		value = json_string(text); /* NULL: it is not UTF-8 */
	}
	if (good)
		value = json_integer((json_int_t)number);
	if (!value || !verbs_value_is_good(arg, value)) {
		json_decref(value);
		return false;
	}
	list = json_object_get(args, arg->key);
	if (!arg->repeated)
		json_object_set_new(args, arg->key, value);
	else if (list)
		json_array_append_new(list, value);
	else
		json_object_set_new(args, arg->key, json_pack("[o]", value));
	return true;
}

static int take_value(struct cli *cli, const struct verb_arg *arg, const char *text)
{
	char should[VERBS_SHOULD_BYTES];

	if (cli_put_value(cli->args, arg, text))
		return CLI_GOOD;
	return cli_fail(CLI_USAGE, "%s %.128s: should be %s", arg->name, text,
			verbs_should(arg, should));
}

/* --- options --- */

static int unknown_option(const struct verb *verb, const struct option *options, const char *given)
{
	const char *names[OPTIONS_MOST], *near;
	size_t bytes = strcspn(given, "="), count = 0, found = 0;
	char word[64];

	snprintf(word, sizeof(word), "%.*s", (int)bytes, given);
	for (; options[count].name; count++) {
		names[count] = options[count].name;
		found += bytes > 2 && !strncmp(given + 2, names[count], bytes - 2);
	}
	if (found > 1)
		return cli_fail(CLI_USAGE,
				"%s is the beginning of several options; write more of it", word);
	near = bytes > 2 ? nearest_name(word + 2, names, count) : NULL;
	if (near)
		return cli_fail(CLI_USAGE, "%s has no option %s; did you mean --%s?",
				verb ? verb->name : "escapement", word, near);
	return cli_fail(CLI_USAGE, "%s has no option %s; see `escapement help%s%s`",
			verb ? verb->name : "escapement", word, verb ? " " : "",
			verb ? verb->name : "");
}

/* CLI_GOOD to go on, -1 when it is known what to do. */
static int take_option(struct cli *cli, int option)
{
	if (option >= OF_VERB)
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a verb has these options */
		return take_value(cli, cli->verb->args + (option - OF_VERB), optarg ? optarg : "");
	verb_for_each_arg (arg, cli->verb)
		if (arg->letter == option)
			return take_value(cli, arg, optarg ? optarg : "");
	switch (option) {
	case 'j':
		cli->format = CLI_JSON;
		return CLI_GOOD;
	case 'p':
		cli->format = CLI_PRETTY;
		return CLI_GOOD;
	case 's':
		cli->socket = optarg;
		return CLI_GOOD;
	case 'h': /* `VERB --help` is `help VERB` */
		json_object_set_new(cli->args, "verb",
				    cli->verb ? json_pack("[s]", cli->verb->name) : json_array());
		cli->verb = verbs_named("help");
		return -1;
	default:
		cli->verb = verbs_named("version");
		return -1;
	}
}

/* Up to the first word when there is no verb yet, else all; words are left behind optind. */
static int take_options(struct cli *cli, int argc, char **argv)
{
	struct option options[OPTIONS_MOST] = {};
	char letters[64], letter[3] = "-";
	size_t count = GLOBALS, used;
	int option, code = CLI_GOOD;

	memcpy(options, globals, sizeof(globals));
	used = snprintf(letters, sizeof(letters), "%s:jphV", cli->verb ? "" : "+");
	verb_for_each_arg (arg, cli->verb) {
		bool valued = arg->type != VERB_FLAG;

		if (!verb_arg_is_option(arg) || count + 1 == OPTIONS_MOST)
			continue;
		options[count++] = (struct option){arg->name + 2, valued, NULL,
						   OF_VERB + (int)(arg - cli->verb->args)};
		if (arg->letter)
			used += snprintf(letters + used, sizeof(letters) - used, "%c%s",
					 arg->letter, valued ? ":" : "");
	}
	opterr = 0;
	while (!code && (option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		const char *given = argv[optind - 1];

		if (option == '?' && optopt && optopt < OF_VERB && given[1] != '-') {
			letter[1] = (char)optopt;
			given = letter;
		}
		if (option == ':')
			code = cli_fail(CLI_USAGE, "%s needs a value", given);
		else if (option == '?' && optopt && strchr(given, '='))
			code = cli_fail(CLI_USAGE, "%s: the option takes no value", given);
		else if (option == '?')
			code = unknown_option(cli->verb, options, given);
		else
			code = take_option(cli, option);
	}
	return code;
}

/* --- the whole line --- */

int cli_parse(struct cli *cli, int argc, char **argv)
{
	const char *socket = getenv("ESCAPEMENT_SOCKET");
	size_t words = 0, used = 0;
	const struct verb_arg *positional;
	char should[VERBS_SHOULD_BYTES];
	char *error = NULL;
	int code;

	cli->socket = socket && *socket ? socket : PLACES_SOCKET;
	cli->args = json_object();
	optind = 0; /* glibc: from the beginning, whatever was read before */
	code = take_options(cli, argc, argv);
	if (code)
		return code;
	/* The verb ends where an option begins. */
	while (optind + (int)words < argc && argv[optind + words][0] != '-')
		words++;
	if (!words)
		return cli_fail(CLI_USAGE, "no verb; `escapement status` is a beginning, "
					   "`escapement help` lists them");
	cli->verb = verbs_find(argv + optind, words, &used, &error);
	if (!cli->verb) {
		cli_fail(CLI_USAGE, "%s", error ? error : "out of memory");
		free(error);
		return CLI_USAGE;
	}
	/* The last word of the verb stands for the program's name. */
	argc -= optind + (int)used - 1;
	argv += optind + (int)used - 1;
	optind = 0;
	code = take_options(cli, argc, argv);
	positional = verbs_positional(cli->verb->args);
	for (int i = optind; !code && i < argc; i++) {
		if (!positional)
			return cli_fail(CLI_USAGE, "`%s` takes no further argument: %.64s",
					cli->verb->name, argv[i]);
		code = take_value(cli, positional, argv[i]);
		if (!positional->repeated)
			positional = verbs_positional(positional + 1);
	}
	verb_for_each_arg (arg, cli->verb)
		if (!code && arg->required && !json_object_get(cli->args, arg->key))
			code = cli_fail(CLI_USAGE, "`%s` needs %s, %s; see `escapement help %s`",
					cli->verb->name, arg->name, verbs_should(arg, should),
					cli->verb->name);
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

	verb_for_each_arg (arg, cli->verb)
		if (arg->local && arg->key)
			json_object_del(args, arg->key);
	if (what)
		json_object_set_new(args, "what", json_string(what + 1));
	return args;
}
