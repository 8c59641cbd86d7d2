// SPDX-License-Identifier: BSD-2-Clause
/*
 * BPF objects, their maps, and what libbpf and libxdp print. The skeleton's struct is called
 * dataplane too: no other file includes it.
 */
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "base/array.h"
#include "base/explain.h"
#include "base/log.h"
#include "base/siphash.h"
#include "dataplane.skel.h"
#include "pacing/icrc.h"

#define KEY_BYTES_MAX 64

/* --- what the libraries print: users get one sentence of ours --- */

static char bpflog_warning[256];

static void bpflog_line(const char *library, int warning, const char *format, va_list arguments)
{
	char *text, *rest, *line;

	if (vasprintf(&text, format, arguments) < 0)
		return;
	rest = text;
	line = strsep(&rest, "\n");
	/* libbpf guesses at memlock for every EPERM; the guess is wrong here. */
	if (warning && !strstr(line, "ulimit -l"))
		snprintf(bpflog_warning, sizeof(bpflog_warning), "%.255s", line);
	log_debug("%s: %s", library, line);
	/* The verifier's log is one message of many lines. */
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_debug("%s: %s", library, line);
	free(text);
}

static int bpflog_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	bpflog_line("libbpf", level == LIBBPF_WARN, format, arguments);
	return 0;
}

static int bpflog_libxdp(enum libxdp_print_level level, const char *format, va_list arguments)
{
	bpflog_line("libxdp", level == LIBXDP_WARN, format, arguments);
	return 0;
}

void bpflog_install(void)
{
	libbpf_set_print(bpflog_libbpf);
	libxdp_set_print(bpflog_libxdp);
}

const char *bpflog_last(void)
{
	return bpflog_warning;
}

void bpflog_clear(void)
{
	bpflog_warning[0] = '\0';
}

/* --- maps --- */

void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context)
{
	char key[KEY_BYTES_MAX] __attribute__((aligned(8))), *gone = NULL, *entry;
	size_t room = 0, count = 0;
	bool first = true;

	if (key_bytes > sizeof(key))
		return;
	while (!bpf_map_get_next_key(fd, first ? NULL : key, key)) {
		first = false;
		if (stays(key, context))
			continue;
		entry = array_add(&gone, &count, &room, key_bytes);
		if (!entry)
			break;
		memcpy(entry, key, key_bytes);
	}
	for (size_t i = 0; i < count; i++)
		bpf_map_delete_elem(fd, gone + i * key_bytes);
	free(gone);
}

int bpfmap_sum(int fd, uint32_t index, void *out, size_t bytes)
{
	int cpus = libbpf_num_possible_cpus(), err;
	size_t count = bytes / sizeof(uint64_t);
	uint64_t *sum = out, *each;

	memset(out, 0, bytes);
	if (cpus < 0)
		return cpus;
	each = calloc(cpus, bytes);
	if (!each)
		return -ENOMEM;
	err = bpf_map_lookup_elem(fd, &index, each);
	for (size_t i = 0; !err && i < cpus * count; i++)
		sum[i % count] += each[i];
	free(each);
	return err;
}

int bpfmap_share(struct bpf_object *object, const struct bpfmap_use *uses)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map (map, object) {
		const struct bpfmap_use *use = uses;

		if (err || bpf_map__is_internal(map))
			continue;
		while (use->name && strcmp(use->name, bpf_map__name(map)))
			use++;
		if (!use->name)
			err = bpf_map__set_autocreate(map, false);
		else if (use->fd >= 0)
			err = bpf_map__reuse_fd(map, use->fd);
	}
	return err;
}

/* --- objects --- */

static const char *const object_part_names[] = {"maps", "XDP program", "tc programs"};

/* Constants and pinned maps of @port. Those of XDP do not depend on how it is attached. */
static int object_use_port(struct dataplane *skeleton, enum object_part part,
			   const struct port *port, uint16_t turn, char **error)
{
	bool tc = part == OBJECT_TC;
	struct bpf_map *map;

	skeleton->rodata->esc_port_index = port->slot;
	skeleton->rodata->esc_rx_in_tc = tc && port->record.xdp_mode == ESC_XDP_NONE;
	/* Receipts as well: XDP is generic or absent. */
	skeleton->rodata->esc_tc_takes = tc && port->record.xdp_mode != ESC_XDP_NATIVE;
	skeleton->rodata->esc_handover_id = turn;
	skeleton->rodata->esc_probe_port =
		port->probe_port == ESC_ROCEV2_PORT ? 0 : port->probe_port;
	skeleton->rodata->esc_plane = port->plane == FLEET_PLANE_FRONTEND;
	skeleton->rodata->esc_lab_offset_ns = port->lab_offset_ns;
	skeleton->rodata->esc_lab_drift_ppb = port->lab_drift_ppb;
	bpf_object__for_each_map (map, skeleton->obj) {
		const struct pinned_map *pinned = pins_find(port->pins, bpf_map__name(map));
		int err = pinned ? bpf_map__reuse_fd(map, pinned->fd) : 0;

		if (err)
			return explain(error, err, "the pinned map %s/%s cannot be used: %s",
				       port->pins->root, pinned->name, strerror(-err));
	}
	return 0;
}

