// SPDX-License-Identifier: BSD-2-Clause
/* The keys of the top level, and those that several modules read. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/units.h"
#include "clocksync/graph.h"
#include "internal.h"
#include "maps/maps.h"
#include "maps/tcp.h"
#include "pacing/pathlive.h"

#define DRIFT_MOST_PPB 400000	/* a clock's rate has room for 976 ppm */
#define QPS_MAX_MOST (1u << 20) /* 976 bytes an entry in the kernel: 1.0 GB */

/* The type and place of a key in struct @section. */
#define KEY(kind, section, member) CONFIG_FIELD(kind, struct section, member)
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* --- interfaces --- */

static void check_interface(struct config_reading *reading, const struct config_key *key,
			    void *values)
{
	const char *name = *(char **)((char *)values + key->offset);

	if (!strcmp(name, ".") || !strcmp(name, "..") || strpbrk(name, "/: \t\n\v\f\r"))
		config_refuse(reading, key->name,
			      "`%s: %s` cannot be an interface; `ip -br link` lists those of this "
			      "host",
			      key->name, name);
}

static void check_other_interface(struct config_reading *reading, const struct config_key *key,
				  void *values)
{
	const struct config_interface *interface = values;
	const char *other = *(char **)((char *)values + key->offset);

	check_interface(reading, key, values);
	if (interface->name && !strcmp(other, interface->name))
		config_refuse(reading, key->name,
			      "`%s: %s` is the interface itself; name another one", key->name,
			      other);
	if (other == interface->dummy && !interface->sibling)
		config_refuse(reading, key->name,
			      "`dummy: %s` has a meaning beside `sibling` only; name the NIC that "
			      "takes over for %s",
			      other, interface->name);
}

static const char *const plane_names[] = {"backend", "frontend", NULL};

const char *config_plane_name(enum fleet_plane plane)
{
	return plane_names[plane];
}

static const struct config_key interface_keys[] = {
	{"name", KEY(text, config_interface, name), .required = true, .example = "eth1",
	 .most = IF_NAMESIZE - 1, .check = check_interface,
	 .help = "The interface. One that is missing at the start is served when it appears."},
	{"plane", KEY(word, config_interface, plane), .words = plane_names, .fallback = "backend",
	 .help = "`backend` is the fabric between accelerators. Each plane has a mesh of its own, "
		 "probed from the first interface of the plane with an address that `members` "
		 "gives this host."},
	{"attach", KEY(word, config_interface, attach), .words = WORDS("auto", "native", "skb"),
	 .fallback = "auto",
	 .help = "How XDP is attached. `native`: in the driver; `skb`: in the kernel's generic "
		 "path; `auto`: native where the driver can, else skb; skb first where attaching "
		 "native XDP takes the link down (igb, igc, ixgbe), resets the NIC (i40e), or "
		 "loses frames when the MTU is raised (virtio_net before Linux 6.3) or replies to "
		 "probes (a veth whose peer has no native XDP)."},
	{"tc", KEY(word, config_interface, tc), .words = WORDS("auto", "tcx", "clsact"),
	 .fallback = "auto",
	 .help = "How the tc programs are attached. `tcx` needs Linux 6.6; `auto`: TCX where the "
		 "kernel has it, else clsact."},
	{"probe_port", KEY(number, config_interface, probe_port), .fallback = "4791", .least = 1,
	 .most = 65535,
	 .help = "UDP port of probes, the same at both ends. The default is RoCEv2's own, so that "
		 "the fabric treats a probe like a packet of a queue pair. Use another one with a "
		 "NIC that keeps 4791 for itself."},
	{"sibling", KEY(text, config_interface, sibling), .example = "eth2",
	 .most = IF_NAMESIZE - 1, .check = check_other_interface,
	 .help = "NIC that takes over when this one dies. It needs an address of its own, and a "
		 "route to the peers' NICs that is found in a lookup by interface, such as a "
		 "default route with a greater metric. Not given: no failover."},
	{"dummy", KEY(text, config_interface, dummy), .example = "roce0", .most = IF_NAMESIZE - 1,
	 .check = check_other_interface,
	 .help = "Dummy device on top of this NIC. It is made by `escapement failover dummy add`."},
	{},
};

