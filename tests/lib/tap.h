/* SPDX-License-Identifier: BSD-2-Clause */
/* TAP on stdout: one line for each test, diagnostics as comments. */
#ifndef ESC_TESTS_BPF_TAP_H
#define ESC_TESTS_BPF_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static struct {
	int run;
	int failed;
} tap;

__attribute__((format(printf, 2, 3))) static inline bool tap_ok(bool good, const char *format, ...)
{
	va_list arguments;

	printf("%sok %d - ", good ? "" : "not ", ++tap.run);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
	tap.failed += !good;
	return good;
}

static inline void tap_skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap.run, name, why);
}

static inline int tap_end(void)
{
	printf("1..%d\n", tap.run);
	return tap.failed ? 1 : 0;
}

/* The whole program cannot run here. */
static inline int tap_bail(const char *why)
{
	printf("not ok %d - %s\n1..%d\n", tap.run + 1, why, tap.run + 1);
	return 1;
}

#endif
