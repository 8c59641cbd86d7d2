// SPDX-License-Identifier: BSD-2-Clause
#include "pacing/pause.h"

#include <string.h>

#define MS 1000000ull
#define SECOND 1000000000ull

static uint64_t between(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

void pause_rule_default(struct pause_rule *rule, uint64_t threshold_ns, uint64_t line_Bps)
{
	memset(rule, 0, sizeof(*rule));
	rule->threshold_ns = threshold_ns;
	rule->line_Bps = between(line_Bps, 1000, PAUSE_RATE_MAX_BPS);
	/* At least 1,500 bytes in 16 ms: transports retransmit after 67 ms. */
	rule->floor_Bps =
		between(rule->line_Bps / 1024, between(rule->line_Bps, 1, 100000), rule->line_Bps);
	/* 1,500 bytes per threshold. */
	rule->start_Bps = between(1500 * SECOND / between(threshold_ns, 1, SECOND),
				  between(rule->line_Bps / 64, rule->floor_Bps, rule->line_Bps),
				  rule->line_Bps);
	rule->hold_max_ns = 1000 * MS;
	rule->quantum_ns = between(4 * threshold_ns, MS, 10 * MS);
	rule->credit_ns = between(threshold_ns / 4, 1000, MS);
	rule->no_feedback_ns = 100 * MS;
	rule->weight = PAUSE_WEIGHT_ONE;
	rule->gain = PAUSE_GAIN_ONE;
	rule->flags = PAUSE_RATE;
}

bool pause_watch_poll(struct pause_watch *watch, uint64_t paused_ns, uint64_t now_ns)
{
	uint64_t span_ns = now_ns - watch->polled_ns, more_ns = paused_ns - watch->paused_ns;
	uint64_t from_ns = watch->polled_ns;

	watch->polled_ns = now_ns;
	watch->paused_ns = paused_ns;
	if (!from_ns || more_ns * 2 <= span_ns) {
		watch->since_ns = 0;
		watch->reported = false;
		return false;
	}
	if (!watch->since_ns)
		watch->since_ns = from_ns;
	if (watch->reported || now_ns - watch->since_ns < PAUSE_WATCH_LONG_NS)
		return false;
	watch->reported = true;
	return true;
}
