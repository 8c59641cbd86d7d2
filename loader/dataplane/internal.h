/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of dataplane/ share for the capability. */
#ifndef ESC_DATAPLANE_INTERNAL_H
#define ESC_DATAPLANE_INTERNAL_H

#include "base/prom.h"
#include "core/core.h"
#include "dataplane.h"

#define DATAPLANE_EVENTS(X)                                                                        \
	X(PORT_ATTACHED, "attached", NOTICE,                                                       \
	  "Programs were attached to an interface, or taken over.")                                \
	X(PORT_DETACHED, "detached", NOTICE, "Programs were detached from an interface.")          \
	X(PORT_GONE, "interface_gone", WARNING, "An interface does not exist any more.")           \
	X(PORT_BACK, "interface_back", NOTICE, "An interface exists again.")                       \
	X(PORT_LINK_UP_EVENT, "link_up", NOTICE, "The link of an interface is up.")                \
	X(PORT_LINK_DOWN, "link_down", WARNING, "The link of an interface is down.")               \
	X(PORT_FQ_INSTALLED, "fq_installed", NOTICE, "An fq qdisc was put onto an interface.")     \
	X(PORT_FQ_REMOVED, "fq_removed", NOTICE, "The qdisc from before fq was put back.")
enum { DATAPLANE_EVENTS(EVENT_ENUM) };
extern const struct event_kind dataplane_events[];

extern const struct metric dataplane_metrics[];
void dataplane_write_metrics(void *self, FILE *out);
/* `interfaces` of `status` (new reference). */
json_t *dataplane_interfaces_json(const struct dataplane *dataplane, const struct core *core);
#endif
