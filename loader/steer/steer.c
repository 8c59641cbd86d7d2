// SPDX-License-Identifier: BSD-2-Clause
/* Steering as a capability: modes, open and close, metrics. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/fields.h"
#include "internal.h"

/* --- modes --- */

uint16_t steer_ports(const void *self)
{
	const struct steer *steer = self;

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

json_t *steer_interfaces(const struct steer *steer, uint16_t ports)
{
	json_t *names = json_array();

	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++) {
		const char *name = dataplane_port_name(steer->dataplane, i);

		if (ports >> i & 1 && name)
			json_array_append_new(names, json_string(name));
	}
	return names;
}

static void untrack_all(struct steer *steer)
{
	for (size_t i = steer->auto_count; i-- > 0;)
		steer_untrack(steer, &steer->autos[i]);
}

static void switch_automatic(struct steer *steer, bool on, const char *by)
{
	if (steer->automatic == on)
		return;
	steer->automatic = on;
	steer->table_local_ns = 0;
	if (!on) {
		untrack_all(steer);
		pairs_free(&steer->pairs);
	}
	log_info("automatic steering is %s (by %s)", on ? "on" : "off", by);
	events_add(steer->core->events,
		   &(struct event){.kind = &steer_events[on ? STEER_AUTO_ON : STEER_AUTO_OFF],
				   .subject = "daemon",
				   .done = json_pack("{s:s}", "by", by)});
}

/* From mode steer on the ports @was to @ports. */
static void apply_ports(struct steer *steer, uint16_t was, uint16_t ports, const char *by)
{
	const char *mode = ports ? "steer" : "observe";

	for (size_t i = steer_rule_total(steer); i-- > 0;)
		if (!(ports >> steer_rule_at(steer, i)->key.port & 1))
			steer_end_rule(steer, steer_rule_at(steer, i), "mode");
	write_ports(steer, ports);
	if (ports != was) {
		log_info("mode %s (by %s)", mode, by);
		events_add(steer->core->events,
			   &(struct event){
				   .kind = &steer_events[STEER_MODE_CHANGED],
				   .subject = "daemon",
				   .done = json_pack("{s:s, s:s, s:o}", "mode", mode, "by", by,
						     "interfaces", steer_interfaces(steer, ports)),
			   });
	}
	if (!ports)
		switch_automatic(steer, false, by);
}

