// SPDX-License-Identifier: BSD-2-Clause
/* Collectives as a capability. */
#include <errno.h>
#include <stdlib.h>

#include "base/explain.h"
#include "base/json.h"
#include "clock/clock.h"
#include "internal.h"

#define TICK_NS 1000000000ull

static bool read_time(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	const struct nccl *nccl = context;

	return clock_read_at(nccl->clock, local_ns, fabric_ns, bound_ns);
}

static void tick(void *self, uint64_t now_local_ns)
{
	nccl_poll(self, now_local_ns);
}

static int refresh(void *self)
{
	nccl_poll(self, time_local_ns());
	return 0;
}

static void nccl_close(void *self)
{
	struct nccl *nccl = self;

	ibverbs_set_files(nccl->verbs, NULL);
	free(nccl);
}

static int nccl_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct nccl *nccl = calloc(1, sizeof(*nccl));

	if (!nccl)
		return explain(error, -ENOMEM, "collectives: out of memory");
	nccl->core = core;
	nccl->verbs = needs[0];
	nccl->clock = needs[1];
	nccl->reader = (struct nccl_reader){
		.read_time = read_time, .context = nccl, .now_ns = time_local_ns};
	nccl->files = (struct ibverbs_files){.bytes = NCCL_BYTES,
					     .read = nccl_read,
					     .free = nccl_free,
					     .context = &nccl->reader};
	ibverbs_set_files(nccl->verbs, &nccl->files);
	*self = nccl;
	return 0;
}

static void status(void *self, json_t *object)
{
	const struct nccl *nccl = self;
	json_t *own;

	if (!nccl->place_count && !nccl->refused)
		return;
	own = json_object();
	json_put_count(own, "communicators", nccl->group_count);
	json_put_count(own, "ranks", nccl->place_count);
	json_put_count(own, "refused", nccl->refused);
	json_put(object, "nccl", own);
}

const struct capability nccl_capability = {
	.name = "nccl",
	.needs = {"ibverbs", "clock"},
	.events = nccl_events,
	.metrics = nccl_metrics,
	.open = nccl_open,
	.close = nccl_close,
	.tick_ns = TICK_NS,
	.tick = tick,
	.refresh = refresh,
	.status = status,
	.write_metrics = nccl_write_metrics,
};
