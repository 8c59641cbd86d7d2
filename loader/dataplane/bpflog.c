// SPDX-License-Identifier: BSD-2-Clause
#include "bpflog.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xdp/libxdp.h>

#include "base/log.h"

static char bpflog_warning[256];

static void bpflog_line(const char *library, int warning, const char *format, va_list arguments)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	/* libbpf guesses at memlock for every EPERM; the guess is wrong here. */
	if (warning && !strstr(text, "ulimit -l"))
		snprintf(bpflog_warning, sizeof(bpflog_warning), "%.255s", text);
	log_debug("%s: %s", library, text);
}

static int bpflog_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	bpflog_line("libbpf", level == LIBBPF_WARN, format, arguments);
	return 0;
}

static int bpflog_libxdp(enum libxdp_print_level level, const char *format, va_list arguments)
{
	bpflog_line("libxdp", level == LIBXDP_WARN, format, arguments);
	return 0;
}

void bpflog_install(void)
{
	libbpf_set_print(bpflog_libbpf);
	libxdp_set_print(bpflog_libxdp);
}

const char *bpflog_last(void)
{
	return bpflog_warning;
}

void bpflog_clear(void)
{
	bpflog_warning[0] = '\0';
}
