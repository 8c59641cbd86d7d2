// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of no capability. */
#include "internal.h"
#include "verbs.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.header = "Host", .text = "{host}"},
	{.header = "Daemon", .text = "escapementd {version}, pid {pid}, up {uptime_s:age}"},
	{.header = "Members", .text = "{members} addresses"},
	{.when = "kill_switch",
	 .header = "Kill switch",
	 .text = "on: {kill_switch_reason}; `escapement mode observe` turns it off"},
	{.when = "!kill_switch mode=observe",
	 .header = "Mode",
	 .text = "observe: packets are counted, none is changed"},
	{.when = "!kill_switch mode=steer",
	 .header = "Mode",
	 .text = "steer: queue pairs in `escapement steer` take the path that is named there"},
	{.when = "!kill_switch mode=pace",
	 .header = "Mode",
	 .text = "pace: packets wait at the sender while queues in the fabric are long"},
	{.when = "!kill_switch mode=steer+pace",
	 .header = "Mode",
	 .text = "steer+pace: queue pairs are steered, and their packets are paced"},
	{.when = "events_file_failed", .header = "Event file", .text = "{events_file_failed}"},
	{.rows = "late",
	 .header = "Late",
	 .text = "{name} has taken {duration_ns:time}; the daemon's loop runs on"},
	{.when = "events_lost",
	 .header = "Events lost",
	 .text = "{events_lost.file} of the file, {events_lost.journal} of the journal; "
		 "`escapement events` has the newest ones"},
	{.when = "events_suppressed_total",
	 .header = "Events",
	 .text = "{events_suppressed_total} suppressed: two in a second of a kind are recorded, "
		 "after 128"},
	{},
};

static const struct verb_section health[] = {
	{.when = "kill_switch",
	 .text = "the kill switch is on, nothing is attached ({kill_switch_reason})",
	 .remedy = "`escapement mode observe` releases it",
	 .began = "kill_switch_on"},
	{.when = "heartbeat_late_ns",
	 .text = "the last heartbeat was {heartbeat_late_ns:age} ago: without it for 2s nothing is "
		 "steered or paced",
	 .remedy = "`escapement events --kind loop_delayed` names what takes the daemon's time"},
	{.rows = "late",
	 .text = "{name} has taken {duration_ns:time}",
	 .remedy = "see the disk, or what holds RTNL",
	 .began = "worker_late"},
	{.when = "events_file_failed",
	 .text = "events are not written to {events_file_failed}",
	 .remedy = "see that its disk has room and responds; `escapement events` has the newest",
	 .began = "events_file_failed"},
	{},
};

/* --- the verbs --- */

static const struct verb_arg help_args[] = {
	{"VERB", .type = VERB_TEXT, .key = "verb", .repeated = true, .local = true,
	 .help = "the verb to explain; without it all are listed"},
	{},
};

static const struct verb_arg completion_args[] = {
	{"SHELL", .type = VERB_CHOICE, .choices = "bash|zsh|words", .key = "shell",
	 .required = true, .local = true,
	 .help = "the shell; `words` is what the scripts run to complete the last WORD"},
	{"WORD", .type = VERB_TEXT, .key = "words", .repeated = true, .local = true,
	 .help = "the words of a command line"},
	{},
};

