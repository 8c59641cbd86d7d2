// SPDX-License-Identifier: BSD-2-Clause
/* Workers of the core, and log lines that nothing reads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#include "fakes.h"
#include "base/log.h"
#include "core/core.h"

#define SECOND_NS 1000000000ull

static struct fake_world world;
static int gate[2]; /* a job reads a byte from it */
static unsigned int worked, ended, freed;

static void begin(void)
{
	cr_assert_eq(fake_daemon(&world, "interfaces: [{name: eth1}]\n"), 0);
	cr_assert_geq(sd_event_new(&world.event), 0);
	world.core.loop = world.event;
	cr_assert_eq(pipe(gate), 0);
	worked = ended = freed = 0;
}

static void end(void)
{
	close(gate[1]);
	sd_event_unref(world.event);
	events_free(world.ledger);
	config_free(world.config);
}

TestSuite(worker, .init = begin, .fini = end);

static void work(void *job)
{
	(void)job;
	if (read(gate[0], &(char){0}, 1) == 1)
		__atomic_fetch_add(&worked, 1, __ATOMIC_SEQ_CST);
}

static void done(void *context, void *job)
{
	cr_expect_eq(context, &world);
	cr_expect_str_eq(job, "a job");
	ended++;
}

static void job_free(void *job)
{
	__atomic_fetch_add(&freed, 1, __ATOMIC_SEQ_CST);
	free(job);
}

static const struct core_work kind = {"test", work, done, job_free};

static struct core_worker *new_worker(void)
{
	struct core_worker *worker;

	cr_assert_geq(core_worker_new(&world.core, &worker, &kind, &world), 0);
	return worker;
}

static uint64_t count_of(const char *kind_name)
{
	const struct event_count *counts;
	size_t count = events_counts(world.ledger, &counts);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(counts[i].kind, kind_name))
			return counts[i].count;
	return 0;
}

Test(worker, a_job_ends_in_the_loop)
{
	struct core_worker *worker = new_worker();
	char *job = strdup("a job");

	cr_expect(!core_worker_busy(worker));
	cr_assert_eq(core_worker_start(worker, job), 0);
	cr_expect(core_worker_busy(worker));
	cr_expect_eq(core_worker_start(worker, job), -EBUSY, "one at a time");
	cr_expect_eq(sd_event_run(world.event, 20000), 0, "nothing to do in the loop");
	cr_expect_eq(ended, 0);
	cr_assert_eq(write(gate[1], "x", 1), 1);
	for (int i = 0; i < 100 && !ended; i++)
		sd_event_run(world.event, 100000);
	cr_expect_eq(worked, 1);
	cr_expect_eq(ended, 1);
	cr_expect_eq(freed, 1);
	cr_expect(!core_worker_busy(worker));
	core_worker_free(worker);
}

Test(worker, one_that_is_late_is_reported_until_it_ends)
{
	struct core_worker *worker = new_worker();
	uint64_t now_ns = time_local_ns();
	json_t *late;

	cr_assert_eq(core_worker_start(worker, strdup("a job")), 0);
	core_check_late(&world.core, now_ns);
	cr_expect_eq(count_of("worker_late"), 0, "it began after that time was read");
	core_check_late(&world.core, now_ns + SECOND_NS / 2);
	cr_expect_eq(count_of("worker_late"), 0);
	core_check_late(&world.core, now_ns + 3 * SECOND_NS);
	core_check_late(&world.core, now_ns + 4 * SECOND_NS);
	cr_expect_eq(count_of("worker_late"), 1, "once");
	late = core_late(&world.core);
	cr_assert_eq(json_array_size(late), 1);
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(late, 0), "name")),
			 "test");
	json_decref(late);
	cr_assert_eq(write(gate[1], "x", 1), 1);
	cr_expect(core_worker_wait(worker, 10000));
	cr_expect_eq(ended, 1);
	core_check_late(&world.core, now_ns + 5 * SECOND_NS);
	cr_expect_eq(count_of("worker_recovered"), 1);
	late = core_late(&world.core);
	cr_expect_eq(json_array_size(late), 0);
	json_decref(late);
	core_worker_free(worker);
}

/* The CPU's other threads take most of it: the job needs 0.4 s of its own. */
static bool others_end;

static void *take_cpu(void *unused)
{
	while (!__atomic_load_n(&others_end, __ATOMIC_RELAXED))
		;
	return unused;
}

static void compute(void *job)
{
	struct timespec used;

	(void)job;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	while (!used.tv_sec && used.tv_nsec < 400000000);
	__atomic_fetch_add(&worked, 1, __ATOMIC_SEQ_CST);
}

static const struct core_work computing = {"computing", compute, done, job_free};

Test(worker, one_without_a_cpu_is_not_late)
{
	uint64_t begun_ns = time_local_ns(), took_ns;
	struct core_worker *worker;
	pthread_t others[4];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	cr_assert_geq(core_worker_new(&world.core, &worker, &computing, &world), 0);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&others[i], NULL, take_cpu, NULL), 0);
	cr_assert_eq(core_worker_start(worker, strdup("a job")), 0);
	while (!__atomic_load_n(&worked, __ATOMIC_SEQ_CST)) {
		sd_event_run(world.event, 50000);
		core_check_late(&world.core, time_local_ns());
	}
	took_ns = time_local_ns() - begun_ns;
	__atomic_store_n(&others_end, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(others[i], NULL);
	cr_expect_gt(took_ns, 5 * SECOND_NS / 4, "it was held up: %lu ns", took_ns);
	cr_expect_eq(count_of("worker_late"), 0);
	core_worker_free(worker);
}

Test(worker, one_that_hangs_is_left_behind)
{
	struct core_worker *worker = new_worker();

	cr_assert_eq(core_worker_start(worker, strdup("a job")), 0);
	core_worker_free(worker);
	cr_expect_eq(ended, 0, "there is nothing to call any more");
	cr_assert_eq(write(gate[1], "x", 1), 1);
	for (int i = 0; i < 1000 && !__atomic_load_n(&freed, __ATOMIC_SEQ_CST); i++)
		usleep(10000);
	cr_expect_eq(__atomic_load_n(&freed, __ATOMIC_SEQ_CST), 1, "the thread freed the job");
}

/* --- the log --- */

static size_t drain(int fd, char *out, size_t bytes)
{
	size_t got = 0;
	ssize_t one;

	while (got + 1 < bytes && (one = recv(fd, out + got, bytes - 1 - got, MSG_DONTWAIT)) > 0)
		got += one;
	out[got] = '\0';
	return got;
}

Test(log, does_not_wait_for_a_reader)
{
	static char text[1 << 20];
	int ends[2], before = dup(STDERR_FILENO);

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_geq(dup2(ends[0], STDERR_FILENO), 0);
	for (int i = 0; i < 5000; i++)
		log_info("line %d of very many, which nothing reads", i);
	cr_expect_gt(drain(ends[1], text, sizeof(text)), 0);
	log_info("the next one");
	drain(ends[1], text, sizeof(text));
	dup2(before, STDERR_FILENO);
	cr_expect(strstr(text, " lines before this one were lost"), "%s", text);
	cr_expect(strstr(text, ": the next one\n"), "%s", text);
}
