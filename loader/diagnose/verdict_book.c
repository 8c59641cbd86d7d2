// SPDX-License-Identifier: BSD-2-Clause
#include "verdict_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_ENOUGH 6

/* How long a verdict stands after it was last found. A stall ends with the first answer. */
static const uint64_t hold_ns[VERDICT_KINDS] = {
	[VERDICT_OUTLIER] = 1000000000,
	[VERDICT_MISCONFIGURATION] = 2000000000,
	[VERDICT_STALLED] = 1,
	[VERDICT_LOSS] = 5000000000,
	[VERDICT_CONGESTION] = 2000000000,
	[VERDICT_IMBALANCE] = 1000000000,
	[VERDICT_HOST] = 2000000000,
	[VERDICT_PATH_SLOW] = 2000000000,
};

void book_init(struct verdict_book *book)
{
	memset(book, 0, sizeof(*book));
	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		book->kinds[i].tokens = LAW_BURST;
}

void book_done(struct verdict_book *book)
{
	free(book->events);
}

static void book_refill(struct book_kind *kind, uint64_t now_ns)
{
	uint64_t more;

	if (kind->tokens >= LAW_BURST) {
		kind->refilled_ns = now_ns;
		return;
	}
	more = (now_ns - kind->refilled_ns) / LAW_REFILL_NS;
	kind->refilled_ns += more * LAW_REFILL_NS;
	kind->tokens = more > LAW_BURST - kind->tokens ? LAW_BURST : kind->tokens + more;
}

void book_open(struct verdict_book *book, uint64_t now_ns)
{
	book->now_ns = now_ns;
	book->event_count = 0;
	for (size_t i = 0; i < book->used; i++)
		book->entries[i].found = false;
	for (unsigned int i = 0; i < VERDICT_KINDS; i++)
		book_refill(&book->kinds[i], now_ns);
}

static bool subjects_equal(const struct verdict_subject *a, const struct verdict_subject *b)
{
	return a->about == b->about && !memcmp(&a->key, &b->key, sizeof(a->key));
}

static const struct book_entry *book_look_up(const struct verdict_book *book,
					     enum verdict_kind kind,
					     const struct verdict_subject *subject)
{
	for (size_t i = 0; i < book->used; i++) {
		const struct book_entry *entry = &book->entries[i];

		if (entry->state != BOOK_FREE && entry->kind == kind &&
		    subjects_equal(&entry->subject, subject))
			return entry;
	}
	return NULL;
}

bool book_is_active(const struct verdict_book *book, enum verdict_kind kind,
		    const struct verdict_subject *subject)
{
	const struct book_entry *entry = book_look_up(book, kind, subject);

	return entry && entry->state == BOOK_ACTIVE;
}

/* A free one, else the one that is remembered for longest; NULL: all stand for something. */
static struct book_entry *book_room(struct verdict_book *book)
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

void book_find(struct verdict_book *book, enum verdict_kind kind,
	       const struct verdict_subject *subject, enum book_weight weight,
	       const struct verdict_evidence *evidence)
{
	struct book_entry *entry = (struct book_entry *)book_look_up(book, kind, subject);

	if (!entry) {
		entry = book_room(book);
		if (!entry) {
			book->kinds[kind].left_out++;
			return;
		}
		*entry = (struct book_entry){.kind = kind, .subject = *subject};
	}
	if (entry->found)
		return;
	if (entry->state != BOOK_CANDIDATE && entry->state != BOOK_ACTIVE) {
		entry->state = BOOK_CANDIDATE;
		entry->score = 0;
		entry->first_ns = book->now_ns;
	}
	entry->found = true;
	entry->found_ns = book->now_ns;
	entry->evidence = *evidence;
	entry->score += weight;
}

/* --- what is told --- */

/* Room is made before anything changes: see book_close(). */
static struct verdict_event *book_event(struct verdict_book *book, enum verdict_phase phase,
					const struct book_entry *entry)
{
	struct verdict_event *event = &book->events[book->event_count++];

	*event = (struct verdict_event){.phase = phase,
					.kind = entry->kind,
					.subject = entry->subject,
					.evidence = entry->evidence,
					.first_ns = entry->first_ns,
					.now_ns = book->now_ns};
	return event;
}

