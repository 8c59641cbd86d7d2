// SPDX-License-Identifier: BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include <sys/stat.h>

#include "config/config.h"
#include "nic/nic.h"
#include "pace/pace.h"
#include "steer/steer.h"
#include "tcp/tcp.h"
#include "maps/maps.h"
#include "fleet/fleet.h"
#include "maps/tcp.h"

static const struct config_section *const sections[] = {&pace_section, &tcp_section, &steer_section,
							&nic_section, NULL};

#define ONE "interfaces: [{name: eth1}]\n"

static struct config *parse(const char *text, char **error)
{
	struct config *config = NULL;

	*error = NULL;
	config_parse(&(struct config_input){.path = "/etc/x/e.yaml", .sections = sections}, text,
		     strlen(text), &config, error);
	return config;
}

Test(config, defaults)
{
	char *error;
	struct config *config = parse(ONE, &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect_eq(config->interface_count, 1);
	cr_expect_str_eq(config->interfaces[0].name, "eth1");
	cr_expect_eq(config->interfaces[0].plane, FLEET_PLANE_BACKEND);
	cr_expect_eq(config->interfaces[0].attach, CONFIG_ATTACH_AUTO);
	cr_expect_eq(config->interfaces[0].tc, CONFIG_TC_AUTO);
	cr_expect_eq(config->interfaces[0].probe_port, 4791);
	cr_expect_str_eq(config->pin_root, ESC_PIN_ROOT);
	cr_expect_str_eq(config->socket, PLACES_SOCKET);
	cr_expect_str_eq(config->kill_file, PLACES_KILL_FILE);
	cr_expect_eq(config->qps.max, 16384);
	cr_expect_eq(config->qps.idle_ns, 60000000000);
	cr_expect_eq(config->textfile.interval_ns, 5000000000);
	cr_expect_eq(config->textfile.top_qps, 8);
	cr_expect_eq(config->textfile.top_paths, 2);
	cr_expect_eq(config->events.keep, 4096);
	cr_expect_eq(config->mesh.degree, 10);
	cr_expect_eq(config->mesh.pair_interval_ns, 2000000);
	cr_expect_eq(config->mesh.pair_spacing_ns, 5000);
	cr_expect_eq(config->mesh.down_after_ns, 1000000000);
	cr_expect_eq(config->clock.window_ns, 2000000000);
	cr_expect(config->receipts.on);
	cr_expect(!config->receipts.sample_fixed);
	cr_expect_eq(config->receipts.sample_mask, 15);
	cr_expect_eq(config->receipts.max_pps, 20000);
	cr_expect_eq(config->receipts.threshold_ns, 100000);
	cr_expect(!config->receipts.host_queue);
	cr_expect_eq(config->lab.clock_offset_ns, 0);
	cr_expect_eq(config->lab.clock_drift_ppb, 0);
	cr_expect(!config->keys.have[0] && !config->keys.have[1]);
	cr_expect(*config->host);
	cr_expect_null(config->members);
	cr_expect_null(config->key_file);
	cr_expect_null(config->textfile.directory);
	cr_expect_str_eq(config->events.file, "/var/log/escapement/events.jsonl");
	config_free(config);
}

Test(config, everything_given)
{
	static const char text[] =
		"host: h1\n"
		"interfaces:\n"
		"  - {name: eth1, plane: frontend, attach: skb, tc: clsact}\n"
		"  - name: eth2\n"
		"    attach: native\n"
		"    tc: tcx\n"
		"    probe_port: 4800\n"
		"insecure: true\n"
		"pin_root: /sys/fs/bpf/second\n"
		"socket: run/e.sock\n"
		"kill_file: /run/e.off\n"
		"qps: {max: 1000, idle: 1.5s}\n"
		"textfile: {directory: /tmp, interval: 250ms, top_qps: 0}\n"
		"events: {file: events.jsonl, keep: 7}\n"
		"receipts: {mode: off, sample: 1/4096, max_pps: 7, "
		"threshold: 2ms, host_queue: true}\n"
		"steer: {mode: auto, capacity: 2.5Gbit/s, "
		"moves_per_second: 3, overtake: once}\n"
		"pace:\n"
		"  mode: on\n"
		"  threshold: 30us\n"
		"  hold_max: 5ms\n"
		"  line: 2.5Gbit\n"
		"  tcp: {mode: measure, cgroup: /sys/fs/cgroup/a}\n"
		"  classes:\n"
		"  - {name: storage, weight: 3, dscp: '26, 46', threshold: 1ms}\n"
		"  - {name: train, job: 'train-*', port: 50000-50999}\n"
		"  - {name: web, cgroup: '*/web.slice/*', port: 443}\n";
	char *error;
	struct config *config = parse(text, &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect_str_eq(config->host, "h1");
	cr_expect(config->insecure);
	cr_expect_eq(config->interface_count, 2);
	cr_expect_eq(config->interfaces[0].plane, FLEET_PLANE_FRONTEND);
	cr_expect_eq(config->interfaces[0].attach, CONFIG_ATTACH_SKB);
	cr_expect_eq(config->interfaces[0].tc, CONFIG_TC_CLSACT);
	cr_expect_eq(config->interfaces[1].attach, CONFIG_ATTACH_NATIVE);
	cr_expect_eq(config->interfaces[1].tc, CONFIG_TC_TCX);
	cr_expect_eq(config->interfaces[1].probe_port, 4800);
	cr_expect_str_eq(config->socket, "/etc/x/run/e.sock", "relative to the file's folder");
	cr_expect_eq(config->qps.max, 1000);
	cr_expect_eq(config->qps.idle_ns, 1500000000);
	cr_expect_str_eq(config->textfile.directory, "/tmp");
	cr_expect_eq(config->textfile.interval_ns, 250000000);
	cr_expect_eq(config->textfile.top_qps, 0);
	cr_expect_str_eq(config->events.file, "/etc/x/events.jsonl");
	cr_expect_eq(config->events.keep, 7);
	cr_expect_eq(steer_keys(config)->mode, STEER_START_AUTO);
	cr_expect_eq(steer_keys(config)->capacity_bps, 2.5e9);
	cr_expect_eq(steer_keys(config)->moves_per_s, 3);
	cr_expect_eq(steer_keys(config)->overtake, STEER_OVERTAKE_ONCE);
	cr_expect(!config->receipts.on);
	cr_expect(config->receipts.sample_fixed);
	cr_expect_eq(config->receipts.sample_mask, 4095);
	cr_expect_eq(config->receipts.max_pps, 7);
	cr_expect_eq(config->receipts.threshold_ns, 2000000);
	cr_expect(config->receipts.host_queue);
	cr_expect(pace_keys(config)->on);
	cr_expect_eq(pace_keys(config)->threshold_ns, 30000);
	cr_expect_eq(pace_keys(config)->hold_max_ns, 5000000);
	cr_expect_eq(pace_keys(config)->line_bps, 2.5e9);
	cr_expect_eq(tcp_keys(config)->mode, ESC_TCP_OBSERVE);
	cr_expect_str_eq(tcp_keys(config)->cgroup, "/sys/fs/cgroup/a");
	cr_expect_eq(tcp_keys(config)->threshold_ns, 30000, "as `pace.threshold`");
	cr_assert_eq(pace_keys(config)->class_count, 3);
	cr_expect_str_eq(pace_keys(config)->classes[0].name, "storage");
	cr_expect_eq(pace_keys(config)->classes[0].weight, 3);
	cr_expect_eq(pace_keys(config)->classes[0].threshold_ns, 1000000);
	cr_expect_eq(pace_keys(config)->classes[0].dscps, 1ull << 26 | 1ull << 46);
	cr_expect_str_eq(pace_keys(config)->classes[1].job, "train-*");
	cr_expect_eq(pace_keys(config)->classes[1].weight, 1);
	cr_expect_eq(pace_keys(config)->classes[1].threshold_ns, 30000, "as `pace.threshold`");
	cr_expect_eq(pace_keys(config)->classes[1].port_first, 50000);
	cr_expect_eq(pace_keys(config)->classes[1].port_last, 50999);
	cr_expect_eq(pace_keys(config)->classes[2].port_last, 443);
	cr_expect_str_eq(pace_keys(config)->classes[2].cgroup, "*/web.slice/*");
	config_free(config);
}

/* What is wrong, and what the sentence has to hold; all begin with FILE:LINE. */
static const struct refusal {
	const char *text;
	unsigned int line;
	const char *words[4];
} refusals[] = {
	{"", 1, {"empty", "interfaces"}},
	{"- a\n", 1, {"key: value"}},
	{ONE "inteval: 5s\n", 2, {"`inteval`", "not a key"}},
	{ONE "textfile:\n  inteval: 5s\n", 3, {"`inteval`", "did you mean `interval`"}},
	{ONE "receipts:\n  mode: of\n", 3, {"mode: of", "(off, on)"}},
	{ONE "receipts:\n  sample: 48\n", 3, {"`sample: 48`", "power of two", "1/64"}},
	{ONE "receipts:\n  sample: 1/131072\n", 3, {"65536"}},
	{ONE "receipts:\n  sample: 1/\n", 3, {"`sample: 1/`"}},
	{ONE "receipts:\n  sample: 0\n", 3, {"`sample: 0`"}},
	{ONE "receipts:\n  sample: adaptiv\n", 3, {"`adaptive`"}},
	{ONE "receipts:\n  max_pps: 0\n", 3, {"1 to 1000000"}},
	{ONE "receipts:\n  threshold: 100\n", 3, {"not a duration"}},
	{ONE "receipts:\n  threshold: 2s\n", 3, {"out of range", "1us to 1s"}},
	{ONE "top_qps: 5\n", 2, {"belongs under `textfile`"}},
	{ONE "membres: x\n", 2, {"did you mean `members`"}},
	{"interfaces:\n  - name: eth1\n    atach: skb\n", 3, {"did you mean `attach`"}},
	{"interfaces:\n  - name: eth1\n    attach: nativ\n", 3, {"nativ", "`native`", "skb"}},
	{"interfaces:\n  - name: eth1\n    plane: gpu\n", 3, {"gpu", "backend, frontend"}},
	{"interfaces:\n  - name: eth1\n    probe_port: 70000\n", 3, {"70000", "1 to 65535"}},
	{"interfaces:\n  - plane: backend\n", 2, {"`name` is missing"}},
	{"interfaces: []\n", 1, {"empty"}},
	{"interfaces: eth1\n", 1, {"should be a list"}},
	{"host: h1\n", 1, {"`interfaces` is missing"}},
	{"interfaces:\n  - name: eth1\n  - name: eth1\n", 3, {"eth1", "twice", "line 2"}},
	{"interfaces: [{name: a-name-of-15-by}]\n", 1, {NULL}},
	{"interfaces: [{name: seventeen-bytes-x}]\n", 1, {"at most 15"}},
	{"interfaces: [{name: 'a b'}]\n", 1, {"cannot be an interface"}},
	{"interfaces: [{name: ''}]\n", 1, {"`name` has no value"}},
	{ONE "textfile:\n  interval: 5 sec\n", 3, {"5 sec", "ns, us, ms, s, min, h", "`5s`"}},
	{ONE "textfile:\n  interval: 5\n", 3, {"not a duration"}},
	{ONE "textfile:\n  interval: 1ms\n", 3, {"out of range", "100ms to 1h"}},
	{ONE "textfile:\n  interval: [1s]\n", 3, {"one value, not a list"}},
	{ONE "textfile: 5s\n", 2, {"`textfile` should hold"}},
	{ONE "qps:\n  max: many\n", 3, {"`max: many`", "whole number"}},
	{ONE "qps:\n  max: 010\n", 3, {"whole number"}},
	{ONE "qps:\n  max: -1\n", 3, {"whole number"}},
	{ONE "qps:\n  max: 1\n", 3, {"out of range"}},
	{ONE "qps:\n  idle: 99999999h\n", 3, {"out of range"}},
	{ONE "events: {keep: 0}\n", 2, {"out of range"}},
	{ONE "host:\n", 2, {"`host` has no value"}},
	{ONE "host: a\nhost: b\n", 3, {"second time", "line 2"}},
	{ONE "qps: {max: 16, max: 17}\n", 2, {"`max`", "second time"}},
	{ONE "pace.tcp: {mode: off}\n", 2, {"`pace.tcp`", "not a key"}},
	{ONE "\"\": 1\n", 2, {"not a key"}},
	{ONE "\"a\\nb\": 1\n", 2, {"`a b`"}},
	{ONE "host: \"a\\0b\"\n", 2, {"zero byte"}},
	{ONE "pin_root: relative\n", 0, {NULL}},
	{ONE "textfile: {directory: /nowhere}\n", 0, {NULL}},
	{ONE "steer:\n  mode: ought\n", 3, {"mode: ought", "off, manual, auto"}},
	{ONE "steer:\n  capacity: fast\n", 3, {"capacity: fast", "100Gbit"}},
	{ONE "steer: {capacity: 0}\n", 2, {"capacity: 0"}},
	{ONE "steer: {moves_per_second: 0}\n", 2, {"out of range"}},
	{ONE "steer:\n  mode: manaul\n", 3, {"did you mean `manual`"}},
	{ONE "steer: {hold: 1ms}\n", 2, {"`hold`", "`steer`", "mode"}},
	{ONE "pace: {mode: pn}\n", 2, {"mode: pn", "off, on"}},
	{ONE "pace:\n  threshold: 50\n", 3, {"not a duration"}},
	{ONE "pace:\n  hold_max: 10s\n", 3, {"out of range", "1ms to 1s"}},
	{ONE "pace:\n  line: 10\n", 3, {"`line: 10`", "25Gbit"}},
	{ONE "pace: {classes: [x]}\n", 2, {"classes"}},
	{ONE "pace:\n  classes:\n  - weight: 1\n", 4, {"`name` is missing", "storage"}},
	{ONE "pace:\n  classes:\n  - name: a\n    wieght: 1\n", 5, {"did you mean `weight`"}},
	{ONE "pace:\n  classes:\n  - name: a\n    weight: 16\n", 5, {"1 to 15"}},
	{ONE "pace:\n  classes:\n  - name: a\n    dscp: 64\n", 5, {"0 to 63"}},
	{ONE "pace:\n  classes:\n  - name: a\n    dscp: 1 2\n", 5, {"comma"}},
	{ONE "pace:\n  classes:\n  - name: a\n    port: 9-8\n", 5, {"50000-50999"}},
	{ONE "pace:\n  classes:\n  - name: a\n  - name: a\n", 5, {"twice"}},
	{ONE "pace:\n  classes:\n  - name: default\n", 4, {"`pace.threshold`"}},
	{ONE "pace:\n  tcp: {mode: on}\n", 3, {"needs a `cgroup`"}},
	{ONE "steer:\n  mode: manual\n", 3, {"steering needs a key", "key_file", "insecure"}},
	{ONE "pace:\n  mode: on\n", 3, {"pacing needs a key"}},
	{ONE "pace:\n  tcp: {mode: on, cgroup: /sys/fs/cgroup/a}\n", 3, {"needs a key"}},
	{"interfaces:\n  - {name: eth1, sibling: eth2}\n", 1, {"`sibling`) needs a key"}},
	{ONE "pace:\n  tcp: {cgroup: a.slice}\n", 3, {"/sys/fs/cgroup/system.slice"}},
	{ONE "pace:\n  tcp: {mode: no}\n", 3, {"mode: no"}},
	{ONE "mesh: {degre: 10}\n", 2, {"did you mean `degree`"}},
	{ONE "mesh:\n  pair_interval: 2\n", 3, {"not a duration", "write `2ms`"}},
	{ONE "mesh: 10\n", 2, {"`mesh`"}},
	{ONE "members: /nowhere/m.json\n", 2, {"/nowhere/m.json", "No such file"}},
	{ONE "key_file: /nowhere/key\n", 2, {"/nowhere/key", "urandom"}},
	{ONE "host: &x h\nmembers: *x\n", 3, {"aliases"}},
	{ONE "pace: &p {tcp: *p}\n", 2, {"aliases"}},
	{"interfaces: &x [*x]\n", 1, {"aliases"}},
	{ONE "---\nhost: b\n", 2, {"second document"}},
	{"host: [\n", 2, {"not YAML"}},
	{"host: \"a\n", 2, {"not YAML"}},
	{ONE "\thost: a\n", 2, {"not YAML"}},
	{ONE "? [a]\n: b\n", 2, {"plain word"}},
};

Test(config, each_mistake_has_its_sentence)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *refusal = &refusals[i];
		char *error, place[64];
		struct config *config = parse(refusal->text, &error);

		if (!refusal->words[0]) { /* the neighbour of a mistake */
			cr_expect_not_null(config, "case %zu: %s", i, error);
			config_free(config);
			continue;
		}
		snprintf(place, sizeof(place), "/etc/x/e.yaml:%u: ", refusal->line);
		cr_assert_null(config, "case %zu is taken: %s", i, refusal->text);
		cr_assert_not_null(error, "case %zu", i);
		cr_expect(!strncmp(error, place, strlen(place)), "case %zu, not %s: %s", i, place,
			  error);
		for (int w = 0; w < 4 && refusal->words[w]; w++)
			cr_expect(strstr(error, refusal->words[w]), "case %zu lacks \"%s\": %s", i,
				  refusal->words[w], error);
		cr_expect_null(strchr(error, '\n'), "one line: %s", error);
		free(error);
	}
}

