// SPDX-License-Identifier: BSD-2-Clause
#include "dataplane.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"
#include "bpflog.h"
#include "base/explain.h"
#include "base/log.h"
#include "pins.h"
#include "port.h"
#include "lock.h"
#include "internal.h"
#include "net/rtnl.h"

struct dataplane {
	struct pins *pins;
	struct core *core;
	struct events *events; /* of @core */
	struct locks *locks;
	uint32_t control_flags; /* as last written or seen here */
	dataplane_visibility_fn *visibility;
	void *visibility_context;
	bool off;
	bool clear_flag; /* once all is attached */
	int cpus;
	uint32_t sampling; /* of ESC_CONTROL_RECEIPTS and _SAMPLE_FIXED: those that are to be set */
	uint32_t sample_mask, receipts_max_pps, delay_threshold_ns;
	unsigned int count;
	struct port ports[ESC_PORTS_MAX];
};

/* Before our first beat: what ended with a daemon's silence does not begin again with it. */
static void dataplane_end_steering(struct dataplane *dataplane)
{
	struct esc_control *control = pins_control(dataplane->pins);

	if (time_local_ns() - control->heartbeat_local_ns >= ESC_HEARTBEAT_TIMEOUT_NS)
		__atomic_and_fetch(&control->flags, ~(ESC_CONTROL_STEER | ESC_CONTROL_PACE),
				   __ATOMIC_SEQ_CST);
}

/* --- which interface has which slot --- */

static int dataplane_check_interfaces(const struct config *config, char **error)
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

static bool slot_is_used(const struct esc_port records[ESC_PORTS_MAX], unsigned int slot,
			 const struct port *taken, unsigned int count)
{
	if (records[slot].name[0])
		return true;
	for (unsigned int i = 0; i < count; i++)
		if (taken[i].slot == slot)
			return true;
	return false;
}

/* The slot that has @name, else one that nobody ever used, else a free one. */
static int slot_find(const struct dataplane *dataplane, const struct esc_port *records,
		     const char *name, const struct port *taken, unsigned int count)
{
	int free_slot = -ENOSPC;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++)
		if (!strcmp(records[slot].name, name))
			return slot;
	for (unsigned int slot = ESC_PORTS_MAX; slot-- > 0;) {
		struct esc_port_counts counts;

		if (slot_is_used(records, slot, taken, count))
			continue;
		if (free_slot < 0)
			free_slot = slot;
		if (dataplane_port_counts(dataplane, slot, &counts))
			continue;
		if (!counts.rx_roce_packets && !counts.tx_roce_packets)
			free_slot = slot;
	}
	return free_slot;
}

/* A slot that changes hands starts from zero. */
static void slot_clear_counts(const struct dataplane *dataplane, unsigned int slot)
{
	void *zeros = calloc(dataplane->cpus, sizeof(struct esc_port_counts));

	if (zeros)
		bpf_map_update_elem(pins_map_fd(dataplane->pins, "port_counts"), &slot, zeros,
				    BPF_ANY);
	free(zeros);
}

static int dataplane_read_records(const struct dataplane *dataplane,
				  struct esc_port records[ESC_PORTS_MAX], char **error)
{
	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		int err = pins_read_port(dataplane->pins, slot, &records[slot]);

		if (err)
			return explain(error, err, "the map ports cannot be read: %s",
				       strerror(-err));
	}
	return 0;
}

/* Ports for @config, each with its slot and what `ports` says of it. */
static int dataplane_plan(const struct dataplane *dataplane, const struct config *config,
			  struct port *out, char **error)
{
	struct esc_port records[ESC_PORTS_MAX];
	int err = dataplane_read_records(dataplane, records, error);

	for (size_t i = 0; !err && i < config->interface_count; i++) {
		const struct config_interface *interface = &config->interfaces[i];
		int slot = slot_find(dataplane, records, interface->name, out, i);

		if (slot < 0)
			return explain(error, slot,
				       "no slot is free for interface %s: %d is the most",
				       interface->name, ESC_PORTS_MAX);
		if (!records[slot].name[0])
			slot_clear_counts(dataplane, slot);
		port_init(&out[i], config, interface, slot, &records[slot]);
	}
	return err;
}

