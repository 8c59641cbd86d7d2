// SPDX-License-Identifier: BSD-2-Clause
/* `top`: pages of queue pairs on the terminal's alternate screen, until it is ended. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "client.h"
#include "top_page.h"

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
	bool keys; /* the terminal delivers each key at once */
	bool on;
	sigset_t mask; /* while it waits: signals are delivered only then */
};

static volatile sig_atomic_t stop_signal, pause_signal;

static void on_stop(int number)
{
	(void)number;
	stop_signal = 1;
}

static void on_pause(int number)
{
	(void)number;
	pause_signal = 1;
}

static void on_resize(int number)
{
	(void)number; /* it is enough that the wait ends */
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
	screen->on = true;
}

static void screen_leave(struct screen *screen)
{
	if (!screen->on)
		return;
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
	put_text(LEAVE_SCREEN);
	screen->on = false;
}

static void catch_signal(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART: reads end too */

	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

static void fill_ending(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
}

/* Blocked but while it waits, so that none is missed between the test of a flag and the wait. */
static void screen_catch_signals(struct screen *screen)
{
	sigset_t later;

	fill_ending(&later);
	sigaddset(&later, SIGTSTP);
	sigaddset(&later, SIGWINCH);
	sigprocmask(SIG_BLOCK, &later, &screen->mask);
	catch_signal(SIGINT, on_stop);
	catch_signal(SIGTERM, on_stop);
	catch_signal(SIGHUP, on_stop);
	catch_signal(SIGTSTP, on_pause);
	catch_signal(SIGWINCH, on_resize);
}

/* A daemon that does not reply must not keep it from being ended. */
static void allow_ending(bool allow)
{
	sigset_t ending;

	fill_ending(&ending);
	sigprocmask(allow ? SIG_UNBLOCK : SIG_BLOCK, &ending, NULL);
}

/* The shell has the terminal meanwhile. */
static void screen_pause(struct screen *screen)
{
	pause_signal = 0;
	screen_leave(screen);
	raise(SIGSTOP);
	screen_enter(screen);
}

/* --- one page --- */

static uint64_t interval_ns(const struct cli *cli)
{
	return json_object_get(cli->args, "interval_ns") ? cli_count(cli->args, "interval_ns")
							 : 1000000000;
}

/* The rows that were asked for, @most at most. */
static size_t row_count(const struct cli *cli, size_t most)
{
	const json_t *top = json_object_get(cli->args, "top");

	return top && cli_count(cli->args, "top") < most ? cli_count(cli->args, "top") : most;
}

static struct top_view view_of(const struct cli *cli, char clock[16])
{
	struct top_view view = {.clock = clock, .hint = "", .interval_ns = interval_ns(cli)};
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

static int query(const struct cli *cli, struct cli_client *client, const char *sort, size_t rows,
		 json_t **result)
{
	json_t *args = cli_request_args(cli);

	json_object_set_new(args, "sort", json_string(sort));
	json_object_set_new(args, "top", json_integer(rows));
	return cli_client_query(client, "top", args, result);
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

static int show_page(const struct cli *cli, struct cli_client *client, const char *sort)
{
	char clock[16], *page = NULL;
	struct top_view view = view_of(cli, clock);
	size_t bytes, rows;
	json_t *result;
	FILE *out;
	int code;

	view.sort = sort;
	view.hint = HINT;
	rows = view.lines > TOP_LINES_AROUND ? view.lines - TOP_LINES_AROUND : 1;
	allow_ending(true);
	code = query(cli, client, sort, row_count(cli, rows), &result);
	allow_ending(false);
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

/* --- live --- */

/* False: it is over. */
static bool take_key(int key, const char **sort)
{
	if (key == 'd')
		*sort = "delay";
	else if (key == 't')
		*sort = "throughput";
	else if (key == 'l')
		*sort = "loss";
	return key != 'q' && key != CONTROL_D;
}

/* Until the next page is due, a key or a signal. False: it is over. */
static bool screen_wait(struct screen *screen, uint64_t ns, const char **sort)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char key;
	int ready = ppoll(&input, 1, &left, &screen->mask);

	if (stop_signal)
		return false;
	if (pause_signal)
		screen_pause(screen);
	if (ready <= 0)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return false; /* the end of the input */
	return take_key(key, sort);
}

static int show_live(const struct cli *cli, struct cli_client *client, const char *sort)
{
	struct screen screen = {};
	int code;

	screen_catch_signals(&screen);
	screen_enter(&screen);
	do
		code = show_page(cli, client, sort);
	while (!code && !stop_signal && screen_wait(&screen, interval_ns(cli), &sort));
	screen_leave(&screen);
	if (stop_signal)
		return CLI_GOOD;
	/* What was printed went with the screen. */
	return code ? cli_fail(code, "the daemon at %s does not reply any more", cli->socket)
		    : code;
}

/* --- printed --- */

static int print_page(const struct cli *cli, struct cli_client *client, const char *sort)
{
	bool all = json_object_get(cli->args, "top") != NULL;
	char clock[16];
	struct top_view view = view_of(cli, clock);
	json_t *result;
	int code = query(cli, client, sort, row_count(cli, all ? SIZE_MAX : PLAIN_ROWS), &result);

	if (code)
		return code;
	view.sort = sort;
	view.lines = 0;
	if (cli->format == CLI_TEXT)
		top_page(stdout, result, &view);
	else
		cli_write_json(cli, result);
	json_decref(result);
	return fflush(stdout) ? CLI_FAILED : CLI_GOOD;
}

static int print_pages(const struct cli *cli, struct cli_client *client, const char *sort,
		       uint64_t frames)
{
	uint64_t ns = interval_ns(cli);
	struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000)};
	int code = CLI_GOOD;

	for (uint64_t i = 0; !code && i < frames; i++) {
		if (i) {
			nanosleep(&pause, NULL);
			if (cli->format == CLI_TEXT)
				putchar('\n');
		}
		code = print_page(cli, client, sort);
	}
	return code;
}

int cli_top(const struct cli *cli)
{
	uint64_t frames = cli_count(cli->args, "frames");
	bool live = cli->format == CLI_TEXT && !frames && isatty(STDOUT_FILENO);
	const char *sort = *cli_text(cli->args, "sort") ? cli_text(cli->args, "sort") : "delay";
	struct cli_client client;
	int err = cli_client_open(&client, cli->socket), code;

	if (err)
		return cli_client_explain(cli->socket, err);
	if (live)
		code = show_live(cli, &client, sort);
	else
		code = print_pages(cli, &client, sort, frames ? frames : 1);
	if (!code && !live && !frames && cli->format == CLI_TEXT)
		fprintf(stderr, "escapement: the output is no terminal, so this is one page; "
				"--frames N prints more\n");
	cli_client_close(&client);
	return code;
}
