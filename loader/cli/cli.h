/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: what was asked for, and one function a verb. */
#ifndef ESC_LOADER_CLI_H
#define ESC_LOADER_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

#include "config/config.h"

/* Exit codes. */
#define CLI_GOOD 0
#define CLI_FAILED 1
#define CLI_USAGE 2
#define CLI_NO_DAEMON 3

#define CLI_TIMEOUT_NS 30000000000ull /* of `clock wait`, when none is given */

enum cli_format { CLI_TEXT, CLI_JSON, CLI_PRETTY };

struct cli {
	enum cli_format format;
	struct config_places places; /* socket, pin root and kill file in use */
	char **words;		     /* what follows the verb, options taken out */
	int word_count;
	/* Options of single verbs. */
	const char *sort;
	int64_t top; /* -1: not given */
	bool watch;
	double watch_seconds;
	bool paths;
	int64_t frames; /* -1: not given */
	bool follow;
	bool since_given;
	uint64_t since_ns; /* CLOCK_REALTIME */
	bool bound_given;
	uint64_t bound_ns;
	uint64_t timeout_ns;
	json_t *steer; /* options of `steer` and `pace` as the request has them; NULL: none */
};

/* Each returns the exit code and has said what went wrong. */
int cli_status(const struct cli *cli);
int cli_clock(const struct cli *cli);
int cli_peers(const struct cli *cli);
int cli_qp(const struct cli *cli);
int cli_top(const struct cli *cli);
int cli_events(const struct cli *cli);
int cli_mode(const struct cli *cli);
int cli_off(const struct cli *cli);
int cli_steer(const struct cli *cli);
int cli_paths(const struct cli *cli);
int cli_pace(const struct cli *cli);
/* An option of `pace` that `steer` has not. Returns an exit code. */
int cli_pace_option(struct cli *cli, const char *name, const char *value);
int cli_nic(const struct cli *cli);
int cli_nic_pair(const struct cli *cli);
/* An option of `steer` by its name. Returns an exit code. */
int cli_steer_option(struct cli *cli, const char *name, const char *value);
int cli_config(const struct cli *cli);
int cli_support(const struct cli *cli);
int cli_reload(const struct cli *cli);
int cli_version(const struct cli *cli);

/* Texts from the JSON of the verbs; written to @out. */
void cli_write_status(FILE *out, const json_t *status);
void cli_write_clock(FILE *out, const json_t *clock);
void cli_write_peers(FILE *out, const json_t *result);
void cli_write_qps(FILE *out, const json_t *result);
void cli_write_steer(FILE *out, const json_t *result);
void cli_write_lanes(FILE *out, const json_t *result);
void cli_write_plan(FILE *out, const json_t *result);
void cli_write_pace(FILE *out, const json_t *result);
void cli_write_nics(FILE *out, const json_t *nics);
/* One line; NULL: none. */
void cli_write_nics_short(FILE *out, const json_t *nics);
void cli_write_event(FILE *out, const json_t *event);
void cli_write_config(FILE *out, const json_t *config);
void cli_write_support(FILE *out, const json_t *support);

/* One value in the format that was asked for, which is not CLI_TEXT. */
void cli_write_json(const struct cli *cli, const json_t *value);

/* "10m" (ago), "@1700000000", "2026-01-31", "2026-01-31T12:00:00[Z]", "12:00"; local time without
 * Z. */
bool cli_parse_since(const char *text, uint64_t now_realtime_ns, uint64_t *since_ns);

/* Numbers and texts of an object; 0 and "" when absent. */
uint64_t cli_count(const json_t *object, const char *key);
const char *cli_text(const json_t *object, const char *key);

#endif
