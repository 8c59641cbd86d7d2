// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of steer. */
#include "base/verb.h"
#include "maps/rocev2.h"
#include "maps/steer.h"

/* clang-format off */

#define S 1000000000ull

#define QP_ARGS \
	{"KEY", .type = VERB_QP, \
	 .help = "the queue pair SRC>DST/QPN, as `qp` shows it in lines of direction tx"}, \
	{"--dst", "ADDRESS", .type = VERB_ADDRESS, .key = "dst", \
	 .help = "instead of KEY: its destination"}, \
	{"--qpn", "N", .type = VERB_COUNT, .key = "qpn", .most = ESC_QPN_MASK, \
	 .help = "instead of KEY: the queue pair number of the destination"}, \
	{"--src", "ADDRESS", .type = VERB_ADDRESS, .key = "src", \
	 .help = "its source, when more than one has that destination"}
#define TRIGGER_ARGS \
	{"--flowlet-gap", "TIME", .type = VERB_DURATION, .key = "flowlet_gap_ns", .most = 60 * S, \
	 .help = "the gap between two packets that the change waits for; default 1ms. It has to " \
		 "exceed the old path's delay minus the new one's"}, \
	{"--deadline", "TIME", .type = VERB_DURATION, .key = "deadline_ns", .most = 3600 * S, \
	 .help = "after this the start of a message is enough, and after twice this any " \
		 "packet; default 500ms"}, \
	{"--force", .type = VERB_FLAG, .key = "force", .help = "wait for nothing"}

