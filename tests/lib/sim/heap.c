// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void *event_at(const struct heap *heap, size_t i)
{
	return heap->events + i * heap->event_bytes;
}

static bool is_before(const struct heap_event *a, const struct heap_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

/* One more than is needed: where an event that has no place yet lies. */
static void make_room(struct heap *heap)
{
	if (heap->count + 2 <= heap->room)
		return;
	heap->room = heap->room ? 2 * heap->room : 1024;
	heap->events = realloc(heap->events, heap->room * heap->event_bytes);
	if (!heap->events)
		abort();
}

void heap_push(struct heap *heap, const void *event)
{
	size_t at = heap->count;
	struct heap_event *held;

	make_room(heap);
	held = event_at(heap, heap->room - 1);
	memcpy(held, event, heap->event_bytes);
	held->order = heap->pushed++;
	heap->count++;
	for (; at && is_before(held, event_at(heap, (at - 1) / 2)); at = (at - 1) / 2)
		memcpy(event_at(heap, at), event_at(heap, (at - 1) / 2), heap->event_bytes);
	memcpy(event_at(heap, at), held, heap->event_bytes);
}

void heap_pop(struct heap *heap, void *event)
{
	const void *last = event_at(heap, --heap->count);
	size_t at = 0;

	memcpy(event, event_at(heap, 0), heap->event_bytes);
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    is_before(event_at(heap, child + 1), event_at(heap, child)))
			child++;
		if (!is_before(event_at(heap, child), last))
			break;
		memcpy(event_at(heap, at), event_at(heap, child), heap->event_bytes);
		at = child;
	}
	if (at != heap->count)
		memcpy(event_at(heap, at), last, heap->event_bytes);
}

int64_t heap_next_ns(const struct heap *heap)
{
	const struct heap_event *next = event_at(heap, 0);

	return heap->count ? next->at_ns : INT64_MAX;
}

void heap_free(struct heap *heap)
{
	free(heap->events);
	heap->events = NULL;
	heap->count = heap->room = 0;
}
