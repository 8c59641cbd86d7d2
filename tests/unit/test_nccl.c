// SPDX-License-Identifier: BSD-2-Clause
/* The profiler plugin of NCCL under a host of each version, and what the daemon makes of it. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "ibverbs/internal.h"
#include "loader/libescapement-nccl/track.h"
#include "nccl/internal.h"
#include "tests/lib/forbid.h"
#include "tests/lib/ncclring.h"
#include "tests/lib/rng.h"

extern const struct abi_profiler_v1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
extern const struct abi_profiler_v4 ncclProfiler_v4;
extern const struct abi_profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;

static struct host hosts[HOST_VERSIONS + 1];
static char folder[64];
static uint64_t now_ns = 1000000000;
static struct config config;
static struct core core = {.config = &config};
static struct ibverbs verbs;
static struct nccl nccl;
static struct process process;
static FILE *file;
static pid_t own_pid;

static uint64_t (*real_now_ns)(void);

static uint64_t test_now_ns(void)
{
	return now_ns;
}

static void begin(void)
{
	const void *tables[] = {NULL,
				&ncclProfiler_v1,
				&ncclProfiler_v2,
				&ncclProfiler_v3,
				&ncclProfiler_v4,
				&ncclProfiler_v5,
				&ncclProfiler_v6,
				&ncclProfiler_v7};

	for (unsigned int v = 1; v <= HOST_VERSIONS; v++)
		hosts[v] = (struct host){v, tables[v]};
	strcpy(folder, "/tmp/esc-nccl-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	setenv("RANK", "5", 1);
	real_now_ns = track_now_ns;
	track_now_ns = test_now_ns;
	config.host = (char *)"h1";
	verbs.processes.list[0] = &process;
	verbs.processes.count = 1;
	nccl = (struct nccl){.core = &core, .verbs = &verbs, .reader = {.now_ns = test_now_ns}};
	cr_assert_eq(events_new(&core.events, 4096, NULL), 0);
}

static void end(void)
{
	char command[128];

	if (process.own)
		nccl_free(&nccl.reader, process.own);
	cr_expect_eq(nccl.reader.rank_count, 0);
	events_free(core.events);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(nccl, .init = begin, .fini = end);

/* Its lock is this process's own, so that ibverbs/ would take it for one that has ended. */
static void open_file(void)
{
	char path[512] = "";
	DIR *open = opendir(folder);
	const struct dirent *entry;

	cr_assert_not_null(open);
	while ((entry = readdir(open)))
		if (entry->d_name[0] != '.')
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	closedir(open);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
}

static void poll(void)
{
	if (!file)
		open_file();
	now_ns += 1000000000;
	cr_assert(nccl_read(&nccl.reader, fileno(file), &process.own, process.header.comm,
			    process.header.rank, process.header.job_id));
	nccl_poll(&nccl, now_ns);
}

static bool is_any(const struct job *job, const char *id)
{
	(void)job;
	(void)id;
	return true;
}

static json_t *communicators(void)
{
	return nccl_job_communicators(&nccl, is_any, "");
}

static size_t events_of(const char *kind)
{
	json_t *all = events_since(core.events, 0), *event;
	size_t i, count = 0;

	json_array_foreach (all, i, event)
		count += !strcmp(json_text(event, "kind"), kind);
	json_decref(all);
	return count;
}

/* --- each version --- */

static struct ring_rank ranks[RING_RANKS];
static struct ring ring;
static struct ring_event list[RING_EVENTS];

static void begin_ring(const struct host *host, uint64_t hash)
{
	for (int r = 0; r < RING_RANKS; r++) {
		int mask = 0;

		ranks[r] = (struct ring_rank){.hash = hash};
		cr_assert_eq(
			host_init(host, &ranks[r].context, &mask, "ring", hash, 4, RING_RANKS, r),
			0);
		cr_assert_not_null(ranks[r].context);
		cr_expect_eq(mask, 2 | 4 | 8 | 16 | 128);
	}
}

static void end_ring(const struct host *host)
{
	for (int r = 0; r < RING_RANKS; r++)
		cr_expect_eq(host_finalize(host, ranks[r].context), 0);
}

/* GPUs at 20 us a step, wires at 40 us, each up to a fifth more. */
static void make_ring(struct rng *rng)
{
	for (int r = 0; r < RING_RANKS; r++) {
		ring.late[r] = rng_below(rng, 20000);
		ring.gpu[r] = 20000 + rng_below(rng, 4000);
		ring.wire[r] = 40000 + rng_below(rng, 8000);
	}
}

