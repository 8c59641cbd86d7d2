// SPDX-License-Identifier: BSD-2-Clause
/* The command line: options, the table of verbs, and nothing else. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "maps/maps.h"
#include "base/nearest.h"
#include "base/units.h"
#include "api/verbs.h"

enum option_name {
	OPTION_SOCKET = 256,
	OPTION_SORT,
	OPTION_TOP,
	OPTION_WATCH,
	OPTION_FOLLOW,
	OPTION_SINCE,
	OPTION_BOUND,
	OPTION_TIMEOUT,
	OPTION_PATHS,
	OPTION_INTERVAL,
	OPTION_FRAMES,
	OPTION_CLASS, /* this and those up to the next are of `pace` */
	OPTION_WEIGHT,
	OPTION_THRESHOLD,
	OPTION_SRC, /* this and those behind it are of `steer` */
	OPTION_DST,
	OPTION_QPN,
	OPTION_SPORT,
	OPTION_FLOW_LABEL,
	OPTION_HOLD,
	OPTION_WITHIN,
	OPTION_NOW,
	OPTION_ALL,
};

static const struct option options[] = {
	{"json", no_argument, NULL, 'j'},
	{"pretty", no_argument, NULL, 'p'},
	{"config", required_argument, NULL, 'c'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"socket", required_argument, NULL, OPTION_SOCKET},
	{"sort", required_argument, NULL, OPTION_SORT},
	{"top", required_argument, NULL, OPTION_TOP},
	{"watch", optional_argument, NULL, OPTION_WATCH},
	{"follow", no_argument, NULL, OPTION_FOLLOW},
	{"since", required_argument, NULL, OPTION_SINCE},
	{"bound", required_argument, NULL, OPTION_BOUND},
	{"timeout", required_argument, NULL, OPTION_TIMEOUT},
	{"class", required_argument, NULL, OPTION_CLASS},
	{"weight", required_argument, NULL, OPTION_WEIGHT},
	{"threshold", required_argument, NULL, OPTION_THRESHOLD},
	{"src", required_argument, NULL, OPTION_SRC},
	{"dst", required_argument, NULL, OPTION_DST},
	{"qpn", required_argument, NULL, OPTION_QPN},
	{"sport", required_argument, NULL, OPTION_SPORT},
	{"flow-label", required_argument, NULL, OPTION_FLOW_LABEL},
	{"flowlet-gap", required_argument, NULL, OPTION_HOLD},
	{"deadline", required_argument, NULL, OPTION_WITHIN},
	{"force", no_argument, NULL, OPTION_NOW},
	{"all", no_argument, NULL, OPTION_ALL},
	{"paths", no_argument, NULL, OPTION_PATHS},
	{"interval", required_argument, NULL, OPTION_INTERVAL},
	{"frames", required_argument, NULL, OPTION_FRAMES},
	{},
};

/* What a verb takes: words after it, and which of the options that not all take. */
static const struct command {
	const char *verb;
	int (*run)(const struct cli *cli);
	int words_max;
	enum option_name options[10];
} commands[] = {
	{"status", cli_status, 0, {}},
	{"clock", cli_clock, 1, {OPTION_BOUND, OPTION_TIMEOUT}},
	{"peers", cli_peers, 0, {}},
	{"qp", cli_qp, 1, {OPTION_SORT, OPTION_TOP, OPTION_WATCH, OPTION_PATHS}},
	{"top", cli_top, 1, {OPTION_SORT, OPTION_TOP, OPTION_INTERVAL, OPTION_FRAMES}},
	{"events", cli_events, 0, {OPTION_FOLLOW, OPTION_SINCE}},
	{"paths", cli_paths, 1, {}},
	{"mode", cli_mode, 1 + ESC_PORTS_MAX, {}},
	{"steer",
	 cli_steer,
	 2,
	 {OPTION_SRC, OPTION_DST, OPTION_QPN, OPTION_SPORT, OPTION_FLOW_LABEL, OPTION_HOLD,
	  OPTION_WITHIN, OPTION_NOW, OPTION_ALL}},
	{"pace",
	 cli_pace,
	 1 + ESC_PORTS_MAX,
	 {OPTION_CLASS, OPTION_WEIGHT, OPTION_THRESHOLD, OPTION_SRC, OPTION_DST, OPTION_QPN}},
	{"failover", cli_nic, 0, {}},
	{"failover-dummy", cli_nic_pair, 32, {}},
	{"off", cli_off, 0, {}},
	{"config", cli_config, 1, {}},
	{"features", cli_support, 0, {}},
	{"reload", cli_reload, 0, {}},
	{"version", cli_version, 0, {}},
};

