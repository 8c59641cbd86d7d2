// SPDX-License-Identifier: BSD-2-Clause
/*
 * Path probes that are not as they were sent: every single bit, every length, every cut into
 * buffers, and random bytes. None is replied to, and none leaves a trace. `test_path_bits SEED`
 * repeats a run.
 */
#define TAP_PLAN 11

#include "path_world.h"

#define RANDOM_PROBES 20000

static struct path_world p;
static struct esc_paths slot;

static struct path_plan plan_of(bool reply, int ip)
{
	struct path_plan plan = reply ? path_plan_reply() : path_plan_usual();

	plan.ip = ip;
	for (int i = 0; i < Q_PATHS; i++) {
		plan.age_us[i] = 5000 + i;
		plan.report_sport[i] = PATH_PORT + i - PATH;
	}
	return plan;
}

static void begin(int ip)
{
	struct esc_path_key back = path_back(ip);

	path_reset(&p, &back);
	slot = path_get_slot(&p);
}

/* Nothing of the altered probe is accepted. */
static bool leaves_nothing(const struct frame *f, uint32_t linear)
{
	struct esc_paths after;
	struct frame out;
	int verdict = probe_run(&p.r.w, WORLD_XDP, f, &out, linear);
	struct esc_path_key key;

	if (verdict == -EINVAL)
		return true; /* no frame for a test run */
	after = path_get_slot(&p);
	return (verdict == XDP_VERDICT_DROP || verdict == XDP_VERDICT_PASS) &&
	       probe_same(&out, f) && !memcmp(&after, &slot, sizeof(slot)) &&
	       bpf_map_get_next_key(receipt_fd(&p.r, "path_received"), NULL, &key) &&
	       !path_records(&p);
}

/* Of the addresses, the port and all from the BTH to the tag. */
static void test_bits(bool reply, int ip)
{
	struct path_plan plan = plan_of(reply, ip);
	uint32_t good = 0, all = 0, at, from = 14 + (ip == 6 ? 8 : 12), bth;
	struct frame whole, f;

	begin(ip);
	path_build(&whole, &plan);
	bth = probe_bth(&whole);
	for (at = from; at < bth + Q_ICRC; at++) {
		if (at >= bth - 6 && at < bth) /* UDP: destination, length, checksum */
			continue;
		for (int bit = 0; bit < 8; bit++, all++) {
			f = whole;
			f.data[at] ^= 1 << bit;
			good += leaves_nothing(&f, 0);
		}
	}
	tap_ok(good == all, "a %s over IPv%d with one bit wrong: %u of %u left nothing",
	       reply ? "reply" : "request", ip, good, all);
}

static void test_cuts(int ip)
{
	struct path_plan plan = plan_of(false, ip);
	uint32_t good = 0, all = 0, cut;
	struct frame whole, f, out;

	begin(ip);
	path_build(&whole, &plan);
	for (cut = 14; cut < whole.bytes; cut++, all++) {
		f = whole;
		f.bytes = cut;
		good += leaves_nothing(&f, 0);
	}
	tap_ok(good == all, "IPv%d, cut at every length: %u of %u left nothing", ip, good, all);
	/* With its end in another buffer it cannot be reflected in place: it goes on. */
	for (cut = 14, good = all = 0; cut < whole.bytes; cut++, all++)
		good += leaves_nothing(&whole, cut);
	tap_ok(good == all, "IPv%d, in two buffers: %u of %u left nothing", ip, good, all);
	tap_ok(probe_run(&p.r.w, WORLD_XDP, &whole, &out, 0) == XDP_VERDICT_TX,
	       "IPv%d: the same probe, whole, is replied to", ip);
}

static void test_random(uint32_t seed)
{
	struct path_plan plan = plan_of(false, 4);
	uint32_t good = 0, i;
	struct frame whole, f;

	begin(4);
	path_build(&whole, &plan);
	srandom(seed);
	for (i = 0; i < RANDOM_PROBES; i++) {
		uint32_t at = 42 + P_VERSION + random() % (Q_TAG + 8 - P_VERSION),
			 count = 1 + random() % 16;

		f = whole;
		while (count-- && at < 42 + Q_ICRC)
			f.data[at++] += 1 + random() % 255;
		good += leaves_nothing(&f, 0);
	}
	tap_ok(good == i, "%u of %u altered at random left nothing", good, i);
}

int main(int argc, char **argv)
{
	uint32_t seed = argc > 1 ? strtoul(argv[1], NULL, 0) : (uint32_t)now_ns() | 1;

	printf("# seed %u (repeat with: test_path_bits %u)\n", seed, seed);
	if (path_world_open(&p, &(struct world_options){.port = 2}))
		return tap_bail("the programs do not load");
	for (int ip = 4; ip <= 6; ip += 2) {
		test_bits(false, ip);
		test_bits(true, ip);
		test_cuts(ip);
	}
	test_random(seed);
	path_world_close(&p);
	return tap_end();
}
