// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets onto another source port: every packet of the captures, and random
 * ones, come out as the port, the ICRC and the checksum written anew make them,
 * and not a bit else. With the patch disabled the same comparison fails.
 * `test_steer SEED [PACKETS]` repeats a run.
 */
#define TAP_PLAN 4

#include <glob.h>

#include "steer_model.h"
#include "tests/lib/tap.h"

#define PACKETS 100000
#define ROUND 512	 /* rules that are put in before the packets run */
#define FRAME_TAKEN 3400 /* an IP packet of so many bytes fits a test run on every kernel */

struct tally {
	uint32_t packets;
	uint32_t refused; /* by the kernel's test run */
	uint32_t right;
	uint32_t wrong_icrc; /* right but for the ICRC (and a checksum that covers it) */
};

struct job {
	struct frame frame;
	enum frame_check check;
	uint16_t sport;
};

static struct job jobs[ROUND];
static uint32_t generation = 1, order;

static int run_out(struct world *w, const struct frame *f, struct frame *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = out->data, .data_size_out = sizeof(out->data), .repeat = 1);
	int error = bpf_prog_test_run_opts(w->programs[WORLD_TC_OUT], &o);

	out->bytes = o.data_size_out;
	return error ? error : (int)o.retval;
}

static bool frames_equal(const struct frame *a, const struct frame *b)
{
	return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

static void tell(const struct job *job, const struct frame *got, const struct frame *must)
{
	uint32_t i = 0;

	while (i < got->bytes && i < must->bytes && got->data[i] == must->data[i])
		i++;
	printf("# %u bytes (must be %u), port %u to %u, checksum kind %d: byte %u is %02x, must be "
	       "%02x\n",
	       got->bytes, must->bytes, frame_get16(&job->frame, frame_udp_offset(&job->frame)),
	       job->sport, job->check, i, got->data[i], must->data[i]);
}

/* Runs one packet that a rule is in force for. */
static void run_job(struct world *w, struct job *job, struct tally *tally, bool quiet)
{
	static struct frame got, must;
	uint32_t icrc;

	must = job->frame;
	frame_resteer(&must, job->sport, job->check);
	switch (run_out(w, &job->frame, &got)) {
	case -EINVAL:
		tally->refused++;
		return;
	case -1: /* TC_ACT_UNSPEC */
		break;
	default:
		printf("# not passed on\n");
		return;
	}
	tally->packets++;
	if (frames_equal(&got, &must)) {
		tally->right++;
		return;
	}
	if (!quiet)
		tell(job, &got, &must);
	icrc = frame_udp_offset(&must) + frame_get16(&must, frame_udp_offset(&must) + 4) - 4;
	memcpy(must.data + icrc, got.data + icrc, 4);
	memcpy(must.data + frame_udp_offset(&must) + 6, got.data + frame_udp_offset(&got) + 6, 2);
	tally->wrong_icrc += frames_equal(&got, &must);
}

/* Rules for all jobs, then all packets. A packet's rule takes effect with itself: hold is 0. */
static bool run_round(struct world *w, uint32_t count, struct tally *tally, bool quiet)
{
	uint32_t i;

	steer_reset(w);
	for (i = 0; i < count; i++) {
		struct esc_steer steer = {.number = ++order, .sport = jobs[i].sport};
		struct esc_qp_key key = frame_key(&jobs[i].frame, w->port);

		if (steer_rule(w, &key, &steer))
			return false;
	}
	if (steer_control(w, ++generation))
		return false;
	for (i = 0; i < count; i++)
		run_job(w, &jobs[i], tally, quiet);
	return true;
}

static void run_random(struct world *w, uint32_t packets, struct tally *tally, bool quiet)
{
	uint32_t done, i;

	for (done = 0; done < packets; done += ROUND) {
		for (i = 0; i < ROUND; i++) {
			jobs[i].check = frame_make_random(&jobs[i].frame, 0x100 + i, FRAME_TAKEN);
			frame_seal(&jobs[i].frame, jobs[i].check);
			/* Frames may be padded behind the IP packet. */
			if (steer_below(8) == 0)
				jobs[i].frame.bytes += steer_below(20);
			jobs[i].sport = 1 + steer_below(65535);
		}
		if (!run_round(w, ROUND, tally, quiet))
			return;
	}
}

/* Packets of one queue pair share a rule, so each packet is a round of its own. */
static uint32_t run_capture(struct world *w, const char *path, enum frame_shape shape,
			    struct tally *tally, bool *valid)
{
	FILE *capture = fopen(path, "r");
	uint32_t packets = 0, icrc, have;
	struct job *job = &jobs[0];

	*valid = true;
	while (capture && frame_read(capture, &job->frame)) {
		icrc = frame_udp_offset(&job->frame) +
		       frame_get16(&job->frame, frame_udp_offset(&job->frame) + 4) - 4;
		memcpy(&have, job->frame.data + icrc, 4);
		*valid = *valid && le32toh(have) == frame_icrc(&job->frame);
		frame_set_shape(&job->frame, shape);
		job->check = CHECK_NONE;
		frame_seal(&job->frame, job->check);
		job->sport = 0xc000 + steer_below(0x4000);
		run_round(w, 1, tally, false);
		packets++;
	}
	if (capture)
		fclose(capture);
	return packets;
}

static void test_captures(struct world *w)
{
	struct tally tally = {0};
	uint32_t packets = 0;
	bool valid = true, each;
	glob_t found;
	size_t i;
	int shape;

	if (glob("tests/vectors/*.pcap", 0, NULL, &found)) {
		tap_ok(false, "captures in tests/vectors: run from the top of the source");
		return;
	}
	for (i = 0; i < found.gl_pathc; i++)
		for (shape = 0; shape < FRAME_SHAPES; shape++) {
			packets += run_capture(w, found.gl_pathv[i], shape, &tally, &each);
			valid = valid && each;
		}
	globfree(&found);
	tap_ok(valid, "the ICRC as it is taken here is soft-RoCE's own in every packet captured");
	tap_ok(packets && tally.right == packets && !tally.refused,
	       "captures in %d shapes: %u of %u packets right on their new port", FRAME_SHAPES,
	       tally.right, packets);
}

static void test_random(uint64_t seed, uint32_t packets)
{
	struct tally tally = {0};
	struct world w;

	if (world_open(&w, &(struct world_options){.port = 3})) {
		tap_ok(false, "the programs load");
		return;
	}
	test_captures(&w);
	steer_random_state = seed;
	run_random(&w, packets, &tally, false);
	tap_ok(tally.right && tally.right == tally.packets &&
		       tally.packets + tally.refused >= packets,
	       "random packets: %u of %u right on their new port (%u more not taken by the "
	       "kernel's test run)",
	       tally.right, tally.packets, tally.refused);
	world_close(&w);
}

static void test_negative(uint64_t seed)
{
	struct tally tally = {0};
	struct world w;

	if (world_open(&w, &(struct world_options){.port = 3, .icrc_stale = true})) {
		tap_ok(false, "the programs load");
		return;
	}
	steer_random_state = seed;
	run_random(&w, 2 * ROUND, &tally, true);
	/* A random port is the packet's own once in 65,535. */
	tap_ok(tally.packets && tally.right <= 4 && tally.wrong_icrc + tally.right == tally.packets,
	       "without the patch %u of %u ICRCs are wrong, and nothing else is", tally.wrong_icrc,
	       tally.packets);
	world_close(&w);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919 + 1;
	uint32_t packets = argc > 2 ? strtoul(argv[2], NULL, 0) : PACKETS;

	printf("# seed %llu (repeat with: test_steer %llu %u)\n", (unsigned long long)seed,
	       (unsigned long long)seed, packets);
	steer_random_state = seed;
	test_random(seed, packets);
	test_negative(seed);
	return tap_end();
}
