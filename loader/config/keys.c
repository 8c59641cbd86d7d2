// SPDX-License-Identifier: BSD-2-Clause
/* The sections of the configuration that several modules read. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clocksync/graph.h"
#include "internal.h"
#include "maps/maps.h"
#include "maps/tcp.h"
#include "pacing/pathlive.h"

#define DRIFT_MOST_PPB 400000	/* a clock's rate has room for 976 ppm */
#define QPS_MAX_MOST (1u << 20) /* 976 bytes an entry in the kernel: 1.0 GB */
/* --- mesh, clock --- */

static const struct config_key mesh_keys[] = {
	{"degree", CONFIG_FIELD(number, struct config_mesh, degree), .fallback = "10", .least = 2,
	 .most = GRAPH_DEGREE_MAX,
	 .help = "Neighbours that a host probes, the same on all hosts. An odd number is rounded "
		 "up."},
	{"pair_interval", CONFIG_FIELD(duration, struct config_mesh, pair_interval_ns),
	 .fallback = "2ms", .least = 200 * CONFIG_US, .most = CONFIG_S,
	 .help = "Mean time between two pairs of probes to a neighbour. Neighbours behind a loaded "
		 "path are probed up to four times as often, others less often, all together no "
		 "more than this."},
	{"pair_spacing", CONFIG_FIELD(duration, struct config_mesh, pair_spacing_ns),
	 .fallback = "5us", .least = CONFIG_US, .most = 100 * CONFIG_US,
	 .help = "Time between the two probes of a pair."},
	{"down_after", CONFIG_FIELD(duration, struct config_mesh, down_after_ns), .fallback = "1s",
	 .least = 100 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "A peer is down when nothing was received from it for this time."},
	{},
};

static const struct config_section mesh_section = {
	.name = "mesh",
	.summary = "Probes between this host and some others of the fleet.",
	.keys = mesh_keys,
	.offset = offsetof(struct config, mesh),
};

static const struct config_key clock_keys[] = {
	{"window", CONFIG_FIELD(duration, struct config_clock, window_ns), .fallback = "2s",
	 .least = 500 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "Probes of this last stretch of time are used. A change applies to neighbours "
		 "that are added later."},
	{"anchor", CONFIG_FIELD(boolean, struct config_clock, anchor), .fallback = "false",
	 .help = "This host distributes the offset of TAI to fabric time. It measures the offset "
		 "each second and sends it with its probes; the others pass it on, and the verb "
		 "`clock` of escapement(1) shows it. Fabric time is not steered by it. TAI is the "
		 "kernel's `CLOCK_TAI`, which needs a time service that sets the TAI offset and "
		 "the clock's maximum error; otherwise nothing is sent, and `clock` shows the "
		 "reason. Of several anchors the one with the lowest id is used while it is "
		 "received."},
	{},
};

static const struct config_section clock_section = {
	.name = "clock",
	.summary = "Fabric time.",
	.keys = clock_keys,
	.offset = offsetof(struct config, clock),
};

/* --- receipts --- */

/* "adaptive", "1/64" or "64"; @value is the section's structure. */
static int parse_sample(struct config_reading *reading, const struct config_key *key,
			const char *text, void *value)
{
	const char *digits = text + 2 * !strncmp(text, "1/", 2);
	struct config_receipts *receipts = value;
	unsigned long one_in;
	char *end;

	if (!strcmp(text, key->fallback)) {
		receipts->sample_fixed = false;
		receipts->sample_mask = ESC_SAMPLE_MASK_DEFAULT;
		return 0;
	}
	errno = 0;
	one_in = isdigit((unsigned char)*digits) ? strtoul(digits, &end, 10) : 0;
	if (!one_in || errno || *end || one_in > ESC_SAMPLE_MASK_MAX + 1ul || one_in & (one_in - 1))
		return config_refuse(
			reading, key->name,
			"`sample: %.64s` should be `adaptive`, or one in how many packets: a "
			"power of two up to %u, such as `1/64`",
			text, ESC_SAMPLE_MASK_MAX + 1);
	receipts->sample_fixed = true;
	receipts->sample_mask = one_in - 1;
	return 0;
}

static json_t *show_sample(const struct config_key *key, const void *value)
{
	const struct config_receipts *receipts = value;

	return receipts->sample_fixed ? json_sprintf("1/%u", receipts->sample_mask + 1)
				      : json_string(key->fallback);
}

