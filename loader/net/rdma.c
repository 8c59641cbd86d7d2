// SPDX-License-Identifier: BSD-2-Clause
#include "rdma.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/readfile.h"
#include "rtnl.h"

/* --- the device of an interface, from sysfs --- */

/* GIDs of a netdev come first in the table; holes are short. */
#define RDMA_GID_HOLE_MAX 8

static bool port_has_netdev(const char *port, const char *netdev)
{
	char name[64];
	int hole = 0;

	for (int i = 0; hole < RDMA_GID_HOLE_MAX; i++) {
		/* EINVAL: an empty slot of the GID table. */
		if (readtext(name, sizeof(name), "%s/gid_attrs/ndevs/%d", port, i) <= 0)
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
			readtext(text, sizeof(text), "%s", files.gl_pathv[i]) >= 0;
	globfree(&files);
	return found;
}

static bool has_file(const char *device, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", device, name);
	return !access(path, F_OK);
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
	if (readtext(text, sizeof(text), "%s/node_desc", device) > 0 &&
	    (!strcmp(text, "rxe") || !strncmp(text, "Software iWARP", 14)))
		return true;
	return !driver[0] && !has_file(device, "device");
}

void rdma_read(const char *sysroot, const char *netdev, struct rdma_facts *out)
{
	char pattern[PATH_MAX], link[PATH_MAX], *slash;
	ssize_t bytes;
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
		snprintf(pattern, sizeof(pattern), "%s/device/driver", path);
		bytes = readlink(pattern, link, sizeof(link) - 1);
		link[bytes < 0 ? 0 : bytes] = '\0';
		slash = strrchr(link, '/');
		snprintf(out->driver, sizeof(out->driver), "%.31s", slash ? slash + 1 : link);
		out->software = is_software(path, out->driver);
		snprintf(out->device, sizeof(out->device), "%.63s", strrchr(path, '/') + 1);
	}
	globfree(&ports);
}

/* --- queue pairs, by RDMA netlink --- */

/* @device: its index, or -1 for all devices. */
static int rdma_query(int command, int64_t device, netlink_reply_fn *fn, void *context)
{
	union netlink_request request;

	netlink_begin(&request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_ACK | NLM_F_DUMP,
		      0);
	if (device >= 0)
		mnl_attr_put_u32(&request.header, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)device);
	return netlink_query(NETLINK_RDMA, &request, fn, context);
}

static int parse_device(const struct nlmsghdr *message, void *context)
{
	const struct nlattr *a[RDMA_NLDEV_ATTR_DEV_NAME + 1];
	struct rdmares *out = context;
	struct rdmares_device *device = &out->devices[out->device_count];

	out->device_seen++;
	if (out->device_count == RDMARES_DEVICES_MAX)
		return 0;
	netlink_attributes(message, 0, a, RDMA_NLDEV_ATTR_DEV_NAME);
	device->index = netlink_number(a[RDMA_NLDEV_ATTR_DEV_INDEX]);
	netlink_text(a[RDMA_NLDEV_ATTR_DEV_NAME], device->name, sizeof(device->name));
	out->device_count += device->name[0] != '\0';
	return 0;
}

static void parse_qp(const struct nlattr *entry, struct rdmares_qp *qp)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested (a, entry) {
		switch (mnl_attr_get_type(a)) {
		case RDMA_NLDEV_ATTR_PORT_INDEX:
			qp->port = netlink_number(a);
			break;
		case RDMA_NLDEV_ATTR_RES_LQPN:
			qp->qpn = netlink_number(a);
			break;
		case RDMA_NLDEV_ATTR_RES_RQPN:
			qp->remote_qpn = netlink_number(a);
			qp->has_remote = true;
			break;
		case RDMA_NLDEV_ATTR_RES_TYPE:
			qp->type = (uint8_t)netlink_number(a);
			break;
		case RDMA_NLDEV_ATTR_RES_STATE:
			qp->state = (uint8_t)netlink_number(a);
			break;
		case RDMA_NLDEV_ATTR_RES_PID:
			qp->tid = netlink_number(a);
			break;
		case RDMA_NLDEV_ATTR_RES_KERN_NAME:
			netlink_text(a, qp->kernel, sizeof(qp->kernel));
			break;
		}
	}
}

static int add_qps(const struct nlmsghdr *message, void *context)
{
	struct rdmares *out = context;
	const struct rdmares_device *device = &out->devices[out->device_count];
	const struct nlattr *list, *entry;

	mnl_attr_for_each (list, message, 0) {
		if (mnl_attr_get_type(list) != RDMA_NLDEV_ATTR_RES_QP)
			continue;
		mnl_attr_for_each_nested (entry, list) {
			struct rdmares_qp *qp;

			if (mnl_attr_get_type(entry) != RDMA_NLDEV_ATTR_RES_QP_ENTRY)
				continue;
			qp = array_add(&out->qps, &out->count, &out->room, sizeof(*qp));
			if (!qp)
				return -ENOMEM;
			qp->device = device->index;
			memcpy(qp->name, device->name, sizeof(qp->name));
			parse_qp(entry, qp);
		}
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct rdmares_qp *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->qpn < y->qpn ? -1 : x->qpn > y->qpn;
}

int rdmares_read(struct rdmares *out)
{
	struct rdmares_device *device;
	size_t devices;
	int err;

	memset(out, 0, sizeof(*out));
	err = rdma_query(RDMA_NLDEV_CMD_GET, -1, parse_device, out);
	if (err)
		return err;
	devices = out->device_count;
	out->device_count = 0;
	for (size_t i = 0; i < devices; i++) {
		size_t before = out->count;

		device = &out->devices[out->device_count];
		*device = out->devices[i];
		if (rdma_query(RDMA_NLDEV_CMD_RES_QP_GET, device->index, add_qps, out))
			out->count = before; /* half a list would retire the other half */
		else
			out->device_count++;
	}
	if (out->count)
		qsort(out->qps, out->count, sizeof(*out->qps), compare);
	return 0;
}

void rdmares_free(struct rdmares *list)
{
	free(list->qps);
	memset(list, 0, sizeof(*list));
}

const struct rdmares_qp *rdmares_find(const struct rdmares *list, uint32_t device, uint32_t qpn)
{
	struct rdmares_qp wanted = {.device = device, .qpn = qpn};

	return list->count ? bsearch(&wanted, list->qps, list->count, sizeof(*list->qps), compare)
			   : NULL;
}

bool rdmares_has_device(const struct rdmares *list, uint32_t device)
{
	for (size_t i = 0; i < list->device_count; i++)
		if (list->devices[i].index == device)
			return true;
	return false;
}
