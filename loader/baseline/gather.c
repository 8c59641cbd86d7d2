// SPDX-License-Identifier: BSD-2-Clause
/* The values of now, from the modules that measure them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/dataplane.h"
#include "delay/delay.h"
#include "internal.h"
#include "mesh/mesh.h"
#include "paths/paths.h"
#include "qp/qp.h"

/* A message that is timed: its first packet is the start, so that it has to have some more. */
#define MESSAGE_PACKETS_LEAST 8
#define MTU_LEAST 256

struct gathering {
	struct baselines *baselines;
	const struct baseline_law *law;
	uint64_t now_ns;
};

static void take(const struct gathering *gathering, struct baseline_key *key, const char *interface,
		 double value, double bound)
{
	snprintf(key->interface, sizeof(key->interface), "%s", interface);
	baseline_book_take(&gathering->baselines->book, gathering->law, key, gathering->now_ns,
			   value, bound);
}

/* What is down has an event of its own; another source port is another path. */
static void gather_peers(const struct gathering *gathering)
{
	size_t count;
	struct mesh_peer_facts *peers = mesh_get_peers(gathering->baselines->mesh, &count);

	for (size_t i = 0; peers && i < count; i++) {
		const struct mesh_peer_facts *peer = &peers[i];
		struct baseline_key key = {.dst = peer->address,
					   .sport = peer->source_port,
					   .kind = BASELINE_NIC_PAIR};

		if (peer->state == PEER_UP && peer->owd_out.samples)
			take(gathering, &key, peer->interface, (double)peer->owd_out.min_ns,
			     (double)peer->owd_bound_ns);
	}
	free(peers);
}

static void gather_paths(const struct gathering *gathering)
{
	const struct baselines *baselines = gathering->baselines;
	struct path_facts list[ESC_PATHS_MAX];

	for (unsigned int slot = 0; slot < ESC_PATH_SLOTS_MAX; slot++) {
		const struct path_pair_facts *pair = paths_pair(baselines->paths, slot);
		const char *port =
			pair ? dataplane_port_name(baselines->dataplane, pair->port) : NULL;
		size_t count = port ? paths_candidates(baselines->paths, slot, list) : 0;

		for (size_t i = 0; i < count; i++) {
			struct baseline_key key = {.dst = pair->key.dst,
						   .sport = list[i].sport,
						   .kind = BASELINE_PATH};
			struct quantiles owd;

			paths_owd_out(baselines->paths, slot, list[i].id, &owd);
			if (list[i].state == PATHLIVE_UP && owd.samples)
				take(gathering, &key, port, (double)owd.min_ns,
				     list[i].out.bound_ns);
		}
	}
}

/* --- queue pairs --- */

/* The power of two that is nearest, as a share: applications choose powers of two. */
static uint8_t power_of(double value)
{
	return value > 1 ? (uint8_t)lrint(log2(value)) : 0;
}

/* Of the messages that were seen whole; 0: none was. */
static double mean_message(const struct esc_qp *qp)
{
	uint64_t count = 0, bytes = 0;

	for (unsigned int i = 0; i < ESC_MESSAGE_BUCKETS; i++) {
		count += qp->message_sizes[i].count;
		bytes += qp->message_sizes[i].bytes;
	}
	return count ? (double)bytes / (double)count : 0;
}

static bool is_sending(const struct qp_entry *entry)
{
	return entry->key.direction == ESC_DIRECTION_TX && entry->delays &&
	       entry->delays->recent.samples;
}

/*
 * The rate at which messages arrive, by the receiver's own clock: a queue before them, and the time
 * in which the application sends nothing, are not in it. What pacing delays is not the fabric's.
 */
static double message_rate(const struct qp_entry *entry)
{
	const struct delays_span *recent = &entry->delays->recent;
	uint64_t firsts = recent->messages * entry->qp.pmtu;

	if (!recent->messages || !recent->message_spread_sum_ns || entry->qp.pmtu < MTU_LEAST ||
	    recent->message_bytes < MESSAGE_PACKETS_LEAST * firsts ||
	    entry->qp.steer_flags & ESC_QP_PACED)
		return NAN;
	return (double)(recent->message_bytes - firsts) * 1e9 /
	       (double)recent->message_spread_sum_ns;
}

static void gather_qps(const struct gathering *gathering)
{
	const struct baselines *baselines = gathering->baselines;
	unsigned int sending[ESC_PORTS_MAX] = {};
	size_t count;
	const struct qp_entry *entries = qptable_entries(baselines->qps, &count);

	for (size_t i = 0; i < count; i++)
		if (is_sending(&entries[i]))
			sending[entries[i].key.port % ESC_PORTS_MAX]++;
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		const char *port = dataplane_port_name(baselines->dataplane, entry->key.port);
		struct baseline_key key = {.dst = entry->key.dst, .kind = BASELINE_QP};
		double mean = mean_message(&entry->qp);

		if (!is_sending(entry) || mean < 1 || !port)
			continue;
		key.size_class = power_of(mean);
		key.flow_class = power_of(sending[entry->key.port % ESC_PORTS_MAX]);
		key.response = !!(entry->qp.sample_flags & ESC_SAMPLE_RESPONSE);
		take(gathering, &key, port, (double)entry->delays->recent.min_ns,
		     entry->delays->recent.bound_ns);
		key.kind = BASELINE_THROUGHPUT;
		take(gathering, &key, port, message_rate(entry), 0);
	}
}

void baselines_gather(struct baselines *baselines, const struct baseline_law *law, uint64_t now_ns)
{
	const struct gathering gathering = {baselines, law, now_ns};

	baselines->book.left_out = 0;
	gather_peers(&gathering);
	gather_paths(&gathering);
	gather_qps(&gathering);
}
