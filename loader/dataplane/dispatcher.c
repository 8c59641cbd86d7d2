// SPDX-License-Identifier: BSD-2-Clause
/* Our XDP program beside others' in libxdp's dispatcher. */
#include "internal.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xdp/libxdp.h>

#include "base/explain.h"
#include "base/log.h"

#define DISPATCHER_PROGRAMS_MAX 10 /* MAX_DISPATCHER_ACTIONS of libxdp */

static struct xdp_multiprog *dispatcher_get(unsigned int ifindex)
{
	struct xdp_multiprog *multi = xdp_multiprog__get_from_ifindex(ifindex);

	if (!multi || libxdp_get_error(multi))
		return NULL;
	if (xdp_multiprog__is_legacy(multi)) {
		xdp_multiprog__close(multi);
		return NULL;
	}
	return multi;
}

bool dispatcher_is_there(unsigned int ifindex)
{
	struct xdp_multiprog *multi = dispatcher_get(ifindex);

	xdp_multiprog__close(multi);
	return multi != NULL;
}

/* Ids of our programs in the dispatcher, in the order that they run. */
static size_t dispatcher_list_ours(const struct port *port, uint32_t ids[DISPATCHER_PROGRAMS_MAX])
{
	struct xdp_multiprog *multi = dispatcher_get(port->ifindex);
	struct xdp_program *program = NULL;
	size_t count = 0;

	while (multi && count < DISPATCHER_PROGRAMS_MAX &&
	       (program = xdp_multiprog__next_prog(program, multi)))
		if (program_is_ours(port->pins, xdp_program__id(program), ESC_PROGRAM_XDP))
			ids[count++] = xdp_program__id(program);
	xdp_multiprog__close(multi);
	return count;
}

void dispatcher_order(const struct port *port, struct port_order *order)
{
	struct xdp_multiprog *multi = dispatcher_get(port->ifindex);
	struct xdp_program *program = NULL;
	uint32_t id;

	while (multi && (program = xdp_multiprog__next_prog(program, multi))) {
		id = xdp_program__id(program);
		if (program_is_ours(port->pins, id, ESC_PROGRAM_XDP))
			break;
		order_add(order, id, ORDER_XDP);
	}
	xdp_multiprog__close(multi);
}

static bool id_is_among(uint32_t id, const uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static void dispatcher_detach(unsigned int ifindex, uint32_t id)
{
	struct xdp_program *program = xdp_program__from_id(id);
	int err;

	if (libxdp_get_error(program))
		return;
	err = xdp_program__detach(program, ifindex, XDP_MODE_UNSPEC, 0);
	if (err)
		log_warning("XDP program %u cannot be taken out of the dispatcher: %s", id,
			    strerror(-err));
	xdp_program__close(program);
}

bool dispatcher_leave(const struct port *port)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	size_t count = dispatcher_list_ours(port, ids);

	for (size_t i = 0; i < count; i++)
		dispatcher_detach(port->ifindex, ids[i]);
	return !count || !dispatcher_list_ours(port, ids);
}

/* --- turns: see struct esc_control --- */

static uint16_t turn_read(const struct port *port)
{
	return __atomic_load_n(&port->pins->control->xdp_handover[port->slot], __ATOMIC_ACQUIRE);
}

/*
 * The successor's `control` first: it counts from PASS on only what the incumbent, which goes on
 * to announce, has not. An incumbent of another release may have a `control` of its own.
 */
static void turn_write(const struct port *port, uint16_t turn)
{
	uint16_t *old = port->pins->old_handover;

	__atomic_store_n(&port->pins->control->xdp_handover[port->slot], turn, __ATOMIC_RELEASE);
	upgrade_wait_grace_period();
	if (!old)
		return;
	__atomic_store_n(&old[port->slot], turn, __ATOMIC_RELEASE);
	upgrade_wait_grace_period();
}

/* Neither `xdp_counted` nor `port_counts` is shared: at most a packet per CPU is miscounted. */
static void turn_jump(const struct port *port, uint16_t turn)
{
	uint16_t *old = port->pins->old_handover;

	__atomic_store_n(&old[port->slot], turn, __ATOMIC_RELEASE);
	turn_write(port, turn);
}

/* Left at 1 by programs that did not write it in PASS; no program reads it now. */
static void turn_clear_counted(const struct port *port)
{
	int cpus = libbpf_num_possible_cpus();
	struct esc_xdp_counted *zeros = cpus > 0 ? calloc(cpus, sizeof(*zeros)) : NULL;

	if (zeros)
		bpf_map_update_elem(pins_map_fd(port->pins, "xdp_counted"), &port->slot, zeros,
				    BPF_ANY);
	free(zeros);
}

/* --- joining --- */

struct dispatcher_attach {
	struct xdp_program *program;
	int ifindex;
	enum xdp_attach_mode mode;
};

/* It loads the program, too. */
static int attach_program(void *context)
{
	const struct dispatcher_attach *attach = context;

	return xdp_program__attach(attach->program, attach->ifindex, attach->mode, 0);
}

