// SPDX-License-Identifier: BSD-2-Clause
/* The verb mesh. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "rotation.on",
	 .header = "Rotation",
	 .text = "NICs are measured in turn<|: each pair of the rack in {rotation.rack_s:age}|><|, "
		 "each pair of racks in {rotation.racks_s:age}|>"},
	{.when = "rotation !rotation.on",
	 .header = "Rotation",
	 .text = "no NICs are measured in turn<|: {rotation.note}|>"},
	{},
};

static const struct column coverage[] = {
	{"KIND", "kind", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`rack`: each NIC of this host with each NIC of the other hosts of its rack; "
		 "`racks`: each rack with each other one; `in_use`: addresses that queue pairs "
		 "send to and neither the mesh nor candidate paths measure"},
	{"PAIRS", "pairs", FORMAT_COUNT,
	 .help = "how many there are: of this host's NICs, of all racks, of addresses"},
	{"EVERY", "cycle_s", FORMAT_AGE, .help = "the time in which each is measured once"},
	{"MEASURED", "last.measured", FORMAT_COUNT,
	 .help = "measurements of this host with a reply, in the last whole cycle"},
	{"SILENT", "last.silent", FORMAT_COUNT, .help = "and without any"},
	{"BY_PATH", "last.by_path", FORMAT_COUNT,
	 .help = "and left out, since candidate paths are probed there all the time"},
	{"NOW", "now.measured", FORMAT_COUNT, .help = "with a reply, in this cycle so far"},
	{},
};

static const struct column nics[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the peer's host name"},
	{"RAIL", "rail", FORMAT_TEXT, COLUMN_LEFT, .help = "label `rail` of its NIC"},
	{"FROM", "from", FORMAT_TEXT, COLUMN_LEFT, .help = "our address"},
	{"TO", "to", FORMAT_TEXT, COLUMN_LEFT, .help = "its address"},
	{"OUT_P50", "owd_out_ns.p50", FORMAT_TIME, .help = "median one-way delay to it"},
	{"OUT_MAX", "owd_out_ns.max", FORMAT_TIME, .help = "the longest"},
	{"IN_P50", "owd_in_ns.p50", FORMAT_TIME, .help = "median one-way delay from it"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of these delays"},
	{"LOST", "lost/sent", FORMAT_SHARE, .help = "probes without a reply"},
	{"AGE", "age_s", FORMAT_AGE, .help = "how long ago it was measured"},
	{},
};

static const struct verb_section output[] = {
	{.when = "!on", .text = "No NICs are measured in turn<|: {note}|>."},
	{.when = "on !nics",
	 .text = "Budget {budget_pps} probes a second, {budget_bytes_per_second:rate} each way; "
		 "{hosts} hosts in {racks} racks<|; this host is in rack {rack}|><|, pod {pod}|>, "
		 "with {rack_hosts} hosts."},
	{.when = "!nics", .rows = "coverage", .columns = coverage},
	{.when = "silent_count !nics",
	 .text = "{silent_count} pairs of addresses had no reply when they were last measured:"},
	{.rows = "silent", .text = "  {from} to {to} ({peer}<|, rail {rail}|>), {age_s:age} ago"},
	{.rows = "nics", .columns = nics},
	{},
};

static const struct verb_arg args[] = {
	{"HOST", .key = "host", .type = VERB_TEXT,
	 .help = "shows each measurement that is kept of this host's NICs"},
	{"--all", .key = "all", .type = VERB_FLAG, .help = "shows each measurement that is kept"},
	{},
};

static const struct verb verbs[] = {
	{.name = "mesh",
	 .reads = true,
	 .summary = "NICs and racks that are measured in turn: what, how often, with which budget",
	 .args = args,
	 .output = output,
	 .help = "Neighbors of the mesh and candidate paths are measured all the time (`peers`, "
		 "`paths`). Beyond these each NIC of a rack measures every other one, and each "
		 "rack every other one, by a schedule that all hosts make of the member list and "
		 "fabric time."},
	{},
};

const struct verb_set rotation_verbs = {"rotation", verbs, status, NULL, NULL};
