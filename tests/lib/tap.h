/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TAP on stdout: one line for each test, diagnostics as comments. A program that knows how many
 * tests it has defines TAP_PLAN before it includes this; the plan is then printed first.
 */
#ifndef ESC_TESTS_TAP_H
#define ESC_TESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#ifndef TAP_PLAN
#define TAP_PLAN 0
#endif

static struct {
	int run;
	int failed;
} tap;

static inline int tap_next(void)
{
	if (TAP_PLAN && !tap.run)
		printf("1..%d\n", TAP_PLAN);
	return ++tap.run;
}

__attribute__((format(printf, 2, 3))) static inline bool tap_ok(bool good, const char *format, ...)
{
	int number = tap_next();
	va_list arguments;

	printf("%sok %d - ", good ? "" : "not ", number);
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
	int number = tap_next();

	printf("ok %d - %s # SKIP %s\n", number, name, why);
}

/* Ends the program: its exit code. */
static inline int tap_end(void)
{
	if (!TAP_PLAN)
		printf("1..%d\n", tap.run);
	return tap.failed || tap.run != (TAP_PLAN ? TAP_PLAN : tap.run);
}

/* The whole program cannot run here, and that is a failure: its exit code. */
static inline int tap_bail(const char *why)
{
	tap_ok(false, "%s", why);
	if (!TAP_PLAN)
		printf("1..%d\n", tap.run);
	return 1;
}

/* The whole program cannot run here, before any test: its exit code. */
static inline int tap_skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return 0;
}

#endif
