// SPDX-License-Identifier: BSD-2-Clause
#include "rdmares.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "netlink.h"

/* @device: its index, or -1 for all devices. */
static int query(int command, int64_t device, netlink_reply_fn *fn, void *context)
{
	union netlink_request request;

	netlink_begin(&request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), NLM_F_ACK | NLM_F_DUMP,
		      0);
	if (device >= 0)
		mnl_attr_put_u32(&request.header, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)device);
	return netlink_query(NETLINK_RDMA, &request, fn, context);
}

/* --- devices --- */

struct rdmares_device {
	uint32_t index;
	char name[32];
};

struct rdmares_devices {
	struct rdmares_device list[RDMARES_DEVICES_MAX];
	size_t count;
	size_t seen;
};

static int parse_device(const struct nlmsghdr *message, void *context)
{
	const struct nlattr *a[RDMA_NLDEV_ATTR_DEV_NAME + 1];
	struct rdmares_devices *devices = context;
	struct rdmares_device *device = &devices->list[devices->count];

	devices->seen++;
	if (devices->count == RDMARES_DEVICES_MAX)
		return 0;
	netlink_attributes(message, 0, a, RDMA_NLDEV_ATTR_DEV_NAME);
	device->index =
		a[RDMA_NLDEV_ATTR_DEV_INDEX] ? mnl_attr_get_u32(a[RDMA_NLDEV_ATTR_DEV_INDEX]) : 0;
	netlink_text(a[RDMA_NLDEV_ATTR_DEV_NAME], device->name, sizeof(device->name));
	devices->count += device->name[0] != '\0';
	return 0;
}

/* --- queue pairs --- */

struct rdmares_walk {
	struct rdmares *out;
	const struct rdmares_device *device;
	size_t room;
};

static void parse_qp(const struct nlattr *entry, struct rdmares_qp *qp)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested (a, entry) {
		switch (mnl_attr_get_type(a)) {
		case RDMA_NLDEV_ATTR_PORT_INDEX:
			qp->port = mnl_attr_get_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_LQPN:
			qp->qpn = mnl_attr_get_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_RQPN:
			qp->remote_qpn = mnl_attr_get_u32(a);
			qp->has_remote = true;
			break;
		case RDMA_NLDEV_ATTR_RES_TYPE:
			qp->type = mnl_attr_get_u8(a);
			break;
		case RDMA_NLDEV_ATTR_RES_STATE:
			qp->state = mnl_attr_get_u8(a);
			break;
		case RDMA_NLDEV_ATTR_RES_PID:
			qp->tid = mnl_attr_get_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_KERN_NAME:
			netlink_text(a, qp->kernel, sizeof(qp->kernel));
			break;
		}
	}
}

static int add_qps(const struct nlmsghdr *message, void *context)
{
	struct rdmares_walk *walk = context;
	struct rdmares *out = walk->out;
	const struct nlattr *list, *entry;

	mnl_attr_for_each (list, message, 0) {
		if (mnl_attr_get_type(list) != RDMA_NLDEV_ATTR_RES_QP)
			continue;
		mnl_attr_for_each_nested (entry, list) {
			struct rdmares_qp *qp;

			if (mnl_attr_get_type(entry) != RDMA_NLDEV_ATTR_RES_QP_ENTRY)
				continue;
			qp = array_add(&out->qps, &out->count, &walk->room, sizeof(*qp));
			if (!qp)
				return -ENOMEM;
			qp->device = walk->device->index;
			memcpy(qp->name, walk->device->name, sizeof(qp->name));
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
	struct rdmares_devices devices = {};
	struct rdmares_walk walk = {.out = out};
	int err;

	memset(out, 0, sizeof(*out));
	err = query(RDMA_NLDEV_CMD_GET, -1, parse_device, &devices);
	if (err)
		return err;
	out->devices = calloc(devices.count + 1, sizeof(*out->devices));
	if (!out->devices)
		return -ENOMEM;
	out->device_seen = devices.seen;
	for (size_t i = 0; i < devices.count; i++) {
		size_t before = out->count;

		walk.device = &devices.list[i];
		if (query(RDMA_NLDEV_CMD_RES_QP_GET, walk.device->index, add_qps, &walk))
			out->count = before; /* half a list would retire the other half */
		else
			out->devices[out->device_count++] = walk.device->index;
	}
	if (out->count)
		qsort(out->qps, out->count, sizeof(*out->qps), compare);
	return 0;
}

void rdmares_free(struct rdmares *list)
{
	free(list->qps);
	free(list->devices);
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
		if (list->devices[i] == device)
			return true;
	return false;
}
