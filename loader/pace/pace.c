// SPDX-License-Identifier: BSD-2-Clause
#include "pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "paths/paths.h"
#include "qp/qp.h"

#define PACE_TICK_NS 250000000ull
#define PACE_PORTS_NS 1000000000ull
/* Of more flows than that one look in four is enough: each is two system calls. */
#define PACE_FLOWS_FAST 2048

uint16_t pace_ports(const struct pace *pace)
{
	return pace->wanted;
}

/* --- looking --- */

static void watch_flow(struct pace *pace, struct paced *flow, uint64_t now_ns)
{
	if (pause_watch_poll(&flow->watch, flow->now.flow.paused_ns, now_ns)) {
		flow->overheld = true;
		pace->overheld++;
		pace_tell_overheld(pace, flow);
	} else if (!flow->watch.said) {
		flow->overheld = false;
	}
}

/* The programs take no uncertain delay by themselves; without any, a rate of before would stay. */
static void watch_clock(struct pace *pace)
{
	int64_t bound_ns;
	bool good = pace_clock_is_good(pace, &bound_ns);

	if (!pace->wanted || pace->blind != good)
		return;
	pace->blind = !good;
	pace_write_ports(pace);
	pace_tell_clock(pace, pace->blind, bound_ns);
}

/* Somebody wrote the flags in the map: the programs obey at once, and it is for good. */
static void watch_control(struct pace *pace)
{
	uint32_t flags = __atomic_load_n(&pace->control->flags, __ATOMIC_SEQ_CST);

	if (!pace->control->pace_ports ||
	    (flags & (ESC_CONTROL_PACE | ESC_CONTROL_OFF)) == ESC_CONTROL_PACE)
		return;
	pace->wanted = 0;
	pace_write_ports(pace);
	pace_tell_mode(pace, "map");
}

/* The programs ask for a lane's floor with a flow's first packet, and when they are told to. */
static void watch_floors(struct pace *pace)
{
	uint32_t floors = paths_floors(pace->paths);

	if (!pace->wanted || floors == pace->floors)
		return;
	pace->floors = floors;
	pace_next_generation(pace);
}

static void pace_tick(void *self, uint64_t now_ns)
{
	struct pace *pace = self;

	watch_control(pace);
	watch_clock(pace);
	watch_floors(pace);
	pace_clear_flag(pace, now_ns);
	if (pace->wanted && now_ns - pace->ports_local_ns >= PACE_PORTS_NS) {
		pace_look_ports(pace, now_ns);
	} else if (pace->count > PACE_FLOWS_FAST) {
		return;
	}
	if ((!pace->wanted && !pace->count) || pace_read_flows(pace, now_ns))
		return;
	pace_assign_flows(pace);
	for (size_t i = 0; i < pace->count; i++)
		watch_flow(pace, &pace->flows[i], now_ns);
}

/* --- modes --- */

static void apply_ports(struct pace *pace, uint16_t wanted, const char *by)
{
	bool changed = wanted != pace->wanted;

	pace->wanted = wanted;
	pace_look_ports(pace, time_local_ns());
	pace_write_ports(pace);
	if (changed)
		pace_tell_mode(pace, by);
}

/* All that are named have to be able; of all, one. */
static int check_able(struct pace *pace, uint16_t ports, bool named, char **error)
{
	const char *why = "no interface is served";
	unsigned int able = 0, unable = 0;

	pace_look_ports(pace, time_local_ns());
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		if (!(ports >> slot & 1))
			continue;
		able += pace->ports[slot].able;
		if (!pace->ports[slot].able && !unable++)
			why = pace->ports[slot].why;
	}
	if (able && (!unable || !named))
		return 0;
	return explain(error, -ENOTSUP, "cannot pace: %s", why);
}