/* All that is wrong with a file, by line. */
Test(config, all_mistakes_are_reported_at_once)
{
	static const char text[] = "interfaces:\n"
				   "  - name: eth1\n"
				   "    atach: skb\n"
				   "  - name: eth1\n"
				   "mesh: {degree: 1, down_after: 5}\n"
				   "pace:\n"
				   "  threshold: 1ns\n"
				   "  tcp: {mode: on}\n"
				   "key_file: /nowhere/key\n"
				   "members: /nowhere/m.json\n"
				   "nonsense: 1\n";
	static const struct {
		unsigned int line;
		const char *words;
	} want[] = {
		{3, "`atach`"},
		{4, "in `interfaces` twice"},
		{5, "`degree: 1` is out of range"},
		{5, "write `5s`"},
		{7, "`threshold: 1ns` is out of range"},
		{8, "needs a `cgroup`"},
		{9, "/nowhere/key"},
		{10, "/nowhere/m.json"},
		{11, "`nonsense`"},
	};
	char *error, *rest, *line, place[64];
	size_t i = 0;

	cr_assert_null(parse(text, &error));
	rest = error;
	while ((line = strsep(&rest, "\n"))) {
		cr_assert_lt(i, sizeof(want) / sizeof(want[0]), "one too many: %s", line);
		snprintf(place, sizeof(place), "/etc/x/e.yaml:%u: ", want[i].line);
		cr_expect(!strncmp(line, place, strlen(place)) && strstr(line, want[i].words),
			  "not %s...%s: %s", place, want[i].words, line);
		i++;
	}
	cr_expect_eq(i, sizeof(want) / sizeof(want[0]));
	free(error);
}

