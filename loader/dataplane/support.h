/* SPDX-License-Identifier: BSD-2-Clause */
/* Which kernel features the programs on interfaces have here. */
#ifndef ESC_DATAPLANE_SUPPORT_H
#define ESC_DATAPLANE_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Probes the running kernel, for `features`; see struct verb_set. */
void support_features(json_t *list);

/* True when libxdp's dispatcher can be had here; else @why gets one sentence. */
bool support_dispatcher(char *why, size_t why_bytes);

#endif
