// SPDX-License-Identifier: BSD-2-Clause
/* What is shown of a peer, and the families of metrics of the mesh. */
#include <stdlib.h>

#include "config/config.h"
#include "internal.h"

enum { MESH_METRICS(METRIC_ENUM) };
const struct metric mesh_metrics[] = {MESH_METRICS(METRIC){}};

static bool has_delays(const void *row)
{
	const struct mesh_peer_facts *peer = row;

	return peer->owd_out.samples || peer->owd_in.samples;
}

static bool is_heard(const void *row)
{
	return ((const struct mesh_peer_facts *)row)->heard;
}

static bool has_failed(const void *row)
{
	return ((const struct mesh_peer_facts *)row)->failed;
}

#define PEER(member, type, key) FIELD(struct mesh_peer_facts, member, type, key)
const struct field mesh_peer_fields[] = {
	{PEER(host, TEXT, "peer")},
	{PEER(interface, TEXT, "interface")},
	{PEER(note, TEXT, "note")},
	{PEER(source_port, U16, "sport")},
	{PEER(pair_interval_ns, I64, "pair_interval_ns")},
	{PEER(sent, U64, "sent"), .metric = &mesh_metrics[MESH_SENT]},
	{PEER(answered, U64, "replied"), .metric = &mesh_metrics[MESH_REPLIED]},
	{PEER(received, U64, "received"), .metric = &mesh_metrics[MESH_RECEIVED]},
	{PEER(lost, U64, "lost"), .metric = &mesh_metrics[MESH_LOST]},
	{PEER(late, U64, "late"), .metric = &mesh_metrics[MESH_LATE]},
	{PEER(reordered, U64, "reordered"), .metric = &mesh_metrics[MESH_REORDERED]},
	{PEER(failed, U64, "failed"), .known = has_failed},
	{PEER(failed, U64, NULL), .metric = &mesh_metrics[MESH_FAILED]},
	{PEER(disconnects, U64, "down_transitions"), .metric = &mesh_metrics[MESH_DISCONNECTS]},
	{PEER(silent_ns, U64, NULL), .metric = &mesh_metrics[MESH_RECEIVED_AGE], .divisor = 1e9,
	 .known = is_heard},
	{PEER(owd_bound_ns, I64, "bound_ns"), .metric = &mesh_metrics[MESH_OWD_BOUND],
	 .divisor = 1e9, .known = has_delays},
	{},
};

static const struct prom_label *peer_labels(const void *row, void *context)
{
	const struct mesh_peer_facts *peer = row;
	struct prom_label *labels = context;

	labels[0] = (struct prom_label){"netdev", peer->interface};
	labels[1] = (struct prom_label){"peer", peer->host};
	labels[2] = (struct prom_label){"plane", config_plane_name(peer->plane)};
	return labels;
}

static void write_delay(struct prom_family *family, const struct mesh_peer_facts *peer,
			const char *direction, const struct quantiles *delays)
{
	struct quantile_stat stats[QUANTILE_STATS];
	size_t count = quantiles_stats(delays, stats);

	for (size_t i = 0; i < count; i++)
		prom_value(family, stats[i].seconds, "netdev", peer->interface, "peer", peer->host,
			   "plane", config_plane_name(peer->plane), "direction", direction, "stat",
			   stats[i].name, NULL);
}

void mesh_peers_metrics(FILE *out, const struct mesh_peer_facts *peers, size_t count)
{
	struct prom_family *connected = FAMILY_OF(&mesh_metrics[MESH_CONNECTED]);
	struct prom_family *delay = FAMILY_OF(&mesh_metrics[MESH_OWD]);
	struct prom_family *rtt = FAMILY_OF(&mesh_metrics[MESH_RTT]);
	struct prom_label labels[4] = {};

	for (size_t i = 0; i < count; i++)
		prom_sample_count(connected, peers[i].state != PEER_DOWN,
				  peer_labels(&peers[i], labels));
	fields_write(out, mesh_peer_fields, peers, count, sizeof(*peers), peer_labels, labels);
	for (size_t i = 0; i < count; i++) {
		write_delay(delay, &peers[i], "out", &peers[i].owd_out);
		write_delay(delay, &peers[i], "in", &peers[i].owd_in);
	}
	for (size_t i = 0; i < count; i++)
		write_delay(rtt, &peers[i], NULL, &peers[i].rtt);
}

void mesh_write_metrics(void *self, FILE *out)
{
	struct mesh_peer_facts *peers = calloc(MESH_PEERS_MAX, sizeof(*peers));
	struct prom_family *probing = FAMILY_OF(&mesh_metrics[MESH_PROBING]);
	struct mesh_facts facts;

	mesh_get(self, &facts);
	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (facts.planes[i].configured)
			prom_count(probing, facts.planes[i].on, "plane", config_plane_name(i),
				   NULL);
	prom_count(FAMILY_OF(&mesh_metrics[MESH_AUTHORITY]), facts.authority, NULL);
	if (peers)
		mesh_peers_metrics(out, peers, mesh_get_peers(self, peers, MESH_PEERS_MAX));
	free(peers);
}