static const struct config_list interface_list = {
	.keys = interface_keys,
	.least = 1,
	.most = ESC_PORTS_MAX,
	.entry_bytes = sizeof(struct config_interface),
	.count_offset = offsetof(struct config, interface_count),
};

/* --- the top level --- */

static void check_host(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config *config = values;

	if (strpbrk(config->host, " \t\r\n/"))
		config_refuse(reading, key->name, "`host` should be one word of at most 253 bytes");
}

static void load_members(struct config_reading *reading, const struct config_key *key, void *values)
{
	struct config *config = values;
	char *why = NULL;
	int err;

	config->members_kept =
		reading->no_members || fleet_has_read(reading->fleet, config->members);
	if (config->members_kept)
		return;
	if (!fleet_read_use(reading->read, config->members, &config->member_list, &err, &why))
		err = members_load(config->members, &config->member_list, &why);
	if (err)
		config_refuse(reading, key->name, "members: %s", why ? why : strerror(-err));
	if (err)
		free(why);
}

/* Now, so that a bad key is found before anything is probed with it. */
static void load_key_file(struct config_reading *reading, const struct config_key *key,
			  void *values)
{
	struct config *config = values;
	const char *path = *(char **)((char *)values + key->offset);
	char *why = NULL;
	int err = 0;

	if (path == config->key_file_next && !config->key_file)
		config_refuse(reading, key->name,
			      "key_file_next is a second key beside key_file, which is missing");
	else
		err = fleet_keys_add(&config->keys, path, &why);
	if (err)
		config_refuse(reading, key->name, "%s: %s", key->name, why ? why : strerror(-err));
	free(why);
}

static void check_pin_root(struct config_reading *reading, const struct config_key *key,
			   void *values)
{
	const struct config *config = values;

	if (config->pin_root[0] != '/' || !config->pin_root[1])
		config_refuse(reading, key->name,
			      "`pin_root: %s` should be a folder on a BPF file system, such "
			      "as " ESC_PIN_ROOT,
			      config->pin_root);
}

static void check_socket(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config *config = values;
	size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	if (strlen(config->socket) > most)
		config_refuse(reading, key->name,
			      "`socket` is %zu bytes long with its folder; the kernel takes %zu",
			      strlen(config->socket), most);
}

static const struct config_key top_keys[] = {
	{"host", KEY(text, config, host), .example = "node17", .most = 253, .check = check_host,
	 .help = "Name of this host. Reports of others have it, and so has `members`. Default: the "
		 "host name."},
	{"interfaces", KEY(list, config, interfaces), .list = &interface_list, .required = true,
	 .example = "[{name: eth1}]", .help = "Interfaces to serve, at most 16."},
	{"members", KEY(path, config, members), .example = "/etc/escapement/members.json",
	 .check = load_members,
	 .help = "Hosts of the fleet, the same file on all of them. See MEMBERS. Without it "
		 "nothing is probed."},
	{"members_hold", KEY(duration, config, members_hold_ns), .fallback = "300s",
	 .least = CONFIG_S, .most = 24 * 3600 * CONFIG_S,
	 .help = "How long a list that loses most of the fleet has to stay the same. A list that "
		 "has no hosts, lacks this host, or loses more than half of the hosts in force is "
		 "applied after this time, or at once by `escapement reload --force`. Until then "
		 "the old one stays in force, and `status` shows it."},
	{"key_file", KEY(path, config, key_file), .example = "/etc/escapement/fleet.key",
	 .check = load_key_file,
	 .help = "Key of the fleet: 16 bytes, mode 0600, the same everywhere. The file has exactly "
		 "16 bytes, is owned by root, and no other user can read it. Each pair of hosts "
		 "has a key that is made from it; probes carry a tag made with that key, and those "
		 "without a good tag are refused. Instead of the fleet's key the file may have the "
		 "keys of this host's pairs alone, see KEYS OF PAIRS: then this host cannot pose "
		 "as another one. Without a key any device in the network can forge probes, and "
		 "control is refused; see `insecure`."},
	{"key_file_next", KEY(path, config, key_file_next), .example = "/etc/escapement/next.key",
	 .check = load_key_file,
	 .help = "Second key, while the key is changed. Its tags are accepted, too. To change the "
		 "key: give the new one as `key_file_next` on every host, then on every host make "
		 "the new one `key_file` and the old one `key_file_next`, then remove "
		 "`key_file_next` everywhere, each time with a reload. Of the two keys one has to "
		 "begin with an even byte, the other with an odd one."},
	{"insecure", KEY(boolean, config, insecure), .fallback = "false",
	 .help = "Control without a key. Steering, pacing and NIC failover act on what other hosts "
		 "report, and without a key any host in the network can forge these reports: they "
		 "are refused. `true`: they are allowed nevertheless, with an event and a line in "
		 "`status`. Observing needs no key."},
	{"pin_root", KEY(path, config, pin_root), .fallback = ESC_PIN_ROOT, .fixed = true,
	 .check = check_pin_root,
	 .help = "Folder on a BPF file system for maps and links. Root owns it, and no other "
		 "user can write there. A second daemon on one kernel needs its own."},
	{"socket", KEY(path, config, socket), .fallback = PLACES_SOCKET, .fixed = true,
	 .check = check_socket, .help = "Socket for escapement(1)."},
	{"kill_file", KEY(path, config, kill_file), .fallback = PLACES_KILL_FILE, .fixed = true,
	 .help = "While this file exists, nothing is attached. Keep it where it survives a reboot. "
		 "While programs are being attached, and a minute longer, a marker is beside it, "
		 "with `.starting` behind its name: when the machine goes down meanwhile, the kill "
		 "file is made at the next start."},
	{},
};