/* As read from the arguments, before they are looked at together. */
struct given {
	const char *config, *socket;
	enum option_name used[16]; /* of single verbs, in the order they came */
	unsigned int used_count;
	bool help, version;
};

static void print_help(void)
{
	const struct verb *verbs;
	size_t count;

	verbs = verbs_all(&count);
	printf("escapement [-j|-p] [-c FILE] [--socket PATH] VERB ...\n\n");
	for (size_t i = 0; i < count && !verbs[i].later; i++)
		printf("  %-14s %s%s%s\n", verbs[i].name, verbs[i].summary,
		       *verbs[i].arguments ? "\n                 " : "", verbs[i].arguments);
	printf("\nA verb may be shortened to what no other begins with. -j prints JSON, -p\n"
	       "indents it. The daemon is met at --socket, else at the `socket` of -c FILE\n"
	       "(" CONFIG_PATH_DEFAULT "). Exit: 0 good, 1 a check failed,\n"
	       "2 usage, 3 no daemon. escapement(1) tells more.\n");
}

__attribute__((format(printf, 1, 2))) static int usage(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "escapement: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return CLI_USAGE;
}

/* "2" or "0.5" seconds. */
static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return end != text && !*end && *seconds >= 0.1 && *seconds <= 3600;
}

static bool parse_top(const char *text, int64_t *top)
{
	char *end;

	errno = 0;
	*top = strtol(text, &end, 10);
	return end != text && !*end && !errno && *top >= 0;
}

static uint64_t time_realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* `--watch 2`: getopt only knows `--watch=2`. */
static const char *watch_argument(int argc, char **argv)
{
	double seconds;

	if (optarg || optind >= argc || !parse_seconds(argv[optind], &seconds))
		return optarg;
	return argv[optind++];
}

static int take_duration(const char *option, uint64_t *ns)
{
	char hint[32];

	return units_parse_duration(optarg, ns, hint)
		       ? usage("--%s %s: should be a time, such as 1us or 30s", option, optarg)
		       : CLI_GOOD;
}

static const char *option_text(enum option_name name)
{
	const struct option *option = options;

	while (option->val != (int)name)
		option++;
	return option->name;
}

static int take_verb_option(struct cli *cli, int option, int argc, char **argv)
{
	const char *seconds;

	if (option >= OPTION_CLASS && option < OPTION_SRC)
		return cli_pace_option(cli, option_text(option), optarg);
	if (option >= OPTION_SRC)
		return cli_steer_option(cli, option_text(option), optarg);
	switch (option) {
	case OPTION_SORT:
		cli->sort = optarg;
		return CLI_GOOD;
	case OPTION_TOP:
		return parse_top(optarg, &cli->top)
			       ? CLI_GOOD
			       : usage("--top %s: should be a whole number, such as 10", optarg);
	case OPTION_WATCH:
		cli->watch = true;
		cli->watch_seconds = 1;
		seconds = watch_argument(argc, argv);
		return !seconds || parse_seconds(seconds, &cli->watch_seconds)
			       ? CLI_GOOD
			       : usage("--watch %s: should be seconds, 0.1 to 3600", seconds);
	case OPTION_PATHS:
		cli->paths = true;
		return CLI_GOOD;
	case OPTION_INTERVAL:
		return parse_seconds(optarg, &cli->watch_seconds)
			       ? CLI_GOOD
			       : usage("--interval %s: should be seconds, 0.1 to 3600", optarg);
	case OPTION_FRAMES:
		return parse_top(optarg, &cli->frames) && cli->frames
			       ? CLI_GOOD
			       : usage("-n %s: should be how often to print, such as 1", optarg);
	case OPTION_BOUND:
		cli->bound_given = true;
		return take_duration("bound", &cli->bound_ns);
	case OPTION_TIMEOUT:
		return take_duration("timeout", &cli->timeout_ns);
	case OPTION_FOLLOW:
		cli->follow = true;
		return CLI_GOOD;
	default:
		cli->since_given = true;
		return cli_parse_since(optarg, time_realtime_ns(), &cli->since_ns)
			       ? CLI_GOOD
			       : usage("--since %s: should be a duration ago (10m), a time (12:00, "
				       "2026-01-31T12:00:00) or @SECONDS",
				       optarg);
	}
}

