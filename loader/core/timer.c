// SPDX-License-Identifier: BSD-2-Clause
/* Timers of the loop: one shot each, set again by what their function returns. */
#include <errno.h>
#include <stdlib.h>

#include "core.h"

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
