// SPDX-License-Identifier: BSD-2-Clause
/*
 * In-band against out-of-band: the workload's delay to a destination is far above what the mesh's
 * probes measure, on every source port it uses. And RoCEv1 frames, which no switch spreads over its
 * paths by ports, since they have none.
 *
 * The probes of an edge use one source port. So a difference may also be that the workload's path
 * is loaded and the probes' is not: with several source ports of the workload some would be fine
 * (then it is an imbalance, and nothing is found here); with one it cannot be distinguished, and
 * the evidence states it.
 *
 * A queue of the workload's own making is no misconfiguration. It is there when the load is higher
 * than what was carried with a good delay before; with no such memory, when the floor is good,
 * which a queue lets through at its beginning and a wrong class or path never does. Limit: a path
 * that gets worse while the load grows above all that was carried well is not distinguished from
 * it.
 */
#include <string.h>

#include "parts.h"

/* --- what was carried well --- */

static struct pair_track *pair_memory(const struct scene *scene, const struct pair *pair)
{
	const struct esc_qp_key *key = &pair->subject.key;
	uint64_t hash = 0xcbf29ce484222325;
	struct pair_track *oldest = NULL;

	for (size_t i = 0; i < sizeof(key->src) + sizeof(key->dst); i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3;
	for (size_t i = 0; i < 8; i++) {
		struct pair_track *at = &scene->pairs[(hash + i) % PAIR_TRACKS];

		if (at->polled_ns && !memcmp(&at->src, &key->src, sizeof(at->src)) &&
		    !memcmp(&at->dst, &key->dst, sizeof(at->dst)))
			return at;
		if (!oldest || at->polled_ns < oldest->polled_ns)
			oldest = at;
	}
	*oldest = (struct pair_track){.src = key->src, .dst = key->dst};
	return oldest;
}

static void remember_fine(struct pair_track *memory, double bytes_per_second, uint64_t now_ns)
{
	if (memory->fine_known && memory->fine_bytes_per_second > bytes_per_second &&
	    now_ns - memory->fine_ns < LAW_FLOOR_NS)
		return;
	memory->fine_known = true;
	memory->fine_bytes_per_second = bytes_per_second;
	memory->fine_ns = now_ns;
}

/* --- RoCEv1 --- */

static void see_rocev1(struct diag_evidence *evidence, const struct diag_port *port)
{
	if (!port->rocev1_rx && !port->rocev1_tx && !port->rocev1_gids)
		return;
	diag_see(evidence, "rocev1_rx_frames", port->rocev1_rx);
	diag_see(evidence, "rocev1_tx_frames", port->rocev1_tx);
	if (port->rocev1_gids)
		diag_see(evidence, "rocev1_qps", port->rocev1_gids);
	evidence->cause = "RoCEv1";
}

void find_rocev1(const struct scene *scene)
{
	for (size_t i = 0; i < scene->input->port_count; i++) {
		const struct diag_port *port = &scene->input->ports[i];
		const struct diag_port *before =
			port_find(scene->ports_before, scene->ports_before_count, port->index);
		struct diag_subject subject = {.about = DIAG_ABOUT_PORT};
		struct diag_evidence evidence = {.lead = 1};

		if (!before || (before->rocev1_rx == port->rocev1_rx &&
				before->rocev1_tx == port->rocev1_tx && !port->rocev1_gids))
			continue;
		subject.key.port = port->index;
		see_rocev1(&evidence, port);
		diag_expect(&evidence, "rocev1_frames", 0);
		evidence.note = "RoCEv1 has no UDP port: it is not routed, takes one path of many, "
				"and no queue pair of it is seen here; check the GID index";
		/* One frame is proof enough. */
		book_find(scene->book, DIAG_MISCONFIGURATION, &subject, BOOK_IN_ONE, &evidence);
	}
}

/* --- both figures --- */

/* The most that the workload may take where probes take what they do. */
static int64_t limit_ns(const struct pair *pair, const struct diag_peer *peer)
{
	int64_t factor = LAW_INBAND_FACTOR * peer->delay.p50_ns;
	int64_t margin = peer->delay.p99_ns + LAW_INBAND_MARGIN_NS;

	return (factor > margin ? factor : margin) + pair->bound_ns + peer->delay.bound_ns;
}

static const char *note_of(const struct pair *pair, int64_t limit)
{
	if (pair->floor_ns > limit)
		return "also the least of 30 s is above it: not a queue that comes and goes; check "
		       "traffic class, GID index and path";
	if (pair->ports > 1)
		return "all source ports of the workload are slow, the probes' is not; check "
		       "traffic class and GID index";
	return "the workload has one source port and the probes another: a load on its path appears "
	       "the same; else check traffic class and GID index";
}

static void report(const struct scene *scene, const struct pair *pair, const struct diag_peer *peer,
		   int64_t limit)
{
	const struct diag_qp *best = &scene->input->qps[pair->best];
	const struct diag_port *port =
		port_find(scene->input->ports, scene->input->port_count, best->key.port);
	struct diag_evidence evidence = {.lead = best->delay.p50_ns};

	diag_see(&evidence, "ratio",
		 (double)best->delay.p50_ns / (peer->delay.p50_ns > 1 ? peer->delay.p50_ns : 1));
	see_delay(&evidence, scene, pair->best);
	diag_see(&evidence, "mesh_p50_ns", peer->delay.p50_ns);
	diag_see(&evidence, "mesh_p99_ns", peer->delay.p99_ns);
	diag_see(&evidence, "mesh_bound_ns", peer->delay.bound_ns);
	diag_see(&evidence, "mesh_source_port", peer->source_port);
	diag_see(&evidence, "source_ports", pair->ports);
	diag_see(&evidence, "qps", pair->measured);
	diag_see(&evidence, "bytes_per_second", pair->bytes_per_second);
	diag_expect(&evidence, "p50_max_ns", limit);
	if (port)
		see_rocev1(&evidence, port);
	evidence.note = note_of(pair, limit);
	book_find(scene->book, DIAG_MISCONFIGURATION, &pair->subject, BOOK_IN_THREE, &evidence);
}

void find_inband(const struct scene *scene, const struct pair *pair)
{
	const struct diag_peer *peer = peer_find(scene, &pair->subject.key.dst);
	bool probed = peer && peer->up && peer->delay.samples >= LAW_MESH_SAMPLES_MIN;
	int64_t best_ns = scene->input->qps[pair->best].delay.p50_ns;
	int64_t limit = probed ? limit_ns(pair, peer) : 0;
	struct pair_track *memory = pair_memory(scene, pair);
	bool own_queue;

	memory->polled_ns = scene->input->now_ns;
	if (best_ns <= LAW_INBAND_MARGIN_NS || (probed && best_ns <= limit)) {
		remember_fine(memory, pair->bytes_per_second, scene->input->now_ns);
		return;
	}
	own_queue = pair->floor_ns <= limit &&
		    (!memory->fine_known ||
		     pair->bytes_per_second > LAW_OWN_LOAD * memory->fine_bytes_per_second);
	/* What began as one does not become an own queue because the load comes back. */
	if (probed &&
	    (!own_queue || book_active(scene->book, DIAG_MISCONFIGURATION, &pair->subject)))
		report(scene, pair, peer, limit);
}
