/* SPDX-License-Identifier: BSD-2-Clause */
/* What the command line does itself where no daemon replies; see struct verb. */
#ifndef ESC_API_LOCAL_H
#define ESC_API_LOCAL_H

#include <jansson.h>

json_t *local_off(const json_t *args, int *exit, char **error);
json_t *local_features(const json_t *args, int *exit, char **error);
json_t *local_version(const json_t *args, int *exit, char **error);

#endif
