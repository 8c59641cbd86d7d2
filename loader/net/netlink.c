// SPDX-License-Identifier: BSD-2-Clause
#include "netlink.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_S 5

void *netlink_begin(union netlink_request *request, int type, int flags, size_t bytes)
{
	memset(request, 0, sizeof(*request));
	mnl_nlmsg_put_header(request);
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST | flags;
	return mnl_nlmsg_put_extra_header(&request->header, bytes);
}

static int receive(int fd, bool dump, netlink_reply_fn *fn, void *context)
{
	static _Thread_local char buffer[64 * 1024] __attribute__((aligned(8)));

	for (;;) {
		const struct nlmsghdr *message = (const struct nlmsghdr *)buffer;
		int left = (int)recv(fd, buffer, sizeof(buffer), 0), err;

		if (left < 0 && errno == EINTR)
			continue;
		if (left < 0)
			return -errno;
		for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
			if (message->nlmsg_type == NLMSG_DONE)
				return 0;
			if (message->nlmsg_type == NLMSG_ERROR)
				return ((struct nlmsgerr *)mnl_nlmsg_get_payload(message))->error;
			err = fn ? fn(message, context) : 0;
			if (err < 0 || !dump)
				return err;
		}
	}
}

int netlink_query(int bus, const union netlink_request *request, netlink_reply_fn *fn,
		  void *context)
{
	bool dump = (request->header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	struct timeval timeout = {.tv_sec = TIMEOUT_S};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, bus), err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	err = send(fd, request, request->header.nlmsg_len, 0) < 0 ? -errno
								  : receive(fd, dump, fn, context);
	close(fd);
	return err;
}

void netlink_attributes(const struct nlmsghdr *message, size_t bytes, const struct nlattr **out,
			unsigned int most)
{
	const struct nlattr *at;

	memset(out, 0, (most + 1) * sizeof(*out));
	mnl_attr_for_each (at, message, bytes)
		if (mnl_attr_get_type(at) <= most)
			out[mnl_attr_get_type(at)] = at;
}

void netlink_text(const struct nlattr *attribute, char *out, size_t bytes)
{
	out[0] = '\0';
	if (attribute)
		snprintf(out, bytes, "%.*s", mnl_attr_get_payload_len(attribute),
			 mnl_attr_get_str(attribute));
}
