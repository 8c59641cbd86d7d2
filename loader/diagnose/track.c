// SPDX-License-Identifier: BSD-2-Clause
/* What is remembered of a queue pair from poll to poll. */
#include <string.h>

#include "parts.h"

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void track_counts_add(struct track_counts *sum, const struct track_counts *more)
{
	sum->packets += more->packets;
	sum->retransmits += more->retransmits;
	sum->nak_sequence += more->nak_sequence;
	sum->rnr_naks += more->rnr_naks;
}

/* A count that went back began anew (the entry was retired and came again). */
static uint64_t growth(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

static void track_count(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	struct track_counts *before = &track->before;
	double seconds = (now_ns - track->polled_ns) / 1e9, rate;

	track->grown[track->polls % LAW_HISTORY] = (struct track_counts){
		growth(before->packets, qp->packets), growth(before->retransmits, qp->retransmits),
		growth(before->nak_sequence, qp->nak_sequence),
		growth(before->rnr_naks, qp->rnr_naks)};
	memset(&track->sum, 0, sizeof(track->sum));
	track->losing = 0;
	for (unsigned int i = 0; i < LAW_HISTORY; i++) {
		const struct track_counts *grown = &track->grown[i];

		track_counts_add(&track->sum, grown);
		track->losing += grown->retransmits || grown->nak_sequence;
	}
	if (seconds <= 0)
		return;
	rate = growth(track->bytes, qp->bytes) / seconds;
	track->bytes_per_second = track->polls > 1 ? (track->bytes_per_second + rate) / 2 : rate;
}

/* --- the floor --- */

int64_t track_slow_ns(const struct track *track, const struct diag_delay *delay)
{
	int64_t more = (LAW_SLOW_FACTOR - 1) * (track->floor_ns > 0 ? track->floor_ns : 0);

	return more + LAW_SLOW_MARGIN_NS + 2 * delay->bound_ns;
}

static void track_floor(struct track *track, const struct diag_delay *delay, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - track->half_ns;
	bool slow = track->slow || delay->p50_ns > LAW_OUTLIER_USUAL * track->usual_ns;

	/* A delay that stays does not become the floor while it is slow: it would end itself. */
	if (!track->floor_known) {
		track->floor_half_ns[0] = track->floor_half_ns[1] = delay->min_ns;
		track->usual_half_ns[0] = track->usual_half_ns[1] = delay->p50_ns;
		track->half_ns = now_ns;
	} else if (age_ns >= (slow ? LAW_FLOOR_KEEP_NS : LAW_FLOOR_NS / 2)) {
		track->floor_half_ns[1] = track->floor_half_ns[0];
		track->usual_half_ns[1] = track->usual_half_ns[0];
		track->floor_half_ns[0] = delay->min_ns;
		track->usual_half_ns[0] = delay->p50_ns;
		track->half_ns = now_ns;
	}
	track->floor_known = true;
	track->floor_half_ns[0] = least(track->floor_half_ns[0], delay->min_ns);
	track->usual_half_ns[0] = least(track->usual_half_ns[0], delay->p50_ns);
	track->floor_ns = least(track->floor_half_ns[0], track->floor_half_ns[1]);
	track->usual_ns = least(track->usual_half_ns[0], track->usual_half_ns[1]);
}

/* --- progress --- */

static void track_progress(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	bool progress = track->acks != qp->acks || track->answered_psn != qp->answered_psn;
	bool sent_new = track->next_psn != qp->next_psn;
	bool same_retransmits = track->moved_retransmits == qp->retransmits;
	bool all_answered = qp->paired && qp->next_known && qp->answered_known &&
			    !((qp->next_psn - qp->answered_psn) & ESC_PSN_MASK);

	if (track->progress_known && !sent_new && all_answered)
		track->settles = true;
	/* It waited, nothing was retransmitted, and then it went on: that was no stall. */
	if (track->progress_known && progress && same_retransmits &&
	    now_ns - track->moved_ns > LAW_STALL_NS)
		track->leaves_tail = true;
	/* An idle one that begins again does not wait for what it left behind. */
	if (!track->progress_known || progress || all_answered ||
	    (sent_new && track->leaves_tail && same_retransmits)) {
		track->moved_ns = now_ns;
		track->moved_retransmits = qp->retransmits;
	}
	track->progress_known = true;
	track->acks = qp->acks;
	track->answered_psn = qp->answered_psn;
	track->next_psn = qp->next_psn;
}

void track_poll(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	bool first = !track->polled_ns;

	track->key = qp->key;
	if (!first) {
		track->polls++;
		track_count(track, qp, now_ns);
	}
	track->before =
		(struct track_counts){qp->packets, qp->retransmits, qp->nak_sequence, qp->rnr_naks};
	track->bytes = qp->bytes;
	track->measured = qp->delay.samples >= LAW_SAMPLES_MIN;
	if (track->measured) {
		track_floor(track, &qp->delay, now_ns);
		track->excess_ns = qp->delay.p50_ns - track->floor_ns;
	}
	track->slow = track->measured && track->excess_ns > track_slow_ns(track, &qp->delay);
	track_progress(track, qp, now_ns);
	track->polled_ns = now_ns;
}
