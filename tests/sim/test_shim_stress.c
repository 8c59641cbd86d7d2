// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process with libescapement-verbs in it, as jobs are: threads that start and end, children of
 * fork() that go on to post, libraries that are opened and closed, signals, queue pairs and devices
 * that come and go, posts that fail. Each run of random steps is made with ESCAPEMENT_VERBS=off and
 * with the library counting: what the program sees is the same, and the counts are what it posted.
 *
 *	test_shim_stress [SEED [RUNS]]
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/personality.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAP_PLAN 5
#include "ibverbs/internal.h"
#include "tests/lib/nullverbs.h"
#include "tests/lib/rng.h"
#include "tests/lib/sim/seeds.h"
#include "tests/lib/tap.h"

#define THREADS 3
#define STEPS 150
#define QPS 4
#define LIST 5
#define CHILD_POSTS 20
#define TICK_US 500

/* What a run's process says of it. */
struct outcome {
	uint64_t seen; /* hash of all results and completions, in order for each thread */
	uint64_t posted, counted;
	uint32_t wrong;	   /* queue pairs whose counts are not what was posted */
	uint32_t children; /* that did not end as they should */
	uint32_t left;	   /* file descriptors more than before the device was opened again */
};

static struct null_device null;
static struct ibv_context *context;
static struct ibv_pd pd;
static atomic_uint ticks;
static bool is_off;

struct qp {
	struct null_qp *null; /* NULL: none */
	uint64_t messages, bytes, signaled;
};

struct worker {
	pthread_t thread;
	struct rng rng;
	struct ibv_cq *cq;
	struct qp qps[QPS];
	unsigned int depth, steps;
	struct outcome is;
};

static void see(struct worker *worker, uint64_t what)
{
	worker->is.seen = (worker->is.seen ^ what) * 0x100000001b3ull;
}

/* --- queue pairs --- */

static void make_cq(struct worker *worker)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN};

	worker->cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
}

static void make_qp(struct worker *worker, struct qp *qp)
{
	struct ibv_qp_init_attr attr = {.send_cq = worker->cq,
					.recv_cq = worker->cq,
					.qp_type = IBV_QPT_RC,
					.sq_sig_all = rng_below(&worker->rng, 2)};

	*qp = (struct qp){.null = (struct null_qp *)ibv_create_qp(&pd, &attr)};
}

/* Compares its counts with what was posted. */
static void destroy_qp(struct worker *worker, struct qp *qp)
{
	struct ibv_qp *base = &qp->null->ex.qp_base;
	const struct shim_qp *found = shim_find(context, base->qp_num);
	struct ibv_wc wc;

	if (found) {
		worker->is.counted += segment_messages(found->slot);
		worker->is.wrong += segment_messages(found->slot) != qp->messages ||
				    segment_bytes(found->slot) != qp->bytes ||
				    found->slot->signaled != qp->signaled;
	} else {
		worker->is.wrong += !is_off;
	}
	worker->is.posted += qp->messages;
	while (ibv_poll_cq(worker->cq, 1, &wc) > 0) /* of one that is gone it would be unknown */
		see(worker, wc.opcode);
	see(worker, (uint64_t)ibv_destroy_qp(base));
	qp->null = NULL;
}

/* --- steps --- */

static void post_list(struct worker *worker, struct qp *qp)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	int count = 1 + (int)rng_below(&worker->rng, LIST);
	struct ibv_send_wr list[LIST], *bad = NULL;
	struct ibv_sge sges[LIST];

	qp->null->fails_after =
		rng_below(&worker->rng, 4) ? -1 : (int)rng_below(&worker->rng, (uint64_t)count);
	for (int i = 0; i < count; i++) {
		bool is_posted = qp->null->fails_after < 0 || i < qp->null->fails_after;

		sges[i] = (struct ibv_sge){.length = (uint32_t)rng_below(&worker->rng, 100000)};
		list[i] = (struct ibv_send_wr){
			.next = i + 1 < count ? &list[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
			.opcode = opcodes[rng_below(&worker->rng, 5)],
			.send_flags = rng_below(&worker->rng, 2) ? IBV_SEND_SIGNALED : 0};
		if (!is_posted)
			continue;
		qp->messages++;
		qp->bytes += sges[i].length;
		qp->signaled += qp->null->signals_all || list[i].send_flags & IBV_SEND_SIGNALED;
	}
	see(worker, (uint64_t)ibv_post_send(&qp->null->ex.qp_base, list, &bad));
	see(worker, bad ? (uint64_t)(bad - list) : LIST);
	qp->null->fails_after = -1;
}

