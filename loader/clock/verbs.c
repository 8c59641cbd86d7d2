// SPDX-License-Identifier: BSD-2-Clause
/* The verb clock. */
#include "base/verb.h"

static const struct verb_section status[] = {
	{.header = "Clock",
	 .text = "{clock.state}<|, error bound {clock.bound_ns:time}|>, {clock.peers_used} of "
		 "{clock.peers_configured} peers used"},
	{},
};

static const struct verb_section health[] = {
	{.when = "clock.peers_configured !clock.state=synced",
	 .text = "the clock is {clock.state}<|, error bound {clock.bound_ns:time}|>",
	 .remedy = "`escapement clock` shows which peers it uses"},
	{.when = "clock.peers_configured clock.state=synced clock.bound_ns>=@clock_bound_ns",
	 .text = "the clock's error bound is {clock.bound_ns:time}, above {@clock_bound_ns:time}",
	 .remedy = "`escapement clock` shows its peers; delays are no better than this"},
	{},
};

static const struct column clock_peers[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the peer's host name"},
	{"PLANE", "plane", FORMAT_TEXT, COLUMN_LEFT, .help = "the plane that it is probed on"},
	{"INTERFACE", "interface", FORMAT_TEXT, COLUMN_LEFT, .help = "the NIC of this host"},
	{"ERROR", "error_ns", FORMAT_TIME,
	 .help = "what the peer's readings say of this host's clock"},
	{"FLOOR", "floor_ns", FORMAT_TIME, .help = "one-way delay of the path when it is empty"},
	{"DRIFT_PPM", "drift_ppb", FORMAT_PPM, .help = "the peer's local clock against ours"},
	{"KEPT", "pairs_kept/pairs_seen", FORMAT_SHARE,
	 .help = "probe pairs that met no queue, and were used"},
	{"CONSENSUS",
	 "{consensus}<| {flagged:?(few clean pairs)|}|>"
	 "<| (no clean packet: the {averaged} lowest averaged)|>",
	 FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`used`; `refused_offset`, `refused_drift`: too far from the others, "
		 "which is a fault only beyond the error bounds (events); `unsure`: it agrees, "
		 "but queues on its path leave it worse than this clock; `absent`: no estimate; "
		 "`nic_differs`: the timestamps of this host's NIC differ from those of its "
		 "others; `differs`: other NIC pairs with the peer agree with the clock, and this "
		 "one does not"},
	{},
};

static const struct verb_section clock_output[] = {
	{.when = "state=synced", .header = "State", .text = "synced: agrees with its peers"},
	{.when = "state=converging",
	 .header = "State",
	 .text = "converging: has fabric time, its peers do not agree yet"},
	{.when = "state=holdover",
	 .header = "State",
	 .text = "holdover: was synced, has no peers now, and the error bound grows"},
	{.when = "state=free_running", .header = "State", .text = "free_running: no fabric time"},
	{.header = "Fabric time", .text = "{fabric_ns} ns"},
	{.header = "Error bound", .text = "{bound_ns:time}"},
	{.header = "Rate", .text = "{model.rate_ppb:ppm} ppm against the local clock"},
	{.header = "Generation", .text = "{generation}"},
	{.header = "TAI",
	 .text = "{tai.ns} ns, error bound {tai.bound_ns:time}, <|from {tai.anchor} |>over "
		 "{tai.hops} hops, {tai.anchor_age_s:age} ago"},
	{.header = "TAI", .text = "not measured: {tai_note}"},
	{.header = "Anchors", .text = "{tai_anchors}"},
	{.when = "tai.anchor !tai_anchors",
	 .header = "Anchors",
	 .text = "any member is accepted; name them with `clock.anchors`"},
	{.header = "Peers",
	 .text = "{peers_used} used, {peers_reachable} reachable, {peers_configured} configured"},
	{.header = "Timestamps", .text = "{timestamp_source}"},
	{.rows = "nics",
	 .only = "differs",
	 .header = "Timestamps",
	 .text = "of {interface} differ by {offset_ns:time}: it is not used for the clock"},
	{.rows = "peers", .columns = clock_peers},
	{},
};

static const struct verb_arg wait_args[] = {
	{"--bound", "TIME", .type = VERB_DURATION, .key = "bound_ns", .required = true,
	 .local = true, .help = "the error bound to wait for"},
	{"--timeout", "TIME", .type = VERB_DURATION, .key = "timeout_ns", .local = true,
	 .help = "how long to wait; default 30s"},
	{},
};

static const struct verb_section cycles_output[] = {
	{.when = "note", .header = "Counter", .text = "not read: {note}"},
	{.when = "!note", .header = "Counter", .text = "{counter}"},
	{.when = "rate_hz",
	 .header = "Rate",
	 .text = "{rate_hz:real} cycles per second of fabric time, within {rate_bound_ppb:real} "
		 "ppb"},
	{.when = "noise_ns", .header = "Noise", .text = "{noise_ns:time} of a point"},
	{.header = "Steps", .text = "{steps}"},
	{},
};

static const struct verb verbs[] = {
	{.name = "clock",
	 .reads = true,
	 .summary = "fabric time, its error bound, and the peers used",
	 .output = clock_output,
	 .help = "Fabric time is the fleet's own; it is not the time of day, and the system clock "
		 "is not changed. It is true within the error bound: readings of two hosts at one "
		 "moment differ by at most the sum of their bounds."},
	{.name = "cycles",
	 .reads = true,
	 .summary = "the CPU's counter against fabric time",
	 .output = cycles_output,
	 .help = "How far the counter (TSC, CNTVCT) was ahead of fabric time at a nominal rate, at "
		 "every second instant of up to two hours: with -j all points. `escapement "
		 "colocation` compares those of many hosts."},
	{.name = "clock wait",
	 .request = "clock",
	 .reads = true,
	 .summary = "wait until the clock is good enough",
	 .args = wait_args,
	 .output = clock_output,
	 .help = "Returns when the clock is synced or in holdover with an error bound of at most "
		 "--bound; after --timeout with exit status 1."},
	{},
};

const struct verb_set clock_verbs = {"clock", verbs, status, health, NULL};