/* On the interfaces named in @interfaces; NULL or empty: all. Observe ends their rules at once. */
static int set_mode(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	struct steer *steer = self;
	uint16_t ports, was = steer_ports(steer);
	int err = dataplane_ports_named(steer->dataplane, interfaces, &ports, error);

	if (!err && on)
		err = config_check_control(steer->core->config, "steering", error);
	if (err)
		return err;
	if (on && dataplane_is_off(steer->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	apply_ports(steer, was, on ? was | ports : was & ~ports, by);
	return 0;
}

static const struct capability_mode steer_mode = {"steer", steer_ports, set_mode};

int steer_set_automatic(struct steer *steer, bool on, const char *by, char **error)
{
	int err = on && !steer_ports(steer) ? set_mode(steer, true, NULL, by, error) : 0;

	if (!err)
		switch_automatic(steer, on, by);
	return err;
}

void steer_follow_control(struct steer *steer)
{
	uint32_t flags = __atomic_load_n(&steer->control->flags, __ATOMIC_SEQ_CST);
	uint16_t ports = steer->control->steer_ports;

	if (!ports || (flags & (ESC_CONTROL_STEER | ESC_CONTROL_OFF)) == ESC_CONTROL_STEER)
		return;
	steer_withdraw_all(steer);
	apply_ports(steer, ports, 0, "map");
}

static int steer_off(void *self, const char *by, char **error)
{
	(void)error;
	apply_ports(self, steer_ports(self), 0, by);
	return 0;
}

/* A mode that the reload did not change stays as it is. */
static void steer_reconfigure(void *self, const struct config *old)
{
	struct steer *steer = self;
	const struct steer_keys *keys = steer_keys(steer->core->config);
	uint16_t all = dataplane_ports_all(steer->dataplane), was = steer_ports(steer);
	uint16_t ports = was & all;
	bool changed = keys->mode != steer_keys(old)->mode;

	if (changed)
		ports = keys->mode == STEER_START_OFF ? 0 : all;
	for (size_t i = 0; i < steer->pairs.count; i++)
		pair_configure(steer, steer->pairs.list[i]->facts.port,
			       &steer->pairs.list[i]->contend.config);
	if (keys->repair != steer_keys(old)->repair)
		steer_repair_reconfigure(steer);
	if (dataplane_is_off(steer->dataplane))
		return;
	apply_ports(steer, was, ports, "configuration");
	if (changed)
		switch_automatic(steer, keys->mode == STEER_START_AUTO, "configuration");
}

static const char *steer_controls(const void *self, const struct config *new)
{
	const struct steer *steer = self;
	enum steer_start mode = steer_keys(new)->mode;
	bool on = mode != steer_keys(steer->core->config)->mode ? mode != STEER_START_OFF
								: steer_ports(steer) != 0;

	return on ? "steering, which is on (`escapement mode observe` ends it)," : NULL;
}

/* --- open and close --- */

/* The flag is still set when a daemon steered a moment ago (dataplane_end_steering()). */
static int take_over(struct steer *steer)
{
	enum steer_start mode = steer_keys(steer->core->config)->mode;
	bool wanted = mode != STEER_START_OFF && !dataplane_is_off(steer->dataplane);
	int err = 0;

	if (wanted && steer_ports(steer))
		err = steer_read_rules(steer);
	else
		steer_withdraw_all(steer);
	steer_repair_adopt(steer);
	write_ports(steer, wanted ? dataplane_ports_all(steer->dataplane) : 0);
	if (mode == STEER_START_AUTO && wanted)
		switch_automatic(steer, true, "configuration");
	else
		untrack_all(steer);
	return err;
}

static void steer_close(void *self)
{
	struct steer *steer = self;

	paths_on_tick(steer->paths, NULL, NULL);
	steer_repair_close(steer);
	pairs_free(&steer->pairs);
	free(steer->rules);
	free(steer->autos);
	free(steer->penalties);
	free(steer->no_repair);
	free(steer);
}

static int steer_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct steer *steer = calloc(1, sizeof(*steer));
	char *why = NULL;
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
	steer->qps_fd = dataplane_map_fd(steer->dataplane, "qps");
	steer->qp_pace_fd = dataplane_map_fd(steer->dataplane, "qp_pace");
	/* Hosts that draw alike move alike. */
	if (getrandom(&steer->random, sizeof(steer->random), 0) != sizeof(steer->random))
		err = -EIO;
	if (!err && steer_repair_open(steer, &why)) {
		log_warning("steer.repair: %s; nothing is repaired", why);
		steer->no_repair = why;
	}
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

/* --- metrics --- */

#define STEER_METRICS(X)                                                                           \
	X(PATH_SWITCHES, "path_switches_total", COUNTER,                                           \
	  "Changes of a queue pair's path that took effect, by reason; those of a path that went " \
	  "down or recovered count once for all of its queue pairs.")                              \
	X(STEERED_QPS, "steered_qps", GAUGE,                                                       \
	  "Queue pairs whose packets have a source port or flow label that was set.")              \
	X(STEER_AUTO, "steer_auto", GAUGE,                                                         \
	  "1 when queue pairs leave contended paths and those that are down automatically.")       \
	X(TRACKED_QPS, "steer_tracked_qps", GAUGE,                                                 \
	  "Queue pairs whose packets leave a path that is down automatically.")                    \
	X(MOVES_REFUSED, "path_moves_refused_total", COUNTER,                                      \
	  "Ticks in which a queue pair would have moved, had steer.moves_per_second allowed it.")  \
	X(PATH_MOVES, "path_moves_total", COUNTER,                                                 \
	  "Automatic moves and their results, by action.")                                         \
	X(REPAIR_RINGS, "path_repair_qps", GAUGE,                                                  \
	  "Queue pairs whose newest packets are kept, to be sent once more when their path dies.") \
	X(REPAIRS, "path_repairs_total", COUNTER,                                                  \
	  "Times that a queue pair's packets were sent once more after its path died.")            \
	X(REPAIR_PACKETS, "path_repair_packets_total", COUNTER, "Packets sent once more.")         \
	X(REPAIR_OVERRUNS, "path_repair_overruns_total", COUNTER,                                  \
	  "Repairs for which the oldest packets were no longer kept.")                             \
	X(REPAIR_MISSED, "path_repair_missed_total", COUNTER,                                      \
	  "Packets that were not kept: too long, or two of a queue pair at once.")                 \
	X(REPAIR_REFUSED, "path_repair_refused_total", COUNTER,                                    \
	  "Rules whose queue pair got no room for its packets.")
enum { STEER_METRICS(METRIC_ENUM) };
static const struct metric metrics[] = {STEER_METRICS(METRIC){}};

static void write_metrics(void *self, FILE *out)
{
	struct prom_family *switches = FAMILY_OF(&metrics[PATH_SWITCHES]);
	struct prom_family *acts = FAMILY_OF(&metrics[PATH_MOVES]);
	const struct steer *steer = self;
	struct qpring_counts repair;
	struct paths_facts paths;
	size_t steered = 0;

	for (size_t i = 0; i < steer_rule_total(steer); i++)
		steered += steer_leaves_elsewhere(&steer_rule_at(steer, i)->now);
	paths_get(steer->paths, &paths);
	for (int reason = 0; reason < STEER_REASONS; reason++)
		prom_count(switches, steer->switches[reason], "reason", steer_reason_name(reason),
			   NULL);
	prom_count(switches, paths.failovers, "reason", "failover", NULL);
	prom_count(switches, paths.returns, "reason", "recovery", NULL);
	prom_count(FAMILY_OF(&metrics[STEERED_QPS]), steered, NULL);
	prom_count(FAMILY_OF(&metrics[STEER_AUTO]), steer->automatic, NULL);
	prom_count(FAMILY_OF(&metrics[TRACKED_QPS]), steer->auto_count, NULL);
	prom_count(FAMILY_OF(&metrics[MOVES_REFUSED]), steer->budget.refused, NULL);
	if (steer->repair) {
		steer_repair_counts(steer, &repair);
		prom_count(FAMILY_OF(&metrics[REPAIR_RINGS]), repair.rings, NULL);
		prom_count(FAMILY_OF(&metrics[REPAIRS]), repair.repairs, NULL);
		prom_count(FAMILY_OF(&metrics[REPAIR_PACKETS]), repair.replayed, NULL);
		prom_count(FAMILY_OF(&metrics[REPAIR_OVERRUNS]), repair.overruns, NULL);
		prom_count(FAMILY_OF(&metrics[REPAIR_MISSED]), repair.missed, NULL);
		prom_count(FAMILY_OF(&metrics[REPAIR_REFUSED]), repair.refused, NULL);
	}
	for (int kind = 0; kind <= CONTEND_UNDONE; kind++)
		prom_count(acts, steer->acts[kind], "action", contend_act_name(kind), NULL);
}

const struct capability steer_capability = {
	.name = "steer",
	.needs = {"dataplane", "qp", "delay", "paths"},
	.keys = &steer_section,
	.verbs = steer_verb_handlers,
	.events = steer_events,
	.metrics = metrics,
	.mode = &steer_mode,
	.open = steer_open,
	.close = steer_close,
	.reconfigure = steer_reconfigure,
	.controls = steer_controls,
	.off = steer_off,
	.qp = steer_put_qp,
	.write_metrics = write_metrics,
};