static void post_batch(struct worker *worker, struct qp *qp)
{
	unsigned int count = 1 + (unsigned int)rng_below(&worker->rng, SHIM_BATCH - 1);
	bool aborts = !rng_below(&worker->rng, 4);
	uint64_t bytes = 0, signaled = 0;
	struct ibv_qp_ex *ex = &qp->null->ex;

	ibv_wr_start(ex);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t length = (uint32_t)rng_below(&worker->rng, 5000);

		ex->wr_flags = rng_below(&worker->rng, 2) ? IBV_SEND_SIGNALED : 0;
		signaled += qp->null->signals_all || ex->wr_flags;
		if (i % 2)
			ibv_wr_rdma_write(ex, 1, 2);
		else
			ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 1, 2, length);
		bytes += length;
	}
	if (aborts) {
		ibv_wr_abort(ex);
		return;
	}
	see(worker, (uint64_t)ibv_wr_complete(ex));
	qp->messages += count;
	qp->bytes += bytes;
	qp->signaled += signaled;
}

static void poll_some(struct worker *worker)
{
	struct ibv_wc wcs[8];
	int count = ibv_poll_cq(worker->cq, 1 + (int)rng_below(&worker->rng, 8), wcs);

	see(worker, (uint64_t)count);
	for (int i = 0; i < count; i++)
		see(worker, wcs[i].opcode);
}

/* A child posts and polls what it inherited; its parent's counts stay as they are. */
static void fork_child(struct worker *worker, struct qp *qp)
{
	struct ibv_sge sge = {.length = 1};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int status = -1;
	pid_t child = fork();

	if (!child) {
		int good = 0;

		for (int i = 0; i < CHILD_POSTS; i++)
			good += !ibv_post_send(&qp->null->ex.qp_base, &wr, &bad) &&
				ibv_poll_cq(worker->cq, 1, &wc) == 1;
		_exit(good == CHILD_POSTS ? 0 : 1);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	worker->is.children += status != 0;
}

static void open_library(void)
{
	void *library = dlopen("build/libescapement-verbs.so", RTLD_NOW | RTLD_LOCAL);

	if (library)
		dlclose(library);
}

static void *work(void *of);

static void start_worker(struct worker *worker, uint64_t seed, unsigned int depth)
{
	*worker = (struct worker){.depth = depth, .steps = depth ? STEPS / 5 : STEPS};
	rng_seed(&worker->rng, seed);
	if (pthread_create(&worker->thread, NULL, work, worker))
		abort();
}

static void end_worker(struct worker *worker, struct outcome *sum)
{
	pthread_join(worker->thread, NULL);
	sum->seen += worker->is.seen;
	sum->posted += worker->is.posted;
	sum->counted += worker->is.counted;
	sum->wrong += worker->is.wrong;
	sum->children += worker->is.children;
}

static void step(struct worker *worker)
{
	struct qp *qp = &worker->qps[rng_below(&worker->rng, QPS)];
	struct worker other;

	if (!qp->null) {
		make_qp(worker, qp);
		return;
	}
	switch (rng_below(&worker->rng, 40)) {
	case 0:
		destroy_qp(worker, qp);
		return;
	case 1:
		fork_child(worker, qp);
		return;
	case 2:
		open_library();
		return;
	case 3:
		ibv_modify_qp(&qp->null->ex.qp_base, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS},
			      IBV_QP_STATE);
		return;
	case 4:
		if (worker->depth)
			return;
		start_worker(&other, rng_next(&worker->rng), 1);
		end_worker(&other, &worker->is);
		return;
	default:
		if (rng_below(&worker->rng, 2))
			post_list(worker, qp);
		else
			post_batch(worker, qp);
		poll_some(worker);
	}
}

