/* SPDX-License-Identifier: BSD-2-Clause */
/* Candidate paths in escapement.prom. */
#ifndef ESC_LOADER_METRICS_PATHS_H
#define ESC_LOADER_METRICS_PATHS_H

#include <stdio.h>

#include "paths.h"

void metrics_write_paths(FILE *out, const struct paths_facts *facts);

#endif
