/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs onto one interface and off again. A program of ours that is attached is replaced; one
 * of another owner is left as it is.
 */
#ifndef ESC_LOADER_ATTACH_H
#define ESC_LOADER_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "maps/maps.h"
#include "object.h"

struct bpf_tc_hook;
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
 * Attaches the XDP program, or replaces the one of ours that is attached. @port: as `ports` has
 * it; xdp_mode, xdp_via, xdp_program_id and offloads_taken are set. With attach auto an interface
 * with a program of another owner is no error: xdp_mode is ESC_XDP_NONE and @note says why.
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
/* libbpf's handle of a clsact hook; @point: of enum bpf_tc_attach_point, one or both. */
void clsact_hook(unsigned int ifindex, int point, struct bpf_tc_hook *out);

/* "" when all that @port has recorded is still attached; else a sentence. */
void attach_check(const struct attach_target *target, const struct esc_port *port,
		  char note[ATTACH_NOTE_BYTES]);

/* --- what is attached --- */

struct xdp_attached {
	uint32_t program_id; /* 0: none */
	enum esc_xdp_mode mode;
	char name[16];
};

int xdp_query(unsigned int ifindex, struct xdp_attached *out);
/* Program @id is called @name and uses the maps of @pins. */
bool program_is_ours(const struct pins *pins, uint32_t id, const char *name);

/* --- libxdp's dispatcher, in which programs of several owners run --- */

/* The interface runs a dispatcher of libxdp's that this process can work with. */
bool dispatcher_is_there(unsigned int ifindex);
/* Joins, or makes, the dispatcher on an interface where we are not yet. */
int dispatcher_join(const struct attach_target *target, enum esc_xdp_mode mode,
		    struct esc_port *port, char **error);
/*
 * Our program is in the dispatcher: keeps it when it is the one we would load,
 * else puts ours in its place without a packet missed or counted twice. Also
 * finishes what a daemon that died on the way left. 1: done; 0: not there.
 */
int dispatcher_take_over(const struct attach_target *target, struct esc_port *port, char **error);
/* Takes all programs of ours out of it. */
void dispatcher_leave(const struct attach_target *target);

#endif
