/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of `paths`: defaults, ranges, and whether they fit each other. Pure. */
#ifndef ESC_LOADER_CONFIG_PATHS_H
#define ESC_LOADER_CONFIG_PATHS_H

#include <stdint.h>

struct config;

#define CONFIG_PATHS_DURATIONS 4 /* probe_interval, standby_interval, dead_after, return_after */

struct config_paths_duration {
	const char *key;
	uint64_t least_ns, most_ns;
	uint64_t *ns; /* of the configuration */
};

/* All but `probe`. */
void config_paths_default(struct config *config,
			  struct config_paths_duration out[CONFIG_PATHS_DURATIONS]);

/* -EINVAL: *@key is the one that does not, and *@what a malloc'd half sentence that says why. */
int config_paths_check(const struct config *config, const char **key, char **what);

#endif
