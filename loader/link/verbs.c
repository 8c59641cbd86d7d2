// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of links. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "links",
	 .header = "Links",
	 .text = "{links.watched} watched<|, flapping: {links.flapping}|><|, down: {links.down}|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "links.flapping",
	 .text = "links that flap: {links.flapping}",
	 .remedy = "see their cables; `escapement links` has the counts",
	 .began = "link_flapping",
	 .critical = true},
	{.when = "links.down",
	 .text = "links without a carrier: {links.down}",
	 .remedy = "see their cables and their ports of the switch",
	 .began = "link_no_carrier",
	 .critical = true},
	{.when = "links.left_out",
	 .text = "{links.left_out} links have no place in the table: their flaps are not counted",
	 .remedy = "name fewer interfaces"},
	{},
};

static const struct column columns[] = {
	{"LINK", "netdev", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "an interface of the configuration, a sibling, or a device below one of these"},
	{"STATE", "state", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`up`; `down`: it has no carrier; `unused`: it never had one, and no other host "
		 "is told its address; `admin_down`; `absent`"},
	{"ALARM", "alarm.kind", FORMAT_TEXT, COLUMN_LEFT, .help = "`flapping` or `down`"},
	{"1H", "flaps_1h", FORMAT_COUNT, .help = "flaps within the last hour"},
	{"FLAPS", "flaps", FORMAT_COUNT, .help = "all that were counted"},
	{"PLANNED", "planned_losses", FORMAT_COUNT,
	 .help = "carrier losses that are not flaps: it was set down, or had just been set up, "
		 "booted or loaded"},
	{"RESETS", "counter_resets", FORMAT_COUNT,
	 .help = "resets of the kernel's counters: the driver was reloaded"},
	{"CHANGED", "last_change_ms", FORMAT_AGE, .help = "since the newest change of the carrier"},
	{"QPS", "qps", FORMAT_COUNT, .help = "queue pairs that use it"},
	{"RDMA", "{rdma.device}/{rdma.port}<|:{rdma.state}|>", FORMAT_TEXT,
	 COLUMN_LEFT | COLUMN_OPTIONAL, .help = "its RDMA port, and the state of that"},
	{"FEC_UNC", "fec_uncorrectable_blocks", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "FEC blocks that could not be corrected"},
	{"SYMBOL", "symbol_errors", FORMAT_COUNT, COLUMN_OPTIONAL, .help = "symbol errors"},
	{"PAUSE", "pause_rx_frames", FORMAT_COUNT, COLUMN_OPTIONAL,
	 .help = "pause frames received"},
	{"TEMP", "module_celsius", FORMAT_REAL, COLUMN_OPTIONAL,
	 .help = "of the module, in degrees Celsius"},
	{"REASON", "ext_state", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "why there is no link, as the driver reports it"},
	{},
};

static const struct verb_section output[] = {
	{.rows = "links", .columns = columns},
	{.rows = "links",
	 .only = "alarm.kind=flapping",
	 .text = "{netdev}: {alarm.flaps} flaps within {alarm.within_ns:age}, the alarm raised "
		 "{alarm.since_ms:age} ago; `escapement links ack {netdev}` ends the alarm"},
	{.text = "{left_out} more links have no place in the table."},
	{},
};

static const struct verb_arg ack_args[] = {
	{"LINK", .type = VERB_INTERFACE, .key = "link", .required = true,
	 .help = "the link, as `links` shows it"},
	{},
};

static const struct verb_section ack_output[] = {
	{.when = "acknowledged",
	 .text = "The alarm of {netdev} ended: what was counted so far raises none any more."},
	{.when = "!acknowledged", .text = "{netdev} has no alarm for flaps."},
	{},
};

static const struct verb verbs[] = {
	{.name = "links",
	 .reads = true,
	 .summary = "state of the links, their flaps and alarms",
	 .output = output,
	 .help = "A flap is a loss of the carrier that was not planned. All that the "
		 "driver reports are counted, however short, also while no daemon runs. More of "
		 "them than `links.thresholds` raise an alarm, which lasts until the link has been "
		 "stable for `links.stable_after`. What the driver does not report is absent."},
	{.name = "links ack",
	 .summary = "end the alarm of a link that flapped",
	 .args = ack_args,
	 .output = ack_output,
	 .help = "Only further flaps raise one again. Counts stay as they are."},
	{},
};

const struct verb_set link_verbs = {"link", verbs, status, health, NULL};
