// SPDX-License-Identifier: BSD-2-Clause
/* Pacing as a capability: interfaces, modes and polls. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/log.h"
#include "clock/clock.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "net/rtnl.h"
#include "paths/paths.h"
#include "qp/qp.h"

#define PACE_TICK_NS 250000000ull
#define PACE_PORTS_NS 1000000000ull
/* With more flows one poll in four is enough: each flow is two system calls. */
#define PACE_FLOWS_FAST 2048

/* A link that does not report its rate (most virtual ones): flows begin with this, and adapt. */
#define LINE_DEFAULT_BPS (10000000000ull / 8)

const struct event_kind pace_events[] = {PACE_EVENTS(EVENT_KIND){}};

/* --- ports --- */

static void report_mode(struct pace *pace, const char *by)
{
	json_t *mode = core_mode(pace->core, -1), *names = json_array();

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		const char *name = dataplane_port_name(pace->dataplane, slot);

		if (pace->wanted >> slot & 1 && name)
			json_array_append_new(names, json_string(name));
	}
	log_info("mode %s (by %s)", json_string_value(mode), by);
	events_add(pace->core->events, &(struct event){
					       .kind = &pace_events[PACE_MODE_CHANGED],
					       .subject = "daemon",
					       .done = json_pack("{s:o, s:s, s:o}", "mode", mode,
								 "by", by, "paced", names),
				       });
}

static void report_able(struct pace *pace, const struct pace_port *port, const char *name)
{
	json_t *seen;

	if (port->able) {
		log_info("%s is paced (%s)", name, port->qdisc);
		seen = json_pack("{s:s, s:I}", "qdisc", port->qdisc, "line_bps",
				 (json_int_t)port->line_Bps * 8);
	} else {
		log_warning("cannot pace: %s", port->why);
		seen = json_pack("{s:s}", "reason", port->why);
	}
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[port->able ? PACE_AVAILABLE : PACE_UNAVAILABLE],
			   .subject = name,
			   .seen = seen,
		   });
}

static void write_ports(struct pace *pace)
{
	uint16_t ports = 0;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (pace->wanted >> slot & 1 && pace->ports[slot].able && !pace->clock_lost)
			ports |= 1u << slot;
	if (!ports && pace->control->pace_ports)
		pace->ended_local_ns = time_local_ns();
	__atomic_store_n(&pace->control->pace_ports, ports, __ATOMIC_SEQ_CST);
	if (ports)
		__atomic_or_fetch(&pace->control->flags, ESC_CONTROL_PACE, __ATOMIC_SEQ_CST);
}

/* A queue pair's 64 requests and 128 packets of READ responses, with some room. */
#define FLOW_PACKETS 256
#define ORPHANS_DEFAULT 1024 /* of fq, and of one that does not report it */

/*
 * Queue pairs of soft-RoCE share fq's flows by a hash: four times the mean covers the fullest one.
 * @ours: it can be raised by `setup-fq`.
 */
bool pace_fits_fq(const struct fq_limits *fq, size_t queue_pairs, uint64_t hold_max_ns,
		  const char *interface, bool ours, char *why, size_t bytes)
{
	size_t orphans = fq->orphans ? fq->orphans : ORPHANS_DEFAULT;
	size_t packets = queue_pairs * FQ_QP_PACKETS,
	       shares = (queue_pairs + orphans - 1) / orphans;
	size_t flow_packets = shares > 1 ? 4 * shares * FQ_QP_PACKETS : FLOW_PACKETS;
	char remedy[96];

	if (packets < FLOW_PACKETS)
		packets = FLOW_PACKETS;
	if (ours)
		snprintf(remedy, sizeof(remedy), "`escapement pace setup-fq %s` raises them",
			 interface);
	else
		snprintf(remedy, sizeof(remedy),
			 "`tc qdisc replace dev %s root fq limit %zu flow_limit %zu`", interface,
			 2 * packets, 2 * flow_packets);
	if (fq->packets < packets || fq->flow_packets < flow_packets)
		snprintf(why, bytes,
			 "fq on %s drops what pacing delays: its limit %u and flow_limit %u should "
			 "be at least %zu and %zu for %zu queue pairs (%s)",
			 interface, fq->packets, fq->flow_packets, packets, flow_packets,
			 queue_pairs, remedy);
	else if (fq->horizon_ns && fq->horizon_ns < hold_max_ns)
		snprintf(why, bytes,
			 "fq on %s has a horizon of %llu us, beyond which it does not keep "
			 "departure times: it should be at least pace.hold_max (%llu us); raise it "
			 "by `tc qdisc change`, or lower pace.hold_max",
			 interface, (unsigned long long)fq->horizon_ns / 1000,
			 (unsigned long long)hold_max_ns / 1000);
	else
		return true;
	return false;
}

