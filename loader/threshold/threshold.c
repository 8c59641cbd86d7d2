// SPDX-License-Identifier: BSD-2-Clause
/* Thresholds as a capability. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/log.h"
#include "internal.h"

static void evaluate(void *self, uint64_t now_local_ns)
{
	struct thresholds *thresholds = self;

	thresholds->now_ns = now_local_ns;
	for (enum config_of of = 0; of < CONFIG_OFS; of++)
		if (thresholds_use(thresholds, of) && !thresholds_gather(thresholds, of))
			thresholds_taken(thresholds, of);
	free(thresholds->peers);
	thresholds->peers = NULL;
	thresholds->peer_count = 0;
}

static void reconfigure(void *self, const struct config *old)
{
	struct thresholds *thresholds = self;

	(void)old;
	thresholds->now_ns = time_local_ns();
	if (thresholds_set(thresholds, &thresholds->core->config->alerts))
		log_error("alerts.thresholds: out of memory; those from before stay in force");
}

static void threshold_close(void *self)
{
	thresholds_clear(self);
	free(self);
}

static int threshold_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct thresholds *thresholds = calloc(1, sizeof(*thresholds));

	if (!thresholds || thresholds_set(thresholds, &core->config->alerts)) {
		free(thresholds);
		return explain(error, -ENOMEM, "thresholds: out of memory");
	}
	thresholds->core = core;
	thresholds->dataplane = needs[0];
	thresholds->clock = needs[1];
	thresholds->mesh = needs[2];
	thresholds->qps = needs[3];
	thresholds->paths = needs[4];
	thresholds->links = needs[5];
	*self = thresholds;
	return 0;
}

const struct capability threshold_capability = {
	.name = "threshold",
	.needs = {"dataplane", "clock", "mesh", "qp", "paths", "link"},
	.events = threshold_events,
	.metrics = threshold_metrics,
	.open = threshold_open,
	.close = threshold_close,
	.tick_ns = THRESHOLD_TICK_NS,
	.tick = evaluate,
	.reconfigure = reconfigure,
	.status = threshold_put_status,
	.write_metrics = threshold_write_metrics,
};