/* --- mesh, clock --- */

static const struct config_key mesh_keys[] = {
	{"degree", KEY(number, config_mesh, degree), .fallback = "10", .least = 2,
	 .most = GRAPH_DEGREE_MAX,
	 .help = "Neighbours that a host probes, the same on all hosts. An odd number is rounded "
		 "up."},
	{"pair_interval", KEY(duration, config_mesh, pair_interval_ns), .fallback = "2ms",
	 .least = 200 * CONFIG_US, .most = CONFIG_S,
	 .help = "Mean time between two pairs of probes to a neighbour. Neighbours behind a loaded "
		 "path are probed up to four times as often, others less often, all together no "
		 "more than this."},
	{"pair_spacing", KEY(duration, config_mesh, pair_spacing_ns), .fallback = "5us",
	 .least = CONFIG_US, .most = 100 * CONFIG_US,
	 .help = "Time between the two probes of a pair."},
	{"down_after", KEY(duration, config_mesh, down_after_ns), .fallback = "1s",
	 .least = 100 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "A peer is down when nothing was received from it for this time."},
	{"loss_after", KEY(duration, config_mesh, loss_after_ns), .fallback = "10m",
	 .least = 10 * CONFIG_S, .most = 3600 * CONFIG_S,
	 .help = "How long a NIC pair loses probes until that is a finding. Most tenths of it have "
		 "a loss of 0.1% or more."},
	{"rotation_pps", KEY(number, config_mesh, rotation_pps), .fallback = "0", .most = 5000,
	 .help = "Probes a second of NICs that are measured in turn (`escapement mesh`). The same "
		 "on all hosts. 0: none; below 24 is too few; 100 measures each NIC pair of a "
		 "rack of 32 hosts with 8 NICs in 510 s."},
	{},
};

