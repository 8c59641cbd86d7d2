// SPDX-License-Identifier: BSD-2-Clause
/* `clock wait`: queries until the error bound is met. */
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/now.h"
#include "base/units.h"
#include "cli.h"

#define WAIT_STEP_NS 100000000
#define TIMEOUT_NS 30000000000ull /* when none is given */

static bool bound_is_met(const json_t *clock, uint64_t bound_ns)
{
	const char *state = json_text(clock, "state");

	return json_object_get(clock, "bound_ns") && json_count(clock, "bound_ns") <= bound_ns &&
	       (!strcmp(state, "synced") || !strcmp(state, "holdover"));
}

static int wait_failed(const json_t *clock, uint64_t bound_ns, uint64_t timeout_ns)
{
	char bound[UNITS_TEXT_BYTES] = "", wanted[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];

	if (json_object_get(clock, "bound_ns"))
		units_delay(bound, (double)json_count(clock, "bound_ns"));
	return cli_fail(CLI_FAILED,
			"the error bound of %s was not met within %s: the clock is %s%s%s; see "
			"`escapement clock` and `escapement peers`",
			units_delay(wanted, (double)bound_ns), units_duration(time, timeout_ns),
			json_text(clock, "state"), *bound ? " with a bound of " : "", bound);
}

int cli_clock_wait(const struct cli *cli)
{
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	uint64_t begun_ns = time_local_ns(), timeout_ns = TIMEOUT_NS;
	uint64_t bound_ns = json_count(cli->args, "bound_ns");
	json_t *clock = NULL;
	int code;

	if (json_object_get(cli->args, "timeout_ns"))
		timeout_ns = json_count(cli->args, "timeout_ns");
	while (!(code = cli_query(cli, &clock)) && !bound_is_met(clock, bound_ns) &&
	       time_local_ns() - begun_ns < timeout_ns) {
		json_decref(clock);
		clock = NULL;
		nanosleep(&step, NULL);
	}
	if (!code)
		code = bound_is_met(clock, bound_ns) ? cli_show(cli, clock)
						     : wait_failed(clock, bound_ns, timeout_ns);
	json_decref(clock);
	return code;
}
