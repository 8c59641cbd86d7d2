// SPDX-License-Identifier: BSD-2-Clause
/* `top`: pages of queue pairs on the terminal's alternate screen, until it is ended; and `qp`. */
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "cli.h"

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"
#define CONTROL_D 4
#define PLAIN_ROWS 20
#define TOP_COLUMNS_LEAST 80
#define TOP_LINES_AROUND 3 /* of text, beside the queue pairs */
#define NOTES_MOST 5
#define TREND_LEAST 8 /* bars */
#define TREND_HEADING "TREND"

#define HINT                                                                                       \
	"One-way delays of the last second, error bound ERR. Keys: d delay, t throughput, "        \
	"l loss, q quit"

/* --- what is shown of queue pairs beside their columns --- */

static bool is_sender(const json_t *qp)
{
	return !strcmp(json_text(qp, "direction"), "tx");
}

static const char *state_of(const json_t *qp)
{
	const json_t *owd = json_object_get(qp, "owd_ns"), *kind;
	const char *shared = NULL;
	size_t i;

	/* A diagnosis of the queue pair itself before those that it shares with others. */
	json_array_foreach (json_object_get(qp, "diagnoses"), i, kind) {
		const char *name = json_string_value(kind);

		if (name && !strncmp(name, "qp_", 3))
			return name + 3;
		if (!shared)
			shared = name;
	}
	if (shared)
		return shared;
	if (json_number_value(json_object_get(qp, "loss_per_second")) > 0)
		return "loss";
	if (owd)
		return json_count(owd, "above_threshold") ? "spiky" : "ok";
	if (!(json_number_value(json_object_get(qp, "bytes_per_second")) > 0))
		return "idle";
	return is_sender(qp) ? "no_feedback" : "rx";
}

void cli_complete_qp(json_t *qp)
{
	const char *job = json_text(qp, "job");

	json_put_text(qp, "state", state_of(qp));
	if (!*json_text(qp, "peer"))
		json_object_set(qp, "peer", json_object_get(qp, is_sender(qp) ? "dst" : "src"));
	if (*job)
		json_put_text(qp, "owner", job);
	else if (json_object_get(qp, "pid"))
		json_put(qp, "owner",
			 json_sprintf("%.60s[%llu]", json_text(qp, "comm"),
				      (unsigned long long)json_count(qp, "pid")));
}

/* --- lines below the table --- */

/* How many have this count above 0, and the one that has most. */
static void write_most(FILE *out, const json_t *qps, const char *key, const char *does,
		       const char *means)
{
	const json_t *worst = NULL;
	uint64_t most = 0;
	size_t i, flows = 0;
	json_t *qp;

	json_array_foreach (qps, i, qp) {
		uint64_t count = json_count(qp, key);

		flows += count > 0;
		if (count > most) {
			most = count;
			worst = qp;
		}
	}
	if (worst)
		fprintf(out, "%zu %s %s; most: %s>%s/%llu, %llu. %s\n", flows,
			flows == 1 ? "queue pair" : "queue pairs", does, json_text(worst, "src"),
			json_text(worst, "dst"), (unsigned long long)json_count(worst, "dest_qpn"),
			(unsigned long long)most, means);
}

/* Why senders have no delays, each reason once with the number of queue pairs. */
static void write_notes(FILE *out, const json_t *qps)
{
	json_t *counts = json_object(), *qp, *count;
	const char *note;
	size_t i, written = 0;

	json_array_foreach (qps, i, qp) {
		note = json_text(qp, "owd_note");
		if (is_sender(qp) && *note)
			json_put_count(counts, note, json_count(counts, note) + 1);
	}
	json_object_foreach (counts, note, count) {
		json_int_t flows = json_integer_value(count);

		if (written++ == NOTES_MOST) {
			fprintf(out, "And more without delays; `qp KEY` shows why.\n");
			break;
		}
		fprintf(out, "No delay of %" JSON_INTEGER_FORMAT " queue %s: %s.\n", flows,
			flows == 1 ? "pair" : "pairs", note);
	}
	json_decref(counts);
}

void cli_write_qps(FILE *out, const struct verb *verb, struct scope scope)
{
	const json_t *qps = json_object_get(scope.object, "qps");
	char *text = NULL;
	size_t bytes;
	FILE *lines = open_memstream(&text, &bytes);

	render_sections(out, verb->output, scope);
	if (!lines)
		return;
	write_most(lines, qps, "retransmits", "retransmitted", "Packets or ACKs were lost.");
	write_most(lines, qps, "psn_gaps", "had PSN gaps",
		   "Packets were lost or reordered before this host.");
	write_most(lines, qps, "duplicates", "received duplicates",
		   "The sender missed an ACK, or did not wait for it.");
	write_most(lines, qps, "rnr_naks", "saw receiver-not-ready",
		   "The receiving program posts too few buffers.");
	write_most(lines, qps, "ce", "carried CE marks", "A queue in the fabric was long.");
	write_notes(lines, qps);
	if (!fclose(lines) && bytes)
		fprintf(out, "\n%s", text);
	free(text);
}

