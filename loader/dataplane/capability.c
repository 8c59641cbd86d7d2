// SPDX-License-Identifier: BSD-2-Clause
/* The dataplane as a capability: interfaces, kill switch, `features`, its part of `status`. */
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "internal.h"
#include "lock.h"
#include "preflight.h"

#define DATAPLANE_TICK_NS 1000000000ull

static bool is_off(void *context)
{
	return dataplane_is_off(context);
}

/* Everything that may be refused without a trace comes before the first map is made. */
static int open_dataplane(void **self, struct core *core, void *const needs[], char **error)
{
	struct dataplane *dataplane = NULL;
	struct locks *locks = NULL;
	int err = preflight_check(error);

	(void)needs;
	if (!err)
		err = locks_take(&locks, NULL, core->config, error);
	if (!err)
		err = dataplane_open(&dataplane, core, locks, error);
	if (err) {
		locks_free(locks);
		return err;
	}
	core->is_off = is_off;
	core->is_off_context = dataplane;
	core->took_over = dataplane_took_over(dataplane);
	*self = dataplane;
	return 0;
}

static void close_dataplane(void *self)
{
	dataplane_close(self);
}

static void tick(void *self, uint64_t now_ns)
{
	dataplane_watch_control(self);
	dataplane_tick(self, now_ns);
}

/* Whether its maps can be read. */
static int refresh(void *self)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	struct port_info port;
	int err = dataplane_reasons(self, reasons);

	for (unsigned int i = 0; !err && i < dataplane_port_count(self); i++)
		err = dataplane_port(self, i, &port);
	return err;
}

static void links_changed(void *self)
{
	dataplane_tick(self, time_local_ns());
}

static int off(void *self, const char *by, char **error)
{
	(void)by;
	return dataplane_off(self, error);
}

static int on(void *self, char **error)
{
	return dataplane_on(self, error);
}

static int accept_config(void *self, const struct config *new, char **error)
{
	return dataplane_reconfigure(self, new, error);
}

static void status(void *self, json_t *object)
{
	struct esc_reason_count counts[ESC_REASON_MAX];

	json_put(object, "interfaces", dataplane_interfaces_json(self, dataplane_core(self)));
	if (!dataplane_reasons(self, counts))
		json_put(object, "reasons", reasons_json(counts));
}

const struct capability dataplane_capability = {
	.name = "dataplane",
	.events = dataplane_events,
	.metrics = dataplane_metrics,
	.open = open_dataplane,
	.close = close_dataplane,
	.tick_ns = DATAPLANE_TICK_NS,
	.tick = tick,
	.accept = accept_config,
	.off = off,
	.on = on,
	.refresh = refresh,
	.links_changed = links_changed,
	.status = status,
	.write_metrics = dataplane_write_metrics,
};
