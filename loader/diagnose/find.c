// SPDX-License-Identifier: BSD-2-Clause
/* The finders of all but outliers: stalls, wrong configuration, and the cause at a destination. */
#include <string.h>

#include "internal.h"

/* --- stalls --- */

/*
 * Requests that the peer has not acknowledged, and no progress. What is unacknowledged is exact
 * where the replies are known to be of this connection (replies.c). After a retransmission it is a
 * stall with certainty. Without one the process may have been killed, or the sender did not request
 * an ACK and is idle: then it is reported only of a queue pair with a live process whose newest
 * request has to be replied to, or that is within a message; later also of one that used to have
 * all acknowledged when idle. Without owners a stall shows after the sender's ACK timeout: with
 * NCCL's default after seconds. What may be forged by a container never stalls.
 */

/* PSNs that wait for an ACK; 0: none, or it cannot be known. */
static uint32_t unacknowledged(const struct diag_qp *qp)
{
	uint32_t psns = (qp->next_psn - qp->acked_psn) & ESC_PSN_MASK;

	if (!qp->paired || !qp->next_known || !qp->acked_known || psns > LAW_WINDOW_PSNS)
		return 0;
	return psns;
}

/* How long it may be without progress. UINT64_MAX: for any time. */
static uint64_t stall_limit_ns(struct diagnoses *diag, const struct diag_qp *qp,
			       const struct track *track)
{
	bool retransmitted = qp->retransmits != track->moved_retransmits;
	const struct diag_port *port =
		port_find(diag->input->ports, diag->input->port_count, qp->key.port);

	if (qp->foreign)
		return UINT64_MAX;
	if (unacknowledged(qp)) {
		if (retransmitted || (qp->alive && (qp->asked || qp->mid_message)))
			return LAW_STALL_NS;
		if (qp->alive && track->settles && !track->leaves_tail)
			return LAW_STALL_QUIET_NS;
		return UINT64_MAX;
	}
	/* Requests are sent and nothing was ever received, though received packets are counted. */
	if (retransmitted && port && port->counts_rx && qp->next_known && qp->nothing_back)
		return LAW_STALL_NEVER_NS;
	return UINT64_MAX;
}

void find_stalls(struct diagnoses *diag)
{
	for (size_t i = 0; i < diag->input->qp_count; i++) {
		const struct diag_qp *qp = &diag->input->qps[i];
		const struct diag_peer *peer;
		const struct track *track = &diag->tracks[i];
		uint64_t age_ns = diag->input->now_ns - track->moved_ns;
		uint64_t limit_ns = stall_limit_ns(diag, qp, track);
		struct diag_evidence evidence = {.lead = age_ns};

		if ((qp->transport != ESC_TRANSPORT_RC && qp->transport != ESC_TRANSPORT_XRC) ||
		    limit_ns == UINT64_MAX || age_ns < limit_ns)
			continue;
		peer = peer_find(diag, &qp->key);
		diag_see(&evidence, "no_progress_ns", age_ns);
		if (unacknowledged(qp))
			diag_see(&evidence, "unacknowledged_packets", unacknowledged(qp));
		diag_see(&evidence, "retransmits", qp->retransmits - track->moved_retransmits);
		diag_see(&evidence, "rnr_naks", track->sum.rnr_naks);
		diag_see(&evidence, "sport", qp->sport);
		if (peer)
			diag_see(&evidence, "peer_up", peer->up);
		diag_expect(&evidence, "no_progress_max_ns", limit_ns);
		if (track->sum.rnr_naks)
			evidence.cause = "the receiver is not ready";
		else if (peer && !peer->up)
			evidence.cause = "its peer does not reply to probes either";
		else if (!qp->paired)
			evidence.cause = "nothing has ever come back";
		else if (qp->mid_message && qp->retransmits == track->moved_retransmits)
			evidence.cause = "it waits in the midst of a message";
		else
			evidence.cause = "packets or their replies are lost";
		/* The time without progress is the hysteresis. */
		book_find(&diag->book, DIAG_STALLED, &(struct diag_subject){DIAG_ABOUT_QP, qp->key},
			  BOOK_IN_ONE, &evidence);
	}
}

/* --- in-band against out-of-band, and RoCEv1 --- */

