// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "net/rtnl.h"

#define DATAPLANE_TICK_NS 1000000000ull
#define SHOWN_NS 1000000000ull

struct dataplane {
	struct pins *pins;
	struct core *core;
	uint32_t control_flags; /* as last written or seen here */
	dataplane_visibility_fn *visibility;
	void *visibility_context;
	bool off;
	bool started; /* all that it attaches is attached */
	unsigned int count;
	struct port ports[ESC_PORTS_MAX];
	struct port_info *shown; /* by slot: what was read last */
};

/* --- what other modules read --- */

/* The port of that name; NULL: not served. */
static struct port *port_named(const struct dataplane *dataplane, const char *name)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (!strcmp(dataplane->ports[i].name, name))
			return (struct port *)&dataplane->ports[i];
	return NULL;
}

void dataplane_set_visibility(struct dataplane *dataplane, dataplane_visibility_fn *visibility,
			      void *context)
{
	dataplane->visibility = visibility;
	dataplane->visibility_context = context;
}

/* Sums over CPUs. */
static int port_counts(const struct dataplane *dataplane, unsigned int slot,
		       struct esc_port_counts *out)
{
	int err = bpfmap_sum(pins_map_fd(dataplane->pins, "port_counts"), slot, out, sizeof(*out));

	out->xdp_counted = 0; /* not a count */
	return err;
}

static const struct port *port_in(const struct dataplane *dataplane, unsigned int slot)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (dataplane->ports[i].slot == slot)
			return &dataplane->ports[i];
	return NULL;
}

int dataplane_port(const struct dataplane *dataplane, unsigned int slot, struct port_facts *out)
{
	const struct port *port = port_in(dataplane, slot);
	struct port_info *shown = &dataplane->shown[slot % ESC_PORTS_MAX];
	int err = port ? port_counts(dataplane, slot, &out->counts) : -ENODEV;

	if (err)
		return err;
	/* While RTNL is held, as it was read last. */
	if (strcmp(shown->name, port->name) ||
	    (time_local_ns() - shown->read_local_ns > SHOWN_NS && !rtnl_wait(CORE_RTNL_MS)))
		port_describe(port, &out->counts, shown);
	out->info = *shown;
	return 0;
}

unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < dataplane->count; i++) {
		struct port_facts *facts = &out[count];

		if (dataplane_port(dataplane, dataplane->ports[i].slot, facts))
			continue;
		if (dataplane->visibility)
			dataplane->visibility(dataplane->visibility_context, time_local_ns(),
					      &facts->info);
		count++;
	}
	return count;
}

uint16_t dataplane_ports_all(const struct dataplane *dataplane)
{
	uint16_t ports = 0;

	for (unsigned int i = 0; i < dataplane->count; i++)
		ports |= 1u << dataplane->ports[i].slot;
	return ports;
}

int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error)
{
	size_t i;
	json_t *name;

	*ports = json_array_size(names) ? 0 : dataplane_ports_all(dataplane);
	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);
		const struct port *port = text ? port_named(dataplane, text) : NULL;

		if (!port || *ports >> port->slot & 1)
			return explain(error, -ENODEV,
				       "`%.15s` is not served here, or named twice; `escapement "
				       "status` lists the interfaces",
				       text ? text : "?");
		*ports |= 1u << port->slot;
	}
	return 0;
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	const struct port *port = port_in(dataplane, index);

	return port ? port->name : NULL;
}

const char *dataplane_lacks(const struct dataplane *dataplane, const char *interface)
{
	const struct port *port = port_named(dataplane, interface);

	if (!port || !port->ifindex || port->record.xdp_mode == ESC_XDP_NONE)
		return "XDP program";
	return port->record.tc_via == ESC_TC_NONE ? "tc program" : NULL;
}

int dataplane_slot_of(const struct dataplane *dataplane, const char *interface)
{
	const struct port *port = port_named(dataplane, interface);

	return port ? (int)port->slot : -ENODEV;
}

int dataplane_set_fq(struct dataplane *dataplane, const char *interface, bool on, char **error)
{
	struct port *port = port_named(dataplane, interface);
	int err = port ? rtnl_need(error) : -ENODEV;

	return err ? err : on ? port_make_fq(port, error) : port_drop_fq(port, error);
}

int dataplane_reason(const struct dataplane *dataplane, enum esc_reason reason,
		     struct esc_reason_count *out)
{
	return bpfmap_sum(pins_map_fd(dataplane->pins, "reasons"), reason, out, sizeof(*out));
}

