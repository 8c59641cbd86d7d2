// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"
#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <systemd/sd-daemon.h>

static bool debug_on;
static uint64_t lost;  /* lines, since the last one that was written */
static bool line_open; /* it was cut */

/* The journal reads "<3>" as a priority; elsewhere a prefix stands for it. */
static const struct {
	const char *priority, *prefix;
} levels[] = {
	[LOG_LEVEL_ERROR] = {SD_ERR, "error: "},
	[LOG_LEVEL_WARNING] = {SD_WARNING, "warning: "},
	[LOG_LEVEL_INFO] = {SD_INFO, ""},
	[LOG_LEVEL_DEBUG] = {SD_DEBUG, "debug: "},
};

/*
 * stderr is a stream of the journal, or a pipe: when nothing reads it a line is lost, since waiting
 * would stop the loop. Not by stdio, which waits.
 */
static bool put(const char *text, size_t bytes)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	ssize_t done;

	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
		return false;
	done = send(STDERR_FILENO, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done < 0 && errno == ENOTSOCK)
		done = write(STDERR_FILENO, text, bytes);
	if (done > 0)
		line_open = text[done - 1] != '\n';
	return done == (ssize_t)bytes;
}

static void put_line(enum log_level level, const char *line)
{
	bool journal = getenv("JOURNAL_STREAM");
	char *text;
	int bytes = asprintf(&text, "%s%s%s%s%s\n", line_open ? "\n" : "",
			     journal ? levels[level].priority : program_invocation_short_name,
			     journal ? "" : ": ", journal ? "" : levels[level].prefix, line);

	if (bytes < 0 || !put(text, (size_t)bytes))
		__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
	if (bytes >= 0)
		free(text);
}

/* Before the first line that is taken again. */
static void report_lost(void)
{
	uint64_t count = __atomic_exchange_n(&lost, 0, __ATOMIC_RELAXED);
	char text[80];

	if (!count)
		return;
	snprintf(text, sizeof(text), "%llu lines before this one were lost: nothing read them",
		 (unsigned long long)count);
	put_line(LOG_LEVEL_WARNING, text);
	/* This one was lost, too: the others still are to be reported. */
	if (__atomic_load_n(&lost, __ATOMIC_RELAXED))
		__atomic_fetch_add(&lost, count - 1, __ATOMIC_RELAXED);
}

void log_at(enum log_level level, const char *format, ...)
{
	char *text, *rest, *line;
	va_list arguments;
	int bytes;

	if (level == LOG_LEVEL_DEBUG && !debug_on)
		return;
	va_start(arguments, format);
	bytes = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (bytes < 0)
		return;
	/* What is wrong with a configuration has a line each. */
	report_lost();
	for (rest = text; (line = strsep(&rest, "\n"));)
		put_line(level, line);
	free(text);
}

void log_set_debug(bool on)
{
	debug_on = on;
}

void explain_text(char **error, const char *format, ...)
{
	va_list arguments;

	if (!error)
		return;
	free(*error);
	va_start(arguments, format);
	if (vasprintf(error, format, arguments) < 0)
		*error = NULL;
	va_end(arguments);
}