static size_t flows_of(const struct pace *pace, unsigned int slot)
{
	size_t count = 0;

	for (size_t i = 0; i < pace->count; i++)
		count += pace->flows[i].key.port == slot;
	return count;
}

static void check_qdisc(const struct pace *pace, struct pace_port *port,
			const struct port_info *info)
{
	uint64_t hold_max_ns = pace_keys(pace->core->config)->hold_max_ns;
	unsigned int slot = port - pace->ports;
	struct qdisc_facts facts;
	char text[sizeof(port->qdisc)] = "";
	int err = qdisc_read(info->ifindex, &facts);

	if (err) {
		snprintf(port->why, sizeof(port->why), "the qdiscs of %s cannot be read: %s",
			 info->name, strerror(-err));
		return;
	}
	qdisc_text(&facts, text);
	memcpy(port->qdisc, text, sizeof(text));
	if (qdisc_is_fq(&facts)) {
		port->fq = facts.fq;
		port->able = pace_fits_fq(&facts.fq, flows_of(pace, slot), hold_max_ns, info->name,
					  qdisc_is_ours(&facts), port->why, sizeof(port->why));
	} else if (facts.handle)
		snprintf(port->why, sizeof(port->why),
			 "%s has %s, which was not set up by us, and departure times are kept by "
			 "fq: put fq in its place (`tc qdisc replace dev %s root fq limit 100000 "
			 "flow_limit 4096`)",
			 info->name, text, info->name);
	else
		snprintf(port->why, sizeof(port->why),
			 "%s has %s, and departure times are kept by fq: `escapement pace setup-fq "
			 "%s` sets it, `escapement pace undo-fq %s` puts back what was there",
			 info->name, text, info->name, info->name);
}

static void check_port(const struct pace *pace, struct pace_port *port,
		       const struct port_info *info)
{
	double bps = ethtool_speed_bps(info->name);

	if (pace_keys(pace->core->config)->line_bps > 0)
		bps = pace_keys(pace->core->config)->line_bps;
	*port = (struct pace_port){.line_Bps = bps > 0 ? (uint64_t)(bps / 8) : LINE_DEFAULT_BPS};
	if (!info->ifindex)
		snprintf(port->why, sizeof(port->why), "interface %s is gone", info->name);
	else if (info->tc_via == ESC_TC_NONE)
		snprintf(port->why, sizeof(port->why), "no program of ours is on %s", info->name);
	else if (!pace->core->config->receipts.on)
		snprintf(port->why, sizeof(port->why),
			 "receipts tell the delays, and they are off (`receipts.mode`)");
	else
		check_qdisc(pace, port, info);
}

/* Takes RTNL: after rtnl_wait() or rtnl_need(). */
static void read_ports(struct pace *pace, uint64_t now_local_ns)
{
	bool lines = false, first = !pace->ports_local_ns;
	struct port_facts facts;

	pace->ports_local_ns = now_local_ns;
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		struct pace_port *port = &pace->ports[slot], before = *port;

		if (dataplane_port(pace->dataplane, slot, &facts))
			continue;
		check_port(pace, port, &facts.info);
		lines = lines || before.line_Bps != port->line_Bps;
		if (pace->wanted >> slot & 1 && (first || before.able != port->able))
			report_able(pace, port, facts.info.name);
	}
	if (lines)
		pace_write_rules(pace);
	if (pace->wanted || pace->control->pace_ports)
		write_ports(pace);
}

void pace_poll_ports(struct pace *pace, uint64_t now_local_ns)
{
	/* If the qdiscs cannot be read now nothing is concluded. */
	if (!pace->ports_local_ns || !rtnl_wait(CORE_RTNL_MS))
		read_ports(pace, now_local_ns);
	else
		pace->ports_local_ns = now_local_ns;
}

