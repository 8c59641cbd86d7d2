/* SPDX-License-Identifier: BSD-2-Clause */
/* The sections that config/ itself has: those that more than one module reads. */
#ifndef ESC_LOADER_CONFIG_KEYS_H
#define ESC_LOADER_CONFIG_KEYS_H

#include "key.h"

extern const struct config_section config_top_section;
extern const struct config_section *const config_own_sections[]; /* the top level first */
extern const size_t config_own_section_count;

#endif