static const struct config_key clock_keys[] = {
	{"window", KEY(duration, config_clock, window_ns), .fallback = "2s",
	 .least = 500 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "Probes of this last stretch of time are used. A change applies to neighbours "
		 "that are added later."},
	{"anchor", KEY(boolean, config_clock, anchor), .fallback = "false",
	 .help = "This host distributes the offset of TAI to fabric time. It measures the offset "
		 "each second and sends it with its probes; the others pass it on, and the verb "
		 "`clock` of escapement(1) shows it. Fabric time is not steered by it. TAI is the "
		 "kernel's `CLOCK_TAI`, which needs a time service that sets the TAI offset and "
		 "the clock's maximum error; otherwise nothing is sent, and `clock` shows the "
		 "reason. Of several anchors the one with the lowest id is used while it is "
		 "received."},
	{"anchors", KEY(text, config_clock, anchors), .example = "time1, time2",
	 .help = "Members that TAI is accepted from, by host name, with commas between. Give the "
		 "same list to all hosts. Reports of others are not used and not passed on, and a "
		 "host that is not in the list does not distribute TAI. Without the list any "
		 "member with `anchor: true` is accepted, and `clock` shows it."},
	{},
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

static const struct config_key receipts_keys[] = {
	{"mode", KEY(word, config_receipts, on), .words = WORDS("off", "on"), .fallback = "on",
	 .help = "`off`: no packet is sampled, and no receipt is sent or accepted."},
	{"sample", .type = &sample_type, .fallback = "adaptive",
	 .help = "`adaptive`, or one in how many packets, such as `1/64`. A power of two up to "
		 "65536. `adaptive`: it follows the rate of each queue pair. Of two ends that "
		 "differ, the one that samples less decides."},
	{"max_pps", KEY(number, config_receipts, max_pps), .fallback = "20000", .least = 1,
	 .most = 1000000, .help = "Receipts that this host sends in a second, per CPU."},
	{"threshold", KEY(duration, config_receipts, threshold_ns), .fallback = "100us",
	 .least = CONFIG_US, .most = CONFIG_S,
	 .help = "Delays above it are counted. So are the times that they rise above it."},
	{"host_queue", KEY(boolean, config_receipts, host_queue), .fallback = "false",
	 .help = "Measure this host's own queue separately, at 100 ns per packet. It is the time "
		 "of sampled packets between the tc hook and the driver, as opposed to the "
		 "fabric's delay. A program then runs for every packet that any interface of this "
		 "host sends."},
	{},
};

/* --- qps, textfile, events --- */

static const struct config_key qps_keys[] = {
	{"max", KEY(number, config_qps, max), .fallback = "16384", .least = 16,
	 .most = QPS_MAX_MOST, .fixed = true,
	 .help = "Entries of the table, one for each direction. Packets of a queue pair that finds "
		 "no room pass unchanged and are counted as `qp_table_full`. What hosts send that "
		 "are not members (`qp_unknown_host`), and what this host sends not by an RDMA "
		 "device of its own, as for virtual machines (`qp_foreign`), has a quarter each."},
	{"idle", KEY(duration, config_qps, idle_ns), .fallback = "60s", .least = CONFIG_S,
	 .most = 24 * 3600 * CONFIG_S,
	 .help = "A queue pair without a packet for this time is removed."},
	{"message_port", KEY(number, config_qps, message_port), .fallback = "4792", .most = 65535,
	 .help = "UDP port of reports between daemons; 0: there are none. It is the same on all "
		 "hosts. A host reports when messages of processes with libescapement-verbs were "
		 "received, for their delays. The port is open only while there are such "
		 "processes."},
	{},
};

/* For --check-config: a daemon reports it and tries again at each interval (api/textfile.c). */
static void check_directory(struct config_reading *reading, const struct config_key *key,
			    void *values)
{
	const char *directory = ((const struct config_textfile *)values)->directory;
	struct stat status;

	if (!reading->for_host)
		return;
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
	{"directory", KEY(path, config_textfile, directory),
	 .example = "/var/lib/prometheus/node-exporter", .check = check_directory,
	 .help = "Where `escapement.prom` is written. Without it nothing is written. Two daemons "
		 "need two directories."},
	{"interval", KEY(duration, config_textfile, interval_ns), .fallback = "5s",
	 .least = 100 * CONFIG_MS, .most = 3600 * CONFIG_S, .help = "How often it is written."},
	{"top_qps", KEY(number, config_textfile, top_qps), .fallback = "8", .most = 1024,
	 .help = "Queue pairs with series of their own, those with the highest rate. As many have "
		 "series of their delays, those with the highest. The sums over all queue pairs "
		 "are always there."},
	{"top_paths", KEY(number, config_textfile, top_paths), .fallback = "2", .most = 1024,
	 .help = "Candidate paths with series of their own. 16 series each at most; paths that are "
		 "down, in hold-down or suspect first, then those with most queue pairs. The "
		 "number of paths in each state is always there."},
	{},
};

static const struct config_key events_keys[] = {
	{"file", KEY(path, config_events, file), .fallback = "/var/log/escapement/events.jsonl",
	 .fixed = true,
	 .help = "Each event is also appended to this file, as a line of JSON. At 8 MiB it is "
		 "renamed to FILE.1, up to FILE.3; it may also be rotated by others. A start "
		 "reads the newest events of this `host` from it. `/dev/null` disables it."},
	{"keep", KEY(number, config_events, keep), .fallback = "4096", .least = 1, .most = 1000000,
	 .fixed = true, .help = "Events kept in memory for `escapement events`."},
	{},
};

/* --- alerts --- */

#define ALERTMANAGERS_MAX 8

static void check_url(struct config_reading *reading, const struct config_key *key, void *values)
{
	const char *url = ((const struct config_alertmanager *)values)->url;
	size_t scheme = !strncmp(url, "http://", 7) ? 7 : !strncmp(url, "https://", 8) ? 8 : 0;
	size_t host = strcspn(url + scheme, "/?#");

	if (!scheme || !host || strpbrk(url, " \t\"'\\"))
		config_refuse(reading, key->name,
			      "`url: %.64s` should begin with http:// or https:// and a host, such "
			      "as `http://alertmanager:9093`",
			      url);
	else if (memchr(url + scheme, '@', host))
		config_refuse(
			reading, key->name,
			"`url` has a user or password, and `config show` would print it; give "
			"`user` and `password_file`");
}

static void check_user(struct config_reading *reading, const struct config_key *key, void *values)
{
	const struct config_alertmanager *one = values;

	if (!one->user || !one->password_file)
		config_refuse(reading, key->name,
			      "`user` and `password_file` belong together; give both");
}

static const struct config_key alertmanager_keys[] = {
	{"url", KEY(text, config_alertmanager, url), .required = true,
	 .example = "http://alertmanager:9093", .check = check_url,
	 .help = "Its address, without `/api/v2/alerts`."},
	{"user", KEY(text, config_alertmanager, user), .example = "escapement", .check = check_user,
	 .help = "User of HTTP basic authentication."},
	{"password_file", KEY(path, config_alertmanager, password_file),
	 .example = "/etc/escapement/alertmanager.password", .check = check_user,
	 .help = "Its password, the first line of this file. The user `escapement-alert` has to be "
		 "able to read it."},
	{"ca_file", KEY(path, config_alertmanager, ca_file),
	 .example = "/etc/escapement/alertmanager.pem",
	 .help = "Certificates that its own is checked by. Default: those of the system."},
	{},
};

static const struct config_list alertmanager_list = {
	.keys = alertmanager_keys,
	.most = ALERTMANAGERS_MAX,
	.entry_bytes = sizeof(struct config_alertmanager),
	.count_offset = offsetof(struct config_alerts, alertmanager_count),
};

static const struct config_key alerts_keys[] = {
	{"thresholds", KEY(list, config_alerts, thresholds), .list = &config_threshold_list,
	 .example = "[{name: slow, of: qp_owd_p99, above: 500us}]",
	 .help = "Limits of what the daemon measures, at most 32. Each thing that exceeds one is a "
		 "finding, with the events `threshold_exceeded` and `threshold_cleared`. What has "
		 "no value, such as the delay of an idle queue pair, neither begins nor ends one; "
		 "what is gone ends."},
	{"alertmanagers", KEY(list, config_alerts, alertmanagers), .list = &alertmanager_list,
	 .example = "[{url: http://alertmanager:9093}]",
	 .help = "Alertmanagers that get every alert, at most 8. List all instances of a cluster."},
	{"severity", KEY(word, config_alerts, severity),
	 .words = WORDS("info", "notice", "warning", "critical"), .fallback = "warning",
	 .help = "Events of at least this severity are alerts."},
	{"hook", KEY(path, config_alerts, hook), .example = "/etc/escapement/hook",
	 .help = "A program that is run for each alert that begins or ends. It gets the alert as "
		 "JSON on its standard input; no shell is involved, and one runs at a time."},
	{"hook_timeout", KEY(duration, config_alerts, hook_timeout_ns), .fallback = "10s",
	 .least = 100 * CONFIG_MS, .most = 600 * CONFIG_S,
	 .help = "After this time the hook and the processes of its group are killed."},
	{"hook_per_minute", KEY(number, config_alerts, hook_per_minute), .fallback = "30",
	 .least = 1, .most = 6000, .help = "How often the hook is run at most. The rest waits."},
	{},
};

/* --- serve --- */

static void check_listen(struct config_reading *reading, const struct config_key *key, void *values)
{
	const char *text = ((const struct config_serve *)values)->listen;
	const char *colon = strrchr(text, ':');
	struct in6_addr address;
	char host[64] = "";
	unsigned long port = 0;
	char *end = NULL;

	if (colon && colon[1] >= '0' && colon[1] <= '9')
		port = strtoul(colon + 1, &end, 10);
	if (colon && colon > text && text[0] == '[' && colon[-1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - 2, text + 1);
	else if (colon)
		snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if (!end || *end || !port || port > 65535 ||
	    inet_pton(text[0] == '[' ? AF_INET6 : AF_INET, host, &address) != 1)
		config_refuse(reading, key->name,
			      "`listen: %.64s` should be an address and a port, such as "
			      "`127.0.0.1:9470` or `[::1]:9470`",
			      text);
}

static const struct config_key serve_keys[] = {
	{"listen", KEY(text, config_serve, listen), .fallback = "127.0.0.1:9470",
	 .check = check_listen,
	 .help = "An address and a port. There is neither a password nor encryption: all that "
		 "reach it read what members of the group `escapement` may read."},
	{},
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
			"`dead_after: %s` is shorter than three probes with `probe_interval: %s`, "
			"and fewer may be lost by chance; give at least %s, or probe more often",
			given, probe, least);
	}
}

