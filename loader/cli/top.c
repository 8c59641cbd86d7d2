// SPDX-License-Identifier: BSD-2-Clause
/* `top`: pages of queue pairs on the terminal's alternate screen, until it is ended. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "cli.h"
#include "render.h"
#include "top.h"

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K\n"
#define CLEAR_BELOW "\033[J"
#define CONTROL_D 4
#define PLAIN_ROWS 20

#define HINT                                                                                       \
	"One-way delays of the last second, error bound ERR. Keys: d delay, t throughput, l "      \
	"loss, "                                                                                   \
	"q quit"

struct screen {
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

static void screen_enter(struct screen *screen)
{
	struct termios raw;

	screen->keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen->before);
	if (screen->keys) {
		raw = screen->before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	put_text(ENTER_SCREEN);
}

static void screen_leave(struct screen *screen)
{
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
	put_text(LEAVE_SCREEN);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
#define ENDING 3 /* the first of them end it */

static sigset_t first_signals(size_t count)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < count; i++)
		sigaddset(&set, signals[i]);
	return set;
}

/* Blocked but while it waits, so that none is missed between the test of a flag and the wait. */
static void screen_catch_signals(struct screen *screen)
{
	struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: reads end too */
	sigset_t all = first_signals(sizeof(signals) / sizeof(signals[0]));

	sigprocmask(SIG_BLOCK, &all, &screen->mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
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

void top_page(FILE *out, json_t *result, const struct top_view *view)
{
	unsigned int columns =
		view->columns > TOP_COLUMNS_LEAST ? view->columns : TOP_COLUMNS_LEAST;
	json_t *qps = json_object_get(result, "qps"), *qp;
	size_t rows = json_array_size(qps), room, timed = 0, i;
	struct table_shape shape = {.live = true, .fit = columns};
	char every[UNITS_TEXT_BYTES];

	room = view->lines > TOP_LINES_AROUND ? view->lines - TOP_LINES_AROUND : 1;
	if (view->lines && rows > room)
		rows = room;
	json_array_foreach (qps, i, qp) {
		cli_complete_qp(qp);
		timed += json_object_get(qp, "owd_ns") != NULL;
	}
	put_line(out, columns,
		 "top %s  by %s every %s; %llu queue pairs, %zu shown, %zu with delays",
		 view->clock, view->sort, units_duration(every, view->interval_ns),
		 (unsigned long long)json_count(result, "tracked"), rows, timed);
	shape.most = rows;
	table_write(out, verbs_named("top")->output->columns, (struct scope){result, NULL}, qps,
		    &shape);
	if (*view->hint)
		put_line(out, columns, "%s", view->hint);
}

struct top {
	const struct cli *cli;
	struct cli_client client;
	const char *sort;
	uint64_t interval_ns;
	struct screen screen;
};

static struct timespec interval(const struct top *top)
{
	return (struct timespec){.tv_sec = (time_t)(top->interval_ns / 1000000000),
				 .tv_nsec = (long)(top->interval_ns % 1000000000)};
}

static struct top_view view_of(const struct top *top, char clock[16])
{
	struct top_view view = {
		.sort = top->sort, .interval_ns = top->interval_ns, .clock = clock, .hint = ""};
	struct winsize size;
	time_t now = time(NULL);
	struct tm tm;

	strftime(clock, 16, "%H:%M:%S", localtime_r(&now, &tm));
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col) {
		view.columns = size.ws_col;
		view.lines = size.ws_row;
	}
	return view;
}

/* As many queue pairs as --top gives, @rows at most. */
static int query(struct top *top, size_t rows, json_t **result)
{
	json_t *args = cli_request_args(top->cli);

	if (json_object_get(args, "top") && json_count(args, "top") < rows)
		rows = json_count(args, "top");
	json_object_set_new(args, "sort", json_string(top->sort));
	json_object_set_new(args, "top", json_integer((json_int_t)rows));
	return cli_client_query(&top->client, "top", args, result);
}

/* Over the lines that are there, so that nothing flickers. */
static void paint(const char *page)
{
	fputs(HOME, stdout);
	for (; *page; page++) {
		if (*page != '\n')
			fputc(*page, stdout);
		else if (page[1])
			fputs(CLEAR_LINE, stdout);
		else
			fputs("\033[K", stdout); /* no scrolling at the last line */
	}
	put_text(CLEAR_BELOW);
}

/* --- live --- */

static int show_page(struct top *top)
{
	char clock[16], *page = NULL;
	struct top_view view = view_of(top, clock);
	sigset_t ending = first_signals(ENDING);
	size_t bytes;
	json_t *result;
	FILE *out;
	int code;

	view.hint = HINT;
	/* A daemon that does not reply must not keep it from being ended. */
	sigprocmask(SIG_UNBLOCK, &ending, NULL);
	code = query(top, view.lines > TOP_LINES_AROUND ? view.lines - TOP_LINES_AROUND : 1,
		     &result);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	if (code)
		return code;
	out = open_memstream(&page, &bytes);
	if (out) {
		top_page(out, result, &view);
		fclose(out);
		paint(page);
	}
	free(page);
	json_decref(result);
	return ferror(stdout) ? CLI_FAILED : CLI_GOOD;
}

/* Until the next page is due, a key or a signal. False: it is over. */
static bool wait_for_key(struct top *top)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct timespec left = interval(top);
	unsigned char key;
	int ready = ppoll(&input, 1, &left, &top->screen.mask);

	if (stop_signal)
		return false;
	if (pause_signal) {
		/* The shell has the terminal meanwhile. */
		pause_signal = 0;
		screen_leave(&top->screen);
		raise(SIGSTOP);
		screen_enter(&top->screen);
	}
	if (ready <= 0)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return false; /* the end of the input */
	if (key == 'd')
		top->sort = "delay";
	else if (key == 't')
		top->sort = "throughput";
	else if (key == 'l')
		top->sort = "loss";
	return key != 'q' && key != CONTROL_D;
}