/* Loads an instance with @turn into the dispatcher; its id, or an error. */
static int dispatcher_add(const struct port *port, enum esc_xdp_mode mode, uint16_t turn,
			  uint32_t *id, char **error)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	struct dispatcher_attach attach;
	struct xdp_program *program;
	struct object *object;
	int err;

	err = object_open(&object, OBJECT_XDP, port, turn, error);
	if (err)
		return err;
	program = xdp_program__from_bpf_obj(object->bpf, bpf_program__section_name(object->xdp));
	err = libxdp_get_error(program);
	if (err)
		goto out;
	/*
	 * libbpf sets the flag of section xdp.frags only when it loads, and libxdp reads it before:
	 * a dispatcher made without it loses every frame of several buffers once the MTU grows.
	 */
	err = xdp_program__set_xdp_frags_support(program, true);
	if (err)
		log_debug("%s: libxdp takes no multi-buffer program: %s", port->name,
			  strerror(-err));
	bpflog_clear();
	attach = (struct dispatcher_attach){
		.program = program,
		.ifindex = port->ifindex,
		.mode = mode == ESC_XDP_SKB ? XDP_MODE_SKB : XDP_MODE_NATIVE,
	};
	err = core_run(port->core, attach_program, &attach);
	if (!err) {
		*id = xdp_program__id(program);
		/* libxdp may have fallen back to a program without a dispatcher. */
		if (!id_is_among(*id, ids, dispatcher_list_ours(port, ids))) {
			xdp_program__detach(program, port->ifindex, XDP_MODE_UNSPEC, 0);
			err = -EOPNOTSUPP;
		}
	}
	xdp_program__close(program);
out:
	if (err)
		explain(error, err, "libxdp: %s%s%s", strerror(-err), bpflog_last()[0] ? ": " : "",
			bpflog_last());
	object_close(object);
	return err;
}

int dispatcher_join(struct port *port, enum esc_xdp_mode mode, char **error)
{
	uint32_t id;
	int err;

	turn_write(port, turn_read(port) & ~ESC_HANDOVER_PHASE);
	err = dispatcher_add(port, mode, turn_read(port), &id, error);
	if (err)
		return err;
	port->record.xdp_mode = mode;
	port->record.xdp_via = ESC_XDP_VIA_DISPATCHER;
	port->record.xdp_program_id = id;
	port->record.xdp_next_program_id = 0;
	return 0;
}

/* --- taking over --- */

/* 1: the program that runs is the one that we would load with its turn; 0: it is not; -errno. */
static int dispatcher_is_current(const struct port *port, char **error)
{
	struct object *object;
	int err = object_open(&object, OBJECT_XDP, port, turn_read(port), error);

	if (err)
		return err;
	err = object_is_current(object, object->xdp, port->record.xdp_program_id);
	object_close(object);
	return err;
}

/* A daemon died during a takeover: it is finished, or undone, by the turn that it left. */
static void dispatcher_settle(struct port *port, const uint32_t *ids, size_t count)
{
	uint16_t turn = turn_read(port), steady = turn & ~ESC_HANDOVER_PHASE;

	if ((turn & ESC_HANDOVER_PHASE) == ESC_HANDOVER_PASS &&
	    id_is_among(port->record.xdp_next_program_id, ids, count)) {
		turn_write(port, steady + ESC_HANDOVER_NEXT);
		port->record.xdp_program_id = port->record.xdp_next_program_id;
	} else if (turn & ESC_HANDOVER_PHASE) {
		turn_write(port, steady);
	}
	if (!id_is_among(port->record.xdp_program_id, ids, count))
		port->record.xdp_program_id = ids[0]; /* it died before it wrote the id down */
	port->record.xdp_next_program_id = 0;
	pins_write_port(port->pins, port->slot, &port->record);
	for (size_t i = 0; i < count; i++)
		if (ids[i] != port->record.xdp_program_id)
			dispatcher_detach(port->ifindex, ids[i]);
}

/* The count passes from the running program to another instance. */
static int dispatcher_replace(struct port *port, char **error)
{
	uint16_t turn = turn_read(port);
	uint32_t old = port->record.xdp_program_id, id;
	int err = dispatcher_add(port, port->record.xdp_mode, turn + ESC_HANDOVER_NEXT, &id, error);

	if (err)
		return err;
	port->record.xdp_next_program_id = id;
	err = pins_write_port(port->pins, port->slot, &port->record);
	if (err) {
		dispatcher_detach(port->ifindex, id);
		return explain(error, err, "the map ports cannot be written: %s", strerror(-err));
	}
	upgrade_wait_grace_period();
	turn_clear_counted(port);
	if (port->pins->old_handover && !port->pins->counted_shared) {
		turn_jump(port, turn + ESC_HANDOVER_NEXT);
	} else {
		turn_write(port, turn | ESC_HANDOVER_ANNOUNCE);
		turn_write(port, turn | ESC_HANDOVER_PASS);
		turn_write(port, turn + ESC_HANDOVER_NEXT);
	}
	port->record.xdp_program_id = id;
	port->record.xdp_next_program_id = 0;
	pins_write_port(port->pins, port->slot, &port->record);
	dispatcher_detach(port->ifindex, old);
	return 0;
}

int dispatcher_take_over(struct port *port, char **error)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	size_t count = dispatcher_list_ours(port, ids);
	struct xdp_attached attached;
	int err;

	if (!count)
		return 0;
	err = xdp_query(port, &attached, error);
	if (err)
		return err;
	port->record.xdp_mode = attached.mode;
	port->record.xdp_via = ESC_XDP_VIA_DISPATCHER;
	dispatcher_settle(port, ids, count);
	err = dispatcher_is_current(port, error);
	if (err)
		return err;
	err = dispatcher_replace(port, error);
	return err ? err : 1;
}
