// SPDX-License-Identifier: BSD-2-Clause
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"
#include "net/netlink.h"

static int parse_gateway(const struct nlmsghdr *message, void *context)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	const struct nlattr *a[RTA_MAX + 1];
	struct esc_address *found = context;

	netlink_attributes(message, sizeof(*route), a, RTA_MAX);
	if (message->nlmsg_type != RTM_NEWROUTE || !a[RTA_GATEWAY])
		return 0;
	if (route->rtm_family == AF_INET) {
		found->bytes[10] = found->bytes[11] = 0xff;
		memcpy(found->bytes + 12, mnl_attr_get_payload(a[RTA_GATEWAY]), 4);
	} else {
		memcpy(found->bytes, mnl_attr_get_payload(a[RTA_GATEWAY]), 16);
	}
	return 0;
}

struct esc_address nic_route_hop(unsigned int ifindex, const struct esc_address *to)
{
	bool four = nic_address_is_v4(to);
	union netlink_request request;
	struct rtmsg *route = netlink_begin(&request, RTM_GETROUTE, 0, sizeof(*route));
	struct esc_address found = {};

	route->rtm_family = four ? AF_INET : AF_INET6;
	route->rtm_dst_len = four ? 32 : 128;
	mnl_attr_put(&request.header, RTA_DST, four ? 4 : 16, to->bytes + (four ? 12 : 0));
	mnl_attr_put_u32(&request.header, RTA_OIF, ifindex);
	netlink_query(NETLINK_ROUTE, &request, parse_gateway, &found);
	return found;
}