static const struct config_key paths_keys[] = {
	{"probe", KEY(word, config_paths, on), .words = WORDS("off", "auto"), .fallback = "auto",
	 .help = "`auto`: paths are found and probed. `off`: they are not, and no queue pair is "
		 "steered to a backup."},
	{"per_peer", KEY(number, config_paths, per_peer), .fallback = "8", .least = 2,
	 .most = ESC_PATHS_MAX, .help = "Candidate paths to an address of a peer."},
	{"probe_interval", KEY(duration, config_paths, probe_interval_ns), .fallback = "1ms",
	 .least = 500 * CONFIG_US, .most = 100 * CONFIG_MS,
	 .help = "Probe interval of a path in use, in mode steer. In mode observe every path is "
		 "probed four times a second."},
	{"standby_interval", KEY(duration, config_paths, standby_interval_ns), .fallback = "20ms",
	 .least = CONFIG_MS, .most = CONFIG_S,
	 .help = "Probe interval of the other paths, in mode steer. At least `probe_interval`."},
	{"dead_after", KEY(duration, config_paths, dead_after_ns), .fallback = "3ms",
	 .least = CONFIG_MS, .most = CONFIG_S,
	 .help = "A path without replies for this time is dead. At least three times "
		 "`probe_interval`: three probes or more were sent on it, and a later report of "
		 "the peer has none received for this time. It is longer where the path is slow or "
		 "its delay varies, or where it is probed less often: three times the interval in "
		 "force."},
	{"return_after", KEY(duration, config_paths, return_after_ns), .fallback = "5s",
	 .least = 100 * CONFIG_MS, .most = 60 * CONFIG_S,
	 .help = "Hold-down: up for this time before it is used again. A path that dies again and "
		 "again has a longer one, up to a minute."},
	{"probe_budget_pps", KEY(number, config_paths, budget_pps), .fallback = "20000",
	 .least = 100, .most = 1000000,
	 .help = "All path probes of this host together, per second. When it is short, paths in "
		 "use come first and the others keep a tenth of it; `escapement status` shows it. "
		 "A peer gets replies up to a quarter more than this: give all hosts the same."},
	{},
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

	(void)key;
	for (unsigned int i = 1; i < ESC_TCP_INNER_MAX; i++)
		if (refused >> i & 1)
			text_append(text, sizeof(text), ", ", esc_tcp_inner_names[i]);
	return *text ? json_string(text) : NULL;
}