static void play_ring(const struct host *host, uint64_t sequence)
{
	uint64_t begin_ns = now_ns;
	size_t count;

	ring_run(&ring);
	count = ring_events(&ring, list);
	for (size_t i = 0; i < count; i++) {
		now_ns = begin_ns + (uint64_t)list[i].ns;
		ring_play(host, &ranks[list[i].rank], sequence, &list[i]);
	}
}

Test(nccl, a_ring_is_read_as_it_was_replayed_in_each_version)
{
	for (unsigned int v = 1; v <= HOST_VERSIONS; v++) {
		struct rng rng;
		json_t *made, *one, *part, *hop;
		int64_t wire_ns;
		char hash[24];
		size_t i;

		rng_seed(&rng, v);
		begin_ring(&hosts[v], v);
		make_ring(&rng);
		play_ring(&hosts[v], v);
		poll();
		made = communicators();
		cr_assert_eq(json_array_size(made), v);
		one = json_array_get(made, v - 1);
		snprintf(hash, sizeof(hash), "%016x", v);
		cr_expect_str_eq(json_text(one, "communicator"), hash);
		cr_expect_str_eq(json_text(one, "name"), "ring");
		cr_expect_eq(json_count(one, "size"), v <= 3 ? 0 : RING_RANKS, "version %u", v);
		json_array_foreach (json_object_get(one, "recent"), i, part) {
			int rank = (int)json_count(part, "rank");

			cr_expect_str_eq(json_text(part, "func"), "AllReduce");
			cr_expect_str_eq(json_text(part, "algo"), "RING");
			cr_expect_str_eq(json_text(part, "proto"), "SIMPLE");
			cr_expect_eq(json_count(part, "bytes"),
				     (uint64_t)RING_STEPS * RING_STEP_BYTES, "version %u", v);
			cr_assert_eq(json_array_size(json_object_get(part, "hops")), 2);
			hop = json_array_get(json_object_get(part, "hops"), 0);
			cr_expect_eq(json_count(hop, "peer_rank"),
				     (uint64_t)(rank + 1) % RING_RANKS);
			cr_expect_eq(json_count(hop, "steps"), RING_STEPS);
			cr_expect_eq(json_count(hop, "bytes"),
				     (uint64_t)RING_STEPS * RING_STEP_BYTES, "version %u: %lld", v,
				     (long long)json_count(hop, "bytes"));
			/* What is behind it in the network is in it, too. */
			wire_ns = (int64_t)(ring.wire[rank] * RING_STEPS);
			cr_expect(llabs((int64_t)json_count(hop, "network_ns") - wire_ns) <
					  wire_ns / 50,
				  "version %u, rank %d: %llu of %lld", v, rank,
				  (unsigned long long)json_count(hop, "network_ns"),
				  (long long)wire_ns);
			cr_expect_eq(json_text(part, "unfinished")[0], '\0');
		}
		json_decref(made);
		end_ring(&hosts[v]);
		cr_expect_eq(track_segment()->header.unknown, 0);
		cr_expect_eq(track_segment()->header.late, 0);
		cr_expect_eq(track_segment()->header.dropped, 0);
	}
}

/* --- the slow link, the slow rank, the late rank: 20 of 20 --- */

enum fault { FAULT_NONE, FAULT_LINK, FAULT_GPU, FAULT_LATE, FAULTS };

static void add_fault(struct rng *rng, enum fault fault, int rank)
{
	double times = 3 + rng_below(rng, 6);

	make_ring(rng);
	if (fault == FAULT_LINK)
		ring.wire[rank] *= times;
	if (fault == FAULT_GPU)
		ring.gpu[rank] *= 2 * times;
	if (fault == FAULT_LATE)
		ring.late[rank] += times * 500000;
}

