// SPDX-License-Identifier: BSD-2-Clause
/* The verbs qp and top. Other capabilities add to each queue pair; their columns are here too. */
#include "base/verb.h"
#include "internal.h"

/* clang-format off: tables */

#define ORDERS "bytes|packets|rate|ce|gaps|delay|throughput|loss"
#define KEY_HELP                                                                                   \
	"a queue pair SRC>DST/QPN, of which parts may be missing; a queue pair number (17, "       \
	"0x11); "                                                                                  \
	"or a part of an address"

static const struct verb_section status[] = {
	{.header = "Queue pairs",
	 .text = "{qps.tracked} tracked, room for {qps.max} (one entry for each direction)"},
	{.when = "qps.refused",
	 .header = "",
	 .text = "the table was full: {qps.refused} packets were not counted per queue pair; raise "
		 "`qps.max`"},
	{.when = "qps.refused_unknown",
	 .header = "",
	 .text = "{qps.refused_unknown} packets of hosts that are not members were not counted per "
		 "queue pair: they have a quarter of the table"},
	{.when = "qps.refused_foreign",
	 .header = "",
	 .text = "{qps.refused_foreign} packets that this host forwards, or of sockets, were not "
		 "counted per queue pair: they have a quarter of the table"},
	{.when = "!qp_tracing.method=none",
	 .header = "Owners",
	 .text = "{qp_tracing.known} queue pairs, by {qp_tracing.method}<|; {qp_tracing.note}|>"},
	{.when = "qp_tracing.method=none",
	 .header = "Owners",
	 .text = "not known<|: {qp_tracing.note}|>"},
	{.when = "qp_tracing.refused",
	 .header = "",
	 .text = "the table was full: the owners of {qp_tracing.refused} are not known"},
	{},
};

static const struct verb_section health[] = {
	{.when = "qps.tracked>=qps.max",
	 .text = "the table of queue pairs is full ({qps.max} entries)",
	 .remedy = "raise `qps.max`"},
	{},
};

static const struct column columns[] = {
	{"DIR", "direction", FORMAT_TEXT, COLUMN_LEFT | COLUMN_LIVE,
	 .help = "tx: sent; rx: received"},
	{"SRC>DST/RQPN", "{src}>{dst}/{dest_qpn}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the queue pair: addresses, and the queue pair number of the destination, as "
		 "packets carry it"},
	{"RQPN", "dest_qpn", FORMAT_TEXT, COLUMN_LIVE_ONLY,
	 .help = "queue pair number of the destination"},
	{"LQPN", "local_qpn", FORMAT_TEXT, COLUMN_OPTIONAL,
	 .help = "number of the local queue pair, where its owner is known"},
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT | COLUMN_SHRINK | COLUMN_LIVE_ONLY, 10,
	 .help = "the other end: the member's name, else its address"},
	{"OWNER", "owner", FORMAT_TEXT, COLUMN_LEFT | COLUMN_SHRINK | COLUMN_LIVE_ONLY, 10,
	 .help = "its job, else its process"},
	{"SPORT", "sport", FORMAT_TEXT,
	 .help = "UDP source port, by which an ECMP fabric chooses the path"},
	{"TYPE", "transport", FORMAT_TEXT, COLUMN_LEFT, .help = "transport: RC, UC, UD or XRC"},
	{"PKTS", "packets", FORMAT_COUNT, .help = "packets"},
	{"BYTES", "bytes", FORMAT_BYTES,
	 .help = "bytes of IP packets, from the IP header to the ICRC"},
	{"RATE", "bytes_per_second", FORMAT_RATE, .help = "over the last second"},
	{"GBIT/S", "bytes_per_second", FORMAT_GBPS, COLUMN_LIVE_ONLY, 6,
	 .help = "over the last second"},
	{"MSGS", "messages", FORMAT_COUNT, .help = "messages that ended in order"},
	{"MSG_P50", "message_bytes.p50", FORMAT_BYTES, .help = "median size of a message"},
	{"CE", "ce", FORMAT_COUNT, .help = "packets with a congestion mark"},
	{"CNP", "cnps", FORMAT_COUNT, .help = "congestion notification packets"},
	{"PSN_GAPS", "psn_gaps", FORMAT_COUNT,
	 .help = "how often a packet sequence number was skipped"},
	{"RETX", "retransmits", FORMAT_COUNT, COLUMN_OPTIONAL, .help = "packets sent again (tx)"},
	{"DUP", "duplicates", FORMAT_COUNT, COLUMN_OPTIONAL, .help = "packets received again (rx)"},
	{"NAKS", "naks", FORMAT_COUNT, .help = "negative acknowledgements"},
	{"OWD_P50", "owd_ns.p50", FORMAT_TIME, COLUMN_OPTIONAL | COLUMN_LIVE, 7,
	 .help = "median one-way delay of the last second"},
	{"OWD_P99", "owd_ns.p99", FORMAT_TIME, COLUMN_OPTIONAL | COLUMN_LIVE, 7,
	 .help = "its 99th percentile"},
	{"OWD_MAX", "owd_ns.max", FORMAT_TIME, COLUMN_OPTIONAL | COLUMN_LIVE, 7,
	 .help = "its maximum"},
	{"ERR", "owd_ns.bound", FORMAT_TIME, COLUMN_OPTIONAL | COLUMN_LIVE, 6,
	 .help = "bound of the error of these delays"},
	{"LOSS/S", "loss_per_second", FORMAT_REAL, COLUMN_LIVE_ONLY, 6,
	 .help = "packets lost or sent again in a second"},
	{"STATE", "state", FORMAT_TEXT, COLUMN_LEFT | COLUMN_LIVE_ONLY,
	 .help = "a diagnosis; else `loss`; `spiky`: a delay above `receipts.threshold`; `ok`: it "
		 "has delays; `no_feedback`: it sends and has none; `idle`; `rx`"},
	{"OWNER", "<|{comm}|><|[{pid}]|><| {job}|>", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "process, its number, and the job"},
	{},
};