static const struct config_type refused_type = {"names", parse_refused, show_refused, NULL, NULL};

static const struct config_key lab_keys[] = {
	{"clock_offset", KEY(duration, config_lab, clock_offset_ns), .fixed = true,
	 .example = "-250ms", .least = -3600 * CONFIG_S, .most = 3600 * CONFIG_S,
	 .help = "Added to CLOCK_MONOTONIC; the sum is this host's local clock."},
	{"clock_drift_ppb", KEY(number, config_lab, clock_drift_ppb), .fixed = true,
	 .example = "-30000", .least = -DRIFT_MOST_PPB, .most = DRIFT_MOST_PPB,
	 .help = "So many parts in 10^9 of CLOCK_MONOTONIC are added to it, too."},
	{"nic", KEY(text, config_lab, nic), .example = "eth2", .most = IF_NAMESIZE - 1,
	 .help = "An interface whose timestamps are wrong, by `nic_offset`."},
	{"nic_offset", KEY(duration, config_lab, nic_offset_ns), .example = "2us",
	 .least = -CONFIG_S, .most = CONFIG_S,
	 .help = "Added to the timestamps of the interface `nic`."},
	{"tai_offset", KEY(duration, config_lab, tai_offset_ns), .example = "37s",
	 .least = CONFIG_S, .most = 3600 * CONFIG_S,
	 .help = "For an anchor, TAI is CLOCK_REALTIME and this offset. The kernel's TAI is not "
		 "used."},
	{"tcp_refused", .type = &refused_type, .offset = offsetof(struct config_lab, tcp_refused),
	 .example = "cubic, reno",
	 .help = "`all`, or some of `cubic`, `bbr`, `reno`. TCP pacing acts as if the kernel had "
		 "no such congestion controls to wrap."},
	{},
};

