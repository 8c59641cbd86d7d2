// SPDX-License-Identifier: BSD-2-Clause
#include "dispatcher.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "bpflog.h"
#include "base/explain.h"
#include "base/log.h"
#include "object.h"
#include "pins.h"
#include "xdp_query.h"

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
	bool there = multi;

	if (multi)
		xdp_multiprog__close(multi);
	return there;
}

bool dispatcher_holds(unsigned int ifindex, uint32_t id)
{
	struct xdp_multiprog *multi = dispatcher_get(ifindex);
	struct xdp_program *program = NULL;
	bool found = false;

	if (!multi)
		return false;
	while (!found && (program = xdp_multiprog__next_prog(program, multi)))
		found = xdp_program__id(program) == id;
	xdp_multiprog__close(multi);
	return found;
}

/* Ids of our programs in the dispatcher, in the order that they run. */
static size_t dispatcher_list_ours(const struct attach_target *target,
				   uint32_t ids[DISPATCHER_PROGRAMS_MAX])
{
	struct xdp_multiprog *multi = dispatcher_get(target->ifindex);
	struct xdp_program *program = NULL;
	size_t count = 0;

	if (!multi)
		return 0;
	while (count < DISPATCHER_PROGRAMS_MAX &&
	       (program = xdp_multiprog__next_prog(program, multi)))
		if (xdp_is_ours(target->pins, xdp_program__id(program)))
			ids[count++] = xdp_program__id(program);
	xdp_multiprog__close(multi);
	return count;
}

static int dispatcher_detach(unsigned int ifindex, uint32_t id)
{
	struct xdp_program *program = xdp_program__from_id(id);
	int err = libxdp_get_error(program);

	if (err)
		return err;
	err = xdp_program__detach(program, ifindex, XDP_MODE_UNSPEC, 0);
	if (err)
		log_warning("XDP program %u cannot be taken out of the dispatcher: %s", id,
			    strerror(-err));
	xdp_program__close(program);
	return err;
}

bool dispatcher_leave(const struct attach_target *target)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	size_t count = dispatcher_list_ours(target, ids);

	for (size_t i = 0; i < count; i++)
		dispatcher_detach(target->ifindex, ids[i]);
	return count;
}

/* --- turns: see struct esc_control --- */

static uint16_t turn_read(const struct attach_target *target)
{
	const struct esc_control *control = pins_control(target->pins);

	return __atomic_load_n(&control->xdp_handover[target->slot], __ATOMIC_ACQUIRE);
}

/* Waits until no program that may have read the turn before is still running. */
static void turn_wait_grace_period(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0)
		return;
	usleep(200000); /* nohz_full kernels refuse; a packet's programs take microseconds */
}

static void turn_write(const struct attach_target *target, uint16_t turn)
{
	struct esc_control *control = pins_control(target->pins);

	__atomic_store_n(&control->xdp_handover[target->slot], turn, __ATOMIC_RELEASE);
	turn_wait_grace_period();
}

static uint16_t turn_steady(uint16_t turn)
{
	return turn & ~ESC_HANDOVER_PHASE;
}

/* --- joining --- */

static enum xdp_attach_mode dispatcher_mode(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_SKB ? XDP_MODE_SKB : XDP_MODE_NATIVE;
}

