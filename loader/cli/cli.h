/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: what was given, and what is done with it. */
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
};

/* The whole of a run. Returns the exit status; the reason of another than 0 was printed. */
int cli_main(int argc, char **argv);

/* Reads the arguments. -1 to go on with cli_run(), else the exit status. */
int cli_parse(struct cli *cli, int argc, char **argv);
int cli_run(const struct cli *cli);

/* Prints "escapement: ..." to stderr and returns @code. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The arguments that the daemon gets, with `what`: a new reference. */
json_t *cli_request_args(const struct cli *cli);
/* The verb that the daemon gets. */
const char *cli_request_verb(const struct verb *verb, char out[64]);

/* "10min" (ago), "@1700000000", "2026-01-31", "2026-01-31T12:00:00[Z]", "12:00"; local but for Z.
 */
bool cli_parse_since(const char *text, uint64_t now_realtime_ns, uint64_t *since_ns);

/* --- the socket --- */

struct cli_client {
	const char *path;
	FILE *in;
	int fd;
};

/* 0, or -errno when no daemon replies at @path; prints nothing. */
int cli_client_open(struct cli_client *client, const char *path);
void cli_client_close(struct cli_client *client);
/* True when the reason for a failed open is that there is no daemon. */
bool cli_client_absent(int err);
/* Prints the reason for a failed open and returns the exit status. */
int cli_client_explain(const char *path, int err);

/*
 * Sends a request; steals @args, which may be NULL. Returns an exit status; when it is CLI_GOOD,
 * *@result is a new reference, else the reason was printed.
 */
int cli_client_query(struct cli_client *client, const char *verb, json_t *args, json_t **result);
/* The next reply of a stream, however long it takes. */
int cli_client_next(struct cli_client *client, json_t **result);

/* Open, query by the verb and its arguments, close. */
int cli_query(const struct cli *cli, json_t **result);

/* --- output --- */

/* One value in the format of the command line, which is not CLI_TEXT. */
void cli_write_json(const struct cli *cli, const json_t *value);
/* The reply to a verb as text. @args may be NULL. */
void cli_write(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
/* In the format of the command line. CLI_FAILED when stdout cannot be written. */
int cli_show(const struct cli *cli, const json_t *result);

/* Verbs, and the text of replies, that need more than their tables; registered in commands.c. */
int cli_help(const struct cli *cli);
int cli_completion(const struct cli *cli);
int cli_health(const struct cli *cli);
int cli_version(const struct cli *cli);
int cli_events(const struct cli *cli);
int cli_clock_wait(const struct cli *cli);
int cli_top(const struct cli *cli);
void cli_write_status(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
void cli_write_qps(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
void cli_write_config(FILE *out, const struct verb *verb, const json_t *result, const json_t *args);
void cli_write_event(FILE *out, const json_t *event);
/* The lines of `health` as an array of strings (new reference). */
json_t *cli_health_reasons(const json_t *status);

/* Sets what is shown of a queue pair and not in the reply: `state`, `peer`, `owner`. */
void cli_complete_qp(json_t *qp);

#endif