/* Of the compiled object and the library that makes programs of it. */
static uint64_t build_digest(void)
{
	static uint64_t digest;
	size_t bytes;
	const void *elf = dataplane__elf_bytes(&bytes);
	__u64 key[2] = {bytes, libbpf_major_version() << 16 | libbpf_minor_version()};

	if (!digest) /* the same in each object */
		digest = siphash(key, elf, bytes / sizeof(uint64_t));
	return digest;
}

int object_open(struct object **out, enum object_part part, const struct port *port, uint16_t turn,
		char **error)
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
		.port = port,
		.bpf = skeleton->obj,
		.xdp = skeleton->progs.esc_xdp_in,
		.tc_ingress = skeleton->progs.esc_tc_in,
		.tc_egress = skeleton->progs.esc_tc_out,
	};
	bpf_program__set_autoload(object->xdp, part == OBJECT_XDP);
	bpf_program__set_autoload(object->tc_ingress, part == OBJECT_TC);
	bpf_program__set_autoload(object->tc_egress, part == OBJECT_TC);
	icrc_make_table(skeleton->rodata->esc_icrc_powers);
	skeleton->rodata->esc_build = build_digest();
	err = port ? object_use_port(skeleton, part, port, turn, error) : 0;
	if (err) {
		object_close(object);
		return err;
	}
	*out = object;
	return 0;
}

/* --- what is loaded already --- */

/* Map @fd has the constants of @object's section of its name. */
static bool constants_are(const struct object *object, int fd, const struct bpf_map_info *info)
{
	const void *constants = NULL;
	struct bpf_map *map;
	__u32 zero = 0;
	size_t bytes;
	void *running;
	bool are;

	bpf_object__for_each_map (map, object->bpf)
		if (bpf_map__is_internal(map) &&
		    !strncmp(bpf_map__name(map), info->name, BPF_OBJ_NAME_LEN - 1))
			constants = bpf_map__initial_value(map, &bytes);
	if (!constants || info->type != BPF_MAP_TYPE_ARRAY || info->value_size != bytes)
		return false;
	running = malloc(bytes);
	are = running && !bpf_map_lookup_elem(fd, &zero, running) &&
	      !memcmp(constants, running, bytes);
	free(running);
	return are;
}

static bool map_is_pinned(const struct pins *pins, uint32_t id)
{
	for (size_t i = 0; i < pins->count; i++)
		if (pins->maps[i].info.id == id)
			return true;
	return false;
}

/* libbpf binds all sections of constants to each program, among them the one with esc_build. */
bool object_is_current(const struct object *object, const struct bpf_program *program, uint32_t id)
{
	uint32_t map_ids[PROGRAM_MAPS_MAX];
	struct bpf_prog_info running;
	unsigned int constants = 0;
	const struct bpf_map *map;

	if (!id || program_info(id, &running, map_ids) || running.nr_map_ids > PROGRAM_MAPS_MAX ||
	    strcmp(running.name, bpf_program__name(program)))
		return false;
	for (__u32 i = 0; i < running.nr_map_ids; i++) {
		struct bpf_map_info info = {};
		__u32 bytes = sizeof(info);
		bool are;
		int fd;

		if (map_is_pinned(object->port->pins, map_ids[i]))
			continue;
		fd = bpf_map_get_fd_by_id(map_ids[i]);
		are = fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &bytes) &&
		      constants_are(object, fd, &info);
		if (fd >= 0)
			close(fd);
		if (!are)
			return false;
		constants++;
	}
	bpf_object__for_each_map (map, object->bpf)
		constants -= bpf_map__is_internal(map);
	return !constants;
}

static int load(void *context)
{
	struct object *object = context;

	return dataplane__load(object->skeleton);
}

int object_load(struct object *object, char **error)
{
	const char *what = object_part_names[object->part];
	int err;

	bpflog_clear();
	err = object->port ? core_run(object->port->core, load, object) : load(object);
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

void object_close(struct object *object)
{
	if (!object)
		return;
	dataplane__destroy(object->skeleton);
	free(object);
}
