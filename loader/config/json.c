// SPDX-License-Identifier: BSD-2-Clause
#include <jansson.h>
#include <stdio.h>

#include "config.h"
#include "schema.h"
#include "maps/tcp.h"
#include "base/units.h"

/* Only what is set; a duration as the file would say it. */
static void set_text(json_t *object, const char *key, const char *text)
{
	if (text)
		json_object_set_new(object, key, json_string(text));
}

static void set_duration(json_t *object, const char *key, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {
		{3600 * 1000000000ull, "h"},
		{60 * 1000000000ull, "m"},
		{1000000000, "s"},
		{1000000, "ms"},
		{1000, "us"},
		{1, "ns"},
	};
	unsigned int i = 0;

	while (ns % units[i].ns)
		i++;
	json_object_set_new(
		object, key,
		json_sprintf("%llu%s", (unsigned long long)(ns / units[i].ns), units[i].name));
}

static json_t *interface_json(const struct config_interface *interface)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i}", "name", interface->name, "plane",
				   config_word(config_plane_names, interface->plane), "attach",
				   config_word(config_attach_names, interface->attach), "tc",
				   config_word(config_tc_names, interface->tc), "probe_port",
				   interface->probe_port);

	set_text(object, "sibling", interface->sibling);
	set_text(object, "dummy", interface->dummy);
	return object;
}

static void put_nic(json_t *root, const struct config *config)
{
	json_t *nic = json_pack("{s:s, s:s, s:i}", "mode",
				config_word(config_nic_names, config->nic.mode), "resend",
				config_word(config_nic_resend_names, config->nic.resend), "port",
				config->nic.port);

	set_duration(nic, "probe_interval", config->nic.probe_interval_ns);
	set_duration(nic, "dead_after", config->nic.dead_after_ns);
	set_duration(nic, "return_after", config->nic.return_after_ns);
	json_object_set_new(root, "nic", nic);
}

static void put_steer(json_t *root, const struct config *config)
{
	double bps = config->steer.capacity_bps;

	json_object_set_new(
		root, "steer",
		json_pack("{s:s, s:o, s:i, s:s}", "mode",
			  config_word(config_steer_names, config->steer.mode), "capacity",
			  bps > 0 ? json_sprintf("%.0fbit", bps) : json_string("auto"),
			  "moves_per_second", (int)config->steer.moves_per_s, "overtake",
			  config_word(config_overtake_names, config->steer.overtake)));
}

static void put_refused(json_t *lab, uint32_t refused)
{
	char text[64] = "";
	size_t used = 0;

	for (unsigned int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (refused >> i & 1)
			used += snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
					 esc_tcp_inner_names[i]);
	if (used)
		json_object_set_new(lab, "tcp_refused", json_string(text));
}

static void put_clock_sections(json_t *root, const struct config *config)
{
	json_t *mesh = json_object(), *clock = json_object(), *lab = json_object();
	int64_t offset_ns = config->lab.clock_offset_ns;

	json_object_set_new(mesh, "degree", json_integer(config->mesh.degree));
	set_duration(mesh, "pair_interval", config->mesh.pair_interval_ns);
	set_duration(mesh, "pair_spacing", config->mesh.pair_spacing_ns);
	set_duration(mesh, "down_after", config->mesh.down_after_ns);
	json_object_set_new(root, "mesh", mesh);
	set_duration(clock, "window", config->clock.window_ns);
	json_object_set_new(clock, "anchor", json_boolean(config->clock.anchor));
	json_object_set_new(root, "clock", clock);
	put_steer(root, config);
	if (!offset_ns && !config->lab.clock_drift_ppb && !config->lab.tai_offset_ns &&
	    !config->lab.tcp_refused) {
		json_decref(lab);
		return;
	}
	json_object_set_new(lab, "clock_offset", json_sprintf("%lldns", (long long)offset_ns));
	json_object_set_new(lab, "clock_drift_ppb", json_integer(config->lab.clock_drift_ppb));
	if (config->lab.tai_offset_ns)
		set_duration(lab, "tai_offset", (uint64_t)config->lab.tai_offset_ns);
	put_refused(lab, config->lab.tcp_refused);
	json_object_set_new(root, "lab", lab);
}

static void put_receipts(json_t *root, const struct config *config)
{
	json_t *receipts = json_object();

	json_object_set_new(receipts, "mode", json_string(config->receipts.on ? "on" : "off"));
	json_object_set_new(receipts, "sample",
			    config->receipts.sample_fixed
				    ? json_sprintf("1/%u", config->receipts.sample_mask + 1)
				    : json_string("adaptive"));
	json_object_set_new(receipts, "max_pps", json_integer(config->receipts.max_pps));
	set_duration(receipts, "threshold", config->receipts.threshold_ns);
	json_object_set_new(receipts, "host_queue", json_boolean(config->receipts.host_queue));
	json_object_set_new(root, "receipts", receipts);
}