/* --- polls --- */

bool pace_clock_is_good(const struct pace *pace, int64_t *bound_ns)
{
	uint64_t least_ns = UINT64_MAX;
	struct clock_facts clock;

	for (unsigned int i = 0; i < pace->class_count; i++)
		if (pace->classes[i].threshold_ns < least_ns)
			least_ns = pace->classes[i].threshold_ns;
	clock_get(pace->clock, &clock);
	*bound_ns = clock.known && clock.state != CLOCK_FREE_RUNNING ? clock.bound_ns : -1;
	/* A delay has the bounds of both ends. Hysteresis: once lost it has to be twice as good. */
	return *bound_ns >= 0 &&
	       (pace->clock_lost ? 2 : 1) * (uint64_t)*bound_ns <= least_ns >> ESC_PACE_BOUND_SHIFT;
}

/* The programs use no uncertain delay; without any, the previous rate would stay. */
static void poll_clock(struct pace *pace)
{
	int64_t bound_ns;
	bool good = pace_clock_is_good(pace, &bound_ns);

	if (!pace->wanted || pace->clock_lost != good)
		return;
	pace->clock_lost = !good;
	write_ports(pace);
	if (good)
		log_info("fabric time is good enough for pacing again");
	else
		log_warning("fabric time is %s: delayed packets are released, and none is delayed",
			    bound_ns < 0 ? "not known" : "too uncertain for pacing");
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[good ? PACE_CLOCK_RESTORED : PACE_CLOCK_LOST],
			   .subject = "daemon",
			   .seen = bound_ns < 0
					   ? json_object()
					   : json_pack("{s:I}", "bound_ns", (json_int_t)bound_ns),
		   });
}

static void poll_flow(struct pace *pace, struct paced *flow, uint64_t now_ns)
{
	const struct pace_class *class = &pace->classes[pace_class_of(pace, flow)];
	const struct pause_flow *law = &flow->now.flow;
	const struct esc_qp_key *key = &flow->key;
	char subject[ADDRESS_QP_BYTES];

	if (!pause_watch_poll(&flow->watch, law->paused_ns, now_ns)) {
		flow->overheld = flow->overheld && flow->watch.reported;
		return;
	}
	flow->overheld = true;
	pace->overheld++;
	address_format_qp(&key->src, &key->dst, key->dest_qpn, subject);
	log_warning("%s: paused for more than half of the time for long; its sender does not slow "
		    "down",
		    subject);
	events_add(pace->core->events,
		   &(struct event){
			   .kind = &pace_events[PACE_OVERHELD_EVENT],
			   .subject = subject,
			   .qp = key,
			   .seen = json_pack("{s:s, s:I, s:I, s:I}", "class", class->name,
					     "delay_ns", (json_int_t)law->delay_ns, "rate_bps",
					     (json_int_t)law->rate_Bps * 8, "paused_ns",
					     (json_int_t)law->paused_ns),
			   .expected = json_pack("{s:I}", "delay_max_ns",
						 (json_int_t) class->threshold_ns),
		   });
}

static void pace_tick(void *self, uint64_t now_ns)
{
	struct pace *pace = self;
	uint32_t floors = paths_floors(pace->paths);
	uint32_t flags = __atomic_load_n(&pace->control->flags, __ATOMIC_SEQ_CST);

	/* Flags that were written from outside: the programs obey at once, and it stays so. */
	if (pace->control->pace_ports &&
	    (flags & (ESC_CONTROL_PACE | ESC_CONTROL_OFF)) != ESC_CONTROL_PACE) {
		pace->wanted = 0;
		write_ports(pace);
		report_mode(pace, "map");
	}
	poll_clock(pace);
	/* The programs read a path's floor with a flow's first packet of a generation. */
	if (pace->wanted && floors != pace->floors) {
		pace->floors = floors;
		pace_next_generation(pace);
	}
	/* Once nothing that was held can still wait in fq, the flag is cleared. */
	if (!pace->control->pace_ports && now_ns - pace->ended_local_ns >= ESC_PACE_HOLD_MAX_NS &&
	    pace->control->flags & ESC_CONTROL_PACE)
		__atomic_and_fetch(&pace->control->flags, ~ESC_CONTROL_PACE, __ATOMIC_SEQ_CST);
	if (pace->wanted && now_ns - pace->ports_local_ns >= PACE_PORTS_NS)
		pace_poll_ports(pace, now_ns);
	else if (pace->count > PACE_FLOWS_FAST)
		return;
	if ((!pace->wanted && !pace->count) || pace_read_flows(pace, now_ns))
		return;
	pace_assign_flows(pace);
	for (size_t i = 0; i < pace->count; i++)
		poll_flow(pace, &pace->flows[i], now_ns);
}

