// SPDX-License-Identifier: BSD-2-Clause
/*
 * The cause of trouble at a destination, by what comes together: loss without delay, delay with
 * marks or loss, delay on some source ports only, delay that is a host's own, or delay that nothing
 * explains.
 *
 * Limits: a shallow buffer or a policer drops without delay, as bad hardware does; a fabric that
 * does not mark leaves `path_slow` where it would be congestion; a peer that gives no receipts has
 * no delays, and its losses are not judged.
 */
#include "parts.h"

/* Of the pair, with the delay of queue pair @of; @lead 0: its median. */
static void report(const struct scene *scene, const struct pair *pair, size_t of,
		   enum diag_kind kind, struct diag_evidence *evidence)
{
	const struct diag_qp *qp = &scene->input->qps[of];

	see_delay(evidence, scene, of);
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
	book_find(scene->book, kind, &pair->subject,
		  kind == DIAG_PATH_SLOW ? BOOK_IN_SIX : BOOK_IN_THREE, evidence);
}

/* By the tail: a queue that overflows shows there, also when the median does not. */
static bool is_late(const struct diag_qp *qp, const struct track *track)
{
	return track->slow || qp->delay.p99_ns - track->floor_ns > track_slow_ns(track, &qp->delay);
}

static void find_loss(const struct scene *scene, const struct pair *pair)
{
	uint64_t total = 0, most = 0;
	size_t qps = 0, late = 0, worst = pair->worst;
	unsigned int polls = 0; /* the most that one of them lost in */
	struct diag_evidence evidence = {};

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct track *track = &scene->tracks[i];
		/* One loss is one NAK and a whole window again: each is counted once at least. */
		uint64_t lost =
			track->sum.nak_sequence ? track->sum.nak_sequence : track->sum.retransmits;

		/* After an RNR NAK a sender repeats what was not lost. */
		if (!track->measured || !lost || track->sum.rnr_naks)
			continue;
		qps++;
		total += lost;
		late += is_late(&scene->input->qps[i], track);
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
	report(scene, pair, worst, DIAG_LOSS, &evidence);
}

static void report_host(const struct scene *scene, const struct pair *pair, const char *cause,
			const char *figure, double value, double limit)
{
	struct diag_evidence evidence = {.cause = cause};

	diag_see(&evidence, figure, value);
	diag_expect(&evidence, figure, limit);
	report(scene, pair, pair->worst, DIAG_HOST, &evidence);
}

/* The receiving host: what comes after the delay's end, or that it is not ready. */
static void find_receiver(const struct scene *scene, const struct pair *pair)
{
	int64_t stack_ns = -1;

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct diag_qp *qp = &scene->input->qps[i];

		if (scene->tracks[i].measured && qp->stack_known && qp->stack_max_ns > stack_ns)
			stack_ns = qp->stack_max_ns;
	}
	if (pair->sum.rnr_naks >= LAW_RNR_MIN)
		report_host(scene, pair, "the receiver is not ready for what is sent",
			    "rnr_naks_recent", pair->sum.rnr_naks, LAW_RNR_MIN - 1);
	else if (stack_ns >= LAW_STACK_NS)
		report_host(scene, pair, "the receiving host is slow to take packets on",
			    "receiver_stack_max_ns", stack_ns, LAW_STACK_NS);
}

/* The largest queue of this host among the slow ones, as a part of their excess. */
static double queue_share(const struct scene *scene, const struct pair *pair)
{
	double share = -1;

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct diag_qp *qp = &scene->input->qps[i];
		int64_t above_ns = qp->delay.max_ns - scene->tracks[i].floor_ns;

		if (!scene->tracks[i].slow || !qp->queue_known || above_ns <= 0)
			continue;
		if ((double)qp->queue_max_ns / above_ns > share)
			share = (double)qp->queue_max_ns / above_ns;
	}
	return share;
}

/* Slow on some source ports, well on at least as many, and nothing between the two. */
static bool is_imbalance(const struct pair *pair)
{
	return pair->ports_slow && 2 * pair->ports_slow <= pair->ports &&
	       pair->slow_least_ns > LAW_IMBALANCE_GAP * pair->fine_most_ns;
}

static void find_delay(const struct scene *scene, const struct pair *pair)
{
	const struct track *track = &scene->tracks[pair->worst];
	double queue = queue_share(scene, pair);
	enum diag_kind kind = DIAG_CONGESTION;
	struct diag_evidence evidence = {};

	if (queue > LAW_QUEUE_SHARE) {
		report_host(scene, pair, "the queue of this host, before the fabric",
			    "host_queue_share", queue, LAW_QUEUE_SHARE);
		return;
	}
	if (is_imbalance(pair)) {
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
		    track->floor_ns + track_slow_ns(track, &scene->input->qps[pair->worst].delay));
	report(scene, pair, pair->worst, kind, &evidence);
}

void find_causes(const struct scene *scene, const struct pair *pair)
{
	find_loss(scene, pair);
	find_receiver(scene, pair);
	if (pair->slow)
		find_delay(scene, pair);
}
