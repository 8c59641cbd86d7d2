/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of `top`: from the JSON of `qp` to lines that fit. Pure. */
#ifndef ESC_LOADER_CLI_TOP_PAGE_H
#define ESC_LOADER_CLI_TOP_PAGE_H

#include <stdio.h>
#include <jansson.h>

#define TOP_COLUMNS_LEAST 80
#define TOP_LINES_AROUND 3 /* of text, beside the queue pairs */

struct top_view {
	unsigned int columns; /* fewer than 80 count as 80 */
	unsigned int lines;   /* 0: as many as there are */
	const char *sort;     /* "delay", "throughput", "loss" */
	double seconds;	      /* between two pages */
	const char *clock;    /* time of day, "" none */
	const char *hint;     /* last line, "" none */
};

/* Lines of at most view->columns, each with its newline; plain ASCII, no control characters. */
void top_page(FILE *out, const json_t *result, const struct top_view *view);

/* What is to be said of one queue pair in a word: "ok", "slow", "loss", "blind", "idle", "rx". */
const char *top_state(const json_t *qp);
/* "7.62u", "19.7u", "168u", "16.8m", "2.50s": at most five characters for less than 1000 s. */
const char *top_delay(char out[16], double ns);

#endif
