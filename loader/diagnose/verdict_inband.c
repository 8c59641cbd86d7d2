// SPDX-License-Identifier: BSD-2-Clause
/*
 * In-band against out-of-band: the workload's delay to a destination is far
 * above what the mesh's probes see of it, on every source port it uses. And
 * RoCEv1 frames, which no switch spreads over its paths by ports, since they
 * have none.
 *
 * The probes of an edge use one source port. So a difference may also be that
 * the workload's path is loaded and the probes' is not: with several source
 * ports of the workload some would be fine (then it is an imbalance, and nothing
 * is said here); with one it can't be told, and the evidence says so.
 *
 * A queue of the workload's own making is no misconfiguration. It is there
 * when the load is higher than what was carried with a good delay before; with
 * no such memory, when the floor is good, which a queue lets through at its
 * beginning and a wrong class or way never does. Limit: a path that gets worse
 * while the load grows above all that was carried well is not told from it.
 */
#include <string.h>

#include "verdict_parts.h"

/* Of the queue pairs to one destination: the best of them, which all others are behind. */
struct inband {
	size_t best;
	int64_t p50_ns, floor_ns, bound_ns;
	bool known;
};

static void inband_of(const struct scene *scene, const struct pair *pair, struct inband *out)
{
	*out = (struct inband){};
	for (size_t i = pair->first; i < pair->end; i++) {
		const struct verdict_delay *delay = &scene->look->qps[i].delay;

		if (!scene->tracks[i].measured)
			continue;
		if (!out->known || delay->p50_ns < out->p50_ns) {
			out->best = i;
			out->p50_ns = delay->p50_ns;
		}
		if (!out->known || scene->tracks[i].floor_ns < out->floor_ns)
			out->floor_ns = scene->tracks[i].floor_ns;
		if (delay->bound_ns > out->bound_ns)
			out->bound_ns = delay->bound_ns;
		out->known = true;
	}
}

/* The most that the workload may take where probes take what they do. */
static int64_t inband_limit_ns(const struct inband *inband, const struct verdict_peer *peer)
{
	int64_t factor = LAW_INBAND_FACTOR * peer->delay.p50_ns;
	int64_t margin = peer->delay.p99_ns + LAW_INBAND_MARGIN_NS;

	return (factor > margin ? factor : margin) + inband->bound_ns + peer->delay.bound_ns;
}

/* --- what was carried well --- */

static struct pair_track *pair_memory(const struct scene *scene, const struct pair *pair)
{
	const struct esc_qp_key *key = &scene->look->qps[pair->first].key;
	uint64_t now_ns = scene->look->now_ns, hash = 0xcbf29ce484222325;
	struct pair_track *oldest = NULL;

