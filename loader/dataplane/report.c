// SPDX-License-Identifier: BSD-2-Clause
/* What `status` and the metrics show of interfaces and of reasons. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define DATAPLANE_METRICS(X)                                                                       \
	X(PORT_VISIBILITY, "port_visibility_info", GAUGE,                                          \
	  "How much of the RDMA traffic of a port is seen: packets, control, counters or none.")   \
	X(PORT_ATTACH, "port_attach_info", GAUGE,                                                  \
	  "How the programs are attached to an interface.")                                        \
	X(PORT_LINK_UP, "link_up", GAUGE, "1 when the interface is there and its link is up.")     \
	X(PORT_ROCE_PACKETS, "roce_packets_total", COUNTER,                                        \
	  "RoCEv2 packets that were understood.")                                                  \
	X(PORT_ROCE_BYTES, "roce_bytes_total", COUNTER,                                            \
	  "Bytes of these packets, IP header to ICRC.")                                            \
	X(PORT_CE, "roce_ce_packets_total", COUNTER,                                               \
	  "RoCEv2 packets with a congestion mark (ECN CE).")                                       \
	X(PORT_CNPS, "roce_cnp_packets_total", COUNTER, "Congestion notification packets.")        \
	X(PORT_ROCEV1, "rocev1_frames_total", COUNTER, "RoCEv1 frames (ethertype 0x8915).")        \
	X(PORT_UNCOUNTED, "uncounted_packets_total", COUNTER,                                      \
	  "Packets left out of the per-QP counts, by reason; they continue unchanged.")            \
	X(PORT_PROBES_REFUSED, "probes_refused_total", COUNTER,                                    \
	  "Probes that were dropped, by reason.")                                                  \
	X(PORT_RECEIPTS_REFUSED, "receipts_refused_total", COUNTER,                                \
	  "Receipts that were not sent or not used, by reason.")
enum { DATAPLANE_METRICS(METRIC_ENUM) };
const struct metric dataplane_metrics[] = {DATAPLANE_METRICS(METRIC){}};

/* --- names --- */

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

/* --- what a port has counted --- */

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

struct direction {
	const struct port_info *port;
	const char *name;
	bool known; /* counted now or before; else a 0 would be one that was not measured */
	uint64_t packets, bytes, ce, cnps, rocev1;
};

