/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs onto one interface and off again. What is attached already decides
 * what is done: ours is taken over, anybody else's is never disturbed.
 */
#ifndef ESC_LOADER_ATTACH_H
#define ESC_LOADER_ATTACH_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "maps/maps.h"
#include "object.h"

struct pins;

#define ATTACH_NOTE_BYTES 256

struct attach_target {
	const struct pins *pins;
	const char *name;
	unsigned int ifindex;
	unsigned int slot; /* in `ports` */
	enum config_attach attach;
	enum config_tc tc;
	/* What all programs of the interface are loaded with; turn and rx_in_tc are each one's. */
	struct object_constants constants;
};

/*
 * Brings the XDP program onto the interface, or takes over the one there.
 * @port is what `ports` said before; xdp_mode, xdp_via, xdp_program_id and
 * offloads_taken are set. With attach auto an interface that somebody else
 * holds is no error: xdp_mode is ESC_XDP_NONE and @note says why.
 */
int attach_xdp(const struct attach_target *target, struct esc_port *port,
	       char note[ATTACH_NOTE_BYTES], char **error);
void detach_xdp(const struct attach_target *target, struct esc_port *port);

/*
 * The same for the two tc programs. @port's xdp_mode is read: without XDP, tc
 * ingress counts what comes in.
 */
int attach_tc(const struct attach_target *target, struct esc_port *port,
	      char note[ATTACH_NOTE_BYTES], char **error);
void detach_tc(const struct attach_target *target, struct esc_port *port);

/* "" when all that @port says is still there; else a sentence. */
void attach_check(const struct attach_target *target, const struct esc_port *port,
		  char note[ATTACH_NOTE_BYTES]);

#endif
