// SPDX-License-Identifier: BSD-2-Clause
#include "dataplane.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"
#include "net/rtnl.h"

#define DATAPLANE_TICK_NS 1000000000ull

/* --- which interface has which slot --- */

static int check_interfaces(const struct config *config, char **error)
{
	const char *path = config->path ? config->path : "the defaults";
	struct link_facts link;
	char names[512];

	if (config->interface_count > ESC_PORTS_MAX)
		return explain(error, -E2BIG, "%s: interfaces: %zu are named, %d is the most", path,
			       config->interface_count, ESC_PORTS_MAX);
	for (size_t i = 0; i < config->interface_count; i++) {
		const char *name = config->interfaces[i].name;

		if (rtnl_link(name, &link) != -ENODEV)
			continue;
		rtnl_link_names(names, sizeof(names));
		return explain(error, -ENODEV,
			       "%s: interfaces: there is no interface %s; the ones here are %s",
			       path, name, names);
	}
	return 0;
}

/* The slot that has @name, else one that was never used, else a free one. */
static int slot_find(const struct dataplane *dataplane, const struct esc_port *records,
		     const char *name, const struct port *taken, unsigned int count)
{
	int free_slot = -ENOSPC;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (!strcmp(records[slot].name, name))
			return slot;
	for (unsigned int slot = ESC_PORTS_MAX; slot-- > 0;) {
		struct esc_port_counts counts;
		bool used = records[slot].name[0];

		for (unsigned int i = 0; i < count; i++)
			used = used || taken[i].slot == slot;
		if (used)
			continue;
		if (free_slot < 0)
			free_slot = slot;
		if (!dataplane_port_counts(dataplane, slot, &counts) && !counts.rx_roce_packets &&
		    !counts.tx_roce_packets)
			free_slot = slot;
	}
	return free_slot;
}

/* A slot of another interface starts from zero. */
static void slot_clear_counts(const struct dataplane *dataplane, unsigned int slot)
{
	void *zeros = calloc(libbpf_num_possible_cpus(), sizeof(struct esc_port_counts));

	if (zeros)
		bpf_map_update_elem(pins_map_fd(dataplane->pins, "port_counts"), &slot, zeros,
				    BPF_ANY);
	free(zeros);
}

/* Ports for @config, each with its slot and its record in `ports`. */
static int plan_ports(const struct dataplane *dataplane, const struct config *config,
		      struct port *out, char **error)
{
	struct esc_port records[ESC_PORTS_MAX];
	int err = check_interfaces(config, error);

	if (err)
		return err;
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		err = pins_read_port(dataplane->pins, slot, &records[slot]);
		if (err)
			return explain(error, err, "the map ports cannot be read: %s",
				       strerror(-err));
	}
	for (size_t i = 0; i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];
		int slot = slot_find(dataplane, records, interface->name, out, i);

		if (slot < 0)
			return explain(error, slot,
				       "no slot is free for interface %s: %d is the most",
				       interface->name, ESC_PORTS_MAX);
		if (!records[slot].name[0])
			slot_clear_counts(dataplane, slot);
		out[i] = (struct port){
			.pins = dataplane->pins,
			.events = dataplane->core->events,
			.plane = interface->plane,
			.attach = interface->attach,
			.tc = interface->tc,
			.probe_port = interface->probe_port,
			.lab_offset_ns = config->lab.clock_offset_ns,
			.lab_drift_ppb = (int32_t)config->lab.clock_drift_ppb,
			.slot = slot,
			.record = records[slot],
		};
		snprintf(out[i].name, sizeof(out[i].name), "%s", interface->name);
	}
	return 0;
}

static void free_slot(const struct dataplane *dataplane, unsigned int slot)
{
	struct esc_port empty = {0};

	pins_write_port(dataplane->pins, slot, &empty);
}

/* Interfaces that `ports` names and the configuration does not (any more). */
static void drop_orphans(struct dataplane *dataplane)
{
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		struct port port = {
			.pins = dataplane->pins,
			.events = dataplane->core->events,
			.slot = slot,
		};

		if (pins_read_port(dataplane->pins, slot, &port.record) || !port.record.name[0] ||
		    dataplane_port_name(dataplane, slot))
			continue;
		snprintf(port.name, sizeof(port.name), "%s", port.record.name);
		port_detach(&port, "not configured");
		free_slot(dataplane, slot);
	}
}

/* --- attaching, all or nothing --- */

static int attach_all(struct dataplane *dataplane, char **error)
{
	bool was_attached[ESC_PORTS_MAX];
	int err = 0;

	for (unsigned int i = 0; !err && i < dataplane->count; i++) {
		was_attached[i] = port_is_attached(&dataplane->ports[i]);
		core_beat(dataplane->core);
		err = port_attach(&dataplane->ports[i], error);
		for (unsigned int j = 0; err && j < i; j++)
			if (!was_attached[j])
				port_detach(&dataplane->ports[j], "another interface failed");
	}
	return err;
}

/* --- the kill switch --- */

