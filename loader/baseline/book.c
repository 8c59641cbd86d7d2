// SPDX-License-Identifier: BSD-2-Clause
/* All series by key, and which destination or NIC of this host those that are slower are of. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

/* --- series --- */

static void note_step(struct baseline_book *book, enum baseline_step step)
{
	static const char *const reasons[] = {
		[BASELINE_ENDS] = "usual",
		[BASELINE_GOES] = "idle",
		[BASELINE_ACCEPTED] = "accepted",
	};

	if (step == BASELINE_NOTHING)
		return;
	book->changed = true;
	if (step != BASELINE_BEGINS)
		book->why = reasons[step];
}

static size_t place_of(const struct baseline_book *book, const struct baseline_key *key)
{
	size_t low = 0, high = book->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (memcmp(&book->list[middle]->key, key, sizeof(*key)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct baseline_series *find(const struct baseline_book *book,
				    const struct baseline_key *key)
{
	size_t at = place_of(book, key);

	if (at < book->count && !memcmp(&book->list[at]->key, key, sizeof(*key)))
		return book->list[at];
	return NULL;
}

static void forget_worst(struct baseline_book *book, const struct baseline_series *series)
{
	for (size_t i = 0; i < book->subject_count; i++)
		if (book->subjects[i].worst == series)
			book->subjects[i].worst = NULL;
}

static void remove_at(struct baseline_book *book, size_t at)
{
	if (book->list[at]->slower_ns)
		book->changed = true;
	forget_worst(book, book->list[at]);
	free(book->list[at]);
	memmove(&book->list[at], &book->list[at + 1], (--book->count - at) * sizeof(book->list[0]));
}

/* The one without a value for the longest, of those that none came of for an interval. */
static bool make_room(struct baseline_book *book, const struct baseline_law *law, uint64_t now_ns)
{
	size_t oldest = SIZE_MAX;

	if (book->count < BASELINE_SERIES_MAX)
		return true;
	for (size_t i = 0; i < book->count; i++)
		if (!book->list[i]->slower_ns &&
		    book->list[i]->seen_ns + BASELINE_BINS * law->bin_ns < now_ns &&
		    (oldest == SIZE_MAX || book->list[i]->seen_ns < book->list[oldest]->seen_ns))
			oldest = i;
	if (oldest == SIZE_MAX)
		return false;
	remove_at(book, oldest);
	return true;
}

static struct baseline_series *add(struct baseline_book *book, const struct baseline_key *key)
{
	struct baseline_series *series = calloc(1, sizeof(*series));
	size_t at = place_of(book, key);

	if (!series ||
	    array_reserve(&book->list, &book->room, book->count + 1, sizeof(book->list[0]))) {
		free(series);
		return NULL;
	}
	series->key = *key;
	memmove(&book->list[at + 1], &book->list[at], (book->count++ - at) * sizeof(book->list[0]));
	book->list[at] = series;
	return series;
}

void baseline_book_clear(struct baseline_book *book)
{
	for (size_t i = 0; i < book->count; i++)
		free(book->list[i]);
	free(book->list);
	*book = (struct baseline_book){};
}

void baseline_book_add(struct baseline_book *book, const struct baseline_series *series)
{
	struct baseline_series *own;

	if (book->count >= BASELINE_SERIES_MAX || find(book, &series->key))
		return;
	own = add(book, &series->key);
	if (!own)
		return;
	*own = *series;
	book->changed |= series->slower_ns != 0;
}

void baseline_book_take(struct baseline_book *book, const struct baseline_law *law,
			const struct baseline_key *key, uint64_t now_ns, double value, double bound)
{
	struct baseline_series *series = find(book, key);

	if (!isfinite(value) || !isfinite(bound))
		return;
	if (!series && make_room(book, law, now_ns))
		series = add(book, key);
	if (!series)
		book->left_out++;
	else
		note_step(book, baseline_take(series, law, now_ns, value, bound));
}

size_t baseline_book_forget(struct baseline_book *book, baseline_is_of_fn *is_of,
			    const void *context)
{
	size_t before = book->count;

	for (size_t i = book->count; i-- > 0;)
		if (is_of(context, book->list[i]))
			remove_at(book, i);
	book->why = "forgotten";
	return before - book->count;
}

/* --- subjects --- */

/* The series of a destination by a NIC are next to each other: so is the key's order. */
static bool is_same_destination(const struct baseline_series *one,
				const struct baseline_series *two)
{
	return !memcmp(one->key.interface, two->key.interface, sizeof(one->key.interface)) &&
	       !memcmp(&one->key.dst, &two->key.dst, sizeof(one->key.dst));
}

static bool is_slower_than(const struct baseline_series *series, const struct baseline_series *than)
{
	double change = baseline_change(series), other = than ? baseline_change(than) : NAN;

	return series->slower_ns && (!than || isnan(other) || change > other);
}

/*
 * The destination whose series begin at *@at, which becomes the next one's. @leans: most series of
 * a kind do; of one path of several it is no sign of the NIC.
 */
static void read_destination(const struct baseline_book *book, size_t *at,
			     struct baseline_subject *out, bool *leans)
{
	const struct baseline_series *first = book->list[*at];
	size_t compared[BASELINE_KINDS] = {}, leaning[BASELINE_KINDS] = {};

	*out = (struct baseline_subject){.dst = first->key.dst};
	memcpy(out->interface, first->key.interface, sizeof(out->interface));
	for (; *at < book->count && is_same_destination(first, book->list[*at]); ++*at) {
		const struct baseline_series *series = book->list[*at];
		bool known = (series->need > 0 && series->count) || series->slower_ns;

		out->compared += known;
		out->slow += series->slower_ns != 0;
		compared[series->key.kind] += known;
		leaning[series->key.kind] += known && baseline_leans(series);
		if (is_slower_than(series, out->worst))
			out->worst = series;
		if (series->slower_ns && (!out->since_ns || series->slower_ns < out->since_ns))
			out->since_ns = series->slower_ns;
	}
	*leans = false;
	for (unsigned int kind = 0; kind < BASELINE_KINDS; kind++)
		*leans |= leaning[kind] && 2 * leaning[kind] > compared[kind];
}

/* The NIC whose series begin at @at, as a subject of its own. */
static bool read_nic(const struct baseline_book *book, size_t at, struct baseline_subject *out)
{
	struct baseline_subject one;
	size_t leaning = 0;
	bool leans;

	*out = (struct baseline_subject){.own = true};
	memcpy(out->interface, book->list[at]->key.interface, sizeof(out->interface));
	while (at < book->count &&
	       !memcmp(book->list[at]->key.interface, out->interface, sizeof(out->interface))) {
		read_destination(book, &at, &one, &leans);
		out->compared += one.compared > 0;
		leaning += leans;
		out->slow += one.slow > 0;
		if (one.worst && is_slower_than(one.worst, out->worst))
			out->worst = one.worst;
		if (one.since_ns && (!out->since_ns || one.since_ns < out->since_ns))
			out->since_ns = one.since_ns;
	}
	return out->slow && out->compared >= BASELINE_NIC_LEAST &&
	       (double)leaning >= BASELINE_NIC_SHARE * (double)out->compared;
}

static struct baseline_subject *find_subject(struct baseline_book *book,
					     const struct baseline_subject *like)
{
	for (size_t i = 0; i < book->subject_count; i++) {
		struct baseline_subject *subject = &book->subjects[i];

		if (subject->own == like->own &&
		    !memcmp(subject->interface, like->interface, sizeof(like->interface)) &&
		    !memcmp(&subject->dst, &like->dst, sizeof(like->dst)))
			return subject;
	}
	return NULL;
}

static void keep_subject(struct baseline_book *book, const struct baseline_subject *found,
			 baseline_report_fn *begin, void *context)
{
	struct baseline_subject *subject = find_subject(book, found);

	if (!subject && book->subject_count == BASELINE_SUBJECTS_MAX) {
		book->subjects_left_out++;
		return;
	}
	if (!subject) {
		subject = &book->subjects[book->subject_count++];
		*subject = *found;
		begin(context, subject, NULL);
	}
	*subject = *found;
	subject->seen = true;
}

/* Whether a NIC's destinations are in one finding, which was kept. */
static bool is_covered(const struct baseline_book *book, const char *interface)
{
	for (size_t i = 0; i < book->subject_count; i++)
		if (book->subjects[i].own && book->subjects[i].seen &&
		    !memcmp(book->subjects[i].interface, interface, IF_NAMESIZE))
			return true;
	return false;
}

static void end_others(struct baseline_book *book, baseline_report_fn *end, void *context)
{
	size_t kept = 0;

	for (size_t i = 0; i < book->subject_count; i++) {
		struct baseline_subject subject = book->subjects[i];

		if (subject.seen) {
			book->subjects[kept++] = subject;
			continue;
		}
		end(context, &subject,
		    !subject.own && is_covered(book, subject.interface) ? "nic" : book->why);
	}
	book->subject_count = kept;
}

static void find_subjects(struct baseline_book *book, baseline_report_fn *begin,
			  baseline_report_fn *end, void *context)
{
	struct baseline_subject found;
	bool leans;

	book->subjects_left_out = 0;
	for (size_t i = 0; i < book->subject_count; i++)
		book->subjects[i].seen = false;
	for (size_t at = 0; at < book->count;) {
		if (read_nic(book, at, &found))
			keep_subject(book, &found, begin, context);
		while (at < book->count && !memcmp(book->list[at]->key.interface, found.interface,
						   sizeof(found.interface))) {
			struct baseline_subject one;

			read_destination(book, &at, &one, &leans);
			if (one.slow && !is_covered(book, one.interface))
				keep_subject(book, &one, begin, context);
		}
	}
	end_others(book, end, context);
}

void baseline_book_evaluate(struct baseline_book *book, const struct baseline_law *law,
			    uint64_t now_ns, baseline_report_fn *begin, baseline_report_fn *end,
			    void *context)
{
	for (size_t i = book->count; i-- > 0;) {
		struct baseline_series *series = book->list[i];

		note_step(book, baseline_pass(series, law, now_ns));
		if (now_ns > series->seen_ns + BASELINE_FORGET_NS)
			remove_at(book, i);
	}
	if (!book->changed)
		return;
	book->changed = false;
	find_subjects(book, begin, end, context);
}
