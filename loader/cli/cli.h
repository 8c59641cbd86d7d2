/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: its arguments, and what is done with them. */
#ifndef ESC_CLI_H
#define ESC_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

#include "api/verbs.h"

/* Exit status. */
#define CLI_GOOD 0
#define CLI_FAILED 1
#define CLI_USAGE 2
#define CLI_NO_DAEMON 3
#define CLI_DENIED 4

enum cli_format { CLI_TEXT, CLI_JSON, CLI_PRETTY };

struct cli {
	enum cli_format format;
	const char *socket;
	const struct verb *verb;
	json_t *args; /* by their JSON keys, those for the command line alone included */
	int fd;	      /* the connection to the daemon, */
	FILE *in;     /* and what reads from it; NULL: none */
	unsigned int reply_seconds; /* that a reply may take; 0: the default */
	bool may_close;		    /* without a reply: that is no error */
	bool closed;		    /* it did */
};

/* The whole of a run. Returns the exit status; the reason of another than 0 was printed. */
int cli_main(int argc, char **argv);

/* Prints "escapement: ..." to stderr and returns @code. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- parse.c --- */

/* Reads the arguments. -1 to continue with the verb, else the exit status. */
int cli_parse(struct cli *cli, int argc, char **argv);
/* The value @text of @arg into @args, by its JSON key; false: it is not of its type or range. */
bool cli_put_value(json_t *args, const struct verb_arg *arg, const char *text);
/* The verb, and the arguments with `what` (new reference), that the daemon gets. */
const char *cli_request_verb(const struct verb *verb, char out[64]);
json_t *cli_request_args(const struct cli *cli);
/* "10min" (ago), "@1700000000", "2026-01-31", "2026-01-31T12:00:00[Z]", "12:00"; local but for Z.
 */
bool cli_parse_since(const char *text, uint64_t now_realtime_ns, uint64_t *since_ns);

/* --- commands.c --- */

/* Connects to the daemon. Returns an exit status; the reason of another than 0 was printed. */
int cli_open(struct cli *cli);
void cli_close(struct cli *cli);
/*
 * Sends a request; steals @args, which may be NULL. Returns an exit status; when it is CLI_GOOD,
 * *@result is a new reference, else the reason was printed.
 */
int cli_query(struct cli *cli, const char *verb, json_t *args, json_t **result);

/* The next reply of a stream, however long it takes; as cli_query(). */
int cli_next(struct cli *cli, json_t **result);

