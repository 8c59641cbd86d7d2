// SPDX-License-Identifier: BSD-2-Clause
#include "diagnosis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

struct diagnoses {
	struct book book;
	struct track *tracks; /* by key */
	size_t track_count;
	struct pair_track pairs[PAIR_TRACKS];
	struct diag_port ports[ESC_PORTS_MAX]; /* as of the poll before */
	size_t port_count;
};

const char *diag_kind_name(enum diag_kind kind)
{
#define NAME(id, name, severity, help) [id] = name,
	static const char *const names[DIAG_KINDS] = {DIAG_LIST(NAME)};
#undef NAME

	return names[kind];
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

void see_delay(struct diag_evidence *evidence, const struct scene *scene, size_t i)
{
	const struct diag_qp *qp = &scene->input->qps[i];

	diag_see(evidence, "p50_ns", qp->delay.p50_ns);
	diag_see(evidence, "p99_ns", qp->delay.p99_ns);
	diag_see(evidence, "bound_ns", qp->delay.bound_ns);
	diag_see(evidence, "samples", qp->delay.samples);
	diag_see(evidence, "floor_ns", scene->tracks[i].floor_ns);
	diag_see(evidence, "sport", qp->sport);
}

/* --- lookup --- */

const struct diag_peer *peer_find(const struct scene *scene, const struct esc_address *address)
{
	for (size_t i = 0; i < scene->input->peer_count; i++)
		if (!memcmp(&scene->input->peers[i].address, address, sizeof(*address)))
			return &scene->input->peers[i];
	return NULL;
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

/* --- pairs of addresses --- */

static bool is_same_pair(const struct esc_qp_key *a, const struct esc_qp_key *b)
{
	return !memcmp(&a->src, &b->src, sizeof(a->src)) &&
	       !memcmp(&a->dst, &b->dst, sizeof(a->dst));
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void pair_add(const struct scene *scene, struct pair *pair, size_t i)
{
	const struct diag_delay *delay = &scene->input->qps[i].delay;
	const struct track *track = &scene->tracks[i];

	if (!pair->measured++)
		pair->worst = pair->best = i;
	if (track->excess_ns > scene->tracks[pair->worst].excess_ns)
		pair->worst = i;
	if (delay->p50_ns < scene->input->qps[pair->best].delay.p50_ns)
		pair->best = i;
	pair->samples += delay->samples;
	pair->ce += delay->ce;
	pair->slow += track->slow;
	if (track->slow)
		pair->slow_least_ns = -most(-pair->slow_least_ns, -delay->p50_ns);
	else
		pair->fine_most_ns = most(pair->fine_most_ns, delay->p50_ns);
	pair->floor_ns = -most(-pair->floor_ns, -track->floor_ns);
	pair->bound_ns = most(pair->bound_ns, delay->bound_ns);
}

/* The pair that begins at @first. */
static void pair_of(const struct scene *scene, size_t first, struct pair *out)
{
	const struct diag_qp *qps = scene->input->qps;
	size_t i, count = 0;

	*out = (struct pair){.subject.about = DIAG_ABOUT_PAIR,
			     .first = first,
			     .slow_least_ns = INT64_MAX,
			     .floor_ns = INT64_MAX};
	out->subject.key.src = qps[first].key.src;
	out->subject.key.dst = qps[first].key.dst;
	for (i = first; i < scene->input->qp_count && is_same_pair(&qps[first].key, &qps[i].key);
	     i++) {
		const struct track *track = &scene->tracks[i];

		out->bytes_per_second += track->bytes_per_second;
		track_counts_add(&out->sum, &track->sum);
		if (!track->measured)
			continue;
		pair_add(scene, out, i);
		scene->scratch[count++] = 2 * (int64_t)qps[i].sport + track->slow;
	}
	out->end = i;
	/* A source port is slow when each queue pair on it is: those that are not come first. */
	if (count)
		qsort(scene->scratch, count, sizeof(*scene->scratch), compare_values);
	for (i = 0; i < count; i++)
		if (!i || scene->scratch[i] / 2 != scene->scratch[i - 1] / 2) {
			out->ports++;
			out->ports_slow += scene->scratch[i] & 1;
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

/* Both lists are in the order of keys: a new list, with the memory of those that were there. */
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

/* Index of the first queue pair whose key is not less. */
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
	     i < input->qp_count && is_same_pair(&input->qps[i].key, key); i++) {
		if (subject->about == DIAG_ABOUT_QP &&
		    memcmp(&input->qps[i].key, key, sizeof(*key)))
			break;
		if (input->qps[i].delay.samples >= LAW_SAMPLES_MIN)
			return NULL;
		why = "idle";
	}
	return why;
}

int diagnoses_update(struct diagnoses *diagnoses, const struct diag_input *input,
		     const struct diag_event **events, size_t *count)
{
	struct scene scene = {.input = input,
			      .pairs = diagnoses->pairs,
			      .ports_before = diagnoses->ports,
			      .ports_before_count = diagnoses->port_count,
			      .book = &diagnoses->book};
	struct pair pair;
	int err = -ENOMEM;

	*events = NULL;
	*count = 0;
	scene.scratch = calloc(2 * input->qp_count + 1, sizeof(*scene.scratch));
	scene.chosen = calloc(2 * input->qp_count + 1, sizeof(*scene.chosen));
	if (!scene.scratch || !scene.chosen)
		goto out;
	scene.loners = scene.chosen + input->qp_count;
	err = update_tracks(diagnoses, input);
	if (err)
		goto out;
	scene.tracks = diagnoses->tracks;
	book_open(scene.book, input->now_ns);
	find_stalls(&scene);
	find_rocev1(&scene);
	for (size_t at = 0; at < input->qp_count; at = pair.end) {
		pair_of(&scene, at, &pair);
		if (!pair.measured)
			continue;
		find_outliers(&scene, &pair);
		find_inband(&scene, &pair);
		find_causes(&scene, &pair);
	}
	find_loners(&scene);
	diagnoses->port_count =
		input->port_count < ESC_PORTS_MAX ? input->port_count : ESC_PORTS_MAX;
	memcpy(diagnoses->ports, input->ports, diagnoses->port_count * sizeof(*input->ports));
	err = book_close(scene.book, why_over, input);
	if (err)
		goto out;
	*events = scene.book->events;
	*count = scene.book->event_count;
out:
	free(scene.scratch);
	free(scene.chosen);
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

size_t diagnoses_active_count(const struct diagnoses *diagnoses, enum diag_kind kind)
{
	return diagnoses->book.kinds[kind].active;
}

uint64_t diagnoses_total(const struct diagnoses *diagnoses, enum diag_kind kind)
{
	return diagnoses->book.kinds[kind].total;
}