static void dataplane_free_slot(struct dataplane *dataplane, unsigned int slot)
{
	struct esc_port empty = {0};

	pins_write_port(dataplane->pins, slot, &empty);
}

/* Interfaces that `ports` names and the configuration does not (any more). */
static void dataplane_drop_orphans(struct dataplane *dataplane)
{
	struct esc_port record;

	for (unsigned int slot = 0; slot < ESC_PORTS_MAX; slot++) {
		struct config_interface interface = {.name = record.name};
		bool known = false;
		struct port port;

		if (pins_read_port(dataplane->pins, slot, &record) || !record.name[0])
			continue;
		for (unsigned int i = 0; i < dataplane->count; i++)
			known = known || dataplane->ports[i].slot == slot;
		if (known)
			continue;
		port_init(&port, NULL, &interface, slot, &record);
		port_detach(&port, dataplane->pins, dataplane->events, "not configured");
		dataplane_free_slot(dataplane, slot);
	}
}

/* --- attaching, all or nothing --- */

static int dataplane_attach_all(struct dataplane *dataplane, char **error)
{
	bool was_attached[ESC_PORTS_MAX];
	int err = 0;

	for (unsigned int i = 0; !err && i < dataplane->count; i++) {
		was_attached[i] = port_is_attached(&dataplane->ports[i]);
		core_beat(dataplane->core);
		err = port_attach(&dataplane->ports[i], dataplane->pins, dataplane->events, error);
		for (unsigned int j = 0; err && j < i; j++)
			if (!was_attached[j])
				port_detach(&dataplane->ports[j], dataplane->pins,
					    dataplane->events, "another interface failed");
	}
	return err;
}

static void dataplane_detach_all(struct dataplane *dataplane, const char *why)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		port_detach(&dataplane->ports[i], dataplane->pins, dataplane->events, why);
}