/*
 * The workload's delay to a destination is far above that of probes, on every source port it uses;
 * and RoCEv1 frames, which no switch spreads over paths by ports, since they have none.
 *
 * The probes of the mesh use one source port, so that the workload's path may be loaded and theirs
 * not (those of candidate paths use the workload's ports): with
 * several source ports some would be fine (an imbalance, not found here); with one it cannot be
 * distinguished, and the evidence states it.
 *
 * A queue of the workload's own making is no misconfiguration: when the load is higher than what
 * was carried with a good delay before, or, with no such memory, when the floor is good, which a
 * wrong class or path never has. Limit: a path that gets worse while the load grows above that is
 * not distinguished from it.
 */
static struct pair_track *pair_memory(struct diagnoses *diag, const struct pair *pair)
{
	const struct esc_qp_key *key = &pair->subject.key;
	uint64_t hash = hash_add(HASH_FIRST, key, sizeof(key->src) + sizeof(key->dst));
	struct pair_track *oldest = NULL;

	for (size_t i = 0; i < 8; i++) {
		struct pair_track *at = &diag->pairs[(hash + i) % PAIR_TRACKS];

		if (at->polled_ns && !memcmp(&at->src, &key->src, sizeof(at->src)) &&
		    !memcmp(&at->dst, &key->dst, sizeof(at->dst)))
			return at;
		if (!oldest || at->polled_ns < oldest->polled_ns)
			oldest = at;
	}
	*oldest = (struct pair_track){.src = key->src, .dst = key->dst};
	return oldest;
}

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

void find_rocev1(struct diagnoses *diag)
{
	for (size_t i = 0; i < diag->input->port_count; i++) {
		const struct diag_port *port = &diag->input->ports[i];
		const struct diag_port *before =
			port_find(diag->ports, diag->port_count, port->index);
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
		book_find(&diag->book, DIAG_MISCONFIGURATION, &subject, BOOK_IN_ONE, &evidence);
	}
}

