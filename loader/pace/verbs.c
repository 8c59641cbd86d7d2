// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of pace. */
#include "base/verb.h"
#include "maps/pace.h"
#include "maps/rocev2.h"

/* clang-format off: tables */

static const struct verb_section interface[] = {
	{.when = "paced", .text = "{interface}: paced by {qdisc}, link {line_bps:rate}"},
	{.when = "!paced reason", .text = "{interface}: cannot be paced: {reason}"},
	{.when = "!paced !reason",
	 .text = "{interface}: not paced; `escapement pace on {interface}` paces it"},
	{},
};

static const struct column classes[] = {
	{"CLASS", "name", FORMAT_TEXT, COLUMN_LEFT, .help = "a class of queue pairs"},
	{"WEIGHT", "weight", FORMAT_TEXT, .help = "share of each of its queue pairs"},
	{"THRESHOLD", "threshold_ns", FORMAT_TIME, .help = "the delay that is allowed"},
	{"QPS", "flows", FORMAT_TEXT, .help = "queue pairs in it"},
	{},
};

static const struct column qps[] = {
	{"SRC>DST/RQPN", "{src}>{dst}/{dest_qpn}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the queue pair"},
	{"INTERFACE", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "by which it sends"},
	{"CLASS", "class", FORMAT_TEXT, COLUMN_LEFT, .help = "its class"},
	{"WEIGHT", "weight", FORMAT_TEXT, .help = "its share"},
	{"THRESHOLD", "threshold_ns", FORMAT_TIME, .help = "the delay that is allowed"},
	{"FLOOR", "floor_ns", FORMAT_TIME, .help = "delay of the path when it is empty"},
	{"OWD_P50", "delay_ns.p50", FORMAT_TIME, .help = "median one-way delay of the last second"},
	{"OWD_P99", "delay_ns.p99", FORMAT_TIME, .help = "its 99th percentile"},
	{"ERR", "delay_ns.bound", FORMAT_TIME, .help = "bound of the error of these delays"},
	{"SENT", "sent_bps", FORMAT_RATE, .help = "what it sends"},
	{"LIMIT", "rate_bps", FORMAT_RATE, .help = "the rate that it is limited to"},
	{"DELAYED", "held_share", FORMAT_SHARE,
	 .help = "part of the last second in which a packet of it waited"},
	{"PAUSED", "paused_share", FORMAT_SHARE,
	 .help = "part of the last second in which it could send nothing"},
	{"LONGEST", "held_longest_ns", FORMAT_TIME, .help = "longest time that a packet waited"},
	{},
};

/* --- TCP --- */

static const struct column tcp_classes[] = {
	{"CLASS", "name", FORMAT_TEXT, COLUMN_LEFT, .help = "a class of TCP connections"},
	{"WEIGHT", "weight", FORMAT_TEXT, .help = "share of each of its connections"},
	{"THRESHOLD", "threshold_ns", FORMAT_TIME, .help = "the delay that is allowed"},
	{"ABOVE", "above/samples", FORMAT_SHARE, .help = "delays above the threshold"},
	{},
};

static const struct column connections[] = {
	{"SRC", "{src}:{sport}", FORMAT_TEXT, COLUMN_LEFT, .help = "this end of a TCP connection"},
	{"DST", "{dst}:{dport}", FORMAT_TEXT, COLUMN_LEFT, .help = "the other end"},
	{"CC", "congestion", FORMAT_TEXT, COLUMN_LEFT, .help = "its congestion control"},
	{"DELAY", "delay_out_ns.last", FORMAT_TIME, .help = "of the newest data that was reported"},
	{"ERR", "delay_out_ns.bound", FORMAT_TIME, .help = "bound of its error"},
	{"MAX", "delay_out_ns.max", FORMAT_TIME, .help = "largest delay"},
	{"ABOVE", "above", FORMAT_COUNT, .help = "delays above the threshold"},
	{"CLASS", "class", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "its class"},
	{"WINDOW", "window", FORMAT_REAL, COLUMN_OPTIONAL,
	 .help = "segments that may be in flight; below 2 the rate is the limit"},
	{"OWN_WINDOW", "inner_window", FORMAT_TEXT, COLUMN_OPTIONAL,
	 .help = "the window of its own congestion control"},
	{"LIMIT", "rate_bps", FORMAT_RATE, COLUMN_OPTIONAL,
	 .help = "the rate that it is limited to"},
	{},
};

