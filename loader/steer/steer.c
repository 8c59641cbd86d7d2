// SPDX-License-Identifier: BSD-2-Clause
#include "steer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/explain.h"
#include "internal.h"

/* --- modes --- */

uint16_t steer_ports(const struct steer *steer)
{
	return steer->control->flags & ESC_CONTROL_STEER ? steer->control->steer_ports : 0;
}

/* 0 is mode observe. */
static void write_ports(struct steer *steer, uint16_t ports)
{
	struct esc_control *control = steer->control;

	__atomic_store_n(&control->steer_ports, ports, __ATOMIC_SEQ_CST);
	if (ports)
		__atomic_or_fetch(&control->flags, ESC_CONTROL_STEER, __ATOMIC_SEQ_CST);
	else
		__atomic_and_fetch(&control->flags, ~ESC_CONTROL_STEER, __ATOMIC_SEQ_CST);
}

static void apply_ports(struct steer *steer, uint16_t ports, const char *by)
{
	uint16_t was = steer_ports(steer);

	for (size_t i = steer_rule_total(steer); i-- > 0;)
		if (!(ports >> steer_rule_at(steer, i)->key.port & 1))
			steer_end_rule(steer, steer_rule_at(steer, i), "mode");
	write_ports(steer, ports);
	if (ports != was)
		steer_report_mode(steer, ports, by);
	if (!ports)
		steer_switch_automatic(steer, false, by);
}

int steer_set_mode(struct steer *steer, bool on, const json_t *interfaces, const char *by,
		   char **error)
{
	uint16_t ports;
	int err = dataplane_ports_named(steer->dataplane, interfaces, &ports, error);

	if (err)
		return err;
	if (on && dataplane_is_off(steer->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	apply_ports(steer, on ? steer_ports(steer) | ports : steer_ports(steer) & ~ports, by);
	return 0;
}

int steer_set_automatic(struct steer *steer, bool on, const char *by, char **error)
{
	int err = 0;

	if (on && !steer_ports(steer))
		err = steer_set_mode(steer, true, NULL, by, error);
	if (!err)
		steer_switch_automatic(steer, on, by);
	return err;
}

void steer_follow_control(struct steer *steer)
{
	uint32_t flags = __atomic_load_n(&steer->control->flags, __ATOMIC_SEQ_CST);

	if (!steer->control->steer_ports ||
	    (flags & (ESC_CONTROL_STEER | ESC_CONTROL_OFF)) == ESC_CONTROL_STEER)
		return;
	for (size_t i = 0; i < steer_rule_total(steer); i++)
		if (steer_rule_at(steer, i)->state != RULE_TRACKING)
			steer_report_ended(steer, steer_rule_at(steer, i), "mode");
	steer->rule_count = steer->auto_count = 0;
	steer_withdraw_all(steer);
	write_ports(steer, 0);
	steer_report_mode(steer, 0, "map");
	steer_switch_automatic(steer, false, "map");
}

static int steer_off(void *self, const char *by, char **error)
{
	(void)error;
	apply_ports(self, 0, by);
	return 0;
}

/* A mode that the reload did not change stays as it is. */
static void steer_reconfigure(void *self, const struct config *old)
{
	struct steer *steer = self;
	const struct steer_keys *keys = steer_keys(steer->core->config);
	uint16_t all = dataplane_ports_all(steer->dataplane), ports = steer_ports(steer) & all;
	bool changed = keys->mode != steer_keys(old)->mode;

	if (changed)
		ports = keys->mode == STEER_START_OFF ? 0 : all;
	for (size_t i = 0; i < steer->pairs.count; i++)
		pair_configure(steer, steer->pairs.list[i]->facts.port,
			       &steer->pairs.list[i]->contend.config);
	if (dataplane_is_off(steer->dataplane))
		return;
	apply_ports(steer, ports, "configuration");
	if (changed)
		steer_switch_automatic(steer, keys->mode == STEER_START_AUTO, "configuration");
}

/* --- open and close --- */

/* The flag is still set when a daemon steered until a moment ago (dataplane_end_steering()). */
static int take_over(struct steer *steer)
{
	enum steer_start mode = steer_keys(steer->core->config)->mode;
	bool wanted = mode != STEER_START_OFF && !dataplane_is_off(steer->dataplane);
	int err = 0;

	if (wanted && steer_ports(steer))
		err = steer_read_rules(steer);
	else
		steer_withdraw_all(steer);
	write_ports(steer, wanted ? dataplane_ports_all(steer->dataplane) : 0);
	if (mode == STEER_START_AUTO && wanted)
		steer_switch_automatic(steer, true, "configuration");
	else
		steer_untrack_all(steer);
	return err;
}

static void steer_close(void *self)
{
	struct steer *steer = self;

	paths_on_tick(steer->paths, NULL, NULL);
	pairs_free(&steer->pairs);
	free(steer->rules);
	free(steer->autos);
	free(steer->penalties);
	free(steer);
}

static int steer_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct steer *steer = calloc(1, sizeof(*steer));
	int err = 0;

	if (!steer)
		return explain(error, -ENOMEM, "steering: out of memory");
	steer->core = core;
	steer->dataplane = needs[0];
	steer->qps = needs[1];
	steer->delays = needs[2];
	steer->paths = needs[3];
	steer->control = dataplane_control(steer->dataplane);
	steer->steers_fd = dataplane_map_fd(steer->dataplane, "steers");
	steer->qps_fd = dataplane_qps_fd(steer->dataplane);
	/* Hosts that draw alike move alike. */
	if (getrandom(&steer->random, sizeof(steer->random), 0) != sizeof(steer->random))
		err = -EIO;
	if (!err)
		err = take_over(steer);
	if (err) {
		steer_close(steer);
		return explain(error, err, "steering cannot be started: %s", strerror(-err));
	}
	paths_on_tick(steer->paths, steer_tick, steer);
	*self = steer;
	return 0;
}

static uint16_t mode_ports(const void *self)
{
	return steer_ports(self);
}

static int mode_set(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	return steer_set_mode(self, on, interfaces, by, error);
}

static const struct capability_mode steer_mode = {"steer", mode_ports, mode_set};

const struct capability steer_capability = {
	.name = "steer",
	.needs = {"dataplane", "qp", "delay", "paths"},
	.keys = &steer_section,
	.verbs = steer_verb_handlers,
	.events = steer_events,
	.metrics = steer_metrics,
	.mode = &steer_mode,
	.open = steer_open,
	.close = steer_close,
	.reconfigure = steer_reconfigure,
	.off = steer_off,
	.qp = steer_put_qp,
	.write_metrics = steer_write_metrics,
};
