// SPDX-License-Identifier: BSD-2-Clause
/* From a verb to its reply on stdout: by its table, or by a function that is registered here. */
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/json.h"
#include "base/now.h"
#include "base/units.h"
#include "cli.h"

#define REPLY_SECONDS 60 /* the longest reply, of a full table, takes a few */
#define WAIT_STEP_NS 100000000
#define ENDING_TRIES 100
#define ENDING_TRY_US 100000
#define WAIT_TIMEOUT_NS 30000000000ull /* when none is given */

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

/* --- the socket --- */

/* 0, or -errno when no daemon replies; prints nothing. */
static int connect_daemon(struct cli *cli)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec =
					  cli->reply_seconds ? cli->reply_seconds : REPLY_SECONDS};
	int err;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", cli->socket) >=
	    (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	cli->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (cli->fd < 0)
		return -errno;
	setsockopt(cli->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(cli->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (!connect(cli->fd, (struct sockaddr *)&address, sizeof(address)))
		cli->in = fdopen(cli->fd, "r");
	if (cli->in)
		return 0;
	err = -errno;
	close(cli->fd);
	return err;
}

/* The reason for which connect_daemon() failed is that there is no daemon. */
static bool is_absent(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ENOTDIR;
}

int cli_open(struct cli *cli)
{
	int err = connect_daemon(cli);

	if (!err)
		return CLI_GOOD;
	if (err == -EACCES || err == -EPERM)
		return cli_fail(
			CLI_DENIED,
			"%s: permission denied: run it as root, or to read as a member of the "
			"group " PLACES_GROUP,
			cli->socket);
	if (is_absent(err))
		return cli_fail(CLI_NO_DAEMON,
				"no daemon replies at %s: start escapementd (systemctl start "
				"escapementd), or give --socket",
				cli->socket);
	return cli_fail(CLI_NO_DAEMON, "no daemon replies at %s: %s; give another --socket",
			cli->socket, strerror(-err));
}

void cli_close(struct cli *cli)
{
	if (cli->in)
		fclose(cli->in);
	cli->in = NULL;
}

static int lost(const struct cli *cli, const char *why)
{
	return cli_fail(CLI_NO_DAEMON,
			"the daemon at %s %s: see its log (journalctl -u escapementd)", cli->socket,
			why);
}

int cli_next(struct cli *cli, json_t **result)
{
	const json_t *exit_code;
	char *line = NULL;
	size_t room = 0;
	json_t *reply;
	int code = CLI_GOOD;

	cli->closed = false;
	errno = 0;
	if (getline(&line, &room, cli->in) <= 0) {
		const char *why = errno == EAGAIN ? "does not reply" : "closed the connection";

		free(line);
		cli->closed = errno != EAGAIN;
		return cli->closed && cli->may_close ? CLI_NO_DAEMON : lost(cli, why);
	}
	reply = json_loads(line, 0, NULL);
	free(line);
	exit_code = json_object_get(reply, "exit");
	if (cli->format == CLI_TEXT)
		render_escape(json_object_get(reply, "result"), false);
	render_escape(json_object_get(reply, "error"), true);
	if (!reply)
		code = lost(cli, "replied what is not JSON");
	else if (json_is_true(json_object_get(reply, "ok")))
		*result = json_incref(json_object_get(reply, "result"));
	else
		code = cli_fail(exit_code ? (int)json_integer_value(exit_code) : CLI_FAILED, "%s",
				json_text(reply, "error"));
	json_decref(reply);
	return code;
}

int cli_query(struct cli *cli, const char *verb, json_t *args, json_t **result)
{
	json_t *request = json_pack("{s:s, s:o*}", "verb", verb, "args", args);
	char *text = json_dumps(request, JSON_COMPACT);
	size_t bytes;
	ssize_t sent;

	json_decref(request);
	if (!text)
		return cli_fail(CLI_USAGE, "an argument is not UTF-8 text");
	bytes = strlen(text);
	text[bytes] = '\n'; /* in place of the NUL */
	errno = 0;
	sent = send(cli->fd, text, bytes + 1, MSG_NOSIGNAL);
	free(text);
	/* A connection that was refused: the daemon's reason is still there to be read. */
	if (sent != (ssize_t)bytes + 1 && errno != EPIPE && errno != ECONNRESET)
		return lost(cli, "accepts no request");
	return cli_next(cli, result);
}

int cli_query_once(struct cli *cli, const char *verb, json_t **result)
{
	int code = cli_open(cli);

	if (!code)
		code = cli_query(cli, verb, NULL, result);
	cli_close(cli);
	return code;
}

/* Open, query by the verb and its arguments, close. */
static int query_once(struct cli *cli, json_t **result)
{
	char verb[64];
	int code = cli_open(cli);

	if (!code)
		code = cli_query(cli, cli_request_verb(cli->verb, verb), cli_request_args(cli),
				 result);
	cli_close(cli);
	return code;
}

/* --- output --- */

void cli_write_json(const struct cli *cli, const json_t *value)
{
	char *text = json_line(value, cli->format == CLI_PRETTY ? JSON_INDENT(2) : JSON_COMPACT);

	puts(text ? text : "");
	free(text);
}

/* In the format of the command line. CLI_FAILED when stdout cannot be written, or by the result. */
static int show(const struct cli *cli, const json_t *result)
{
	const char *fails = cli->verb->fails;

	if (cli->format == CLI_TEXT)
		cli_write(stdout, cli->verb, result, cli->args);
	else
		cli_write_json(cli, result);
	if (fflush(stdout))
		return CLI_FAILED;
	return fails && value_holds((struct scope){result, NULL}, fails) ? CLI_FAILED : CLI_GOOD;
}

/* --- version --- */

/* Adds the replies that a verb is given, if a daemon replies. */
static void add_replies(const struct cli *cli, json_t *args)
{
	json_t *replies = json_object(), *reply = NULL;

	for (const char *const *verb = cli->verb->given; verb && *verb; verb++) {
		struct cli other = {.format = CLI_JSON, .socket = cli->socket};

		if (connect_daemon(&other))
			break;
		if (!cli_query(&other, *verb, NULL, &reply))
			json_object_set_new(replies, *verb, reply);
		cli_close(&other);
	}
	json_object_set_new(args, "replies", replies);
}

/* What the command line does without the daemon. */
static int run_here(const struct cli *cli, json_t **result)
{
	json_t *args = json_copy(cli->args);
	char *error = NULL;
	int code = CLI_FAILED;

	json_object_set_new(args, "socket", json_string(cli->socket));
	if (cli->verb->given)
		add_replies(cli, args);
	*result = cli->verb->run(args, &code, &error);
	json_decref(args);
	if (*result)
		return CLI_GOOD;
	cli_fail(code, "%s", error ? error : "out of memory");
	free(error);
	return code;
}

static int run_version(struct cli *cli)
{
	json_t *version, *daemon = NULL;
	int code = run_here(cli, &version), err;

	if (code)
		return code;
	err = connect_daemon(cli);
	if (!err)
		code = cli_query(cli, "version", NULL, &daemon);
	cli_close(cli);
	if (daemon)
		json_object_set_new(version, "daemon", daemon);
	if (!code)
		code = show(cli, version);
	if (is_absent(err) && cli->format == CLI_TEXT)
		printf("No daemon replies at %s.\n", cli->socket);
	json_decref(version);
	return code;
}

/* --- status: each capability has its part --- */

static void write_status(FILE *out, const struct verb *verb, struct scope scope)
{
	render_sections(out, verb->output, scope);
	for (size_t i = 0; verbs_sets[i]; i++)
		if (verbs_sets[i]->status)
			render_sections(out, verbs_sets[i]->status, scope);
}

/* --- clock wait --- */

static int run_clock_wait(struct cli *cli)
{
	char bound[UNITS_TEXT_BYTES] = "", wanted[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	uint64_t begun_ns = time_local_ns(), timeout_ns = WAIT_TIMEOUT_NS;
	uint64_t bound_ns = json_count(cli->args, "bound_ns");
	json_t *clock;
	int code;

	if (json_object_get(cli->args, "timeout_ns"))
		timeout_ns = json_count(cli->args, "timeout_ns");
	while (!(code = query_once(cli, &clock))) {
		const char *state = json_text(clock, "state");
		bool known = json_object_get(clock, "bound_ns") != NULL;

		if (known && json_count(clock, "bound_ns") <= bound_ns &&
		    (!strcmp(state, "synced") || !strcmp(state, "holdover"))) {
			code = show(cli, clock);
			json_decref(clock);
			return code;
		}
		if (time_local_ns() - begun_ns >= timeout_ns) {
			if (known)
				units_delay(bound, (double)json_count(clock, "bound_ns"));
			cli_fail(CLI_FAILED,
				 "the error bound of %s was not met within %s: the clock is "
				 "%s%s%s; see `escapement clock` and `escapement peers`",
				 units_delay(wanted, (double)bound_ns),
				 units_duration(time, timeout_ns), state,
				 *bound ? " with a bound of " : "", bound);
			json_decref(clock);
			return CLI_FAILED;
		}
		json_decref(clock);
		nanosleep(&step, NULL);
	}
	return code;
}

/* --- audit --fleet: a run of all pairs, which the daemon makes, before the report of it --- */

#define PAIRS_STEP_NS 250000000

static int begin_pairs(struct cli *cli, json_t **result)
{
	json_t *args = json_object();
	int code = cli_open(cli);

	json_object_set(args, "run", json_object_get(cli->args, "run"));
	json_object_set(args, "round", json_object_get(cli->args, "round"));
	if (!code)
		code = cli_query(cli, "pairs start", args, result);
	else
		json_decref(args);
	cli_close(cli);
	return code;
}

/* Begins a run, or joins the one that is under way, and waits until it is over. */
static int wait_for_pairs(struct cli *cli)
{
	const struct timespec step = {.tv_nsec = PAIRS_STEP_NS};
	json_t *pairs = NULL;
	int code = begin_pairs(cli, &pairs);

	while (!code && json_is_true(json_object_get(pairs, "under_way"))) {
		json_decref(pairs);
		pairs = NULL;
		nanosleep(&step, NULL);
		code = cli_query_once(cli, "pairs", &pairs);
	}
	if (!code && strcmp(json_text(pairs, "state"), "completed") != 0)
		code = cli_fail(CLI_FAILED, "the run of all pairs was stopped: %s",
				json_text(pairs, "note"));
	json_decref(pairs);
	return code;
}

/* --- config show --- */

/* Plain where YAML cannot take it for something else, else in double quotes. */
static void write_scalar(FILE *out, const json_t *value)
{
	const char *text = json_string_value(value);
	bool plain = text && *text && !strpbrk(text, " \t\n\"'#:,[]{}&*!|>%@`\\") && *text != '-';

	if (plain)
		fputs(text, out);
	else
		json_dumpf(value, out, JSON_ENCODE_ANY | JSON_COMPACT);
	fputc('\n', out);
}

/* @dash: "- " before the first key of a list's entry, else "". */
static void write_yaml(FILE *out, const json_t *object, int indent, const char *dash)
{
	const char *key;
	json_t *value, *entry;
	size_t i;

	json_object_foreach ((json_t *)object, key, value) {
		bool section = json_is_object(value) && !indent;
		bool lines = section || json_is_array(value);

		fprintf(out, "%*s%s%s:%s", indent - (int)strlen(dash), "", dash, key,
			lines ? "\n" : " ");
		if (section)
			write_yaml(out, value, 2, "");
		else if (!lines)
			write_scalar(out, value);
		json_array_foreach (value, i, entry)
			write_yaml(out, entry, indent + 4, "- ");
		dash = "";
	}
}

/* The daemon accepts it as a configuration. */
static void write_config(FILE *out, const struct verb *verb, struct scope scope)
{
	json_t *keys = json_copy((json_t *)scope.object);

	(void)verb;
	fprintf(out, "# in force, from %s\n", json_text(keys, "path"));
	json_object_del(keys, "path");
	write_yaml(out, keys, 0, "");
	json_decref(keys);
}

/* --- metrics --- */

/* The text as it is, but for a terminal, which obeys control characters in names of processes. */
static int run_metrics(struct cli *cli)
{
	enum cli_format format = cli->format;
	json_t *result;
	int code;

	cli->format = CLI_JSON;
	code = cli_query_once(cli, "metrics", &result);
	cli->format = format;
	if (code)
		return code;
	if (format == CLI_TEXT && isatty(STDOUT_FILENO))
		render_escape(result, true);
	if (format == CLI_TEXT)
		fputs(json_text(result, "text"), stdout);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return CLI_GOOD;
}

/* --- verbs that are programs of their own, for their libraries --- */

/* As they are installed, and built: beside this one, in sbin/ or libexec/, or in PATH. */
static void run_program(const char *name, const char *const argv[])
{
	char own[PATH_MAX], path[PATH_MAX + 64];
	ssize_t bytes = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	own[bytes > 0 ? bytes : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash) {
		*slash = '\0';
		snprintf(path, sizeof(path), "%s/%s", own, name);
		execv(path, (char *const *)argv);
		snprintf(path, sizeof(path), "%s/../sbin/%s", own, name);
		execv(path, (char *const *)argv);
		snprintf(path, sizeof(path), "%s/../libexec/escapement/%s", own, name);
		execv(path, (char *const *)argv);
	}
	execvp(name, (char *const *)argv);
}

static int run_serve(struct cli *cli)
{
	const char *listen = json_string_value(json_object_get(cli->args, "listen"));
	const char *argv[] = {"escapement-serve",	  "--socket", cli->socket,
			      listen ? "--listen" : NULL, listen,     NULL};

	run_program(argv[0], argv);
	return cli_fail(CLI_FAILED, "escapement-serve: %s; it is in the same package",
			strerror(errno));
}

static int run_sysdump(struct cli *cli)
{
	const char *file = json_string_value(json_object_get(cli->args, "file"));
	char own[PATH_MAX] = "escapement";
	ssize_t bytes = readlink("/proc/self/exe", own, sizeof(own) - 1);
	const char *argv[] = {"escapement-sysdump",
			      "--socket",
			      cli->socket,
			      "--escapement",
			      own,
			      "--",
			      file,
			      NULL};

	if (bytes > 0)
		own[bytes] = '\0';
	run_program(argv[0], argv);
	return cli_fail(CLI_FAILED, "escapement-sysdump: %s; it is in the same package",
			strerror(errno));
}

/* --- all verbs --- */

static const struct command {
	const char *verb;
	int (*run)(struct cli *cli);
	void (*write)(FILE *out, const struct verb *verb, struct scope scope);
} commands[] = {
	{"help", .run = cli_help},	{"completion", .run = cli_completion},
	{"health", .run = cli_health},	{"version", .run = run_version},
	{"events", .run = cli_events},	{"clock wait", .run = run_clock_wait},
	{"top", .run = cli_top},	{"status", .write = write_status},
	{"qp", .write = cli_write_qps}, {"config show", .write = write_config},
	{"report", .run = cli_report},	{"metrics", .run = run_metrics},
	{"serve", .run = run_serve},	{"sysdump", .run = run_sysdump},
};

static const struct command *find_command(const struct verb *verb)
{
	static const struct command plain = {};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].verb, verb->name))
			return &commands[i];
	return &plain;
}