/* A value that was refused has its default; others are not held against that. */
Test(config, no_mistake_follows_from_another)
{
	char *error;

	cr_assert_null(parse(ONE "paths: {probe_interval: 2sec, dead_after: 2ms}\n", &error));
	cr_expect_null(strchr(error, '\n'), "%s", error);
	cr_expect(strstr(error, "`2s`"), "%s", error);
	free(error);
}

Test(config, a_flood_of_mistakes_is_cut)
{
	char text[4096] = ONE, *error;
	unsigned int lines = 1;

	for (unsigned int i = 0; i < 200; i++)
		sprintf(text + strlen(text), "zzzzzz%u: 1\n", i);
	cr_assert_null(parse(text, &error));
	for (const char *at = error; (at = strchr(at, '\n')); at++)
		lines++;
	cr_expect_leq(lines, 51);
	free(error);
}

static void write_file(const char *path, const void *bytes, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && !fchmod(fd, mode));
	close(fd);
}

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/esc-config-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	static const char *const names[] = {"e.yaml", "key", "m.json"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}

static int load(const char *text, struct config **config, char **error)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/e.yaml", folder);
	write_file(path, text, strlen(text), 0600);
	*config = NULL;
	return config_load(&(struct config_input){.path = path}, config, error);
}

static void expect_key(const char *bytes, mode_t mode, const char *word)
{
	struct config *config;
	char path[128], *error;
	int err;

	snprintf(path, sizeof(path), "%s/key", folder);
	write_file(path, bytes, strlen(bytes), mode);
	err = load(ONE "key_file: key\n", &config, &error);
	if (!word) {
		cr_expect_eq(err, 0, "%s", error);
		config_free(config);
		return;
	}
	cr_expect_eq(err, -EINVAL);
	cr_assert_not_null(error);
	cr_expect(strstr(error, "e.yaml:2: key_file") && strstr(error, word), "%s", error);
	free(error);
}

