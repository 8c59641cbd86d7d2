/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of dataplane/ share. */
#ifndef ESC_DATAPLANE_INTERNAL_H
#define ESC_DATAPLANE_INTERNAL_H

#include "base/prom.h"
#include "core/core.h"
#include "dataplane.h"
#include "port.h"

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

struct locks;

struct dataplane {
	struct pins *pins;
	struct core *core;
	struct locks *locks;
	uint32_t control_flags; /* as last written or seen here */
	dataplane_visibility_fn *visibility;
	void *visibility_context;
	bool off;
	unsigned int count;
	struct port ports[ESC_PORTS_MAX];
};

/* The port of that name; NULL: not served. */
const struct port *dataplane_find(const struct dataplane *dataplane, const char *name);
void dataplane_write_metrics(void *self, FILE *out);
/* `interfaces` of `status` (new reference). */
json_t *dataplane_interfaces_json(const struct dataplane *dataplane, const struct core *core);

/* --- preflight.c: what the kernel and our rights must be --- */

/* 0, or -errno and one sentence with the remedy. */
int preflight_check(char **error);

/* --- lock.c: one daemon on an interface --- */

/*
 * Claims every interface of @config in this network namespace; those that
 * @owned has already (NULL: none) are borrowed from it. On failure *@error
 * names the interface and the owner's pid.
 */
int locks_take(struct locks **out, const struct locks *owned, const struct config *config,
	       char **error);
/* @taken becomes the set that is owned; what *@owned had beyond it is released. */
void locks_replace(struct locks **owned, struct locks *taken);
/* Releases; what was borrowed stays with the set that it is of. */
void locks_free(struct locks *locks);

#endif
