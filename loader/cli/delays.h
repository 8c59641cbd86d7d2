/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays of queue pairs as text. */
#ifndef ESC_LOADER_CLI_DELAYS_H
#define ESC_LOADER_CLI_DELAYS_H

#include <stdbool.h>
#include <stdio.h>
#include <jansson.h>

#include "table.h"
#include "base/units.h"

/* "7.62", "19.7", "168": microseconds with three digits. */
const char *cli_us(char out[UNITS_TEXT_BYTES], double ns);

/* True when any of @qps has delays: the table then has this column. */
bool cli_any_delays(const json_t *qps);
#define CLI_DELAYS_HEADING "OWD50/99/MAX+-us"
void cli_cell_delays(struct cli_table *table, const json_t *qp);

/* Why senders among @qps have no delays, each reason once. */
void cli_write_delay_notes(FILE *out, const json_t *qps);
/* All about the delay of each sender among the first @most of @qps. */
void cli_write_delay_details(FILE *out, const json_t *qps, size_t most);
/* The answer to `qp --paths`. */
void cli_write_paths(FILE *out, const json_t *result);

#endif