int pace_set_mode(struct pace *pace, bool on, const json_t *interfaces, const char *by,
		  char **error)
{
	uint16_t ports;
	int err = dataplane_ports_named(pace->dataplane, interfaces, &ports, error);

	if (err)
		return err;
	if (on && dataplane_is_off(pace->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	if (on)
		err = check_able(pace, ports, json_array_size(interfaces) > 0, error);
	if (err)
		return err;
	apply_ports(pace, on ? pace->wanted | ports : pace->wanted & ~ports, by);
	return 0;
}

int pace_setup_fq(struct pace *pace, const char *interface, bool on, char **error)
{
	struct dataplane *dataplane = pace->dataplane;
	json_t *names = json_pack("[s]", interface);
	uint16_t ports;
	int err = dataplane_ports_named(dataplane, names, &ports, error);

	json_decref(names);
	if (err)
		return err;
	err = on ? dataplane_make_fq(dataplane, interface, error)
		 : dataplane_drop_fq(dataplane, interface, error);
	if (err)
		return err;
	apply_ports(pace, pace->wanted, "setup-fq");
	return 0;
}

static void pace_reconfigure(void *self, const struct config *old)
{
	struct pace *pace = self;
	const struct config *config = pace->core->config;
	uint16_t wanted = pace->wanted & dataplane_ports_all(pace->dataplane);

	if (pace_keys(config)->on != pace_keys(old)->on)
		wanted = pace_keys(config)->on ? dataplane_ports_all(pace->dataplane)
							     : 0;
	pace_take_classes(pace);
	if (!dataplane_is_off(pace->dataplane))
		apply_ports(pace, wanted, "configuration");
	pace_publish(pace);
}

/* --- from start to end --- */

static void start_ports(struct pace *pace)
{
	bool on = pace_keys(pace->core->config)->on &&
		  !dataplane_is_off(pace->dataplane);

	pace_forget_orders(pace);
	pace_take_classes(pace);
	pace->wanted = on ? dataplane_ports_all(pace->dataplane) : 0;
	pace_look_ports(pace, time_local_ns());
	pace_publish(pace);
	pace_write_ports(pace);
}

void pace_follow(struct pace *pace, const struct pace_follower *follower, void *self)
{
	pace->follower = follower;
	pace->follower_context = self;
}

static int pace_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct pace *pace = calloc(1, sizeof(*pace));

	if (!pace)
		return explain(error, -ENOMEM, "pacing: out of memory");
	pace->core = core;
	pace->dataplane = needs[0];
	pace->clock = needs[1];
	pace->qps = needs[2];
	pace->owners = qptable_owners(pace->qps);
	pace->delays = needs[3];
	pace->paths = needs[4];
	pace->blind = true; /* until the first tick */
	pace->control = dataplane_control(pace->dataplane);
	pace->flows_fd = dataplane_map_fd(pace->dataplane, "qp_pace");
	pace->rules_fd = dataplane_map_fd(pace->dataplane, "pace_rules");
	pace->orders_fd = dataplane_map_fd(pace->dataplane, "pace_assigned");
	pace->word_fd = dataplane_map_fd(pace->dataplane, "pace");
	start_ports(pace);
	*self = pace;
	return 0;
}

static void pace_close(void *self)
{
	struct pace *pace = self;

	free(pace->flows);
	free(pace);
}

static int pace_off(void *self, const char *by, char **error)
{
	(void)error;
	apply_ports(self, 0, by);
	return 0;
}

static uint16_t mode_ports(const void *self)
{
	return pace_ports(self);
}

static int mode_set(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	return pace_set_mode(self, on, interfaces, by, error);
}

static const struct capability_mode pace_mode = {"pace", mode_ports, mode_set};

const struct capability pace_capability = {
	.name = "pace",
	.needs = {"dataplane", "clock", "qp", "delay", "paths"},
	.keys = &pace_section,
	.verbs = pace_verb_handlers,
	.events = pace_events,
	.metrics = pace_metrics,
	.mode = &pace_mode,
	.open = pace_open,
	.close = pace_close,
	.tick_ns = PACE_TICK_NS,
	.tick = pace_tick,
	.reconfigure = pace_reconfigure,
	.off = pace_off,
	.qp = pace_put,
	.write_metrics = pace_write_metrics,
};
