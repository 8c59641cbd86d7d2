// SPDX-License-Identifier: BSD-2-Clause
/* `top`: pages of queue pairs on the terminal's other screen, until somebody has seen enough. */
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
	"One-way delays of the last second, true within +-. d delay, t throughput, l loss, q "     \
	"quits"

struct screen {
	struct termios before;
	bool keys; /* the terminal's keys come one by one */
	bool on;
	sigset_t mask; /* while it waits: signals come then and only then */
};

/* Terminals are asked from signal handlers' flags alone. */
static volatile sig_atomic_t stop_asked, pause_asked;

static void on_stop(int number)
{
	(void)number;
	stop_asked = 1;
}

static void on_pause(int number)
{
	(void)number;
	pause_asked = 1;
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

/* Signals come while it waits, so that none is missed between a look at the flags and the wait. */
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

/* A daemon that does not answer is not to hold anybody. */
static void allow_ending(bool allow)
{
	sigset_t ending;

	fill_ending(&ending);
	sigprocmask(allow ? SIG_UNBLOCK : SIG_BLOCK, &ending, NULL);
}

/* Out of the way as long as the shell has the terminal. */
static void screen_pause(struct screen *screen)
{
	pause_asked = 0;
	screen_leave(screen);
	raise(SIGSTOP);
	screen_enter(screen);
}

/* --- one page --- */

static struct top_view view_of(const struct cli *cli, char clock[16])
{
	struct top_view view = {
		.sort = cli->sort ? cli->sort : "delay",
		.seconds = cli->watch_seconds,
		.clock = clock,
		.hint = "",
	};
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

static int ask(const struct cli *cli, struct cli_client *client, const char *sort, size_t rows,
	       json_t **result)
{
	json_t *args = json_object();

	if (cli->word_count)
		json_object_set_new(args, "key", json_string(cli->words[0]));
	json_object_set_new(args, "sort", json_string(sort));
	json_object_set_new(args, "top", json_integer(rows));
	return cli_client_ask(client, "qp", args, result);
}

/* Lines over what was there, so that nothing flickers. */
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
	if (cli->top >= 0 && (size_t)cli->top < rows)
		rows = (size_t)cli->top;
	allow_ending(true);
	code = ask(cli, client, sort, rows, &result);
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

/* False: enough was seen. */
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
static bool screen_wait(struct screen *screen, double seconds, const char **sort)
{
	struct timespec left = {.tv_sec = (time_t)seconds,
				.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char key;
	int ready = ppoll(&input, 1, &left, &screen->mask);

	if (stop_asked)
		return false;
	if (pause_asked)
		screen_pause(screen);
	if (ready <= 0)
		return true;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return false; /* nobody is there any more */
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
	while (!code && !stop_asked && screen_wait(&screen, cli->watch_seconds, &sort));
	screen_leave(&screen);
	if (stop_asked)
		return CLI_GOOD;
	if (code) /* what was said went with the screen */
		fprintf(stderr, "escapement: the daemon at %s does not answer any more\n",
			cli->places.socket);
	return code;
}

/* --- printed --- */

static int print_page(const struct cli *cli, struct cli_client *client, const char *sort)
{
	char clock[16];
	struct top_view view = view_of(cli, clock);
	json_t *result;
	int code = ask(cli, client, sort, cli->top >= 0 ? (size_t)cli->top : PLAIN_ROWS, &result);

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
		       int64_t frames)
{
	struct timespec pause = {
		.tv_sec = (time_t)cli->watch_seconds,
		.tv_nsec = (long)((cli->watch_seconds - (double)(time_t)cli->watch_seconds) * 1e9),
	};
	int code = CLI_GOOD;

	for (int64_t i = 0; !code && i < frames; i++) {
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
	bool live = cli->format == CLI_TEXT && cli->frames < 0 && isatty(STDOUT_FILENO);
	const char *sort = cli->sort ? cli->sort : "delay";
	struct cli shown = *cli;
	struct cli_client client;
	int err = cli_client_open(&client, cli->places.socket), code;

	if (err) {
		cli_client_explain(cli->places.socket, err);
		return CLI_NO_DAEMON;
	}
	if (!shown.watch_seconds)
		shown.watch_seconds = 1;
	if (live)
		code = show_live(&shown, &client, sort);
	else
		code = print_pages(&shown, &client, sort, cli->frames < 0 ? 1 : cli->frames);
	if (!code && !live && cli->frames < 0 && cli->format == CLI_TEXT)
		fprintf(stderr, "escapement: the output is no terminal, so this is one page; -n "
				"says how many\n");
	cli_client_close(&client);
	return code;
}
