// SPDX-License-Identifier: BSD-2-Clause
/* The skeleton's struct is called dataplane too: no other file includes it. */
#include "object.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bpflog.h"
#include "dataplane.skel.h"
#include "base/explain.h"
#include "pacing/icrc.h"
#include "pins.h"

static const char *const object_part_names[] = {"maps", "XDP program", "tc programs"};

int object_open(struct object **out, enum object_part part, const struct pins *pins,
		const struct object_constants *constants, char **error)
{
	struct object *object = calloc(1, sizeof(*object));
	struct dataplane *skeleton;
	int err;

	*out = NULL;
	bpflog_install();
	skeleton = object ? dataplane__open() : NULL;
	if (!skeleton) {
		err = object ? -errno : -ENOMEM;
		free(object);
		return explain(error, err, "the built-in programs cannot be opened: %s",
			       strerror(-err));
	}
	*object = (struct object){
		.skeleton = skeleton,
		.part = part,
		.bpf = skeleton->obj,
		.xdp = skeleton->progs.esc_xdp_in,
		.tc_ingress = skeleton->progs.esc_tc_in,
		.tc_egress = skeleton->progs.esc_tc_out,
	};
	bpf_program__set_autoload(object->xdp, part == OBJECT_XDP);
	bpf_program__set_autoload(object->tc_ingress, part == OBJECT_TC);
	bpf_program__set_autoload(object->tc_egress, part == OBJECT_TC);
	icrc_make_table(skeleton->rodata->esc_icrc_powers);
	if (constants) {
		skeleton->rodata->esc_port_index = constants->port_index;
		skeleton->rodata->esc_rx_in_tc = constants->rx_in_tc;
		skeleton->rodata->esc_tc_takes = constants->tc_takes;
		skeleton->rodata->esc_handover_id = constants->turn;
		skeleton->rodata->esc_probe_port = constants->probe_port;
		skeleton->rodata->esc_plane = constants->frontend;
		skeleton->rodata->esc_lab_offset_ns = constants->lab_offset_ns;
		skeleton->rodata->esc_lab_drift_ppb = constants->lab_drift_ppb;
	}
	err = pins ? pins_apply(pins, skeleton->obj, error) : 0;
	if (err) {
		object_close(object);
		return err;
	}
	*out = object;
	return 0;
}

int object_load(struct object *object, char **error)
{
	const char *what = object_part_names[object->part];
	int err;

	bpflog_clear();
	err = dataplane__load(object->skeleton);
	if (!err)
		return 0;
	if (err == -EPERM)
		return explain(
			error, err,
			"the kernel refuses to load the %s (%s): a security module or "
			"lockdown forbids BPF here, or the container lacks CAP_BPF; allow it "
			"for escapementd",
			what, strerror(-err));
	if (err == -ENOMEM || err == -E2BIG)
		return explain(error, err,
			       "the kernel has no memory for the %s (%s): make qps.max smaller or "
			       "raise the service's MemoryMax",
			       what, strerror(-err));
	return explain(error, err,
		       "the kernel does not take the %s: %s%s%s; `escapementd --debug` shows the "
		       "verifier's words, please report them",
		       what, strerror(-err), bpflog_last()[0] ? ": " : "", bpflog_last());
}

int object_new(struct object **out, enum object_part part, const struct pins *pins,
	       const struct object_constants *constants, char **error)
{
	int err = object_open(out, part, pins, constants, error);

	if (err)
		return err;
	err = object_load(*out, error);
	if (err) {
		object_close(*out);
		*out = NULL;
	}
	return err;
}

void object_close(struct object *object)
{
	if (!object)
		return;
	dataplane__destroy(object->skeleton);
	free(object);
}