static const struct config_type sample_type = {"1/N", parse_sample, show_sample, NULL, NULL};
static const char *const receipts_modes[] = {"off", "on", NULL};

static const struct config_key receipts_keys[] = {
	{"mode", CONFIG_FIELD(word, struct config_receipts, on), .words = receipts_modes,
	 .fallback = "on",
	 .help = "`off`: no packet is sampled, and no receipt is sent or accepted."},
	{"sample", .type = &sample_type, .fallback = "adaptive",
	 .help = "`adaptive`, or one in how many packets, such as `1/64`. A power of two up to "
		 "65536. `adaptive`: it follows the rate of each queue pair. Of two ends that "
		 "differ, the one that samples less decides."},
	{"max_pps", CONFIG_FIELD(number, struct config_receipts, max_pps), .fallback = "20000",
	 .least = 1, .most = 1000000,
	 .help = "Receipts that this host sends in a second, per CPU."},
	{"threshold", CONFIG_FIELD(duration, struct config_receipts, threshold_ns),
	 .fallback = "100us", .least = CONFIG_US, .most = CONFIG_S,
	 .help = "Delays above it are counted. So are the times that they rise above it."},
	{"host_queue", CONFIG_FIELD(boolean, struct config_receipts, host_queue),
	 .fallback = "false",
	 .help = "Measure this host's own queue separately, at 100 ns per packet. It is the time "
		 "of sampled packets between the tc hook and the driver, as opposed to the "
		 "fabric's delay. A program then runs for every packet that any interface of this "
		 "host sends."},
	{},
};

static const struct config_section receipts_section = {
	.name = "receipts",
	.summary = "One-way delay of queue pairs. Both ends sample the same packets, by their "
		   "sequence numbers, and the receiver of one sends a receipt of some 130 bytes.",
	.keys = receipts_keys,
	.offset = offsetof(struct config, receipts),
};

/* --- qps, textfile, events --- */

static const struct config_key qps_keys[] = {
	{"max", CONFIG_FIELD(number, struct config_qps, max), .fallback = "16384", .least = 16,
	 .most = QPS_MAX_MOST, .fixed = true,
	 .help = "Entries of the table, one for each direction. Packets of a queue pair that finds "
		 "no room pass unchanged and are counted as `qp_table_full`."},
	{"idle", CONFIG_FIELD(duration, struct config_qps, idle_ns), .fallback = "60s",
	 .least = CONFIG_S, .most = 24 * 3600 * CONFIG_S,
	 .help = "A queue pair without a packet for this time is removed."},
	{},
};

static const struct config_section qps_section = {
	.name = "qps",
	.summary = "The table of queue pairs.",
	.keys = qps_keys,
	.offset = offsetof(struct config, qps),
};

static void check_directory(struct config_reading *reading, const struct config_key *key,
			    void *values)
{
	const char *directory = ((const struct config_textfile *)values)->directory;
	struct stat status;

	if (stat(directory, &status))
		config_refuse(reading, key->name,
			      "textfile.directory %s: %s; make it, or name the directory that "
			      "node_exporter reads (--collector.textfile.directory)",
			      directory, strerror(errno));
	else if (!S_ISDIR(status.st_mode))
		config_refuse(reading, key->name,
			      "textfile.directory %s is not a directory; name the directory that "
			      "node_exporter reads (--collector.textfile.directory)",
			      directory);
	else if (access(directory, W_OK | X_OK))
		config_refuse(reading, key->name,
			      "textfile.directory %s cannot be written: %s; under systemd it "
			      "needs a ReadWritePaths= line",
			      directory, strerror(errno));
}

static const struct config_key textfile_keys[] = {
	{"directory", CONFIG_FIELD(path, struct config_textfile, directory),
	 .example = "/var/lib/prometheus/node-exporter", .check = check_directory,
	 .help = "Where `escapement.prom` is written. Without it nothing is written. Two daemons "
		 "need two directories."},
	{"interval", CONFIG_FIELD(duration, struct config_textfile, interval_ns), .fallback = "5s",
	 .least = 100 * CONFIG_MS, .most = 3600 * CONFIG_S, .help = "How often it is written."},
	{"top_qps", CONFIG_FIELD(number, struct config_textfile, top_qps), .fallback = "32",
	 .most = 1024,
	 .help = "Queue pairs with series of their own, those with the highest rate. As many have "
		 "series of their delays, those with the highest. The sums over all queue pairs "
		 "are always there."},
	{"top_paths", CONFIG_FIELD(number, struct config_textfile, top_paths), .fallback = "32",
	 .most = 1024,
	 .help = "Candidate paths with series of their own. 16 series each at most; paths that are "
		 "down, in hold-down or suspect first, then those with most queue pairs. The "
		 "number of paths in each state is always there."},
	{},
};

