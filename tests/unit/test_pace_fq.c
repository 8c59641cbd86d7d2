// SPDX-License-Identifier: BSD-2-Clause
/* Whether an fq can hold what pacing delays. */
#include <criterion/criterion.h>
#include <string.h>

#include "pace/internal.h"

#define HOLD_NS 40000000ull

static char why[400];

static bool fits_flows(struct fq_limits fq, size_t queue_pairs, bool ours)
{
	why[0] = '\0';
	return pace_fits_fq(&fq, queue_pairs, HOLD_NS, "eth1", ours, why, sizeof(why));
}

static bool fits(uint32_t packets, uint32_t flow_packets, uint64_t horizon_ns, size_t queue_pairs)
{
	return fits_flows((struct fq_limits){.packets = packets,
					     .flow_packets = flow_packets,
					     .horizon_ns = horizon_ns},
			  queue_pairs, false);
}

Test(pace_fq, that_of_setup_fq_fits)
{
	cr_expect(fits(20000, 4096, 10000000000, 0));
	cr_expect(fits(20000, 4096, 10000000000, 312));
	cr_expect(fits(20000, 4096, 0, 312), "no horizon: nothing is beyond it");
	cr_expect(fits(256, 256, HOLD_NS, 4));
	cr_expect(fits(64 * 16384, 4096, HOLD_NS, 16384), "%s", why);
}

/* The packets of queue pairs whose sockets have one hash are in one flow. */
Test(pace_fq, queue_pairs_share_flows)
{
	struct fq_limits fq = {.packets = 1 << 24, .flow_packets = 512};

	cr_expect(fits_flows(fq, 2048, false), "two of 1,024 flows each");
	cr_expect_not(fits_flows(fq, 2049, false));
	cr_expect(strstr(why, "and flow_limit 512 should"), "%s", why);
	cr_expect(strstr(why, "and 768 for 2049 queue pairs"), "%s", why);
	fq.orphans = 16384;
	cr_expect(fits_flows(fq, 16384, false));
}

Test(pace_fq, the_remedy_is_by_who_made_it)
{
	cr_expect_not(
		fits_flows((struct fq_limits){.packets = 20000, .flow_packets = 4096}, 313, true));
	cr_expect(strstr(why, "(`escapement pace setup-fq eth1` raises them)"), "%s", why);
	cr_expect_not(fits(20000, 4096, 0, 313));
	cr_expect(strstr(why, "(`tc qdisc replace dev eth1 root fq limit 40064 flow_limit 512`)"),
		  "%s", why);
}

Test(pace_fq, each_limit_that_is_too_small_is_named)
{
	cr_expect_not(fits(100, 10, 10000000000, 0));
	cr_expect(strstr(why, "limit 100 and flow_limit 10 "), "%s", why);
	cr_expect(strstr(why, "at least 256 and 256 "), "%s", why);
	cr_expect_not(fits(20000, 255, 10000000000, 1));
	cr_expect_not(fits(20000, 2000, 10000000000, 313), "more queue pairs than fit");
	cr_expect(strstr(why, "at least 20032 and 256 for 313 queue pairs"), "%s", why);
	cr_expect_not(fits(20000, 2000, HOLD_NS - 1, 1));
	cr_expect(strstr(why, "horizon of 39999 us") && strstr(why, "(40000 us)"), "%s", why);
	cr_expect(strlen(why) < sizeof(why) - 20, "the longest sentence is whole");
}