static void check_verdict(enum fault fault, int rank, const char *draw)
{
	static const char *const causes[] = {"", "slow_link", "slow_rank", "slow_rank"};
	json_t *made = communicators(), *verdict;
	json_t *one = json_array_get(made, json_array_size(made) - 1);

	verdict = json_object_get(one, "verdict");
	cr_expect_str_eq(json_text(verdict, "cause"), causes[fault], "%s: %s of %llu", draw,
			 json_text(verdict, "cause"),
			 (unsigned long long)json_count(verdict, "rank"));
	if (fault)
		cr_expect_eq(json_count(verdict, "rank"), (uint64_t)rank, "%s: %s of %llu", draw,
			     json_text(verdict, "cause"),
			     (unsigned long long)json_count(verdict, "rank"));
	if (fault == FAULT_LINK)
		cr_expect_eq(json_count(verdict, "peer_rank"), (uint64_t)(rank + 1) % RING_RANKS);
	json_decref(made);
}

Test(nccl, a_slow_link_and_a_slow_rank_are_found_within_three_collectives)
{
	struct rng rng;
	size_t links = 0, slow = 0;

	rng_seed(&rng, 20261127);
	for (int draw = 0; draw < 20 * FAULTS; draw++) {
		enum fault fault = draw % FAULTS;
		int rank = (int)rng_below(&rng, RING_RANKS);
		unsigned int v = 1 + rng_below(&rng, HOST_VERSIONS);
		char name[64];

		snprintf(name, sizeof(name), "draw %d, version %u, fault %d at %d", draw, v, fault,
			 rank);
		begin_ring(&hosts[v], 100 + (uint64_t)draw);
		for (uint64_t i = 0; i < 3; i++) {
			add_fault(&rng, fault, rank);
			play_ring(&hosts[v], 3 * (uint64_t)draw + i);
		}
		poll();
		check_verdict(fault, rank, name);
		links += fault == FAULT_LINK;
		slow += fault == FAULT_GPU || fault == FAULT_LATE;
		cr_expect_eq(events_of("nccl_slow_link"), links, "%s", name);
		cr_expect_eq(events_of("nccl_slow_rank"), slow, "%s", name);
		end_ring(&hosts[v]);
		poll();
		cr_expect_eq(events_of("nccl_slow_link_over"), links, "%s", name);
		cr_expect_eq(events_of("nccl_slow_rank_over"), slow, "%s", name);
	}
}

/* More than are kept come between two readings, the last one just now. */
Test(nccl, fast_collectives_are_judged)
{
	struct rng rng;
	json_t *made;

	rng_seed(&rng, 7);
	begin_ring(&hosts[7], 1);
	for (uint64_t i = 0; i < 60; i++) {
		add_fault(&rng, FAULT_LINK, 4);
		play_ring(&hosts[7], i);
		if (i % 20 == 19) {
			now_ns -= 1000000000;
			poll();
		}
	}
	made = communicators();
	/* Of those that are kept of each 20; and of these, those that all ranks recorded. */
	cr_expect(json_count(json_array_get(made, 0), "judged") >= 20, "%llu",
		  (unsigned long long)json_count(json_array_get(made, 0), "judged"));
	json_decref(made);
	check_verdict(FAULT_LINK, 4, "fast");
}

/* --- sends and receives, queue pairs --- */

Test(nccl, messages_and_queue_pairs_are_counted)
{
	for (unsigned int v = 1; v <= HOST_VERSIONS; v++) {
		const struct host *host = &hosts[v];
		void *context, *message, *op, *step, *nets[2];
		json_t *made, *one, *qp;
		int mask = 0;

		host_init(host, &context, &mask, "pair", v, 2, 2, 1);
		message = host_p2p(host, context, v, 1, 0, 1000);
		host_stop(host, message);
		op = host_op(host, context, message, getpid(), 1, 3, 0, 1, 1);
		step = host_step(host, context, op, 1, 0);
		host_record(host, step, HOST_SEND_GPU, 0);
		host_record(host, step, HOST_SEND_WAIT, 2000);
		nets[0] = v >= 3 ? host_net(host, context, step, 1, 77, 1500) : NULL;
		nets[1] = v >= 3 ? host_net(host, context, step, 1, 78, 500) : NULL;
		now_ns += 5000;
		host_stop(host, nets[1]);
		now_ns += 2000;
		host_stop(host, nets[0]);
		host_stop(host, step);
		host_stop(host, op);
		host_finalize(host, context);
		poll();
		made = communicators();
		one = json_array_get(made, json_array_size(made) - 1);
		cr_expect_eq(
			json_count(json_array_get(json_object_get(one, "ranks"), 0), "messages"),
			1);
		cr_expect_eq(json_count(json_array_get(json_object_get(one, "ranks"), 0), "bytes"),
			     2000, "version %u", v);
		cr_expect_eq(json_array_size(json_object_get(one, "qps")), v >= 3 ? 2 : 0);
		qp = json_array_get(json_object_get(one, "qps"), 0);
		if (v >= 3) {
			cr_expect_eq(json_count(qp, "qpn"), 78, "in the order of their ends");
			cr_expect_eq(json_count(qp, "mean_ns"), 5000);
			cr_expect_eq(json_count(qp, "bytes"), 500);
			cr_expect_eq(json_count(qp, "peer_rank"), 0);
		}
		json_decref(made);
	}
}