static const struct verb_section tcp[] = {
	{.when = "tcp.mode=off", .text = "TCP: off: {tcp.reason}"},
	{.when = "tcp.mode=on",
	 .text = "TCP of {tcp.cgroup}: limited by delay, at most {tcp.threshold_ns:time}; "
		 "{tcp.counts.agreed} connections negotiated it ({tcp.counts.unlimited} of them "
		 "only measured), {tcp.counts.plain} did not"},
	{.when = "tcp.mode=measure",
	 .text = "TCP of {tcp.cgroup}: delays are measured, nothing is limited; "
		 "{tcp.counts.agreed} connections negotiated it, {tcp.counts.plain} did not"},
	{.when = "!tcp.mode=off", .text = "TCP: {tcp.reason}"},
	{.text = "TCP: {tcp.unlisted}"},
	{.when = "tcp.mode=on !tcp.clock_usable",
	 .text = "TCP: no connection is limited now: fabric time is not good enough"},
	{.rows = "tcp.classes", .columns = tcp_classes},
	{.rows = "tcp.connections", .columns = connections},
	{},
};

static const struct verb_section output[] = {
	{.rows = "interfaces", .sections = interface},
	{.when = "clock !clock.usable",
	 .text = "No packet is delayed now: fabric time is not good enough<| (error bound "
		 "{clock.bound_ns:time})|>"},
	{.rows = "classes", .columns = classes},
	{.rows = "qps", .columns = qps},
	{.sections = tcp},
	{},
};

/* --- arguments --- */

static const struct verb_arg interfaces[] = {
	{"INTERFACE", .type = VERB_INTERFACE, .key = "interfaces", .repeated = true,
	 .help = "the interfaces; without one: all"},
	{},
};

static const struct verb_arg one_interface[] = {
	{"INTERFACE", .type = VERB_INTERFACE, .key = "interface", .required = true,
	 .help = "the interface"},
	{},
};

static const struct verb_arg set_args[] = {
	{"KEY", .type = VERB_QP,
	 .help = "the queue pair SRC>DST/QPN, as `qp` shows it in lines of direction tx"},
	{"--dst", "ADDRESS", .type = VERB_ADDRESS, .key = "dst",
	 .help = "instead of KEY: its destination"},
	{"--qpn", "N", .type = VERB_COUNT, .key = "qpn", .most = ESC_QPN_MASK,
	 .help = "instead of KEY: the queue pair number of the destination"},
	{"--src", "ADDRESS", .type = VERB_ADDRESS, .key = "src",
	 .help = "its source, when more than one has that destination"},
	{"--class", "NAME", .type = VERB_TEXT, .key = "class",
	 .help = "the class; of a queue pair without it: the one that it matches"},
	{"--weight", "N", .type = VERB_COUNT, .key = "weight", .least = 1,
	 .most = ESC_PACE_WEIGHT_MAX,
	 .help = "weight of the class: a queue pair of weight 3 gets three times what one of "
		 "weight 1 gets"},
	{"--threshold", "TIME", .type = VERB_DURATION, .key = "threshold_ns",
	 .least = ESC_PACE_THRESHOLD_MIN_NS, .most = ESC_PACE_THRESHOLD_MAX_NS,
	 .help = "the delay that the class allows"},
	{},
};

static const struct verb_section set_output[] = {
	{.when = "interfaces", .sections = output},
	{.when = "qpn class",
	 .text = "From the next packet on, QPN {qpn} of {dst} is in class {class}."},
	{.when = "qpn !class",
	 .text = "From the next packet on, QPN {qpn} of {dst} is in the class that it matches."},
	{},
};

static const struct verb verbs[] = {
	{.name = "pace",
	 .reads = true,
	 .summary = "congestion control at the sender, by measured delay",
	 .output = output,
	 .help = "Which interfaces are paced, and reason others are not; the classes; each paced "
		 "queue pair; TCP connections."},
	{.name = "pace on",
	 .summary = "delay packets at the sender while the delay is too long",
	 .args = interfaces,
	 .output = output,
	 .help = "Packets wait while the one-way delay is above the threshold. Refused where "
		 "departure times would be ignored: on an interface without the qdisc `fq`, or "
		 "with receipts off."},
	{.name = "pace off", .summary = "stop pacing", .args = interfaces, .output = output},
	{.name = "pace set",
	 .summary = "set a class, or the class of a queue pair",
	 .args = set_args,
	 .output = set_output,
	 .help = "With --weight or --threshold: a class, which is created when there is none of "
		 "that name, until the next reload. With a queue pair: its class, until it or the "
		 "daemon ends."},
	{.name = "pace setup-fq",
	 .summary = "install the qdisc fq",
	 .args = one_interface,
	 .output = output,
	 .help = "In place of the kernel's default qdisc (below `mq` for each queue). A qdisc that "
		 "was configured is left as it is. It is removed by `pace undo-fq`, and whenever "
		 "the programs are detached: `off`, `escapementd --remove`."},
	{.name = "pace undo-fq",
	 .summary = "remove the qdisc that setup-fq installed",
	 .args = one_interface,
	 .output = output},
	{},
};

const struct verb_set pace_verbs = {.name = "pace", .verbs = verbs};
