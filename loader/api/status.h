/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs that belong to no capability: status, events, mode, off, config, features, reload. */
#ifndef ESC_API_STATUS_H
#define ESC_API_STATUS_H

#include "core/core.h"

/* self is the struct core. */
extern const struct verb_handler api_verb_handlers[];

#endif
