// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as a datagram of netlink: links, qdiscs, filters, RDMA devices, queue pairs, DCB, what
 * ethtool reports.
 */
#include "input.h"
#include "loader/net/dcb.c"
#include "loader/net/linkinfo.c"
#include "loader/net/rdma.c"
#include "loader/net/rtnl.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_text(const char *text, size_t room)
{
	if (!memchr(text, '\0', room))
		abort();
}

static int check_carrier(const struct link_carrier *link, void *context)
{
	check_text(link->name, sizeof(link->name));
	*(struct link_carrier *)context = *link;
	return 0;
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
	struct link_carrier seen = {};
	struct carriers carriers = {check_carrier, &seen};
	struct link_details details;
	struct dcb_facts dcb = {};
	struct module_page page;
	uint16_t family;
	netlink_reply_fn *const parsers[] = {
		parse_link,   parse_qdisc,	count_filter,	parse_device,	  add_qps,
		take_carrier, link_parse_state, link_parse_fec, link_parse_pause, link_parse_phy,
		parse_module, parse_family,	dcb_parse};
	void *const contexts[] = {&link,    &qdiscs,  &filters, &rdma, &rdma,	&carriers, &details,
				  &details, &details, &details, &page, &family, &dcb};
	bool more = true;
	size_t rest;
	char *copy;

	in.end -= (in.end - in.at) % 4; /* as every datagram of netlink */
	copy = input_rest(&in, &rest);
	memset(&rdma, 0, sizeof(rdma));
	link_details_clear(&details);
	which %= sizeof(parsers) / sizeof(parsers[0]);
	take(copy, (int)rest, true, parsers[which], contexts[which], &more);
	check_text(link.name, sizeof(link.name));
	check_text(link.kind, sizeof(link.kind));
	check_text(qdiscs.root, sizeof(qdiscs.root));
	check_text(qdiscs.other, sizeof(qdiscs.other));
	check_rdma(&rdma);
	free(copy);
	return 0;
}