static const struct config_section textfile_section = {
	.name = "textfile",
	.summary = "Metrics for the textfile collector of node_exporter.",
	.keys = textfile_keys,
	.offset = offsetof(struct config, textfile),
};

static const struct config_key events_keys[] = {
	{"file", CONFIG_FIELD(path, struct config_events, file), .fixed = true,
	 .example = "/var/log/escapement/events.jsonl",
	 .help = "Each event is also appended to this file, as a line of JSON. It may be rotated "
		 "at "
		 "any time: it is opened for each event."},
	{"keep", CONFIG_FIELD(number, struct config_events, keep), .fallback = "4096", .least = 1,
	 .most = 1000000, .fixed = true, .help = "Events kept in memory for `escapement events`."},
	{},
};

static const struct config_section events_section = {
	.name = "events",
	.summary = "The event log.",
	.keys = events_keys,
	.offset = offsetof(struct config, events),
};

/* --- paths --- */

/* Paths in use are probed most, and one is not dead before three probes are lost. */
static void check_paths(struct config_reading *reading, const struct config *config, void *values)
{
	char given[CONFIG_NUMBER_BYTES], probe[CONFIG_NUMBER_BYTES], least[CONFIG_NUMBER_BYTES];
	const struct config_paths *paths = values;
	uint64_t least_ns = PATHLIVE_UNCONFIRMED * paths->probe_interval_ns;

	(void)config;
	config_format_duration(probe, paths->probe_interval_ns);
	config_format_duration(least, least_ns);
	if (paths->standby_interval_ns < paths->probe_interval_ns) {
		config_format_duration(given, paths->standby_interval_ns);
		config_refuse(reading, "standby_interval",
			      "`standby_interval: %s` is shorter than `probe_interval: %s`; paths "
			      "in use are probed more often than the others: give at least %s",
			      given, probe, probe);
	}
	if (paths->dead_after_ns < least_ns) {
		config_format_duration(given, paths->dead_after_ns);
		config_refuse(
			reading, "dead_after",
			"`dead_after: %s` is shorter than three probes with "
			"`probe_interval: %s`, and fewer may be lost by chance; give at least "
			"%s, or probe more often",
			given, probe, least);
	}
}

static const char *const paths_modes[] = {"off", "auto", NULL};

static const struct config_key paths_keys[] = {
	{"probe", CONFIG_FIELD(word, struct config_paths, on), .words = paths_modes,
	 .fallback = "auto",
	 .help = "`auto`: paths are found and probed. `off`: they are not, and no queue pair is "
		 "steered to a backup."},
	{"per_peer", CONFIG_FIELD(number, struct config_paths, per_peer), .fallback = "8",
	 .least = 2, .most = ESC_PATHS_MAX, .help = "Candidate paths to an address of a peer."},
	{"probe_interval", CONFIG_FIELD(duration, struct config_paths, probe_interval_ns),
	 .fallback = "1ms", .least = 500 * CONFIG_US, .most = 100 * CONFIG_MS,
	 .help = "Probe interval of a path in use, in mode steer. In mode observe every path is "
		 "probed four times a second."},
	{"standby_interval", CONFIG_FIELD(duration, struct config_paths, standby_interval_ns),
	 .fallback = "20ms", .least = CONFIG_MS, .most = CONFIG_S,
	 .help = "Probe interval of the other paths, in mode steer. At least `probe_interval`."},
	{"dead_after", CONFIG_FIELD(duration, struct config_paths, dead_after_ns),
	 .fallback = "3ms", .least = CONFIG_MS, .most = CONFIG_S,
	 .help = "A path without replies for this time is dead. At least three times "
		 "`probe_interval`: three probes or more were sent on it, and a later report of "
		 "the peer has none received for this time. It is longer where the path is slow or "
		 "its delay varies, or where it is probed less often: three times the interval in "
		 "force."},
	{"return_after", CONFIG_FIELD(duration, struct config_paths, return_after_ns),
	 .fallback = "5s", .least = 100 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "Hold-down: up for this time before it is used again. A path that dies again and "
		 "again has a longer one, up to a minute."},
	{"probe_budget_pps", CONFIG_FIELD(number, struct config_paths, budget_pps),
	 .fallback = "20000", .least = 100, .most = 1000000,
	 .help = "All path probes of this host together, per second. When it is short, paths in "
		 "use come first and the others keep a tenth of it; `escapement status` shows it. "
		 "A peer gets replies up to a quarter more than this: give all hosts the same."},
	{},
};

