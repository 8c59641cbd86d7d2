// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as a datagram of netlink: links, qdiscs, filters, RDMA devices, queue pairs. */
#include "input.h"
#include "loader/net/rdma.c"
#include "loader/net/rtnl.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_text(const char *text, size_t room)
{
	if (!memchr(text, '\0', room))
		abort();
}

static void check_rdma(struct rdmares *found)
{
	for (size_t i = 0; i < found->device_count; i++)
		check_text(found->devices[i].name, sizeof(found->devices[i].name));
	for (size_t i = 0; i < found->count; i++)
		check_text(found->qps[i].kernel, sizeof(found->qps[i].kernel));
	rdmares_free(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};
	unsigned int which = (unsigned int)input_take(&in, 1);
	static struct rdmares rdma;
	struct qdisc_facts qdiscs = {.ifindex = 1};
	struct filter_facts filters = {};
	struct link_facts link = {};
	netlink_reply_fn *const parsers[] = {parse_link, parse_qdisc, count_filter, parse_device,
					     add_qps};
	void *const contexts[] = {&link, &qdiscs, &filters, &rdma, &rdma};
	bool more = true;
	size_t rest;
	char *copy;

	in.end -= (in.end - in.at) % 4; /* as every datagram of netlink */
	copy = input_rest(&in, &rest);
	memset(&rdma, 0, sizeof(rdma));
	take(copy, (int)rest, true, parsers[which % 5], contexts[which % 5], &more);
	check_text(link.name, sizeof(link.name));
	check_text(link.kind, sizeof(link.kind));
	check_text(qdiscs.root, sizeof(qdiscs.root));
	check_text(qdiscs.other, sizeof(qdiscs.other));
	check_rdma(&rdma);
	free(copy);
	return 0;
}
