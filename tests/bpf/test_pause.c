// SPDX-License-Identifier: BSD-2-Clause
/*
 * The law of pacing/pause.h in the kernel against the same text in user space, call by call on the
 * same state: test_pause [SEED [CALLS]]; and what a call costs.
 */
#define TAP_PLAN 3

#include <libgen.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pacing/pause.h"
#include "tests/lib/tap.h"
#include "world.h"

#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull
#define MARKS 64

/* As in bpf/pause.bpf.c. */
struct pause_case {
	struct pause_rule rule;
	struct pause_flow flow;
	struct pause_mark mark;
	uint64_t now_ns, departure_ns, result;
	int64_t delay_ns;
	uint32_t bytes, again;
};

static struct pause_case *kernel; /* in the object's memory */
static int departs, samples;
static uint64_t state;

static uint64_t random_below(uint64_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ull % n;
}

static int program(const struct bpf_object *object, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

/* The object lies beside this program. */
static bool open_object(struct bpf_object **object)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 20);
	void *bss;

	if (n < 0)
		return false;
	path[n] = 0;
	strcat(dirname(path), "/../tools/pause.bpf.o");
	libbpf_set_print(world_quiet);
	*object = bpf_object__open_file(path, NULL);
	if (!*object || bpf_object__load(*object))
		return false;
	departs = program(*object, "pause_departs");
	samples = program(*object, "pause_samples");
	bss = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
		   bpf_object__find_map_fd_by_name(*object, ".bss"), 0);
	kernel = bss;
	return bss != MAP_FAILED;
}

static bool run(int fd, unsigned repeat, uint32_t *ns)
{
	uint8_t frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = sizeof(frame),
		    .repeat = (int)repeat);

	if (bpf_prog_test_run_opts(fd, &opts))
		return false;
	if (ns)
		*ns = opts.duration;
	return true;
}

static void depart_here(struct pause_case *c)
{
	pause_repeat(&c->flow, &c->rule, c->again, c->now_ns);
	c->result = pause_depart(&c->flow, &c->rule, c->bytes, c->now_ns, &c->mark);
}

static void sample_here(struct pause_case *c)
{
	c->result =
		pause_sample(&c->flow, &c->rule, &c->mark, c->departure_ns, c->delay_ns, c->now_ns);
}

/* Numbers that a flow meets, and now and then others. */
static void make_call(struct pause_case *c, struct pause_mark *marks, uint64_t *departures,
		      unsigned m, bool departure)
{
	unsigned odd = (unsigned)random_below(200);

	c->now_ns += odd == 0 ? random_below(3 * SECOND) : random_below(20 * US);
	c->bytes = (uint32_t)random_below(odd == 1 ? 65536 : 4200) + 60;
	c->again = odd == 2 || (c->again && odd < 150);
	c->delay_ns = (int64_t)random_below(odd == 3 ? 6 * SECOND : odd < 40 ? MS : 80 * US);
	if (odd == 4)
		c->delay_ns = -c->delay_ns;
	if (!departure) {
		c->mark = marks[m];
		c->departure_ns = departures[m];
	}
}

/* Returns how many calls differed. */
static unsigned compare(unsigned calls, uint64_t line_Bps, uint64_t threshold_ns)
{
	struct pause_mark marks[MARKS] = {{0}};
	uint64_t departures[MARKS] = {0};
	struct pause_case here = {.now_ns = 1000 * SECOND, .flow.floor_ns = 1};
	unsigned differ = 0;

	pause_rule_default(&here.rule, threshold_ns, line_Bps);
	for (unsigned i = 0; i < calls; i++) {
		bool departure = random_below(2);
		unsigned m = (unsigned)random_below(MARKS);

		make_call(&here, marks, departures, m, departure);
		*kernel = here;
		if (!run(departure ? departs : samples, 1, NULL))
			return calls;
		if (departure)
			depart_here(&here);
		else
			sample_here(&here);
		if (memcmp(kernel, &here, sizeof(here)) && !differ++)
			printf("# call %u (%s) differs: %llu and %llu, rate %llu and %llu\n", i,
			       departure ? "departure" : "sample",
			       (unsigned long long)kernel->result, (unsigned long long)here.result,
			       (unsigned long long)kernel->flow.rate_Bps,
			       (unsigned long long)here.flow.rate_Bps);
		if (departure) {
			marks[m] = here.mark;
			departures[m] = here.result;
		}
	}
	printf("# the flow ended in round %u, rate %llu, paused %llu ns\n", here.flow.round,
	       (unsigned long long)here.flow.rate_Bps, (unsigned long long)here.flow.paused_ns);
	return differ + !here.flow.round;
}

static void show_cost(void)
{
	uint32_t depart_ns = 0, sample_ns = 0;

	memset(kernel, 0, sizeof(*kernel));
	pause_rule_default(&kernel->rule, 50 * US, 1250000000);
	kernel->now_ns = 1000 * SECOND;
	kernel->bytes = 1500;
	if (run(departs, 1000000, &depart_ns) && run(samples, 1000000, &sample_ns))
		printf("# a call with the test run's own cost: departure %u ns, sample %u ns\n",
		       depart_ns, sample_ns);
}

int main(int argc, char **argv)
{
	static const struct {
		uint64_t line_Bps, threshold_ns;
	} rules[] = {{12500000, MS}, {1250000000, 50 * US}, {50000000000, 20 * US}};
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	unsigned calls = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 20000;
	struct bpf_object *object = NULL;

	printf("# seed %llu, %u calls\n", (unsigned long long)seed, calls);
	state = seed | 1;
	if (!open_object(&object))
		return tap_bail("pause.bpf.o does not load: are you root?");
	for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++)
		tap_ok(!compare(calls, rules[r].line_Bps, rules[r].threshold_ns),
		       "the kernel and user space agree: %llu Mbit/s, threshold %llu us",
		       (unsigned long long)rules[r].line_Bps / 125000,
		       (unsigned long long)rules[r].threshold_ns / 1000);
	show_cost();
	bpf_object__close(object);
	return tap_end();
}
