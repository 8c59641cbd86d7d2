// SPDX-License-Identifier: BSD-2-Clause
/* Families of interfaces and of reasons. */
#include <stddef.h>
#include <stdio.h>

#include "internal.h"

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

/* device and port as node_exporter spells them, so that its series can be joined. */
static const char *port_number(const struct port_info *port, char out[16])
{
	snprintf(out, 16, "%u", port->rdma_port);
	return port->rdma_device[0] ? out : NULL;
}

static void write_port_infos(FILE *out, const struct port_facts *ports, unsigned int count)
{
	struct prom_family *visibility = FAMILY_OF(&dataplane_metrics[PORT_VISIBILITY]);
	struct prom_family *attach = FAMILY_OF(&dataplane_metrics[PORT_ATTACH]);
	struct prom_family *link = FAMILY_OF(&dataplane_metrics[PORT_LINK_UP]);
	char number[16];

	for (unsigned int i = 0; i < count; i++) {
		const struct port_info *port = &ports[i].info;

		prom_count(visibility, 1, "device", port->rdma_device, "port",
			   port_number(port, number), "netdev", port->name, "mode",
			   port->visibility, NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		const struct port_info *port = &ports[i].info;

		prom_count(attach, 1, "netdev", port->name, "attach", xdp_mode_name(port->xdp_mode),
			   "via", xdp_via_name(port->xdp_via), "tc", tc_via_name(port->tc_via),
			   NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		const struct port_info *port = &ports[i].info;

		prom_count(link, port->ifindex && port->link_up, "netdev", port->name, NULL);
	}
}

/* Counters of a port come in pairs, one a direction. */
static const struct port_family {
	unsigned int metric;
	size_t rx, tx; /* offsets in struct esc_port_counts */
} port_families[] = {
	{PORT_ROCE_PACKETS, offsetof(struct esc_port_counts, rx_roce_packets),
	 offsetof(struct esc_port_counts, tx_roce_packets)},
	{PORT_ROCE_BYTES, offsetof(struct esc_port_counts, rx_roce_bytes),
	 offsetof(struct esc_port_counts, tx_roce_bytes)},
	{PORT_CE, offsetof(struct esc_port_counts, rx_ce_packets),
	 offsetof(struct esc_port_counts, tx_ce_packets)},
	{PORT_CNPS, offsetof(struct esc_port_counts, rx_cnps),
	 offsetof(struct esc_port_counts, tx_cnps)},
	{PORT_ROCEV1, offsetof(struct esc_port_counts, rx_rocev1_frames),
	 offsetof(struct esc_port_counts, tx_rocev1_frames)},
};

static uint64_t count_at(const struct esc_port_counts *counts, size_t offset)
{
	return *(const __u64 *)((const char *)counts + offset);
}

static void write_port_count(struct prom_family *family, const struct port_facts *port,
			     const char *direction, uint64_t count)
{
	char number[16];

	prom_count(family, count, "device", port->info.rdma_device, "port",
		   port_number(&port->info, number), "netdev", port->info.name, "direction",
		   direction, NULL);
}

/* What is not counted now and never was is left out: it would be a 0 that nobody measured. */
static void write_port_counts(FILE *out, const struct port_facts *ports, unsigned int count)
{
	for (size_t f = 0; f < sizeof(port_families) / sizeof(port_families[0]); f++) {
		struct prom_family *family = FAMILY_OF(&dataplane_metrics[port_families[f].metric]);

		for (unsigned int i = 0; i < count; i++) {
			const struct port_facts *port = &ports[i];
			uint64_t rx = count_at(&port->counts, port_families[f].rx);
			uint64_t tx = count_at(&port->counts, port_families[f].tx);

			if (!port->counted)
				continue;
			if (rx || port_counts_rx(&port->info))
				write_port_count(family, port, "rx", rx);
			if (tx || port_counts_tx(&port->info))
				write_port_count(family, port, "tx", tx);
		}
	}
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

static void write_reasons(FILE *out, const struct esc_reason_count *reasons, unsigned int metric)
{
	struct prom_family *family = FAMILY_OF(&dataplane_metrics[metric]);

	for (unsigned int i = ESC_REASON_NONE + 1; i < ESC_REASON_MAX; i++) {
		const char *name = reason_name(i);

		if (family_of(i) != metric)
			continue;
		if (metric != PORT_UNCOUNTED) {
			prom_count(family, reason_sum(&reasons[i]), "reason", name, NULL);
			continue;
		}
		prom_count(family, reasons[i].xdp_ingress, "reason", name, "hook", "xdp_ingress",
			   NULL);
		prom_count(family, reasons[i].tc_ingress, "reason", name, "hook", "tc_ingress",
			   NULL);
		prom_count(family, reasons[i].tc_egress, "reason", name, "hook", "tc_egress", NULL);
	}
}

void dataplane_write_metrics(void *self, FILE *out)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct port_facts ports[ESC_PORTS_MAX];
	unsigned int count = dataplane_read_ports(self, ports);

	write_port_infos(out, ports, count);
	write_port_counts(out, ports, count);
	if (dataplane_reasons(self, reasons))
		return;
	write_reasons(out, reasons, PORT_UNCOUNTED);
	write_reasons(out, reasons, PORT_PROBES_REFUSED);
	write_reasons(out, reasons, PORT_RECEIPTS_REFUSED);
}
