// SPDX-License-Identifier: BSD-2-Clause
/* What `status` shows of interfaces and reasons. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

const char *xdp_mode_name(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_NATIVE ? "native" : mode == ESC_XDP_SKB ? "skb" : "none";
}

const char *xdp_via_name(enum esc_xdp_via via)
{
	return via == ESC_XDP_VIA_DISPATCHER ? "dispatcher"
	       : via == ESC_XDP_VIA_LINK     ? "link"
					     : "none";
}

const char *tc_via_name(enum esc_tc_via via)
{
	return via == ESC_TC_TCX ? "tcx" : via == ESC_TC_CLSACT ? "clsact" : "none";
}

/* Without XDP the tc ingress program counts what comes in. */
bool port_counts_rx(const struct port_info *port)
{
	return !strcmp(port->visibility, "packets") &&
	       (port->xdp_mode != ESC_XDP_NONE || port->tc_via != ESC_TC_NONE);
}

bool port_counts_tx(const struct port_info *port)
{
	return !strcmp(port->visibility, "packets") && port->tc_via != ESC_TC_NONE;
}

/* What was counted before, while attached, stays true after. */
static void put_direction(json_t *object, const char *key, bool counting, uint64_t packets,
			  uint64_t bytes, uint64_t ce, uint64_t cnps, uint64_t rocev1)
{
	json_t *counts;

	if (!counting && !packets && !rocev1)
		return;
	counts = json_object();
	json_put_count(counts, "packets", packets);
	json_put_count(counts, "bytes", bytes);
	json_put_count(counts, "ce", ce);
	json_put_count(counts, "cnps", cnps);
	json_put_count(counts, "rocev1", rocev1);
	json_object_set_new(object, key, counts);
}

static void put_attachment(json_t *object, const struct port_info *port)
{
	json_put_text(object, "attach", xdp_mode_name(port->xdp_mode));
	json_put_text(object, "attach_via", xdp_via_name(port->xdp_via));
	json_put_text(object, "attach_note", port->attach_note);
	json_put_text(object, "tc", tc_via_name(port->tc_via));
	if (port->xdp_mode != ESC_XDP_NONE)
		json_put_text(object, "timestamp_source", "xdp");
	json_put_text(object, "visibility", port->visibility);
	json_put_text(object, "visibility_note", port->visibility_note);
	json_put_text(object, "offload_note", port->offload_note);
}

json_t *port_json(const struct port_info *port, const struct esc_port_counts *counts)
{
	json_t *object = json_object();

	json_put_text(object, "name", port->name);
	json_put_text(object, "plane", config_plane_name(port->plane));
	if (port->ifindex) {
		json_put_count(object, "ifindex", port->ifindex);
		json_put_text(object, "driver", port->driver);
		json_put_count(object, "mtu", port->mtu);
		json_object_set_new(object, "link_up", json_boolean(port->link_up));
	}
	put_attachment(object, port);
	json_put_text(object, "rdma_device", port->rdma_device);
	if (port->rdma_device[0])
		json_put_count(object, "rdma_port", port->rdma_port);
	if (!counts)
		return object;
	put_direction(object, "roce_rx", port_counts_rx(port), counts->rx_roce_packets,
		      counts->rx_roce_bytes, counts->rx_ce_packets, counts->rx_cnps,
		      counts->rx_rocev1_frames);
	put_direction(object, "roce_tx", port_counts_tx(port), counts->tx_roce_packets,
		      counts->tx_roce_bytes, counts->tx_ce_packets, counts->tx_cnps,
		      counts->tx_rocev1_frames);
	return object;
}

static const struct {
	const char *name, *meaning;
} reasons[ESC_REASON_MAX] = {
#define X(id, name, text) [ESC_REASON_##id] = {#name, text},
	ESC_REASONS(X)
#undef X
};

const char *reason_name(enum esc_reason reason)
{
	return reasons[reason].name;
}

uint64_t reason_sum(const struct esc_reason_count *count)
{
	return count->xdp_ingress + count->tc_ingress + count->tc_egress;
}

json_t *reasons_json(const struct esc_reason_count *counts)
{
	json_t *list = json_array();

	for (unsigned int i = ESC_REASON_NONE + 1; i < ESC_REASON_MAX; i++) {
		json_t *reason;

		if (!reason_sum(&counts[i]))
			continue;
		reason = json_object();
		json_put_text(reason, "reason", reasons[i].name);
		json_put_count(reason, "xdp_ingress", counts[i].xdp_ingress);
		json_put_count(reason, "tc_ingress", counts[i].tc_ingress);
		json_put_count(reason, "tc_egress", counts[i].tc_egress);
		json_put_text(reason, "meaning", reasons[i].meaning);
		json_array_append_new(list, reason);
	}
	return list;
}

json_t *dataplane_interfaces_json(const struct dataplane *dataplane, const struct core *core)
{
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int count = dataplane_read_ports(dataplane, ports);
	json_t *list = json_array();

	for (unsigned int i = 0; i < count; i++) {
		json_t *one = port_json(&ports[i].info, ports[i].counted ? &ports[i].counts : NULL);

		json_put(one, "mode", core_mode(core, (int)ports[i].info.index));
		json_array_append_new(list, one);
	}
	return list;
}
