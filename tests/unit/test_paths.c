// SPDX-License-Identifier: BSD-2-Clause
/* The pure parts of candidate paths: keys, the budget, delays of a path, a request on the wire. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "config/config.h"
#include "paths/internal.h"

/* --- keys --- */

static struct config *parse(const char *paths, char **error)
{
	struct config *config = NULL;
	char text[512];

	snprintf(text, sizeof(text), "interfaces: [{name: eth1}]\n%s\n", paths);
	*error = NULL;
	config_parse(&(struct config_input){.path = "/etc/x/e.yaml"}, text, strlen(text), &config,
		     error);
	return config;
}

Test(paths_config, defaults)
{
	char *error;
	struct config *config = parse("", &error);

	cr_assert_not_null(config, "%s", error);
	cr_expect(config->paths.on);
	cr_expect_eq(config->paths.per_peer, 8);
	cr_expect_eq(config->paths.probe_interval_ns, 1000000);
	cr_expect_eq(config->paths.standby_interval_ns, 20000000);
	cr_expect_eq(config->paths.dead_after_ns, 3000000);
	cr_expect_eq(config->paths.return_after_ns, 5000000000);
	cr_expect_eq(config->paths.budget_pps, 20000);
	config_free(config);
}

Test(paths_config, given)
{
	char *error;
	struct config *config = parse(
		"paths: {probe: off, per_peer: 2, probe_interval: 2ms, standby_interval: 2ms, "
		"dead_after: 6ms, return_after: 1s, probe_budget_pps: 100}",
		&error);

	cr_assert_not_null(config, "%s", error);
	cr_expect(!config->paths.on);
	cr_expect_eq(config->paths.per_peer, 2);
	cr_expect_eq(config->paths.dead_after_ns, 6000000);
	cr_expect_eq(config->paths.budget_pps, 100);
	config_free(config);
}

Test(paths_config, mistakes)
{
	static const struct {
		const char *text, *words[3];
	} bad[] = {
		{"paths: {probe: on}", {"probe: on", "off, auto", ""}},
		{"paths: {per_peer: 17}", {"per_peer: 17", "2 to 16", ""}},
		{"paths: {probe_interval: 1}", {"probe_interval", "not a duration", "write `1ms`"}},
		{"paths: {probe_interval: 100us}", {"probe_interval", "out of range", "500us"}},
		{"paths: {dead_after: 2ms}", {"dead_after: 2ms", "three probes", "at least 3ms"}},
		{"paths: {standby_interval: 1ms, probe_interval: 5ms, dead_after: 15ms}",
		 {"standby_interval: 1ms", "probe_interval: 5ms", "at least 5ms"}},
		{"paths: {return_after: 2m}", {"return_after", "out of range", ""}},
		{"paths: {probe_budget_pps: 1}", {"probe_budget_pps: 1", "100 to", ""}},
		{"paths: {per_per: 8}", {"did you mean `per_peer`", "", ""}},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *error;

		cr_assert_null(parse(bad[i].text, &error), "%s is taken", bad[i].text);
		cr_assert_not_null(error);
		cr_expect(!strncmp(error, "/etc/x/e.yaml:2: ", 17), "%s", error);
		for (int w = 0; w < 3; w++)
			cr_expect(strstr(error, bad[i].words[w]), "%s: lacks \"%s\": %s",
				  bad[i].text, bad[i].words[w], error);
		free(error);
	}
}

/* --- the budget --- */

static struct pathbudget_demand demand_of(size_t active, size_t backup, size_t watched,
					  uint32_t pps)
{
	return (struct pathbudget_demand){
		.wanted_ns = {[PATH_ACTIVE] = 1000000,
			      [PATH_STANDBY] = 20000000,
			      [PATH_WATCHED] = PATHBUDGET_WATCH_NS},
		.candidates =
			{[PATH_ACTIVE] = active, [PATH_STANDBY] = backup, [PATH_WATCHED] = watched},
		.budget_pps = pps,
	};
}

