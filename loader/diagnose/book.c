// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "internal.h"

#define SCORE_ENOUGH 6

/* Hold time of a diagnosis after it was last found. A stall ends with the first reply. */
static const uint64_t stand_ns[DIAG_KINDS] = {
	[DIAG_OUTLIER] = 1000000000,
	[DIAG_MISCONFIGURATION] = 2000000000,
	[DIAG_STALLED] = 1,
	[DIAG_LOSS] = 5000000000,
	[DIAG_CONGESTION] = 2000000000,
	[DIAG_IMBALANCE] = 1000000000,
	[DIAG_HOST] = 2000000000,
	[DIAG_PATH_SLOW] = 2000000000,
};

void book_open(struct book *book, uint64_t now_ns)
{
	book->now_ns = now_ns;
	book->event_count = 0;
	for (size_t i = 0; i < book->used; i++)
		book->entries[i].found = false;
	for (unsigned int i = 0; i < DIAG_KINDS; i++) {
		struct book_kind *kind = &book->kinds[i];
		uint64_t more = (now_ns - kind->refilled_ns) / LAW_REFILL_NS;

		if (kind->tokens + more >= LAW_BURST) {
			kind->tokens = LAW_BURST;
			kind->refilled_ns = now_ns;
		} else {
			kind->tokens += more;
			kind->refilled_ns += more * LAW_REFILL_NS;
		}
	}
}

static struct book_entry *find_entry(const struct book *book, enum diag_kind kind,
				     const struct diag_subject *subject)
{
	for (size_t i = 0; i < book->used; i++) {
		struct book_entry *entry = (struct book_entry *)&book->entries[i];

		if (entry->state != BOOK_FREE && entry->is.kind == kind &&
		    entry->is.subject.about == subject->about &&
		    !memcmp(&entry->is.subject.key, &subject->key, sizeof(subject->key)))
			return entry;
	}
	return NULL;
}

bool book_is_active(const struct book *book, enum diag_kind kind,
		    const struct diag_subject *subject)
{
	const struct book_entry *entry = find_entry(book, kind, subject);

	return entry && entry->state == BOOK_ACTIVE;
}

/* A free one, else the one that has been over for longest; NULL: all are in use. */
static struct book_entry *make_entry(struct book *book)
{
	struct book_entry *oldest = NULL;

	for (size_t i = 0; i < book->used; i++) {
		struct book_entry *entry = &book->entries[i];

		if (entry->state == BOOK_FREE)
			return entry;
		if (entry->state == BOOK_REMEMBERED &&
		    (!oldest || entry->over_ns < oldest->over_ns))
			oldest = entry;
	}
	return book->used < LAW_BOOK_MAX ? &book->entries[book->used++] : oldest;
}

void book_find(struct book *book, enum diag_kind kind, const struct diag_subject *subject,
	       enum book_weight weight, const struct diag_evidence *evidence)
{
	struct book_entry *entry = find_entry(book, kind, subject);

	if (!entry) {
		entry = make_entry(book);
		if (!entry) {
			book->kinds[kind].left_out++;
			return;
		}
		*entry = (struct book_entry){.is = {.kind = kind, .subject = *subject}};
	}
	if (entry->found)
		return;
	if (entry->state != BOOK_CANDIDATE && entry->state != BOOK_ACTIVE) {
		entry->state = BOOK_CANDIDATE;
		entry->score = 0;
		entry->is.first_ns = book->now_ns;
	}
	entry->found = true;
	entry->found_ns = book->now_ns;
	entry->is.evidence = *evidence;
	entry->score += weight;
}

/* --- what is reported --- */

/* book_close() has reserved it. */
static struct diag_event *add_event(struct book *book, enum diag_phase phase,
				    const struct diag_active *of)
{
	struct diag_event *event = &book->events[book->event_count++];

	*event = (struct diag_event){.phase = phase, .of = *of, .now_ns = book->now_ns};
	return event;
}

/* False: the rate limit of its kind is reached. */
static bool report(struct book *book, struct book_entry *entry, enum diag_phase phase)
{
	struct book_kind *kind = &book->kinds[entry->is.kind];

	if (!kind->tokens)
		return false;
	kind->tokens--;
	entry->reported = true;
	entry->reported_ns = book->now_ns;
	entry->reported_lead = entry->is.evidence.lead;
	add_event(book, phase, &entry->is);
	return true;
}

static void settle_found(struct book *book, struct book_entry *entry)
{
	struct book_kind *kind = &book->kinds[entry->is.kind];
	double lead = entry->is.evidence.lead, before = entry->reported_lead;

	if (entry->state == BOOK_CANDIDATE && entry->score >= SCORE_ENOUGH) {
		entry->state = BOOK_ACTIVE;
		entry->reported = false;
		kind->total++;
		kind->active++;
		if (!report(book, entry, DIAG_BEGIN))
			kind->left_out++;
	} else if (entry->state == BOOK_ACTIVE && entry->reported &&
		   book->now_ns - entry->reported_ns >= LAW_CHANGE_NS &&
		   (lead >= 2 * before || 2 * lead <= before)) {
		report(book, entry, DIAG_CHANGE);
	}
}

static void settle_missed(struct book *book, struct book_entry *entry, const char *why)
{
	bool gone = why && !strcmp(why, "gone");

	switch (entry->state) {
	case BOOK_CANDIDATE:
		entry->state = entry->returns ? BOOK_REMEMBERED : BOOK_FREE;
		entry->over_ns = book->now_ns;
		break;
	case BOOK_REMEMBERED:
		if (book->now_ns - entry->over_ns > LAW_REMEMBER_NS)
			entry->state = BOOK_FREE;
		break;
	case BOOK_ACTIVE:
		if (!gone && book->now_ns - entry->found_ns < stand_ns[entry->is.kind]
								      << entry->returns)
			break;
		entry->state = BOOK_REMEMBERED;
		entry->over_ns = book->now_ns;
		if (entry->returns < LAW_HOLD_DOUBLINGS)
			entry->returns++;
		book->kinds[entry->is.kind].active--;
		/* The end is reported when the begin was. */
		if (entry->reported)
			add_event(book, DIAG_CLEAR, &entry->is)->because = why ? why : "well";
		break;
	case BOOK_FREE:
		break;
	}
}

int book_close(struct book *book, book_why_fn *why, const void *context)
{
	/* An entry gives one event of a poll at most, and so does a kind. */
	if (array_reserve(&book->events, &book->event_room, book->used + DIAG_KINDS,
			  sizeof(*book->events)))
		return -ENOMEM;
	for (size_t i = 0; i < book->used; i++) {
		struct book_entry *entry = &book->entries[i];

		if (entry->found)
			settle_found(book, entry);
		else
			settle_missed(book, entry,
				      entry->state == BOOK_ACTIVE ? why(&entry->is.subject, context)
								  : NULL);
	}
	while (book->used && book->entries[book->used - 1].state == BOOK_FREE)
		book->used--;
	for (unsigned int i = 0; i < DIAG_KINDS; i++) {
		struct book_kind *kind = &book->kinds[i];

		if (!kind->left_out || book->now_ns - kind->more_ns < LAW_MORE_NS)
			continue;
		add_event(book, DIAG_MORE, &(struct diag_active){.kind = i})->left_out =
			kind->left_out;
		kind->left_out = 0;
		kind->more_ns = book->now_ns;
	}
	return 0;
}
