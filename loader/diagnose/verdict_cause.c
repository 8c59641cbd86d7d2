// SPDX-License-Identifier: BSD-2-Clause
/*
 * What kind of trouble a destination is in, by what comes together: loss without
 * delay, delay with marks or loss, delay on some source ports only, delay that
 * is a host's own, or delay that nothing explains.
 *
 * Limits: a shallow buffer or a policer drops without delay, as bad hardware
 * does; a fabric that does not mark leaves `path_slow` where it would be
 * congestion; a peer that gives no receipts has no delays, and its losses are
 * not judged.
 */
#include "verdict_parts.h"

static void see_pair(struct verdict_evidence *evidence, const struct scene *scene,
		     const struct pair *pair)
{
	see_delay(evidence, &scene->look->qps[pair->worst], &scene->tracks[pair->worst]);
	verdict_see(evidence, "dest_qpn", scene->look->qps[pair->worst].key.dest_qpn);
	verdict_see(evidence, "qps", pair->measured);
	verdict_see(evidence, "qps_slow", pair->slow);
	verdict_see(evidence, "source_ports", pair->ports);
	verdict_see(evidence, "source_ports_slow", pair->ports_slow);
	verdict_see(evidence, "ce_ratio", (double)pair->ce / pair->samples);
	verdict_see(evidence, "retransmits", pair->sum.retransmits);
	verdict_see(evidence, "nak_sequence", pair->sum.nak_sequence);
	verdict_see(evidence, "rnr_naks", pair->sum.rnr_naks);
	evidence->lead = scene->look->qps[pair->worst].delay.p50_ns;
}

static void expect_floor(struct verdict_evidence *evidence, const struct scene *scene,
			 const struct pair *pair)
{
	const struct track *track = &scene->tracks[pair->worst];

	verdict_expect(evidence, "p50_max_ns",
		       track->floor_ns +
			       track_slow_ns(track, &scene->look->qps[pair->worst].delay));
}

/* --- loss --- */

struct losses {
	size_t qps;  /* that lost, and are measured */
	size_t late; /* of these: with delay */
	uint64_t total;
	unsigned int looks; /* the most that one of them lost in */
	size_t worst;
};

static uint64_t losses_of(const struct track *track)
{
	/* One loss is one NAK and a whole window again: each is counted once at least. */
	return track->sum.nak_sequence ? track->sum.nak_sequence : track->sum.retransmits;
}

/* By the tail: a queue that overflows shows there, also when the median does not. */
static bool is_late(const struct verdict_qp *qp, const struct track *track)
{
	return track->slow || qp->delay.p99_ns - track->floor_ns > track_slow_ns(track, &qp->delay);
}

static void losses_find(const struct scene *scene, const struct pair *pair, struct losses *out)
{
	uint64_t most = 0;

	*out = (struct losses){.worst = pair->worst};
	for (size_t i = pair->first; i < pair->end; i++) {
		const struct track *track = &scene->tracks[i];
		uint64_t lost = losses_of(track);

		/* After an RNR NAK a sender repeats what was not lost. */
		if (!track->measured || !lost || track->sum.rnr_naks)
			continue;
		out->qps++;
		out->total += lost;
		out->late += is_late(&scene->look->qps[i], track);
		if (track->losing > out->looks)
			out->looks = track->losing;
		if (lost > most) {
			most = lost;
			out->worst = i;
		}
	}
}

static void judge_loss(const struct scene *scene, const struct pair *pair,
		       struct verdict_book *book)
{
	struct verdict_subject subject = subject_of_pair(scene, pair);
	struct verdict_evidence evidence = {};
	struct pair of = *pair;
	struct losses losses;

	losses_find(scene, pair, &losses);
	if (losses.total < LAW_LOSS_MIN || losses.looks < LAW_LOSS_LOOKS || losses.late)
		return;
	of.worst = losses.worst;
	see_pair(&evidence, scene, &of);
	verdict_see(&evidence, "losses", losses.total);
	verdict_see(&evidence, "qps_losing", losses.qps);
	verdict_expect(&evidence, "losses", 0);
	evidence.lead = losses.total;
	evidence.cause = "packets are lost where no queue stands";
	book_find(book, VERDICT_LOSS, &subject, BOOK_IN_THREE, &evidence);
}

/* --- delay --- */

