/* SPDX-License-Identifier: BSD-2-Clause */
/* Metrics of TCP at the edge. */
#ifndef ESC_LOADER_METRICS_TCP_H
#define ESC_LOADER_METRICS_TCP_H

#include <stdio.h>

#include "tcp.h"

void metrics_write_tcp(FILE *out, const struct tcppace_facts *facts);

#endif