#define COUNT(member, metric_)                                                                     \
	FIELD(struct direction, member, U64, #member), .metric = &dataplane_metrics[metric_]
static const struct field direction_fields[] = {
	{COUNT(packets, PORT_ROCE_PACKETS)},
	{COUNT(bytes, PORT_ROCE_BYTES)},
	{COUNT(ce, PORT_CE)},
	{COUNT(cnps, PORT_CNPS)},
	{COUNT(rocev1, PORT_ROCEV1)},
	{},
};

static void read_directions(const struct port_info *port, const struct esc_port_counts *counts,
			    struct direction out[2])
{
	out[0] = (struct direction){
		.port = port,
		.name = "rx",
		.known = port_counts_rx(port),
		.packets = counts->rx_roce_packets,
		.bytes = counts->rx_roce_bytes,
		.ce = counts->rx_ce_packets,
		.cnps = counts->rx_cnps,
		.rocev1 = counts->rx_rocev1_frames,
	};
	out[1] = (struct direction){
		.port = port,
		.name = "tx",
		.known = port_counts_tx(port),
		.packets = counts->tx_roce_packets,
		.bytes = counts->tx_roce_bytes,
		.ce = counts->tx_ce_packets,
		.cnps = counts->tx_cnps,
		.rocev1 = counts->tx_rocev1_frames,
	};
	for (int i = 0; i < 2; i++)
		out[i].known = out[i].known || out[i].packets || out[i].rocev1;
}

/* --- status --- */

json_t *port_json(const struct port_info *port, const struct esc_port_counts *counts)
{
	json_t *object = json_object(), *one;
	struct direction directions[2];

	json_put_text(object, "name", port->name);
	json_put_text(object, "plane", config_plane_name(port->plane));
	if (port->ifindex) {
		json_put_count(object, "ifindex", port->ifindex);
		json_put_text(object, "driver", port->driver);
		json_put_count(object, "mtu", port->mtu);
		json_put_bool(object, "link_up", port->link_up);
	}
	json_put_text(object, "attach", xdp_mode_name(port->xdp_mode));
	json_put_text(object, "attach_via", xdp_via_name(port->xdp_via));
	json_put_text(object, "attach_note", port->attach_note);
	json_put_text(object, "tc", tc_via_name(port->tc_via));
	if (port->xdp_mode != ESC_XDP_NONE)
		json_put_text(object, "timestamp_source", "xdp");
	json_put_text(object, "visibility", port->visibility);
	json_put_text(object, "visibility_note", port->visibility_note);
	json_put_text(object, "offload_note", port->offload_note);
	if (port->before.count)
		json_put(object, "programs_before", order_json(&port->before));
	json_put_text(object, "rdma_device", port->rdma_device);
	if (port->rdma_device[0])
		json_put_count(object, "rdma_port", port->rdma_port);
	read_directions(port, counts, directions);
	for (int i = 0; i < 2; i++) {
		if (!directions[i].known)
			continue;
		one = json_object();
		fields_put(one, direction_fields, &directions[i]);
		json_put(object, i ? "roce_tx" : "roce_rx", one);
	}
	return object;
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

/* --- metrics --- */

/* device and port as node_exporter spells them, so that its series can be joined. */
static const char *port_number(const struct port_info *port, char out[16])
{
	snprintf(out, 16, "%u", port->rdma_port);
	return port->rdma_device[0] ? out : NULL;
}

static const struct prom_label *direction_labels(const void *row, void *context)
{
	static struct prom_label labels[5];
	static char number[16];
	const struct direction *direction = row;

	(void)context;
	labels[0] = (struct prom_label){"device", direction->port->rdma_device};
	labels[1] = (struct prom_label){"port", port_number(direction->port, number)};
	labels[2] = (struct prom_label){"netdev", direction->port->name};
	labels[3] = (struct prom_label){"direction", direction->name};
	return labels;
}

/* The family that counts a reason. */
static unsigned int family_of(unsigned int reason)
{
	switch (reason) {
#define X(id, name, text) case ESC_REASON_##id:
		ESC_PROBE_REASONS(X)
		ESC_PATH_REASONS(X)
		return PORT_PROBES_REFUSED;
		ESC_RECEIPT_REASONS(X)
		return PORT_RECEIPTS_REFUSED;
#undef X
	}
	return PORT_UNCOUNTED;
}

/* A reason that never occurred has no series: there are a hundred of them. */
static void write_reason(struct prom_family *family, uint64_t count, const char *reason,
			 const char *hook)
{
	if (count)
		prom_count(family, count, "reason", reason, "hook", hook, NULL);
}

static void write_reasons(FILE *out, const struct esc_reason_count *counts, unsigned int metric)
{
	struct prom_family *family = FAMILY_OF(&dataplane_metrics[metric]);

	for (unsigned int i = ESC_REASON_NONE + 1; i < ESC_REASON_MAX; i++) {
		const char *name = reason_name(i);

		if (family_of(i) != metric)
			continue;
		if (metric != PORT_UNCOUNTED) {
			write_reason(family, reason_sum(&counts[i]), name, "");
			continue;
		}
		write_reason(family, counts[i].xdp_ingress, name, "xdp_ingress");
		write_reason(family, counts[i].tc_ingress, name, "tc_ingress");
		write_reason(family, counts[i].tc_egress, name, "tc_egress");
	}
}

void dataplane_write_metrics(void *self, FILE *out)
{
	struct prom_family *visibility = FAMILY_OF(&dataplane_metrics[PORT_VISIBILITY]);
	struct prom_family *attach = FAMILY_OF(&dataplane_metrics[PORT_ATTACH]);
	struct prom_family *link = FAMILY_OF(&dataplane_metrics[PORT_LINK_UP]);
	struct direction directions[2 * ESC_PORTS_MAX], both[2];
	struct esc_reason_count counts[ESC_REASON_MAX];
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int count = dataplane_read_ports(self, ports), rows = 0;
	const struct port_info *port;
	char number[16];

	for (unsigned int i = 0; i < count; i++) {
		port = &ports[i].info;
		prom_count(visibility, 1, "device", port->rdma_device, "port",
			   port_number(port, number), "netdev", port->name, "mode",
			   port->visibility, NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		port = &ports[i].info;
		prom_count(attach, 1, "netdev", port->name, "attach", xdp_mode_name(port->xdp_mode),
			   "via", xdp_via_name(port->xdp_via), "tc", tc_via_name(port->tc_via),
			   NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		port = &ports[i].info;
		prom_count(link, port->ifindex && port->link_up, "netdev", port->name, NULL);
		read_directions(port, &ports[i].counts, both);
		for (int k = 0; k < 2; k++)
			if (both[k].known)
				directions[rows++] = both[k];
	}
	fields_write(out, direction_fields, directions, rows, sizeof(directions[0]),
		     direction_labels, NULL);
	if (dataplane_reasons(self, counts))
		return;
	write_reasons(out, counts, PORT_UNCOUNTED);
	write_reasons(out, counts, PORT_PROBES_REFUSED);
	write_reasons(out, counts, PORT_RECEIPTS_REFUSED);
}
