/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The register of verdicts: what was found in a look, when that is enough to
 * say so, when it is over, and how much of it is told. Pure.
 */
#ifndef ESC_LOADER_VERDICT_BOOK_H
#define ESC_LOADER_VERDICT_BOOK_H

#include "verdict.h"
#include "verdict_law.h"

enum book_state {
	BOOK_FREE,
	BOOK_CANDIDATE, /* found, not often enough */
	BOOK_ACTIVE,
	BOOK_REMEMBERED, /* over; when it comes again it is held longer */
};

struct book_entry {
	enum book_state state;
	enum verdict_kind kind;
	struct verdict_subject subject;
	struct verdict_evidence evidence;
	unsigned int score;
	bool found; /* in this look */
	bool told;  /* its begin was an event */
	double told_lead;
	unsigned int returns;
	uint64_t first_ns, found_ns, reported_ns, over_ns;
};

struct book_kind {
	unsigned int tokens;
	uint64_t refilled_ns, more_ns;
	uint64_t left_out, total;
	size_t active;
};

/* What a finding weighs: found so in so many looks in a row it is a verdict. */
enum book_weight {
	BOOK_IN_ONE = 6,
	BOOK_IN_TWO = 3,
	BOOK_IN_THREE = 2,
	BOOK_IN_SIX = 1,
};

struct verdict_book {
	struct book_entry entries[LAW_BOOK_MAX];
	size_t used; /* entries from here on are free */
	struct book_kind kinds[VERDICT_KINDS];
	uint64_t now_ns;
	struct verdict_event *events;
	size_t event_count, event_room;
};

void book_init(struct verdict_book *book);
void book_done(struct verdict_book *book);

/* Before the finders. */
void book_open(struct verdict_book *book, uint64_t now_ns);
/* A finding of this look. When one is found twice in a look the first stands. */
void book_find(struct verdict_book *book, enum verdict_kind kind,
	       const struct verdict_subject *subject, enum book_weight weight,
	       const struct verdict_evidence *evidence);
/* So that what is active may be judged by a lower threshold. */
bool book_is_active(const struct verdict_book *book, enum verdict_kind kind,
		    const struct verdict_subject *subject);

/* Why a verdict is over: NULL, "idle" or "gone". */
typedef const char *book_why_fn(const struct verdict_subject *subject, void *context);
/* After the finders: what began, changed and ended is in book->events. 0 or -ENOMEM. */
int book_close(struct verdict_book *book, book_why_fn *why, void *context);

#endif
