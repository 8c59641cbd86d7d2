// SPDX-License-Identifier: BSD-2-Clause
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include <sys/un.h>

#include "clocksync/graph.h"
#include "pace.h"
#include "paths.h"
#include "nic.h"
#include "reading.h"
#include "schema.h"
#include "maps/maps.h"
#include "maps/tcp.h"
#include "fleet/fleet.h"
#include "base/readfile.h"
#include "base/units.h"
#include "yamltree.h"

#define CONFIG_BYTES_MAX (1u << 20)

#define US_NS 1000ull
#define MS_NS 1000000ull
#define SECOND_NS 1000000000ull
#define DRIFT_MOST_PPB 400000	/* a clock's rate has room for 976 ppm */
#define QPS_MAX_MOST (1u << 20) /* 976 bytes an entry in the kernel: 1.0 GB */
#define IDLE_LEAST_NS SECOND_NS
#define IDLE_MOST_NS (24 * 3600 * SECOND_NS)
#define INTERVAL_LEAST_NS (100 * MS_NS)
#define INTERVAL_MOST_NS (3600 * SECOND_NS)

/* A relative path starts from the folder of the configuration file. */
static int take_path(const char *config_path, const char *given, const char *fallback, char **out)
{
	const char *slash = strrchr(config_path, '/');

	if (!given)
		*out = fallback ? strdup(fallback) : NULL;
	else if (given[0] == '/' || !slash)
		*out = strdup(given);
	else if (asprintf(out, "%.*s/%s", (int)(slash - config_path), config_path, given) < 0)
		*out = NULL;
	return *out || (!given && !fallback) ? 0 : -ENOMEM;
}

static int take_interface(struct reading *reading, size_t i)
{
	const struct config_raw_interface *raw = &reading->raw->interfaces[i];
	struct config_interface *interface = &reading->config->interfaces[i];
	const char *name = raw->name;

	if (!interface_name_valid(name))
		return fail_at(reading, interface_line(reading, i, "name"),
			       "`name: %s` cannot be an interface; `ip -br link` lists those that "
			       "are here",
			       name);
	for (size_t k = 0; k < i; k++)
		if (!strcmp(name, reading->config->interfaces[k].name))
			return fail_at(reading, interface_line(reading, i, "name"),
				       "interface `%s` is listed twice (first in line %u); keep "
				       "one",
				       name, interface_line(reading, k, "name"));
	interface->probe_port = ESC_ROCEV2_PORT;
	if (raw->probe_port && (*raw->probe_port < 1 || *raw->probe_port > 65535))
		return fail_at(reading, interface_line(reading, i, "probe_port"),
			       "`probe_port: %llu` is no UDP port; give 1 to 65535, or take the "
			       "line out for %d",
			       (unsigned long long)*raw->probe_port, ESC_ROCEV2_PORT);
	if (raw->probe_port)
		interface->probe_port = *raw->probe_port;
	interface->plane = raw->plane;
	interface->attach = raw->attach;
	interface->tc = raw->tc;
	interface->name = strdup(name);
	reading->config->interface_count = i + 1;
	return interface->name ? config_nic_take_interface(reading, i) : -ENOMEM;
}

static int take_interfaces(struct reading *reading)
{
	size_t count = reading->raw->interface_count;
	int err = 0;

	reading->config->interfaces = calloc(count, sizeof(*reading->config->interfaces));
	if (!reading->config->interfaces)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++)
		err = take_interface(reading, i);
	return err;
}

static int take_places(const char *path, const struct config_raw *raw, char **pin_root,
		       char **socket, char **kill_file)
{
	int err = take_path(path, raw->pin_root, ESC_PIN_ROOT, pin_root);

	if (!err)
		err = take_path(path, raw->socket, CONFIG_SOCKET_DEFAULT, socket);
	if (!err)
		err = take_path(path, raw->kill_file, CONFIG_KILL_FILE_DEFAULT, kill_file);
	return err;
}

