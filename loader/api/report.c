// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "diagnose/diagnose.h"
#include "fleet/fleet.h"
#include "qp/table.h"
#include "clock/report.h"
#include "pace/pace.h"
#include "steer/steer.h"
#include "delay/report.h"
#include "qp/report_owner.h"
#include "paths/report.h"
#include "dataplane/support.h"

void report_put_count(json_t *object, const char *key, uint64_t count)
{
	json_object_set_new(object, key, json_integer((json_int_t)count));
}

void report_put_text(json_t *object, const char *key, const char *text)
{
	if (text && *text)
		json_object_set_new(object, key, json_string(text));
}

const char *report_xdp_mode(enum esc_xdp_mode mode)
{
	return mode == ESC_XDP_NATIVE ? "native" : mode == ESC_XDP_SKB ? "skb" : "none";
}

const char *report_xdp_via(enum esc_xdp_via via)
{
	return via == ESC_XDP_VIA_DISPATCHER ? "dispatcher"
	       : via == ESC_XDP_VIA_LINK     ? "link"
					     : "none";
}

const char *report_tc_via(enum esc_tc_via via)
{
	return via == ESC_TC_TCX ? "tcx" : via == ESC_TC_CLSACT ? "clsact" : "none";
}

/* Without XDP the tc ingress program counts what comes in. */
bool report_counts_rx(const struct port_info *port)
{
	return !strcmp(port->visibility, "packets") &&
	       (port->xdp_mode != ESC_XDP_NONE || port->tc_via != ESC_TC_NONE);
}

bool report_counts_tx(const struct port_info *port)
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
	report_put_count(counts, "packets", packets);
	report_put_count(counts, "bytes", bytes);
	report_put_count(counts, "ce", ce);
	report_put_count(counts, "cnps", cnps);
	report_put_count(counts, "rocev1", rocev1);
	json_object_set_new(object, key, counts);
}

static void put_attachment(json_t *object, const struct port_info *port)
{
	report_put_text(object, "attach", report_xdp_mode(port->xdp_mode));
	report_put_text(object, "attach_via", report_xdp_via(port->xdp_via));
	report_put_text(object, "attach_note", port->attach_note);
	report_put_text(object, "tc", report_tc_via(port->tc_via));
	if (port->xdp_mode != ESC_XDP_NONE)
		report_put_text(object, "timestamp_source", "xdp");
	report_put_text(object, "visibility", port->visibility);
	report_put_text(object, "visibility_note", port->visibility_note);
	report_put_text(object, "offload_note", port->offload_note);
}

json_t *report_port(const struct port_info *port, const struct esc_port_counts *counts)
{
	json_t *object = json_object();

	report_put_text(object, "name", port->name);
	report_put_text(object, "plane", config_plane_name(port->plane));
	if (port->ifindex) {
		report_put_count(object, "ifindex", port->ifindex);
		report_put_text(object, "driver", port->driver);
		report_put_count(object, "mtu", port->mtu);
		json_object_set_new(object, "link_up", json_boolean(port->link_up));
	}
	put_attachment(object, port);
	report_put_text(object, "rdma_device", port->rdma_device);
	if (port->rdma_device[0])
		report_put_count(object, "rdma_port", port->rdma_port);
	if (!counts)
		return object;
	put_direction(object, "roce_rx", report_counts_rx(port), counts->rx_roce_packets,
		      counts->rx_roce_bytes, counts->rx_ce_packets, counts->rx_cnps,
		      counts->rx_rocev1_frames);
	put_direction(object, "roce_tx", report_counts_tx(port), counts->tx_roce_packets,
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

const char *report_reason_name(enum esc_reason reason)
{
	return reasons[reason].name;
}

uint64_t report_reason_sum(const struct esc_reason_count *count)
{
	return count->xdp_ingress + count->tc_ingress + count->tc_egress;
}

json_t *report_reasons(const struct esc_reason_count *counts)
{
	json_t *list = json_array();

	for (unsigned int i = ESC_REASON_NONE + 1; i < ESC_REASON_MAX; i++) {
		json_t *reason;

		if (!report_reason_sum(&counts[i]))
			continue;
		reason = json_object();
		report_put_text(reason, "reason", reasons[i].name);
		report_put_count(reason, "xdp_ingress", counts[i].xdp_ingress);
		report_put_count(reason, "tc_ingress", counts[i].tc_ingress);
		report_put_count(reason, "tc_egress", counts[i].tc_egress);
		report_put_text(reason, "meaning", reasons[i].meaning);
		json_array_append_new(list, reason);
	}
	return list;
}

static json_t *status_interfaces(const struct daemon *daemon)
{
	const struct dataplane *dataplane = daemon->dataplane;
	json_t *list = json_array(), *one;

	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++) {
		struct esc_port_counts counts;
		struct port_info port;

		if (dataplane_port(dataplane, i, &port))
			continue;
		owners_judge_port(daemon->owners, time_local_ns(), &port);
		one = report_port(&port, dataplane_port_counts(dataplane, port.index, &counts)
						 ? NULL
						 : &counts);
		json_object_set_new(one, "mode", core_mode(&daemon->core, (int)port.index));
		json_array_append_new(list, one);
	}
	return list;
}

void report_put_dataplane(json_t *object, const struct daemon *daemon)
{
	struct esc_reason_count counts[ESC_REASON_MAX];
	json_t *qps = json_object();
	size_t tracked;

	json_object_set_new(object, "interfaces", status_interfaces(daemon));
	qptable_entries(daemon->qps, &tracked);
	report_put_count(qps, "tracked", tracked);
	report_put_count(qps, "max", dataplane_qps_max(daemon->dataplane));
	if (!dataplane_reasons(daemon->dataplane, counts)) {
		report_put_count(qps, "refused",
				 report_reason_sum(&counts[ESC_REASON_QP_TABLE_FULL]));
		json_object_set_new(object, "reasons", report_reasons(counts));
	}
	json_object_set_new(object, "qps", qps);
	json_object_set_new(object, "qp_tracing", report_tracing(daemon->owners));
}

json_t *report_support(void)
{
	struct support_feature features[64];
	int count = support_probe(features, sizeof(features) / sizeof(features[0]));
	json_t *list;

	if (count < 0)
		return NULL;
	list = json_array();
	for (int i = 0; i < count; i++) {
		json_t *feature = json_object();

		report_put_text(feature, "name", features[i].name);
		json_object_set_new(feature, "here", json_boolean(features[i].here));
		report_put_text(feature, "detail", features[i].detail);
		report_put_text(feature, "cost", features[i].cost);
		json_array_append_new(list, feature);
	}
	return json_pack("{s:o}", "features", list);
}
