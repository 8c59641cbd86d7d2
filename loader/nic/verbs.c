// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of failover. */
#include "base/verb.h"
#include "dummy.h"

/* clang-format off: tables */

static const struct verb_section status[] = {
	{.when = "nic_failover.on",
	 .header = "NIC failover",
	 .text = "{nic_failover.pairs} pairs, {nic_failover.dead} NICs dead; "
		 "{nic_failover.failed_over} of {nic_failover.used} pairs of addresses use another "
		 "NIC (`escapement failover`)"},
	{.when = "nic_failover !nic_failover.on",
	 .header = "NIC failover",
	 .text = "off<|: {nic_failover.note}|>"},
	{},
};

static const struct verb_section health[] = {
	{.when = "nic_failover.dead",
	 .text = "{nic_failover.dead} NICs of a pair are dead: `escapement failover`"},
	{.when = "nic_failover.note", .text = "NIC failover is off: {nic_failover.note}"},
	{},
};

static const struct column pairs[] = {
	{"NIC", "nic.name", FORMAT_TEXT, COLUMN_LEFT, .help = "a NIC"},
	{"STATE", "{nic.state}<|:{nic.reason}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`up`; `down` with the reason; `hold_down`: it recovered and is in hold-down"},
	{"SIBLING", "sibling.name", FORMAT_TEXT, COLUMN_LEFT, .help = "the NIC that replaces it"},
	{"STATE", "{sibling.state}<|:{sibling.reason}|>", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "its state"},
	{"DUMMY", "dummy", FORMAT_TEXT, COLUMN_LEFT, .help = "dummy device of the pair"},
	{},
};

static const struct column used[] = {
	{"SRC", "src", FORMAT_TEXT, COLUMN_LEFT, .help = "source address of queue pairs"},
	{"DST", "dst", FORMAT_TEXT, COLUMN_LEFT, .help = "their destination"},
	{"PEER", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "its host"},
	{"ROUTE", "route", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`direct`: by their own NICs; `second_to_second`, `second_to_first`, "
		 "`first_to_second`: our NIC and the peer's"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "reason it is not direct"},
	{"FOR", "since_ms", FORMAT_AGE, .help = "how long"},
	{"USABLE", "routes[usable].route", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "routes on which probes are replied to"},
	{},
};

static const struct verb_section output[] = {
	{.when = "note", .text = "NIC failover is off: {note}"},
	{.when = "!note !pairs",
	 .text = "No NIC has a `sibling` in the configuration, or the kill switch is on: there is "
		 "no failover."},
	{.when = "!note pairs !mode=plain",
	 .text = "NIC failover: {on:?on|off (kill switch)}; packets are encapsulated in UDP "
		 "between the NICs, ports from {port}"},
	{.when = "!note pairs mode=plain",
	 .text = "NIC failover: {on:?on|off (kill switch)}; packets are sent unchanged by the "
		 "other NIC"},
	{.when = "!note pairs",
	 .text = "Packets: {encapsulated} encapsulated, {redirected} redirected, {decapsulated} "
		 "decapsulated, {no_route} without a usable route, {retransmitted} retransmitted"},
	{.when = "!note", .rows = "pairs", .columns = pairs},
	{.when = "!note", .rows = "used", .columns = used},
	{.text = "{not_probed} more pairs of addresses are not probed."},
	{},
};

/* --- dummy devices --- */

static const struct verb_arg add_args[] = {
	{"NAME", .type = VERB_INTERFACE, .key = "name", .required = true,
	 .help = "of the new device"},
	{"NIC", .type = VERB_INTERFACE, .key = "nic", .required = true,
	 .help = "whose packets it gets; its MTU less the outer headers is that of the device"},
	{"ADDRESS", .type = VERB_TEXT, .key = "addresses", .required = true, .repeated = true,
	 .help = "addresses of the device, such as 10.1.200.1/32"},
	{"--route", "NETWORK", .type = VERB_TEXT, .key = "routes", .required = true,
	 .repeated = true, .help = "a network of the peers' dummy devices, such as 10.1.0.0/16"},
	{"--rxe", .type = VERB_FLAG, .key = "rxe", .help = "with the soft-RoCE device rxe_NAME"},
	{},
};

static const struct verb_section add_output[] = {
	{.text = "Created by these commands of ip(8):\n{ip}"},
	{.text = "Set `dummy: {name}` beside the `sibling` of {nic} in the configuration, and "
		 "reload: until then no packet leaves it."},
	{},
};

static const struct verb_arg remove_args[] = {
	{"NAME", .type = VERB_INTERFACE, .key = "name", .required = true, .help = "the device"},
	{},
};

static const struct verb_section remove_output[] = {{.text = "{removed} is removed."}, {}};

static const struct verb verbs[] = {
	{.name = "failover",
	 .summary = "pairs of NICs, and the NIC that is used",
	 .output = output,
	 .help = "The state of each NIC that has a `sibling`, and for each pair of addresses with "
		 "queue pairs the route that their packets take."},
	{.name = "failover dummy add",
	 .summary = "create a dummy device for queue pairs",
	 .args = add_args,
	 .output = add_output,
	 .place = VERB_HERE,
	 .run = nic_dummy_add,
	 .help = "Queue pairs on it survive the removal of a NIC's driver. Uses ip(8) and rdma(8); "
		 "when a command fails the device is removed again. Packets leave it once `dummy` "
		 "names it in the configuration."},
	{.name = "failover dummy remove",
	 .summary = "remove such a device",
	 .args = remove_args,
	 .output = remove_output,
	 .place = VERB_HERE,
	 .run = nic_dummy_remove,
	 .help = "With its routes and its soft-RoCE device; only what `add` created."},
	{},
};

const struct verb_set nic_verbs = {"nic", verbs, status, health, NULL};
