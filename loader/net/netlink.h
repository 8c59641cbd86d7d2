/* SPDX-License-Identifier: BSD-2-Clause */
/* A netlink request and its replies; attributes are written and read with libmnl. */
#ifndef ESC_NET_NETLINK_H
#define ESC_NET_NETLINK_H

#include <libmnl/libmnl.h>

union netlink_request {
	struct nlmsghdr header;
	char bytes[256];
};

/* Begins a request; the header of @bytes behind the message's own, all zero, is returned. */
void *netlink_begin(union netlink_request *request, int type, int flags, size_t bytes);

/* Called for each reply; a negative value ends the query. */
typedef int netlink_reply_fn(const struct nlmsghdr *message, void *context);
/*
 * Sends a request to @bus (NETLINK_ROUTE) and receives its replies: those of a dump, or one, or
 * with NLM_F_ACK the acknowledgement alone (@fn may be NULL). 0 or -errno; -EAGAIN: no reply.
 */
int netlink_query(int bus, const union netlink_request *request, netlink_reply_fn *fn,
		  void *context);

/* The attributes behind a header of @bytes by their type, up to @most; NULL: not there. */
void netlink_attributes(const struct nlmsghdr *message, size_t bytes, const struct nlattr **out,
			unsigned int most);
/* The text of an attribute, cut to @bytes; "" for NULL. */
void netlink_text(const struct nlattr *attribute, char *out, size_t bytes);

#endif
