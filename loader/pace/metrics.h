/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing's families of escapement.prom. */
#ifndef ESC_LOADER_METRICS_PACE_H
#define ESC_LOADER_METRICS_PACE_H

#include <stdio.h>

#include "pace.h"

void metrics_write_pace(FILE *out, const struct pace_facts *facts);

#endif
