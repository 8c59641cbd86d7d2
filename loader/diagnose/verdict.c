// SPDX-License-Identifier: BSD-2-Clause
#include "verdict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verdict_parts.h"

struct verdicts {
	struct verdict_book book;
	struct track *tracks; /* by key */
	size_t track_count;
	struct pair_track pairs[PAIR_TRACKS];
	struct verdict_port ports[ESC_PORTS_MAX]; /* as of the look before */
	size_t port_count;
};

const char *verdict_kind_name(enum verdict_kind kind)
{
#define NAME(id, name, severity, help) [id] = name,
	static const char *const names[VERDICT_KINDS] = {VERDICT_LIST(NAME)};
#undef NAME

	return names[kind];
}

/* --- evidence --- */

void verdict_see(struct verdict_evidence *evidence, const char *name, double value)
{
	if (evidence->seen_count < VERDICT_FIGURES)
		evidence->seen[evidence->seen_count++] = (struct verdict_figure){name, value};
}

void verdict_expect(struct verdict_evidence *evidence, const char *name, double value)
{
	if (evidence->expected_count < VERDICT_EXPECTED)
		evidence->expected[evidence->expected_count++] =
			(struct verdict_figure){name, value};
}

bool verdict_seen(const struct verdict_evidence *evidence, const char *name, double *value)
{
	for (size_t i = 0; i < evidence->seen_count; i++) {
		if (!strcmp(evidence->seen[i].name, name)) {
			*value = evidence->seen[i].value;
			return true;
		}
	}
	return false;
}

void see_delay(struct verdict_evidence *evidence, const struct verdict_qp *qp,
	       const struct track *track)
{
	verdict_see(evidence, "p50_ns", qp->delay.p50_ns);
	verdict_see(evidence, "p99_ns", qp->delay.p99_ns);
	verdict_see(evidence, "bound_ns", qp->delay.bound_ns);
	verdict_see(evidence, "samples", qp->delay.samples);
	verdict_see(evidence, "floor_ns", track->floor_ns);
	verdict_see(evidence, "sport", qp->sport);
}

/* --- subjects --- */

struct verdict_subject subject_of_qp(const struct verdict_qp *qp)
{
	return (struct verdict_subject){VERDICT_ABOUT_QP, qp->key};
}

struct verdict_subject subject_of_pair(const struct scene *scene, const struct pair *pair)
{
	const struct esc_qp_key *key = &scene->look->qps[pair->first].key;
	struct verdict_subject subject = {.about = VERDICT_ABOUT_PAIR};

	subject.key.src = key->src;
	subject.key.dst = key->dst;
	return subject;
}

static bool is_same_pair(const struct verdict_qp *a, const struct verdict_qp *b)
{
	return !memcmp(&a->key.src, &b->key.src, sizeof(a->key.src)) &&
	       !memcmp(&a->key.dst, &b->key.dst, sizeof(a->key.dst));
}

static int compare_values(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

	return one < two ? -1 : one > two;
}

/* A source port is slow when each queue pair on it that is measured is slow. */
static void pair_count_ports(const struct scene *scene, struct pair *pair)
{
	const struct verdict_qp *qps = scene->look->qps;
	size_t count = 0;

	for (size_t i = pair->first; i < pair->end; i++)
		if (scene->tracks[i].measured)
			scene->scratch[count++] = 2 * (int64_t)qps[i].sport + scene->tracks[i].slow;
	qsort(scene->scratch, count, sizeof(*scene->scratch), compare_values);
	for (size_t i = 0; i < count; i++) {
		if (i && scene->scratch[i] / 2 == scene->scratch[i - 1] / 2)
			continue;
		pair->ports++;
		pair->ports_slow += scene->scratch[i] & 1; /* the fine ones come first */
	}
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void pair_of(const struct scene *scene, size_t first, struct pair *out)
{
	const struct verdict_look *look = scene->look;
	size_t i;

	*out = (struct pair){.first = first, .slow_least_ns = INT64_MAX};
	out->worst = look->qp_count;
	for (i = first; i < look->qp_count && is_same_pair(&look->qps[first], &look->qps[i]); i++) {
		const struct track *track = &scene->tracks[i];
		const struct verdict_delay *delay = &look->qps[i].delay;

		out->bytes_per_second += track->bytes_per_second;
		track_counts_add(&out->sum, &track->sum);
		if (!track->measured)
			continue;
		out->measured++;
		out->samples += delay->samples;
		out->ce += delay->ce;
		out->slow += track->slow;
		if (track->slow)
			out->slow_least_ns = least(out->slow_least_ns, delay->p50_ns);
		else
			out->fine_most_ns = -least(-out->fine_most_ns, -delay->p50_ns);
		if (out->worst == look->qp_count ||
		    track->excess_ns > scene->tracks[out->worst].excess_ns)
			out->worst = i;
	}
	out->end = i;
	if (!out->measured)
		out->worst = out->end;
	pair_count_ports(scene, out);
}

const struct verdict_peer *peer_of(const struct scene *scene, const struct esc_address *address)
{
	for (size_t i = 0; i < scene->look->peer_count; i++)
		if (!memcmp(&scene->look->peers[i].address, address, sizeof(*address)))
			return &scene->look->peers[i];
	return NULL;
}

int64_t verdict_median(int64_t *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_values);
	return values[(count - 1) / 2];
}

/* --- a look --- */

int verdicts_new(struct verdicts **out)
{
	struct verdicts *verdicts = calloc(1, sizeof(*verdicts));

	*out = verdicts;
	if (!verdicts)
		return -ENOMEM;
	book_init(&verdicts->book);
	return 0;
}

