// SPDX-License-Identifier: BSD-2-Clause
#include "steer.h"

#include "config/config.h"

static const char *const modes[] = {"off", "manual", "auto", NULL};
static const char *const overtakes[] = {"never", "once", NULL};
static const char *const repairs[] = {"off", "provoke", "replay", NULL};

static const struct config_key keys[] = {
	{"mode", CONFIG_FIELD(word, struct steer_keys, mode), .words = modes, .fallback = "off",
	 .help = "`off`: the daemon starts in mode observe, and packets leave unchanged. `manual`: "
		 "it starts in mode steer, and `escapement steer set` works. `auto`: in addition, "
		 "queue pairs leave contended paths automatically, and take the port of a backup "
		 "path at once when their path dies. A reload changes the mode only when this key "
		 "has changed."},
	{"capacity", CONFIG_FIELD(bit_rate, struct steer_keys, capacity_bps), .fallback = "auto",
	 .example = "100Gbit", .least = 1000, .most = 100000000000000,
	 .help = "Rate of one path of the fabric, such as `100Gbit`. `auto`: the interface's "
		 "speed. It distinguishes a queue that this host builds alone from a shared one: "
		 "give it where the fabric's links are slower than the interface, and for "
		 "interfaces that report a speed they do not have (veth)."},
	{"moves_per_second", CONFIG_FIELD(number, struct steer_keys, moves_per_s), .fallback = "20",
	 .least = 1, .most = 10000,
	 .help = "Limit of automatic steering, all interfaces together."},
	{"overtake", CONFIG_FIELD(word, struct steer_keys, overtake), .words = overtakes,
	 .fallback = "never",
	 .help = "Whether a queue pair without a gap may move. `never`: a queue pair is moved "
		 "automatically only when none of its packets can be overtaken; one without a gap "
		 "stays where it is. `once`: after a while it moves nevertheless, at the cost of "
		 "one go-back-N."},
	{"repair", CONFIG_FIELD(word, struct steer_keys, repair), .words = repairs,
	 .fallback = "replay",
	 .help = "For queue pairs whose path died, beside the switch to the backup. `replay`: what "
		 "the path may have lost is sent once more, in order. `provoke`: only the last "
		 "packets, so that the peer requests the others. `off`: the transport's timer "
		 "finds out. With `mode: auto`; 128 queue pairs, for each the newest 512 KiB."},
	{},
};

static void check_steer(struct config_reading *reading, const struct config *config, void *values)
{
	const struct steer_keys *steer = values;

	if (steer->mode != STEER_START_OFF)
		config_require_key(reading, config, "mode", "steering");
}

const struct config_section steer_section = {
	.name = "steer",
	.summary = "Steering of queue pairs to other paths.",
	.keys = keys,
	.bytes = sizeof(struct steer_keys),
	.check = check_steer,
};

const struct steer_keys *steer_keys(const struct config *config)
{
	return config_section(config, &steer_section);
}

const char *steer_repair_name(enum steer_repair repair)
{
	return repairs[repair];
}