static double sum_of(const struct pathbudget_demand *demand, const struct pathbudget_share *share)
{
	double pps = share->tries_pps;

	for (int use = PATH_WATCHED; use < PATH_USES; use++)
		if (demand->candidates[use])
			pps += (double)demand->candidates[use] * 1e9 /
			       (double)share->interval_ns[use];
	return pps;
}

Test(pathbudget, enough_is_as_wanted)
{
	struct pathbudget_demand demand = demand_of(4, 4, 4, 20000);
	struct pathbudget_share share;

	pathbudget_share(&demand, &share);
	cr_expect(!share.limited);
	cr_expect_eq(share.interval_ns[PATH_ACTIVE], 1000000);
	cr_expect_eq(share.interval_ns[PATH_STANDBY], 20000000);
	cr_expect_eq(share.interval_ns[PATH_WATCHED], PATHBUDGET_WATCH_NS);
	cr_expect_float_eq(share.given_pps, 4000 + 200 + 16, 0.01);
}

Test(pathbudget, no_path_is_no_demand)
{
	struct pathbudget_demand demand = demand_of(0, 0, 0, 100);
	struct pathbudget_share share;

	pathbudget_share(&demand, &share);
	cr_expect(!share.limited);
	cr_expect_eq(share.interval_ns[PATH_ACTIVE], 1000000);
}

Test(pathbudget, active_paths_come_first_but_never_all)
{
	struct pathbudget_demand demand = demand_of(256, 256, 0, 20000);
	struct pathbudget_share share;
	double standby_pps;

	pathbudget_share(&demand, &share);
	cr_expect(share.limited);
	standby_pps = 256 * 1e9 / (double)share.interval_ns[PATH_STANDBY];
	cr_expect_float_eq(standby_pps, 0.1 * (20000 - share.tries_pps), 1);
	cr_expect_leq(sum_of(&demand, &share), 20000.01);
	cr_expect_lt(share.interval_ns[PATH_ACTIVE], share.interval_ns[PATH_STANDBY]);
}

Test(pathbudget, any_demand_is_kept_below_it)
{
	unsigned int seed = (unsigned int)time(NULL);

	printf("# seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 100000; i++) {
		struct pathbudget_demand demand =
			demand_of((size_t)rand() % 4096, (size_t)rand() % 16384,
				  (size_t)rand() % 16384, 100 + (uint32_t)rand() % 100000);
		struct pathbudget_share share;

		pathbudget_share(&demand, &share);
		cr_assert_leq(sum_of(&demand, &share), demand.budget_pps * 1.0001, "%zu %zu %zu %u",
			      demand.candidates[PATH_ACTIVE], demand.candidates[PATH_STANDBY],
			      demand.candidates[PATH_WATCHED], demand.budget_pps);
		for (int use = PATH_WATCHED; use < PATH_USES; use++)
			cr_assert_geq(share.interval_ns[use], demand.wanted_ns[use]);
		cr_assert_eq(share.limited, share.given_pps < share.wanted_pps * (1 - 1e-12));
	}
}

/* --- delays --- */

Test(pathstat, nothing_is_not_zero)
{
	struct pathstat stat = {};
	struct path_delay now;
	struct quantiles delays;

	pathstat_clear(&stat);
	pathstat_now(&stat, 1000, &now);
	cr_expect(isnan(now.delay_ns) && isnan(now.floor_ns) && isnan(now.bound_ns));
	cr_expect_eq(now.at_ns, 0);
	pathstat_quantiles(&stat, 5, &delays);
	cr_expect_eq(delays.samples, 0);
	pathstat_free(&stat);
}