Test(config, key_file, .init = make_folder, .fini = remove_folder)
{
	if (geteuid())
		cr_skip("a key belongs to root");
	expect_key("0123456789abcdef", 0600, NULL);
	expect_key("0123456789abcdef", 0400, NULL);
	expect_key("0123456789abcdef", 0640, "0640");
	expect_key("0123456789abcde", 0600, "15 bytes");
	expect_key("0123456789abcdef\n", 0600, "17 bytes");
}

Test(config, members_beside_the_file, .init = make_folder, .fini = remove_folder)
{
	static const char good[] = "[{\"targets\": [\"10.0.0.2\", \"10.0.0.3\"]}]";
	struct config *config;
	char path[128], *error;

	snprintf(path, sizeof(path), "%s/m.json", folder);
	write_file(path, good, strlen(good), 0644);
	cr_assert_eq(load(ONE "members: m.json\n", &config, &error), 0, "%s", error);
	cr_expect_eq(config->member_list->count, 2);
	config_free(config);
	write_file(path, "[\n oops]", 8, 0644);
	cr_assert_eq(load(ONE "members: m.json\n", &config, &error), -EINVAL);
	cr_expect(strstr(error, "m.json:2: not JSON"), "%s", error);
	free(error);
}

Test(config, files_that_are_none, .init = make_folder, .fini = remove_folder)
{
	struct config *config;
	char path[128], *error, *large = calloc(1, (1 << 20) + 2);

	snprintf(path, sizeof(path), "%s/none.yaml", folder);
	cr_expect_eq(config_load(&(struct config_input){.path = path}, &config, &error), -ENOENT);
	cr_expect(strstr(error, path) && strstr(error, "-c FILE"), "%s", error);
	free(error);
	cr_expect_eq(config_load(&(struct config_input){.path = folder}, &config, &error), -EISDIR);
	free(error);
	cr_expect_eq(config_load(&(struct config_input){.path = "/dev/zero"}, &config, &error),
		     -EINVAL);
	free(error);
	memset(large, '#', (1 << 20) + 1);
	cr_expect_eq(load(large, &config, &error), -EFBIG);
	cr_expect(strstr(error, "1024 KiB"), "%s", error);
	free(error);
	free(large);
}

