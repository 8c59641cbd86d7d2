// SPDX-License-Identifier: BSD-2-Clause
/* Delays of queue pairs as a capability: the poll of the maps, `qp` and `status`. */
#include <string.h>

#include "base/explain.h"
#include "base/log.h"
#include "internal.h"

#define POLL_SLACK_NS 20000000ull

void delays_listen(struct delays *delays, delays_listener_fn *fn, void *context)
{
	delays->listener = fn;
	delays->listener_context = context;
}

/* The program behind the qdisc, as the configuration and the kill switch have it. */
static void apply_host_queue(struct delays *delays)
{
	const struct config *config = delays->core->config;
	const struct dataplane *dataplane = delays->dataplane;

	if (!config->receipts.on || !config->receipts.host_queue || dataplane_is_off(dataplane)) {
		hostqueue_close(delays->host_queue);
		delays->host_queue = NULL;
		delays->host_queue_note[0] = '\0';
		return;
	}
	if (delays->host_queue)
		return;
	if (hostqueue_open(&delays->host_queue, dataplane_map_fd(dataplane, "host_queue"),
			   dataplane_map_fd(dataplane, "qp_sent"), delays->host_queue_note,
			   sizeof(delays->host_queue_note)))
		log_warning("%s", delays->host_queue_note);
}

static int refresh(void *self)
{
	struct delays *delays = self;
	int err = delays_poll(delays, qptable_refreshed_ns(delays->table));

	delays_forget_facts(delays);
	delays->poll_failed = err != 0;
	return err;
}

static uint64_t poll(void *context, uint64_t now_ns)
{
	struct delays *delays = context;
	int err = qptable_poll(delays->table);

	(void)now_ns;
	if (!err)
		err = refresh(delays);
	if (err)
		log_debug("the maps of queue pairs could not be read in this tick");
	else if (delays->listener)
		delays->listener(delays->listener_context, qptable_refreshed_ns(delays->table));
	return delays_interval_ns(delays);
}

static void close_delay(void *self)
{
	struct delays *delays = self;

	mesh_on_reply(delays->mesh, NULL, NULL);
	core_timer_free(delays->timer);
	hostqueue_close(delays->host_queue);
	delays_free(delays);
}

static int open_delay(void **self, struct core *core, void *const needs[], char **error)
{
	struct dataplane *dataplane = needs[0];
	struct delays *delays;
	int err = delays_new(&delays, dataplane_map_fd(dataplane, "qp_owd"),
			     dataplane_map_fd(dataplane, "qp_sent"),
			     dataplane_map_max(dataplane, "qp_owd"), needs[3]);

	if (err)
		return explain(error, err, "delays of queue pairs: %s", strerror(-err));
	delays->core = core;
	delays->dataplane = dataplane;
	delays->clock = needs[1];
	delays->mesh = needs[2];
	mesh_on_reply(delays->mesh, delays_put_peers, delays);
	err = refresh(delays);
	if (!err)
		err = core_timer_new(core, &delays->timer, DELAYS_FAST_NS, POLL_SLACK_NS, poll,
				     delays);
	if (err < 0) {
		close_delay(delays);
		return explain(error, err, "the map qp_owd cannot be read: %s", strerror(-err));
	}
	apply_host_queue(delays);
	*self = delays;
	return 0;
}

static void reconfigure(void *self, const struct config *old)
{
	(void)old;
	apply_host_queue(self);
}

static int off(void *self, const char *by, char **error)
{
	struct delays *delays = self;

	(void)by;
	(void)error;
	hostqueue_close(delays->host_queue);
	delays->host_queue = NULL;
	return 0;
}

static int on(void *self, char **error)
{
	(void)error;
	apply_host_queue(self);
	return 0;
}

const struct capability delay_capability = {
	.name = "delay",
	.needs = {"dataplane", "clock", "mesh", "qp"},
	.metrics = delay_metrics,
	.open = open_delay,
	.close = close_delay,
	.reconfigure = reconfigure,
	.refresh = refresh,
	.off = off,
	.on = on,
	.status = delays_put_receipts,
	.qp = delays_put_qp,
	.write_metrics = delay_write_metrics,
	.metrics_written = delays_written,
};