static void see_probes(struct diag_evidence *evidence, const struct diag_peer *peer)
{
	static const char *const names[][4] = {
#define X(id, name)                                                                                \
	[DIAG_BY_##id] = {name "_p50_ns", name "_p99_ns", name "_bound_ns", name "_source_port"},
		DIAG_SOURCES(X)
#undef X
	};
	const char *const *name = names[peer->source];

	diag_see(evidence, name[0], peer->delay.p50_ns);
	diag_see(evidence, name[1], peer->delay.p99_ns);
	diag_see(evidence, name[2], peer->delay.bound_ns);
	diag_see(evidence, name[3], peer->source_port);
	diag_see(evidence, "probes_age_ns", peer->age_ns);
	evidence->probes = diag_source_name(peer->source);
}

static void report_inband(struct diagnoses *diag, const struct pair *pair,
			  const struct diag_peer *peer, int64_t limit_ns)
{
	const struct diag_qp *best = &diag->input->qps[pair->best];
	const struct diag_port *port =
		port_find(diag->input->ports, diag->input->port_count, best->key.port);
	struct diag_evidence evidence = {.lead = best->delay.p50_ns};

	diag_see(&evidence, "ratio", (double)best->delay.p50_ns / most(peer->delay.p50_ns, 1));
	see_delay(&evidence, diag, pair->best);
	see_probes(&evidence, peer);
	diag_see(&evidence, "source_ports", pair->ports);
	diag_see(&evidence, "qps", pair->measured);
	diag_see(&evidence, "bytes_per_second", pair->bytes_per_second);
	diag_expect(&evidence, "p50_max_ns", limit_ns);
	if (port)
		see_rocev1(&evidence, port);
	if (pair->floor_ns > limit_ns)
		evidence.note = "also the least of 30 s is above it: not a queue that comes and "
				"goes; check traffic class, GID index and path";
	else if (peer->source == DIAG_BY_PATH)
		evidence.note = "the probes use the workload's source ports, and so its paths: "
				"check traffic class and GID index";
	else if (pair->ports > 1)
		evidence.note = "all source ports of the workload are slow, the probes' is not; "
				"check traffic class and GID index";
	else
		evidence.note = "the workload has one source port and the probes another: a load "
				"on its path appears the same; else check traffic class and GID "
				"index";
	book_find(&diag->book, DIAG_MISCONFIGURATION, &pair->subject, BOOK_IN_THREE, &evidence);
}

void find_inband(struct diagnoses *diag, const struct pair *pair)
{
	const struct diag_peer *peer = peer_find(diag, &pair->subject.key);
	bool probed = peer && peer->up && peer->delay.samples >= LAW_MESH_SAMPLES_MIN &&
		      peer->age_ns <= LAW_PROBES_AGE_NS;
	int64_t best_ns = diag->input->qps[pair->best].delay.p50_ns, limit_ns = 0;
	struct pair_track *memory = pair_memory(diag, pair);
	bool own_queue;

	/* The most that the workload may take where probes take what they do. */
	if (probed)
		limit_ns = most(LAW_INBAND_FACTOR * peer->delay.p50_ns,
				peer->delay.p99_ns + LAW_INBAND_MARGIN_NS) +
			   pair->bound_ns + peer->delay.bound_ns;
	memory->polled_ns = diag->input->now_ns;
	if (best_ns <= LAW_INBAND_MARGIN_NS || (probed && best_ns <= limit_ns)) {
		if (!memory->fine_known ||
		    memory->fine_bytes_per_second <= pair->bytes_per_second ||
		    diag->input->now_ns - memory->fine_ns >= LAW_FLOOR_NS) {
			memory->fine_known = true;
			memory->fine_bytes_per_second = pair->bytes_per_second;
			memory->fine_ns = diag->input->now_ns;
		}
		return;
	}
	own_queue = pair->floor_ns <= limit_ns &&
		    (!memory->fine_known ||
		     pair->bytes_per_second > LAW_OWN_LOAD * memory->fine_bytes_per_second);
	/* What began as one does not become an own queue because the load returns. */
	if (probed &&
	    (!own_queue || book_is_active(&diag->book, DIAG_MISCONFIGURATION, &pair->subject)))
		report_inband(diag, pair, peer, limit_ns);
}

/* --- the cause --- */

/*
 * By combination: loss without delay, delay with marks or loss, delay on some source ports only,
 * delay that is a host's own, or delay without an explanation. Limits: a shallow buffer or a
 * policer drops without delay, as bad hardware does; a fabric without marks leaves `path_slow`
 * instead of congestion; of a peer without receipts no losses are evaluated.
 */

/* Of the pair, with the delay of queue pair @of; @lead 0: its median. */
static void report(struct diagnoses *diag, const struct pair *pair, size_t of, enum diag_kind kind,
		   struct diag_evidence *evidence)
{
	const struct diag_qp *qp = &diag->input->qps[of];

	see_delay(evidence, diag, of);
	diag_see(evidence, "dest_qpn", qp->key.dest_qpn);
	diag_see(evidence, "qps", pair->measured);
	diag_see(evidence, "qps_slow", pair->slow);
	diag_see(evidence, "source_ports", pair->ports);
	diag_see(evidence, "source_ports_slow", pair->ports_slow);
	diag_see(evidence, "ce_ratio", (double)pair->ce / pair->samples);
	diag_see(evidence, "retransmits", pair->sum.retransmits);
	diag_see(evidence, "nak_sequence", pair->sum.nak_sequence);
	diag_see(evidence, "rnr_naks", pair->sum.rnr_naks);
	if (!evidence->lead)
		evidence->lead = qp->delay.p50_ns;
	book_find(&diag->book, kind, &pair->subject,
		  kind == DIAG_PATH_SLOW ? BOOK_IN_SIX : BOOK_IN_THREE, evidence);
}

static void find_loss(struct diagnoses *diag, const struct pair *pair)
{
	uint64_t total = 0, most = 0;
	size_t qps = 0, late = 0, worst = pair->worst;
	unsigned int polls = 0; /* the most that one of them lost in */
	struct diag_evidence evidence = {};

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct diag_delay *delay = &diag->input->qps[i].delay;
		const struct track *track = &diag->tracks[i];
		/* A loss is one NAK and a whole window retransmitted: counted once at least. */
		uint64_t lost =
			track->sum.nak_sequence ? track->sum.nak_sequence : track->sum.retransmits;

		/* After an RNR NAK a sender repeats what was not lost. */
		if (!track->measured || !lost || track->sum.rnr_naks)
			continue;
		qps++;
		total += lost;
		/* By the tail: a queue that overflows shows there, even if not in the median. */
		late += track->slow ||
			delay->p99_ns - track->floor_ns > track_slow_ns(track, delay);
		if (track->losing > polls)
			polls = track->losing;
		if (lost > most) {
			most = lost;
			worst = i;
		}
	}
	if (total < LAW_LOSS_MIN || polls < LAW_LOSS_POLLS || late)
		return;
	diag_see(&evidence, "losses", total);
	diag_see(&evidence, "qps_losing", qps);
	diag_expect(&evidence, "losses", 0);
	evidence.lead = total;
	evidence.cause = "packets are lost where no queue stands";
	report(diag, pair, worst, DIAG_LOSS, &evidence);
}

