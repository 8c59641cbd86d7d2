// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"

/* Of tests: a build whose maps have other numbers, escapementd-layout. */
#ifndef ESC_LAYOUT_ADDED
#define ESC_LAYOUT_ADDED(map) 0
#endif

#define PINS_OTHER_SHAPE                                                                           \
	"%s/%s is a map of another shape than Escapement's; move it away, or set another pin_root"

static void pins_path(const struct pins *pins, const char *name, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/%s", pins->root, name);
}

void pins_map_path(const struct pins *pins, const char *name, bool next, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/%s%s", pins->root, next ? PINS_NEXT "/" : "", name);
}

/*
 * A pin of the kind: the kernel names the anonymous inode behind a descriptor bpf-map, bpf-prog,
 * or bpf_link (bpf-link since 6.8 or so). Else -EEXIST, or -errno of bpf_obj_get().
 */
#define PIN_MAP "*bpf?map*"
#define PIN_LINK "*bpf?link*"
static int pin_open(const char *path, const char *kind)
{
	char proc[64], target[64];
	int fd = bpf_obj_get(path);
	ssize_t length;

	if (fd < 0)
		return fd;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	length = readlink(proc, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	if (!fnmatch(kind, target, 0))
		return fd;
	close(fd);
	return -EEXIST;
}

int pins_get_link(const char *path)
{
	return pin_open(path, PIN_LINK);
}

/* --- the folder --- */

static int pins_check_bpffs(const char *root, char **error)
{
	char path[PINS_ROOT_BYTES];
	struct statfs fs;

	if (root[0] != '/' || strlen(root) >= sizeof(path))
		return explain(error, -EINVAL, "pin_root %s: give an absolute path under %d bytes",
			       root, PINS_ROOT_BYTES);
	snprintf(path, sizeof(path), "%s", root);
	while (statfs(path, &fs) < 0) {
		if (errno != ENOENT || !strcmp(path, "/"))
			return explain(error, -errno, "pin_root %s: %s: %s", root, path,
				       strerror(errno));
		*strrchr(path, '/') = '\0';
		if (!path[0])
			snprintf(path, sizeof(path), "/");
	}
	if (fs.f_type == BPF_FS_MAGIC)
		return 0;
	return explain(error, -ENOTSUP,
		       "pin_root %s is not on a bpffs; run `mount -t bpf bpf /sys/fs/bpf`, or set "
		       "pin_root to a folder of one",
		       root);
}

static int pins_make_folder(const char *path, char **error)
{
	char partial[PINS_ROOT_BYTES + 8];
	char *slash = partial;

	snprintf(partial, sizeof(partial), "%s", path);
	do {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		if (mkdir(partial, 0700) < 0 && errno != EEXIST)
			return explain(error, -errno, "cannot make the folder %s: %s", partial,
				       strerror(errno));
		if (slash)
			*slash = '/';
	} while (slash);
	return 0;
}

/* Another user could put a map of theirs in the place of ours, or read and change what is in it. */
static int pins_check_owner(int fd, const char *root, char **error)
{
	struct stat status;

	if (fstat(fd, &status))
		return explain(error, -errno, "pin_root %s: %s", root, strerror(errno));
	if (!status.st_uid && !(status.st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	return explain(
		error, -EPERM,
		"pin_root %s is of user %u with mode %04o, and only root may write there: see what "
		"is in it, then `chown root %s && chmod 0700 %s`, or set another pin_root",
		root, status.st_uid, status.st_mode & 07777, root, root);
}

/* One escapementd at a time on @root, whatever its network namespace; the kernel ends the lock. */
static int pins_lock(const char *root, char **error)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err, pid;
	char line[256], holder[32] = "";
	struct stat status = {};
	unsigned long inode;
	FILE *locks;

	if (fd < 0)
		return explain(error, -errno, "pin_root %s: %s", root, strerror(errno));
	err = pins_check_owner(fd, root, error);
	if (err) {
		close(fd);
		return err;
	}
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* "1: FLOCK  ADVISORY  WRITE 708 00:2e:1234 0 EOF" */
	fstat(fd, &status);
	locks = fopen("/proc/locks", "re");
	while (locks && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 &&
		    inode == status.st_ino)
			snprintf(holder, sizeof(holder), " (pid %d)", pid);
	if (locks)
		fclose(locks);
	close(fd);
	return explain(error, err,
		       "pin_root %s is in use by another escapementd%s; stop it, or give this one "
		       "a pin_root of its own",
		       root, holder);
}

/* --- maps --- */

const struct pinned_map *pins_find(const struct pins *pins, const char *name)
{
	for (size_t i = 0; i < pins->count; i++)
		if (!strcmp(pins->maps[i].name, name))
			return &pins->maps[i];
	return NULL;
}

int pins_map_fd(const struct pins *pins, const char *name)
{
	const struct pinned_map *map = pins_find(pins, name);

	return map ? map->fd : -1;
}

int pins_open_one(const struct pins *pins, const char *name, bool next, struct pinned_map *out,
		  char **error)
{
	__u32 bytes = sizeof(out->info);
	char path[PATH_MAX];
	int err;

	pins_map_path(pins, name, next, path, sizeof(path));
	memset(out, 0, sizeof(*out));
	out->fd = pin_open(path, PIN_MAP);
	if (out->fd == -ENOENT)
		return -ENOENT;
	if (out->fd == -EEXIST)
		return explain(
			error, -EEXIST,
			"%s is not a map of Escapement's; move it away, or set another pin_root",
			path);
	if (out->fd < 0)
		return explain(
			error, out->fd,
			"%s cannot be opened as a pin: %s; move it away, or set another pin_root",
			path, strerror(-out->fd));
	err = bpf_obj_get_info_by_fd(out->fd, &out->info, &bytes);
	if (err) {
		close(out->fd);
		return explain(error, err, "%s: %s", path, strerror(-err));
	}
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->next = next;
	return 0;
}

/* The same, as the next of pins->maps. */
static int pins_open_map(struct pins *pins, const char *name, char **error)
{
	int err;

	if (pins->count == PINS_MAPS_MAX)
		return explain(error, -E2BIG, "more maps than %d", PINS_MAPS_MAX);
	err = pins_open_one(pins, name, false, &pins->maps[pins->count], error);
	if (!err)
		pins->count++;
	return err;
}

/* Queue pairs' maps have the room that the configuration had when they were made. */
static bool pins_map_is_sized(const char *name)
{
	return !strcmp(name, "qps") || !strcmp(name, "qp_sent") || !strcmp(name, "qp_owd") ||
	       !strcmp(name, "qp_pace");
}

/* --- layouts --- */

static uint32_t layout_ours(const char *name)
{
#define LAYOUT_OURS(map, number)                                                                   \
	if (!strcmp(name, #map))                                                                   \
		return (number) + ESC_LAYOUT_ADDED(#map);
	ESC_LAYOUTS(LAYOUT_OURS)
	return 1;
}

/* Of a pinned map. Releases that know one number for all maps do not write it. */
static uint32_t layout_of(const struct pins *pins, const struct pinned_map *map)
{
	const struct pinned_map *layouts = pins_find(pins, "layouts");
	struct esc_layout layout;

	if (!layouts || bpf_map_lookup_elem(layouts->fd, &map->info.id, &layout))
		return 1;
	return layout.layout;
}

static int layout_write(const struct pins *pins, const struct pinned_map *map)
{
	struct esc_layout layout = {.layout = layout_ours(map->name)};

	snprintf(layout.name, sizeof(layout.name), "%s", map->name);
	return bpf_map_update_elem(pins_map_fd(pins, "layouts"), &map->info.id, &layout, BPF_ANY);
}

static bool map_has_shape(const struct pinned_map *pinned, const struct bpf_map *map)
{
	const struct bpf_map_info *info = &pinned->info;

	return info->type == bpf_map__type(map) && info->key_size == bpf_map__key_size(map) &&
	       info->value_size == bpf_map__value_size(map) &&
	       (pins_map_is_sized(pinned->name) || info->max_entries == bpf_map__max_entries(map));
}

/* The value of `abi`. -ENOENT: no pins. */
static int pins_read_abi(struct pins *pins, struct esc_abi *out, char **error)
{
	struct pinned_map map;
	__u32 zero = 0;
	int err = pins_open_one(pins, "abi", false, &map, error);

	if (err)
		return err;
	if (map.info.key_size == sizeof(zero) && map.info.value_size == sizeof(*out))
		err = bpf_map_lookup_elem(map.fd, &zero, out);
	else
		err = -EEXIST;
	close(map.fd);
	return err ? explain(error, err, PINS_OTHER_SHAPE, pins->root, "abi") : 0;
}

int pins_write_abi(int fd)
{
	struct esc_abi abi = {.abi = ESC_ABI, .version = ESC_VERSION};
	__u32 zero = 0;

	return bpf_map_update_elem(fd, &zero, &abi, BPF_ANY);
}

/*
 * A start that was cut short leaves maps of ours without `abi`, which is
 * pinned last: they hold nothing yet. Anything else here is foreign.
 */
static int pins_clear_leftovers(struct pins *pins, struct bpf_object *object, char **error)
{
	char foreign[64] = "";
	struct pinned_map pinned;
	const struct bpf_map *map;
	struct dirent *entry;
	DIR *directory;
	int err;

	bpf_object__for_each_map (map, object) {
		if (bpf_map__is_internal(map))
			continue;
		err = pins_open_one(pins, bpf_map__name(map), false, &pinned, error);
		if (err == -ENOENT)
			continue;
		if (err)
			return err;
		close(pinned.fd);
		if (!map_has_shape(&pinned, map))
			return explain(error, -EEXIST, PINS_OTHER_SHAPE, pins->root, pinned.name);
		unlinkat(pins->lock_fd, bpf_map__name(map), 0);
	}
	directory = opendir(pins->root);
	while (directory && !foreign[0] && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "links"))
			snprintf(foreign, sizeof(foreign), "%.63s", entry->d_name);
	if (directory)
		closedir(directory);
	if (foreign[0])
		return explain(
			error, -EEXIST,
			"pin_root %s holds '%s', which is not Escapement's; move it away, or "
			"set another pin_root",
			pins->root, foreign);
	return 0;
}

static void pins_make_next(const struct pins *pins)
{
	char path[PATH_MAX];

	pins_path(pins, PINS_NEXT, path, sizeof(path));
	mkdir(path, 0700); /* else the pin fails, with its sentence */
}

/* `layouts`, which has the number of itself too. */
static int pins_pin_first(struct pins *pins, const struct bpf_map *layouts, char **error)
{
	struct pinned_map *made = &pins->maps[pins->count];
	char path[PATH_MAX];
	int err;

	pins_path(pins, "layouts", path, sizeof(path));
	err = bpf_obj_pin(bpf_map__fd(layouts), path);
	if (err)
		return explain(error, err, "cannot pin a map at %s: %s", path, strerror(-err));
	err = pins_open_map(pins, "layouts", error);
	return err ? err : layout_write(pins, made);
}

/* Where the programs of the other release read which of two in a dispatcher counts. */
static void pins_map_old_control(struct pins *pins, const struct pinned_map *control)
{
	long offset = upgrade_handover_offset(control);
	void *memory =
		mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, control->fd, 0);

	if (memory == MAP_FAILED)
		return;
	pins->old_control = memory;
	if (offset >= 0)
		pins->old_handover = (uint16_t *)((char *)memory + offset);
}

static const struct pinned_map *pins_old(const struct pins *pins, const char *name)
{
	for (size_t i = 0; i < pins->old_count; i++)
		if (!strcmp(pins->old[i].name, name))
			return &pins->old[i];
	return NULL;
}

/* Pins a map that was created, with its layout, filled with what the old one of its name has. */
static int pins_pin_map(struct pins *pins, const struct bpf_map *map, char **error)
{
	const char *name = bpf_map__name(map);
	const struct pinned_map *old = pins_old(pins, name);
	struct pinned_map *made = &pins->maps[pins->count];
	__u32 bytes = sizeof(made->info);
	char path[PATH_MAX];
	int err;

	if (pins->count == PINS_MAPS_MAX)
		return explain(error, -E2BIG, "more maps than %d", PINS_MAPS_MAX);
	*made = (struct pinned_map){.fd = dup(bpf_map__fd(map)), .next = old};
	snprintf(made->name, sizeof(made->name), "%s", name);
	pins->count++;
	err = bpf_obj_get_info_by_fd(made->fd, &made->info, &bytes);
	if (!err)
		err = layout_write(pins, made);
	if (!err && old && upgrade_copy(old, made))
		pins->old[old - pins->old].lost = true;
	pins_map_path(pins, name, made->next, path, sizeof(path));
	if (!err && old)
		pins_make_next(pins);
	if (!err)
		err = bpf_obj_pin(made->fd, path);
	return err ? explain(error, err, "cannot pin a map at %s: %s", path, strerror(-err)) : 0;
}

/* Creates in the kernel all maps that are not in pins->maps, then pins them, `abi` last. */
static int pins_make_maps(struct pins *pins, struct object *object, uint32_t qps_max, char **error)
{
	struct bpf_map *map, *abi = bpf_object__find_map_by_name(object->bpf, "abi");
	struct bpf_map *layouts = bpf_object__find_map_by_name(object->bpf, "layouts");
	size_t taken = pins->count;
	int err = 0;

	bpf_object__for_each_map (map, object->bpf) {
		const struct pinned_map *pinned = pins_find(pins, bpf_map__name(map));

		if (pinned && !err)
			err = bpf_map__reuse_fd(map, pinned->fd);
		else if (pins_map_is_sized(bpf_map__name(map)))
			bpf_map__set_max_entries(map, qps_max);
	}
	if (err)
		return explain(error, err, "the pinned maps at %s cannot be used: %s", pins->root,
			       strerror(-err));
	if (!pins_find(pins, "control"))
		bpf_map__set_map_flags(bpf_object__find_map_by_name(object->bpf, "control"),
				       BPF_F_MMAPABLE);
	err = object_load(object, error);
	if (!err && !pins_find(pins, "layouts"))
		err = pins_pin_first(pins, layouts, error);
	bpf_object__for_each_map (map, object->bpf)
		if (!err && !bpf_map__is_internal(map) && map != abi &&
		    !pins_find(pins, bpf_map__name(map)))
			err = pins_pin_map(pins, map, error);
	if (err || taken)
		return err;
	err = pins_write_abi(bpf_map__fd(abi));
	if (err)
		return explain(error, err, "%s/abi: %s", pins->root, strerror(-err));
	return pins_pin_map(pins, abi, error);
}

/* Takes what has our layout; another one is of pins->old. A pin that is missing is made. */
static int pins_take_map(struct pins *pins, const struct bpf_map *map, bool next, char **error)
{
	const char *name = bpf_map__name(map);
	struct pinned_map found;
	bool ours;
	int err;

	err = pins_open_one(pins, name, next, &found, error);
	if (err)
		return err == -ENOENT ? 0 : err;
	ours = layout_of(pins, &found) == layout_ours(name) && map_has_shape(&found, map);
	if ((ours ? pins->count : pins->old_count) == PINS_MAPS_MAX ||
	    (ours && pins_find(pins, name))) {
		close(found.fd);
		return 0;
	}
	if (ours)
		pins->maps[pins->count++] = found;
	else
		pins->old[pins->old_count++] = found;
	return 0;
}

static int pins_take_maps(struct pins *pins, struct object *object, uint32_t qps_max, char **error)
{
	const struct bpf_map *map, *layouts = bpf_object__find_map_by_name(object->bpf, "layouts");
	const struct pinned_map *control;
	int err = pins_take_map(pins, layouts, false, error);

	/* What a change of release that was cut short made comes first: programs may use it. */
	for (int next = 1; next >= 0; next--)
		bpf_object__for_each_map (map, object->bpf)
			if (!err && !bpf_map__is_internal(map) && map != layouts)
				err = pins_take_map(pins, map, next, error);
	if (err)
		return err;
	pins->were_there = true;
	pins->counted_shared = pins_find(pins, "xdp_counted") || pins_find(pins, "port_counts");
	err = pins_make_maps(pins, object, qps_max, error);
	control = pins_old(pins, "control");
	if (!err && control)
		pins_map_old_control(pins, control);
	return err;
}

/* --- opening --- */

static int pins_map_control(struct pins *pins, char **error)
{
	void *memory = mmap(NULL, sizeof(*pins->control), PROT_READ | PROT_WRITE, MAP_SHARED,
			    pins_map_fd(pins, "control"), 0);

	if (memory == MAP_FAILED)
		return explain(
			error, -errno,
			"%s/control cannot be mapped (%s): it was not made by escapementd; run "
			"`escapementd --remove`, then start again",
			pins->root, strerror(errno));
	pins->control = memory;
	return 0;
}

static int pins_start(struct pins **out, const char *root, char **error)
{
	struct pins *pins = calloc(1, sizeof(*pins));

	if (!pins)
		return -ENOMEM;
	snprintf(pins->root, sizeof(pins->root), "%s", root);
	pins->lock_fd = pins_lock(root, error);
	if (pins->lock_fd < 0) {
		int err = pins->lock_fd;

		free(pins);
		return err;
	}
	*out = pins;
	return 0;
}

int pins_open(struct pins **out, const char *root, uint32_t qps_max, char **error)
{
	struct object *object = NULL;
	struct pins *pins = NULL;
	struct esc_abi abi = {};
	int err;

	*out = NULL;
	err = pins_check_bpffs(root, error);
	if (!err)
		err = pins_make_folder(root, error);
	if (!err)
		err = pins_start(&pins, root, error);
	if (!err)
		err = object_open(&object, OBJECT_MAPS, NULL, 0, error);
	if (err)
		goto out;
	/* Another ABI is refused before anything else is read. */
	err = pins_read_abi(pins, &abi, error);
	snprintf(pins->old_version, sizeof(pins->old_version), "%.23s", abi.version);
	if (!err && abi.abi != ESC_ABI && abi.abi != ESC_ABI_BEFORE)
		err = explain(error, -EPROTO,
			      "the pinned maps at %s have ABI %u (version %.23s made them), this "
			      "program has ABI %u: `escapement off` or `escapementd --remove` "
			      "detaches and removes them, counts included; then start again",
			      root, abi.abi, abi.version, ESC_ABI);
	else if (!err)
		err = pins_take_maps(pins, object, qps_max, error);
	else if (err == -ENOENT) {
		err = pins_clear_leftovers(pins, object->bpf, error);
		if (!err)
			err = pins_make_maps(pins, object, qps_max, error);
	}
	if (!err)
		err = pins_map_control(pins, error);
	if (!err && pins_find(pins, "qps")->info.max_entries != qps_max)
		log_warning(
			"qps.max is %u, but the pinned map at %s/qps has room for %u and stays; "
			"to change it, stop escapementd and run `escapementd --remove`",
			qps_max, root, pins_find(pins, "qps")->info.max_entries);
out:
	object_close(object);
	if (err)
		pins_close(pins);
	else
		*out = pins;
	return err;
}

static bool has_our_layout(const struct pins *pins, const char *name)
{
	const struct pinned_map *map = pins_find(pins, name);

	return map && layout_of(pins, map) == layout_ours(name);
}

int pins_open_any(struct pins **out, const char *root, char **error)
{
	struct pins *pins = NULL;
	struct dirent *entry;
	struct esc_abi abi = {};
	char path[PATH_MAX];
	DIR *directory;
	int err;

	*out = NULL;
	snprintf(path, sizeof(path), "%s/abi", root);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return -ENOENT;
	err = pins_start(&pins, root, error);
	if (err)
		return err;
	err = pins_read_abi(pins, &abi, error);
	directory = err ? NULL : opendir(root);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof(pins->maps[0].name) &&
		    strcmp(entry->d_name, "links") && strcmp(entry->d_name, PINS_NEXT))
			pins_open_map(pins, entry->d_name, NULL);
	if (directory)
		closedir(directory);
	/* Programs may use those of a start that was cut short. */
	if (!err && !pins_open_one(pins, "qps", true, &pins->old[0], NULL))
		pins->old_count = 1;
	if (!err && abi.abi == ESC_ABI && has_our_layout(pins, "control") &&
	    has_our_layout(pins, "ports"))
		err = pins_map_control(pins, error);
	if (err)
		pins_close(pins);
	else
		*out = pins;
	return err;
}

void pins_close(struct pins *pins)
{
	if (!pins)
		return;
	if (pins->control)
		munmap(pins->control, sizeof(*pins->control));
	if (pins->old_control)
		munmap(pins->old_control, getpagesize());
	for (size_t i = 0; i < pins->count; i++)
		close(pins->maps[i].fd);
	for (size_t i = 0; i < pins->old_count; i++)
		close(pins->old[i].fd);
	if (pins->lock_fd >= 0)
		close(pins->lock_fd);
	free(pins);
}

/* Unpins all in the folder @name below the root, and the folder. */
static int pins_remove_folder(struct pins *pins, const char *name, char **error)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	pins_path(pins, name, folder, sizeof(folder));
	directory = opendir(folder);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	if (rmdir(folder) < 0 && errno != ENOENT)
		return explain(error, -errno, "%s cannot be removed: %s", folder, strerror(errno));
	return 0;
}

int pins_remove(struct pins *pins, char **error)
{
	int err = pins_remove_links(pins->root, error);

	if (!err)
		err = pins_remove_folder(pins, PINS_NEXT, error);
	if (err)
		return err;
	for (size_t i = 0; i < pins->count; i++)
		if (unlinkat(pins->lock_fd, pins->maps[i].name, 0) < 0 && errno != ENOENT)
			return explain(error, -errno, "%s/%s cannot be removed: %s", pins->root,
				       pins->maps[i].name, strerror(errno));
	/* The folder may be a mount point, or hold things of the operator's. */
	rmdir(pins->root);
	return 0;
}

/* --- links --- */

static void link_path(const struct pins *pins, const char *interface, const char *pin,
		      char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/links/%s-%s", pins->root, interface, pin);
}

bool pins_has_link(const struct pins *pins, const char *interface, const char *pin)
{
	char path[PATH_MAX];

	link_path(pins, interface, pin, path);
	return !access(path, F_OK);
}

int pins_open_link(const struct pins *pins, const char *interface, const char *pin,
		   unsigned int ifindex, char **error)
{
	struct bpf_link_info info = {0};
	__u32 bytes = sizeof(info);
	char path[PATH_MAX];
	int fd, err;

	link_path(pins, interface, pin, path);
	fd = pin_open(path, PIN_LINK);
	if (fd == -ENOENT)
		return fd;
	if (fd < 0)
		return explain(
			error, -EEXIST,
			"%s is not a link of Escapement's; move it away, or set another pin_root",
			path);
	err = bpf_obj_get_info_by_fd(fd, &info, &bytes);
	/* xdp.ifindex and tcx.ifindex are at the same offset; 0 when the device is gone. */
	if (!err && info.xdp.ifindex && info.xdp.ifindex == ifindex)
		return fd;
	log_debug("%s was on interface index %u, not %u: unpinned", path, info.xdp.ifindex,
		  ifindex);
	close(fd);
	unlink(path);
	return -ENOENT;
}

int pins_attach_link(const struct pins *pins, const struct pins_link *link, int program_fd,
		     char **error)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = link->flags);
	int fd = pins_open_link(pins, link->interface, link->pin, link->ifindex, error), err;
	char path[PATH_MAX];

	if (fd >= 0) {
		err = bpf_link_update(fd, program_fd, NULL);
		if (err)
			explain(error, err, "the %s program on %s cannot be replaced: %s",
				link->what, link->interface, strerror(-err));
		close(fd);
		return err;
	}
	if (fd != -ENOENT)
		return fd;
	fd = link->behind ? order_create(pins, link, program_fd)
			  : bpf_link_create(program_fd, (int)link->ifindex, link->type, &options);
	if (fd < 0)
		return explain(error, fd, "%s on %s: %s", link->what, link->interface,
			       strerror(-fd));
	pins_path(pins, "links", path, sizeof(path));
	err = pins_make_folder(path, error);
	if (!err) {
		link_path(pins, link->interface, link->pin, path);
		err = bpf_obj_pin(fd, path);
		if (err)
			explain(error, err, "cannot pin a link at %s: %s", path, strerror(-err));
	}
	close(fd);
	return err;
}

void pins_drop_link(const struct pins *pins, const char *interface, const char *pin)
{
	char path[PATH_MAX];
	int fd;

	link_path(pins, interface, pin, path);
	fd = pin_open(path, PIN_LINK);
	if (fd < 0)
		return;
	bpf_link_detach(fd);
	unlink(path);
	close(fd);
}

/* --- ports --- */

int pins_read_port(const struct pins *pins, unsigned int slot, struct esc_port *out)
{
	return bpf_map_lookup_elem(pins_map_fd(pins, "ports"), &slot, out);
}

int pins_write_port(const struct pins *pins, unsigned int slot, const struct esc_port *port)
{
	return bpf_map_update_elem(pins_map_fd(pins, "ports"), &slot, port, BPF_ANY);
}