/* All about the delay of one queue pair. */
static const struct verb_section details[] = {
	{.text = "\n{src}>{dst}/{dest_qpn}<| to {peer}|>, source port {sport}"},
	{.header = "  Delay",
	 .text = "minimum {owd_ns.min:time}, median {owd_ns.p50:time}, 99th percentile "
		 "{owd_ns.p99:time}, maximum {owd_ns.max:time}, error bound {owd_ns.bound:time}; "
		 "{owd_ns.samples} samples in the last second"},
	{.when = "owd_ns.above_threshold",
	 .header = "",
	 .text = "{owd_ns.above_threshold} above the threshold in {owd_ns.crossings} bursts"},
	{.when = "owd_ns.ce", .header = "", .text = "{owd_ns.ce} marked CE"},
	{.header = "  Delay", .text = "none: {owd_note}"},
	{.header = "  Floor", .text = "{owd_floor_ns:time}, the minimum of the last 30 s"},
	{.header = "  Receiver", .text = "at most {stack_ns.max:time} more from XDP to its stack"},
	{.header = "  Own queue",
	 .text = "at most {host_queue_ns.max:time} of it, from tc to the driver "
		 "({host_queue_ns.samples} samples)"},
	{.header = "  Lifetime",
	 .text = "minimum {owd_lifetime_ns.min:time}, maximum {owd_lifetime_ns.max:time}, error "
		 "bound {owd_lifetime_ns.bound:time}; {owd_lifetime_ns.samples} samples"},
	{.header = "  Messages",
	 .text = "{messages_timed.count} timed, {messages_timed.bytes:bytes} each: "
		 "{messages_timed.delay_ns:time} from the first packet sent to the last received, "
		 "at most {messages_timed.delay_max_ns:time}<|; "
		 "{messages_timed.throughput_bps:rate} while received|>"},
	{.header = "  Receipts",
	 .text = "for {receipts} of {samples_sent} sampled packets<|, {feedback_ns:time} after "
		 "they were sent|>; {receipts_untimed} without fabric time, {samples_discarded} "
		 "retransmitted, {samples_expired} expired"},
	{},
};

static const struct verb_section output[] = {
	{.rows = "qps", .columns = columns},
	{.when = "!qps tracked", .text = "No queue pair matches; {tracked} are tracked."},
	{.when = "!qps !tracked",
	 .text = "No queue pair sends or receives here now. `escapement status` shows whether its "
		 "packets\ncan be seen, `escapement events` which were here."},
	{.when = "refused",
	 .text = "The table was full: {refused} packets are in no line above; raise `qps.max`."},
	{.when = "not_shown", .text = "{not_shown} more match and are not shown."},
	{.when = "@key", .rows = "qps", .only = "direction=tx", .most = 8, .sections = details},
	{},
};

static const struct verb_section top_output[] = {
	{.rows = "qps", .columns = columns, .live = true},
	{},
};

static const struct verb_arg qp_args[] = {
	{"KEY", .type = VERB_TEXT, .key = "key", .help = KEY_HELP},
	{"--sort", "ORDER", .type = VERB_CHOICE, .choices = ORDERS, .key = "sort",
	 .help = "`gaps`: packets missing or repeated; `delay`: the 99th percentile of the last "
		 "second; `loss`: gaps and retransmissions of the last second; default `bytes`"},
	{"--top", "N", .type = VERB_COUNT, .key = "top", .help = "the first N only"},
	{},
};

static const struct verb_arg top_args[] = {
	{"KEY", .type = VERB_TEXT, .key = "key", .help = KEY_HELP},
	{"--sort", "ORDER", .type = VERB_CHOICE, .choices = "delay|throughput|loss", .key = "sort",
	 .help = "default `delay`; the keys d, t and l change it"},
	{"--top", "N", .type = VERB_COUNT, .key = "top", .help = "the first N only"},
	{"--interval", "TIME", .type = VERB_DURATION, .key = "interval_ns", .least = 100000000,
	 .most = 3600000000000, .local = true, .help = "between two pages; default 1s"},
	{"--frames", "N", .letter = 'n', .type = VERB_COUNT, .key = "frames", .least = 1,
	 .most = 1000000, .local = true, .help = "print N pages instead"},
	{},
};

static const struct verb verbs[] = {
	{.name = "qp",
	 .reads = true,
	 .summary = "the queue pairs, their delays and losses",
	 .args = qp_args,
	 .output = output,
	 .help = "One line for each direction of each queue pair. With a KEY, all that is known of "
		 "the delay of the first eight follows. A `-` stands for what the transport does "
		 "not have."},
	{.name = "top",
	 .reads = true,
	 .summary = "the queue pairs live, the slowest first",
	 .args = top_args,
	 .output = top_output,
	 .help = "The whole terminal, until `q` or the end of the input; d, t and l choose the "
		 "order. In 89 columns and more TREND has a bar for OWD_P99 of each of the last "
		 "pages, up to 32, the newest at the right: the lowest is the smallest of them, "
		 "the highest the largest, or twice the smallest when that is more. When the "
		 "output is not a terminal, with -j and with --frames pages are printed."},
	{},
};

const struct verb_set qp_verbs = {"qp", verbs, status, health, qptrace_features};
