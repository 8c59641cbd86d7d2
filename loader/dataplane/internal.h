/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of dataplane/ share. */
#ifndef ESC_DATAPLANE_INTERNAL_H
#define ESC_DATAPLANE_INTERNAL_H

#include "attach.h"
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

struct locks;

/* --- port.c: one interface that the daemon serves --- */

struct port {
	const struct pins *pins; /* borrowed, as @events */
	struct events *events;
	char name[IF_NAMESIZE];
	enum fleet_plane plane;
	enum config_attach attach;
	enum config_tc tc;
	uint16_t probe_port;
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
	unsigned int slot;
	unsigned int ifindex; /* that we are attached to; 0: gone */
	bool up;
	struct esc_port record; /* as `ports` has it */
	char xdp_note[ATTACH_NOTE_BYTES];
	char tc_note[ATTACH_NOTE_BYTES];
	char lost_note[ATTACH_NOTE_BYTES]; /* detached by another program */
	uint64_t retry_local_ns;	   /* after a re-attach failed */
	uint16_t turn;			   /* that our XDP program waits for in `control` */
};

bool port_is_attached(const struct port *port);

/*
 * Attaches, or takes over, and writes `ports`. What was not attached before is
 * not attached after a failure.
 */
int port_attach(struct port *port, char **error);
/* Detaches all programs; @why ("off", "removed", ...) goes into the event. */
void port_detach(struct port *port, const char *why);
/* fq onto the interface, and off again: see qdisc.h. Off with port_detach() at the latest. */
int port_make_fq(struct port *port, char **error);
int port_drop_fq(struct port *port, char **error);
/* Follows the interface: gone, back, up, down, programs detached by others. */
void port_tick(struct port *port, bool off, uint64_t now_local_ns);
/* Fresh facts. @roce_packets: counted on the port so far. */
void port_describe(const struct port *port, uint64_t roce_packets, struct port_info *out);

/* --- dataplane.c, facts.c, report.c --- */

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

/* --- support.c: what the kernel supports --- */

/* True when libxdp's dispatcher can be had here; else @why gets one sentence. */
bool support_dispatcher(char *why, size_t why_bytes);

#endif