static void set_flag(struct dataplane *dataplane, bool off)
{
	struct esc_control *control = pins_control(dataplane->pins);

	if (off)
		__atomic_or_fetch(&control->flags, ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	else
		__atomic_and_fetch(&control->flags, ~ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	dataplane->control_flags = control->flags;
}

static uint32_t off_flag(const struct dataplane *dataplane)
{
	return __atomic_load_n(&pins_control(dataplane->pins)->flags, __ATOMIC_SEQ_CST) &
	       ESC_CONTROL_OFF;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	return dataplane->off || off_flag(dataplane);
}

static bool is_off(void *context)
{
	return dataplane_is_off(context);
}

static int dataplane_off(void *self, const char *by, char **error)
{
	struct dataplane *dataplane = self;

	(void)by;
	(void)error;
	set_flag(dataplane, true);
	dataplane->off = true;
	for (unsigned int i = 0; i < dataplane->count; i++)
		port_detach(&dataplane->ports[i], "off");
	return 0;
}

static int dataplane_on(void *self, char **error)
{
	struct dataplane *dataplane = self;
	int err = dataplane->off ? attach_all(dataplane, error) : 0;

	if (err)
		return err;
	dataplane->off = false;
	set_flag(dataplane, false); /* all begin to count at once */
	return 0;
}

/*
 * The kill file keeps it over a restart. The flag without the file was set by an operator if
 * programs are still attached: it stays. If they are not, it is left over from an `off` whose file
 * has been removed since.
 */
static int attach_at_start(struct dataplane *dataplane, const char *kill_file, char **error)
{
	bool attached = false, flag = off_flag(dataplane);
	int err;

	if (!access(kill_file, F_OK)) {
		log_warning(
			"the kill switch is on (%s exists): nothing is attached; `escapement mode "
			"observe` ends it",
			kill_file);
		return dataplane_off(dataplane, "file", error);
	}
	for (unsigned int i = 0; i < dataplane->count; i++)
		attached = attached || port_is_attached(&dataplane->ports[i]);
	if (flag && attached)
		log_warning(
			"the kill switch is on (set in the map control): packets are left alone; "
			"`escapement mode observe` ends it");
	err = attach_all(dataplane, error);
	if (!err && flag && !attached)
		set_flag(dataplane, false);
	return err;
}

/* control.flags written by bpftool: the programs follow at once, it is reported here. */
static void watch_control(struct dataplane *dataplane)
{
	uint32_t flags = off_flag(dataplane);

	if (!((flags ^ dataplane->control_flags) & ESC_CONTROL_OFF))
		return;
	dataplane->control_flags = flags;
	log_warning("the map control was written by another program: kill switch %s",
		    flags ? "on, the programs pass every packet unchanged" : "off");
	core_record_kill_switch(dataplane->core, flags, "map",
				json_pack("{s:I}", "flags", (json_int_t)flags));
}

/* --- receipts --- */

/* Every second as well: a program that writes `control` as a whole overwrites these too. */
static void write_receipts(const struct dataplane *dataplane, const struct config_receipts *to)
{
	uint32_t on = (to->on ? ESC_CONTROL_RECEIPTS : 0) |
		      (to->sample_fixed ? ESC_CONTROL_SAMPLE_FIXED : 0);
	uint32_t off = (ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED) & ~on;
	uint32_t threshold_ns =
		to->threshold_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)to->threshold_ns;
	struct esc_control *control = pins_control(dataplane->pins);

	__atomic_store_n(&control->sample_mask, to->sample_mask, __ATOMIC_RELAXED);
	__atomic_store_n(&control->receipts_max_pps, to->max_pps, __ATOMIC_RELAXED);
	__atomic_store_n(&control->delay_threshold_ns, threshold_ns, __ATOMIC_RELAXED);
	__atomic_and_fetch(&control->flags, ~off, __ATOMIC_SEQ_CST);
	__atomic_or_fetch(&control->flags, on, __ATOMIC_SEQ_CST);
}

/* --- from open to close --- */

static void dataplane_close(void *self)
{
	struct dataplane *dataplane = self;

	core_heartbeat_start(dataplane->core, NULL);
	pins_close(dataplane->pins);
	locks_free(dataplane->locks);
	free(dataplane);
}

/* Everything that may be refused without a trace comes before the first map is created. */
static int dataplane_open(void **self, struct core *core, void *const needs[], char **error)
{
	const struct config *config = core->config;
	struct dataplane *dataplane;
	struct esc_control *control;
	int err = preflight_check(error);

	(void)needs;
	if (err)
		return err;
	dataplane = calloc(1, sizeof(*dataplane));
	if (!dataplane)
		return -ENOMEM;
	dataplane->core = core;
	bpflog_install();
	err = locks_take(&dataplane->locks, NULL, config, error);
	if (!err)
		err = check_interfaces(config, error);
	if (!err)
		err = pins_open(&dataplane->pins, config->pin_root, config->qps.max, error);
	if (!err)
		err = plan_ports(dataplane, config, dataplane->ports, error);
	if (err)
		goto fail;
	dataplane->count = config->interface_count;

	/* Before our first beat: what ended with a daemon's silence does not begin again with it. */
	control = pins_control(dataplane->pins);
	if (time_local_ns() - control->heartbeat_local_ns >= ESC_HEARTBEAT_TIMEOUT_NS)
		__atomic_and_fetch(&control->flags, ~(ESC_CONTROL_STEER | ESC_CONTROL_PACE),
				   __ATOMIC_SEQ_CST);
	err = core_heartbeat_start(core, (uint64_t *)&control->heartbeat_local_ns);
	if (err < 0)
		goto fail;
	write_receipts(dataplane, &config->receipts);
	err = attach_at_start(dataplane, config->kill_file, error);
	if (err)
		goto fail;
	drop_orphans(dataplane);
	dataplane->control_flags = off_flag(dataplane);
	core->is_off = is_off;
	core->is_off_context = dataplane;
	core->took_over = pins_were_there(dataplane->pins);
	*self = dataplane;
	return 0;
fail:
	if (dataplane->pins && !pins_were_there(dataplane->pins))
		pins_remove(dataplane->pins, NULL);
	dataplane_close(dataplane);
	return err;
}

static bool port_is_as_configured(const struct port *old, const struct port *new)
{
	return old->attach == new->attach && old->tc == new->tc && old->plane == new->plane &&
	       old->probe_port == new->probe_port;
}

/* Goes back to the ports in force; those that were new are detached. */
static void undo_ports(struct dataplane *dataplane, struct port *changed, unsigned int count)
{
	char *error = NULL;

	for (unsigned int i = 0; i < count; i++) {
		struct port *old = (struct port *)dataplane_find(dataplane, changed[i].name);

		if (!old) {
			port_detach(&changed[i], "configuration refused");
			free_slot(dataplane, changed[i].slot);
		} else if (!port_is_as_configured(old, &changed[i])) {
			old->record = changed[i].record;
			if (port_attach(old, &error))
				log_error("%s", error ? error : old->name);
		}
	}
	free(error);
}

static int dataplane_accept(void *self, const struct config *config, char **error)
{
	struct port ports[ESC_PORTS_MAX];
	struct dataplane *dataplane = self;
	struct locks *locks;
	int err = locks_take(&locks, dataplane->locks, config, error);

	if (err)
		return err;
	err = plan_ports(dataplane, config, ports, error);
	for (size_t i = 0; !err && i < config->interface_count; i++) {
		const struct port *old = dataplane_find(dataplane, ports[i].name);

		if (old && port_is_as_configured(old, &ports[i])) {
			ports[i] = *old;
			continue;
		}
		core_beat(dataplane->core);
		if (!dataplane->off)
			err = port_attach(&ports[i], error);
		if (err)
			undo_ports(dataplane, ports, i + 1);
	}
	if (err) {
		locks_free(locks);
		return err;
	}
	write_receipts(dataplane, &config->receipts);
	memcpy(dataplane->ports, ports, sizeof(ports));
	dataplane->count = config->interface_count;
	drop_orphans(dataplane);
	locks_replace(&dataplane->locks, locks);
	return 0;
}

/* Links that came or went; re-attaches after a NIC returned. */
static void dataplane_links_changed(void *self)
{
	struct dataplane *dataplane = self;

	for (unsigned int i = 0; i < dataplane->count; i++)
		port_tick(&dataplane->ports[i], dataplane->off, time_local_ns());
}

static void dataplane_tick(void *self, uint64_t now_local_ns)
{
	struct dataplane *dataplane = self;

	(void)now_local_ns;
	watch_control(dataplane);
	write_receipts(dataplane, &dataplane->core->config->receipts);
	dataplane_links_changed(dataplane);
}

/* Whether its maps can be read. */
static int dataplane_refresh(void *self)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	const struct dataplane *dataplane = self;
	struct esc_port_counts counts;
	int err = dataplane_reasons(dataplane, reasons);

	for (unsigned int i = 0; !err && i < dataplane->count; i++)
		err = dataplane_port_counts(dataplane, dataplane->ports[i].slot, &counts);
	return err;
}

static void dataplane_status(void *self, json_t *status)
{
	struct esc_reason_count counts[ESC_REASON_MAX];
	const struct dataplane *dataplane = self;

	json_put(status, "interfaces", dataplane_interfaces_json(dataplane, dataplane->core));
	if (!dataplane_reasons(dataplane, counts))
		json_put(status, "reasons", reasons_json(counts));
}

const struct capability dataplane_capability = {
	.name = "dataplane",
	.events = dataplane_events,
	.metrics = dataplane_metrics,
	.open = dataplane_open,
	.close = dataplane_close,
	.tick_ns = DATAPLANE_TICK_NS,
	.tick = dataplane_tick,
	.accept = dataplane_accept,
	.off = dataplane_off,
	.on = dataplane_on,
	.refresh = dataplane_refresh,
	.links_changed = dataplane_links_changed,
	.status = dataplane_status,
	.write_metrics = dataplane_write_metrics,
};