static void dataplane_set_flag(struct dataplane *dataplane, bool off)
{
	struct esc_control *control = pins_control(dataplane->pins);

	if (off)
		__atomic_or_fetch(&control->flags, ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	else
		__atomic_and_fetch(&control->flags, ~ESC_CONTROL_OFF, __ATOMIC_SEQ_CST);
	dataplane->control_flags = control->flags;
}

uint32_t dataplane_control_flags(const struct dataplane *dataplane)
{
	return __atomic_load_n(&pins_control(dataplane->pins)->flags, __ATOMIC_SEQ_CST) &
	       ESC_CONTROL_OFF;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	return dataplane->off || (dataplane_control_flags(dataplane) & ESC_CONTROL_OFF);
}

int dataplane_off(struct dataplane *dataplane, char **error)
{
	(void)error;
	dataplane_set_flag(dataplane, true);
	dataplane->off = true;
	dataplane_detach_all(dataplane, "off");
	return 0;
}

int dataplane_on(struct dataplane *dataplane, char **error)
{
	int err = dataplane->off ? dataplane_attach_all(dataplane, error) : 0;

	if (err)
		return err;
	dataplane->off = false;
	dataplane_set_flag(dataplane, false); /* all begin to count at once */
	return 0;
}

/* --- receipts --- */

static void dataplane_plan_receipts(struct dataplane *dataplane, const struct config *config)
{
	dataplane->sampling = (config->receipts.on ? ESC_CONTROL_RECEIPTS : 0) |
			      (config->receipts.sample_fixed ? ESC_CONTROL_SAMPLE_FIXED : 0);
	dataplane->sample_mask = config->receipts.sample_mask;
	dataplane->receipts_max_pps = config->receipts.max_pps;
	dataplane->delay_threshold_ns = config->receipts.threshold_ns > UINT32_MAX
						? UINT32_MAX
						: (uint32_t)config->receipts.threshold_ns;
}

/* Every second as well: whoever writes `control` whole takes these away too. */
static void dataplane_write_receipts(const struct dataplane *dataplane)
{
	const uint32_t all = ESC_CONTROL_RECEIPTS | ESC_CONTROL_SAMPLE_FIXED;
	struct esc_control *control = pins_control(dataplane->pins);

	__atomic_store_n(&control->sample_mask, dataplane->sample_mask, __ATOMIC_RELAXED);
	__atomic_store_n(&control->receipts_max_pps, dataplane->receipts_max_pps, __ATOMIC_RELAXED);
	__atomic_store_n(&control->delay_threshold_ns, dataplane->delay_threshold_ns,
			 __ATOMIC_RELAXED);
	__atomic_and_fetch(&control->flags, ~(all & ~dataplane->sampling), __ATOMIC_SEQ_CST);
	__atomic_or_fetch(&control->flags, dataplane->sampling, __ATOMIC_SEQ_CST);
}

/* --- the whole --- */

/*
 * What lasts over a restart is the kill file. The flag without the file was
 * set by an operator's hand if programs are still attached: it stays. If they
 * are not, it is the trace of an `off` whose file has been taken away since.
 */
static bool dataplane_starts_off(struct dataplane *dataplane, const struct config *config)
{
	bool attached = false;

	if (!access(config->kill_file, F_OK)) {
		log_warning(
			"the kill switch is on (%s exists): nothing is attached; `escapement mode "
			"observe` ends it",
			config->kill_file);
		return true;
	}
	for (unsigned int i = 0; i < dataplane->count; i++)
		attached = attached || port_is_attached(&dataplane->ports[i]);
	if (!(dataplane_control_flags(dataplane) & ESC_CONTROL_OFF))
		return false;
	if (attached)
		log_warning(
			"the kill switch is on (set in the map control): packets are left alone; "
			"`escapement mode observe` ends it");
	else
		dataplane->clear_flag = true;
	return false;
}

int dataplane_open(struct dataplane **out, struct core *core, struct locks *locks, char **error)
{
	const struct config *config = core->config;
	struct dataplane *dataplane;
	int err;

	*out = NULL;
	bpflog_install();
	err = dataplane_check_interfaces(config, error);
	if (err)
		return err;
	dataplane = calloc(1, sizeof(*dataplane));
	if (!dataplane)
		return -ENOMEM;
	dataplane->core = core;
	dataplane->events = core->events;
	dataplane->cpus = libbpf_num_possible_cpus();
	err = pins_open(&dataplane->pins, config->pin_root, config->qps.max, error);
	if (!err)
		err = dataplane_plan(dataplane, config, dataplane->ports, error);
	if (err)
		goto fail;
	dataplane_end_steering(dataplane);
	err = core_heartbeat_start(core, (uint64_t *)&pins_control(dataplane->pins)->heartbeat_local_ns);
	if (err < 0)
		goto fail;
	dataplane->count = config->interface_count;
	dataplane_plan_receipts(dataplane, config);
	dataplane_write_receipts(dataplane);
	if (dataplane_starts_off(dataplane, config))
		err = dataplane_off(dataplane, error);
	else
		err = dataplane_attach_all(dataplane, error);
	if (err)
		goto fail;
	if (dataplane->clear_flag)
		dataplane_set_flag(dataplane, false);
	dataplane_drop_orphans(dataplane);
	dataplane->locks = locks;
	dataplane->control_flags = dataplane_control_flags(dataplane);
	*out = dataplane;
	return 0;
fail:
	if (dataplane->pins && !pins_were_there(dataplane->pins))
		pins_remove(dataplane->pins, NULL);
	dataplane_close(dataplane);
	return err;
}

bool dataplane_took_over(const struct dataplane *dataplane)
{
	return pins_were_there(dataplane->pins);
}

static bool port_is_wanted_as_it_is(const struct port *old, const struct port *new)
{
	return !strcmp(old->name, new->name) && old->attach == new->attach && old->tc == new->tc &&
	       old->plane == new->plane && old->probe_port == new->probe_port;
}

static const struct port *dataplane_find(const struct dataplane *dataplane, const char *name)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (!strcmp(dataplane->ports[i].name, name))
			return &dataplane->ports[i];
	return NULL;
}

