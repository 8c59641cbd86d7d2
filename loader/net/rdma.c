// SPDX-License-Identifier: BSD-2-Clause
#include "rdma.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* GIDs of a netdev come first in the table; holes are short. */
#define RDMA_GID_HOLE_MAX 8

/* First line of the file at the path that @format gives; false when it cannot be read. */
__attribute__((format(printf, 3, 4))) static bool read_line(char *out, size_t bytes,
							    const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	ssize_t got;
	int fd;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, out, bytes - 1);
	close(fd);
	if (got < 0)
		return false; /* EINVAL: an empty slot of the GID table */
	out[got] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return true;
}

static bool port_has_netdev(const char *port, const char *netdev)
{
	char name[64];
	int hole = 0;

	for (int i = 0; hole < RDMA_GID_HOLE_MAX; i++) {
		if (!read_line(name, sizeof(name), "%s/gid_attrs/ndevs/%d", port, i) || !name[0])
			hole++;
		else if (!strcmp(name, netdev))
			return true;
		else
			hole = 0;
	}
	return false;
}

static bool port_has_counters(const char *port)
{
	char pattern[PATH_MAX], text[64];
	bool found = false;
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/{hw_counters,counters}/*", port);
	if (glob(pattern, GLOB_BRACE, NULL, &files))
		return false;
	for (size_t i = 0; !found && i < files.gl_pathc; i++)
		found = strcmp(strrchr(files.gl_pathv[i], '/'), "/lifespan") &&
			read_line(text, sizeof(text), "%s", files.gl_pathv[i]);
	globfree(&files);
	return found;
}

static bool has_file(const char *device, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", device, name);
	return !access(path, F_OK);
}

static void read_driver(const char *device, char *out, size_t bytes)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *slash;
	ssize_t length;

	snprintf(path, sizeof(path), "%s/device/driver", device);
	length = readlink(path, target, sizeof(target) - 1);
	if (length <= 0)
		return;
	target[length] = '\0';
	slash = strrchr(target, '/');
	snprintf(out, bytes, "%.31s", slash ? slash + 1 : target);
}

/*
 * A NIC's device is below a bus device; rxe and siw are below none, or below their netdev's device
 * in older kernels. rxe alone has the file `parent` (drivers/infiniband/sw/rxe/rxe_verbs.c), siw a
 * node_desc of its own (drivers/infiniband/sw/siw/siw.h).
 */
static bool is_software(const char *device, const char *driver)
{
	char text[128];

	if (has_file(device, "parent"))
		return true;
	if (read_line(text, sizeof(text), "%s/node_desc", device) &&
	    (!strcmp(text, "rxe") || !strncmp(text, "Software iWARP", 14)))
		return true;
	return !driver[0] && !has_file(device, "device");
}

void rdma_read(const char *sysroot, const char *netdev, struct rdma_facts *out)
{
	char pattern[PATH_MAX], *slash;
	glob_t ports;

	memset(out, 0, sizeof(*out));
	snprintf(pattern, sizeof(pattern), "%s/class/infiniband/*/ports/*", sysroot);
	if (glob(pattern, 0, NULL, &ports))
		return;
	for (size_t i = 0; i < ports.gl_pathc && !out->device[0]; i++) {
		char *path = ports.gl_pathv[i];

		if (!port_has_netdev(path, netdev))
			continue;
		out->port = strtoul(strrchr(path, '/') + 1, NULL, 10);
		out->counters = port_has_counters(path);
		slash = strstr(path + strlen(sysroot), "/ports/");
		*slash = '\0'; /* the device's own directory from here on */
		read_driver(path, out->driver, sizeof(out->driver));
		out->software = is_software(path, out->driver);
		snprintf(out->device, sizeof(out->device), "%.63s", strrchr(path, '/') + 1);
	}
	globfree(&ports);
}