static void report_host(struct diagnoses *diag, const struct pair *pair, const char *cause,
			const char *figure, double value, double limit)
{
	struct diag_evidence evidence = {.cause = cause};

	diag_see(&evidence, figure, value);
	diag_expect(&evidence, figure, limit);
	report(diag, pair, pair->worst, DIAG_HOST, &evidence);
}

/* The receiving host: what comes after the delay's end, or that it is not ready. */
static void find_receiver(struct diagnoses *diag, const struct pair *pair)
{
	int64_t stack_ns = -1;

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct diag_qp *qp = &diag->input->qps[i];

		if (diag->tracks[i].measured && qp->stack_known && qp->stack_max_ns > stack_ns)
			stack_ns = qp->stack_max_ns;
	}
	if (pair->sum.rnr_naks >= LAW_RNR_MIN)
		report_host(diag, pair, "the receiver is not ready for what is sent",
			    "rnr_naks_recent", pair->sum.rnr_naks, LAW_RNR_MIN - 1);
	else if (stack_ns >= LAW_STACK_NS)
		report_host(diag, pair, "the receiving host is slow to take packets on",
			    "receiver_stack_max_ns", stack_ns, LAW_STACK_NS);
}

static void find_delay(struct diagnoses *diag, const struct pair *pair)
{
	const struct track *track = &diag->tracks[pair->worst];
	double queue = -1;
	enum diag_kind kind = DIAG_CONGESTION;
	struct diag_evidence evidence = {};

	/* The largest queue of this host among the slow ones, as a part of their excess. */
	for (size_t i = pair->first; i < pair->end; i++) {
		const struct diag_qp *qp = &diag->input->qps[i];
		int64_t above_ns = qp->delay.max_ns - diag->tracks[i].floor_ns;

		if (diag->tracks[i].slow && qp->queue_known && above_ns > 0 &&
		    (double)qp->queue_max_ns / above_ns > queue)
			queue = (double)qp->queue_max_ns / above_ns;
	}
	if (queue > LAW_QUEUE_SHARE) {
		report_host(diag, pair, "the queue of this host, before the fabric",
			    "host_queue_share", queue, LAW_QUEUE_SHARE);
		return;
	}
	/* Slow on some source ports, fine on at least as many, with a gap between the two. */
	if (pair->ports_slow && 2 * pair->ports_slow <= pair->ports &&
	    pair->slow_least_ns > LAW_IMBALANCE_GAP * pair->fine_most_ns) {
		kind = DIAG_IMBALANCE;
		evidence.cause = "some source ports are slow, the others to it are not";
	} else if (pair->slow < LAW_ALL_SLOW * pair->measured) {
		return;
	} else if (pair->ce >= LAW_CE_RATIO * pair->samples) {
		evidence.cause = "delay, and marks (CE)";
	} else if (pair->sum.nak_sequence && !pair->sum.rnr_naks) {
		evidence.cause = "delay, and loss with it";
	} else {
		kind = DIAG_PATH_SLOW;
		evidence.cause = "all queue pairs to it alike; no marks, no loss";
	}
	diag_expect(&evidence, "p50_max_ns",
		    track->floor_ns + track_slow_ns(track, &diag->input->qps[pair->worst].delay));
	report(diag, pair, pair->worst, kind, &evidence);
}

void find_causes(struct diagnoses *diag, const struct pair *pair)
{
	find_loss(diag, pair);
	find_receiver(diag, pair);
	if (pair->slow)
		find_delay(diag, pair);
}