/* --- what no host should do --- */

static const struct nccl_header *header(void)
{
	return &track_segment()->header;
}

Test(nccl, wrong_order_missing_stops_and_foreign_handles_are_counted)
{
	const struct host *host = &hosts[5];
	void *context, *coll, *op, *step, *other;
	struct host_event event;
	int mask = 0;

	host_init(host, &context, &mask, NULL, 1, 1, 2, 0);
	/* Types and states that are not known. */
	event = host_event(host, 1ull << 40, NULL, 0);
	cr_expect_null(host_start(host, context, &event));
	cr_expect_eq(header()->unknown, 1);
	event = host_event(host, HOST_GROUP, NULL, 0);
	cr_expect_null(host_start(host, context, &event));
	cr_expect_eq(header()->unknown, 1, "a parent of what is asked for");
	coll = host_coll(host, context, 1, "", 0, 1, 1);
	op = host_op(host, context, coll, getpid(), 0, 0, 1, 1, 1);
	step = host_step(host, context, op, 0, 0);
	host_record(host, step, 4711, 0);
	host_record(host, step, -1, 0);
	host_record(host, step, HOST_RECV_WAIT, 0);
	host_record(host, op, 99, 0);
	cr_expect_eq(header()->unknown, 5);
	/* A network event of another plugin. */
	event = host_event(host, HOST_NET, step, 0);
	HOST_PUT(&event, 24, int64_t, 2 << 16 | 1);
	cr_expect_null(host_start(host, context, &event));
	cr_expect_eq(header()->unknown, 6);

	/* Another process's parent, none, a handle of nothing. */
	cr_expect_null(host_op(host, context, coll, getpid() + 1, 0, 0, 1, 1, 1));
	cr_expect_eq(header()->foreign, 1);
	cr_expect_null(host_op(host, context, NULL, getpid(), 0, 0, 1, 1, 1));
	cr_expect_null(host_op(host, context, (void *)0xdeadbeef, getpid(), 0, 0, 1, 1, 1));
	cr_expect_eq(header()->late, 1);
	cr_expect_null(host_coll(host, NULL, 1, "", 0, 2, 1));
	cr_expect_null(host_coll(host, (void *)1234, 1, "", 0, 2, 1));
	cr_expect_null(host_step(host, context, NULL, 0, 0));
	cr_expect_null(host_step(host, context, coll, 0, 0));

	/* The operation ends before its step; states and stops after the end; twice. */
	host_record(host, step, HOST_SEND_WAIT, 10);
	host_stop(host, op);
	cr_expect_eq(track_segment()->records[1].flags, NCCL_UNFINISHED | NCCL_HAS_BYTES);
	host_record(host, step, HOST_SEND_WAIT, 10);
	host_stop(host, step);
	host_stop(host, op);
	cr_expect_eq(header()->late, 4);
	cr_expect_eq(header()->records, 2);
	host_stop(host, NULL);
	host_stop(host, (void *)-1);
	host_record(host, (void *)-1, 0, 0);

	/* A step and an operation in their places have other handles. */
	op = host_op(host, context, coll, getpid(), 0, 0, 1, 1, 1);
	step = host_step(host, context, op, 0, 0);
	host_stop(host, step);
	other = host_step(host, context, op, 0, 1);
	cr_expect_neq(step, other);
	host_stop(host, step);
	cr_expect_eq(header()->late, 5);
	/* More steps than there is room for. */
	for (int i = 0; i < 40; i++)
		host_step(host, context, op, 0, i);
	cr_expect_eq(header()->dropped, 25);
	host_finalize(host, context);
	host_finalize(host, context);
	cr_expect_not_null(host_coll(host, context, 1, "", 0, 2, 1), "of the slot, until it is "
								     "another one's");
}