int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX])
{
	int err = 0;

	for (uint32_t i = 0; !err && i < ESC_REASON_MAX; i++)
		err = dataplane_reason(dataplane, i, &out[i]);
	return err;
}

struct esc_control *dataplane_control(const struct dataplane *dataplane)
{
	return dataplane->pins->control;
}

const struct pins *dataplane_pins(const struct dataplane *dataplane)
{
	return dataplane->pins;
}

int dataplane_map_fd(const struct dataplane *dataplane, const char *name)
{
	return pins_map_fd(dataplane->pins, name);
}

uint32_t dataplane_map_max(const struct dataplane *dataplane, const char *name)
{
	const struct pinned_map *map = pins_find(dataplane->pins, name);

	return map ? map->info.max_entries : 0;
}

/* --- which interface has which slot --- */

/* Closes the locks of those of @ports that @dataplane does not serve. */
static void unlock_ports(const struct dataplane *dataplane, const struct port *ports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!port_named(dataplane, ports[i].name))
			close(ports[i].lock_fd);
}

/*
 * Ports for @config, each locked (see unlock_ports()). At a start an interface may be missing: its
 * driver may be late, or its card dead. What a reload adds has to be there.
 */
static int lock_ports(const struct dataplane *dataplane, const struct config *config,
		      struct port *out, char **error)
{
	char names[512];
	size_t count = 0;
	int err = 0;

	for (; !err && count < config->interface_count; count += !err) {
		const struct config_interface *interface = &config->interfaces[count];
		const struct port *old = port_named(dataplane, interface->name);
		struct port *port = &out[count];

		*port = (struct port){
			.core = dataplane->core,
			.plane = interface->plane,
			.attach = interface->attach,
			.tc = interface->tc,
			.probe_port = interface->probe_port,
			.lab_offset_ns = config_lab_offset(config, interface->name),
			.lab_drift_ppb = (int32_t)config->lab.clock_drift_ppb,
		};
		snprintf(port->name, sizeof(port->name), "%s", interface->name);
		port->lock_fd = old ? old->lock_fd : port_lock(port->name, config, error);
		err = port->lock_fd < 0 ? port->lock_fd : 0;
	}
	for (size_t i = 0; !err && i < count; i++) {
		if (!dataplane->pins || port_named(dataplane, out[i].name) ||
		    !port_is_missing(&out[i]))
			continue;
		rtnl_link_names(names, sizeof(names));
		err = explain(error, -ENODEV,
			      "%s: interfaces: there is no interface %s; the ones here are %s",
			      config->path ? config->path : "the defaults", out[i].name, names);
	}
	if (err)
		unlock_ports(dataplane, out, count);
	return err;
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
		if (!port_counts(dataplane, slot, &counts) && !counts.rx_roce_packets &&
		    !counts.tx_roce_packets)
			free_slot = slot;
	}
	return free_slot;
}

/* Each of @ports gets its slot and its record in `ports`. */
static int assign_slots(const struct dataplane *dataplane, struct port *ports, size_t count,
			char **error)
{
	struct esc_port records[ESC_PORTS_MAX];
	void *zeros;
	int err;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		err = pins_read_port(dataplane->pins, slot, &records[slot]);
		if (err)
			return explain(error, err, "the map ports cannot be read: %s",
				       strerror(-err));
	}
	for (size_t i = 0; i < count; i++) {
		int slot = slot_find(dataplane, records, ports[i].name, ports, i);

		if (slot < 0)
			return explain(error, slot,
				       "no slot is free for interface %s: %d is the most",
				       ports[i].name, ESC_PORTS_MAX);
		ports[i].pins = dataplane->pins;
		ports[i].slot = slot;
		ports[i].record = records[slot];
		if (records[slot].name[0])
			continue;
		/* A slot of another interface starts from zero. */
		zeros = calloc(libbpf_num_possible_cpus(), sizeof(struct esc_port_counts));
		if (zeros)
			bpf_map_update_elem(pins_map_fd(dataplane->pins, "port_counts"), &slot,
					    zeros, BPF_ANY);
		free(zeros);
	}
	return 0;
}

/* Interfaces that `ports` names and the configuration does not (any more). */
static void drop_orphans(struct dataplane *dataplane)
{
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		struct port port = {
			.pins = dataplane->pins,
			.core = dataplane->core,
			.slot = slot,
		};

		if (pins_read_port(dataplane->pins, slot, &port.record) || !port.record.name[0] ||
		    dataplane_port_name(dataplane, slot))
			continue;
		snprintf(port.name, sizeof(port.name), "%s", port.record.name);
		port_detach(&port, "not configured");
		pins_write_port(dataplane->pins, slot, &(struct esc_port){});
	}
}

