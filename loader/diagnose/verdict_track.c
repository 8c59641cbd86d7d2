// SPDX-License-Identifier: BSD-2-Clause
/* What is remembered of a queue pair from look to look. */
#include <string.h>

#include "verdict_parts.h"

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct track_counts counts_of(const struct verdict_qp *qp)
{
	return (struct track_counts){qp->packets, qp->retransmits, qp->nak_sequence, qp->rnr_naks};
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

static struct track_counts counts_growth(const struct track_counts *before,
					 const struct track_counts *now)
{
	return (struct track_counts){growth(before->packets, now->packets),
				     growth(before->retransmits, now->retransmits),
				     growth(before->nak_sequence, now->nak_sequence),
				     growth(before->rnr_naks, now->rnr_naks)};
}

static void track_count(struct track *track, const struct verdict_qp *qp)
{
	struct track_counts now = counts_of(qp);

	track->grown[track->looks % LAW_HISTORY] = counts_growth(&track->before, &now);
	track->before = now;
	memset(&track->sum, 0, sizeof(track->sum));
	track->losing = 0;
	for (unsigned int i = 0; i < LAW_HISTORY; i++) {
		const struct track_counts *grown = &track->grown[i];

		track_counts_add(&track->sum, grown);
		track->losing += grown->retransmits || grown->nak_sequence;
	}
}

static void track_rate(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	double seconds = (now_ns - track->looked_ns) / 1e9, now;

	if (seconds <= 0)
		return;
	now = growth(track->bytes, qp->bytes) / seconds;
	track->bytes = qp->bytes;
	track->bytes_per_second = track->looks > 1 ? (track->bytes_per_second + now) / 2 : now;
}

/* --- the floor --- */

int64_t track_slow_ns(const struct track *track, const struct verdict_delay *delay)
{
	int64_t more = (LAW_SLOW_FACTOR - 1) * (track->floor_ns > 0 ? track->floor_ns : 0);

	return more + LAW_SLOW_MARGIN_NS + 2 * delay->bound_ns;
}

/* A delay that stays is not taken for the floor while it is slow: the verdict would end itself. */
static void floor_turn(struct track *track, const struct verdict_delay *delay, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - track->floor_turn_ns;
	bool slow = track->slow || delay->p50_ns > LAW_OUTLIER_USUAL * track->usual_ns;

	if (age_ns < LAW_FLOOR_NS / 2 || (slow && age_ns < LAW_FLOOR_HELD_NS))
		return;
	track->floor_half_ns[1] = track->floor_half_ns[0];
	track->usual_half_ns[1] = track->usual_half_ns[0];
	track->floor_half_ns[0] = delay->min_ns;
	track->usual_half_ns[0] = delay->p50_ns;
	track->floor_turn_ns = now_ns;
}

static void track_floor(struct track *track, const struct verdict_delay *delay, uint64_t now_ns)
{
	if (!track->floor_known) {
		track->floor_known = true;
		track->floor_half_ns[0] = track->floor_half_ns[1] = delay->min_ns;
		track->usual_half_ns[0] = track->usual_half_ns[1] = delay->p50_ns;
		track->floor_turn_ns = now_ns;
	}
	floor_turn(track, delay, now_ns);
	track->floor_half_ns[0] = least(track->floor_half_ns[0], delay->min_ns);
	track->usual_half_ns[0] = least(track->usual_half_ns[0], delay->p50_ns);
	track->floor_ns = least(track->floor_half_ns[0], track->floor_half_ns[1]);
	track->usual_ns = least(track->usual_half_ns[0], track->usual_half_ns[1]);
}

static void track_delay(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	track->measured = qp->delay.samples >= LAW_SAMPLES_MIN;
	if (!track->measured) {
		track->slow = false;
		return;
	}
	track_floor(track, &qp->delay, now_ns);
	track->excess_ns = qp->delay.p50_ns - track->floor_ns;
	track->slow = track->excess_ns > track_slow_ns(track, &qp->delay);
}

/* --- progress --- */

static bool is_answered(const struct verdict_qp *qp)
{
	return qp->paired && qp->next_known && qp->answered_known &&
	       !((qp->next_psn - qp->answered_psn) & ESC_PSN_MASK);
}

static void progress_reset(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	track->moved_ns = now_ns;
	track->moved_retransmits = qp->retransmits;
}

static void track_progress(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	bool answered = track->acks != qp->acks || track->answered_psn != qp->answered_psn;
	bool sent_anew = track->next_psn != qp->next_psn;

	if (track->progress_known && !sent_anew && is_answered(qp))
		track->settles = true;
	if (!track->progress_known || answered || is_answered(qp)) {
		/* It waited, nothing was sent again, and then it went on: that was no stall. */
		if (track->progress_known && answered && now_ns - track->moved_ns > LAW_STALL_NS &&
		    track->moved_retransmits == qp->retransmits)
			track->leaves_tail = true;
		progress_reset(track, qp, now_ns);
	} else if (sent_anew && track->leaves_tail && track->moved_retransmits == qp->retransmits) {
		/* An idle one that begins again: what it left behind is not what it waits for. */
		progress_reset(track, qp, now_ns);
	}
	track->progress_known = true;
	track->acks = qp->acks;
	track->answered_psn = qp->answered_psn;
	track->next_psn = qp->next_psn;
}

/* --- both --- */

void track_begin(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	memset(track, 0, sizeof(*track));
	track->key = qp->key;
	track->looked_ns = now_ns;
	track->before = counts_of(qp);
	track->bytes = qp->bytes;
	track_delay(track, qp, now_ns);
	track_progress(track, qp, now_ns);
}

void track_look(struct track *track, const struct verdict_qp *qp, uint64_t now_ns)
{
	track->looks++;
	track_count(track, qp);
	track_rate(track, qp, now_ns);
	track_delay(track, qp, now_ns);
	track_progress(track, qp, now_ns);
	track->looked_ns = now_ns;
}
