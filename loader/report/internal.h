/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the page share. */
#ifndef ESC_REPORT_INTERNAL_H
#define ESC_REPORT_INTERNAL_H

#include <stdbool.h>

#include "base/units.h"
#include "report.h"

/* More are left out, and the page says so. */
#define NICS_MAX 1024
#define TEXT_BYTES 160

struct report {
	json_t *exports; /* the newest of each host is its last */
	json_t *events;
	json_t *ids; /* of events that were added: {id: true} */
};

/* --- page.c: text and tables --- */

/* The head of a page, up to <body>; @title: plain text. */
void html_begin(FILE *out, const char *title);
/* UTC, of CLOCK_REALTIME. */
void html_time(FILE *out, uint64_t time_ns);
/* Any bytes as text of HTML or as the value of an attribute. */
void html_text(FILE *out, const char *text);
/* The same between a tag and its end: <td>TEXT</td>. */
void html_cell(FILE *out, const char *tag, const char *text);
/* A delay or bound with its unit; "-" when it is not known (not finite). */
void html_delay(FILE *out, double ns);
void html_share(FILE *out, double share);
/* Of an object's member: NAN when it is missing or no number. */
double json_number(const json_t *object, const char *key);
double json_number_of(const json_t *object, const char *member, const char *key);
/* "h1 10.0.0.1" without what is empty. Returns @out. */
const char *nic_name(char out[TEXT_BYTES], const char *host, const char *address);
/* The reply to @verb in an export or a sample, or NULL. */
const json_t *reply_of(const json_t *export, const char *verb);

/* --- scale: one for all delays, so that pages can be compared --- */

#define CLASSES 9
/* 0 .. CLASSES - 1; -1: not finite. */
int delay_class(double ns);
extern const char *const class_colours[CLASSES], *const class_names[CLASSES];

/* --- the parts --- */

int heat_write(const struct report *report, FILE *out);
int fabric_write(const struct report *report, FILE *out);
int history_write(const struct report *report, FILE *out);

#endif
