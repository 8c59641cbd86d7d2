// SPDX-License-Identifier: BSD-2-Clause
#include "pins.h"

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
#include "object.h"

#define PINS_MAPS_MAX 48
#define PINS_ROOT_BYTES 256

struct pinned_map {
	char name[16];
	int fd;
	struct bpf_map_info info;
};

struct pins {
	char root[PINS_ROOT_BYTES];
	int lock_fd; /* the folder itself, flock'ed */
	bool were_there;
	size_t count;
	struct pinned_map maps[PINS_MAPS_MAX];
	struct esc_control *control;
};

#define PINS_OTHER_SHAPE                                                                           \
	"%s/%s is a map of another shape than Escapement's; move it away, or set another pin_root"

static void pins_path(const struct pins *pins, const char *name, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/%s", pins->root, name);
}

/*
 * The kernel names the anonymous inode behind a descriptor after its kind:
 * bpf-map, bpf-prog, bpf_link (bpf-link since 6.8 or so).
 */
static bool pins_fd_is(int fd, const char *pattern)
{
	char path[64], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = '\0';
	return !fnmatch(pattern, target, 0);
}
#define FD_MAP "*bpf?map*"
#define FD_LINK "*bpf?link*"

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

/* /proc/locks: "1: FLOCK  ADVISORY  WRITE 708 00:2e:1234 0 EOF"; 0 when not found. */
static int lock_holder(int fd)
{
	unsigned long inode;
	int pid, holder = 0;
	struct stat status;
	char line[256];
	FILE *locks;

	if (fstat(fd, &status) < 0)
		return 0;
	locks = fopen("/proc/locks", "re");
	while (locks && !holder && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 &&
		    inode == status.st_ino)
			holder = pid;
	if (locks)
		fclose(locks);
	return holder;
}

/* One escapementd at a time on @root, whatever its network namespace; the kernel ends the lock. */
static int pins_lock(const char *root, char **error)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char holder[32] = "";
	int err, pid;

	if (fd < 0)
		return explain(error, -errno, "pin_root %s: %s", root, strerror(errno));
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	pid = lock_holder(fd);
	if (pid)
		snprintf(holder, sizeof(holder), " (pid %d)", pid);
	explain(error, err,
		"pin_root %s is in use by another escapementd%s; stop it, or give this one a "
		"pin_root of its own",
		root, holder);
	close(fd);
	return err;
}

/* --- maps --- */

/* A descriptor of the map at @name, -ENOENT, or an error with its sentence. */
static int pins_get_map(struct pins *pins, const char *name, struct pinned_map *out, char **error)
{
	char path[PATH_MAX];
	__u32 bytes = sizeof(out->info);
	int fd, err;

	pins_path(pins, name, path, sizeof(path));
	fd = bpf_obj_get(path);
	if (fd == -ENOENT)
		return fd;
	if (fd < 0)
		return explain(
			error, fd,
			"%s cannot be opened as a pin: %s; move it away, or set another pin_root",
			path, strerror(-fd));
	if (!pins_fd_is(fd, FD_MAP)) {
		close(fd);
		return explain(
			error, -EEXIST,
			"%s is not a map of Escapement's; move it away, or set another pin_root",
			path);
	}
	memset(&out->info, 0, sizeof(out->info));
	err = bpf_obj_get_info_by_fd(fd, &out->info, &bytes);
	if (err) {
		close(fd);
		return explain(error, err, "%s: %s", path, strerror(-err));
	}
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->fd = fd;
	return 0;
}

/* Queue pairs' maps have the room that the configuration had when they were made. */
static bool pins_map_is_sized(const char *name)
{
	return !strcmp(name, "qps") || !strcmp(name, "qp_sent") || !strcmp(name, "qp_owd") ||
	       !strcmp(name, "qp_pace");
}

/* Opens the pin of @map; -ENOENT, or -EEXIST when what is there has another shape. */
static int pins_open_map(struct pins *pins, const struct bpf_map *map, struct pinned_map *out,
			 char **error)
{
	const char *name = bpf_map__name(map);
	const struct bpf_map_info *info = &out->info;
	int err = pins_get_map(pins, name, out, error);

	if (err)
		return err;
	if (info->type == bpf_map__type(map) && info->key_size == bpf_map__key_size(map) &&
	    info->value_size == bpf_map__value_size(map) &&
	    (pins_map_is_sized(name) || info->max_entries == bpf_map__max_entries(map)))
		return 0;
	close(out->fd);
	return explain(error, -EEXIST, PINS_OTHER_SHAPE, pins->root, name);
}

