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

struct object {
	struct dataplane *skeleton;
	enum object_part part;
};

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
	object->skeleton = skeleton;
	object->part = part;
	bpf_program__set_autoload(skeleton->progs.esc_xdp_in, part == OBJECT_XDP);
	bpf_program__set_autoload(skeleton->progs.esc_tc_in, part == OBJECT_TC);
	bpf_program__set_autoload(skeleton->progs.esc_tc_out, part == OBJECT_TC);
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

static int object_explain_load(const struct object *object, int err, char **error)
{
	const char *what = object_part_names[object->part];

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

int object_load(struct object *object, char **error)
{
	int err;

	bpflog_clear();
	err = dataplane__load(object->skeleton);
	return err ? object_explain_load(object, err, error) : 0;
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

struct bpf_object *object_bpf(const struct object *object)
{
	return object->skeleton->obj;
}

int object_xdp_fd(const struct object *object)
{
	return bpf_program__fd(object->skeleton->progs.esc_xdp_in);
}

int object_tc_fd(const struct object *object, bool egress)
{
	return bpf_program__fd(egress ? object->skeleton->progs.esc_tc_out
				      : object->skeleton->progs.esc_tc_in);
}

const char *object_xdp_section(const struct object *object)
{
	return bpf_program__section_name(object->skeleton->progs.esc_xdp_in);
}

const void *object_rodata(const struct object *object, size_t *bytes)
{
	*bytes = sizeof(*object->skeleton->rodata);
	return object->skeleton->rodata;
}
