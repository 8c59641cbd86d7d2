/* SPDX-License-Identifier: BSD-2-Clause */
/* One interface that the daemon serves. */
#ifndef ESC_LOADER_PORT_H
#define ESC_LOADER_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "attach.h"
#include "dataplane.h"

struct events;
struct pins;

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

#endif