/* Goes back to the ports in force; those that were new are taken off. */
static void dataplane_undo(struct dataplane *dataplane, struct port *changed, unsigned int count)
{
	char *error = NULL;

	for (unsigned int i = 0; i < count; i++) {
		struct port *old = (struct port *)dataplane_find(dataplane, changed[i].name);

		if (!old) {
			port_detach(&changed[i], dataplane->pins, dataplane->events,
				    "configuration refused");
			dataplane_free_slot(dataplane, changed[i].slot);
		} else if (!port_is_wanted_as_it_is(old, &changed[i])) {
			old->record = changed[i].record;
			if (port_attach(old, dataplane->pins, dataplane->events, &error))
				log_error("%s", error ? error : old->name);
		}
	}
	free(error);
}

static int replace_ports(struct dataplane *dataplane, const struct config *config, char **error)
{
	struct port ports[ESC_PORTS_MAX];
	int err = dataplane_check_interfaces(config, error);

	if (!err)
		err = dataplane_plan(dataplane, config, ports, error);
	for (unsigned int i = 0; !err && i < config->interface_count; i++) {
		const struct port *old = dataplane_find(dataplane, ports[i].name);

		if (old && port_is_wanted_as_it_is(old, &ports[i])) {
			ports[i] = *old;
			continue;
		}
		core_beat(dataplane->core);
		if (!dataplane->off)
			err = port_attach(&ports[i], dataplane->pins, dataplane->events, error);
		if (err)
			dataplane_undo(dataplane, ports, i + 1);
	}
	if (err)
		return err;
	dataplane_plan_receipts(dataplane, config);
	dataplane_write_receipts(dataplane);
	memcpy(dataplane->ports, ports, sizeof(ports));
	dataplane->count = config->interface_count;
	dataplane_drop_orphans(dataplane);
	return 0;
}

int dataplane_reconfigure(struct dataplane *dataplane, const struct config *config, char **error)
{
	struct locks *locks;
	int err = locks_take(&locks, dataplane->locks, config, error);

	if (err)
		return err;
	err = replace_ports(dataplane, config, error);
	if (err)
		locks_free(locks);
	else
		locks_replace(&dataplane->locks, locks);
	return err;
}

void dataplane_close(struct dataplane *dataplane)
{
	if (!dataplane)
		return;
	core_heartbeat_start(dataplane->core, NULL);
	pins_close(dataplane->pins);
	locks_free(dataplane->locks);
	free(dataplane);
}

void dataplane_tick(struct dataplane *dataplane, uint64_t now_local_ns)
{
	dataplane_write_receipts(dataplane);
	for (unsigned int i = 0; i < dataplane->count; i++)
		port_tick(&dataplane->ports[i], dataplane->pins, dataplane->events, dataplane->off,
			  now_local_ns);
}

struct core *dataplane_core(const struct dataplane *dataplane)
{
	return dataplane->core;
}

/* control.flags written by bpftool: the programs follow at once, it is reported here. */
void dataplane_watch_control(struct dataplane *dataplane)
{
	uint32_t flags = dataplane_control_flags(dataplane);
	bool off = flags & ESC_CONTROL_OFF;

	if (!((flags ^ dataplane->control_flags) & ESC_CONTROL_OFF))
		return;
	dataplane->control_flags = flags;
	log_warning("the map control was written by another program: kill switch %s",
		    off ? "on, the programs pass every packet unchanged" : "off");
	core_record_kill_switch(dataplane->core, off, "map",
				json_pack("{s:I}", "flags", (json_int_t)flags));
}

/* --- facts --- */

void dataplane_set_visibility(struct dataplane *dataplane, dataplane_visibility_fn *visibility,
			      void *context)
{
	dataplane->visibility = visibility;
	dataplane->visibility_context = context;
}

unsigned int dataplane_read_ports(const struct dataplane *dataplane,
				  struct port_facts out[ESC_PORTS_MAX])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < dataplane->count && i < ESC_PORTS_MAX; i++) {
		struct port_facts *port = &out[count];

		if (dataplane_port(dataplane, i, &port->info))
			continue;
		if (dataplane->visibility)
			dataplane->visibility(dataplane->visibility_context, time_local_ns(),
					      &port->info);
		port->counted =
			!dataplane_port_counts(dataplane, port->info.index, &port->counts);
		count++;
	}
	return count;
}


unsigned int dataplane_port_count(const struct dataplane *dataplane)
{
	return dataplane->count;
}