static const struct column rules[] = {
	{"SRC>DST/RQPN", "{src}>{dst}/{dest_qpn}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the queue pair"},
	{"INTERFACE", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "by which it sends"},
	{"SPORT", "sport", FORMAT_TEXT, .help = "its own UDP source port"},
	{"SPORT_NOW", "{steered_sport|sport}<|/{steered_flow_label:hex}|>", FORMAT_TEXT,
	 .help = "that of its packets now, and the IPv6 flow label"},
	{"SPORT_SET", "{rule.sport|sport}<|/{rule.flow_label:hex}|>", FORMAT_TEXT,
	 .help = "that of its rule"},
	{"BY", "by", FORMAT_TEXT, COLUMN_LEFT, .help = "operator or automatic"},
	{"STATE", "state", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`tracked`: on its own path, which it leaves when that dies"},
	{"TRIGGER", "trigger", FORMAT_TEXT, COLUMN_LEFT, .help = "what the change waited for"},
	{"PKTS", "packets", FORMAT_COUNT, .help = "packets changed"},
	{},
};

static const struct verb_section list[] = {
	{.when = "!mode=steer",
	 .text = "Mode observe: no packet is changed. `escapement mode steer` allows it."},
	{.when = "mode=steer auto",
	 .text = "Automatic: queue pairs leave contended and dead paths; `escapement steer plan` "
		 "shows what is seen."},
	{.when = "mode=steer auto repair.qps",
	 .text = "Repair ({repair.mode}): the newest packets of {repair.qps} queue pairs are kept; "
		 "{repair.packets} were sent once more, in {repair.repairs} repairs."},
	{.when = "mode=steer auto repair.reason",
	 .text = "What a path loses when it dies is not repaired: {repair.reason}."},
	{.when = "mode=steer !auto !steers",
	 .text = "No queue pair is steered. `escapement steer set KEY --sport PORT` moves one."},
	{.rows = "steers", .columns = rules},
	{.rows = "penalties",
	 .text = "{src}>{dst}/{dest_qpn} was rolled back ({reason}); penalty for {left_ms:age} "
		 "more"},
	{},
};

static const struct verb_arg set_args[] = {
	QP_ARGS,
	{"--sport", "PORT", .type = VERB_COUNT, .key = "sport", .least = 1, .most = 65535,
	 .help = "the UDP source port that its packets get"},
	{"--flow-label", "LABEL", .type = VERB_COUNT, .key = "flow_label",
	 .most = ESC_FLOW_LABEL_MASK, .help = "the IPv6 flow label that they get"},
	TRIGGER_ARGS,
	{},
};

static const struct verb_arg clear_args[] = {
	QP_ARGS,
	{"--all", .type = VERB_FLAG, .key = "all", .help = "every queue pair"},
	TRIGGER_ARGS,
	{},
};

static const struct verb_arg auto_args[] = {
	{"STATE", .type = VERB_CHOICE, .choices = "on|off", .key = "state", .required = true,
	 .help = "`off` moves the queue pairs back to their own ports"},
	{},
};

/* --- plan --- */

static const struct column plan_paths[] = {
	{"SPORT", "sport", FORMAT_TEXT, .help = "a UDP source port by which the path is taken"},
	{"DELAY", "delay_ns", FORMAT_TIME, .help = "one-way delay now"},
	{"FLOOR", "floor_ns", FORMAT_TIME, .help = "the same when it is empty"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error"},
	{"RATE", "rate_bps", FORMAT_RATE, .help = "what this host sends by it"},
	{"QPS", "qps", FORMAT_TEXT, .help = "queue pairs that use it"},
	{"CONTENDED", "{contended:?yes|no}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "whether DELAY exceeds FLOOR significantly"},
	{"MEASURED", "{measured:?yes|no}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "whether the measurement is recent"},
	{},
};

static const struct column plan_moves[] = {
	{"RQPN", "dest_qpn", FORMAT_TEXT, .help = "the queue pair that would move"},
	{"RATE", "rate_bps", FORMAT_RATE, .help = "what it sends"},
	{"FROM", "from.sport", FORMAT_TEXT, .help = "its path, by a source port"},
	{"TO", "to.sport", FORMAT_TEXT, .help = "the path that it would take"},
	{"GAIN", "gain_ns", FORMAT_TIME, .help = "predicted reduction of its delay"},
	{},
};

static const struct verb_section plan_pair[] = {
	{.text = "\n{src}>{dst} ({peer}), {qps} queue pairs"},
	{.rows = "paths", .columns = plan_paths},
	{.rows = "moves", .columns = plan_moves},
	{.when = "!moves", .text = "Nothing would move: {reason}."},
	{},
};

static const struct verb_section plan[] = {
	{.text = "Automatic steering is {auto:?on|off}; `plan` changes nothing."},
	{.when = "!pairs", .text = "No queue pair here sends to a host whose paths are known."},
	{.rows = "pairs", .sections = plan_pair},
	{},
};

static const struct verb_section set_output[] = {
	{.text = "The rule is set: it takes effect at the next gap, message or deadline; "
		 "`escapement events` shows when."},
	{},
};
static const struct verb_section clear_output[] = {
	{.rows = "clearing",
	 .text = "{src}>{dst}/{dest_qpn} returns to its own source port {sport}."},
	{.when = "!clearing", .text = "No queue pair is steered."},
	{},
};
static const struct verb_section auto_output[] = {
	{.text = "Automatic steering is {auto:?on|off}."},
	{},
};

static const struct verb verbs[] = {
	{.name = "steer",
	 .reads = true,
	 .summary = "the queue pairs that were given a path",
	 .output = list,
	 .help = "Rules of the operator, and automatic ones."},
	{.name = "steer plan",
	 .reads = true,
	 .summary = "what automatic steering sees, and would do now",
	 .output = plan,
	 .help = "Each pair of addresses with its paths and their delays, which queue pair would "
		 "move with the predicted gain, or reason none would."},
	{.name = "steer set",
	 .summary = "give a queue pair a path",
	 .args = set_args,
	 .output = set_output,
	 .help = "All that this host sends to that queue pair, ACKs and READ responses included, "
		 "gets the UDP source port, and the ICRC that belongs to it, or the IPv6 flow "
		 "label. The change waits for a moment at which no packet is overtaken. A change "
		 "that makes it worse is rolled back, with an event."},
	{.name = "steer clear",
	 .summary = "return a queue pair to its own path",
	 .args = clear_args,
	 .output = clear_output,
	 .help = "Also ends the penalty of a queue pair that was rolled back."},
	{.name = "steer auto",
	 .summary = "let queue pairs leave contended and dead paths",
	 .args = auto_args,
	 .output = auto_output,
	 .help = "On the interfaces in mode steer, or on all when none is. What the operator set "
		 "stays."},
	{},
};

const struct verb_set steer_verbs = {.name = "steer", .verbs = verbs};