	for (size_t i = 0; i < sizeof(key->src) + sizeof(key->dst); i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3;
	for (size_t i = 0; i < 8; i++) {
		struct pair_track *at = &scene->pairs[(hash + i) % PAIR_TRACKS];

		if (at->looked_ns && !memcmp(&at->src, &key->src, sizeof(at->src)) &&
		    !memcmp(&at->dst, &key->dst, sizeof(at->dst)))
			return at;
		if (!oldest || at->looked_ns < oldest->looked_ns)
			oldest = at;
	}
	*oldest = (struct pair_track){.src = key->src, .dst = key->dst, .looked_ns = now_ns};
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

static bool is_own_queue(const struct pair_track *memory, const struct pair *pair,
			 const struct inband *inband, int64_t limit)
{
	if (inband->floor_ns > limit)
		return false;
	return !memory->fine_known ||
	       pair->bytes_per_second > LAW_OWN_LOAD * memory->fine_bytes_per_second;
}

/* --- RoCEv1 --- */

static const struct verdict_port *port_before(const struct scene *scene, uint8_t index)
{
	for (size_t i = 0; i < scene->ports_before_count; i++)
		if (scene->ports_before[i].index == index)
			return &scene->ports_before[i];
	return NULL;
}

static void see_rocev1(struct verdict_evidence *evidence, const struct verdict_port *port)
{
	if (!port->rocev1_rx && !port->rocev1_tx && !port->rocev1_gids)
		return;
	verdict_see(evidence, "rocev1_rx_frames", port->rocev1_rx);
	verdict_see(evidence, "rocev1_tx_frames", port->rocev1_tx);
	if (port->rocev1_gids)
		verdict_see(evidence, "rocev1_qps", port->rocev1_gids);
	evidence->cause = "RoCEv1";
}

void verdict_find_rocev1(const struct scene *scene, struct verdict_book *book)
{
	for (size_t i = 0; i < scene->look->port_count; i++) {
		const struct verdict_port *port = &scene->look->ports[i];
		const struct verdict_port *before = port_before(scene, port->index);
		struct verdict_subject subject = {.about = VERDICT_ABOUT_PORT};
		struct verdict_evidence evidence = {.lead = 1};

		if (!before || (before->rocev1_rx == port->rocev1_rx &&
				before->rocev1_tx == port->rocev1_tx && !port->rocev1_gids))
			continue;
		subject.key.port = port->index;
		see_rocev1(&evidence, port);
		verdict_expect(&evidence, "rocev1_frames", 0);
		evidence.note = "RoCEv1 has no UDP port: it is not routed, takes one path of many, "
				"and no queue pair of it is seen here; look at the GID index";
		/* One frame is proof enough. */
		book_find(book, VERDICT_MISCONFIGURATION, &subject, BOOK_IN_ONE, &evidence);
	}
}

/* --- both figures --- */

static const char *note_of(const struct pair *pair, const struct inband *inband, int64_t limit)
{
	if (inband->floor_ns > limit)
		return "also the least of 30 s is above it: not a queue that comes and goes; look "
		       "at traffic class, GID index and path";
	if (pair->ports > 1)
		return "all source ports of the workload are slow, the probes' is not; look at "
		       "traffic class and GID index";
	return "the workload has one source port and the probes another: a load on its path looks "
	       "the same; else look at traffic class and GID index";
}

static void tell_inband(const struct scene *scene, const struct pair *pair,
			const struct inband *inband, const struct verdict_peer *peer,
			struct verdict_book *book)
{
	const struct verdict_qp *qp = &scene->look->qps[inband->best];
	struct verdict_subject subject = subject_of_pair(scene, pair);
	int64_t limit = inband_limit_ns(inband, peer);
	struct verdict_evidence evidence = {.lead = inband->p50_ns};

	verdict_see(&evidence, "ratio",
		    (double)inband->p50_ns / (peer->delay.p50_ns > 1 ? peer->delay.p50_ns : 1));
	see_delay(&evidence, qp, &scene->tracks[inband->best]);
	verdict_see(&evidence, "mesh_p50_ns", peer->delay.p50_ns);
	verdict_see(&evidence, "mesh_p99_ns", peer->delay.p99_ns);
	verdict_see(&evidence, "mesh_bound_ns", peer->delay.bound_ns);
	verdict_see(&evidence, "mesh_source_port", peer->source_port);
	verdict_see(&evidence, "source_ports", pair->ports);
	verdict_see(&evidence, "qps", pair->measured);
	verdict_see(&evidence, "bytes_per_second", pair->bytes_per_second);
	verdict_expect(&evidence, "p50_max_ns", limit);
	for (size_t i = 0; i < scene->look->port_count; i++)
		if (scene->look->ports[i].index == qp->key.port)
			see_rocev1(&evidence, &scene->look->ports[i]);
	evidence.note = note_of(pair, inband, limit);
	book_find(book, VERDICT_MISCONFIGURATION, &subject, BOOK_IN_THREE, &evidence);
}

static bool is_measured(const struct verdict_peer *peer)
{
	return peer && peer->up && peer->delay.samples >= LAW_MESH_SAMPLES_MIN;
}

static void judge_pair(const struct scene *scene, const struct pair *pair,
		       const struct verdict_peer *peer, struct verdict_book *book)
{
	struct pair_track *memory = pair_memory(scene, pair);
	struct verdict_subject subject = subject_of_pair(scene, pair);
	struct inband inband;

	memory->looked_ns = scene->look->now_ns;
	inband_of(scene, pair, &inband);
	if (!inband.known)
		return;
	if (inband.p50_ns <= LAW_INBAND_MARGIN_NS ||
	    (is_measured(peer) && inband.p50_ns <= inband_limit_ns(&inband, peer))) {
		remember_fine(memory, pair->bytes_per_second, scene->look->now_ns);
		return;
	}
	if (!is_measured(peer))
		return;
	/* What began as one does not become an own queue because the load comes back. */
	if (book_is_active(book, VERDICT_MISCONFIGURATION, &subject) ||
	    !is_own_queue(memory, pair, &inband, inband_limit_ns(&inband, peer)))
		tell_inband(scene, pair, &inband, peer, book);
}

void verdict_find_inband(const struct scene *scene, struct verdict_book *book)
{
	struct pair pair;

	for (size_t at = 0; at < scene->look->qp_count; at = pair.end) {
		pair_of(scene, at, &pair);
		if (pair.measured)
			judge_pair(scene, &pair, peer_of(scene, &scene->look->qps[at].key.dst),
				   book);
	}
}
