// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fabric time as kernel programs read it, against clocksync's reading of the
 * same model; while a model is replaced; and SipHash over any number of words.
 */
#define TAP_PLAN 10

#include <libgen.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "probe_model.h"
#include "tests/lib/tap.h"
#include "world.h"
#include "clocksync/model.h"
#include "loader/base/now.h"

/* As in bpf/reads.bpf.c. */
struct reads_question {
	int64_t local_ns;
	uint64_t key[2];
	uint64_t words[17];
	uint64_t last;
	uint32_t word_count;
	uint32_t pad;
};

struct reads_result {
	int64_t fabric_ns;
	int64_t bound_ns;
	uint64_t tag;
	uint32_t state;
	uint32_t there;
};

struct reads {
	struct bpf_object *object;
	struct reads_question *question;
	struct reads_result *result;
	struct esc_clock *clock;
	int read_clock, read_now, hash_words;
};

static uint64_t state;

static uint64_t random_64(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ull;
}

static void *map_memory(const struct reads *r, const char *name, size_t bytes)
{
	int fd = bpf_object__find_map_fd_by_name(r->object, name);
	void *at = mmap(NULL, (bytes + 4095) & ~4095ul, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static int program(const struct reads *r, const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(r->object, name));
}

/* The object lies beside this program. */
static bool reads_open(struct reads *r)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 20);
	uint8_t *bss;

	if (n < 0)
		return false;
	path[n] = 0;
	strcat(dirname(path), "/../tools/reads.bpf.o");
	libbpf_set_print(world_quiet);
	r->object = bpf_object__open_file(path, NULL);
	if (!r->object || bpf_object__load(r->object))
		return false;
	r->read_clock = program(r, "read_clock");
	r->read_now = program(r, "read_clock_now");
	r->hash_words = program(r, "hash_words");
	r->clock = map_memory(r, "clock", sizeof(*r->clock));
	bss = map_memory(r, ".bss", sizeof(*r->question) + sizeof(*r->result));
	if (!bss || !r->clock)
		return false;
	/* Which of the two comes first is the compiler's choice; its size shows. */
	r->question = (void *)bss;
	r->result = (void *)(bss + sizeof(*r->question));
	return true;
}

static bool reads_run(int fd)
{
	uint8_t frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = sizeof(frame),
		    .repeat = 1);

	return !bpf_prog_test_run_opts(fd, &o);
}

static void test_hash(struct reads *r)
{
	uint8_t data[17 * 8 + 8];
	uint32_t count, good = 0, all = 0;
	struct probe_key key;
	size_t i;

	for (count = 0; count <= 17 * 8 + 7; count++, all++) {
		for (i = 0; i < sizeof(data); i++)
			data[i] = random_64();
		for (i = 0; i < 16; i++)
			key.bytes[i] = random_64();
		memcpy(r->question->key, key.bytes, 16);
		memcpy(r->question->words, data, count / 8 * 8);
		r->question->word_count = count / 8;
		r->question->last = model_little(data + count / 8 * 8, count % 8) | (uint64_t)count
											    << 56;
		r->result->tag = 0;
		good += reads_run(r->hash_words) &&
			r->result->tag == model_siphash(&key, data, count);
	}
	tap_ok(good == all, "SipHash-2-4 of 0 to %u bytes: %u of %u as the model has them",
	       count - 1, good, all);
}

/* The paper's appendix A: bytes 00 .. 0e under the key 00 .. 0f. */
static void test_hash_reference(struct reads *r)
{
	*r->question = (struct reads_question){
		.key = {0x0706050403020100, 0x0f0e0d0c0b0a0908},
		.words = {0x0706050403020100},
		.last = 0x0f0e0d0c0b0a0908,
		.word_count = 1,
	};
	tap_ok(reads_run(r->hash_words) && r->result->tag == 0xa129ca6149be45e5,
	       "SipHash-2-4 of the reference");
}

static struct clock_model random_model(void)
{
	struct clock_model m = {
		.ref_local_ns = random_64() >> 12,
		.ref_fabric_ns = random_64() >> 4,
		.ref_rate = (int)(random_64() % (2 * CLOCK_RATE_MAX)) - CLOCK_RATE_MAX,
		.rate = (int)(random_64() % (2 * CLOCK_RATE_MAX)) - CLOCK_RATE_MAX,
		.bound_ns = random_64() >> 40,
		.bound_growth = random_64() % CLOCK_RATE_MAX,
		.bound_late = random_64() % CLOCK_RATE_MAX,
		.state = CLOCK_SYNCED,
	};
	long long span = random_64() % 1000000000;

	m.slew_end_local_ns = m.ref_local_ns + span;
	m.slew_end_fabric_ns = m.ref_fabric_ns + span + clock_scale(span, m.ref_rate);
	m.bound_local_ns = m.ref_local_ns;
	return m;
}