static void put_paths(json_t *root, const struct config *config)
{
	json_t *paths = json_object();

	json_object_set_new(paths, "probe", json_string(config->paths.on ? "auto" : "off"));
	json_object_set_new(paths, "per_peer", json_integer(config->paths.per_peer));
	set_duration(paths, "probe_interval", config->paths.probe_interval_ns);
	set_duration(paths, "standby_interval", config->paths.standby_interval_ns);
	set_duration(paths, "dead_after", config->paths.dead_after_ns);
	set_duration(paths, "return_after", config->paths.return_after_ns);
	json_object_set_new(paths, "probe_budget_pps", json_integer(config->paths.budget_pps));
	json_object_set_new(root, "paths", paths);
}

static json_t *pace_class_json(const struct config_pace_class *class)
{
	json_t *object = json_object();
	char dscps[256] = "";
	size_t used = 0;

	json_object_set_new(object, "name", json_string(class->name));
	json_object_set_new(object, "weight", json_integer(class->weight));
	set_duration(object, "threshold", class->threshold_ns);
	for (int i = 0; i < 64; i++)
		if (class->dscps >> i & 1)
			used += snprintf(dscps + used, sizeof(dscps) - used, "%s%d",
					 used ? ", " : "", i);
	if (class->dscps)
		json_object_set_new(object, "dscp", json_string(dscps));
	set_text(object, "job", class->job);
	set_text(object, "cgroup", class->cgroup);
	if (class->port_first)
		json_object_set_new(object, "port",
				    json_sprintf("%u-%u", class->port_first, class->port_last));
	return object;
}

static void put_pace_tcp(json_t *pace, const struct config *config)
{
	json_t *tcp = json_object();

	json_object_set_new(tcp, "mode",
			    json_string(config_word(config_pace_tcp_names, config->pace.tcp.mode)));
	if (config->pace.tcp.cgroup)
		json_object_set_new(tcp, "cgroup", json_string(config->pace.tcp.cgroup));
	set_duration(tcp, "threshold", config->pace.tcp.threshold_ns);
	json_object_set_new(pace, "tcp", tcp);
}

static void put_pace(json_t *root, const struct config *config)
{
	json_t *pace = json_object(), *classes = json_array();

	json_object_set_new(pace, "mode",
			    json_string(config_word(config_pace_names, config->pace.mode)));
	set_duration(pace, "threshold", config->pace.threshold_ns);
	set_duration(pace, "hold_max", config->pace.hold_max_ns);
	if (config->pace.line_Bps)
		json_object_set_new(pace, "line",
				    json_sprintf("%gMbit", (double)config->pace.line_Bps * 8e-6));
	for (size_t i = 0; i < config->pace.class_count; i++)
		json_array_append_new(classes, pace_class_json(&config->pace.classes[i]));
	if (config->pace.class_count)
		json_object_set(pace, "classes", classes);
	json_decref(classes);
	put_pace_tcp(pace, config);
	json_object_set_new(root, "pace", pace);
}

json_t *config_to_json(const struct config *config)
{
	json_t *root = json_object(), *list = json_array();
	json_t *qps = json_object(), *textfile = json_object(), *events = json_object();

	set_text(root, "path", config->path);
	set_text(root, "host", config->host);
	for (size_t i = 0; i < config->interface_count; i++)
		json_array_append_new(list, interface_json(&config->interfaces[i]));
	json_object_set_new(root, "interfaces", list);
	set_text(root, "members", config->members);
	set_text(root, "key_file", config->key_file);
	set_text(root, "key_file_next", config->key_file_next);
	set_text(root, "pin_root", config->pin_root);
	set_text(root, "socket", config->socket);
	set_text(root, "kill_file", config->kill_file);
	json_object_set_new(qps, "max", json_integer(config->qps.max));
	set_duration(qps, "idle", config->qps.idle_ns);
	json_object_set_new(root, "qps", qps);
	set_text(textfile, "directory", config->textfile.directory);
	set_duration(textfile, "interval", config->textfile.interval_ns);
	json_object_set_new(textfile, "top_qps", json_integer(config->textfile.top_qps));
	json_object_set_new(textfile, "top_paths", json_integer(config->textfile.top_paths));
	json_object_set_new(root, "textfile", textfile);
	set_text(events, "file", config->events.file);
	json_object_set_new(events, "keep", json_integer(config->events.keep));
	json_object_set_new(root, "events", events);
	put_clock_sections(root, config);
	put_receipts(root, config);
	put_paths(root, config);
	put_pace(root, config);
	put_nic(root, config);
	return root;
}