static int pins_take_map(struct pins *pins, const struct bpf_map *map, char **error)
{
	int err;

	if (pins->count == PINS_MAPS_MAX)
		return explain(error, -E2BIG, "more maps than %d", PINS_MAPS_MAX);
	err = pins_open_map(pins, map, &pins->maps[pins->count], error);
	pins->count += !err;
	return err;
}

/* The value of `abi`. -ENOENT: no pins. */
static int pins_read_abi(struct pins *pins, struct esc_abi *out, char **error)
{
	struct pinned_map map = {};
	__u32 zero = 0;
	int err = pins_get_map(pins, "abi", &map, error);

	if (err)
		return err;
	if (map.info.key_size == sizeof(zero) && map.info.value_size == sizeof(*out))
		err = bpf_map_lookup_elem(map.fd, &zero, out);
	else
		err = -EEXIST;
	close(map.fd);
	return err ? explain(error, err, PINS_OTHER_SHAPE, pins->root, "abi") : 0;
}

/*
 * A start that was cut short leaves maps of ours without `abi`, which is
 * pinned last: they hold nothing yet. Anything else here is foreign.
 */
static int pins_clear_leftovers(struct pins *pins, struct bpf_object *object, char **error)
{
	char path[PATH_MAX], foreign[64] = "";
	const struct bpf_map *map;
	struct pinned_map pinned;
	struct dirent *entry;
	DIR *directory;
	int err;

	bpf_object__for_each_map (map, object) {
		if (bpf_map__is_internal(map))
			continue;
		err = pins_open_map(pins, map, &pinned, error);
		if (err == -ENOENT)
			continue;
		if (err)
			return err;
		close(pinned.fd);
		pins_path(pins, bpf_map__name(map), path, sizeof(path));
		unlink(path);
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

static int pins_pin_map(struct pins *pins, const struct bpf_map *map, char **error)
{
	char path[PATH_MAX];
	int err;

	pins_path(pins, bpf_map__name(map), path, sizeof(path));
	err = bpf_obj_pin(bpf_map__fd(map), path);
	if (err)
		return explain(error, err, "cannot pin a map at %s: %s", path, strerror(-err));
	return pins_take_map(pins, map, error);
}

/* Creates all maps in the kernel, then pins them, `abi` last. */
static int pins_make_maps(struct pins *pins, struct object *object, uint32_t qps_max, char **error)
{
	struct bpf_map *map, *abi = bpf_object__find_map_by_name(object->bpf, "abi");
	struct esc_abi version = {.abi = ESC_ABI, .version = ESC_VERSION};
	__u32 zero = 0;
	int err;

	bpf_object__for_each_map (map, object->bpf)
		if (pins_map_is_sized(bpf_map__name(map)))
			bpf_map__set_max_entries(map, qps_max);
	bpf_map__set_map_flags(bpf_object__find_map_by_name(object->bpf, "control"),
			       BPF_F_MMAPABLE);
	err = object_load(object, error);
	if (err)
		return err;
	bpf_object__for_each_map (map, object->bpf) {
		if (bpf_map__is_internal(map) || map == abi)
			continue;
		err = pins_pin_map(pins, map, error);
		if (err)
			return err;
	}
	err = bpf_map_update_elem(bpf_map__fd(abi), &zero, &version, BPF_ANY);
	if (err)
		return explain(error, err, "%s/abi: %s", pins->root, strerror(-err));
	return pins_pin_map(pins, abi, error);
}

static int pins_take_maps(struct pins *pins, struct bpf_object *object, char **error)
{
	const struct bpf_map *map;
	int err;

	bpf_object__for_each_map (map, object) {
		if (bpf_map__is_internal(map))
			continue;
		err = pins_take_map(pins, map, error);
		if (err == -ENOENT)
			explain(error, err,
				"%s/%s is missing beside the other pinned maps; run `escapementd "
				"--remove`, then start again",
				pins->root, bpf_map__name(map));
		if (err)
			return err;
	}
	pins->were_there = true;
	return 0;
}

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

/* --- opening --- */

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
		err = object_open(&object, OBJECT_MAPS, NULL, NULL, error);
	if (err)
		goto out;
	/* Another ABI is refused before anything else is read. */
	err = pins_read_abi(pins, &abi, error);
	if (!err && abi.abi != ESC_ABI)
		err = explain(error, -EPROTO,
			      "the pinned maps at %s have ABI %u (version %.23s made them), this "
			      "program has ABI %u: `escapement off` or `escapementd --remove` "
			      "detaches and removes them, counts included; then start again",
			      root, abi.abi, abi.version, ESC_ABI);
	else if (!err)
		err = pins_take_maps(pins, object->bpf, error);
	else if (err == -ENOENT) {
		err = pins_clear_leftovers(pins, object->bpf, error);
		if (!err)
			err = pins_make_maps(pins, object, qps_max, error);
	}
	if (!err)
		err = pins_map_control(pins, error);
	if (!err && pins_map_max(pins, "qps") != qps_max)
		log_warning(
			"qps.max is %u, but the pinned map at %s/qps has room for %u and stays; "
			"to change it, stop escapementd and run `escapementd --remove`",
			qps_max, root, pins_map_max(pins, "qps"));
out:
	object_close(object);
	if (err)
		pins_close(pins);
	else
		*out = pins;
	return err;
}

int pins_open_any(struct pins **out, const char *root, bool *same_abi, char **error)
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
	*same_abi = !err && abi.abi == ESC_ABI;
	directory = err ? NULL : opendir(root);
	while (directory && pins->count < PINS_MAPS_MAX && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < 16 &&
		    strcmp(entry->d_name, "links") &&
		    !pins_get_map(pins, entry->d_name, &pins->maps[pins->count], NULL))
			pins->count++;
	if (directory)
		closedir(directory);
	if (*same_abi)
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
	for (size_t i = 0; i < pins->count; i++)
		close(pins->maps[i].fd);
	if (pins->lock_fd >= 0)
		close(pins->lock_fd);
	free(pins);
}

