/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover in the configuration: the section `nic`, and an interface's `sibling` and `dummy`.
 */
#ifndef ESC_LOADER_CONFIG_NIC_H
#define ESC_LOADER_CONFIG_NIC_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct reading;

int config_nic_take(struct reading *reading);
int config_nic_take_interface(struct reading *reading, size_t i);

/* What a dead NIC may have lost last is kept, and sent again by the other one. */
bool config_nic_resends(const struct config *config);

#endif
