// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char *diag_kind_name(enum diag_kind kind)
{
#define NAME(id, name, severity, help, ...) [id] = name,
	static const char *const names[DIAG_KINDS] = {DIAG_LIST(NAME)};
#undef NAME

	return names[kind];
}

const char *diag_source_name(enum diag_source source)
{
#define X(id, name) [DIAG_BY_##id] = name,
	static const char *const names[] = {DIAG_SOURCES(X)};
#undef X

	return names[source];
}

/* --- evidence --- */

void diag_see(struct diag_evidence *evidence, const char *name, double value)
{
	if (evidence->seen_count < DIAG_FIGURES)
		evidence->seen[evidence->seen_count++] = (struct diag_figure){name, value};
}

void diag_expect(struct diag_evidence *evidence, const char *name, double value)
{
	if (evidence->expected_count < DIAG_EXPECTED)
		evidence->expected[evidence->expected_count++] = (struct diag_figure){name, value};
}

void see_delay(struct diag_evidence *evidence, struct diagnoses *diag, size_t i)
{
	const struct diag_qp *qp = &diag->input->qps[i];

	diag_see(evidence, "p50_ns", qp->delay.p50_ns);
	diag_see(evidence, "p99_ns", qp->delay.p99_ns);
	diag_see(evidence, "bound_ns", qp->delay.bound_ns);
	diag_see(evidence, "samples", qp->delay.samples);
	diag_see(evidence, "floor_ns", diag->tracks[i].floor_ns);
	diag_see(evidence, "sport", qp->sport);
}

/* --- lookup --- */

static int compare_peer(const void *key, const void *of)
{
	const struct esc_qp_key *pair = key;
	const struct diag_peer *peer = of;
	int order = memcmp(&pair->src, &peer->src, sizeof(peer->src));

	return order ? order : memcmp(&pair->dst, &peer->address, sizeof(peer->address));
}

const struct diag_peer *peer_find(struct diagnoses *diag, const struct esc_qp_key *key)
{
	const struct diag_input *input = diag->input;

	return input->peer_count ? bsearch(key, input->peers, input->peer_count,
					   sizeof(*input->peers), compare_peer)
				 : NULL;
}

const struct diag_port *port_find(const struct diag_port *ports, size_t count, uint8_t index)
{
	for (size_t i = 0; i < count; i++)
		if (ports[i].index == index)
			return &ports[i];
	return NULL;
}

static int compare_values(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

	return one < two ? -1 : one > two;
}

int64_t diag_median(int64_t *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_values);
	return values[(count - 1) / 2];
}

/* --- memory of queue pairs --- */

static void track_counts_add(struct track_counts *sum, const struct track_counts *more)
{
	sum->retransmits += more->retransmits;
	sum->nak_sequence += more->nak_sequence;
	sum->rnr_naks += more->rnr_naks;
}