uint16_t dataplane_ports_all(const struct dataplane *dataplane)
{
	struct port_info port;
	uint16_t ports = 0;

	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++)
		if (!dataplane_port(dataplane, i, &port))
			ports |= 1u << port.index;
	return ports;
}

int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error)
{
	struct port_info port;
	size_t i;
	json_t *name;

	*ports = json_array_size(names) ? 0 : dataplane_ports_all(dataplane);
	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);
		uint16_t before = *ports;

		for (unsigned int k = 0; text && k < dataplane_port_count(dataplane); k++)
			if (!dataplane_port(dataplane, k, &port) && !strcmp(port.name, text))
				*ports |= 1u << port.index;
		if (*ports == before)
			return explain(error, -ENODEV,
				       "`%.15s` is not served here, or named twice; `escapement "
				       "status` lists the interfaces",
				       text ? text : "?");
	}
	return 0;
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	for (unsigned int i = 0; i < dataplane->count; i++)
		if (dataplane->ports[i].slot == index)
			return dataplane->ports[i].name;
	return NULL;
}

int dataplane_port(const struct dataplane *dataplane, unsigned int i, struct port_info *out)
{
	struct esc_port_counts counts = {0};
	int err;

	if (i >= dataplane->count)
		return -EINVAL;
	err = dataplane_port_counts(dataplane, dataplane->ports[i].slot, &counts);
	if (err)
		return err;
	port_describe(&dataplane->ports[i], counts.rx_roce_packets + counts.tx_roce_packets, out);
	return 0;
}

/* Adds up @words 64-bit words of entry @index over all CPUs. */
static int dataplane_sum(const struct dataplane *dataplane, const char *map, uint32_t index,
			 uint64_t *out, size_t words)
{
	uint64_t *values = calloc((size_t)dataplane->cpus * words, sizeof(*values));
	int err;

	if (!values)
		return -ENOMEM;
	memset(out, 0, words * sizeof(*out));
	err = bpf_map_lookup_elem(pins_map_fd(dataplane->pins, map), &index, values);
	for (size_t i = 0; !err && i < dataplane->cpus * words; i++)
		out[i % words] += values[i];
	free(values);
	return err;
}

int dataplane_port_counts(const struct dataplane *dataplane, unsigned int index,
			  struct esc_port_counts *out)
{
	int err = dataplane_sum(dataplane, "port_counts", index, (uint64_t *)out,
				sizeof(*out) / sizeof(uint64_t));

	out->xdp_counted = 0; /* not a count */
	return err;
}

int dataplane_reasons(const struct dataplane *dataplane,
		      struct esc_reason_count out[ESC_REASON_MAX])
{
	for (uint32_t i = 0; i < ESC_REASON_MAX; i++) {
		int err = dataplane_sum(dataplane, "reasons", i, (uint64_t *)&out[i],
					sizeof(out[i]) / sizeof(uint64_t));

		if (err)
			return err;
	}
	return 0;
}

int dataplane_make_fq(struct dataplane *dataplane, const char *interface, char **error)
{
	struct port *port = (struct port *)dataplane_find(dataplane, interface);

	return port ? port_make_fq(port, dataplane->pins, dataplane->events, error) : -ENODEV;
}

int dataplane_drop_fq(struct dataplane *dataplane, const char *interface, char **error)
{
	struct port *port = (struct port *)dataplane_find(dataplane, interface);

	return port ? port_drop_fq(port, dataplane->pins, dataplane->events, error) : -ENODEV;
}

struct esc_control *dataplane_control(const struct dataplane *dataplane)
{
	return pins_control(dataplane->pins);
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
	return pins_map_max(dataplane->pins, name);
}

const char *dataplane_stamps_missing(const struct dataplane *dataplane, const char *interface)
{
	const struct port *port = dataplane_find(dataplane, interface);

	if (!port || !port->ifindex || port->record.xdp_mode == ESC_XDP_NONE)
		return "XDP program";
	return port->record.tc_via == ESC_TC_NONE ? "tc program" : NULL;
}

int dataplane_qps_fd(const struct dataplane *dataplane)
{
	return pins_map_fd(dataplane->pins, "qps");
}

uint32_t dataplane_qps_max(const struct dataplane *dataplane)
{
	return pins_map_max(dataplane->pins, "qps");
}
