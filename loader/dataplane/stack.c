// SPDX-License-Identifier: BSD-2-Clause
/* Interfaces that are served and above one another: a packet of both passes the programs of both.
 */
#include "internal.h"

#include <string.h>

#include "base/units.h"
#include "net/rtnl.h"

void stack_watch(struct port *ports, unsigned int count)
{
	struct link_chain down[ESC_PORTS_MAX], up[ESC_PORTS_MAX];
	char below[PORT_BELOW_BYTES];

	for (unsigned int i = 0; i < count; i++) {
		rtnl_chain(ports[i].ifindex, false, &down[i]);
		rtnl_chain(ports[i].ifindex, true, &up[i]);
	}
	for (unsigned int i = 0; i < count; i++) {
		below[0] = '\0';
		for (unsigned int j = 0; j < count; j++)
			if (i != j && link_chains_meet(&down[i], &up[j]))
				text_append(below, sizeof(below), ", ", ports[j].name);
		if (!strcmp(below, ports[i].below))
			continue;
		memcpy(ports[i].below, below, sizeof(below));
		port_report_stacked(&ports[i]);
	}
}
