/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HTML report: what one or many hosts know, as one page without a script. It is made from
 * exports, JSON objects that a host writes (`escapement -j report`), and from their events.
 */
#ifndef ESC_REPORT_H
#define ESC_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * An export:
 *   {"format": "escapement-report", "version": 1, "time_ns": N, "host": "h1",
 *    "replies": {"status": {...}, "peers": {...}, ...},
 *    "samples": [{"time_ns": N, "replies": {"clock": {...}, "qp": {...}}}, ...]}
 * `replies` has what the verbs below reply without arguments; one that failed is missing. `samples`
 * are earlier ones, oldest first. Times are of CLOCK_REALTIME.
 */
#define REPORT_FORMAT "escapement-report"
#define REPORT_VERSION 1

struct report_verb {
	const char *verb; /* as it is sent */
	const char *flag; /* an argument that is true; NULL: none */
	bool sampled;	  /* in `samples` too */
};
extern const struct report_verb report_verbs[]; /* ended by {} */

/* Without replies (new reference). */
json_t *report_export_new(uint64_t time_ns);
/* Steals @reply, which may be NULL: then nothing is added. */
void report_export_put(json_t *export, const char *verb, json_t *reply);
/* The replies of @export become one of its samples, and it has the time @time_ns. */
void report_export_sample(json_t *export, uint64_t time_ns);

struct report;

struct report *report_new(void);
void report_free(struct report *report);
/*
 * An export, an event, or an array of these. -EINVAL with *@error, malloc'd, when @value is
 * something else. @value is borrowed.
 */
int report_add(struct report *report, const json_t *value, char **error);
/* All JSON values of a file, such as lines of events. *@error names @name and the line. */
int report_add_text(struct report *report, const char *name, const char *bytes, size_t size,
		    char **error);
/* The newest export of each host, borrowed, in the order of their names; *@list is malloc'd. */
size_t report_hosts(const struct report *report, const json_t ***list);
/* The page of an audit's report (`escapement -j audit`), of one host or merged. */
void report_write_audit(const json_t *audit, FILE *out);
/* The page. 0; -ENODATA: there is no export; -ENOMEM. */
int report_write(struct report *report, FILE *out);

#endif
