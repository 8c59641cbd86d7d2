/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `escapement failover dummy`: a dummy device that stands on a NIC, for queue pairs that are to
 * survive it. Done by the command line, without the daemon.
 */
#ifndef ESC_NIC_DUMMY_H
#define ESC_NIC_DUMMY_H

#include <jansson.h>

/* As struct verb has it; the result of `add` has the commands that were run. */
json_t *nic_dummy_add(const json_t *args, int *exit, char **error);
json_t *nic_dummy_remove(const json_t *args, int *exit, char **error);

#endif