/* The largest queue of this host among the slow ones, as a part of their excess. */
static double queue_share(const struct scene *scene, const struct pair *pair)
{
	double share = -1;

	for (size_t i = pair->first; i < pair->end; i++) {
		const struct verdict_qp *qp = &scene->look->qps[i];
		int64_t above_ns = qp->delay.max_ns - scene->tracks[i].floor_ns;

		if (!scene->tracks[i].slow || !qp->queue_known || above_ns <= 0)
			continue;
		if ((double)qp->queue_max_ns / above_ns > share)
			share = (double)qp->queue_max_ns / above_ns;
	}
	return share;
}

static int64_t stack_max_ns(const struct scene *scene, const struct pair *pair)
{
	int64_t most = -1;

	for (size_t i = pair->first; i < pair->end; i++)
		if (scene->tracks[i].measured && scene->look->qps[i].stack_known &&
		    scene->look->qps[i].stack_max_ns > most)
			most = scene->look->qps[i].stack_max_ns;
	return most;
}

static void tell_delay(const struct scene *scene, const struct pair *pair, enum verdict_kind kind,
		       const char *cause, struct verdict_book *book)
{
	struct verdict_subject subject = subject_of_pair(scene, pair);
	struct verdict_evidence evidence = {.cause = cause};

	see_pair(&evidence, scene, pair);
	expect_floor(&evidence, scene, pair);
	book_find(book, kind, &subject, kind == VERDICT_PATH_SLOW ? BOOK_IN_SIX : BOOK_IN_THREE,
		  &evidence);
}

static void tell_host(const struct scene *scene, const struct pair *pair, const char *cause,
		      const char *figure, double value, double limit, struct verdict_book *book)
{
	struct verdict_subject subject = subject_of_pair(scene, pair);
	struct verdict_evidence evidence = {.cause = cause};

	see_pair(&evidence, scene, pair);
	verdict_see(&evidence, figure, value);
	verdict_expect(&evidence, figure, limit);
	book_find(book, VERDICT_HOST, &subject, BOOK_IN_THREE, &evidence);
}

/* The receiving host: what comes after the delay's end, or its word that it is not ready. */
static void judge_receiver(const struct scene *scene, const struct pair *pair,
			   struct verdict_book *book)
{
	int64_t stack_ns = stack_max_ns(scene, pair);

	if (pair->sum.rnr_naks >= LAW_RNR_MIN)
		tell_host(scene, pair, "the receiver is not ready for what is sent",
			  "rnr_naks_recent", pair->sum.rnr_naks, LAW_RNR_MIN - 1, book);
	else if (stack_ns >= LAW_STACK_NS)
		tell_host(scene, pair, "the receiving host is slow to take packets on",
			  "receiver_stack_max_ns", stack_ns, LAW_STACK_NS, book);
}

/* Slow on some source ports, well on at least as many, and nothing between the two. */
static bool is_imbalance(const struct pair *pair)
{
	return pair->ports_slow && 2 * pair->ports_slow <= pair->ports &&
	       pair->slow_least_ns > LAW_IMBALANCE_GAP * pair->fine_most_ns;
}

static void judge_delay(const struct scene *scene, const struct pair *pair,
			struct verdict_book *book)
{
	double queue = queue_share(scene, pair);
	bool all = pair->slow >= LAW_ALL_SLOW * pair->measured;

	if (queue > LAW_QUEUE_SHARE)
		tell_host(scene, pair, "the queue of this host, before the fabric",
			  "host_queue_share", queue, LAW_QUEUE_SHARE, book);
	else if (is_imbalance(pair))
		tell_delay(scene, pair, VERDICT_IMBALANCE,
			   "some source ports are slow, the others to it are not", book);
	else if (all && pair->ce >= LAW_CE_RATIO * pair->samples)
		tell_delay(scene, pair, VERDICT_CONGESTION, "delay, and marks (CE)", book);
	else if (all && pair->sum.nak_sequence && !pair->sum.rnr_naks)
		tell_delay(scene, pair, VERDICT_CONGESTION, "delay, and loss with it", book);
	else if (all)
		tell_delay(scene, pair, VERDICT_PATH_SLOW,
			   "all queue pairs to it alike; no marks, no loss", book);
}

void verdict_find_causes(const struct scene *scene, struct verdict_book *book)
{
	struct pair pair;

	for (size_t at = 0; at < scene->look->qp_count; at = pair.end) {
		pair_of(scene, at, &pair);
		if (!pair.measured)
			continue;
		judge_loss(scene, &pair, book);
		judge_receiver(scene, &pair, book);
		if (pair.slow)
			judge_delay(scene, &pair, book);
	}
}