Test(nccl, operations_without_a_stop_make_room)
{
	const struct host *host = &hosts[6];
	uint64_t dropped;
	void *context, *coll;
	int mask = 0;

	host_init(host, &context, &mask, NULL, 1, 1, 2, 0);
	coll = host_coll(host, context, 1, "", 0, 1, 1);
	for (int i = 0; i < 3000; i++)
		host_op(host, context, coll, getpid(), 0, 0, 1, 1, 1);
	dropped = header()->dropped;
	cr_expect(dropped >= 3000 - 2048 && dropped < 3000, "%llu", (unsigned long long)dropped);
	now_ns += 31000000000;
	for (int i = 0; i < 100; i++)
		cr_expect_not_null(host_op(host, context, coll, getpid(), 0, 0, 1, 1, 1));
	cr_expect_eq(header()->dropped, dropped);
	cr_expect_eq(header()->records, 1 + 100, "the old ones are recorded as unfinished");
}

Test(nccl, more_communicators_than_slots)
{
	const struct host *host = &hosts[7];
	void *contexts[NCCL_COMMS], *more;
	int mask = 0;

	for (size_t i = 0; i < NCCL_COMMS; i++) {
		host_init(host, &contexts[i], &mask, NULL, i, 1, 2, 0);
		cr_assert_not_null(contexts[i]);
	}
	host_init(host, &more, &mask, NULL, 99, 1, 2, 0);
	cr_expect_null(more);
	cr_expect_neq(mask, 0, "the others are still recorded");
	cr_expect_eq(header()->untracked_comms, 1);
	host_finalize(host, contexts[5]);
	host_init(host, &more, &mask, NULL, 99, 1, 2, 0);
	cr_expect_not_null(more);
	cr_expect_null(host_coll(host, contexts[5], 99, "", 0, 1, 1), "it has ended");
	cr_expect_not_null(host_coll(host, more, 99, "", 0, 1, 1));
}

Test(nccl, without_a_folder_or_with_off_nothing_is_asked_for)
{
	void *context = (void *)1;
	int mask = 4711;

	setenv("ESCAPEMENT_VERBS", "off", 1);
	cr_expect_eq(host_init(&hosts[5], &context, &mask, NULL, 1, 1, 2, 0), 0);
	cr_expect_null(context);
	cr_expect_eq(mask, 0);
	cr_expect_null(track_segment());
	cr_expect_null(host_coll(&hosts[5], context, 1, "", 0, 1, 1));
	host_record(&hosts[5], (void *)(uintptr_t)(3ull << 61 | 1), HOST_SEND_GPU, 0);
	host_stop(&hosts[5], (void *)(uintptr_t)(4ull << 61 | 1));
}

Test(nccl, no_room_in_the_folder)
{
	void *context = (void *)1;
	int mask = 4711;

	setenv("ESCAPEMENT_VERBS_FOLDER", "/nonexistent", 1);
	cr_expect_eq(host_init(&hosts[4], &context, &mask, NULL, 1, 1, 2, 0), 0);
	cr_expect_null(context);
	cr_expect_eq(mask, 0);
	/* The daemon was started since: the next communicator is recorded. */
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	host_init(&hosts[4], &context, &mask, NULL, 1, 1, 2, 0);
	cr_expect_not_null(context);
	cr_expect_neq(mask, 0);
}