Test(pathstat, now_is_the_middle_of_the_newest)
{
	struct pathstat stat = {};
	struct path_delay now;

	pathstat_clear(&stat);
	pathstat_add(&stat, 1000, 100, 7);
	for (int i = 0; i < 5; i++)
		pathstat_add(&stat, 1000000 + i * 1000, 500 + 10 * i, 9);
	pathstat_now(&stat, 4000, &now);
	cr_expect_float_eq(now.delay_ns, 520, 1e-9);
	cr_expect_float_eq(now.floor_ns, 100, 1e-9, "the floor is of all there were");
	cr_expect_float_eq(now.worst_ns, 540, 1e-9);
	cr_expect_float_eq(now.bound_ns, 9, 1e-9, "of the samples that count");
	cr_expect_eq(now.at_ns, 1004000);
	cr_expect(now.noise_ns > 0 && now.noise_ns < 40);
	pathstat_free(&stat);
}

Test(pathstat, a_false_time_of_a_peer_is_no_delay)
{
	const double times[] = {-0x1p63, 0x1p63, 2e12, -2e12, NAN, INFINITY};
	struct pathstat stat = {};
	struct path_delay now;

	pathstat_clear(&stat);
	pathstat_add(&stat, 1000, 100, 7);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		pathstat_add(&stat, 2000, times[i], 7);
	pathstat_now(&stat, 4000, &now);
	cr_expect_eq(stat.samples, 1);
	cr_expect_float_eq(now.worst_ns, 100, 1e-9);
	pathstat_free(&stat);
}

Test(pathstat, quantiles_are_of_the_last_seconds)
{
	struct pathstat stat = {};
	struct quantiles delays;
	int64_t at = 1000000000;

	pathstat_clear(&stat);
	for (int i = 1; i <= 1000; i++)
		pathstat_add(&stat, at += 1000000, i * 1000, 0);
	pathstat_quantiles(&stat, at, &delays);
	cr_expect_eq(delays.samples, 1000);
	cr_expect_eq(delays.min_ns, 1000);
	cr_expect_eq(delays.max_ns, 1000000);
	cr_expect_float_eq((double)delays.p50_ns, 500e3, 500e3 * 0.032);
	cr_expect_float_eq((double)delays.p99_ns, 990e3, 990e3 * 0.032);
	pathstat_quantiles(&stat, at + 2 * PATHSTAT_WINDOW_NS, &delays);
	cr_expect_eq(delays.samples, 0, "old ones do not count");
	pathstat_add(&stat, at + PATHSTAT_WINDOW_NS, 42, 0);
	pathstat_quantiles(&stat, at + PATHSTAT_WINDOW_NS, &delays);
	cr_expect_eq(delays.samples, 1001, "the window before counts for a while");
	cr_expect_eq(delays.min_ns, 42);
	pathstat_add(&stat, at + 4 * PATHSTAT_WINDOW_NS, 43, 0);
	pathstat_quantiles(&stat, at + 4 * PATHSTAT_WINDOW_NS, &delays);
	cr_expect_eq(delays.samples, 1);
	pathstat_free(&stat);
}

Test(pathstat, a_published_floor_is_its_own_once_it_is_old)
{
	struct pathstat stat = {};
	int64_t at = 5000000000;

	pathstat_clear(&stat);
	cr_expect_eq(pathstat_published_floor(&stat, at, NAN), 0, "nothing is known");
	cr_expect_eq(pathstat_published_floor(&stat, at, 4000), 4001, "of another path");
	pathstat_add(&stat, at, 9000, 0);
	cr_expect_eq(pathstat_published_floor(&stat, at, NAN), 9001);
	cr_expect_eq(pathstat_published_floor(&stat, at, 4000), 4001, "its own may be a queue's");
	cr_expect_eq(pathstat_published_floor(&stat, at, 10000), 9001);
	at += PATHSTAT_YOUNG_NS;
	cr_expect_eq(pathstat_published_floor(&stat, at, 4000), 9001, "it is longer");
	pathstat_add(&stat, at, -50, 0);
	cr_expect_eq(pathstat_published_floor(&stat, at, NAN), 1, "no delay is below 0");
	pathstat_free(&stat);
}