/* --- the terminal --- */

struct top {
	struct cli *cli;
	struct top_view view;
	char clock[16];
	struct timespec interval;
	struct termios before;
	bool keys;     /* the terminal delivers each key at once */
	sigset_t mask; /* while it waits: signals are delivered only then */
};

static volatile sig_atomic_t stop_signal, pause_signal;

/* Of SIGWINCH it is enough that the wait ends. */
static void on_signal(int number)
{
	if (number == SIGTSTP)
		pause_signal = 1;
	else if (number != SIGWINCH)
		stop_signal = 1;
}

static void put_text(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

static void enter_screen(struct top *top)
{
	struct termios raw;

	top->keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &top->before);
	if (top->keys) {
		raw = top->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	put_text(ENTER_SCREEN);
}

static void leave_screen(const struct top *top)
{
	if (top->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
	put_text(LEAVE_SCREEN);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))
#define ENDING 3 /* the first of them end it */

static sigset_t first_signals(size_t count)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < count; i++)
		sigaddset(&set, signals[i]);
	return set;
}

/* --- one page --- */

/* A line of text, cut at the edge. */
__attribute__((format(printf, 3, 4))) static void put_line(FILE *out, unsigned int columns,
							   const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(out, "%.*s\n", (int)columns, text);
}

static size_t page_rows(const struct top_view *view)
{
	return view->lines > TOP_LINES_AROUND ? view->lines - TOP_LINES_AROUND : 1;
}

/* How many bars there is room for, right of the table. */
static size_t trend_cells(const struct top_view *view)
{
	size_t least = TOP_COLUMNS_LEAST + 1 + TREND_LEAST;

	if (!view->trend || view->columns < least)
		return 0;
	return MIN(view->columns - TOP_COLUMNS_LEAST - 1, TREND_MOST);
}

/* Of UTF-8. */
static size_t characters(const char *text, size_t bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < bytes; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* The lines of a table, each with the bars of its queue pair; the first is the heading. */
static void write_trend(FILE *out, const char *table, const json_t *qps,
			const struct top_view *view)
{
	size_t cells = trend_cells(view), width = view->columns - cells;

	for (size_t line = 0; *table; line++) {
		size_t bytes = strcspn(table, "\n"), used = characters(table, bytes);

		fprintf(out, "%.*s%*s", (int)bytes, table, used < width ? (int)(width - used) : 0,
			"");
		if (line)
			trend_write(out, trend_of(view->trend, json_array_get(qps, line - 1)),
				    cells, view->utf8);
		else
			fprintf(out, "%*s", (int)cells, TREND_HEADING);
		fputc('\n', out);
		table += bytes + !!table[bytes];
	}
}

static void write_table(FILE *out, const struct verb_section *section, struct scope scope,
			const json_t *qps, const struct top_view *view, size_t columns)
{
	char *text = NULL;
	size_t bytes;
	FILE *table;

	if (!trend_cells(view)) {
		table_write(out, section, scope, qps, columns);
		return;
	}
	table = open_memstream(&text, &bytes);
	if (!table)
		return;
	table_write(table, section, scope, qps, columns - trend_cells(view) - 1);
	if (!fclose(table))
		write_trend(out, text, qps, view);
	free(text);
}

void top_page(FILE *out, json_t *result, const struct top_view *view)
{
	unsigned int columns =
		view->columns > TOP_COLUMNS_LEAST ? view->columns : TOP_COLUMNS_LEAST;
	json_t *qps = json_object_get(result, "qps"), *qp;
	size_t rows = json_array_size(qps), timed = 0, i;
	struct verb_section section = *verbs_named("top")->output;
	char every[UNITS_TEXT_BYTES];

	if (view->lines && rows > page_rows(view))
		rows = page_rows(view);
	json_array_foreach (qps, i, qp) {
		cli_complete_qp(qp);
		timed += json_object_get(qp, "owd_ns") != NULL;
	}
	put_line(out, columns,
		 "top %s  by %s every %s; %llu queue pairs, %zu shown, %zu with delays",
		 view->clock, view->sort, units_duration(every, view->interval_ns),
		 (unsigned long long)json_count(result, "tracked"), rows, timed);
	section.most = rows;
	if (view->trend)
		trend_add(view->trend, qps, rows);
	write_table(out, &section, (struct scope){result, NULL}, qps, view, columns);
	if (*view->hint)
		put_line(out, columns, "%s", view->hint);
}

/* The time and the terminal's size, for the next page. */
static void update_view(struct top *top)
{
	struct winsize size;
	time_t now = time(NULL);
	struct tm tm;

	strftime(top->clock, sizeof(top->clock), "%H:%M:%S", localtime_r(&now, &tm));
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col) {
		top->view.columns = size.ws_col;
		top->view.lines = size.ws_row;
	}
}

