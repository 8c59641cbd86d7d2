// SPDX-License-Identifier: BSD-2-Clause
#include "dcb.h"

#include <libmnl/libmnl.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "rtnl.h"

void dcb_clear(struct dcb_facts *out)
{
	memset(out, 0, sizeof(*out));
	memset(out->priority_of, DCB_NO_PRIORITY, sizeof(out->priority_of));
}

/* The struct in @attribute, copied for its alignment; false: it is shorter. */
static bool take_struct(const struct nlattr *attribute, void *out, size_t bytes)
{
	if (!attribute || mnl_attr_get_payload_len(attribute) < bytes)
		return false;
	memcpy(out, mnl_attr_get_payload(attribute), bytes);
	return true;
}

static void take_pfc(const struct nlattr *attribute, struct dcb_facts *out)
{
	struct ieee_pfc pfc;

	out->has_pfc = take_struct(attribute, &pfc, sizeof(pfc));
	if (out->has_pfc)
		out->pfc = pfc.pfc_en;
}

static void take_ets(const struct nlattr *attribute, struct dcb_facts *out)
{
	struct ieee_ets ets;

	out->has_ets = take_struct(attribute, &ets, sizeof(ets));
	if (!out->has_ets)
		return;
	memcpy(out->class_of, ets.prio_tc, sizeof(out->class_of));
	memcpy(out->share, ets.tc_tx_bw, sizeof(out->share));
	memcpy(out->rule, ets.tc_tsa, sizeof(out->rule));
}

static void take_buffers(const struct nlattr *attribute, struct dcb_facts *out)
{
	struct dcbnl_buffer buffers;

	out->has_buffers = take_struct(attribute, &buffers, sizeof(buffers));
	if (!out->has_buffers)
		return;
	memcpy(out->buffer_of, buffers.prio2buffer, sizeof(out->buffer_of));
	memcpy(out->buffer_bytes, buffers.buffer_size, sizeof(out->buffer_bytes));
}

/* The greatest priority of a DSCP counts, as drivers take it (net/dcb/dcbnl.c,
 * dcb_ieee_getapp_mask). */
static void take_apps(const struct nlattr *table, struct dcb_facts *out)
{
	const struct nlattr *entry;
	struct dcb_app app;

	out->has_apps = true;
	mnl_attr_for_each_nested (entry, table) {
		uint8_t *priority;

		if (mnl_attr_get_type(entry) != DCB_ATTR_IEEE_APP ||
		    !take_struct(entry, &app, sizeof(app)) ||
		    app.selector != IEEE_8021QAZ_APP_SEL_DSCP || app.protocol >= DCB_DSCPS ||
		    app.priority >= DCB_PRIORITIES)
			continue;
		priority = &out->priority_of[app.protocol];
		out->dscps += *priority == DCB_NO_PRIORITY;
		if (*priority == DCB_NO_PRIORITY || app.priority > *priority)
			*priority = app.priority;
	}
}

int dcb_parse(const struct nlmsghdr *message, void *facts)
{
	const struct nlattr *a[DCB_ATTR_IEEE + 1], *entry;

	if (message->nlmsg_type != RTM_GETDCB)
		return 0;
	netlink_attributes(message, sizeof(struct dcbmsg), a, DCB_ATTR_IEEE);
	if (!a[DCB_ATTR_IEEE])
		return 0;
	mnl_attr_for_each_nested (entry, a[DCB_ATTR_IEEE]) {
		switch (mnl_attr_get_type(entry)) {
		case DCB_ATTR_IEEE_PFC:
			take_pfc(entry, facts);
			break;
		case DCB_ATTR_IEEE_ETS:
			take_ets(entry, facts);
			break;
		case DCB_ATTR_IEEE_APP_TABLE:
			take_apps(entry, facts);
			break;
		case DCB_ATTR_DCB_BUFFER:
			take_buffers(entry, facts);
			break;
		}
	}
	return 0;
}

int dcb_read(const char *name, struct dcb_facts *out)
{
	union netlink_request request;
	struct dcbmsg *header = netlink_begin(&request, RTM_GETDCB, 0, sizeof(*header));

	dcb_clear(out);
	header->dcb_family = AF_UNSPEC;
	header->cmd = DCB_CMD_IEEE_GET;
	mnl_attr_put_strz(&request.header, DCB_ATTR_IFNAME, name);
	return netlink_query(NETLINK_ROUTE, &request, dcb_parse, out);
}
