// SPDX-License-Identifier: BSD-2-Clause
#include "rdmares.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RDMARES_BUFFER_BYTES (64 * 1024)
#define RDMARES_TIMEOUT_S 5

struct rdmares_request {
	struct nlmsghdr header;
	struct nlattr attribute;
	uint32_t value;
};

/* Called with the attributes of each answer. */
typedef int rdmares_fn(const struct nlattr *attributes, int bytes, void *context);

/* --- attributes --- */

static const void *rdmares_data(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static bool rdmares_ok(const struct nlattr *a, int left)
{
	return left >= NLA_HDRLEN && a->nla_len >= NLA_HDRLEN && a->nla_len <= left;
}

static const struct nlattr *rdmares_next(const struct nlattr *a, int *left)
{
	*left -= NLA_ALIGN(a->nla_len);
	return (const struct nlattr *)((const char *)a + NLA_ALIGN(a->nla_len));
}

static int rdmares_type(const struct nlattr *a)
{
	return a->nla_type & NLA_TYPE_MASK;
}

static int rdmares_bytes(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

static uint32_t rdmares_u32(const struct nlattr *a)
{
	uint32_t value = 0;

	memcpy(&value, rdmares_data(a), rdmares_bytes(a) < 4 ? rdmares_bytes(a) : 4);
	return value;
}

static uint8_t rdmares_u8(const struct nlattr *a)
{
	return rdmares_bytes(a) ? *(const uint8_t *)rdmares_data(a) : 0;
}

static void rdmares_text(const struct nlattr *a, char *out, size_t bytes)
{
	snprintf(out, bytes, "%.*s", rdmares_bytes(a), (const char *)rdmares_data(a));
}

/* --- the conversation --- */

static int rdmares_receive(int fd, rdmares_fn *fn, void *context)
{
	static _Thread_local char buffer[RDMARES_BUFFER_BYTES] __attribute__((aligned(8)));

	for (;;) {
		const struct nlmsghdr *message = (struct nlmsghdr *)buffer;
		ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		for (; NLMSG_OK(message, (size_t)got); message = NLMSG_NEXT(message, got)) {
			int err;

			if (message->nlmsg_type == NLMSG_DONE)
				return 0;
			if (message->nlmsg_type == NLMSG_ERROR)
				return ((const struct nlmsgerr *)NLMSG_DATA(message))->error;
			err = fn(NLMSG_DATA(message), NLMSG_PAYLOAD(message, 0), context);
			if (err)
				return err;
		}
	}
}

/* @device: its index, or -1 for a question about all of them. */
static int rdmares_ask(int command, int64_t device, rdmares_fn *fn, void *context)
{
	struct rdmares_request request = {
		.header =
			{
				.nlmsg_len = device < 0 ? NLMSG_HDRLEN : sizeof(request),
				.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP,
			},
		.attribute = {.nla_len = NLA_HDRLEN + sizeof(uint32_t),
			      .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
		.value = device < 0 ? 0 : (uint32_t)device,
	};
	struct timeval limit = {.tv_sec = RDMARES_TIMEOUT_S};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	int err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	err = send(fd, &request, request.header.nlmsg_len, 0) < 0
		      ? -errno
		      : rdmares_receive(fd, fn, context);
	close(fd);
	return err;
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

static int rdmares_take_device(const struct nlattr *a, int left, void *context)
{
	struct rdmares_devices *devices = context;
	struct rdmares_device *device = &devices->list[devices->count];

	devices->seen++;
	if (devices->count == RDMARES_DEVICES_MAX)
		return 0;
	memset(device, 0, sizeof(*device));
	for (; rdmares_ok(a, left); a = rdmares_next(a, &left)) {
		if (rdmares_type(a) == RDMA_NLDEV_ATTR_DEV_INDEX)
			device->index = rdmares_u32(a);
		else if (rdmares_type(a) == RDMA_NLDEV_ATTR_DEV_NAME)
			rdmares_text(a, device->name, sizeof(device->name));
	}
	devices->count += device->name[0] != '\0';
	return 0;
}

/* --- queue pairs --- */

struct rdmares_walk {
	struct rdmares *out;
	const struct rdmares_device *device;
	size_t room;
};

static void rdmares_parse_qp(const struct nlattr *a, int left, struct rdmares_qp *qp)
{
	for (; rdmares_ok(a, left); a = rdmares_next(a, &left)) {
		switch (rdmares_type(a)) {
		case RDMA_NLDEV_ATTR_PORT_INDEX:
			qp->port = rdmares_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_LQPN:
			qp->qpn = rdmares_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_RQPN:
			qp->remote_qpn = rdmares_u32(a);
			qp->has_remote = true;
			break;
		case RDMA_NLDEV_ATTR_RES_TYPE:
			qp->type = rdmares_u8(a);
			break;
		case RDMA_NLDEV_ATTR_RES_STATE:
			qp->state = rdmares_u8(a);
			break;
		case RDMA_NLDEV_ATTR_RES_PID:
			qp->tid = rdmares_u32(a);
			break;
		case RDMA_NLDEV_ATTR_RES_KERN_NAME:
			rdmares_text(a, qp->kernel, sizeof(qp->kernel));
			break;
		}
	}
}

static int rdmares_add(struct rdmares_walk *walk, const struct nlattr *entry)
{
	struct rdmares *out = walk->out;
	struct rdmares_qp *qp;

	if (out->count == walk->room) {
		size_t room = walk->room ? walk->room * 2 : 256;
		void *grown = reallocarray(out->qps, room, sizeof(*out->qps));

		if (!grown)
			return -ENOMEM;
		out->qps = grown;
		walk->room = room;
	}
	qp = &out->qps[out->count++];
	memset(qp, 0, sizeof(*qp));
	qp->device = walk->device->index;
	memcpy(qp->name, walk->device->name, sizeof(qp->name));
	rdmares_parse_qp(rdmares_data(entry), rdmares_bytes(entry), qp);
	return 0;
}

static int rdmares_take_qps(const struct nlattr *a, int left, void *context)
{
	int err = 0;

	for (; !err && rdmares_ok(a, left); a = rdmares_next(a, &left)) {
		const struct nlattr *entry = rdmares_data(a);
		int inner = rdmares_bytes(a);

		if (rdmares_type(a) != RDMA_NLDEV_ATTR_RES_QP)
			continue;
		for (; !err && rdmares_ok(entry, inner); entry = rdmares_next(entry, &inner))
			if (rdmares_type(entry) == RDMA_NLDEV_ATTR_RES_QP_ENTRY)
				err = rdmares_add(context, entry);
	}
	return err;
}

static int rdmares_compare(const void *a, const void *b)
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
	err = rdmares_ask(RDMA_NLDEV_CMD_GET, -1, rdmares_take_device, &devices);
	if (err)
		return err;
	out->devices = calloc(devices.count + 1, sizeof(*out->devices));
	if (!out->devices)
		return -ENOMEM;
	out->device_seen = devices.seen;
	for (size_t i = 0; i < devices.count; i++) {
		size_t before = out->count;

		walk.device = &devices.list[i];
		if (rdmares_ask(RDMA_NLDEV_CMD_RES_QP_GET, walk.device->index, rdmares_take_qps,
				&walk))
			out->count = before; /* half a list would retire the other half */
		else
			out->devices[out->device_count++] = walk.device->index;
	}
	if (out->count)
		qsort(out->qps, out->count, sizeof(*out->qps), rdmares_compare);
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

	return list->count ? bsearch(&wanted, list->qps, list->count, sizeof(*list->qps),
				     rdmares_compare)
			   : NULL;
}

bool rdmares_has_device(const struct rdmares *list, uint32_t device)
{
	for (size_t i = 0; i < list->device_count; i++)
		if (list->devices[i] == device)
			return true;
	return false;
}