void verdicts_free(struct verdicts *verdicts)
{
	if (!verdicts)
		return;
	book_done(&verdicts->book);
	free(verdicts->tracks);
	free(verdicts);
}

/* Both lists are in the order of keys: a new list, with the memory of those that were there. */
static int verdicts_track(struct verdicts *verdicts, const struct verdict_look *look)
{
	struct track *tracks = calloc(look->qp_count + 1, sizeof(*tracks));
	size_t old = 0;

	if (!tracks)
		return -ENOMEM;
	for (size_t i = 0; i < look->qp_count; i++) {
		const struct verdict_qp *qp = &look->qps[i];
		int order = -1;

		for (; old < verdicts->track_count; old++) {
			order = memcmp(&verdicts->tracks[old].key, &qp->key, sizeof(qp->key));
			if (order >= 0)
				break;
		}
		if (old < verdicts->track_count && !order) {
			tracks[i] = verdicts->tracks[old];
			track_look(&tracks[i], qp, look->now_ns);
		} else {
			track_begin(&tracks[i], qp, look->now_ns);
		}
	}
	free(verdicts->tracks);
	verdicts->tracks = tracks;
	verdicts->track_count = look->qp_count;
	return 0;
}

static const struct verdict_qp *look_find(const struct verdict_look *look,
					  const struct esc_qp_key *key)
{
	size_t low = 0, high = look->qp_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(&look->qps[middle].key, key, sizeof(*key));

		if (!order)
			return &look->qps[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* "idle" is not "well": no packet of late, so no delay that could be judged. */
static const char *why_over(const struct verdict_subject *subject, void *context)
{
	const struct verdict_look *look = context;
	const struct verdict_qp *qp;
	bool there = false;

	if (subject->about == VERDICT_ABOUT_PORT)
		return NULL;
	if (subject->about == VERDICT_ABOUT_QP) {
		qp = look_find(look, &subject->key);
		return !qp ? "gone" : qp->delay.samples < LAW_SAMPLES_MIN ? "idle" : NULL;
	}
	for (size_t i = 0; i < look->qp_count; i++) {
		const struct esc_qp_key *key = &look->qps[i].key;

		if (memcmp(&key->src, &subject->key.src, sizeof(key->src)) ||
		    memcmp(&key->dst, &subject->key.dst, sizeof(key->dst)))
			continue;
		there = true;
		if (look->qps[i].delay.samples >= LAW_SAMPLES_MIN)
			return NULL;
	}
	return there ? "idle" : "gone";
}

static void verdicts_remember_ports(struct verdicts *verdicts, const struct verdict_look *look)
{
	verdicts->port_count = look->port_count < ESC_PORTS_MAX ? look->port_count : ESC_PORTS_MAX;
	memcpy(verdicts->ports, look->ports, verdicts->port_count * sizeof(*look->ports));
}

static void verdicts_find(struct verdicts *verdicts, const struct scene *scene)
{
	book_open(&verdicts->book, scene->look->now_ns);
	verdict_find_stalls(scene, &verdicts->book);
	verdict_find_outliers(scene, &verdicts->book);
	verdict_find_inband(scene, &verdicts->book);
	verdict_find_rocev1(scene, &verdicts->book);
	verdict_find_causes(scene, &verdicts->book);
}

int verdicts_look(struct verdicts *verdicts, const struct verdict_look *look,
		  const struct verdict_event **events, size_t *count)
{
	struct scene scene = {.look = look,
			      .pairs = verdicts->pairs,
			      .ports_before = verdicts->ports,
			      .ports_before_count = verdicts->port_count};
	int err = -ENOMEM;

	*events = NULL;
	*count = 0;
	scene.scratch = calloc(2 * look->qp_count + 1, sizeof(*scene.scratch));
	scene.chosen = calloc(2 * look->qp_count + 1, sizeof(*scene.chosen));
	if (!scene.scratch || !scene.chosen)
		goto out;
	scene.loners = scene.chosen + look->qp_count;
	err = verdicts_track(verdicts, look);
	if (err)
		goto out;
	scene.tracks = verdicts->tracks;
	verdicts_find(verdicts, &scene);
	verdicts_remember_ports(verdicts, look);
	err = book_close(&verdicts->book, why_over, (void *)look);
	if (err)
		goto out;
	*events = verdicts->book.events;
	*count = verdicts->book.event_count;
out:
	free(scene.scratch);
	free(scene.chosen);
	return err;
}

/* --- what stands --- */

size_t verdicts_active(const struct verdicts *verdicts, struct verdict_active *out, size_t max)
{
	size_t count = 0;

	for (size_t i = 0; i < verdicts->book.used; i++) {
		const struct book_entry *entry = &verdicts->book.entries[i];

		if (entry->state != BOOK_ACTIVE)
			continue;
		if (count < max)
			out[count] = (struct verdict_active){entry->kind, entry->subject,
							     entry->evidence, entry->first_ns,
							     entry->found_ns};
		count++;
	}
	return count;
}

bool verdicts_next(const struct verdicts *verdicts, size_t *at, enum verdict_kind *kind,
		   const struct verdict_subject **subject)
{
	while (*at < verdicts->book.used) {
		const struct book_entry *entry = &verdicts->book.entries[(*at)++];

		if (entry->state != BOOK_ACTIVE)
			continue;
		*kind = entry->kind;
		*subject = &entry->subject;
		return true;
	}
	return false;
}

size_t verdicts_active_count(const struct verdicts *verdicts, enum verdict_kind kind)
{
	return verdicts->book.kinds[kind].active;
}

uint64_t verdicts_total(const struct verdicts *verdicts, enum verdict_kind kind)
{
	return verdicts->book.kinds[kind].total;
}
