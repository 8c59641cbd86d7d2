/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One instance of the compiled programs, for one interface. XDP and tc come
 * from an instance each: tc's load-time constants depend on how XDP attached.
 */
#ifndef ESC_LOADER_OBJECT_H
#define ESC_LOADER_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_object;
struct bpf_program;
struct dataplane; /* in object.c: the skeleton */
struct pins;

enum object_part { OBJECT_MAPS, OBJECT_XDP, OBJECT_TC };

struct object_constants {
	unsigned int port_index;
	bool rx_in_tc;
	bool tc_takes;	     /* receipts as well: XDP is generic or absent */
	uint16_t turn;	     /* see struct esc_control */
	uint16_t probe_port; /* beside 4791; 0: none */
	bool frontend;	     /* the mesh of the interface */
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
};

struct object {
	struct dataplane *skeleton;
	enum object_part part;
	struct bpf_object *bpf;
	struct bpf_program *xdp, *tc_ingress, *tc_egress;
};

/* Opened, not loaded; the maps are those of @pins (NULL: its own). */
int object_open(struct object **out, enum object_part part, const struct pins *pins,
		const struct object_constants *constants, char **error);
int object_load(struct object *object, char **error);
/* Both; *@out is NULL after an error. */
int object_new(struct object **out, enum object_part part, const struct pins *pins,
	       const struct object_constants *constants, char **error);
void object_close(struct object *object);

#endif
