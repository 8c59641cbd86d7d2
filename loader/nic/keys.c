// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

static void check_nic(struct config_reading *reading, const struct config *config, void *values)
{
	const struct nic_keys *nic = values;

	(void)config;
	if (nic->dead_after_ns < 3 * nic->probe_interval_ns)
		config_refuse(reading, "dead_after",
			      "`dead_after` is less than three times `probe_interval`: one lost "
			      "probe would be a dead NIC");
}

const char *const nic_modes[] = {"wrap", "plain", NULL};
const char *const nic_repair_modes[] = {"off", "provoke", "replay", NULL};

static const struct config_key keys[] = {
	{"mode", CONFIG_FIELD(word, struct nic_keys, mode), .words = nic_modes, .fallback = "wrap",
	 .help = "How packets leave by the other NIC. `wrap`: in UDP between the addresses of the "
		 "NICs that they use, which the fabric has to route. `plain`: unchanged; the "
		 "fabric has to find the peer's address from there, and the peer's NIC is assumed "
		 "to be up."},
	{"repair", CONFIG_FIELD(word, struct nic_keys, repair), .words = nic_repair_modes,
	 .fallback = "replay",
	 .help = "For queue pairs whose NIC died, beside the switch to the other one. `replay`: "
		 "what the NIC may have lost is sent once more, in order. `provoke`: only the last "
		 "packets, so that the peer requests the others. `off`: the transport's timer "
		 "finds out. 128 queue pairs, for each the newest 512 KiB."},
	{"port", CONFIG_FIELD(number, struct nic_keys, port), .fallback = "4792", .least = 1024,
	 .most = 65535 - ESC_NIC_PORTS,
	 .help = "First of two UDP ports in a row, the same on all hosts."},
	{"probe_interval", CONFIG_FIELD(duration, struct nic_keys, probe_interval_ns),
	 .fallback = "20ms", .least = CONFIG_MS, .most = CONFIG_S,
	 .help = "Probe interval of each route. There are four routes between two hosts' NICs; "
		 "they are probed while there are queue pairs between them. A host sends at most "
		 "5000 such probes a second."},
	{"dead_after", CONFIG_FIELD(duration, struct nic_keys, dead_after_ns), .fallback = "100ms",
	 .least = 5 * CONFIG_MS, .most = 10 * CONFIG_S,
	 .help = "A route without replies for this time is dead. Another route then has a reply to "
		 "a probe that was sent so much later than the last one with a reply on this "
		 "route. It should be longer than the fabric's longest queue."},
	{"return_after", CONFIG_FIELD(duration, struct nic_keys, return_after_ns), .fallback = "5s",
	 .least = 500 * CONFIG_MS, .most = 3600 * CONFIG_S,
	 .help = "Hold-down: up for this time before it is used again. Of a NIC or of a route; "
		 "twice as long each time that it dies again soon, up to 16 times."},
	{},
};

const struct config_section nic_section = {
	.name = "nic",
	.summary = "NIC failover, for interfaces with a `sibling`; see escapementd(8).",
	.keys = keys,
	.bytes = sizeof(struct nic_keys),
	.check = check_nic,
};

const struct nic_keys *nic_keys(const struct config *config)
{
	return config_section(config, &nic_section);
}
