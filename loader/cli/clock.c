// SPDX-License-Identifier: BSD-2-Clause
/* `clock wait`: queries until the error bound is met. */
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli.h"
#include "client.h"

#define WAIT_STEP_NS 100000000
#define TIMEOUT_NS 30000000000ull /* when none is given */

static bool bound_is_met(const json_t *clock, uint64_t bound_ns)
{
	const char *state = cli_text(clock, "state");

	return json_object_get(clock, "bound_ns") && cli_count(clock, "bound_ns") <= bound_ns &&
	       (!strcmp(state, "synced") || !strcmp(state, "holdover"));
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int wait_failed(const json_t *clock, uint64_t bound_ns, uint64_t timeout_ns)
{
	char bound[UNITS_TEXT_BYTES] = "", wanted[UNITS_TEXT_BYTES], time[UNITS_TEXT_BYTES];

	if (json_object_get(clock, "bound_ns"))
		units_delay(bound, (double)cli_count(clock, "bound_ns"));
	return cli_fail(CLI_FAILED,
			"the error bound of %s was not met within %s: the clock is %s%s%s; see "
			"`escapement clock` and `escapement peers`",
			units_delay(wanted, (double)bound_ns), units_duration(time, timeout_ns),
			cli_text(clock, "state"), *bound ? " with a bound of " : "", bound);
}

int cli_clock_wait(const struct cli *cli)
{
	const json_t *timeout = json_object_get(cli->args, "timeout_ns");
	uint64_t bound_ns = cli_count(cli->args, "bound_ns");
	uint64_t timeout_ns = timeout ? (uint64_t)json_integer_value(timeout) : TIMEOUT_NS;
	uint64_t until_ns = now_ns() + timeout_ns;
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	json_t *clock;
	int code;

	while (!(code = cli_query(cli, &clock)) && !bound_is_met(clock, bound_ns)) {
		if (now_ns() >= until_ns) {
			code = wait_failed(clock, bound_ns, timeout_ns);
			json_decref(clock);
			return code;
		}
		json_decref(clock);
		nanosleep(&step, NULL);
	}
	if (code)
		return code;
	if (cli->format != CLI_TEXT)
		cli_write_json(cli, clock);
	json_decref(clock);
	return CLI_GOOD;
}