/* --- the sections --- */

static void check_top(struct config_reading *reading, const struct config *config, void *values)
{
	(void)values;
	for (size_t i = 0; i < config->interface_count; i++)
		if (config->interfaces[i].sibling) {
			config_require_key(reading, config, "interfaces",
					   "NIC failover (`sibling`)");
			return;
		}
}

/* In the member of struct config that has its name. */
#define PART(member)                                                                               \
	.name = #member, .keys = member##_keys, .offset = offsetof(struct config, member)

static const struct config_section own_sections[] = {
	{.name = "", .summary = "", .keys = top_keys, .check = check_top},
	{PART(mesh), .summary = "Probes between this host and some others of the fleet."},
	{PART(clock), .summary = "Fabric time."},
	{PART(receipts),
	 .summary = "One-way delay of queue pairs. Both ends sample the same packets, by their "
		    "sequence numbers, and the receiver of one sends a receipt of some 130 bytes."},
	{PART(paths), .check = check_paths,
	 .summary = "Candidate paths: UDP source ports that spread over the fabric's paths. They "
		    "are found for each address of a member with which this host has queue pairs, "
		    "in either direction."},
	{PART(qps), .summary = "The table of queue pairs."},
	{PART(textfile), .summary = "Metrics for the textfile collector of node_exporter."},
	{PART(events), .summary = "The event log."},
	{PART(alerts), .summary =
			       "What is reported beside what the daemon reports itself, and where "
			       "escapement-alert(8) sends alerts. The daemon itself sends none."},
	{PART(serve),
	 .summary = "Where escapement-serve(8) serves HTTP, when its unit is enabled. The daemon "
		    "itself serves none."},
	{PART(lab), .summary = "For tests only.", .for_tests = true},
};

const struct config_section *config_section_at(const struct config_section *const *more, size_t i)
{
	if (i < CONFIG_COUNT_OF(own_sections))
		return &own_sections[i];
	return more ? more[i - CONFIG_COUNT_OF(own_sections)] : NULL;
}