static int take_option(struct cli *cli, struct given *given, int option, int argc, char **argv)
{
	switch (option) {
	case 'j':
		cli->format = CLI_JSON;
		return CLI_GOOD;
	case 'p':
		cli->format = CLI_PRETTY;
		return CLI_GOOD;
	case 'c':
		given->config = optarg;
		return CLI_GOOD;
	case 'h':
		given->help = true;
		return CLI_GOOD;
	case 'V':
		given->version = true;
		return CLI_GOOD;
	case OPTION_SOCKET:
		given->socket = optarg;
		return CLI_GOOD;
	case 'n':
		option = OPTION_FRAMES;
		break;
	case '?':
	case ':': /* getopt has said it */
		return CLI_USAGE;
	}
	if (given->used_count < sizeof(given->used) / sizeof(given->used[0]))
		given->used[given->used_count++] = option;
	return take_verb_option(cli, option, argc, argv);
}

static bool command_takes(const struct command *command, enum option_name option)
{
	for (size_t i = 0; i < sizeof(command->options) / sizeof(command->options[0]); i++)
		if (command->options[i] == option)
			return true;
	return false;
}

static int check_command(const struct command *command, const struct cli *cli,
			 const struct given *given)
{
	for (unsigned int i = 0; i < given->used_count; i++)
		if (!command_takes(command, given->used[i]))
			return usage("`%s` has no --%s; `escapement --help` lists what it has",
				     command->verb, option_text(given->used[i]));
	if (cli->word_count > command->words_max)
		return usage("\"%.64s\" is one word too many; `escapement --help` lists what each "
			     "verb takes",
			     cli->words[command->words_max]);
	return CLI_GOOD;
}

static int find_places(struct cli *cli, const struct given *given)
{
	const char *environment = getenv("ESCAPEMENT_CONFIG");
	const char *path = given->config ? given->config : environment;
	char *error = NULL;
	int err = config_find_places(path, &cli->places, &error);

	/* A file that was named has to be there; the usual one may be missing. */
	if (err && (path || (err != -ENOENT && !given->socket)))
		fprintf(stderr, "escapement: %s\n", error ? error : strerror(-err));
	free(error);
	if (err && path)
		return CLI_USAGE;
	if (given->socket) {
		free(cli->places.socket);
		cli->places.socket = strdup(given->socket);
	}
	return cli->places.socket ? CLI_GOOD : CLI_FAILED;
}

static int run_verb(struct cli *cli, const struct given *given, const char *word)
{
	const struct command *command = commands;
	const struct verb *verb;
	char *error = NULL, later[160];
	int code;

	verb = verbs_find(word, true, &error);
	if (!verb) {
		fprintf(stderr, "escapement: %s\n", error ? error : "out of memory");
		free(error);
		return CLI_USAGE;
	}
	if (verb->later)
		return usage("%s", verbs_later(verb->name, later));
	while (strcmp(command->verb, verb->name))
		command++;
	code = check_command(command, cli, given);
	if (!code)
		code = find_places(cli, given);
	return code ? code : command->run(cli);
}

int main(int argc, char **argv)
{
	struct cli cli = {.top = -1, .frames = -1, .timeout_ns = CLI_TIMEOUT_NS};
	struct given given = {};
	int option, code = CLI_GOOD;

	setlocale(LC_TIME, "");
	while (!code && (option = getopt_long(argc, argv, "jpc:hVn:", options, NULL)) != -1)
		code = take_option(&cli, &given, option, argc, argv);
	if (code)
		return code;
	if (given.help) {
		print_help();
		return CLI_GOOD;
	}
	if (optind == argc && !given.version)
		return usage("what to show? `escapement status` is a beginning, `escapement "
			     "--help` lists the verbs");
	cli.words = argv + optind + !given.version;
	cli.word_count = argv + argc - cli.words;
	code = run_verb(&cli, &given, given.version ? "version" : argv[optind]);
	config_places_clear(&cli.places);
	json_decref(cli.steer);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "escapement: the output cannot be written: %s\n", strerror(errno));
		return code ? code : CLI_FAILED;
	}
	return code;
}