/* One value in the format of the command line, which is not CLI_TEXT. */
void cli_write_json(const struct cli *cli, const json_t *value);
/* The reply to a verb as text. @args may be NULL. */
void cli_write(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
/* The same on a connection of its own, without arguments. */
int cli_query_once(struct cli *cli, const char *verb, json_t **result);

/* --- health.c --- */

int cli_health(struct cli *cli);
/*
 * Why a host is not healthy, the critical reasons first: an array of {"severity", "what", "remedy",
 * "since_ns", "since_fabric_ns", "bound_ns", "for_ns"} (new reference). @findings: of `findings`,
 * or NULL: then it is not known since when.
 */
json_t *cli_health_reasons(const json_t *status, const json_t *findings, uint64_t clock_bound_ns,
			   bool critical_only);

/* --- events.c: the event log, as it is shown and followed --- */

int cli_events(struct cli *cli);
void cli_write_event(FILE *out, const json_t *event);
/* By the options of the verb: `kinds`, `severity`, `subject`. */
bool cli_event_matches(const json_t *args, const json_t *event);

/* --- report.c: an export of this host, and the page of exports --- */

int cli_report(struct cli *cli);

/* --- merge.c: the logs of several hosts in one order --- */

struct merged {
	json_t *event;
	const char *host;	/* of @event */
	uint64_t start, number; /* of its id */
	bool timed, shown;
	int64_t low_ns, high_ns; /* when it happened, fabric time; INT64_MIN, _MAX: not known */
	int64_t key_ns;		 /* by what it is sorted: the middle; INT64_MAX: nothing is known */
	uint64_t wall_ns;	 /* the latest CLOCK_REALTIME of its host until then */
	size_t not_ordered;	 /* shown events above it that may have been after it */
};

struct merge { /* all zero at first */
	struct merged *list;
	size_t count, room;
};

/* Adds the event of a line; false: it is none. */
bool merge_line(struct merge *merge, const char *line, size_t bytes);
void merge_sort(struct merge *merge);
/*
 * Of the sorted ones those that the options @args (cli_event_matches(), `since_ns`) show, and how
 * many above each are not ordered with it. Returns how many have any.
 */
size_t merge_count_not_ordered(struct merge *merge, const json_t *args);
/* Adds `not_ordered` and the ids of the nearest, `not_ordered_with`, to the event. */
void merge_put_not_ordered(const struct merge *merge, const struct merged *one);
void merge_free(struct merge *merge);

/* --- render.c: a reply as text, by the sections and columns of base/verb.h --- */

/* What keys are members of: an object, and those with an '@' the arguments, or NULL. */
struct scope {
	const json_t *object, *args;
};

/*
 * Names of processes and jobs have any bytes that their owner chose, and a terminal obeys control
 * characters: in each string of @value (NULL: none) they become "\x1b". @lines: newlines stay.
 */
void render_escape(json_t *value, bool lines);
/* @sections NULL: a line `key : value` for each member. */
void render_sections(FILE *out, const struct verb_section *sections, struct scope scope);
/* Which of @columns are in a live table, or in another. */
bool table_has(const struct column *column, bool live);
/*
 * The rows of @section as a table with columns as wide as they have to be, cut to @fit characters
 * a line (0: any). A live table has its headings without rows, too. Returns the number of rows.
 */
size_t table_write(FILE *out, const struct verb_section *section, struct scope scope,
		   const json_t *rows, size_t fit);

/* --- value.c: keys, conditions and templates of base/verb.h --- */

/* The value at a path, borrowed, or NULL. @bytes of @path are used. */
const json_t *value_at(struct scope scope, const char *path, size_t bytes);
/* False when it is missing, else appended to @out. */
bool value_write(FILE *out, struct scope scope, const char *key, size_t bytes,
		 enum column_format format);
/* NULL holds always. */
bool value_holds(struct scope scope, const char *condition);
/* The text of a template, malloc'd; "" when a value outside of <|...|> is missing. */
char *value_expand(struct scope scope, const char *template);

/* --- reference.c: the tables as help, as a part of escapement(1), as completion of shells --- */

int cli_help(struct cli *cli);
int cli_completion(struct cli *cli);
/* To stdout, in mdoc: a list of the verbs, for man/escapement.1. */
void cli_write_manual(void);
/* To stdout: the completion script for "bash" or "zsh". */
void cli_write_script(const char *shell);

/* --- schema.c: requests and replies of the verbs that only read, as a JSON schema --- */

void cli_write_schema(FILE *out);

/* --- top.c: `top` and `qp` --- */

struct top_view {
	unsigned int columns; /* fewer than 80 count as 80 */
	unsigned int lines;   /* 0: as many as there are */
	const char *sort;     /* "delay", "throughput", "loss" */
	uint64_t interval_ns; /* between two pages */
	const char *clock;    /* time of day, "" none */
	const char *hint;     /* the last line, "" none */
	json_t *trend;	      /* of the pages before, NULL: not shown */
	bool utf8;	      /* what the terminal shows */
};

int cli_top(struct cli *cli);
/* Completes the queue pairs of @result, which the daemon sorted. */
void top_page(FILE *out, json_t *result, const struct top_view *view);
void cli_write_qps(FILE *out, const struct verb *verb, struct scope scope);
/* Sets what is shown of a queue pair and not in the reply: `state`, `peer`, `owner`. */
void cli_complete_qp(json_t *qp);

/* --- trend.c: the delays of the last pages of `top` --- */

#define TREND_MOST 32

/*
 * @trend: an object, {} at first, with a list of 99th percentiles for each queue pair, null where
 * a page did not have it. Adds those of the first @shown of @qps; forgets what no page of these
 * has.
 */
void trend_add(json_t *trend, const json_t *qps, size_t shown);
/* The list of a queue pair, borrowed, or NULL. */
const json_t *trend_of(const json_t *trend, const json_t *qp);
/*
 * The newest @cells of @values (NULL: none) as bars, the newest at the right: the lowest is the
 * smallest of them, the highest the largest, or twice the smallest when that is more.
 */
void trend_write(FILE *out, const json_t *values, size_t cells, bool utf8);

#endif
