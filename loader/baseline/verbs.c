// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of baselines. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "baseline.on baseline.series",
	 .header = "Baselines",
	 .text = "{baseline.series} of delays and throughput: usual {baseline.states.usual}"
		 "<|, learning {baseline.states.learning}|><|, slower {baseline.states.slower}|>"
		 "<|, too variable {baseline.states.variable}|><|, idle {baseline.states.idle}|>"
		 "<|; {baseline.note}|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "baseline.slowdowns",
	 .text = "slower than usual for long: {baseline.slowdowns} destinations or NICs",
	 .remedy = "`escapement findings` lists them",
	 .began = "slowdown"},
	{.when = "baseline.left_out",
	 .text = "{baseline.left_out} delays and throughputs have no place in the table of "
		 "baselines",
	 .remedy = "`escapement baseline forget` makes room"},
	{.when = "baseline.note",
	 .text = "{baseline.note}",
	 .remedy = "see its disk and its folder; what is learned is lost at the next start"},
	{},
};

static const struct column columns[] = {
	{"PEER", "peer|to", FORMAT_TEXT, COLUMN_LEFT, .help = "the host that packets go to"},
	{"TO", "to", FORMAT_TEXT, COLUMN_LEFT, .help = "its address"},
	{"FROM", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "our interface"},
	{"WHAT", "what", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`nic_pair_delay` by the mesh's probes, `path_delay` by those of a candidate "
		 "path, "
		 "`qp_delay` and `qp_throughput` by sampled packets and messages of queue pairs"},
	{"PORT", "source_port", FORMAT_TEXT, COLUMN_OPTIONAL,
	 .help = "source port of these probes"},
	{"MESSAGE", "message_bytes", FORMAT_BYTES, COLUMN_OPTIONAL,
	 .help = "of queue pairs: their mean message, to the nearest power of two"},
	{"QPS", "sending_qps", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "how many of the interface send at a time, to the nearest power of two"},
	{"USUAL", "<|{usual_ns:time}|><|{usual_bytes_per_second:rate}|>", FORMAT_TEXT,
	 .help = "the worst of this hour of the days before and of the two beside it"},
	{"NOW", "<|{now_ns:time}|><|{now_bytes_per_second:rate}|>", FORMAT_TEXT,
	 .help = "the median of the last ten values: least delays, highest rates of a minute each"},
	{"ERR", "bound_ns", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "bound of the error of that difference, by the clock"},
	{"SLOWER", "slower_share", FORMAT_SHARE, .help = "by how much; below 0: faster"},
	{"STATE", "state", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`usual`; `slower`; `learning`, not compared yet; `variable`: what is usual "
		 "varies by more than `baseline.slower`; `idle`: no values, or too few"},
	{},
};

static const struct verb_section output[] = {
	{.when = "!on", .text = "Nothing is compared: `baseline.mode` is `off`."},
	{.when = "on",
	 .text = "Slower by {slower_share:share} for {after_ns:age} is a finding, once values were "
		 "learned for {learn_ns:age}."},
	{.rows = "list", .columns = columns},
	{.text = "{more} more; `escapement baseline --all` lists them."},
	{.text = "Note: {note}"},
	{},
};

static const struct verb_arg args[] = {
	{"HOST", .key = "host", .type = VERB_TEXT,
	 .help = "what goes to this host, or address, alone"},
	{"--all", .key = "all", .type = VERB_FLAG,
	 .help = "all, instead of the 20 that are slowest"},
	{},
};

static const struct verb_arg forget_args[] = {
	{"HOST", .key = "host", .type = VERB_TEXT, .help = "what goes to this host, or address"},
	{"--all", .key = "all", .type = VERB_FLAG, .help = "everything"},
	{},
};

static const struct verb_section forget_output[] = {
	{.text = "{forgotten} forgotten: what is usual is learned again."},
	{},
};

static const struct verb verbs[] = {
	{.name = "baseline",
	 .reads = true,
	 .summary = "what delays and throughput usually are, and what is slower",
	 .args = args,
	 .output = output,
	 .help = "The least delay and the highest rate of each tenth of `baseline.after` are "
		 "compared with those of the same hour of the days before, which a load that "
		 "changes with the time of the day hardly changes. What is slower for a week is "
		 "usual from then on."},
	{.name = "baseline forget",
	 .summary = "learn again what is usual, as after planned work",
	 .args = forget_args,
	 .output = forget_output,
	 .help = "Its findings end."},
	{},
};

const struct verb_set baseline_verbs = {"baseline", verbs, status, health, NULL};
