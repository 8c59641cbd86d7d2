// SPDX-License-Identifier: BSD-2-Clause
#include "rdma.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* GIDs of a netdev come first in the table; holes are short. */
#define RDMA_GID_HOLE_MAX 8

/* First line of a file; false when it cannot be read. */
static bool rdma_read_line(int directory, const char *name, char *out, size_t bytes)
{
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	ssize_t got;

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

/* Calls @fn for each entry until one says true. Takes no ownership of @parent. */
typedef bool rdma_entry_fn(int directory, const char *name, void *context);

static bool rdma_each_entry(int parent, const char *path, rdma_entry_fn *fn, void *context)
{
	int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	bool found = false;
	DIR *directory;

	if (fd < 0)
		return false;
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return false;
	}
	while (!found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.' && fn(fd, entry->d_name, context);
	closedir(directory);
	return found;
}

static bool rdma_is_counter(int directory, const char *name, void *context)
{
	char text[64];

	(void)context;
	return strcmp(name, "lifespan") && rdma_read_line(directory, name, text, sizeof(text));
}

static void rdma_read_driver(int device, char *out, size_t bytes)
{
	char target[PATH_MAX];
	const char *slash;
	ssize_t length = readlinkat(device, "device/driver", target, sizeof(target) - 1);

	out[0] = '\0';
	if (length <= 0)
		return;
	target[length] = '\0';
	slash = strrchr(target, '/');
	snprintf(out, bytes, "%.31s", slash ? slash + 1 : target);
}

/*
 * A NIC's device hangs under a bus device; rxe and siw hang nowhere, or under
 * their netdev's device in older kernels. rxe alone has the file `parent`
 * (drivers/infiniband/sw/rxe/rxe_verbs.c), siw a node_desc of its own
 * (drivers/infiniband/sw/siw/siw.h).
 */
static bool rdma_is_software(int device, const char *driver)
{
	char text[128];

	if (!faccessat(device, "parent", F_OK, 0))
		return true;
	if (rdma_read_line(device, "node_desc", text, sizeof(text)) &&
	    (!strcmp(text, "rxe") || !strncmp(text, "Software iWARP", 14)))
		return true;
	return !driver[0] && faccessat(device, "device", F_OK, 0);
}

struct rdma_search {
	const char *netdev;
	struct rdma_facts *out;
	int device; /* directory of the device under search */
};

static bool rdma_port_has_netdev(int port, const char *netdev)
{
	char file[48], name[64];
	int hole = 0;

	for (int i = 0; hole < RDMA_GID_HOLE_MAX; i++) {
		snprintf(file, sizeof(file), "gid_attrs/ndevs/%d", i);
		if (!rdma_read_line(port, file, name, sizeof(name)) || !name[0])
			hole++;
		else if (!strcmp(name, netdev))
			return true;
		else
			hole = 0;
	}
	return false;
}

static bool rdma_match_port(int ports, const char *name, void *context)
{
	struct rdma_search *search = context;
	int port = openat(ports, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool found;

	if (port < 0)
		return false;
	found = rdma_port_has_netdev(port, search->netdev);
	if (found) {
		struct rdma_facts *out = search->out;

		out->port = strtoul(name, NULL, 10);
		rdma_read_driver(search->device, out->driver, sizeof(out->driver));
		out->software = rdma_is_software(search->device, out->driver);
		out->counters = rdma_each_entry(port, "hw_counters", rdma_is_counter, NULL) ||
				rdma_each_entry(port, "counters", rdma_is_counter, NULL);
	}
	close(port);
	return found;
}

static bool rdma_match_device(int devices, const char *name, void *context)
{
	struct rdma_search *search = context;
	bool found;

	search->device = openat(devices, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (search->device < 0)
		return false;
	found = rdma_each_entry(search->device, "ports", rdma_match_port, search);
	if (found)
		snprintf(search->out->device, sizeof(search->out->device), "%.63s", name);
	close(search->device);
	return found;
}

void rdma_read(const char *sysroot, const char *netdev, struct rdma_facts *out)
{
	struct rdma_search search = {.netdev = netdev, .out = out};
	int root = open(sysroot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(out, 0, sizeof(*out));
	if (root < 0)
		return;
	rdma_each_entry(root, "class/infiniband", rdma_match_device, &search);
	close(root);
}
