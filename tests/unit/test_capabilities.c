// SPDX-License-Identifier: BSD-2-Clause
/* The table of capabilities: order, and names that are promised once and kept. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/internal.h"
#include "api/verbs.h"
#include "base/fields.h"
#include "core/events.h"
#include "daemon/daemon.h"

Test(capabilities, each_needs_only_those_before_it)
{
	for (size_t i = 0; daemon_capabilities[i]; i++) {
		const struct capability *one = daemon_capabilities[i];

		cr_expect_not_null(one->open, "%s", one->name);
		for (size_t n = 0; one->needs[n]; n++) {
			bool before = false;

			for (size_t k = 0; k < i; k++)
				before |= !strcmp(daemon_capabilities[k]->name, one->needs[n]);
			cr_expect(before, "%s needs %s", one->name, one->needs[n]);
		}
	}
}

static bool has(const struct verb_handler *handlers, const char *verb)
{
	for (; handlers && handlers->verb; handlers++)
		if (!strcmp(handlers->verb, verb))
			return true;
	return false;
}

static bool is_handled(const char *verb)
{
	if (has(api_verb_handlers, verb))
		return true;
	for (size_t i = 0; daemon_capabilities[i]; i++)
		if (has(daemon_capabilities[i]->verbs, verb))
			return true;
	return false;
}

/* The name that the request has, or its first word: the handler shows them apart. */
Test(capabilities, every_verb_has_a_handler)
{
	const struct verb *verb = NULL;
	size_t count = 0;

	while ((verb = verbs_next(verb))) {
		const char *name = verb->request ? verb->request : verb->name;
		char first[64];

		if (verb->place == VERB_HERE)
			continue;
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, " "), name);
		cr_expect(is_handled(name) || is_handled(first), "%s", verb->name);
		count++;
	}
	cr_expect_geq(count, 15);
}

/* One list: a kind or a family that two modules had would be two things under one name. */
Test(capabilities, event_kinds_are_named_once)
{
	const char *names[512];
	size_t count = 0;

	for (size_t i = 0; daemon_capabilities[i]; i++) {
		const struct event_kind *kind = daemon_capabilities[i]->events;

		for (; kind && kind->name; kind++) {
			cr_expect(kind->help && strlen(kind->help) > 10, "%s", kind->name);
			for (size_t k = 0; k < count; k++)
				/* The mode of a port is both steering's and pacing's. */
				cr_expect(strcmp(names[k], kind->name) ||
						  !strcmp(kind->name, "mode_changed"),
					  "%s", kind->name);
			names[count++] = kind->name;
		}
	}
	cr_expect_geq(count, 30);
}

Test(capabilities, metrics_are_named_once)
{
	const char *names[512];
	size_t count = 0;

	for (size_t i = 0; daemon_capabilities[i]; i++) {
		const struct metric *metric = daemon_capabilities[i]->metrics;

		for (; metric && metric->name; metric++) {
			cr_expect(metric->help && strlen(metric->help) > 5, "%s", metric->name);
			for (size_t k = 0; k < count; k++)
				cr_expect_str_neq(names[k], metric->name);
			names[count++] = metric->name;
		}
	}
	cr_expect_geq(count, 40);
}