static const struct verb_arg event_args[] = {
	{"--follow", .type = VERB_FLAG, .key = "follow", .streams = true,
	 .help = "continue with each new event; without --since from now on"},
	{"--since", "TIME", .type = VERB_SINCE, .key = "since_ns",
	 .help = "how long ago (10min), a time of day (12:00), a date with or without a time "
		 "(2026-01-31T12:00:00, in UTC with a Z behind it), or seconds since 1970 "
		 "(@1769860800)"},
	{"--kind", "KIND", .type = VERB_TEXT, .key = "kinds", .repeated = true, .local = true,
	 .help = "those of this kind alone; `path_*` is all that begin so, and it may be given "
		 "several times"},
	{"--severity", "LEAST", .type = VERB_CHOICE, .choices = "info|notice|warning|critical",
	 .key = "severity", .local = true, .help = "those of at least this severity"},
	{"--subject", "TEXT", .type = VERB_TEXT, .key = "subject", .local = true,
	 .help = "those with this text in `subject`, `fault` or `job`"},
	{"--merge", .type = VERB_FLAG, .key = "merge", .local = true,
	 .help = "of the event logs FILE, of one host or several, in the order of fabric time, "
		 "without a daemon"},
	{"FILE", .type = VERB_TEXT, .key = "files", .repeated = true, .local = true,
	 .help = "lines of `escapement -j events`, or an `events.file`"},
	{},
};

static const struct verb_arg health_args[] = {
	{"--format", "FORMAT", .type = VERB_CHOICE, .choices = "text|npd|nagios", .key = "format",
	 .local = true,
	 .help = "`npd`: for node-problem-detector, a line of at most 80 bytes and the exit status "
		 "0, 1 (a problem) or 2 (not known); `nagios`: its lines, at most 4096 bytes, and "
		 "0, 1 (warnings alone), 2 (critical) or 3 (not known)"},
	{"--severity", "LEAST", .type = VERB_CHOICE, .choices = "warning|critical",
	 .key = "severity", .local = true,
	 .help = "`critical`: only what costs traffic, as a link, a NIC or a critical finding; "
		 "default `warning`: also what keeps this daemon from its work"},
	{"--clock-bound", "TIME", .type = VERB_DURATION, .key = "clock_bound_ns", .least = 1,
	 .most = 1000000000, .local = true,
	 .help = "an error bound of the clock from which on it is a reason; default 100us"},
	{},
};

static const struct verb_arg report_args[] = {
	{"--html", .type = VERB_FLAG, .key = "html", .local = true,
	 .help = "write the page to stdout; with -j instead, an export of this host"},
	{"--for", "TIME", .type = VERB_DURATION, .key = "for_ns", .local = true,
	 .least = 1000000000, .most = 600000000000,
	 .help = "take samples of the queue pairs each second for this time"},
	{"FILE", .type = VERB_TEXT, .key = "files", .repeated = true, .local = true,
	 .help = "exports of one or many hosts, and events (`escapement -j events`)"},
	{},
};

static const struct verb_arg serve_args[] = {
	{"--listen", "ADDRESS:PORT", .type = VERB_TEXT, .key = "listen", .local = true,
	 .help = "where; default: `serve.listen` of the daemon's configuration"},
	{},
};

static const struct verb_arg sysdump_args[] = {
	{"FILE", .type = VERB_TEXT, .key = "file", .local = true,
	 .help = "a new file, `-` for the standard output; default "
		 "escapement-sysdump-HOST-TIME.tar.gz in the current directory"},
	{},
};

static const struct verb_arg mode_args[] = {
	{"MODE", .type = VERB_CHOICE, .choices = "observe|steer|pace", .key = "mode",
	 .required = true,
	 .help = "`observe`: no packet is changed; `steer`: rules of `steer` are applied; `pace`: "
		 "as `pace on`"},
	{"INTERFACE", .type = VERB_INTERFACE, .key = "interfaces", .repeated = true,
	 .help = "the interfaces; without one: all, and `observe` turns off the kill switch too"},
	{},
};

static const struct verb_section mode[] = {
	{.text = "Mode: {mode}; the kill switch is {kill_switch:?on|off}."},
	{},
};

static const struct verb_arg off_args[] = {
	{"--pin-root", "PATH", .type = VERB_TEXT, .key = "pin_root", .local = true,
	 .help = "without a daemon: the `pin_root` of its configuration, when that is not the "
		 "default"},
	{"--kill-file", "PATH", .type = VERB_TEXT, .key = "kill_file", .local = true,
	 .help = "without a daemon: the `kill_file` of its configuration, when that is not the "
		 "default"},
	{},
};

