// SPDX-License-Identifier: BSD-2-Clause
/* The verb paths. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "paths.on",
	 .header = "Paths",
	 .text = "{paths.up} up, {paths.suspect} suspect, {paths.down} down, {paths.hold_down} in "
		 "hold-down, to {paths.peers} addresses"},
	{.when = "paths !paths.on", .header = "Paths", .text = "not probed<|: {paths.note}|>"},
	{.when = "paths.on paths.budget.short",
	 .header = "",
	 .text = "`paths.probe_budget_pps` ({paths.budget.budget_pps}) is below the "
		 "{paths.budget.wanted_pps} that are needed: paths are probed less often, a dead "
		 "one is detected later"},
	{.when = "paths.refused",
	 .header = "",
	 .text = "the map of paths was full: some peers have none"},
	{.when = "paths.quotes.overflow",
	 .header = "",
	 .text = "more ICMP errors were received than can be read: {paths.quotes.overflow} "
		 "dropped, {paths.quotes.unmatched} of no probe that waits for one"},
	{},
};

static const struct verb_section health[] = {
	{.when = "paths.on paths.down",
	 .text = "{paths.down} paths are down",
	 .remedy = "`escapement paths` shows their switches",
	 .began = "path_down"},
	{.when = "paths.refused", .text = "the map of paths was full: some peers have none"},
	{},
};

static const struct column columns[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the peer's host name"},
	{"ADDRESS", "to", FORMAT_TEXT, COLUMN_LEFT, .help = "its address"},
	{"SPORT", "sport", FORMAT_TEXT, .help = "UDP source port by which the path is taken"},
	{"PATH", "group", FORMAT_TEXT,
	 .help = "ports with one number share a path: the switches report the same hops, or their "
		 "delays agree; `-`: not known yet"},
	{"STATE", "{state}<|:{diverted:?diverted|}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`up`; `suspect`: no reply, and none of the peer; `down`: the peer reports that "
		 "it receives nothing; `hold_down`: it recovered and is in hold-down; `:diverted`: "
		 "packets use BACKUP. It is of the direction to the peer"},
	{"OUT_MIN", "owd_out_ns.floor", FORMAT_TIME, .help = "minimum one-way delay to the peer"},
	{"OUT_P50", "owd_out_ns.p50", FORMAT_TIME, .help = "its median over the last 5 to 10 s"},
	{"OUT_P99", "owd_out_ns.p99", FORMAT_TIME, .help = "its 99th percentile"},
	{"IN_P50", "owd_in_ns.p50", FORMAT_TIME, .help = "median one-way delay from the peer"},
	{"IN_P99", "owd_in_ns.p99", FORMAT_TIME, .help = "its 99th percentile"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of these delays"},
	{"LOST", "lost/sent", FORMAT_SHARE,
	 .help = "probes without a reply within 1 s, in either direction"},
	{"QPS", "qps", FORMAT_TEXT, .help = "queue pairs that use the path now"},
	{"BACKUP", "backup_sport", FORMAT_TEXT,
	 .help = "the source port that packets take when it is dead"},
	{"PROBE_EVERY", "interval_ns", FORMAT_AGE, .help = "interval of its probes"},
	{"HOPS", "hops", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "switches, those that can differ; `*`: no reply"},
	{},
};

static const struct verb_section output[] = {
	{.text = "{note}"},
	{.rows = "paths", .columns = columns},
	{.when = "!paths on", .text = "No paths: there is no queue pair to a member's address."},
	{.when = "!paths !on",
	 .text = "No paths are probed: `paths.probe` is off, or there are no members."},
	{.rows = "pairs",
	 .only = "groups complete",
	 .text = "{peer} ({to}): {groups} different paths<|; {note}|>"},
	{.rows = "pairs",
	 .only = "groups !complete",
	 .text = "{peer} ({to}): {groups} different paths, discovery continues<|; {note}|>"},
	{.rows = "pairs",
	 .only = "!groups",
	 .text = "{peer} ({to}): paths are not distinguished yet<|; {note}|>"},
	{.when = "budget.short",
	 .text = "`paths.probe_budget_pps` ({budget.budget_pps}) is short: {budget.wanted_pps} are "
		 "needed, paths are probed less often than configured"},
	{},
};

static const struct verb_arg args[] = {
	{"PEER", .type = VERB_TEXT, .key = "peer", .help = "a peer by its host name or address"},
	{},
};

static const struct verb verbs[] = {
	{.name = "paths",
	 .reads = true,
	 .summary = "the candidate paths to each peer: delay, loss, state",
	 .args = args,
	 .output = output,
	 .help = "One line for each path to a peer's address: a UDP source port by which it is "
		 "taken. Delays are in fabric time."},
	{},
};

const struct verb_set paths_verbs = {"paths", verbs, status, health, NULL};
