/* SPDX-License-Identifier: BSD-2-Clause */
/* NIC failover in the configuration: the section `nic`, and an interface's `sibling` and `dummy`.
 */
#ifndef ESC_LOADER_CONFIG_NIC_H
#define ESC_LOADER_CONFIG_NIC_H

#include <stddef.h>

struct reading;

int config_nic_take(struct reading *reading);
int config_nic_take_interface(struct reading *reading, size_t i);

#endif
