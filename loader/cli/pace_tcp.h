/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP's part of what `pace` prints. */
#ifndef ESC_LOADER_CLI_PACE_TCP_H
#define ESC_LOADER_CLI_PACE_TCP_H

#include <stdio.h>
#include <jansson.h>

void cli_write_pace_tcp(FILE *out, const json_t *tcp);

#endif
