// SPDX-License-Identifier: BSD-2-Clause
/* The verb peers. */
#include "base/verb.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "members_held",
	 .header = "Members held",
	 .text = "{members_held.file}: {members_held.reason}; applied in {members_held.left_s:age} "
		 "if it stays so, or by `escapement reload --force`"},
	{.rows = "probing.planes",
	 .only = "on",
	 .header = "Probing",
	 .text = "{plane} mesh from {interface}, {members} members"},
	{.rows = "probing.planes",
	 .only = "!on",
	 .header = "Probing",
	 .text = "none on the {plane} plane<|: {note}|>"},
	{.when = "probing.peers.up+probing.peers.suspect+probing.peers.down",
	 .header = "Peers",
	 .text = "{probing.peers.up} up, {probing.peers.suspect} suspect, {probing.peers.down} "
		 "down"},
	{.when = "!probing.authority",
	 .header = "Authentication",
	 .text = "none<|: {probing.authority_note}|>"},
	{.when = "probing.insecure",
	 .header = "Insecure",
	 .text = "steering, pacing and NIC failover are allowed without a key (`insecure: true`)"},
	{.when = "probing.authority", .header = "Key", .text = "{probing.authority_note}"},
	{.when = "probing.members_without_key",
	 .header = "Keys",
	 .text = "{probing.members_without_key} members have no key in `key_file`: nothing is "
		 "exchanged with them; derive it again (`escapementd --pair-keys`)"},
	{.when = "probing.members_without_room|probing.addresses_without_room",
	 .header = "Room",
	 .text = "the kernel's maps lack <|{probing.members_without_room} members that are no "
		 "neighbors, |><|{probing.addresses_without_room} addresses|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "members_held",
	 .text = "{members_held.file} is held back: {members_held.reason}",
	 .remedy = "`escapement reload --force` applies it at once"},
	{.when = "probing.members_without_key",
	 .text = "{probing.members_without_key} members have no key in `key_file`",
	 .remedy = "derive it again (`escapementd --pair-keys`)"},
	{.when = "probing.insecure",
	 .text = "control is allowed without a key (`insecure: true`)",
	 .remedy = "set `key_file`"},
	{.when = "probing.peers.down",
	 .text = "{probing.peers.down} peers are down",
	 .remedy = "`escapement peers` shows what is to blame",
	 .began = "peer_down"},
	{},
};

static const struct column peers[] = {
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the peer's host name"},
	{"ADDRESS", "address", FORMAT_TEXT, COLUMN_LEFT, .help = "the address that is probed"},
	{"INTERFACE", "interface", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the NIC that it is probed from"},
	{"PLANE", "plane", FORMAT_TEXT, COLUMN_LEFT, .help = "backend or frontend"},
	{"STATE", "{state}<|:{blame}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`up`, `suspect` or `down`; behind the colon what is to blame by the reports of "
		 "other peers: `pair`, `peer`, `nic` or `own_nic`; of a suspect one: `restart`"},
	{"OUT_P50", "owd_out_ns.p50", FORMAT_TIME, .help = "median one-way delay to the peer"},
	{"OUT_P99", "owd_out_ns.p99", FORMAT_TIME, .help = "its 99th percentile"},
	{"IN_P50", "owd_in_ns.p50", FORMAT_TIME, .help = "median one-way delay from the peer"},
	{"IN_P99", "owd_in_ns.p99", FORMAT_TIME, .help = "its 99th percentile"},
	{"ERR", "bound_ns", FORMAT_TIME, .help = "bound of the error of these delays"},
	{"RTT_P50", "rtt_ns.p50", FORMAT_TIME,
	 .help = "median round trip, without the time that the peer took to reply"},
	{"SENT", "sent", FORMAT_COUNT, .help = "probes sent"},
	{"LOST", "lost/replied+lost", FORMAT_SHARE, .help = "probes without a reply within 1 s"},
	{"LAST_RX", "last_heard_ms", FORMAT_AGE, .help = "how long ago a packet was received"},
	{},
};

static const struct verb_section peer_list[] = {
	{.rows = "peers",
	 .columns = peers,
	 .empty = "No peer is probed; `escapement status` shows why."},
	{.rows = "peers", .text = "{peer}: {note}"},
	{},
};

static const struct verb verbs[] = {
	{.name = "peers",
	 .reads = true,
	 .summary = "each probed NIC pair: state, one-way delays, loss",
	 .output = peer_list,
	 .help = "Delays are of the last `clock.window`, in fabric time. Without fabric time there "
		 "are none."},
	{},
};

const struct verb_set mesh_verbs = {"mesh", verbs, status, health, NULL};
