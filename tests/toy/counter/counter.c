// SPDX-License-Identifier: BSD-2-Clause
/*
 * The smallest complete capability: a counter with a key, two verbs, a metric and an event. The
 * verbs are in verbs.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/fields.h"
#include "config/config.h"
#include "core/core.h"

/* --- keys --- */

struct counter_keys {
	uint64_t limit;
};

static const struct config_key keys[] = {
	{"limit", CONFIG_FIELD(number, struct counter_keys, limit), .fallback = "10", .least = 1,
	 .most = 1000000, .help = "The count at which an event is recorded."},
	{},
};

static const struct config_section counter_section = {
	.name = "counter",
	.summary = "An example of a capability.",
	.keys = keys,
	.bytes = sizeof(struct counter_keys),
};

/* --- events, metrics and fields --- */

#define COUNTER_EVENTS(X)                                                                          \
	X(COUNTER_LIMIT, "counter_limit", NOTICE, "The counter has reached its limit.")
enum { COUNTER_EVENTS(EVENT_ENUM) };
static const struct event_kind events[] = {COUNTER_EVENTS(EVENT_KIND){}};

#define COUNTER_METRICS(X) X(COUNTER_TOTAL, "counter_total", COUNTER, "What was counted.")
enum { COUNTER_METRICS(METRIC_ENUM) };
static const struct metric metrics[] = {COUNTER_METRICS(METRIC){}};

struct counter {
	struct core *core;
	uint64_t count;
	uint64_t limit;
};

static const struct field fields[] = {
	{FIELD(struct counter, count, U64, "count"), .metric = &metrics[COUNTER_TOTAL]},
	{FIELD(struct counter, limit, U64, "limit")},
	{},
};

static void write_metrics(void *self, FILE *out)
{
	fields_write(out, fields, self, 1, 0, NULL, NULL);
}

/* --- replies --- */

static json_t *reply_counter(void *self, struct request *request)
{
	json_t *reply = json_object();

	(void)request;
	fields_put(reply, fields, self);
	return reply;
}

static json_t *reply_add(void *self, struct request *request)
{
	struct counter *counter = self;
	uint64_t before = counter->count;

	counter->count += request_count(request, "n", 1);
	if (before < counter->limit && counter->count >= counter->limit)
		events_add(counter->core->events,
			   &(struct event){.kind = &events[COUNTER_LIMIT],
					   .seen = json_pack("{s:I}", "count", counter->count)});
	return reply_counter(self, request);
}

static const struct verb_handler verb_handlers[] = {
	{"counter", reply_counter},
	{"counter add", reply_add},
	{},
};

/* --- as a capability --- */

static void reconfigure(void *self, const struct config *old)
{
	struct counter *counter = self;
	const struct counter_keys *now = config_section(counter->core->config, &counter_section);

	(void)old;
	counter->limit = now->limit;
}

static int open_counter(void **self, struct core *core, void *const needs[], char **error)
{
	struct counter *counter = calloc(1, sizeof(*counter));

	(void)needs;
	if (!counter)
		return explain(error, -ENOMEM, "counter: %s", strerror(ENOMEM));
	counter->core = core;
	reconfigure(counter, NULL);
	*self = counter;
	return 0;
}

const struct capability counter_capability = {
	.name = "counter",
	.keys = &counter_section,
	.verbs = verb_handlers,
	.events = events,
	.metrics = metrics,
	.open = open_counter,
	.close = free,
	.reconfigure = reconfigure,
	.write_metrics = write_metrics,
};
