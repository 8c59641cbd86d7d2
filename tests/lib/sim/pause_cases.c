// SPDX-License-Identifier: BSD-2-Clause
#include "tests/lib/sim/pause_cases.h"

const struct pause_trial pause_incast = {
	.name = "8 senders",
	.senders = 8,
	.floor_known = true,
	.host_bps = 10e9,
	.link_bps = 10e9,
	.rtt_ns = 50 * US,
	.threshold_ns = 50 * US,
	.buffer_ns = 400 * US,
	.noise_ns = 300,
	.window = 128,
	.seconds = 0.4,
	.warm = 0.4,
};

const struct pause_trial pause_soft_roce = {
	.name = "soft-RoCE, 8 at 1 Gbit/s, 64 packets timestamped ahead",
	.senders = 8,
	.floor_known = true,
	.host_bps = 1e9,
	.link_bps = 1e9,
	.rtt_ns = 200 * US,
	.threshold_ns = 500 * US,
	.buffer_ns = 3 * MS,
	.packet_bytes = 1100,
	.window = 128,
	.ahead = 64,
	.ahead_less = 16,
	.start_part = 1. / 16,
	.noise_ns = 2000,
	.seconds = 2,
	.warm = 2,
};

const struct pause_trial pause_emulated = {
	.name = "soft-RoCE at 20 Mbit/s",
	.senders = 8,
	.floor_known = true,
	.host_bps = 20e6,
	.link_bps = 20e6,
	.rtt_ns = 3 * MS,
	.threshold_ns = 16 * MS,
	.buffer_ns = 64 * MS,
	.packet_bytes = 576,
	.window = 128,
	.ahead = 64,
	.ahead_less = 16,
	.hold_ns = 500 * MS,
	.timeout_ns = 1070 * MS,
	.noise_ns = 1 * MS,
	.seconds = 14,
	.warm = 22,
};

const struct pause_jobs pause_collective = {
	.hosts = 16,
	.leaves = 4,
	.spines = 4,
	.bps = 10e9,
	.rtt_ns = 20 * US,
	.threshold_ns = 50 * US,
	.buffer_ns = 400 * US,
	.chunk = 256,
	.rounds = 20,
	.rest_ns = 1 * MS,
	.timeout_ns = 4 * MS,
	.noise_ns = 300,
};

const struct pause_burst pause_bursts = {
	.senders = 8,
	.bps = 10e9,
	.rtt_ns = 60 * US,
	.threshold_ns = 50 * US,
	.load = 0.97,
	.burst_load = 4,
	.burst_ns = 100 * US,
	.every_ns = 20 * MS,
	.bursts = 20,
	.gain = 1,
};