static const struct verb_section off[] = {
	{.when = "!removed !not_found",
	 .text = "Off: every program is detached, and stays so over restarts and reboots while\n"
		 "{kill_file} exists.\n`escapement mode observe` attaches them again."},
	{.text = "No daemon is running. What was attached and recorded under {removed} is detached "
		 "and removed."},
	{.text = "No daemon is running, and nothing was recorded under {not_found}. When the "
		 "configuration\nsets another `pin_root`, give --pin-root and --kill-file."},
	{.text = "The packets of {forwarded} are still forwarded: its queue pairs would be cut "
		 "off."},
	{.when = "removed|not_found",
	 .text = "{kill_file} was created: a daemon that starts now attaches nothing until\n"
		 "`escapement mode observe`."},
	{},
};

static const struct column features[] = {
	{"FEATURE", "name", FORMAT_TEXT, COLUMN_LEFT, .help = "a feature of the running kernel"},
	{"AVAILABLE", "{supported:?yes|no}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "whether it can be used"},
	{"DETAIL", "detail", FORMAT_TEXT, COLUMN_LEFT, .help = "its version, or the error"},
	{},
};

static const struct verb_section feature_list[] = {
	{.rows = "features", .columns = features},
	{.rows = "features", .only = "!supported", .text = "Without {name}: {cost}"},
	{},
};

static const struct verb_arg reload_args[] = {
	{"--force", .type = VERB_FLAG, .key = "force",
	 .help = "apply the member list at once, also when it loses most of the fleet"},
	{},
};

static const struct verb_section reload[] = {
	{.text = "{config} is in force."},
	{.when = "members_held",
	 .text = "Its member list is held back: {members_held}. `escapement reload --force` "
		 "applies it at once."},
	{},
};

static const struct verb_section version[] = {
	{.text = "escapement {version}, map ABI {abi}<|; the daemon is {daemon.version}|>"},
	{},
};

static const struct verb status_list[] = {
	{.name = "status",
	 .summary = "what is attached, visible and possible",
	 .reads = true,
	 .output = status,
	 .help = "Version, mode, kill switch, how the programs are attached to each interface, how "
		 "much of the RDMA traffic can be seen, what was counted, and a summary of each "
		 "capability. Packets that are not counted per queue pair are listed by reason; "
		 "they were forwarded unchanged."},
	{.name = "health",
	 .request = "status",
	 .reads = true,
	 .summary = "check this host; exit status 0 or 1",
	 .args = health_args,
	 .help = "Lists what is wrong on this host, since when, and what to do: the kill switch, "
		 "programs that are not attached, a clock that is not synced, links, NICs, peers "
		 "and paths that are down, full tables, critical findings. The exit status is 0 "
		 "when there is nothing, else 1, and 3 without a daemon."},
	{},
};

const struct verb_set status_verbs = {.name = "status", .verbs = status_list, .health = health};

static const struct verb verbs[] = {
	{.name = "events",
	 .summary = "the event log",
	 .reads = true,
	 .args = event_args,
	 .help = "One line for each event: what was seen, what was done, what was expected and "
		 "what resulted. It begins before the daemon's start: what `events.file` has of "
		 "this host. With --merge each line begins with the fabric time since the line "
		 "above and its error bound. An event that may have been before some above it, "
		 "since their bounds overlap, states so: with -j as `not_ordered`, their number, "
		 "and `not_ordered_with`, the ids of the nearest 16. Events of one host are in the "
		 "order in which it recorded them. Fabric time is reset when a whole fleet "
		 "restarts: give --since with logs from before it."},
	{.name = "report",
	 .place = VERB_HERE,
	 .reads = true,
	 .summary = "a page of pictures: delays between NICs, the fabric, queue pairs",
	 .args = report_args,
	 .help = "With --html: one page without scripts, in which all text is escaped, of this "
		 "host or of the exports FILE. It has the one-way delays between NICs as a heat "
		 "map, the surveyed paths as a map of the fabric with the longest delay and most "
		 "loss of each link, and the delay of queue pairs over time with its error "
		 "bound, events as marks and gaps; each has a table beside it. With -j: the export "
		 "of this host for it, `escapement -j report > h1.json`."},
	{.name = "metrics",
	 .reads = true,
	 .summary = "the metrics of `escapement.prom`, as they are now",
	 .help = "In the text format of Prometheus, as the textfile has it and escapement-serve(8) "
		 "serves it. What the textfile has since its last write stays for its next one."},
	{.name = "serve",
	 .place = VERB_HERE,
	 .reads = true,
	 .summary = "serve metrics, the replies to verbs and the report over HTTP, read-only",
	 .args = serve_args,
	 .help = "Runs escapement-serve(8), which does not run as root; its unit is off by "
		 "default: `systemctl enable --now escapement-serve`."},
	{.name = "sysdump",
	 .place = VERB_HERE,
	 .reads = true,
	 .summary = "one file for a bug report, without keys",
	 .args = sysdump_args,
	 .help = "A compressed tar file with the replies to all verbs that change nothing, the "
		 "configuration, events, metrics, interfaces, qdiscs, programs and maps, the "
		 "kernel's log, the journal of the units, and versions. What cannot be had is in "
		 "its index.json with the reason: as root there is most. A part that has the "
		 "bytes of a key or a password is left out. It names addresses, processes and "
		 "jobs. Without a daemon it has the rest."},
	{.name = "mode",
	 .summary = "observe only, or allow steering or pacing",
	 .args = mode_args,
	 .output = mode,
	 .help = "In mode `observe` no packet is changed: every rule of `steer` ends with the next "
		 "packet, and no packet is delayed. When the daemon starts, `steer.mode` and "
		 "`pace.mode` of the configuration decide."},
	{.name = "off",
	 .summary = "the kill switch: detach everywhere, and stay detached",
	 .args = off_args,
	 .output = off,
	 .place = VERB_EITHER,
	 .run = local_off,
	 .help = "Every program is detached and every interface is as it was before; the daemon "
		 "continues without them, also after a restart or a reboot, until `mode observe`. "
		 "Without a daemon the command line does it itself, and removes the pinned maps "
		 "with their counts. What forwards the packets of a dummy device of NIC failover "
		 "stays until the device is deleted."},
	{.name = "config show",
	 .request = "config",
	 .reads = true,
	 .summary = "the configuration in force, as YAML",
	 .help = "With the defaults filled in; the daemon accepts it as a configuration."},
	{.name = "features",
	 .summary = "which kernel features are available",
	 .reads = true,
	 .output = feature_list,
	 .place = VERB_EITHER,
	 .run = local_features,
	 .help = "As the daemon finds them, whose confinement may hide some; without a daemon as "
		 "the command line does."},
	{.name = "reload",
	 .summary = "read the configuration file again",
	 .args = reload_args,
	 .output = reload,
	 .help = "It is applied as a whole, or refused as a whole with all errors. A member list "
		 "that loses most of the fleet is held back for `members_hold`."},
	{.name = "help",
	 .summary = "list the verbs, or explain one",
	 .args = help_args,
	 .place = VERB_HERE},
	{.name = "version",
	 .summary = "the versions of the command line and the daemon",
	 .reads = true,
	 .output = version,
	 .place = VERB_EITHER,
	 .run = local_version},
	{.name = "completion",
	 .summary = "print the completion script of a shell",
	 .args = completion_args,
	 .place = VERB_HERE,
	 .help = "`source <(escapement completion bash)`; packages install it."},
	{},
};

const struct verb_set general_verbs = {.name = "general", .verbs = verbs};
