// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random bytes and altered captures at all three hooks: every packet passes as
 * it was, and the maps report what the model predicts. `test_fuzz SEED [PACKETS]`
 * repeats a run.
 */
#define TAP_PLAN 3

#include <glob.h>
#include <time.h>

#include "model_qp.h"
#include "tests/lib/tap.h"
#include "world.h"

#define PACKETS 100000
#define ROUND 2500 /* packets between comparisons: bounds the queue pairs there can be */
#define SEEDS_MAX 512

static uint64_t state;
static struct frame *seeds[SEEDS_MAX];
static int seed_count;

/* xorshift64*: the same everywhere, so a seed can be repeated. */
static uint32_t random_32(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 2685821657736338717ull) >> 32;
}

static uint32_t below(uint32_t n)
{
	return random_32() % n;
}

static void load_seeds(const char *pattern)
{
	glob_t found;
	size_t i;

	if (glob(pattern, 0, NULL, &found))
		return;
	for (i = 0; i < found.gl_pathc; i++) {
		FILE *capture = fopen(found.gl_pathv[i], "r");
		struct frame f;

		while (capture && seed_count < SEEDS_MAX && frame_read(capture, &f)) {
			seeds[seed_count] = malloc(sizeof(f));
			memcpy(seeds[seed_count++], &f, sizeof(f));
		}
		if (capture)
			fclose(capture);
	}
	globfree(&found);
}

static void make_garbage(struct frame *f)
{
	static const uint16_t ethertypes[] = {0x0800, 0x86dd, 0x8100, 0x88a8, 0x8915, 0x0806};
	uint32_t i;

	f->bytes = 14 + below(160);
	for (i = 0; i < f->bytes; i++)
		f->data[i] = random_32();
	if (below(4))
		frame_put16(f, 12, ethertypes[below(6)]);
	if (f->bytes > 60 && below(2)) {
		f->data[14] = below(2) ? 0x45 : 0x60 | below(16);
		f->data[frame_is_ipv6(f) ? 20 : 23] = below(4) ? 17 : 44;
	}
}

/* A packet of the captures' kind, with every field near what it may be. */
static void make_plausible(struct frame *f)
{
	static const uint8_t services[] = {0x00, 0x20, 0xa0, 0x00, 0x00, 0x60, 0x80};
	static const uint32_t payloads[] = {0, 1, 8, 256, 1000, 1024, 1024, 600};
	static uint32_t psn;
	struct frame_plan plan = {
		.ip = below(2) ? 4 : 6,
		.opcode = services[below(7)] | below(32),
		.ecn = below(8) ? 0 : below(4),
		.pad = below(4),
		.syndrome = below(2) ? below(256) : 0,
		.sport = 49152 + below(2),
		.source_host = below(3),
		.qpn = below(3),
		.payload = payloads[below(8)],
	};
	static const uint32_t reads[] = {1, 256, 300, 1024, 5000, 65536};

	if (below(60) == 0)
		psn = random_32() & 0xffffff;
	plan.psn = (psn + (below(4) ? 0 : below(12) - 6)) & 0xffffff;
	psn += below(8) ? 1 : 5;
	plan.extension = model_opcode(plan.opcode).extension;
	if (model_opcode(plan.opcode).operation == MODEL_READ_REQUEST) {
		plan.read_bytes = reads[below(6)];
		plan.payload = 0;
		plan.syndrome = 0;
	}
	frame_build(f, &plan);
}

static void alter_bytes(struct frame *f)
{
	uint32_t i, n = 1 + below(4);

	for (i = 0; i < n; i++)
		f->data[below(f->bytes < 90 ? f->bytes : 90)] = random_32();
}

static void alter_shape(struct frame *f)
{
	static const uint8_t kinds[] = {0, 43, 44, 60};
	uint32_t i, n = below(8);

	if (frame_is_ipv6(f))
		for (i = 0; i < n; i++)
			frame_add_ipv6_extension(f, kinds[below(4)], 8 + 8 * below(4));
	else if (below(2))
		frame_add_ipv4_options(f, 4 * below(11));
	for (i = below(4); i > 0; i--)
		frame_add_vlan(f, below(2) ? 0x8100 : 0x88a8, below(4096));
}

static void make_frame(struct frame *f)
{
	switch (below(8)) {
	case 0:
		make_garbage(f);
		return;
	case 1:
	case 2:
	case 3:
		memcpy(f, seeds[below(seed_count)], sizeof(*f));
		break;
	default:
		make_plausible(f);
	}
	if (below(3) == 0)
		alter_shape(f);
	if (below(3) == 0)
		alter_bytes(f);
	if (below(6) == 0)
		f->bytes = 14 + below(f->bytes - 14 + 1);
}