static const struct config_section paths_section = {
	.name = "paths",
	.summary = "Candidate paths: UDP source ports that spread over the fabric's paths. They "
		   "are found for each address of a member with which this host has queue pairs, "
		   "in either direction.",
	.keys = paths_keys,
	.offset = offsetof(struct config, paths),
	.check = check_paths,
};

/* --- lab --- */

/* "all", or names of congestion controls, into a bit each. */
static int parse_refused(struct config_reading *reading, const struct config_key *key,
			 const char *text, void *value)
{
	static const char between[] = ", ";
	uint32_t bits = 0;

	for (const char *at = text; *at; at += strspn(at, between)) {
		size_t bytes = strcspn(at, between);
		uint32_t found = 0;

		for (unsigned int i = 1; i < ESC_TCP_INNER_MAX; i++) {
			const char *name = esc_tcp_inner_names[i];

			if ((bytes == 3 && !memcmp(at, "all", 3)) ||
			    (bytes == strlen(name) && !memcmp(at, name, bytes)))
				found |= 1u << i;
		}
		if (!found)
			return config_refuse(reading, key->name,
					     "`tcp_refused: %.64s` should be `all`, or some of "
					     "cubic, bbr and reno",
					     text);
		bits |= found;
		at += bytes;
	}
	*(uint32_t *)value = bits;
	return 0;
}

static json_t *show_refused(const struct config_key *key, const void *value)
{
	uint32_t refused = *(const uint32_t *)value;
	char text[64] = "";
	size_t used = 0;

	(void)key;
	for (unsigned int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (refused >> i & 1)
			used += snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "",
					 esc_tcp_inner_names[i]);
	return used ? json_string(text) : NULL;
}

static const struct config_type refused_type = {"names", parse_refused, show_refused, NULL, NULL};

static const struct config_key lab_keys[] = {
	{"clock_offset", CONFIG_FIELD(duration, struct config_lab, clock_offset_ns), .fixed = true,
	 .example = "-250ms", .least = -3600 * CONFIG_S, .most = 3600 * CONFIG_S,
	 .help = "Added to CLOCK_MONOTONIC; the sum is this host's local clock."},
	{"clock_drift_ppb", CONFIG_FIELD(number, struct config_lab, clock_drift_ppb), .fixed = true,
	 .example = "-30000", .least = -DRIFT_MOST_PPB, .most = DRIFT_MOST_PPB,
	 .help = "So many parts in 10^9 of CLOCK_MONOTONIC are added to it, too."},
	{"tai_offset", CONFIG_FIELD(duration, struct config_lab, tai_offset_ns), .example = "37s",
	 .least = CONFIG_S, .most = 3600 * CONFIG_S,
	 .help = "For an anchor, TAI is CLOCK_REALTIME and this offset. The kernel's TAI is not "
		 "used."},
	{"tcp_refused", .type = &refused_type, .offset = offsetof(struct config_lab, tcp_refused),
	 .example = "cubic, reno",
	 .help = "`all`, or some of `cubic`, `bbr`, `reno`. TCP pacing acts as if the kernel had "
		 "no "
		 "such congestion controls to wrap."},
	{},
};

static const struct config_section lab_section = {
	.name = "lab",
	.summary = "For tests only.",
	.keys = lab_keys,
	.offset = offsetof(struct config, lab),
	.for_tests = true,
};

const struct config_section *const config_own_sections[] = {
	&config_top_section, &mesh_section,	&clock_section,	 &receipts_section, &paths_section,
	&qps_section,	     &textfile_section, &events_section, &lab_section,
};
const size_t config_own_section_count = CONFIG_COUNT_OF(config_own_sections);
