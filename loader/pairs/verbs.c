// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of the runs. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct column nics[] = {
	{"INTERFACE", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "of this host"},
	{"RAIL", "rail", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "its label"},
	{"PAIRS", "pairs", FORMAT_COUNT, .help = "other NICs of the rail"},
	{"MEASURED", "measured", FORMAT_COUNT,
	 .help = "of these, so far, with half of the probes at least"},
	{"SILENT", "faults.silent", FORMAT_COUNT, .help = "without a reply to any probe"},
	{"LOSS", "faults.loss", FORMAT_COUNT, .help = "with a reply to some of 100"},
	{"MTU", "faults.mtu", FORMAT_COUNT,
	 .help = "that lose all packets of the interface's MTU, and no small ones"},
	{"LATENCY", "faults.latency", FORMAT_COUNT,
	 .help = "whose least one-way delay is above the limit of its class"},
	{"ASYMMETRY", "faults.asymmetry", FORMAT_COUNT,
	 .help = "whose directions differ by more than usual, and by more than the clock may"},
	{"LOST", "lost/sent", FORMAT_SHARE, .help = "probes without a reply"},
	{},
};

static const struct column faulty[] = {
	{"FAULT", "fault", FORMAT_TEXT, COLUMN_LEFT, .help = "what is wrong with the pair"},
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the other host"},
	{"TO", "to", FORMAT_TEXT, COLUMN_LEFT, .help = "the address of its NIC"},
	{"CLASS", "class", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`rack`: one rack; `pod`: one pod; else `fabric`"},
	{"LOST", "lost/sent", FORMAT_SHARE, .help = "probes without a reply"},
	{"OUT", "owd_out_ns", FORMAT_TIME, .help = "least one-way delay to it"},
	{"IN", "owd_in_ns", FORMAT_TIME, .help = "least one-way delay from it"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of these"},
	{"LIMIT", "limit_ns", FORMAT_TIME, COLUMN_OPTIONAL, .help = "of the class"},
	{},
};

static const struct column results[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the other host"},
	{"TO", "to", FORMAT_TEXT, COLUMN_LEFT, .help = "the address of its NIC"},
	{"OUT", "owd_out_ns", FORMAT_TIME, .help = "least one-way delay to it"},
	{"IN", "owd_in_ns", FORMAT_TIME, .help = "least one-way delay from it"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of these"},
	{},
};

static const struct verb_section of_nic[] = {
	{.when = "faulty", .text = "From {interface}, {address}:"},
	{.when = "faulty", .rows = "faulty", .most = 32, .columns = faulty},
	{.when = "results", .text = "From {interface}, {address}, pairs with replies:"},
	{.when = "results", .rows = "results", .columns = results},
	{},
};

static const struct verb_section output[] = {
	{.when = "!run_ns",
	 .text = "There has been no run: `escapement audit --fleet` begins one."},
	{.when = "run_ns",
	 .text = "Run {run_ns}: {state}<| ({note})|>, {rounds} rounds in {takes_s:age}."},
	{.rows = "nics", .columns = nics},
	{.rows = "nics", .sections = of_nic},
	{},
};

static const struct verb_arg start_args[] = {
	{"--run", "ID", .key = "run", .type = VERB_COUNT, .least = 1,
	 .help = "the run's id: fabric time of its first round, ns. Hosts with the same id measure "
		 "in step. Not given: the next multiple of 10 s that is 3 s ahead"},
	{"--round", "DURATION", .key = "round", .type = VERB_DURATION, .least = 400000000,
	 .most = 60000000000,
	 .help = "of a pair; the same on all hosts. It decides the load. Not given: 500ms, or as "
		 "long as 1% of the speed of this host's slowest NIC takes, which is also the "
		 "least; NICs that report no speed have no such limit"},
	{},
};

static const struct verb_arg pairs_args[] = {
	{"--all", .key = "all", .type = VERB_FLAG, .help = "shows each pair with its delays"},
	{},
};

static const struct verb verbs[] = {
	{.name = "pairs",
	 .args = pairs_args,
	 .reads = true,
	 .summary = "all pairs of NICs of each rail: the last run, or the one that is under way",
	 .output = output,
	 .help = "Of each pair 100 probes from as many source ports, and packets of full size. "
		 "Latency is judged by the pairs of a NIC that are as near: the median and 3 "
		 "deviations (by the MAD), a quarter of the median at least, and the error bound."},
	{.name = "pairs start",
	 .summary = "begin a run",
	 .args = start_args,
	 .output = output,
	 .help = "`escapement audit --fleet` begins one and waits for it. Both ends of a pair "
		 "measure it when both run; the other hosts need not take part."},
	{.name = "pairs stop", .summary = "end the run", .output = output},
	{},
};

const struct verb_set pairs_verbs = {.name = "pairs", .verbs = verbs};
