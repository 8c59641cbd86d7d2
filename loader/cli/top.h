/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of `top`: from the reply to lines that fit. */
#ifndef ESC_CLI_TOP_H
#define ESC_CLI_TOP_H

#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

#define TOP_COLUMNS_LEAST 80
#define TOP_LINES_AROUND 3 /* of text, beside the queue pairs */

struct top_view {
	unsigned int columns; /* fewer than 80 count as 80 */
	unsigned int lines;   /* 0: as many as there are */
	const char *sort;     /* "delay", "throughput", "loss" */
	uint64_t interval_ns; /* between two pages */
	const char *clock;    /* time of day, "" none */
	const char *hint;     /* the last line, "" none */
};

/* Completes the queue pairs of @result, which the daemon sorted. */
void top_page(FILE *out, json_t *result, const struct top_view *view);

#endif