static int check_places(struct reading *reading)
{
	const struct config *config = reading->config;

	if (config->pin_root[0] != '/' || !config->pin_root[1])
		return fail_at(reading, line_of(reading, NULL, "pin_root"),
			       "`pin_root: %s` should be a folder on a BPF file system, such "
			       "as " ESC_PIN_ROOT,
			       config->pin_root);
	if (strlen(config->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return fail_at(reading, line_of(reading, NULL, "socket"),
			       "`socket` is %zu bytes long with its folder; the kernel takes %zu",
			       strlen(config->socket),
			       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return 0;
}

/* Without a host name of its own (a container may have none) a host is "localhost". */
static int take_host(struct reading *reading)
{
	const char *given = reading->raw->host;
	char name[256] = "";

	if (!given && (gethostname(name, sizeof(name) - 1) || !name[0]))
		strcpy(name, "localhost");
	if (given && (strlen(given) > 253 || strpbrk(given, " \t\r\n/")))
		return fail_at(reading, line_of(reading, NULL, "host"),
			       "`host` should be one word of at most 253 bytes");
	reading->config->host = strdup(given ? given : name);
	return reading->config->host ? 0 : -ENOMEM;
}

static int take_members(struct reading *reading)
{
	struct config *config = reading->config;
	char *why;
	int err = take_path(reading->path, reading->raw->members, NULL, &config->members);

	if (err || !config->members)
		return err;
	err = members_load(config->members, &config->member_list, &why);
	if (err) {
		fail_at(reading, line_of(reading, NULL, "members"), "members: %s",
			why ? why : strerror(-err));
		free(why);
	}
	return err;
}

/* Checked now, so that a bad key is found before anything is probed with it. */
static int take_key(struct reading *reading, const char *name, const char *given, char **path)
{
	char *why = NULL;
	int err = take_path(reading->path, given, NULL, path);

	if (err || !*path)
		return err;
	err = fleet_keys_add(&reading->config->keys, *path, &why);
	if (err)
		fail_at(reading, line_of(reading, NULL, name), "%s: %s", name,
			why ? why : strerror(-err));
	free(why);
	return err;
}

static int take_keys(struct reading *reading)
{
	struct config *config = reading->config;
	int err;

	if (reading->raw->key_file_next && !reading->raw->key_file)
		return fail_at(reading, line_of(reading, NULL, "key_file_next"),
			       "key_file_next is a second key beside key_file, which is missing");
	err = take_key(reading, "key_file", reading->raw->key_file, &config->key_file);
	if (!err)
		err = take_key(reading, "key_file_next", reading->raw->key_file_next,
			       &config->key_file_next);
	return err;
}

static int take_qps(struct reading *reading)
{
	const struct config_raw_qps *raw = &reading->raw->qps;
	struct config *config = reading->config;
	int err;

	config->qps.max = ESC_QPS_MAX_DEFAULT;
	config->qps.idle_ns = 60 * SECOND_NS;
	err = take_number(reading, "qps", "max", raw->max, 16, QPS_MAX_MOST, &config->qps.max);
	if (!err)
		err = take_duration(reading, "qps", "idle", raw->idle, IDLE_LEAST_NS, IDLE_MOST_NS,
				    &config->qps.idle_ns);
	return err;
}

static int check_textfile_directory(struct reading *reading)
{
	const char *directory = reading->config->textfile.directory;
	struct stat status;

	if (!directory)
		return 0;
	if (stat(directory, &status))
		return fail_at(reading, line_of(reading, "textfile", "directory"),
			       "textfile.directory %s: %s; make it, or name the directory that "
			       "node_exporter reads (--collector.textfile.directory)",
			       directory, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return fail_at(reading, line_of(reading, "textfile", "directory"),
			       "textfile.directory %s is not a directory; name the directory that "
			       "node_exporter reads (--collector.textfile.directory)",
			       directory);
	if (access(directory, W_OK | X_OK))
		return fail_at(reading, line_of(reading, "textfile", "directory"),
			       "textfile.directory %s cannot be written: %s; under systemd it "
			       "wants a ReadWritePaths= line",
			       directory, strerror(errno));
	return 0;
}

static int take_textfile(struct reading *reading)
{
	const struct config_raw_textfile *raw = &reading->raw->textfile;
	struct config *config = reading->config;
	int err;

	config->textfile.interval_ns = 5 * SECOND_NS;
	config->textfile.top_qps = 32;
	config->textfile.top_paths = 32;
	err = take_path(reading->path, raw->directory, NULL, &config->textfile.directory);
	if (!err)
		err = take_duration(reading, "textfile", "interval", raw->interval,
				    INTERVAL_LEAST_NS, INTERVAL_MOST_NS,
				    &config->textfile.interval_ns);
	if (!err)
		err = take_number(reading, "textfile", "top_qps", raw->top_qps, 0, 1024,
				  &config->textfile.top_qps);
	if (!err)
		err = take_number(reading, "textfile", "top_paths", raw->top_paths, 0, 1024,
				  &config->textfile.top_paths);
	return err ? err : check_textfile_directory(reading);
}

static int take_events(struct reading *reading)
{
	const struct config_raw_events *raw = &reading->raw->events;
	struct config *config = reading->config;
	int err;

	config->events.keep = 4096;
	err = take_path(reading->path, raw->file, NULL, &config->events.file);
	if (!err)
		err = take_number(reading, "events", "keep", raw->keep, 1, 1000000,
				  &config->events.keep);
	return err;
}

static int take_mesh(struct reading *reading)
{
	const struct config_raw_mesh *raw = &reading->raw->mesh;
	struct config *config = reading->config;
	int err;

	config->mesh.degree = 10;
	config->mesh.pair_interval_ns = 2 * MS_NS;
	config->mesh.pair_spacing_ns = 5 * US_NS;
	config->mesh.down_after_ns = SECOND_NS;
	err = take_number(reading, "mesh", "degree", raw->degree, 2, GRAPH_DEGREE_MAX,
			  &config->mesh.degree);
	if (!err)
		err = take_duration(reading, "mesh", "pair_interval", raw->pair_interval,
				    200 * US_NS, SECOND_NS, &config->mesh.pair_interval_ns);
	if (!err)
		err = take_duration(reading, "mesh", "pair_spacing", raw->pair_spacing, US_NS,
				    100 * US_NS, &config->mesh.pair_spacing_ns);
	if (!err)
		err = take_duration(reading, "mesh", "down_after", raw->down_after, 100 * MS_NS,
				    60 * SECOND_NS, &config->mesh.down_after_ns);
	return err;
}

static int take_clock(struct reading *reading)
{
	const struct config_raw_clock *raw = &reading->raw->clock;
	struct config *config = reading->config;

	config->clock.window_ns = 2 * SECOND_NS;
	config->clock.anchor = raw->anchor;
	return take_duration(reading, "clock", "window", raw->window, 500 * MS_NS, 60 * SECOND_NS,
			     &config->clock.window_ns);
}

/* "adaptive", "1/64" or "64". */
static int take_sample(struct reading *reading)
{
	const char *text = reading->raw->receipts.sample, *digits = text;
	struct config *config = reading->config;
	unsigned long one_in;
	char *end;

	config->receipts.sample_mask = ESC_SAMPLE_MASK_DEFAULT;
	if (!text || !strcmp(text, "adaptive"))
		return 0;
	if (!strncmp(text, "1/", 2))
		digits = text + 2;
	errno = 0;
	one_in = isdigit((unsigned char)*digits) ? strtoul(digits, &end, 10) : 0;
	if (!one_in || errno || *end || one_in > ESC_SAMPLE_MASK_MAX + 1ul || one_in & (one_in - 1))
		return fail_at(
			reading, line_of(reading, "receipts", "sample"),
			"`sample: %.64s` should be `adaptive`, or one in how many packets: a "
			"power of two up to %u, such as `1/64`",
			text, ESC_SAMPLE_MASK_MAX + 1);
	config->receipts.sample_fixed = true;
	config->receipts.sample_mask = one_in - 1;
	return 0;
}

static int take_steer(struct reading *reading)
{
	const struct config_raw_steer *raw = &reading->raw->steer;
	struct config *config = reading->config;

	config->steer.mode = raw->mode;
	config->steer.overtake = raw->overtake;
	config->steer.moves_per_s = 20;
	if (raw->capacity && strcmp(raw->capacity, "auto") &&
	    units_parse_bit_rate(raw->capacity, &config->steer.capacity_bps))
		return fail_at(reading, line_of(reading, "steer", "capacity"),
			       "`capacity: %.64s` should be `auto`, or what one path carries in "
			       "bits a second, such as `100Gbit`",
			       raw->capacity);
	return take_number(reading, "steer", "moves_per_second", raw->moves_per_second, 1, 10000,
			   &config->steer.moves_per_s);
}

static int take_receipts(struct reading *reading)
{
	const struct config_raw_receipts *raw = &reading->raw->receipts;
	struct config *config = reading->config;
	int err = take_sample(reading);

	config->receipts.on = raw->mode == CONFIG_RECEIPTS_ON;
	config->receipts.host_queue = raw->host_queue;
	config->receipts.max_pps = 20000;
	config->receipts.threshold_ns = 100 * US_NS;
	if (!err)
		err = take_number(reading, "receipts", "max_pps", raw->max_pps, 1, 1000000,
				  &config->receipts.max_pps);
	if (!err)
		err = take_duration(reading, "receipts", "threshold", raw->threshold, US_NS,
				    SECOND_NS, &config->receipts.threshold_ns);
	return err;
}

static int check_paths(struct reading *reading)
{
	const char *key;
	char *what;
	int err = config_paths_check(reading->config, &key, &what);

	if (err)
		fail_at(reading, line_of(reading, "paths", key), "%s", what ? what : key);
	if (err)
		free(what);
	return err;
}

static int take_paths(struct reading *reading)
{
	const struct config_raw_paths *raw = &reading->raw->paths;
	const char *texts[] = {raw->probe_interval, raw->standby_interval, raw->dead_after,
			       raw->return_after};
	struct config_paths_duration durations[CONFIG_PATHS_DURATIONS];
	struct config *config = reading->config;
	int err;

	config->paths.on = raw->probe == CONFIG_PATHS_AUTO;
	config_paths_default(config, durations);
	err = take_number(reading, "paths", "per_peer", raw->per_peer, 2, ESC_PATH_LANES_MAX,
			  &config->paths.per_peer);
	if (!err)
		err = take_number(reading, "paths", "probe_budget_pps", raw->budget_pps, 100,
				  1000000, &config->paths.budget_pps);
	for (size_t i = 0; !err && i < CONFIG_PATHS_DURATIONS; i++)
		err = take_duration(reading, "paths", durations[i].key, texts[i],
				    durations[i].least_ns, durations[i].most_ns, durations[i].ns);
	return err ? err : check_paths(reading);
}

/* A duration with a sign. */
static int take_lab_offset(struct reading *reading, const char *text)
{
	bool negative = text && text[0] == '-';
	uint64_t ns = 0;
	int err = take_duration(reading, "lab", "clock_offset", text ? text + negative : NULL, 0,
				3600 * SECOND_NS, &ns);

	reading->config->lab.clock_offset_ns = negative ? -(int64_t)ns : (int64_t)ns;
	return err;
}

static int take_lab_tai(struct reading *reading)
{
	uint64_t ns = 0;
	int err = take_duration(reading, "lab", "tai_offset", reading->raw->lab.tai_offset,
				SECOND_NS, 3600 * SECOND_NS, &ns);

	reading->config->lab.tai_offset_ns = (int64_t)ns;
	return err;
}

static bool is_word(const char *at, size_t bytes, const char *word)
{
	return bytes == strlen(word) && !memcmp(at, word, bytes);
}

/* "all", or names of congestion controls. */
static int take_lab_refused(struct reading *reading)
{
	static const char between[] = ", ";
	const char *text = reading->raw->lab.tcp_refused;
	uint32_t *bits = &reading->config->lab.tcp_refused;

	for (const char *at = text; at && *at; at += strspn(at, between)) {
		size_t bytes = strcspn(at, between);
		uint32_t found = 0;

		for (unsigned int i = 1; i < ESC_TCP_INNER_MAX; i++)
			if (is_word(at, bytes, "all") || is_word(at, bytes, esc_tcp_inner_names[i]))
				found |= 1u << i;
		if (!found)
			return fail_at(
				reading, line_of(reading, "lab", "tcp_refused"),
				"`tcp_refused: %.64s` should be `all`, or some of cubic, bbr "
				"and reno",
				text);
		*bits |= found;
		at += bytes;
	}
	return 0;
}

static int take_lab(struct reading *reading)
{
	const char *text = reading->raw->lab.clock_drift_ppb;
	char *end = NULL;
	long drift;
	int err = take_lab_offset(reading, reading->raw->lab.clock_offset);

	if (!err)
		err = take_lab_tai(reading);
	if (!err)
		err = take_lab_refused(reading);
	if (err || !text)
		return err;
	errno = 0;
	drift = strtol(text, &end, 10);
	if (errno || end == text || *end || drift < -DRIFT_MOST_PPB || drift > DRIFT_MOST_PPB)
		return fail_at(reading, line_of(reading, "lab", "clock_drift_ppb"),
			       "`clock_drift_ppb: %.64s` should be a whole number, %d to %d", text,
			       -DRIFT_MOST_PPB, DRIFT_MOST_PPB);
	reading->config->lab.clock_drift_ppb = drift;
	return 0;
}

static int take_pace(struct reading *reading)
{
	struct config_pace_fault fault = {};
	int err = config_pace_take(&reading->raw->pace, reading->config, &fault);

	if (err && fault.what)
		fail_at(reading, config_pace_line(reading->root, &fault), "%s", fault.what);
	free(fault.what);
	return err;
}

static int take_all(struct reading *reading)
{
	struct config *config = reading->config;
	int err = take_host(reading);

	config->path = strdup(reading->path);
	if (!err && !config->path)
		err = -ENOMEM;
	if (!err)
		err = take_interfaces(reading);
	if (!err)
		err = take_places(reading->path, reading->raw, &config->pin_root, &config->socket,
				  &config->kill_file);
	if (!err)
		err = check_places(reading);
	if (!err)
		err = take_qps(reading);
	if (!err)
		err = take_textfile(reading);
	if (!err)
		err = take_events(reading);
	if (!err)
		err = take_members(reading);
	if (!err)
		err = take_keys(reading);
	if (!err)
		err = take_mesh(reading);
	if (!err)
		err = take_clock(reading);
	if (!err)
		err = take_steer(reading);
	if (!err)
		err = take_receipts(reading);
	if (!err)
		err = take_paths(reading);
	if (!err)
		err = take_pace(reading);
	if (!err)
		err = config_nic_take(reading);
	if (!err)
		err = take_lab(reading);
	return err;
}

static const cyaml_config_t cyaml_settings = {
	.mem_fn = cyaml_mem,
	.log_fn = NULL, /* config_schema_check() has said all there is to say, with lines */
	.flags = CYAML_CFG_NO_ALIAS,
};

/* Bytes to a tree that fits the schema; a half sentence of below becomes a whole one. */
static int read_tree(struct reading *reading, const char *bytes, size_t size)
{
	unsigned int line;
	char *what;
	int err = yamltree_parse(bytes, size, &reading->root, &line, &what);

	if (!err)
		err = config_schema_check(reading->path, reading->root, &line, &what);
	if (err && what)
		fail_at(reading, line, "%s", what);
	free(what);
	return err;
}

int config_parse(const char *path, const char *bytes, size_t size, struct config **out,
		 char **error)
{
	struct reading reading = {.path = path, .error = error};
	cyaml_err_t problem;
	int err;

	*error = NULL;
	reading.config = calloc(1, sizeof(*reading.config));
	if (!reading.config)
		return -ENOMEM;
	err = read_tree(&reading, bytes, size);
	if (err)
		goto out;
	problem = cyaml_load_data((const uint8_t *)bytes, size, &cyaml_settings, &config_schema,
				  (cyaml_data_t **)&reading.raw, NULL);
	if (problem != CYAML_OK)
		err = fail_at(&reading, 1, "libcyaml refuses the file: %s",
			      cyaml_strerror(problem));
	else
		err = take_all(&reading);
out:
	cyaml_free(&cyaml_settings, &config_schema, reading.raw, 0);
	yamltree_free(reading.root);
	if (err)
		config_free(reading.config);
	else
		*out = reading.config;
	return err;
}

static int read_config_file(const char *path, char **bytes, size_t *size, char **error)
{
	char *reason;
	int err = readfile(path, CONFIG_BYTES_MAX, bytes, size, NULL, &reason);

	if (!err)
		return 0;
	if (!reason || asprintf(error, "%s; %s", reason,
				err == -ENOENT ? "write one (man escapement.yaml) or name another "
						 "with -c FILE"
				: err == -EFBIG || err == -EISDIR || err == -EINVAL
					? "name a configuration file with -c FILE"
					: "see that root may read it") < 0)
		*error = NULL;
	free(reason);
	return err;
}

int config_load(const char *path, struct config **out, char **error)
{
	char *bytes;
	size_t size;
	int err;

	*error = NULL;
	if (!path)
		path = CONFIG_PATH_DEFAULT;
	err = read_config_file(path, &bytes, &size, error);
	if (err)
		return err;
	err = config_parse(path, bytes, size, out, error);
	free(bytes);
	return err;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->interface_count; i++) {
		free(config->interfaces[i].name);
		free(config->interfaces[i].sibling);
		free(config->interfaces[i].dummy);
	}
	free(config->interfaces);
	free(config->path);
	free(config->host);
	free(config->pin_root);
	free(config->socket);
	free(config->kill_file);
	free(config->members);
	members_free(config->member_list);
	free(config->key_file);
	free(config->key_file_next);
	explicit_bzero(&config->keys, sizeof(config->keys));
	free(config->textfile.directory);
	free(config->events.file);
	config_pace_free(config);
	free(config);
}

static char *scalar_of(const struct yamltree_node *root, const char *key)
{
	const struct yamltree_child *child = yamltree_get(root, key);

	return child && child->node->kind == YAMLTREE_SCALAR && *child->node->text
		       ? child->node->text
		       : NULL;
}

int config_find_places(const char *path, struct config_places *out, char **error)
{
	struct yamltree_node *root = NULL;
	struct config_raw raw = {};
	char *bytes = NULL, *what = NULL;
	unsigned int line;
	size_t size;
	int err, err_places;

	*out = (struct config_places){};
	*error = NULL;
	if (!path)
		path = CONFIG_PATH_DEFAULT;
	err = read_config_file(path, &bytes, &size, error);
	if (!err)
		err = yamltree_parse(bytes, size, &root, &line, &what);
	if (what && asprintf(error, "%s:%u: %s", path, line, what) < 0)
		*error = NULL;
	raw.pin_root = scalar_of(root, "pin_root");
	raw.socket = scalar_of(root, "socket");
	raw.kill_file = scalar_of(root, "kill_file");
	err_places = take_places(path, &raw, &out->pin_root, &out->socket, &out->kill_file);
	yamltree_free(root);
	free(what);
	free(bytes);
	return err ? err : err_places;
}

void config_places_clear(struct config_places *places)
{
	free(places->socket);
	free(places->pin_root);
	free(places->kill_file);
	*places = (struct config_places){};
}
