/* SPDX-License-Identifier: BSD-2-Clause */
/* Our XDP program beside others' in libxdp's dispatcher. */
#ifndef ESC_LOADER_DISPATCHER_H
#define ESC_LOADER_DISPATCHER_H

#include <stdbool.h>

#include "attach.h"

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

/* Takes all programs of ours out of it. True when there was one. */
bool dispatcher_leave(const struct attach_target *target);
/* Program @id is in the dispatcher on @ifindex. */
bool dispatcher_holds(unsigned int ifindex, uint32_t id);

#endif