static void test_readings(struct reads *r)
{
	uint32_t i, good = 0;
	const uint32_t all = 20000;

	for (i = 0; i < all; i++) {
		struct clock_model m = random_model();
		int64_t local =
			m.ref_local_ns + (int64_t)(random_64() % 4000000000ull) - 1000000000;

		memset(r->clock, 0, sizeof(*r->clock));
		r->clock->generation = i + 1;
		r->clock->slot[(i + 1) & 1] = m;
		r->question->local_ns = local;
		good += reads_run(r->read_clock) && r->result->there &&
			r->result->fabric_ns == clock_model_read(&m, local) &&
			r->result->bound_ns == clock_model_bound(&m, local) &&
			r->result->state == CLOCK_SYNCED;
	}
	tap_ok(good == all, "%u readings of random models, %u as clocksync reads them", all, good);
}

static void test_absent(struct reads *r)
{
	memset(r->clock, 0, sizeof(*r->clock));
	tap_ok(reads_run(r->read_clock) && !r->result->there, "no model yet: no time");
	r->clock->slot[1] = random_model();
	r->clock->slot[1].state = CLOCK_FREE_RUNNING;
	r->clock->generation = 1;
	tap_ok(reads_run(r->read_clock) && !r->result->there, "free running: no time");
	r->clock->slot[1].state = CLOCK_HOLDOVER;
	tap_ok(reads_run(r->read_clock) && r->result->there && r->result->state == CLOCK_HOLDOVER,
	       "holdover is reported with its time");
}

static void test_now(struct reads *r)
{
	struct clock_model m = {.state = CLOCK_SYNCED, .ref_fabric_ns = 5, .slew_end_fabric_ns = 5};
	struct timespec t;
	int64_t before, after;

	r->clock->slot[0] = m;
	r->clock->generation = 2;
	clock_gettime(CLOCK_MONOTONIC, &t);
	before = t.tv_sec * 1000000000ll + t.tv_nsec + 5;
	if (!reads_run(r->read_now))
		r->result->there = 0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	after = t.tv_sec * 1000000000ll + t.tv_nsec + 5;
	tap_ok(r->result->there && r->result->fabric_ns >= before && r->result->fabric_ns <= after,
	       "XDP reads fabric time of now");
}

/* The models were computed two seconds of suspension ago. */
static void test_suspended(struct reads *r)
{
	const struct clock_model m = {.state = CLOCK_SYNCED};

	memset(r->clock, 0, sizeof(*r->clock));
	r->clock->slot[0] = m;
	r->clock->generation = 2;
	r->clock->suspended_ns = time_suspended_ns();
	tap_ok(reads_run(r->read_now) && r->result->there, "no suspension since: fabric time");
	r->clock->suspended_ns -= 2000000000;
	tap_ok(reads_run(r->read_now) && !r->result->there, "suspended since: none");
}

struct publisher {
	struct esc_clock *clock;
	bool stop;
};

/* Every field of a model contains its generation, so a mixture is seen. */
static void *publish(void *context)
{
	struct publisher *p = context;
	uint64_t generation = p->clock->generation;

	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
		struct clock_model *m = &p->clock->slot[++generation & 1];

		m->ref_local_ns = generation << 20;
		m->ref_fabric_ns = generation << 21;
		m->slew_end_local_ns = generation << 20;
		m->slew_end_fabric_ns = generation << 21;
		m->bound_local_ns = INT64_MAX / 2;
		m->bound_ns = generation & 0xffffff;
		m->state = CLOCK_SYNCED;
		__atomic_store_n(&p->clock->generation, generation, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void test_published(struct reads *r)
{
	struct publisher p = {.clock = r->clock};
	uint32_t i, there = 0, torn = 0;
	uint64_t generation;
	pthread_t thread;

	memset(r->clock, 0, sizeof(*r->clock));
	r->question->local_ns = 0;
	if (pthread_create(&thread, NULL, publish, &p)) {
		tap_ok(false, "a thread that publishes");
		return;
	}
	for (i = 0; i < 100000; i++) {
		if (!reads_run(r->read_clock) || !r->result->there)
			continue;
		there++;
		/* Fabric time at 0 is twice the reference less the reference. */
		generation = r->result->fabric_ns >> 20;
		torn += r->result->fabric_ns != (int64_t)(generation << 20) ||
			r->result->bound_ns != (int64_t)(generation & 0xffffff) + 1;
	}
	__atomic_store_n(&p.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	tap_ok(there && !torn, "read while models are replaced without pause: %u whole, %u torn",
	       there, torn);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 7919;
	struct reads r = {0};

	printf("# seed %llu\n", (unsigned long long)seed);
	state = (seed + 1) * 0x9e3779b97f4a7c15ull;
	if (!reads_open(&r))
		return tap_bail("reads.bpf.o does not load");
	test_hash_reference(&r);
	test_hash(&r);
	test_readings(&r);
	test_absent(&r);
	test_now(&r);
	test_suspended(&r);
	test_published(&r);
	bpf_object__close(r.object);
	return tap_end();
}
