/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulators' events: a binary heap by time, of equal times first come first. */
#ifndef ESC_TESTS_SIM_HEAP_H
#define ESC_TESTS_SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* What every event begins with. */
struct heap_event {
	int64_t at_ns;
	uint64_t order; /* the heap's */
};

/* All zero but for the size: empty. Owner of the memory: the heap, until heap_free(). */
struct heap {
	size_t event_bytes; /* of an event, struct heap_event and what follows it */
	size_t count, room;
	uint64_t pushed;
	unsigned char *events;
};

/* A copy of @event, whose rule is set. Aborts without memory. */
void heap_push(struct heap *heap, const void *event);
/* The earliest goes into @event and out of the heap, which must not be empty. */
void heap_pop(struct heap *heap, void *event);
/* When the earliest is; INT64_MAX: there is none. */
int64_t heap_next_ns(const struct heap *heap);
void heap_free(struct heap *heap);

#endif
