/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering's families of escapement.prom. */
#ifndef ESC_LOADER_METRICS_STEER_H
#define ESC_LOADER_METRICS_STEER_H

#include <stdio.h>

#include "paths/paths.h"
#include "steer.h"

/* Paths that failed over and came back are changes too. */
void metrics_write_steer(FILE *out, const struct steer_facts *facts,
			 const struct paths *paths);

#endif