/* Loads an instance with @turn into the dispatcher; its id, or an error. */
static int dispatcher_add(const struct attach_target *target, enum esc_xdp_mode mode, uint16_t turn,
			  uint32_t *id, char **error)
{
	struct object_constants constants = target->constants;
	struct xdp_program *program;
	struct object *object;
	int err;

	constants.turn = turn;
	err = object_open(&object, OBJECT_XDP, target->pins, &constants, error);
	if (err)
		return err;
	program = xdp_program__from_bpf_obj(object_bpf(object), object_xdp_section(object));
	err = libxdp_get_error(program);
	if (err)
		goto out;
	/*
	 * libbpf sets the flag of section xdp.frags only when it loads, and libxdp asks before:
	 * a dispatcher made without it loses every frame of several buffers once the MTU grows.
	 */
	err = xdp_program__set_xdp_frags_support(program, true);
	if (err)
		log_debug("%s: libxdp takes no multi-buffer program: %s", target->name,
			  strerror(-err));
	bpflog_clear();
	err = xdp_program__attach(program, target->ifindex, dispatcher_mode(mode), 0);
	if (!err) {
		*id = xdp_program__id(program);
		/* libxdp may have fallen back to a program without a dispatcher. */
		if (!dispatcher_holds(target->ifindex, *id)) {
			xdp_program__detach(program, target->ifindex, XDP_MODE_UNSPEC, 0);
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

int dispatcher_join(const struct attach_target *target, enum esc_xdp_mode mode,
		    struct esc_port *port, char **error)
{
	uint32_t id;
	int err;

	turn_write(target, turn_steady(turn_read(target)));
	err = dispatcher_add(target, mode, turn_read(target), &id, error);
	if (err)
		return err;
	port->xdp_mode = mode;
	port->xdp_via = ESC_XDP_VIA_DISPATCHER;
	port->xdp_program_id = id;
	port->xdp_next_program_id = 0;
	return 0;
}

/* --- taking over --- */

/* Tag and constants (tables among them) of a loaded program: equal ones do the same. */
struct dispatcher_identity {
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t constants_bytes;
	uint8_t constants[32768];
};

/* The frozen map of load-time constants among @ids: the only array named *.rodata. */
static int identity_read_constants(const uint32_t *ids, size_t count,
				   struct dispatcher_identity *out)
{
	for (size_t i = 0; i < count; i++) {
		struct bpf_map_info info = {0};
		__u32 info_bytes = sizeof(info), zero = 0;
		int fd = bpf_map_get_fd_by_id(ids[i]);
		bool match;
		int err;

		if (fd < 0)
			return fd;
		err = bpf_obj_get_info_by_fd(fd, &info, &info_bytes);
		match = !err && strstr(info.name, ".rodata");
		if (match && info.value_size > sizeof(out->constants))
			err = -E2BIG;
		else if (match)
			err = bpf_map_lookup_elem(fd, &zero, out->constants);
		close(fd);
		out->constants_bytes = info.value_size;
		if (err || match)
			return err;
	}
	out->constants_bytes = 0;
	return 0; /* a program without constants */
}

static int identity_read(int program_fd, struct dispatcher_identity *out)
{
	struct bpf_prog_info info = {0};
	__u32 bytes = sizeof(info);
	uint32_t map_ids[32];
	int err;

	memset(out, 0, sizeof(*out));
	info.nr_map_ids = 32;
	info.map_ids = (__u64)(unsigned long)map_ids;
	err = bpf_obj_get_info_by_fd(program_fd, &info, &bytes);
	if (err)
		return err;
	memcpy(out->tag, info.tag, sizeof(out->tag));
	return identity_read_constants(map_ids, info.nr_map_ids, out);
}

static int identity_of_running(uint32_t id, struct dispatcher_identity *out)
{
	int fd = bpf_prog_get_fd_by_id(id);
	int err = fd < 0 ? fd : identity_read(fd, out);

	if (fd >= 0)
		close(fd);
	return err;
}

/* The program that we would load with the incumbent's turn, loaded beside it. */
static int identity_of_fresh(const struct attach_target *target, uint16_t turn,
			     struct dispatcher_identity *out, char **error)
{
	struct object_constants constants = target->constants;
	struct object *object;
	int err;

	constants.turn = turn;
	err = object_open(&object, OBJECT_XDP, target->pins, &constants, error);
	if (err)
		return err;
	err = object_load(object, error);
	if (!err) {
		err = identity_read(object_xdp_fd(object), out);
		if (err)
			explain(error, err, "our own XDP program cannot be looked at: %s",
				strerror(-err));
	}
	object_close(object);
	return err;
}

/* 1: the incumbent is what we would load; 0: it is not; or an error. */
static int dispatcher_is_current(const struct attach_target *target, const struct esc_port *port,
				 char **error)
{
	struct dispatcher_identity *both = calloc(2, sizeof(*both));
	int err;

	if (!both)
		return explain(error, -ENOMEM, "no memory");
	err = identity_of_fresh(target, turn_read(target), &both[0], error);
	if (!err)
		err = !identity_of_running(port->xdp_program_id, &both[1]) &&
		      !memcmp(&both[0], &both[1], sizeof(both[0]));
	free(both);
	return err;
}

static bool id_is_among(uint32_t id, const uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* A daemon died while it led the count over: go on, or back, by the turn it left. */
static void dispatcher_settle(const struct attach_target *target, struct esc_port *port,
			      const uint32_t *ids, size_t count)
{
	uint16_t turn = turn_read(target);

	if ((turn & ESC_HANDOVER_PHASE) == ESC_HANDOVER_PASS &&
	    id_is_among(port->xdp_next_program_id, ids, count)) {
		turn_write(target, turn_steady(turn) + ESC_HANDOVER_NEXT);
		port->xdp_program_id = port->xdp_next_program_id;
	} else if (turn & ESC_HANDOVER_PHASE) {
		turn_write(target, turn_steady(turn));
	}
	if (!id_is_among(port->xdp_program_id, ids, count))
		port->xdp_program_id = ids[0]; /* it died before it wrote the id down */
	port->xdp_next_program_id = 0;
	pins_write_port(target->pins, target->slot, port);
	for (size_t i = 0; i < count; i++)
		if (ids[i] != port->xdp_program_id)
			dispatcher_detach(target->ifindex, ids[i]);
}

/* Leads the count from the incumbent to a successor. */
static int dispatcher_succeed(const struct attach_target *target, struct esc_port *port,
			      char **error)
{
	uint16_t turn = turn_read(target);
	uint32_t old = port->xdp_program_id, id;
	int err = dispatcher_add(target, port->xdp_mode, turn + ESC_HANDOVER_NEXT, &id, error);

	if (err)
		return err;
	port->xdp_next_program_id = id;
	err = pins_write_port(target->pins, target->slot, port);
	if (err) {
		dispatcher_detach(target->ifindex, id);
		return explain(error, err, "the map ports cannot be written: %s", strerror(-err));
	}
	turn_wait_grace_period();
	turn_write(target, turn | ESC_HANDOVER_ANNOUNCE);
	turn_write(target, turn | ESC_HANDOVER_PASS);
	turn_write(target, turn + ESC_HANDOVER_NEXT);
	port->xdp_program_id = id;
	port->xdp_next_program_id = 0;
	pins_write_port(target->pins, target->slot, port);
	dispatcher_detach(target->ifindex, old);
	return 0;
}

int dispatcher_take_over(const struct attach_target *target, struct esc_port *port, char **error)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	size_t count = dispatcher_list_ours(target, ids);
	struct xdp_seen seen;
	int err;

	if (!count)
		return 0;
	err = xdp_query(target->ifindex, &seen);
	if (err)
		return explain(error, err, "interface %s: %s", target->name, strerror(-err));
	port->xdp_mode = seen.mode;
	port->xdp_via = ESC_XDP_VIA_DISPATCHER;
	dispatcher_settle(target, port, ids, count);
	err = dispatcher_is_current(target, port, error);
	if (err)
		return err;
	err = dispatcher_succeed(target, port, error);
	return err ? err : 1;
}