Test(nccl, a_child_of_fork_records_nothing)
{
	const struct host *host = &hosts[6];
	void *context, *coll, *op;
	uint64_t records;
	int mask = 0, status;
	pid_t child;

	host_init(host, &context, &mask, NULL, 1, 1, 2, 0);
	coll = host_coll(host, context, 1, "", 0, 1, 1);
	op = host_op(host, context, coll, getpid(), 0, 0, 1, 1, 1);
	records = header()->records;
	child = fork();
	if (!child) {
		void *another = (void *)1;
		bool good = !host_coll(host, context, 1, "", 0, 2, 1) &&
			    !host_step(host, context, op, 0, 0);

		host_stop(host, op);
		host_init(host, &another, &mask, NULL, 2, 1, 2, 0);
		_exit(good && !another ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(header()->records, records);
	host_stop(host, op);
	cr_expect_eq(header()->records, records + 1);
}

static void record_without_calls(int out)
{
	const struct host *host = &hosts[7];
	void *context, *coll, *op, *step, *net;
	uint64_t records;
	int mask = 0;

	track_now_ns = real_now_ns;
	host_init(host, &context, &mask, NULL, 1, 1, 2, 0);
	if (!context || !forbid_calls())
		_exit(1);
	for (int i = 0; i < 1000; i++) {
		coll = host_coll(host, context, 1, "", 0, 0, 1);
		op = host_op(host, context, coll, own_pid, 0, 0, 1, 1, 1);
		step = host_step(host, context, op, 0, 0);
		host_record(host, step, HOST_SEND_GPU, 0);
		host_record(host, step, HOST_SEND_WAIT, 1);
		net = host_net(host, context, step, 0, 5, 1);
		host_stop(host, net);
		host_stop(host, step);
		host_stop(host, op);
	}
	records = header()->records;
	syscall(SYS_exit, write(out, &records, sizeof(records)) == sizeof(records) ? 0 : 2);
}

Test(nccl, no_system_call_for_an_event)
{
	uint64_t records = 0;
	int ends[2], status;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		own_pid = getpid();
		record_without_calls(ends[1]);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "%x", status);
	cr_assert_eq(read(ends[0], &records, sizeof(records)), sizeof(records));
	cr_expect_eq(records, 3000);
}

/* --- threads --- */

static void *context_of_all, *coll_of_all, *op_of_all;

static void *disturb(void *seed)
{
	const struct host *host = &hosts[7];
	struct rng rng;

	rng_seed(&rng, (uintptr_t)seed);
	for (int i = 0; i < 20000; i++) {
		void *op, *step;

		switch (rng_below(&rng, 6)) {
		case 0:
			host_coll(host, context_of_all, 1, "all", 0, (uint64_t)i, 100);
			break;
		case 1:
			step = host_step(host, context_of_all, op_of_all, 0, i);
			host_record(host, step, HOST_SEND_GPU, 0);
			host_stop(host, step);
			break;
		case 2:
			op = host_op(host, context_of_all, coll_of_all, getpid(), 0, 0, 1, 1, 1);
			step = host_step(host, context_of_all, op, 0, 0);
			host_record(host, step, HOST_SEND_WAIT, 1);
			if (rng_below(&rng, 2))
				host_stop(host, step);
			host_stop(host, op);
			break;
		case 3:
			host_stop(host, (void *)(uintptr_t)(rng_next(&rng)));
			break;
		case 4:
			host_record(host, (void *)(uintptr_t)(rng_next(&rng)),
				    (int)rng_below(&rng, 30), 5);
			break;
		default:
			host_op(host, context_of_all, (void *)(uintptr_t)(rng_next(&rng)), getpid(),
				0, 0, 1, 1, 1);
		}
	}
	return NULL;
}

Test(nccl, threads_may_do_all_of_it_at_once)
{
	pthread_t threads[4];
	int mask = 0;

	host_init(&hosts[7], &context_of_all, &mask, "all", 1, 1, 2, 0);
	coll_of_all = host_coll(&hosts[7], context_of_all, 1, "all", 0, 0, 1);
	op_of_all = host_op(&hosts[7], context_of_all, coll_of_all, getpid(), 0, 0, 1, 1, 1);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, disturb, (void *)(i + 1));
	for (int i = 0; i < 20; i++)
		poll();
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	poll();
	cr_expect_eq(((struct nccl_process *)process.own)->taken, header()->records);
}

/* --- a job with many collectives --- */

Test(nccl, many_collectives_are_sampled_and_counted_exactly)
{
	const struct host *host = &hosts[7];
	uint64_t recorded = 0;
	void *context;
	int mask = 0;

	host_init(host, &context, &mask, "many", 1, 1, 2, 0);
	/* 20,000 a second, with 33 records each; the daemon reads once a second. */
	for (uint64_t i = 0; i < 100000; i++) {
		void *coll = host_coll(host, context, 1, "many", 0, i, 256);

		for (int k = 0; coll && k < 32; k++)
			host_stop(host, host_op(host, context, coll, getpid(), 0, k, 1, 1, k & 1));
		recorded += coll != NULL;
		now_ns += 50000;
		if (i % 20000 == 19999) {
			now_ns -= 1000000000;
			poll();
		}
	}
	poll();
	cr_expect_eq(track_segment()->comms[0].collectives, 100000);
	cr_expect_eq(track_segment()->comms[0].bytes, 100000 * 1024);
	cr_expect(recorded > 300 && recorded < 2000, "%llu", (unsigned long long)recorded);
	cr_expect(((struct nccl_process *)process.own)->lost < recorded, "%llu",
		  (unsigned long long)((struct nccl_process *)process.own)->lost);
}