/* A count that decreased has restarted: the entry was retired in between. */
static uint64_t growth(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

static void track_count(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	struct track_counts *before = &track->before;
	double seconds = (now_ns - track->polled_ns) / 1e9, rate;

	track->grown[track->polls % LAW_HISTORY] =
		(struct track_counts){growth(before->retransmits, qp->retransmits),
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

static void track_progress(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	bool progress = track->acks != qp->acks || track->acked_psn != qp->acked_psn;
	bool sent_new = track->next_psn != qp->next_psn;
	bool same_retransmits = track->moved_retransmits == qp->retransmits;
	bool all_acked = qp->paired && qp->next_known && qp->acked_known &&
			 !((qp->next_psn - qp->acked_psn) & ESC_PSN_MASK);

	if (track->progress_known && !sent_new && all_acked)
		track->settles = true;
	/* It waited without a retransmission, and progressed: that was no stall. */
	if (track->progress_known && progress && same_retransmits &&
	    now_ns - track->moved_ns > LAW_STALL_NS)
		track->leaves_tail = true;
	/* An idle one that begins again does not wait for what it left behind. */
	if (!track->progress_known || progress || all_acked ||
	    (sent_new && track->leaves_tail && same_retransmits)) {
		track->moved_ns = now_ns;
		track->moved_retransmits = qp->retransmits;
	}
	track->progress_known = true;
	track->acks = qp->acks;
	track->acked_psn = qp->acked_psn;
	track->next_psn = qp->next_psn;
}

static void track_poll(struct track *track, const struct diag_qp *qp, uint64_t now_ns)
{
	bool first = !track->polled_ns;

	track->key = qp->key;
	if (!first) {
		track->polls++;
		track_count(track, qp, now_ns);
	}
	track->before = (struct track_counts){qp->retransmits, qp->nak_sequence, qp->rnr_naks};
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

/* --- pairs of addresses --- */

bool diag_is_same_pair(const struct esc_qp_key *a, const struct esc_qp_key *b)
{
	return !memcmp(&a->src, &b->src, sizeof(a->src)) &&
	       !memcmp(&a->dst, &b->dst, sizeof(a->dst));
}

static void pair_add(struct diagnoses *diag, struct pair *pair, size_t i)
{
	const struct diag_delay *delay = &diag->input->qps[i].delay;
	const struct track *track = &diag->tracks[i];

	if (!pair->measured++)
		pair->worst = pair->best = i;
	if (track->excess_ns > diag->tracks[pair->worst].excess_ns)
		pair->worst = i;
	if (delay->p50_ns < diag->input->qps[pair->best].delay.p50_ns)
		pair->best = i;
	pair->samples += delay->samples;
	pair->ce += delay->ce;
	pair->slow += track->slow;
	if (track->slow)
		pair->slow_least_ns = least(pair->slow_least_ns, delay->p50_ns);
	else
		pair->fine_most_ns = most(pair->fine_most_ns, delay->p50_ns);
	pair->floor_ns = least(pair->floor_ns, track->floor_ns);
	pair->bound_ns = most(pair->bound_ns, delay->bound_ns);
}

/* The pair that begins at @first. */
static void pair_of(struct diagnoses *diag, size_t first, struct pair *out)
{
	const struct diag_qp *qps = diag->input->qps;
	size_t i, count = 0;

	*out = (struct pair){.subject.about = DIAG_ABOUT_PAIR,
			     .first = first,
			     .slow_least_ns = INT64_MAX,
			     .floor_ns = INT64_MAX};
	out->subject.key.src = qps[first].key.src;
	out->subject.key.dst = qps[first].key.dst;
	for (i = first;
	     i < diag->input->qp_count && diag_is_same_pair(&qps[first].key, &qps[i].key); i++) {
		const struct track *track = &diag->tracks[i];

		out->bytes_per_second += track->bytes_per_second;
		track_counts_add(&out->sum, &track->sum);
		if (!track->measured)
			continue;
		pair_add(diag, out, i);
		diag->scratch[count++] = 2 * (int64_t)qps[i].sport + track->slow;
	}
	out->end = i;
	/* A source port is slow when each queue pair on it is: those that are not come first. */
	if (count)
		qsort(diag->scratch, count, sizeof(*diag->scratch), compare_values);
	for (i = 0; i < count; i++)
		if (!i || diag->scratch[i] / 2 != diag->scratch[i - 1] / 2) {
			out->ports++;
			out->ports_slow += diag->scratch[i] & 1;
		}
}

/* --- a poll --- */

int diagnoses_new(struct diagnoses **out)
{
	struct diagnoses *diagnoses = calloc(1, sizeof(*diagnoses));

	*out = diagnoses;
	if (!diagnoses)
		return -ENOMEM;
	for (unsigned int i = 0; i < DIAG_KINDS; i++)
		diagnoses->book.kinds[i].tokens = LAW_BURST;
	return 0;
}

void diagnoses_free(struct diagnoses *diagnoses)
{
	if (!diagnoses)
		return;
	free(diagnoses->book.events);
	free(diagnoses->tracks);
	free(diagnoses);
}

/* Both lists are sorted by key: a new list, with the memory of the queue pairs in both. */
static int update_tracks(struct diagnoses *diagnoses, const struct diag_input *input)
{
	struct track *tracks = calloc(input->qp_count + 1, sizeof(*tracks));
	struct track *old = diagnoses->tracks, *end = old + diagnoses->track_count;

	if (!tracks)
		return -ENOMEM;
	for (size_t i = 0; i < input->qp_count; i++) {
		const struct diag_qp *qp = &input->qps[i];

		while (old < end && memcmp(&old->key, &qp->key, sizeof(qp->key)) < 0)
			old++;
		if (old < end && !memcmp(&old->key, &qp->key, sizeof(qp->key)))
			tracks[i] = *old++;
		track_poll(&tracks[i], qp, input->now_ns);
	}
	free(diagnoses->tracks);
	diagnoses->tracks = tracks;
	diagnoses->track_count = input->qp_count;
	return 0;
}

/* Index of the first queue pair with a key that is not less. */
static size_t lower_bound(const struct diag_input *input, const struct esc_qp_key *key)
{
	size_t low = 0, high = input->qp_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(&input->qps[middle].key, key, sizeof(*key)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* "idle" is not "ok": no recent packet, hence no delay to evaluate. */
static const char *why_over(const struct diag_subject *subject, const void *context)
{
	const struct esc_qp_key *key = &subject->key;
	const struct diag_input *input = context;
	const char *why = "gone";

	if (subject->about == DIAG_ABOUT_PORT)
		return NULL;
	for (size_t i = lower_bound(input, key);
	     i < input->qp_count && diag_is_same_pair(&input->qps[i].key, key); i++) {
		if (subject->about == DIAG_ABOUT_QP &&
		    memcmp(&input->qps[i].key, key, sizeof(*key)))
			break;
		if (input->qps[i].delay.samples >= LAW_SAMPLES_MIN)
			return NULL;
		why = "idle";
	}
	return why;
}

int diagnoses_update(struct diagnoses *diag, const struct diag_input *input,
		     const struct diag_event **events, size_t *count)
{
	struct pair pair;
	int err = -ENOMEM;

	*events = NULL;
	*count = 0;
	diag->input = input;
	diag->scratch = calloc(2 * input->qp_count + 1, sizeof(*diag->scratch));
	diag->chosen = calloc(2 * input->qp_count + 1, sizeof(*diag->chosen));
	diag->singles = diag->chosen + input->qp_count;
	diag->single_count = 0;
	if (!diag->scratch || !diag->chosen)
		goto out;
	err = update_tracks(diag, input);
	if (err)
		goto out;
	book_open(&diag->book, input->now_ns);
	find_stalls(diag);
	find_rocev1(diag);
	for (size_t at = 0; at < input->qp_count; at = pair.end) {
		pair_of(diag, at, &pair);
		if (!pair.measured)
			continue;
		find_outliers(diag, &pair);
		find_inband(diag, &pair);
		find_causes(diag, &pair);
	}
	find_singles(diag);
	diag->port_count = input->port_count < ESC_PORTS_MAX ? input->port_count : ESC_PORTS_MAX;
	memcpy(diag->ports, input->ports, diag->port_count * sizeof(*input->ports));
	err = book_close(&diag->book, why_over, input);
	if (err)
		goto out;
	*events = diag->book.events;
	*count = diag->book.event_count;
out:
	free(diag->scratch);
	free(diag->chosen);
	return err;
}

/* --- what is active --- */

const struct diag_active *diagnoses_next(const struct diagnoses *diagnoses, size_t *at)
{
	while (*at < diagnoses->book.used) {
		const struct book_entry *entry = &diagnoses->book.entries[(*at)++];

		if (entry->state == BOOK_ACTIVE)
			return &entry->is;
	}
	return NULL;
}
