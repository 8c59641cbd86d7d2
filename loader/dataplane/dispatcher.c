// SPDX-License-Identifier: BSD-2-Clause
/* Our XDP program beside others' in libxdp's dispatcher. */
#include "attach.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "bpflog.h"
#include "base/explain.h"
#include "base/log.h"
#include "pins.h"

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

/* Program @id is in the dispatcher on @ifindex. */
static bool dispatcher_holds(unsigned int ifindex, uint32_t id)
{
	struct xdp_multiprog *multi = dispatcher_get(ifindex);
	struct xdp_program *program = NULL;
	bool found = false;

	while (multi && !found && (program = xdp_multiprog__next_prog(program, multi)))
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

	while (multi && count < DISPATCHER_PROGRAMS_MAX &&
	       (program = xdp_multiprog__next_prog(program, multi)))
		if (program_is_ours(target->pins, xdp_program__id(program), ESC_PROGRAM_XDP))
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

void dispatcher_leave(const struct attach_target *target)
{
	uint32_t ids[DISPATCHER_PROGRAMS_MAX];
	size_t count = dispatcher_list_ours(target, ids);

	for (size_t i = 0; i < count; i++)
		dispatcher_detach(target->ifindex, ids[i]);
}

/* --- turns: see struct esc_control --- */

static uint16_t turn_read(const struct attach_target *target)
{
	return __atomic_load_n(&pins_control(target->pins)->xdp_handover[target->slot],
			       __ATOMIC_ACQUIRE);
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
	__atomic_store_n(&pins_control(target->pins)->xdp_handover[target->slot], turn,
			 __ATOMIC_RELEASE);
	turn_wait_grace_period();
}

static uint16_t turn_steady(uint16_t turn)
{
	return turn & ~ESC_HANDOVER_PHASE;
}

/* --- joining --- */

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
	program = xdp_program__from_bpf_obj(object->bpf,
					    bpf_program__section_name(object->xdp));
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
	err = xdp_program__attach(
		program, target->ifindex, mode == ESC_XDP_SKB ? XDP_MODE_SKB : XDP_MODE_NATIVE, 0);
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
struct identity {
	uint8_t tag[BPF_TAG_SIZE];
	uint32_t constants_bytes;
	uint8_t constants[32768];
};

/* Its constants are in a frozen map, the only array named *.rodata; it may have none. */
static int identity_read(int program_fd, struct identity *out)
{
	struct bpf_prog_info program = {0};
	__u32 bytes = sizeof(program), zero = 0;
	uint32_t map_ids[32];
	int err;

	memset(out, 0, sizeof(*out));
	program.nr_map_ids = 32;
	program.map_ids = (__u64)(unsigned long)map_ids;
	err = bpf_obj_get_info_by_fd(program_fd, &program, &bytes);
	memcpy(out->tag, program.tag, sizeof(out->tag));
	for (size_t i = 0; !err && !out->constants_bytes && i < program.nr_map_ids; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(map_ids[i]);

		if (fd < 0)
			return fd;
		bytes = sizeof(map);
		err = bpf_obj_get_info_by_fd(fd, &map, &bytes);
		if (!err && strstr(map.name, ".rodata")) {
			out->constants_bytes = map.value_size;
			err = map.value_size > sizeof(out->constants)
				      ? -E2BIG
				      : bpf_map_lookup_elem(fd, &zero, out->constants);
		}
		close(fd);
	}
	return err;
}

/* 1: the program that runs is the one that we would load with its turn; 0: it is not; -errno. */
static int dispatcher_is_current(const struct attach_target *target, const struct esc_port *port,
				 char **error)
{
	static struct identity fresh, running;
	struct object_constants constants = target->constants;
	struct object *object;
	int fd, err;

	constants.turn = turn_read(target);
	err = object_new(&object, OBJECT_XDP, target->pins, &constants, error);
	if (err)
		return err;
	err = identity_read(bpf_program__fd(object->xdp), &fresh);
	object_close(object);
	if (err)
		return explain(error, err, "our own XDP program cannot be read: %s",
			       strerror(-err));
	fd = bpf_prog_get_fd_by_id(port->xdp_program_id);
	if (fd < 0)
		return 0;
	err = identity_read(fd, &running);
	close(fd);
	return !err && !memcmp(&fresh, &running, sizeof(fresh));
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
	struct xdp_attached attached;
	int err;

	if (!count)
		return 0;
	err = xdp_query(target->ifindex, &attached);
	if (err)
		return explain(error, err, "interface %s: %s", target->name, strerror(-err));
	port->xdp_mode = attached.mode;
	port->xdp_via = ESC_XDP_VIA_DISPATCHER;
	dispatcher_settle(target, port, ids, count);
	err = dispatcher_is_current(target, port, error);
	if (err)
		return err;
	err = dispatcher_succeed(target, port, error);
	return err ? err : 1;
}