/* --- attaching, all that are there or none --- */

static int attach_all(struct dataplane *dataplane, char **error)
{
	bool was_attached[ESC_PORTS_MAX];
	int err = 0;

	for (unsigned int i = 0; !err && i < dataplane->count; i++) {
		was_attached[i] = port_is_attached(&dataplane->ports[i]);
		core_beat(dataplane->core);
		if (port_is_missing(&dataplane->ports[i]))
			port_lose(&dataplane->ports[i]);
		else
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
	struct esc_control *control = dataplane->pins->control;

	if (off)
		__atomic_or_fetch(&control->flags, ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	else
		__atomic_and_fetch(&control->flags, ~ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	dataplane->control_flags = control->flags;
}

static uint32_t off_flag(const struct dataplane *dataplane)
{
	return __atomic_load_n(&dataplane->pins->control->flags, __ATOMIC_SEQ_CST) &
	       ESC_CONTROL_OFF;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	return dataplane->off || off_flag(dataplane);
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
	struct esc_control *control = dataplane->pins->control;

	__atomic_store_n(&control->sample_mask, to->sample_mask, __ATOMIC_RELAXED);
	__atomic_store_n(&control->receipts_max_pps, to->max_pps, __ATOMIC_RELAXED);
	__atomic_store_n(&control->delay_threshold_ns, threshold_ns, __ATOMIC_RELAXED);
	__atomic_and_fetch(&control->flags, ~off, __ATOMIC_SEQ_CST);
	__atomic_or_fetch(&control->flags, on, __ATOMIC_SEQ_CST);
}

/* --- maps of another release --- */

static void report_renewed(const struct dataplane *dataplane)
{
	const struct pins *pins = dataplane->pins;
	json_t *made = json_array(), *lost = json_array();

	for (size_t i = 0; i < pins->old_count; i++)
		json_array_append_new(pins->old[i].lost ? lost : made,
				      json_string(pins->old[i].name));
	if (pins->old_count) {
		log_info("%zu maps of version %s have another layout and are made again",
			 pins->old_count, pins->old_version);
		events_add(dataplane->core->events,
			   &(struct event){
				   .kind = &dataplane_events[MAPS_RENEWED],
				   .subject = pins->root,
				   .seen = json_pack("{s:s}", "version", pins->old_version),
				   .done = json_pack("{s:O, s:O}", "maps", made, "lost", lost)});
	}
	json_decref(made);
	json_decref(lost);
}

/* --- from open to close --- */

static void dataplane_close(void *self)
{
	struct dataplane *dataplane = self;

	core_heartbeat_start(dataplane->core, NULL);
	if (dataplane->started)
		pins_settle(dataplane->pins, true);
	pins_close(dataplane->pins);
	for (unsigned int i = 0; i < dataplane->count; i++)
		close(dataplane->ports[i].lock_fd);
	free(dataplane->shown);
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
	dataplane->shown = calloc(ESC_PORTS_MAX, sizeof(*dataplane->shown));
	if (!dataplane->shown) {
		free(dataplane);
		return -ENOMEM;
	}
	bpflog_install();
	err = lock_ports(dataplane, config, dataplane->ports, error);
	if (err)
		goto fail;
	dataplane->count = config->interface_count;
	err = pins_open(&dataplane->pins, config->pin_root, config->qps.max, error);
	if (!err)
		err = assign_slots(dataplane, dataplane->ports, dataplane->count, error);
	if (err)
		goto fail;

	/* Before our first beat: what ended without a heartbeat does not begin again with it. */
	control = dataplane->pins->control;
	if (time_local_ns() - control->heartbeat_local_ns >= ESC_HEARTBEAT_TIMEOUT_NS)
		__atomic_and_fetch(&control->flags, ~(ESC_CONTROL_STEER | ESC_CONTROL_PACE),
				   __ATOMIC_SEQ_CST);
	err = core_heartbeat_start(core, (uint64_t *)&control->heartbeat_local_ns);
	if (err < 0)
		goto fail;
	write_receipts(dataplane, &config->receipts);
	err = core_begin_start(core, error);
	if (!err)
		err = attach_at_start(dataplane, config->kill_file, error);
	if (err)
		goto fail;
	drop_orphans(dataplane);
	pins_settle(dataplane->pins, false);
	report_renewed(dataplane);
	dataplane->control_flags = off_flag(dataplane);
	core->is_off = dataplane_is_off;
	core->dataplane = dataplane;
	core->took_over = dataplane->pins->were_there;
	dataplane->started = true;
	*self = dataplane;
	return 0;
fail:
	if (dataplane->pins && !dataplane->pins->were_there)
		pins_remove(dataplane->pins, NULL);
	dataplane_close(dataplane);
	return err;
}

static bool port_is_as_configured(const struct port *old, const struct port *new)
{
	return old->attach == new->attach && old->tc == new->tc && old->plane == new->plane &&
	       old->probe_port == new->probe_port && old->lab_offset_ns == new->lab_offset_ns;
}

/* Goes back to the ports in force; those that were new are detached. */
static void undo_ports(struct dataplane *dataplane, struct port *changed, unsigned int count)
{
	char *error = NULL;

	for (unsigned int i = 0; i < count; i++) {
		struct port *old = port_named(dataplane, changed[i].name);

		if (!old) {
			port_detach(&changed[i], "configuration refused");
			pins_write_port(dataplane->pins, changed[i].slot, &(struct esc_port){});
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
	struct port ports[ESC_PORTS_MAX], before[ESC_PORTS_MAX];
	size_t count = config->interface_count, count_before;
	struct dataplane *dataplane = self;
	int err = lock_ports(dataplane, config, ports, error);

	if (err)
		return err;
	err = assign_slots(dataplane, ports, count, error);
	for (size_t i = 0; !err && i < count; i++) {
		const struct port *old = port_named(dataplane, ports[i].name);

		if (old && port_is_as_configured(old, &ports[i])) {
			ports[i] = *old;
			continue;
		}
		if (old)
			memcpy(ports[i].below, old->below, sizeof(old->below));
		core_beat(dataplane->core);
		if (!dataplane->off && !(old && port_is_missing(&ports[i])))
			err = port_attach(&ports[i], error);
		if (err)
			undo_ports(dataplane, ports, i + 1);
	}
	if (err) {
		unlock_ports(dataplane, ports, count);
		return err;
	}
	write_receipts(dataplane, &config->receipts);
	count_before = dataplane->count;
	memcpy(before, dataplane->ports, sizeof(before));
	memcpy(dataplane->ports, ports, sizeof(ports));
	dataplane->count = count;
	for (size_t i = 0; i < count_before; i++) {
		if (!before[i].below[0] || port_named(dataplane, before[i].name))
			continue;
		before[i].below[0] = '\0';
		port_report_stacked(&before[i]);
	}
	drop_orphans(dataplane);
	unlock_ports(dataplane, before, count_before);
	return 0;
}

/* What is shown next is of now. */
static void read_again(const struct dataplane *dataplane)
{
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		dataplane->shown[slot].read_local_ns = 0;
}

/* Re-attaches after a NIC returned. */
static void watch_ports(struct dataplane *dataplane)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		port_tick(&dataplane->ports[i], dataplane->off, time_local_ns());
	stack_watch(dataplane->ports, dataplane->count);
}

static void dataplane_links_changed(void *self)
{
	watch_ports(self);
	read_again(self);
}

static void dataplane_tick(void *self, uint64_t now_local_ns)
{
	struct dataplane *dataplane = self;

	(void)now_local_ns;
	pins_settle(dataplane->pins, true); /* each module has replaced its programs by now */
	watch_control(dataplane);
	write_receipts(dataplane, &dataplane->core->config->receipts);
	if (!rtnl_wait(CORE_RTNL_MS))
		watch_ports(dataplane);
}

/* Whether its maps can be read. */
static int dataplane_refresh(void *self)
{
	struct esc_reason_count reasons[ESC_REASON_MAX];
	const struct dataplane *dataplane = self;
	struct esc_port_counts counts;
	int err = dataplane_reasons(dataplane, reasons);

	for (unsigned int i = 0; !err && i < dataplane->count; i++)
		err = port_counts(dataplane, dataplane->ports[i].slot, &counts);
	return err;
}

static void dataplane_status(void *self, json_t *status)
{
	struct esc_reason_count counts[ESC_REASON_MAX];
	const struct dataplane *dataplane = self;
	struct port_facts ports[ESC_PORTS_MAX];
	json_t *list = json_array(), *one;
	unsigned int count;

	read_again(dataplane); /* an operator may have changed something just now */
	count = dataplane_read_ports(dataplane, ports);
	for (unsigned int i = 0; i < count; i++) {
		one = port_json(&ports[i].info, &ports[i].counts);
		json_put(one, "mode", core_mode(dataplane->core, (int)ports[i].info.index));
		json_array_append_new(list, one);
	}
	json_put(status, "interfaces", list);
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