/* As many queue pairs as --top gives, @rows at most. */
static int query(struct top *top, size_t rows, json_t **result)
{
	json_t *args = cli_request_args(top->cli);

	if (json_object_get(args, "top") && json_count(args, "top") < rows)
		rows = json_count(args, "top");
	json_object_set_new(args, "sort", json_string(top->view.sort));
	json_object_set_new(args, "top", json_integer((json_int_t)rows));
	return cli_query(top->cli, "top", args, result);
}

/* --- live --- */

static int show_page(struct top *top)
{
	sigset_t ending = first_signals(ENDING);
	char *page = NULL;
	size_t bytes;
	json_t *result;
	FILE *out;
	int code;

	update_view(top);
	/* A daemon that does not reply must not keep it from being ended. */
	sigprocmask(SIG_UNBLOCK, &ending, NULL);
	code = query(top, page_rows(&top->view), &result);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	if (code)
		return code;
	out = open_memstream(&page, &bytes);
	if (out) {
		top_page(out, result, &top->view);
		fclose(out);
		/* Over the lines that are there, so that nothing flickers. */
		fputs(HOME, stdout);
		for (const char *at = page; *at; at++) {
			if (*at != '\n')
				fputc(*at, stdout);
			else /* no scrolling at the last line */
				fputs(at[1] ? CLEAR_LINE "\n" : CLEAR_LINE, stdout);
		}
		put_text(CLEAR_BELOW);
	}
	free(page);
	json_decref(result);
	return ferror(stdout) ? CLI_FAILED : CLI_GOOD;
}

/* Until the next page is due, a key or a signal. False: it is over. */
static bool wait_for_key(struct top *top)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char key;
	int ready = ppoll(&input, 1, &top->interval, &top->mask);

	if (stop_signal)
		return false;
	if (pause_signal) {
		/* The shell has the terminal meanwhile. */
		pause_signal = 0;
		leave_screen(top);
		raise(SIGSTOP);
		enter_screen(top);
	}
	if (ready <= 0)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return false; /* the end of the input */
	if (key == 'd')
		top->view.sort = "delay";
	else if (key == 't')
		top->view.sort = "throughput";
	else if (key == 'l')
		top->view.sort = "loss";
	return key != 'q' && key != CONTROL_D;
}

static int show_live(struct top *top)
{
	struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: reads end too */
	sigset_t all = first_signals(SIGNALS);
	int code;

	/* Blocked but while it waits, so that none is missed between the test of a flag and the
	 * wait. */
	sigprocmask(SIG_BLOCK, &all, &top->mask);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &action, NULL);
	enter_screen(top);
	do
		code = show_page(top);
	while (!code && !stop_signal && wait_for_key(top));
	leave_screen(top);
	if (stop_signal)
		return CLI_GOOD;
	/* What was printed went with the screen. */
	return code ? cli_fail(code, "the daemon at %s does not reply any more", top->cli->socket)
		    : code;
}

/* --- printed --- */

static int print_page(struct top *top)
{
	bool limited = json_object_get(top->cli->args, "top") != NULL;
	json_t *result;
	int code;

	update_view(top);
	top->view.lines = 0;
	code = query(top, limited ? SIZE_MAX : PLAIN_ROWS, &result);
	if (code)
		return code;
	if (top->cli->format == CLI_TEXT)
		top_page(stdout, result, &top->view);
	else
		cli_write_json(top->cli, result);
	json_decref(result);
	return fflush(stdout) ? CLI_FAILED : CLI_GOOD;
}

int cli_top(struct cli *cli)
{
	uint64_t interval_ns = json_count(cli->args, "interval_ns");
	uint64_t frames = json_count(cli->args, "frames");
	const char *sort = json_text(cli->args, "sort");
	bool text = cli->format == CLI_TEXT;
	struct top top = {.cli = cli};
	int code = cli_open(cli);

	if (code)
		return code;
	if (!interval_ns)
		interval_ns = 1000000000;
	top.interval = (struct timespec){.tv_sec = (time_t)(interval_ns / 1000000000),
					 .tv_nsec = (long)(interval_ns % 1000000000)};
	top.view = (struct top_view){.sort = *sort ? sort : "delay",
				     .interval_ns = interval_ns,
				     .clock = top.clock,
				     .hint = ""};
	if (text && !frames && isatty(STDOUT_FILENO)) {
		top.view.hint = HINT;
		top.view.trend = json_object();
		top.view.utf8 = setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8");
		code = show_live(&top);
		json_decref(top.view.trend);
	} else {
		code = print_page(&top);
		if (!code && !frames && text)
			fprintf(stderr, "escapement: the output is no terminal, so this is one "
					"page; --frames N prints more\n");
		for (uint64_t i = 1; !code && i < frames; i++) {
			nanosleep(&top.interval, NULL);
			if (text)
				putchar('\n');
			code = print_page(&top);
		}
	}
	cli_close(cli);
	return code;
}