/* --- several hosts --- */

/* Each rank is on a host of its own, whose replies are joined. */
static json_t *split(json_t *communicator)
{
	json_t *hosts_of = json_array(), *one;
	char name[16];
	size_t i;

	for (int r = 0; r < RING_RANKS; r++) {
		json_t *of =
			json_pack("{s:O, s:[], s:[]}", "communicator",
				  json_object_get(communicator, "communicator"), "ranks", "recent");

		snprintf(name, sizeof(name), "h%d", r);
		json_array_foreach (json_object_get(communicator, "ranks"), i, one)
			if ((int)json_count(one, "rank") == r) {
				json_put_text(one, "host", name);
				json_array_append(json_object_get(of, "ranks"), one);
			}
		json_array_foreach (json_object_get(communicator, "recent"), i, one)
			if ((int)json_count(one, "rank") == r)
				json_array_append(json_object_get(of, "recent"), one);
		json_array_append_new(hosts_of, of);
	}
	return hosts_of;
}

static bool read_time(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	(void)context;
	*fabric_ns = (int64_t)local_ns + 12345;
	*bound_ns = 2000;
	return true;
}

/* A communicator of one host has no proxies: what they would do is not known, and not 0. */
Test(nccl, metrics_of_the_network_are_of_ranks_with_proxies)
{
	static struct nccl_rank two[2];
	static struct nccl_process of;
	static struct nccl daemon = {.place_count = 2};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	for (int i = 0; i < 2; i++) {
		two[i].is.rank = i;
		two[i].is.collectives = 7;
		daemon.places[i] = (struct nccl_place){&process, &of, &two[i]};
	}
	two[1].is.network_bytes = 4096;
	two[1].network_ns = 1000000000;
	nccl_write_metrics(&daemon, out);
	fclose(out);
	for (int i = 0; i < 2; i++) {
		const char *sent = strstr(text, "escapement_nccl_network_bytes_total{");
		char rank[16];

		snprintf(rank, sizeof(rank), "rank=\"%d\"} 7", i);
		cr_expect_not_null(strstr(text, rank), "collectives of rank %d: %s", i, text);
		snprintf(rank, sizeof(rank), "rank=\"%d\"} 4096", i);
		cr_expect_eq(sent && strstr(sent, rank), i == 1, "bytes of rank %d", i);
	}
	cr_expect_null(strstr(text, "rank=\"0\"} 0"), "nothing is 0 that is not known: %s", text);
	free(text);
}

Test(nccl, ranks_of_several_hosts_are_joined_and_judged)
{
	static const char *const causes[] = {"", "slow_link", "slow_rank", "slow_rank"};
	struct rng rng;

	rng_seed(&rng, 5);
	nccl.reader.read_time = read_time;
	for (int draw = 0; draw < 20; draw++) {
		enum fault fault = draw % FAULTS;
		int rank = (int)rng_below(&rng, RING_RANKS);
		json_t *made, *parts, *joined, *verdict;
		char host[16];

		begin_ring(&hosts[7], 1000 + (uint64_t)draw);
		for (uint64_t i = 0; i < 3; i++) {
			add_fault(&rng, fault, rank);
			play_ring(&hosts[7], i);
		}
		poll();
		made = communicators();
		parts = split(json_array_get(made, json_array_size(made) - 1));
		joined = nccl_merge(parts);
		cr_assert_eq(json_array_size(joined), 1);
		verdict = json_object_get(json_array_get(joined, 0), "verdict");
		snprintf(host, sizeof(host), "h%d", rank);
		cr_expect_str_eq(json_text(verdict, "cause"), causes[fault]);
		if (fault) {
			cr_expect_eq(json_count(verdict, "rank"), (uint64_t)rank);
			cr_expect_str_eq(json_text(verdict, "host"), host);
		}
		snprintf(host, sizeof(host), "h%d", (rank + 1) % RING_RANKS);
		if (fault == FAULT_LINK)
			cr_expect_str_eq(json_text(verdict, "peer"), host);
		json_decref(joined);
		json_decref(parts);
		json_decref(made);
		end_ring(&hosts[7]);
	}
}