static void *work(void *of)
{
	struct worker *worker = of;

	make_cq(worker);
	while (worker->steps--)
		step(worker);
	for (unsigned int i = 0; i < QPS; i++)
		if (worker->qps[i].null)
			destroy_qp(worker, &worker->qps[i]);
	ibv_destroy_cq(worker->cq);
	return NULL;
}

/* --- a run, in a process of its own --- */

static void count_tick(int number)
{
	(void)number;
	atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
}

static unsigned int open_files(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void use_device(uint64_t seed, struct outcome *sum)
{
	struct worker workers[THREADS];

	context = ibv_open_device(&null.device);
	pd.context = context;
	for (unsigned int i = 0; i < THREADS; i++)
		start_worker(&workers[i], seed + i, 0);
	for (unsigned int i = 0; i < THREADS; i++)
		end_worker(&workers[i], sum);
	ibv_close_device(context);
}

static void run_in_child(uint64_t seed, bool off, int out)
{
	struct itimerval timer = {{0, TICK_US}, {0, TICK_US}};
	struct outcome sum = {};
	unsigned int files;

	is_off = off;
	setenv("ESCAPEMENT_VERBS", off ? "off" : "on", 1);
	signal(SIGALRM, count_tick);
	null_begin(&null);
	setitimer(ITIMER_REAL, &timer, NULL);
	use_device(seed, &sum);
	files = open_files();
	use_device(seed + THREADS, &sum);
	setitimer(ITIMER_REAL, &(struct itimerval){}, NULL);
	sum.left = open_files() - files;
	exit(write(out, &sum, sizeof(sum)) == sizeof(sum) ? 0 : 3);
}

/* False: the process did not end as it should. */
static bool run(uint64_t seed, bool off, struct outcome *outcome)
{
	int ends[2], status = -1;
	bool good;
	pid_t child;

	*outcome = (struct outcome){};
	if (pipe(ends))
		abort();
	fflush(stdout);
	child = fork();
	if (!child) {
		close(ends[0]);
		run_in_child(seed, off, ends[1]);
	}
	close(ends[1]);
	good = read(ends[0], outcome, sizeof(*outcome)) == sizeof(*outcome);
	close(ends[0]);
	waitpid(child, &status, 0);
	if (!good || status)
		printf("# seed %llu, %s: status %#x\n", (unsigned long long)seed,
		       off ? "off" : "on", (unsigned int)status);
	return good && !status;
}

/* ThreadSanitizer's memory is where newer kernels put libraries at random addresses. */
static void start_again_at_fixed_addresses(char **argv)
{
#ifdef __SANITIZE_THREAD__
	int now = personality(0xffffffff);

	if (now >= 0 && !(now & ADDR_NO_RANDOMIZE) && personality(now | ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
#else
	(void)argv;
#endif
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : seed_of_date();
	unsigned int runs = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 100;
	unsigned int ended = 0, same = 0, exact = 0, children = 0, clean = 0;
	char folder[] = "/tmp/esc-stress-XXXXXX", command[64];
	uint64_t messages = 0;

	start_again_at_fixed_addresses(argv);
	if (!mkdtemp(folder))
		return tap_bail("no folder in /tmp");
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	printf("# seed %llu, %u runs\n", (unsigned long long)seed, runs);
	for (unsigned int i = 0; i < runs; i++) {
		struct outcome off, on;
		uint64_t one = seed + 1000003ull * i;
		bool good = run(one, true, &off);

		good = run(one, false, &on) && good;
		ended += good;
		same += good && on.seen == off.seen && on.posted == off.posted;
		exact += good && !on.wrong && on.counted == on.posted && !off.counted;
		children += good && !on.children && !off.children;
		clean += good && !on.left && !off.left;
		messages += on.counted;
	}
	tap_ok(ended == runs, "%u of %u runs ended, with and without the library", ended, runs);
	tap_ok(same == runs, "%u saw the same results and completions", same);
	tap_ok(exact == runs && messages > 0, "%u counted what was posted, %llu messages", exact,
	       (unsigned long long)messages);
	tap_ok(children == runs, "%u: children of fork() post and poll", children);
	tap_ok(clean == runs, "%u: no file descriptor is left", clean);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command))
		printf("# %s is left\n", folder);
	return tap_end();
}