void cli_write(FILE *out, const struct verb *verb, const json_t *result, const json_t *args)
{
	const struct command *command = find_command(verb);
	struct scope scope = {result, args};

	if (command->write)
		command->write(out, verb, scope);
	else
		render_sections(out, verb->output, scope);
}

/*
 * By the daemon, or here when there is none. One that was killed may take a while to be gone, and
 * its socket accepts until then.
 */
static int run_either(struct cli *cli, json_t **result)
{
	char verb[64];
	int code;

	for (int i = 0;; i++) {
		int err = connect_daemon(cli);

		if (is_absent(err))
			return run_here(cli, result);
		if (err)
			return query_once(cli, result); /* says why not */
		cli->may_close = i < ENDING_TRIES;
		code = cli_query(cli, cli_request_verb(cli->verb, verb), cli_request_args(cli),
				 result);
		cli_close(cli);
		if (!cli->closed || !cli->may_close)
			return code;
		usleep(ENDING_TRY_US);
	}
}

static int run(struct cli *cli)
{
	const struct command *command = find_command(cli->verb);
	json_t *result = NULL;
	int code;

	if (command->run)
		return command->run(cli);
	if (json_object_get(cli->args, "fleet")) {
		code = wait_for_pairs(cli);
		if (code)
			return code;
	}
	if (cli->verb->run && json_object_get(cli->args, "from"))
		code = run_here(cli, &result);
	else if (cli->verb->place == VERB_EITHER)
		code = run_either(cli, &result);
	else
		code = cli->verb->place == VERB_HERE ? run_here(cli, &result)
						     : query_once(cli, &result);
	if (code)
		return code;
	code = show(cli, result);
	json_decref(result);
	return code;
}

int cli_main(int argc, char **argv)
{
	struct cli cli = {};
	int code;

	setlocale(LC_TIME, "");
	code = cli_parse(&cli, argc, argv);
	if (code < 0)
		code = run(&cli);
	json_decref(cli.args);
	if (fflush(stdout) || ferror(stdout)) {
		cli_fail(CLI_FAILED, "the output cannot be written: %s", strerror(errno));
		return code ? code : CLI_FAILED;
	}
	return code;
}