int pins_remove(struct pins *pins, char **error)
{
	char folder[PATH_MAX], path[PATH_MAX];
	struct dirent *entry;
	DIR *directory;

	pins_path(pins, "links", folder, sizeof(folder));
	directory = opendir(folder);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < PATH_MAX)
			unlink(path);
	if (directory)
		closedir(directory);
	if (rmdir(folder) < 0 && errno != ENOENT)
		return explain(error, -errno, "%s cannot be removed: %s", folder, strerror(errno));
	for (size_t i = 0; i < pins->count; i++) {
		pins_path(pins, pins->maps[i].name, path, sizeof(path));
		if (unlink(path) < 0 && errno != ENOENT)
			return explain(error, -errno, "%s cannot be removed: %s", path,
				       strerror(errno));
	}
	/* The folder may be a mount point, or hold things of the operator's. */
	rmdir(pins->root);
	return 0;
}

/* --- maps by name --- */

bool pins_were_there(const struct pins *pins)
{
	return pins->were_there;
}

static const struct pinned_map *pins_find(const struct pins *pins, const char *name)
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

uint32_t pins_map_id(const struct pins *pins, const char *name)
{
	const struct pinned_map *map = pins_find(pins, name);

	return map ? map->info.id : 0;
}

uint32_t pins_map_max(const struct pins *pins, const char *name)
{
	const struct pinned_map *map = pins_find(pins, name);

	return map ? map->info.max_entries : 0;
}

struct esc_control *pins_control(const struct pins *pins)
{
	return pins->control;
}

int pins_apply(const struct pins *pins, struct bpf_object *object, char **error)
{
	struct bpf_map *map;

	bpf_object__for_each_map (map, object) {
		const struct pinned_map *pinned = pins_find(pins, bpf_map__name(map));
		int err = pinned ? bpf_map__reuse_fd(map, pinned->fd) : 0;

		if (err)
			return explain(error, err, "the pinned map %s/%s cannot be used: %s",
				       pins->root, pinned->name, strerror(-err));
	}
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
	fd = bpf_obj_get(path);
	if (fd == -ENOENT)
		return fd;
	if (fd < 0 || !pins_fd_is(fd, FD_LINK)) {
		if (fd >= 0)
			close(fd);
		return explain(
			error, -EEXIST,
			"%s is not a link of Escapement's; move it away, or set another pin_root",
			path);
	}
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

static int create_link(const struct pins *pins, const struct pins_link *link, int program_fd,
		       char **error)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = link->flags);
	char path[PATH_MAX];
	int fd, err;

	fd = bpf_link_create(program_fd, (int)link->ifindex, link->type, &options);
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

int pins_attach_link(const struct pins *pins, const struct pins_link *link, int program_fd,
		     char **error)
{
	int fd = pins_open_link(pins, link->interface, link->pin, link->ifindex, error), err;

	if (fd == -ENOENT)
		return create_link(pins, link, program_fd, error);
	if (fd < 0)
		return fd;
	err = bpf_link_update(fd, program_fd, NULL);
	close(fd);
	return err ? explain(error, err, "the %s program on %s cannot be replaced: %s", link->what,
			     link->interface, strerror(-err))
		   : 0;
}

void pins_drop_link(const struct pins *pins, const char *interface, const char *pin)
{
	char path[PATH_MAX];
	int fd;

	link_path(pins, interface, pin, path);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return;
	if (pins_fd_is(fd, FD_LINK)) {
		bpf_link_detach(fd);
		unlink(path);
	}
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
