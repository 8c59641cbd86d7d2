// SPDX-License-Identifier: BSD-2-Clause
#include "paths.h"

#include <errno.h>
#include <string.h>

#include "config.h"
#include "base/explain.h"
#include "pacing/pathlive.h"
#include "base/units.h"

#define US_NS 1000ull
#define MS_NS 1000000ull
#define SECOND_NS 1000000000ull

void config_paths_default(struct config *config,
			  struct config_paths_duration out[CONFIG_PATHS_DURATIONS])
{
	const struct config_paths_duration durations[] = {
		{"probe_interval", 500 * US_NS, 100 * MS_NS, &config->paths.probe_interval_ns},
		{"standby_interval", MS_NS, SECOND_NS, &config->paths.standby_interval_ns},
		{"dead_after", MS_NS, SECOND_NS, &config->paths.dead_after_ns},
		{"return_after", 100 * MS_NS, 60 * SECOND_NS, &config->paths.return_after_ns},
	};

	config->paths.per_peer = 8;
	config->paths.budget_pps = 20000;
	config->paths.probe_interval_ns = MS_NS;
	config->paths.standby_interval_ns = 20 * MS_NS;
	config->paths.dead_after_ns = 3 * MS_NS;
	config->paths.return_after_ns = 5 * SECOND_NS;
	memcpy(out, durations, sizeof(durations));
}

/* A path is not given up before three probes were missed. */
int config_paths_check(const struct config *config, const char **key, char **what)
{
	char given[UNITS_TEXT_BYTES], other[UNITS_TEXT_BYTES], least[UNITS_TEXT_BYTES];

	*what = NULL;
	units_duration(other, config->paths.probe_interval_ns);
	if (config->paths.standby_interval_ns < config->paths.probe_interval_ns) {
		*key = "standby_interval";
		return explain(what, -EINVAL,
			       "`standby_interval: %s` is shorter than `probe_interval: %s`; paths "
			       "in use are probed more often than the others: give at least %s",
			       units_duration(given, config->paths.standby_interval_ns), other,
			       other);
	}
	if (config->paths.dead_after_ns >= PATHLIVE_UNHEARD * config->paths.probe_interval_ns)
		return 0;
	*key = "dead_after";
	return explain(
		what, -EINVAL,
		"`dead_after: %s` is shorter than three probes with `probe_interval: %s`, and "
		"fewer may be lost by chance; give at least %s, or probe more often",
		units_duration(given, config->paths.dead_after_ns), other,
		units_duration(least, PATHLIVE_UNHEARD * config->paths.probe_interval_ns));
}