Test(pathstat, a_floor_lasts_for_its_windows)
{
	struct pathstat stat = {};
	struct path_delay now;
	int64_t at = 1;

	pathstat_clear(&stat);
	pathstat_add(&stat, at, 100, 0);
	for (int i = 0; i < 10; i++)
		pathstat_add(&stat, at += PATHSTAT_FLOOR_NS / 5 + 1, 200, 0);
	pathstat_now(&stat, 1, &now);
	cr_expect_float_eq(now.floor_ns, 200, 1e-9);
	pathstat_free(&stat);
}

/* --- on the wire --- */

static struct pathpacket packet_of(const char *from, const char *to)
{
	struct pathpacket packet = {
		.from_port = 50000,
		.to_port = 4791,
		.target = 0x1122334455667788,
		.sequence = 0x01020304,
		.ident = 0xabcd,
		.hop_limit = 3,
		.flags = ESC_PROBE_PLANE,
		.path = 5,
	};

	cr_assert(address_parse(from, &packet.from) && address_parse(to, &packet.to));
	return packet;
}

static void expect_same(const struct pathpacket *packet, size_t quoted)
{
	uint8_t bytes[PATHPACKET_BYTES_MAX];
	struct pathpacket back;
	size_t size = pathpacket_build(packet, bytes);

	cr_assert_leq(quoted, size);
	cr_assert_eq(pathpacket_parse(bytes, quoted, &back), 0);
	cr_expect(!memcmp(&back.from, &packet->from, sizeof(back.from)));
	cr_expect(!memcmp(&back.to, &packet->to, sizeof(back.to)));
	cr_expect_eq(back.from_port, packet->from_port);
	cr_expect_eq(back.to_port, packet->to_port);
	if (quoted < size - 4) {
		cr_expect_eq(back.sequence, 0, "cut off");
		return;
	}
	cr_expect_eq(back.sequence, packet->sequence);
	cr_expect_eq(back.path, packet->path);
	cr_expect_eq(back.target, packet->target);
}

Test(pathpacket, is_found_in_what_an_error_quotes)
{
	struct pathpacket four = packet_of("10.1.1.2", "10.2.1.2");
	struct pathpacket six = packet_of("fd00::1", "fd00::2");
	struct pathpacket back;
	uint8_t bytes[PATHPACKET_BYTES_MAX];

	cr_expect_eq(pathpacket_build(&four, bytes), 20 + 8 + ESC_PATH_DATAGRAM_BYTES);
	cr_expect_eq(pathpacket_build(&six, bytes), 40 + 8 + ESC_PATH_DATAGRAM_BYTES);
	expect_same(&four, 20 + 8 + ESC_PATH_DATAGRAM_BYTES);
	expect_same(&six, 40 + 8 + ESC_PATH_DATAGRAM_BYTES);
	expect_same(&four, 28); /* what the oldest switches quote */
	pathpacket_build(&four, bytes);
	cr_assert_eq(pathpacket_parse(bytes, 28, &back), 0);
	cr_expect_eq(back.ident, 0xabcd);
}

Test(pathpacket, anything_else_is_refused)
{
	struct pathpacket four = packet_of("10.1.1.2", "10.2.1.2"), back;
	uint8_t bytes[PATHPACKET_BYTES_MAX];
	size_t size = pathpacket_build(&four, bytes);

	for (size_t cut = 0; cut < 28; cut++)
		cr_expect(pathpacket_parse(bytes, cut, &back), "%zu bytes", cut);
	bytes[9] = 6;
	cr_expect(pathpacket_parse(bytes, size, &back), "TCP");
	pathpacket_build(&four, bytes);
	bytes[40] ^= 1;
	cr_expect(pathpacket_parse(bytes, size, &back), "another's magic");
	pathpacket_build(&four, bytes);
	bytes[25]++;
	cr_expect(pathpacket_parse(bytes, 28, &back), "another length");
	bytes[0] = 0x75;
	cr_expect(pathpacket_parse(bytes, size, &back), "no IP");
}
