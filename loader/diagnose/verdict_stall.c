// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stalled queue pairs: requests that the peer has not acknowledged, and no
 * progress. What is unacknowledged is exact where the peer's answers are known
 * to be of this connection (judge_answers.c); an idle one has nothing
 * unacknowledged. What was sent again since the last answer is stalled for
 * sure. Without that it may be of a process that was killed, or the sender did
 * not ask for an ACK: then it is said only of a queue pair that is known to be
 * alive and is in the midst of a message, or used to have all acknowledged when
 * it was idle. Where owners are not known, a stall shows when the sender's own
 * ACK timeout ends: with NCCL's default after seconds.
 */
#include "verdict_parts.h"

static const struct verdict_port *port_of(const struct scene *scene, uint8_t index)
{
	for (size_t i = 0; i < scene->look->port_count; i++)
		if (scene->look->ports[i].index == index)
			return &scene->look->ports[i];
	return NULL;
}

static bool is_acknowledged_kind(const struct verdict_qp *qp)
{
	return qp->transport == ESC_TRANSPORT_RC || qp->transport == ESC_TRANSPORT_XRC;
}

/* PSNs that wait for an ACK; 0: none, or it can't be known. */
static uint32_t unacknowledged(const struct verdict_qp *qp)
{
	uint32_t psns = (qp->next_psn - qp->answered_psn) & ESC_PSN_MASK;

	if (!qp->paired || !qp->next_known || !qp->answered_known || psns > LAW_WINDOW_PSNS)
		return 0;
	return psns;
}

/* Its requests go out and nothing has ever come back, though what comes is counted. */
static bool is_never_answered(const struct scene *scene, const struct verdict_qp *qp)
{
	const struct verdict_port *port = port_of(scene, qp->key.port);

	return port && port->hears && qp->next_known && qp->nothing_back;
}

static uint64_t patience_ns(const struct scene *scene, const struct verdict_qp *qp,
			    const struct track *track)
{
	bool sent_again = qp->retransmits != track->moved_retransmits;

	if (unacknowledged(qp)) {
		if (sent_again)
			return LAW_STALL_NS;
		if (qp->alive && (qp->mid_message || (track->settles && !track->leaves_tail)))
			return LAW_STALL_QUIET_NS;
		return UINT64_MAX;
	}
	if (sent_again && is_never_answered(scene, qp))
		return LAW_STALL_NEVER_NS;
	return UINT64_MAX;
}

static const char *cause_of(const struct verdict_qp *qp, const struct track *track,
			    const struct verdict_peer *peer)
{
	if (track->sum.rnr_naks)
		return "the receiver is not ready";
	if (peer && !peer->up)
		return "its peer is not heard by probes either";
	if (!qp->paired)
		return "nothing has ever come back";
	return qp->mid_message && qp->retransmits == track->moved_retransmits
		       ? "it waits in the midst of a message"
		       : "packets or their answers are lost on the way";
}

static void tell_stall(const struct scene *scene, const struct verdict_qp *qp,
		       const struct track *track, uint64_t patience, struct verdict_book *book)
{
	const struct verdict_peer *peer = peer_of(scene, &qp->key.dst);
	struct verdict_subject subject = subject_of_qp(qp);
	uint64_t age_ns = scene->look->now_ns - track->moved_ns;
	struct verdict_evidence evidence = {.lead = age_ns};

	verdict_see(&evidence, "no_progress_ns", age_ns);
	if (unacknowledged(qp))
		verdict_see(&evidence, "unacknowledged_packets", unacknowledged(qp));
	verdict_see(&evidence, "retransmits", qp->retransmits - track->moved_retransmits);
	verdict_see(&evidence, "rnr_naks", track->sum.rnr_naks);
	verdict_see(&evidence, "sport", qp->sport);
	if (peer)
		verdict_see(&evidence, "peer_up", peer->up);
	verdict_expect(&evidence, "no_progress_max_ns", patience);
	evidence.cause = cause_of(qp, track, peer);
	/* The patience is the hysteresis. */
	book_find(book, VERDICT_STALLED, &subject, BOOK_IN_ONE, &evidence);
}

void verdict_find_stalls(const struct scene *scene, struct verdict_book *book)
{
	for (size_t i = 0; i < scene->look->qp_count; i++) {
		const struct verdict_qp *qp = &scene->look->qps[i];
		const struct track *track = &scene->tracks[i];
		uint64_t patience;

		if (!is_acknowledged_kind(qp))
			continue;
		patience = patience_ns(scene, qp, track);
		if (patience != UINT64_MAX && scene->look->now_ns - track->moved_ns >= patience)
			tell_stall(scene, qp, track, patience, book);
	}
}