/* --- modes --- */

static void apply_ports(struct pace *pace, uint16_t wanted, const char *by)
{
	bool changed = wanted != pace->wanted;

	pace->wanted = wanted;
	pace_poll_ports(pace, time_local_ns());
	write_ports(pace);
	if (changed)
		report_mode(pace, by);
}

/* Each named interface has to be able; of all, one. */
static int check_able(struct pace *pace, uint16_t ports, bool named, char **error)
{
	const char *why = "no interface is served";
	unsigned int able = 0, unable = 0;
	int err = rtnl_need(error);

	if (err)
		return err;
	read_ports(pace, time_local_ns());
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

int pace_set_mode(void *self, bool on, const json_t *interfaces, const char *by, char **error)
{
	struct pace *pace = self;
	uint16_t ports;
	int err = dataplane_ports_named(pace->dataplane, interfaces, &ports, error);

	if (!err && on)
		err = config_check_control(pace->core->config, "pacing", error);
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
	json_t *names = json_pack("[s]", interface);
	uint16_t ports;
	int err = dataplane_ports_named(pace->dataplane, names, &ports, error);

	json_decref(names);
	if (!err)
		err = dataplane_set_fq(pace->dataplane, interface, on, error);
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
		wanted = pace_keys(config)->on ? dataplane_ports_all(pace->dataplane) : 0;
	pace_load_classes(pace);
	if (!dataplane_is_off(pace->dataplane))
		apply_ports(pace, wanted, "configuration");
	pace_publish(pace);
}

static const char *pace_controls(const void *self, const struct config *new)
{
	const struct pace *pace = self;
	bool now = pace_keys(new)->on;
	bool on = now != pace_keys(pace->core->config)->on ? now : pace->wanted != 0;

	return on ? "pacing, which is on (`escapement pace off` ends it)," : NULL;
}

/* --- from start to end --- */

void pace_follow(struct pace *pace, const struct pace_follower *follower, void *self)
{
	pace->follower = follower;
	pace->follower_context = self;
}

static int pace_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct pace *pace = calloc(1, sizeof(*pace));
	struct esc_qp_key key;

	if (!pace)
		return explain(error, -ENOMEM, "pacing: out of memory");
	pace->core = core;
	pace->dataplane = needs[0];
	pace->clock = needs[1];
	pace->qps = needs[2];
	pace->delays = needs[3];
	pace->paths = needs[4];
	pace->clock_lost = true; /* until the first tick */
	pace->control = dataplane_control(pace->dataplane);
	pace->flows_fd = dataplane_map_fd(pace->dataplane, "qp_pace");
	pace->rules_fd = dataplane_map_fd(pace->dataplane, "pace_rules");
	pace->assigned_fd = dataplane_map_fd(pace->dataplane, "pace_assigned");
	pace->ctl_fd = dataplane_map_fd(pace->dataplane, "pace");
	/* Assignments of an earlier daemon end. Bounded: others could be writing the map. */
	for (int i = 0; i < 2 * ESC_PACE_ASSIGNED_MAX; i++) {
		if (bpf_map_get_next_key(pace->assigned_fd, NULL, &key))
			break;
		bpf_map_delete_elem(pace->assigned_fd, &key);
	}
	pace_load_classes(pace);
	if (pace_keys(core->config)->on && !dataplane_is_off(pace->dataplane))
		pace->wanted = dataplane_ports_all(pace->dataplane);
	pace_poll_ports(pace, time_local_ns());
	pace_publish(pace);
	write_ports(pace);
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
	return ((const struct pace *)self)->wanted;
}

static const struct capability_mode pace_mode = {"pace", mode_ports, pace_set_mode};

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
	.controls = pace_controls,
	.off = pace_off,
	.qp = pace_put,
	.write_metrics = pace_write_metrics,
};
