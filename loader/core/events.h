/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger: what was seen, what was done, what was expected, what came of it. */
#ifndef ESC_LOADER_LEDGER_H
#define ESC_LOADER_LEDGER_H

#include <stdint.h>
#include <jansson.h>

struct ledger;

/* @keep events stay in memory; @file (NULL: none) gets each as a line of JSON. */
int ledger_new(struct ledger **out, uint32_t keep, const char *file);
void ledger_free(struct ledger *ledger);

/*
 * Records an event now. @kind and @subject are copied; the four objects are
 * stolen and may be NULL (then left out). Never fails the caller.
 */
void ledger_add(struct ledger *ledger, const char *kind, const char *subject, json_t *seen,
		json_t *done, json_t *expected, json_t *result);

/* New reference: array of events with time_ns (CLOCK_REALTIME) >= @since_ns, oldest first. */
json_t *ledger_since(const struct ledger *ledger, uint64_t since_ns);

/* Called for each new event until removed; the event is borrowed. */
typedef void ledger_listener_fn(const json_t *event, void *context);
int ledger_listen(struct ledger *ledger, ledger_listener_fn *fn, void *context);
void ledger_unlisten(struct ledger *ledger, ledger_listener_fn *fn, void *context);

/* Events recorded since the start. */
uint64_t ledger_total(const struct ledger *ledger);

#endif