static bool book_take_token(struct book_kind *kind)
{
	if (!kind->tokens)
		return false;
	kind->tokens--;
	return true;
}

static void book_tell(struct verdict_book *book, struct book_entry *entry, enum verdict_phase phase)
{
	entry->told = true;
	entry->reported_ns = book->now_ns;
	entry->told_lead = entry->evidence.lead;
	book_event(book, phase, entry);
}

static void book_begin(struct verdict_book *book, struct book_entry *entry)
{
	struct book_kind *kind = &book->kinds[entry->kind];

	entry->state = BOOK_ACTIVE;
	kind->total++;
	kind->active++;
	entry->told = false;
	if (book_take_token(kind))
		book_tell(book, entry, VERDICT_BEGIN);
	else
		kind->left_out++;
}

static void book_change(struct verdict_book *book, struct book_entry *entry)
{
	double lead = entry->evidence.lead, told = entry->told_lead;

	if (!entry->told || !entry->found || book->now_ns - entry->reported_ns < LAW_CHANGE_NS)
		return;
	if ((lead >= 2 * told || 2 * lead <= told) && book_take_token(&book->kinds[entry->kind]))
		book_tell(book, entry, VERDICT_CHANGE);
}

static void book_end(struct verdict_book *book, struct book_entry *entry, const char *why)
{
	entry->state = BOOK_REMEMBERED;
	entry->over_ns = book->now_ns;
	if (entry->returns < LAW_HOLD_DOUBLINGS)
		entry->returns++;
	book->kinds[entry->kind].active--;
	/* Who heard of the beginning hears of the end. */
	if (entry->told)
		book_event(book, VERDICT_CLEAR, entry)->because = why ? why : "well";
}

static void book_settle_found(struct verdict_book *book, struct book_entry *entry)
{
	if (entry->state == BOOK_CANDIDATE && entry->score >= SCORE_ENOUGH)
		book_begin(book, entry);
	else if (entry->state == BOOK_ACTIVE)
		book_change(book, entry);
}

static void book_settle_missed(struct verdict_book *book, struct book_entry *entry,
			       book_why_fn *why_fn, void *context)
{
	uint64_t held_ns = hold_ns[entry->kind] << entry->returns;
	const char *why;

	if (entry->state == BOOK_CANDIDATE) {
		entry->state = entry->returns ? BOOK_REMEMBERED : BOOK_FREE;
		entry->over_ns = book->now_ns;
	} else if (entry->state == BOOK_REMEMBERED) {
		if (book->now_ns - entry->over_ns > LAW_REMEMBER_NS)
			entry->state = BOOK_FREE;
	} else if (entry->state == BOOK_ACTIVE) {
		why = why_fn(&entry->subject, context);
		if ((why && !strcmp(why, "gone")) || book->now_ns - entry->found_ns >= held_ns)
			book_end(book, entry, why);
	}
}

static void book_tell_more(struct verdict_book *book)
{
	for (unsigned int i = 0; i < VERDICT_KINDS; i++) {
		struct book_kind *kind = &book->kinds[i];
		struct book_entry of = {.kind = i};

		if (!kind->left_out || book->now_ns - kind->more_ns < LAW_MORE_NS)
			continue;
		book_event(book, VERDICT_MORE, &of)->left_out = kind->left_out;
		kind->left_out = 0;
		kind->more_ns = book->now_ns;
	}
}

/* An entry gives one event of a look at most, and so does a kind. */
static int book_make_room(struct verdict_book *book)
{
	size_t room = book->used + VERDICT_KINDS;
	void *events;

	if (room <= book->event_room)
		return 0;
	events = realloc(book->events, room * sizeof(*book->events));
	if (!events)
		return -ENOMEM;
	book->events = events;
	book->event_room = room;
	return 0;
}

int book_close(struct verdict_book *book, book_why_fn *why, void *context)
{
	int err = book_make_room(book);

	if (err)
		return err;
	for (size_t i = 0; i < book->used; i++) {
		if (book->entries[i].found)
			book_settle_found(book, &book->entries[i]);
		else
			book_settle_missed(book, &book->entries[i], why, context);
	}
	while (book->used && book->entries[book->used - 1].state == BOOK_FREE)
		book->used--;
	book_tell_more(book);
	return 0;
}
