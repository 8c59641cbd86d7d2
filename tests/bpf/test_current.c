// SPDX-License-Identifier: BSD-2-Clause
/* Which loaded programs a daemon that starts keeps: those alone that it would load. */
#include "dataplane/internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane.skel.h"

#define TAP_PLAN 19
#include "tests/lib/tap.h"

#define TURN 4

static struct core core;

static struct port port_with(const struct pins *pins)
{
	return (struct port){.pins = pins,
			     .core = &core,
			     .probe_port = 4790,
			     .plane = FLEET_PLANE_BACKEND,
			     .record = {.xdp_mode = ESC_XDP_NATIVE},
			     .slot = 2};
}

static struct object *loaded(enum object_part part, const struct port *port)
{
	struct object *object = NULL;
	char *error = NULL;

	if (object_open(&object, part, port, TURN, &error) || object_load(object, &error)) {
		tap_bail(error ? error : "the programs cannot be loaded");
		exit(1);
	}
	return object;
}

/* The maps of @object, as if they were pinned. */
static void take_maps(struct pins *pins, const struct object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map (map, object->bpf) {
		struct pinned_map *taken = &pins->maps[pins->count];
		__u32 bytes = sizeof(taken->info);

		if (bpf_map__is_internal(map) || bpf_map__fd(map) < 0)
			continue;
		taken->fd = bpf_map__fd(map);
		bpf_obj_get_info_by_fd(taken->fd, &taken->info, &bytes);
		snprintf(taken->name, sizeof(taken->name), "%s", bpf_map__name(map));
		pins->count++;
	}
}

static uint32_t id_of(const struct bpf_program *program)
{
	struct bpf_prog_info info = {};
	__u32 bytes = sizeof(info);

	bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &bytes);
	return info.id;
}

static const struct bpf_program *program_of(const struct object *object)
{
	return object->part == OBJECT_XDP ? object->xdp : object->tc_egress;
}

/* @change is made to the object before it is asked about program @id. */
static bool is_current(enum object_part part, const struct port *port, uint16_t turn, uint32_t id,
		       void (*change)(struct object *object))
{
	struct object *object = NULL;
	bool is;

	if (object_open(&object, part, port, turn, NULL))
		return false;
	if (change)
		change(object);
	is = object_is_current(object, program_of(object), id);
	object_close(object);
	return is;
}

static void other_build(struct object *object)
{
	object->skeleton->rodata->esc_build ^= 1;
}

static void other_table(struct object *object)
{
	object->skeleton->rodata->esc_icrc_powers[7] ^= 1;
}

/* The object has a second section of constants, which the compiler made. */
static void other_literals(struct object *object)
{
	struct bpf_map *map;
	size_t bytes;

	bpf_object__for_each_map (map, object->bpf)
		if (bpf_map__is_internal(map) && !strcmp(bpf_map__name(map), ".rodata.cst16"))
			*(char *)bpf_map__initial_value(map, &bytes) ^= 1;
}

static void check_constants(const struct pins *pins, uint32_t xdp, uint32_t tc)
{
	struct port port = port_with(pins);

	tap_ok(!is_current(OBJECT_XDP, &port, TURN + 4, xdp, NULL), "another turn");
	port.slot++;
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp, NULL), "another slot");
	port = port_with(pins);
	port.probe_port++;
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp, NULL), "another port of probes");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, tc, NULL), "the same at tc");
	port = port_with(pins);
	port.plane = FLEET_PLANE_FRONTEND;
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp, NULL), "another plane");
	port = port_with(pins);
	port.lab_offset_ns = 1;
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp, NULL), "another skew of the clock");
	port = port_with(pins);
	port.record.xdp_mode = ESC_XDP_SKB;
	tap_ok(is_current(OBJECT_XDP, &port, TURN, xdp, NULL), "XDP does not depend on its mode");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, tc, NULL), "tc does");
}

int main(void)
{
	struct pins *none = calloc(1, sizeof(*none)), *pins = calloc(1, sizeof(*pins));
	struct pins *others = calloc(1, sizeof(*others));
	struct port first, port;
	struct object *owner, *other, *xdp, *tc;
	uint32_t xdp_id, tc_id, ingress_id;

	if (!none || !pins || !others)
		return tap_bail("no memory");
	first = port_with(none);
	owner = loaded(OBJECT_MAPS, &first);
	other = loaded(OBJECT_MAPS, &first);
	take_maps(pins, owner);
	take_maps(others, other);
	port = port_with(pins);
	xdp = loaded(OBJECT_XDP, &port);
	tc = loaded(OBJECT_TC, &port);
	xdp_id = id_of(xdp->xdp);
	tc_id = id_of(tc->tc_egress);
	ingress_id = id_of(tc->tc_ingress);

	tap_ok(is_current(OBJECT_XDP, &port, TURN, xdp_id, NULL), "XDP: what would be loaded");
	tap_ok(is_current(OBJECT_TC, &port, TURN, tc_id, NULL), "tc: what would be loaded");
	tap_ok(object_is_current(tc, tc->tc_ingress, ingress_id), "tc ingress, too");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, ingress_id, NULL),
	       "the program of another hook");
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, 0, NULL), "no program");
	check_constants(pins, xdp_id, tc_id);
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp_id, other_build), "another build");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, tc_id, other_table), "another table");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, tc_id, other_literals),
	       "the compiler's own constants");
	port = port_with(others);
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp_id, NULL), "other maps, XDP");
	/* All but one are the same, as in a release with another layout of one map. */
	for (size_t i = 0; i < others->count; i++)
		if (strcmp(others->maps[i].name, "qps"))
			others->maps[i].info.id = pins_find(pins, others->maps[i].name)->info.id;
	tap_ok(!is_current(OBJECT_XDP, &port, TURN, xdp_id, NULL), "one other map, XDP");
	tap_ok(!is_current(OBJECT_TC, &port, TURN, tc_id, NULL), "one other map, tc");
	object_close(xdp);
	object_close(tc);
	object_close(owner);
	object_close(other);
	free(none);
	free(pins);
	free(others);
	return tap_end();
}
