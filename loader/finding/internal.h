/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of finding/ share. */
#ifndef ESC_FINDING_INTERNAL_H
#define ESC_FINDING_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fields.h"
#include "core/core.h"
#include "finding.h"

/* --- table.c: conditions by their events (pure) --- */

#define FINDING_CONDITIONS_MAX 1024

/* A condition of a fault. */
struct finding_condition {
	uint64_t hash;		      /* of the fault's name */
	json_t *began;		      /* the event */
	json_t *newest;		      /* the one that it continued with last, or the same */
	enum event_severity severity; /* the higher one of the two */
};

struct findings {
	struct core *core;
	struct finding_condition *list; /* oldest first */
	size_t count, room;
	uint64_t left_out; /* conditions for which there was no room */
};

/* Takes what @event (borrowed) begins or ends. What has neither is left alone. */
void findings_take(struct findings *findings, const json_t *event);
void findings_clear(struct findings *findings);

/*
 * A fault with its conditions. A fault that is a member of another one is of that one's finding,
 * and has none itself.
 */
struct finding {
	const struct finding_condition *leading; /* the worst, of these the oldest */
	const struct finding_condition *first;	 /* the oldest */
	const char *fault;			 /* of the leading one */
	uint64_t hash;
	enum event_severity severity;
	bool is_member;
};
/* Malloc'd, the worst first, of these the oldest; NULL: none, or no memory. */
struct finding *findings_make(const struct findings *findings, size_t *count);

/* --- report.c --- */

extern const struct verb_handler finding_verb_handlers[];
extern const struct metric finding_metrics[];
void finding_put_status(void *self, json_t *status);
void finding_write_metrics(void *self, FILE *out);

#endif