struct totals {
	uint64_t reasons[ESC_REASON_MAX];
	uint64_t packets, bytes;
	uint64_t sent, refused, roce;
};

static void expect(struct totals *t, const struct frame *f, uint32_t linear, enum world_hook hook)
{
	struct model_packet p;
	int result = model_decode(f->data, f->bytes, linear, &p);

	if (result >= 0)
		t->reasons[result]++;
	if (result != MODEL_ROCE)
		return;
	t->roce++;
	t->packets++;
	t->bytes += p.bytes;
	p.key.direction = hook == WORLD_TC_OUT ? ESC_DIRECTION_TX : ESC_DIRECTION_RX;
	model_account(model_find(&p.key), &p);
}

static bool compare(const struct world *w, enum world_hook hook, const struct totals *t)
{
	struct esc_port_counts port = world_port_counts(w, 0);
	bool tx = hook == WORLD_TC_OUT, same = true;
	uint64_t reasons[ESC_REASON_MAX];
	struct esc_qp qp;
	uint32_t i;

	world_reasons(w, reasons, hook);
	for (i = 0; i < ESC_REASON_MAX; i++) {
		if (reasons[i] == t->reasons[i])
			continue;
		printf("# reason %s: kernel %llu, model %llu\n", world_reason_name(i),
		       (unsigned long long)reasons[i], (unsigned long long)t->reasons[i]);
		same = false;
	}
	if ((tx ? port.tx_roce_packets : port.rx_roce_packets) != t->packets ||
	    (tx ? port.tx_roce_bytes : port.rx_roce_bytes) != t->bytes) {
		printf("# the port's counts differ\n");
		same = false;
	}
	for (i = 0; i < model_qps; i++) {
		if (!world_qp(w, &model_newest[i]->key, &qp)) {
			printf("# qpn 0x%x is not in the map\n", model_newest[i]->key.dest_qpn);
			same = false;
			continue;
		}
		same = model_compare(model_newest[i], &qp) && same;
	}
	if (world_qp_count(w) != model_qps) {
		printf("# queue pairs: kernel %u, model %u\n", world_qp_count(w), model_qps);
		same = false;
	}
	return same;
}

/* One round at one hook; false at the first difference. */
static bool fuzz_round(struct world *w, enum world_hook hook, uint64_t seed, uint32_t packets,
		       struct totals *sum)
{
	struct totals t = {0};
	struct frame f;
	uint32_t i, linear;
	int passed;

	state = seed;
	world_reset(w);
	model_reset();
	for (i = 0; i < packets; i++) {
		make_frame(&f);
		linear = f.bytes;
		if (hook == WORLD_XDP && below(4) == 0)
			linear = 14 + below(f.bytes - 14 + 1);
		passed = world_run(w, hook, f.data, f.bytes, linear);
		if (passed == -EINVAL) {
			t.refused++;
			continue;
		}
		if (passed != 1) {
			printf("# packet %u of the round (%u bytes): %s\n", i, f.bytes,
			       passed ? strerror(-passed) : "changed or not passed");
			return false;
		}
		t.sent++;
		expect(&t, &f, linear, hook);
	}
	sum->sent += t.sent;
	sum->refused += t.refused;
	sum->roce += t.roce;
	return compare(w, hook, &t);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919;
	uint32_t packets = argc > 2 ? strtoul(argv[2], NULL, 0) : PACKETS, round, rounds;
	struct world w;
	int hook;

	load_seeds("tests/vectors/*.pcap");
	if (!seed_count)
		return tap_bail("no captures in tests/vectors: run from the top of the source");
	if (world_open(&w, &(struct world_options){.sample_mask = 0xff}))
		return tap_bail("the programs do not load");
	rounds = packets / WORLD_HOOKS / ROUND + 1;
	printf("# seed %llu (repeat with: test_fuzz %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, packets);
	for (hook = 0; hook < WORLD_HOOKS; hook++) {
		struct totals sum = {0};
		bool good = true;

		for (round = 0; round < rounds && good; round++)
			good = fuzz_round(&w, hook,
					  (seed + 1) * 0x9e3779b97f4a7c15ull + round * 2 + 1, ROUND,
					  &sum);
		if (!good)
			printf("# seed %llu, round %u\n", (unsigned long long)seed, round - 1);
		tap_ok(good && sum.roce,
		       "%s: %llu packets, %llu of them RoCEv2, counted as the model counts "
		       "(%llu more not taken by the kernel's test run)",
		       world_hook_names[hook], (unsigned long long)sum.sent,
		       (unsigned long long)sum.roce, (unsigned long long)sum.refused);
	}
	world_close(&w);
	return tap_end();
}
