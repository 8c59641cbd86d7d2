// SPDX-License-Identifier: BSD-2-Clause
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

static int debug_on;

/* The journal reads "<3>" as a priority; elsewhere it is a word. */
static void log_line(const char *priority, const char *word, const char *format, va_list arguments)
{
	bool journal = getenv("JOURNAL_STREAM");
	char *text, *rest, *line;

	if (vasprintf(&text, format, arguments) < 0)
		return;
	/* What is wrong with a configuration has a line each. */
	for (rest = text; (line = strsep(&rest, "\n"));)
		fprintf(stderr, "%s%s%s%s\n", journal ? priority : program_invocation_short_name,
			journal ? "" : ": ", journal ? "" : word, line);
	free(text);
}

#define LOG_FUNCTION(name, priority, word)                                                         \
	void name(const char *format, ...)                                                         \
	{                                                                                          \
		va_list arguments;                                                                 \
                                                                                                   \
		va_start(arguments, format);                                                       \
		log_line(priority, word, format, arguments);                                       \
		va_end(arguments);                                                                 \
	}

LOG_FUNCTION(log_error, SD_ERR, "error: ")
LOG_FUNCTION(log_warning, SD_WARNING, "warning: ")
LOG_FUNCTION(log_info, SD_INFO, "")

void log_debug(const char *format, ...)
{
	va_list arguments;

	if (!debug_on)
		return;
	va_start(arguments, format);
	log_line(SD_DEBUG, "debug: ", format, arguments);
	va_end(arguments);
}

void log_set_debug(int on)
{
	debug_on = on;
}
