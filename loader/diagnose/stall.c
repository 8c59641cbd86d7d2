// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stalled queue pairs: requests that the peer has not acknowledged, and no progress. What is
 * unacknowledged is exact where the peer's replies are known to be of this connection (answers.c);
 * an idle one has nothing unacknowledged. What was retransmitted since the last reply is stalled
 * for sure. Without that it may be of a process that was killed, or the sender did not request an
 * ACK: then it is reported only of a queue pair that is known to be alive and is in the midst of a
 * message, or used to have all acknowledged when it was idle. Where owners are not known, a stall
 * shows when the sender's own ACK timeout ends: with NCCL's default after seconds.
 */
#include "parts.h"

/* PSNs that wait for an ACK; 0: none, or it cannot be known. */
static uint32_t unacknowledged(const struct diag_qp *qp)
{
	uint32_t psns = (qp->next_psn - qp->answered_psn) & ESC_PSN_MASK;

	if (!qp->paired || !qp->next_known || !qp->answered_known || psns > LAW_WINDOW_PSNS)
		return 0;
	return psns;
}

/* How long it may be without progress. UINT64_MAX: for any time. */
static uint64_t patience_ns(const struct scene *scene, const struct diag_qp *qp,
			    const struct track *track)
{
	bool retransmitted = qp->retransmits != track->moved_retransmits;
	const struct diag_port *port =
		port_find(scene->input->ports, scene->input->port_count, qp->key.port);

	if (unacknowledged(qp)) {
		if (retransmitted)
			return LAW_STALL_NS;
		if (qp->alive && (qp->mid_message || (track->settles && !track->leaves_tail)))
			return LAW_STALL_QUIET_NS;
		return UINT64_MAX;
	}
	/* Its requests go out and nothing has ever come back, though what comes is counted. */
	if (retransmitted && port && port->counts_rx && qp->next_known && qp->nothing_back)
		return LAW_STALL_NEVER_NS;
	return UINT64_MAX;
}

static const char *cause_of(const struct diag_qp *qp, const struct track *track,
			    const struct diag_peer *peer)
{
	if (track->sum.rnr_naks)
		return "the receiver is not ready";
	if (peer && !peer->up)
		return "its peer does not reply to probes either";
	if (!qp->paired)
		return "nothing has ever come back";
	return qp->mid_message && qp->retransmits == track->moved_retransmits
		       ? "it waits in the midst of a message"
		       : "packets or their replies are lost";
}

void find_stalls(const struct scene *scene)
{
	for (size_t i = 0; i < scene->input->qp_count; i++) {
		const struct diag_qp *qp = &scene->input->qps[i];
		const struct diag_peer *peer;
		const struct track *track = &scene->tracks[i];
		uint64_t age_ns = scene->input->now_ns - track->moved_ns;
		uint64_t patience = patience_ns(scene, qp, track);
		struct diag_evidence evidence = {.lead = age_ns};

		if ((qp->transport != ESC_TRANSPORT_RC && qp->transport != ESC_TRANSPORT_XRC) ||
		    patience == UINT64_MAX || age_ns < patience)
			continue;
		peer = peer_find(scene, &qp->key.dst);
		diag_see(&evidence, "no_progress_ns", age_ns);
		if (unacknowledged(qp))
			diag_see(&evidence, "unacknowledged_packets", unacknowledged(qp));
		diag_see(&evidence, "retransmits", qp->retransmits - track->moved_retransmits);
		diag_see(&evidence, "rnr_naks", track->sum.rnr_naks);
		diag_see(&evidence, "sport", qp->sport);
		if (peer)
			diag_see(&evidence, "peer_up", peer->up);
		diag_expect(&evidence, "no_progress_max_ns", patience);
		evidence.cause = cause_of(qp, track, peer);
		/* The patience is the hysteresis. */
		book_find(scene->book, DIAG_STALLED, &(struct diag_subject){DIAG_ABOUT_QP, qp->key},
			  BOOK_IN_ONE, &evidence);
	}
}
