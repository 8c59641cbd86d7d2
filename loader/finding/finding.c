// SPDX-License-Identifier: BSD-2-Clause
/* Findings as a capability. */
#include <errno.h>
#include <stdlib.h>

#include "base/explain.h"
#include "internal.h"

static void on_condition(void *context, const json_t *event)
{
	findings_take(context, event);
}

static void finding_close(void *self)
{
	struct findings *findings = self;

	events_on_condition(findings->core->events, NULL, NULL);
	findings_clear(findings);
	free(findings);
}

static int finding_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct findings *findings = calloc(1, sizeof(*findings));

	(void)needs;
	if (!findings)
		return explain(error, -ENOMEM, "findings: out of memory");
	findings->core = core;
	events_on_condition(core->events, on_condition, findings);
	*self = findings;
	return 0;
}

const struct capability finding_capability = {
	.name = "finding",
	.verbs = finding_verb_handlers,
	.metrics = finding_metrics,
	.open = finding_open,
	.close = finding_close,
	.status = finding_put_status,
	.write_metrics = finding_write_metrics,
};
