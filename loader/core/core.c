// SPDX-License-Identifier: BSD-2-Clause
#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"

#define TICK_SLACK_NS 20000000ull
#define HEARTBEAT_SLACK_NS 10000000ull

/* --- timers of the loop: one shot each, set again by what their function returns --- */

struct core_timer {
	sd_event_source *source;
	core_timer_fn *fn;
	void *context;
};

void core_timer_set(struct core_timer *timer, uint64_t delay_ns)
{
	sd_event_source_set_time_relative(timer->source, delay_ns / 1000);
	sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
}

static int on_time(sd_event_source *source, uint64_t due_us, void *context)
{
	struct core_timer *timer = context;
	uint64_t delay_ns;

	(void)source;
	(void)due_us;
	delay_ns = timer->fn(timer->context, time_local_ns());
	if (delay_ns)
		core_timer_set(timer, delay_ns);
	return 0;
}

int core_timer_new(struct core *core, struct core_timer **out, uint64_t first_ns, uint64_t slack_ns,
		   core_timer_fn *fn, void *context)
{
	struct core_timer *timer = calloc(1, sizeof(*timer));
	int err;

	*out = NULL;
	if (!timer)
		return -ENOMEM;
	timer->fn = fn;
	timer->context = context;
	err = sd_event_add_time_relative(core->loop, &timer->source, CLOCK_MONOTONIC,
					 first_ns / 1000, slack_ns / 1000, on_time, timer);
	if (err < 0) {
		free(timer);
		return err;
	}
	*out = timer;
	return 0;
}

void core_timer_free(struct core_timer *timer)
{
	if (!timer)
		return;
	sd_event_source_disable_unref(timer->source);
	free(timer);
}

/* --- heartbeat --- */

void core_beat(struct core *core)
{
	if (core->heartbeat_local_ns)
		__atomic_store_n(core->heartbeat_local_ns, time_local_ns(), __ATOMIC_RELAXED);
}

static uint64_t heartbeat_tick(void *context, uint64_t now_ns)
{
	(void)now_ns;
	core_beat(context);
	return CORE_HEARTBEAT_NS;
}

int core_heartbeat_start(struct core *core, uint64_t *heartbeat_local_ns)
{
	core_beat(core); /* the last one leaves a successor all of the timeout */
	core->heartbeat_local_ns = heartbeat_local_ns;
	core_beat(core);
	if (core->heartbeat || !heartbeat_local_ns)
		return 0;
	return core_timer_new(core, &core->heartbeat, CORE_HEARTBEAT_NS, HEARTBEAT_SLACK_NS,
			      heartbeat_tick, core);
}

/* --- capabilities --- */

static uint64_t module_tick(void *context, uint64_t now_ns)
{
	struct core_module *module = context;

	module->capability->tick(module->self, now_ns);
	return module->capability->tick_ns;
}

void *core_find(const struct core *core, const char *name)
{
	core_for_each (module, core)
		if (!strcmp(module->capability->name, name))
			return module->self;
	return NULL;
}

int core_open(struct core *core, const struct capability *capability, char **error)
{
	struct core_module *module = &core->modules[core->module_count];
	void *needs[CAPABILITY_NEEDS_MAX + 1] = {};
	int err;

	for (size_t i = 0; capability->needs[i]; i++) {
		needs[i] = core_find(core, capability->needs[i]);
		if (!needs[i])
			return explain(error, -ENOENT, "%s needs %s, which is not open",
				       capability->name, capability->needs[i]);
	}
	*module = (struct core_module){.capability = capability};
	err = capability->open(&module->self, core, needs, error);
	if (err)
		return err;
	core->module_count++;
	if (!capability->tick)
		return 0;
	err = core_timer_new(core, &module->timer, capability->tick_ns, TICK_SLACK_NS, module_tick,
			     module);
	return err < 0 ? explain(error, err, "%s: no timer: %s", capability->name, strerror(-err))
		       : 0;
}

void core_close(struct core *core)
{
	core_timer_free(core->kill_file_timer);
	core->kill_file_timer = NULL;
	while (core->module_count) {
		struct core_module *module = &core->modules[--core->module_count];

		core_timer_free(module->timer);
		if (module->capability->close)
			module->capability->close(module->self);
	}
	core_timer_free(core->heartbeat);
	core->heartbeat = NULL;
}

int core_refresh(struct core *core)
{
	int err = 0;

	core_for_each (module, core) {
		if (!module->capability->refresh)
			continue;
		module->refresh_error = module->capability->refresh(module->self);
		err = err ? err : module->refresh_error;
	}
	return err;
}

void core_links_changed(struct core *core)
{
	core_for_each (module, core)
		if (module->capability->links_changed)
			module->capability->links_changed(module->self);
}

void core_describe_qp(const struct core *core, const struct qp_entry *entry, json_t *qp)
{
	core_for_each (module, core)
		if (module->capability->qp)
			module->capability->qp(module->self, entry, qp);
}

json_t *core_mode(const struct core *core, int slot)
{
	char text[96] = "";
	size_t used = 0;

	core_for_each (module, core) {
		const struct capability_mode *mode = module->capability->mode;
		unsigned int ports = mode ? mode->ports(module->self) : 0;

		if (slot < 0 ? ports : ports >> slot & 1)
			used += snprintf(text + used, sizeof(text) - used, "%s%s", used ? "+" : "",
					 mode->name);
	}
	return json_string(used ? text : "observe");
}
