// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random frames, and probes and encapsulated packets that are altered anywhere, through the
 * programs of NIC failover. `test_nic_fuzz SEED [FRAMES]` repeats a run.
 */
#define TAP_PLAN 5

#include "nic_packets.h"
#include "tests/lib/rng.h"

#define FRAMES 20000

static struct rng rng;

static uint32_t below(uint32_t bound)
{
	return (uint32_t)(rng_next(&rng) % bound);
}

/* Bytes replaced, one cut out or put in, the end cut off. The IP header keeps its length often. */
static void alter(struct frame *f)
{
	uint32_t times = below(4), at;

	for (uint32_t i = 0; i < times; i++)
		f->data[below(f->bytes)] = (uint8_t)rng_next(&rng);
	if (!below(4)) {
		at = below(f->bytes);
		memmove(f->data + at, f->data + at + 1, f->bytes - at - 1);
		f->bytes--;
	}
	if (!below(4))
		f->bytes = 34 + below(f->bytes - 34); /* what BPF_PROG_TEST_RUN takes */
}

static void random_frame(struct frame *f)
{
	f->bytes = 34 + below(200);
	for (uint32_t i = 0; i < f->bytes; i++)
		f->data[i] = (uint8_t)rng_next(&rng);
	frame_put16(f, 12, below(2) ? 0x0800 : 0x86dd);
	if (below(2)) {
		f->data[14] = 0x45;
		f->data[23] = 17;
		memcpy(f->data + 26, "\x0a\x09\0\x02\x0a\x08\0\x02", 8);
		frame_put16(f, 36, PORT + below(2));
	}
}

struct tally {
	uint32_t frames, refused, odd, changed, taken;
};

/* A verdict of ours; a frame that is passed on is as it was. */
static void check_run(struct tally *t, int fd, const struct frame *f)
{
	struct frame got;
	int verdict = run(fd, f, &got);

	t->frames++;
	t->refused += verdict == -1000;
	t->odd += verdict != -1000 && verdict != NEXT && verdict != SHOT && verdict != REDIRECT;
	t->changed += verdict == NEXT && !same(f, &got);
	t->taken += verdict == REDIRECT;
}

static void report(const struct tally *t, const char *name)
{
	tap_ok(t->frames > t->refused && !t->odd && !t->changed,
	       "%s: %u frames (the kernel runs none of %u), a verdict each, none changed that is "
	       "passed on",
	       name, t->frames, t->refused);
}

/* A probe or an encapsulated packet by @key. */
static void build_inward(struct frame *f, const struct probe_key *key)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};

	frame_build(f, &plan);
	if (below(2)) {
		wrap(f, "10.9.0.2", "10.8.0.2", PORT);
		put_token(f, key);
		return;
	}
	build_probe_at(f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, below(2) ? "10.1.0.3" : NULL,
		       now_ns() + NUMBER_OFFSET_NS, key);
}

static void test_random(uint32_t frames)
{
	struct tally in = {}, out = {};
	struct frame f;

	for (uint32_t i = 0; i < frames; i++) {
		random_frame(&f);
		check_run(&in, in_fd, &f);
		check_run(&out, i & 1 ? out_fd : dummy_fd, &f);
	}
	report(&in, "in, random");
	report(&out, "out, random");
	tap_ok(!in.taken, "in, random: none is delivered or gets a reply");
}

static void test_altered(uint32_t frames)
{
	static const struct probe_key other = {{9, 9, 9}};
	struct tally ours = {}, forged = {};
	struct frame f;

	for (uint32_t i = 0; i < frames; i++) {
		build_inward(&f, &pair_key);
		alter(&f);
		check_run(&ours, in_fd, &f);
		build_inward(&f, &other);
		alter(&f);
		check_run(&forged, in_fd, &f);
	}
	report(&ours, "in, altered");
	tap_ok(ours.taken && !forged.taken && !forged.odd && !forged.changed,
	       "in, altered and by another key: none is delivered or gets a reply");
}

int main(int argc, char **argv)
{
	uint64_t seed =
		argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;
	uint32_t frames = argc > 2 ? strtoul(argv[2], NULL, 0) : FRAMES;
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame inner;

	printf("# seed %llu (repeat with: test_nic_fuzz %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, frames);
	rng_seed(&rng, seed);
	if (!nic_world_open())
		return tap_bail("the programs of NIC failover load");
	set_word(ESC_NIC_ON, 1, FRESH);
	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	test_random(frames);
	test_altered(frames);
	nic_programs__destroy(kernel);
	return tap_end();
}