/* `config show` can be fed to the daemon again and gives the same. */
Test(config, json_holds_what_is_in_force)
{
	char *error;
	struct config *config = parse("host: h\ninterfaces: [{name: a, attach: skb}]\n"
				      "qps: {idle: 90s}\n",
				      &error);
	json_t *object = config_to_json(config);
	json_t *first = json_array_get(json_object_get(object, "interfaces"), 0);

	cr_expect_str_eq(json_string_value(json_object_get(object, "host")), "h");
	cr_expect_str_eq(json_string_value(json_object_get(first, "attach")), "skb");
	cr_expect_str_eq(json_string_value(json_object_get(json_object_get(object, "qps"), "idle")),
			 "90s");
	cr_expect_null(json_object_get(object, "members"), "absent, not empty");
	json_decref(object);
	config_free(config);
}

Test(config, mesh_clock_and_lab)
{
	char *error;
	struct config *config = parse(ONE "mesh: {degree: 4, pair_interval: 1ms, pair_spacing: "
					  "10us, down_after: 500ms}\n"
					  "clock: {window: 3s, anchor: true}\n"
					  "lab: {clock_offset: -250ms, clock_drift_ppb: -30000, "
					  "nic: eth1, nic_offset: -2us, "
					  "tai_offset: 37s, tcp_refused: 'cubic, reno'}\n",
				      &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect(config->clock.anchor);
	cr_expect_eq(config->lab.tai_offset_ns, 37000000000);
	cr_expect_eq(config->lab.tcp_refused, 1u << ESC_TCP_INNER_CUBIC | 1u << ESC_TCP_INNER_RENO);
	cr_expect_eq(config->mesh.degree, 4);
	cr_expect_eq(config->mesh.pair_interval_ns, 1000000);
	cr_expect_eq(config->mesh.pair_spacing_ns, 10000);
	cr_expect_eq(config->mesh.down_after_ns, 500000000);
	cr_expect_eq(config->clock.window_ns, 3000000000);
	cr_expect_eq(config->lab.clock_offset_ns, -250000000);
	cr_expect_eq(config->lab.clock_drift_ppb, -30000);
	cr_expect_str_eq(config->lab.nic, "eth1");
	cr_expect_eq(config->lab.nic_offset_ns, -2000);
	config_free(config);
}

Test(config, mesh_clock_and_lab_mistakes)
{
	static const struct {
		const char *text, *words[2];
	} bad[] = {
		{"mesh: {degree: 1}", {"degree: 1", "2 to 24"}},
		{"mesh: {degree: 25}", {"degree: 25", "2 to 24"}},
		{"mesh: {pair_interval: 10us}", {"pair_interval", "out of range"}},
		{"mesh: {pair_spacing: 5}", {"pair_spacing", "not a duration"}},
		{"mesh: {down_after: 1ms}", {"down_after", "out of range"}},
		{"mesh: {pairs: 1}", {"`pairs` is not a key", "mesh"}},
		{"clock: {window: 1ms}", {"window", "out of range"}},
		{"clock: {anchor: maybe}", {"anchor", "false, true"}},
		{"lab: {clock_offset: --1s}", {"clock_offset", "not a duration"}},
		{"lab: {nic_offset: 2s}", {"nic_offset", "out of range"}},
		{"lab: {tai_offset: 1ms}", {"tai_offset", "out of range"}},
		{"lab: {tcp_refused: al}", {"tcp_refused: al", "`all`"}},
		{"lab: {tcp_refused: 'cubic, vegas'}", {"tcp_refused", "cubic, bbr and reno"}},
		{"lab: {clock_drift_ppb: 1.5}", {"clock_drift_ppb", "whole number"}},
		{"lab: {clock_drift_ppb: 400001}", {"clock_drift_ppb", "400000"}},
		{"key_file_next: /nowhere/k", {"key_file_next", "missing"}},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[256], *error;

		snprintf(text, sizeof(text), ONE "%s\n", bad[i].text);
		cr_assert_null(parse(text, &error), "%s is taken", bad[i].text);
		cr_assert_not_null(error);
		for (int w = 0; w < 2; w++)
			cr_expect(strstr(error, bad[i].words[w]), "%s: lacks \"%s\": %s",
				  bad[i].text, bad[i].words[w], error);
		free(error);
	}
}

static void make_key(char path[64], unsigned char first, mode_t mode)
{
	unsigned char key[FLEET_KEY_BYTES] = {first, 1, 2, 3};
	int fd;

	strcpy(path, "/tmp/esc-key-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, key, sizeof(key)), sizeof(key));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

/* A key's slot is its own, whichever of the two it is written as. */
Test(config, keys_have_slots)
{
	char even[64], odd[64], also_even[64], text[512], *error;
	struct config *config;

	if (geteuid())
		cr_skip_test("keys have to belong to root");
	make_key(even, 0x10, 0600);
	make_key(odd, 0x11, 0600);
	make_key(also_even, 0x12, 0600);
	snprintf(text, sizeof(text), ONE "key_file: %s\nkey_file_next: %s\n", odd, even);
	config = parse(text, &error);
	cr_assert_not_null(config, "%s", error);
	cr_expect(config->keys.have[0] && config->keys.have[1]);
	cr_expect_eq(config->keys.use, 1);
	cr_expect_eq(config->keys.key[0][0], 0x10);
	cr_expect_eq(config->keys.key[1][0], 0x11);
	config_free(config);
	snprintf(text, sizeof(text), ONE "key_file: %s\nkey_file_next: %s\n", even, also_even);
	cr_expect_null(parse(text, &error));
	cr_expect(error && strstr(error, "odd byte"), "%s", error);
	free(error);
	snprintf(text, sizeof(text), ONE "key_file: %s\nkey_file_next: %s\n", even, even);
	config = parse(text, &error);
	cr_assert_not_null(config, "the same key twice is one: %s", error);
	cr_expect(config->keys.have[0] && !config->keys.have[1]);
	config_free(config);
	unlink(even);
	unlink(odd);
	unlink(also_even);
}

/* --- keys that cannot change --- */

Test(config, a_reload_cannot_change_what_is_bound_to_the_process)
{
	static const struct {
		const char *before, *after, *words[2];
	} cases[] = {
		{"", "pin_root: /sys/fs/bpf/b", {":2: pin_root", "/sys/fs/bpf/escapement"}},
		{"socket: /run/a", "socket: /run/b", {":2: socket cannot change", "/run/a"}},
		{"kill_file: /run/a", "", {":1: kill_file", "restart"}},
		{"qps: {max: 16}", "qps:\n  max: 17", {":3: qps.max", "16"}},
		{"", "events: {keep: 5}", {":2: events.keep", "4096"}},
		{"events: {file: /a}", "events: {file: /b}", {"events.file", "/a"}},
		{"", "events: {file: /b}", {"events.file", "/var/log/escapement/events.jsonl"}},
		{"", "lab: {clock_offset: 1s}", {"lab.clock_offset", "restart"}},
		{"lab: {clock_drift_ppb: 5}",
		 "lab: {clock_drift_ppb: 6}",
		 {"lab.clock_drift_ppb", "5"}},
		{"qps: {idle: 5s}", "qps: {idle: 6s}", {NULL}},
		{"lab: {tai_offset: 5s}", "lab: {tai_offset: 6s}", {NULL}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config_input input = {.path = "/e.yaml"};
		struct config *before = NULL, *after = NULL;
		char text[128], *error;

		snprintf(text, sizeof(text), ONE "%s\n", cases[i].before);
		cr_assert_eq(config_parse(&input, text, strlen(text), &before, &error), 0, "%s",
			     error);
		input.in_force = before;
		snprintf(text, sizeof(text), ONE "%s\n", cases[i].after);
		cr_expect_eq(config_parse(&input, text, strlen(text), &after, &error),
			     cases[i].words[0] ? -EINVAL : 0, "%s", cases[i].after);
		for (int w = 0; w < 2 && cases[i].words[w]; w++)
			cr_expect(error && strstr(error, cases[i].words[w]), "%s: lacks %s: %s",
				  cases[i].after, cases[i].words[w], error);
		free(error);
		config_free(before);
		config_free(after);
	}
}

/* --- this host --- */

Test(config, the_file_against_this_host, .init = make_folder, .fini = remove_folder)
{
	static const char members[] =
		"[{\"targets\": [\"192.0.2.1\"], \"labels\": {\"host\": \"a\"}}]";
	static const struct {
		const char *text;
		int err;
		const char *words[2];
	} cases[] = {
		{"interfaces:\n  - name: lo\n  - name: nosuch0\n",
		 -EINVAL,
		 {"e.yaml:2: interfaces: lo is not an Ethernet device",
		  "\n%s/e.yaml:3: interfaces: there is no interface nosuch0; the ones here are "}},
		{"host: b\nmembers: m.json\ninterfaces: [{name: lo}]\n",
		 -EINVAL,
		 {"e.yaml:2: warning: host b is not in ", "lo is not"}},
		{"host: a\nmembers: m.json\ninterfaces: [{name: lo}]\n",
		 -EINVAL,
		 {"e.yaml:2: warning: no interface of the plane backend has an address",
		  "lo is not"}},
		{"interfaces: [{name: lo, sibling: nosuch0}]\ninsecure: true\n",
		 -EINVAL,
		 {":1: warning: `sibling: nosuch0`: there is no such interface", "lo is not"}},
		{"interfaces: [{name: lo}]\ntextfile: {directory: /nowhere}\n",
		 -EINVAL,
		 {":2: textfile.directory /nowhere: No such file", "lo is not"}},
		{"interfaces: [{name: lo}]\ntextfile: {directory: /etc/passwd}\n",
		 -EINVAL,
		 {":2: textfile.directory /etc/passwd is not a directory", "lo is not"}},
		{"mesh: {degree: 1}\ninterfaces: [{name: nosuch0}]\n",
		 -EINVAL,
		 {":1: `degree: 1`", ":2: interfaces: there is no interface nosuch0"}},
	};
	char path[128], want[256], *report;
	struct config *config;

	snprintf(path, sizeof(path), "%s/m.json", folder);
	write_file(path, members, strlen(members), 0644);
	snprintf(path, sizeof(path), "%s/e.yaml", folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct config_input input = {.path = path, .check_host = true};

		write_file(path, cases[i].text, strlen(cases[i].text), 0600);
		cr_expect_eq(config_load(&input, &config, &report), cases[i].err);
		for (int w = 0; w < 2; w++) {
			const char *words = cases[i].words[w];

			if (strstr(words, "%s")) {
				snprintf(want, sizeof(want), "\n%s%s", folder,
					 strstr(words, "%s") + 2);
				words = want;
			}
			cr_expect(report && strstr(report, words), "case %zu lacks %s: %s", i,
				  words, report);
		}
		free(report);
	}
}

/* --- the tables --- */

static void expect_key_complete(const char *section, const struct config_key *key)
{
	const char *end = strstr(key->help, ". ");
	size_t sentence = end ? (size_t)(end - key->help) : strlen(key->help);

	cr_expect(key->list || key->fallback || key->example, "%s.%s has nothing for the example",
		  section, key->name);
	cr_expect(key->type->name || key->words, "%s.%s", section, key->name);
	cr_expect(!key->type->format || key->least < key->most, "%s.%s has no range", section,
		  key->name);
	cr_expect(key->help[strlen(key->help) - 1] == '.', "%s.%s", section, key->name);
	cr_expect(sentence <= 75 || key->help[0] == '`', "%s.%s: %zu", section, key->name,
		  sentence);
	for (size_t i = 0; key->list && key->list->keys[i].name; i++)
		expect_key_complete(key->name, &key->list->keys[i]);
}

Test(config, each_key_is_complete)
{
	char *error;
	struct config *config = parse(ONE, &error);

	for (size_t i = 0; i < config->part_count; i++)
		for (size_t k = 0; config->parts[i].section->keys[k].name; k++)
			expect_key_complete(config->parts[i].section->name,
					    &config->parts[i].section->keys[k]);
	config_free(config);
}

/* The example with every key in it, and files that are there where it names some. */
static void uncomment(const char *line, FILE *out)
{
	size_t indent = strspn(line, " ");
	const char *key = line + indent + 2 * !strncmp(line + indent, "# ", 2);
	const char *name = key + strspn(key, " -");

	if (strstr(name, "members:") == name || !strncmp(name, "key_file", 8) ||
	    !strncmp(name, "directory:", 10) || !strncmp(name, "sibling:", 8) ||
	    !strncmp(name, "dummy:", 6))
		return;
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz_")] == ':')
		fprintf(out, "%.*s%s\n", (int)indent, line, key);
}

Test(config, the_example_is_valid_and_has_the_defaults)
{
	struct config *from_example, *plain;
	char *example = NULL, *text = NULL, *rest, *line, *error;
	size_t bytes;
	FILE *out = open_memstream(&example, &bytes);

	config_write_example(out, sections);
	fclose(out);
	plain = parse(example, &error);
	cr_assert_not_null(plain, "as it is installed: %s", error);
	out = open_memstream(&text, &bytes);
	for (rest = example; (line = strsep(&rest, "\n"));)
		uncomment(line, out);
	fclose(out);
	from_example = parse(text, &error);
	cr_assert_not_null(from_example, "%s\n%s", error, text);
	for (size_t i = 0; i < plain->part_count; i++) {
		const struct config_section *section = plain->parts[i].section;
		const char *a = config_section(from_example, section);
		const char *b = config_section(plain, section);

		for (const struct config_key *key = section->keys; key->name; key++) {
			json_t *x = key->type->show(key, a + key->offset);
			json_t *y = key->type->show(key, b + key->offset);

			if (key->fallback)
				cr_expect(json_equal(x, y), "%s.%s", section->name, key->name);
			json_decref(x);
			json_decref(y);
		}
	}
	config_free(from_example);
	config_free(plain);
	free(example);
	free(text);
}