static int show_live(struct top *top)
{
	int code;

	screen_catch_signals(&top->screen);
	screen_enter(&top->screen);
	do
		code = show_page(top);
	while (!code && !stop_signal && wait_for_key(top));
	screen_leave(&top->screen);
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
	char clock[16];
	struct top_view view = view_of(top, clock);
	json_t *result;
	int code = query(top, limited ? SIZE_MAX : PLAIN_ROWS, &result);

	if (code)
		return code;
	view.lines = 0;
	if (top->cli->format == CLI_TEXT)
		top_page(stdout, result, &view);
	else
		cli_write_json(top->cli, result);
	json_decref(result);
	return fflush(stdout) ? CLI_FAILED : CLI_GOOD;
}

int cli_top(const struct cli *cli)
{
	uint64_t interval_ns = json_count(cli->args, "interval_ns");
	uint64_t frames = json_count(cli->args, "frames");
	const char *sort = json_text(cli->args, "sort");
	bool text = cli->format == CLI_TEXT;
	struct top top = {.cli = cli,
			  .sort = *sort ? sort : "delay",
			  .interval_ns = interval_ns ? interval_ns : 1000000000};
	struct timespec pause = interval(&top);
	int code = cli_client_open(&top.client, cli->socket);

	if (code)
		return cli_client_explain(cli->socket, code);
	if (text && !frames && isatty(STDOUT_FILENO)) {
		code = show_live(&top);
	} else {
		code = print_page(&top);
		if (!code && !frames && text)
			fprintf(stderr, "escapement: the output is no terminal, so this is one "
					"page; --frames N prints more\n");
		for (uint64_t i = 1; !code && i < frames; i++) {
			nanosleep(&pause, NULL);
			if (text)
				putchar('\n');
			code = print_page(&top);
		}
	}
	cli_client_close(&top.client);
	return code;
}
