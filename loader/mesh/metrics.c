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
	{PEER(disconnects, U64, "down_transitions"),
	 .metric = &mesh_metrics[MESH_DOWN_TRANSITIONS]},
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

/* A family for each statistic, from @first on: of one-way delays, or of round trips. */
static void write_delays(FILE *out, unsigned int first, const struct mesh_peer_facts *peers,
			 size_t count)
{
	struct prom_label labels[5] = {};

	for (unsigned int s = 0; s < QUANTILE_STATS; s++) {
		struct prom_family *family = FAMILY_OF(&mesh_metrics[first + s]);
		struct quantile_stat stats[QUANTILE_STATS];

		for (size_t i = 0; i < 2 * count; i++) {
			const struct mesh_peer_facts *peer = &peers[i / 2];
			bool in = i % 2;

			if (first == MESH_RTT_MIN
				    ? in || !quantiles_stats(&peer->rtt, stats)
				    : !quantiles_stats(in ? &peer->owd_in : &peer->owd_out, stats))
				continue;
			peer_labels(peer, labels);
			if (first != MESH_RTT_MIN)
				labels[3] = (struct prom_label){"direction", in ? "in" : "out"};
			prom_sample(family, stats[s].seconds, labels);
		}
	}
}

void mesh_peers_metrics(FILE *out, const struct mesh_peer_facts *peers, size_t count)
{
	struct prom_family *up = FAMILY_OF(&mesh_metrics[MESH_UP]);
	struct prom_family *received = FAMILY_OF(&mesh_metrics[MESH_LAST_RECEIVED]);
	double now_ns = (double)time_realtime_ns();
	struct prom_label labels[4] = {};

	for (size_t i = 0; i < count; i++)
		prom_sample_count(up, peers[i].state != PEER_DOWN, peer_labels(&peers[i], labels));
	fields_write(out, mesh_peer_fields, peers, count, sizeof(*peers), peer_labels, labels);
	for (size_t i = 0; i < count; i++)
		if (peers[i].heard)
			prom_sample(received, (now_ns - (double)peers[i].silent_ns) / 1e9,
				    peer_labels(&peers[i], labels));
	write_delays(out, MESH_OWD_FLOOR, peers, count);
	write_delays(out, MESH_RTT_MIN, peers, count);
}

void mesh_write_metrics(void *self, FILE *out)
{
	struct mesh_peer_facts *peers = calloc(MESH_PEERS_MAX, sizeof(*peers));
	struct prom_family *probing = FAMILY_OF(&mesh_metrics[MESH_PROBING]);
	const struct mesh *mesh = self;
	const bool *have = mesh->core->config->keys.have;

	for (unsigned int i = 0; i < MESH_PLANES; i++)
		if (mesh->planes[i].configured)
			prom_count(probing, mesh->planes[i].on && !mesh->paused, "plane",
				   config_plane_name(i), NULL);
	prom_count(FAMILY_OF(&mesh_metrics[MESH_AUTHORITY]), have[0] || have[1], NULL);
	if (peers)
		mesh_peers_metrics(out, peers, mesh_get_peers(self, peers, MESH_PEERS_MAX));
	free(peers);
}
