// SPDX-License-Identifier: BSD-2-Clause
/* libescapement-verbs before a provider without a device, and what the daemon reads of it. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "ibverbs/internal.h"
#include "qp/internal.h"
#include "tests/lib/forbid.h"
#include "tests/lib/nullverbs.h"
#include "tests/lib/rng.h"

static char folder[64];
static struct null_device null;
static struct ibv_context *context;
static struct ibv_pd pd;

static void begin(void)
{
	strcpy(folder, "/tmp/esc-shim-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	program_invocation_short_name = "test_shim"; /* Criterion's own is another one */
	null_begin(&null);
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(shim, .init = begin, .fini = end);

static void open_device(void)
{
	context = ibv_open_device(&null.device);
	pd.context = context;
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN};

	return ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
}

static struct null_qp *make_qp(struct ibv_cq *cq, bool signals_all)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = signals_all};

	return (struct null_qp *)ibv_create_qp(&pd, &attr);
}

static const struct segment_qp *counts_of(const struct null_qp *qp)
{
	const struct shim_qp *found = shim_find(context, qp->ex.qp_base.qp_num);

	return found ? found->slot : NULL;
}

static struct ibv_send_wr send_of(struct ibv_sge *sge, unsigned int flags)
{
	return (struct ibv_send_wr){
		.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};
}

static int send_one(struct null_qp *qp, uint32_t bytes, unsigned int flags)
{
	struct ibv_sge sge = {.length = bytes};
	struct ibv_send_wr wr = send_of(&sge, flags), *bad;

	return ibv_post_send(&qp->ex.qp_base, &wr, &bad);
}

/* --- what is counted --- */

struct model {
	uint64_t messages[SEGMENT_KINDS], bytes[SEGMENT_KINDS], signaled, completed;
	uint64_t receives, received, received_bytes, received_imm;
};

static const struct {
	enum ibv_wr_opcode opcode;
	enum segment_kind kind;
} opcodes[] = {{IBV_WR_SEND, SEGMENT_SEND},	   {IBV_WR_SEND_WITH_IMM, SEGMENT_SEND},
	       {IBV_WR_RDMA_WRITE, SEGMENT_WRITE}, {IBV_WR_RDMA_WRITE_WITH_IMM, SEGMENT_WRITE_IMM},
	       {IBV_WR_RDMA_READ, SEGMENT_READ},   {IBV_WR_ATOMIC_FETCH_AND_ADD, SEGMENT_ATOMIC}};

#define LIST 5

static void post_some(struct null_qp *qp, struct model *model, struct rng *rng)
{
	int count = 1 + rng_below(rng, LIST);
	struct ibv_send_wr list[LIST], *bad = NULL;
	struct ibv_sge sges[LIST][2];

	qp->fails_after = rng_below(rng, 3) ? -1 : (int)rng_below(rng, count);
	for (int i = 0; i < count; i++) {
		unsigned int which = rng_below(rng, sizeof(opcodes) / sizeof(opcodes[0]));
		bool is_posted = qp->fails_after < 0 || i < qp->fails_after;

		sges[i][0].length = rng_below(rng, 100000);
		sges[i][1].length = rng_below(rng, 3);
		list[i] = (struct ibv_send_wr){.next = i + 1 < count ? &list[i + 1] : NULL,
					       .sg_list = sges[i],
					       .num_sge = 2,
					       .opcode = opcodes[which].opcode,
					       .send_flags =
						       rng_below(rng, 2) ? IBV_SEND_SIGNALED : 0};
		if (!is_posted)
			continue;
		model->messages[opcodes[which].kind]++;
		model->bytes[opcodes[which].kind] += sges[i][0].length + sges[i][1].length;
		model->signaled += qp->signals_all || list[i].send_flags & IBV_SEND_SIGNALED;
	}
	cr_assert_eq(ibv_post_send(&qp->ex.qp_base, list, &bad), qp->fails_after < 0 ? 0 : ENOMEM);
	cr_assert_eq(bad, qp->fails_after < 0 ? NULL : &list[qp->fails_after]);
	qp->fails_after = -1;
}

/* A batch of ibv_wr_*, which may be aborted or fail as a whole. */
static void write_some(struct null_qp *qp, struct model *model, struct rng *rng)
{
	unsigned int count = 1 + rng_below(rng, SHIM_BATCH - 1), how = rng_below(rng, 4);
	struct ibv_sge sges[2] = {{.length = 7}, {.length = 8}};

	qp->fails_after = how == 1 ? 0 : -1;
	ibv_wr_start(&qp->ex);
	for (unsigned int i = 0; i < count; i++) {
		uint32_t bytes = rng_below(rng, 5000);

		qp->ex.wr_flags = rng_below(rng, 2) ? IBV_SEND_SIGNALED : 0;
		if (i % 2)
			ibv_wr_rdma_write(&qp->ex, 1, 2);
		else
			ibv_wr_send(&qp->ex);
		if (i % 3)
			ibv_wr_set_sge(&qp->ex, 1, 2, bytes);
		else
			ibv_wr_set_sge_list(&qp->ex, 2, sges);
		if (how < 2)
			continue;
		model->messages[i % 2 ? SEGMENT_WRITE : SEGMENT_SEND]++;
		model->bytes[i % 2 ? SEGMENT_WRITE : SEGMENT_SEND] += i % 3 ? bytes : 15;
		model->signaled += qp->signals_all || qp->ex.wr_flags;
	}
	if (how == 0)
		ibv_wr_abort(&qp->ex);
	else
		cr_assert_eq(ibv_wr_complete(&qp->ex), how == 1 ? ENOMEM : 0);
	qp->fails_after = -1;
}

/* Without a receive of this queue pair before, as from a shared receive queue. */
static void receive_some(struct null_qp *qp, struct model *model, struct rng *rng)
{
	struct ibv_recv_wr list[2] = {{.next = &list[1]}}, *bad;
	bool has_imm = rng_below(rng, 2);
	uint32_t bytes = rng_below(rng, 9000);

	qp->fails_after = rng_below(rng, 2) ? 1 : -1;
	ibv_post_recv(&qp->ex.qp_base, list, &bad);
	model->receives += qp->fails_after < 0 ? 2 : 1;
	qp->fails_after = -1;
	null_complete(qp->receive,
		      &(struct ibv_wc){.qp_num = qp->ex.qp_base.qp_num,
				       .opcode = has_imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
				       .byte_len = bytes});
	model->received++;
	model->received_bytes += bytes;
	model->received_imm += has_imm;
}

static void drain(struct ibv_cq *cq, bool extended)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc[7];

	if (!extended) {
		while (ibv_poll_cq(cq, 7, wc) > 0)
			;
	} else if (!ibv_start_poll((struct ibv_cq_ex *)cq, &attr)) {
		while (!ibv_next_poll((struct ibv_cq_ex *)cq))
			;
	}
}

static void check(const struct null_qp *qp, struct model *model)
{
	const struct segment_qp *is = counts_of(qp);
	uint64_t sizes = 0;

	model->completed = model->signaled;
	for (int i = 0; i < SEGMENT_SIZES; i++)
		sizes += is->sizes[i];
	cr_assert_arr_eq(is->messages, model->messages, sizeof(model->messages));
	cr_assert_arr_eq(is->bytes, model->bytes, sizeof(model->bytes));
	cr_assert_eq(sizes, segment_messages(is));
	cr_assert_eq(is->signaled, model->signaled);
	cr_assert_eq(is->completed, model->completed);
	cr_assert_eq(is->receives, model->receives);
	cr_assert_eq(is->received, model->received);
	cr_assert_eq(is->received_bytes, model->received_bytes);
	cr_assert_eq(is->received_imm, model->received_imm);
}

Test(shim, counts_are_exact)
{
	uint64_t seed = (uint64_t)time(NULL);
	struct rng rng;
	struct model models[4] = {};
	struct null_qp *qps[4];
	struct ibv_cq *cq;

	rng_seed(&rng, seed);
	printf("# seed %llu\n", (unsigned long long)seed);
	open_device();
	cq = make_cq(); /* of all four */
	for (int i = 0; i < 4; i++)
		qps[i] = make_qp(cq, i % 2);
	for (int i = 0; i < 20000; i++) {
		int which = rng_below(&rng, 4), what = rng_below(&rng, 3);

		if (what == 0)
			post_some(qps[which], &models[which], &rng);
		else if (what == 1)
			write_some(qps[which], &models[which], &rng);
		else
			receive_some(qps[which], &models[which], &rng);
		if (i % 3 == 0)
			drain(cq, i % 2);
	}
	drain(cq, false);
	for (int i = 0; i < 4; i++)
		check(qps[i], &models[i]);
}

Test(shim, latency_is_of_the_operation_that_is_sampled)
{
	struct null_qp *qp;
	const struct segment_qp *is;
	uint64_t samples;

	open_device();
	qp = make_qp(make_cq(), false);
	is = counts_of(qp);
	/* Of 33 signaled ones the 1st, 17th and 33rd; the others wait as long. */
	for (int i = 0; i < 33; i++) {
		send_one(qp, 10, 0);
		send_one(qp, 10, IBV_SEND_SIGNALED);
		usleep(2000);
		drain(ibv_cq_ex_to_cq(&qp->send->ex), i % 2);
	}
	cr_expect_geq(segment_latency_quantile(is, 0.01, &samples), 1700000);
	cr_expect_eq(samples, 3);
	cr_expect_geq(is->latency_sum_ns, 6000000);
	cr_expect_geq(is->latency_max_ns, 2000000);
	cr_expect_leq(is->latency_max_ns, is->latency_sum_ns);
}

Test(shim, an_error_ends_latencies_until_the_queue_pair_is_reset)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct null_qp *qp;
	const struct segment_qp *is;
	struct ibv_cq *cq;
	uint64_t samples;

	open_device();
	cq = make_cq();
	qp = make_qp(cq, true);
	is = counts_of(qp);
	qp->drops = true;
	send_one(qp, 1, 0);
	null_complete(qp->send, &(struct ibv_wc){.qp_num = qp->ex.qp_base.qp_num,
						 .status = IBV_WC_RETRY_EXC_ERR,
						 .opcode = 0x7777});
	drain(cq, false);
	qp->drops = false;
	for (int i = 0; i < 40; i++)
		send_one(qp, 1, 0);
	drain(cq, false);
	segment_latency_quantile(is, 1, &samples);
	cr_expect_eq(samples, 0);
	cr_expect_eq(is->statuses[IBV_WC_RETRY_EXC_ERR], 1);
	cr_expect_eq(is->completed, 40);
	cr_expect_eq(is->signaled, 41);
	ibv_modify_qp(&qp->ex.qp_base, &attr, IBV_QP_STATE);
	for (int i = 0; i < 40; i++) {
		send_one(qp, 1, 0);
		drain(cq, true);
	}
	segment_latency_quantile(is, 1, &samples);
	cr_expect_geq(samples, 2);
	cr_expect_eq(is->epoch, 1);
}

Test(shim, completions_that_cannot_be_assigned_are_counted)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct segment_header *header;
	struct null_qp *qp;
	struct ibv_cq *cq;

	open_device();
	cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
	qp = make_qp(cq, true);
	header = (struct segment_header *)((uintptr_t)counts_of(qp) - sizeof(*header));
	send_one(qp, 1, 0);
	drain(cq, true); /* asked for without qp_num */
	cr_expect_eq(counts_of(qp)->completed, 0);
	cr_expect_eq(header->unknown_completions, 1);
	null_complete(qp->send, &(struct ibv_wc){.qp_num = 12345});
	drain(cq, false);
	cr_expect_eq(header->unknown_completions, 2);
}

Test(shim, slots_are_used_again)
{
	struct null_qp *qp, *kept;
	struct ibv_cq *cq;

	open_device();
	cq = make_cq();
	kept = make_qp(cq, true);
	send_one(kept, 5, 0);
	for (int i = 0; i < 5000; i++) {
		qp = make_qp(cq, true);
		cr_assert_not_null(counts_of(qp), "%d", i);
		cr_assert_eq(counts_of(qp)->messages[SEGMENT_SEND], 0);
		send_one(qp, 1, 0);
		cr_assert_eq(ibv_destroy_qp(&qp->ex.qp_base), 0);
		drain(cq, false);
	}
	cr_expect_eq(counts_of(kept)->bytes[SEGMENT_SEND], 5);
	/* All of them at once: what has no room is as without us. */
	for (int i = 0; i < SEGMENT_QPS; i++)
		qp = make_qp(cq, true);
	cr_expect_null(counts_of(qp));
	cr_expect_eq(send_one(qp, 1, 0), 0);
	ibv_wr_start(&qp->ex);
	ibv_wr_send(&qp->ex);
	cr_expect_eq(ibv_wr_complete(&qp->ex), 0);
}

Test(shim, contexts_are_closed_and_opened_again)
{
	for (int i = 0; i < 1000; i++) {
		struct ibv_cq *cq;
		struct null_qp *qp;

		open_device();
		cr_assert(context->ops.post_send != null_post_send, "%d", i);
		cq = make_cq();
		qp = make_qp(cq, true);
		send_one(qp, 3, 0);
		cr_assert_eq(counts_of(qp)->bytes[SEGMENT_SEND], 3);
		ibv_destroy_qp(&qp->ex.qp_base);
		ibv_destroy_cq(cq);
		cr_assert_eq(ibv_close_device(context), 0);
		cr_assert_eq(context->ops.post_send, null_post_send);
	}
}

/* --- where nothing is counted --- */

static unsigned int count_files(void)
{
	char command[128];
	unsigned int count = 99;
	FILE *out;

	snprintf(command, sizeof(command), "ls %s | wc -l", folder);
	out = popen(command, "r");
	cr_assert_eq(fscanf(out, "%u", &count), 1);
	pclose(out);
	return count;
}

static void expect_through(bool patched)
{
	struct null_qp *qp;

	open_device();
	cr_expect_eq(context->ops.post_send == null_post_send, !patched);
	qp = make_qp(make_cq(), true);
	cr_expect_null(counts_of(qp));
	cr_expect_eq(send_one(qp, 1, 0), 0);
	drain(ibv_cq_ex_to_cq(&qp->send->ex), false);
	cr_expect_eq(qp->send->head, 1);
	cr_expect_eq(ibv_destroy_qp(&qp->ex.qp_base), 0);
}

Test(shim, off_by_the_environment)
{
	setenv("ESCAPEMENT_VERBS", "off", 1);
	expect_through(false);
	cr_expect_eq(count_files(), 0);
}

Test(shim, another_program_is_on_the_list)
{
	setenv("ESCAPEMENT_VERBS_PROGRAMS", "test_shi,other", 1);
	expect_through(false);
	cr_expect_eq(count_files(), 0);
}

Test(shim, this_program_is_on_the_list)
{
	struct null_qp *qp;

	setenv("ESCAPEMENT_VERBS_PROGRAMS", "other,test_shim", 1);
	open_device();
	qp = make_qp(make_cq(), true);
	cr_expect_not_null(counts_of(qp));
	cr_expect_eq(count_files(), 1);
}

Test(shim, no_daemon_has_made_the_folder)
{
	setenv("ESCAPEMENT_VERBS_FOLDER", "/nonexistent", 1);
	expect_through(true);
}

static struct ibv_context *open_unknown(struct ibv_device *device)
{
	struct ibv_context *opened = null_open(device);

	null.context.sz = sizeof(struct ibv_context);
	return opened;
}

Test(shim, a_context_of_an_unknown_layout)
{
	shim_real.open_device = open_unknown;
	open_device();
	cr_expect_eq(context->ops.post_send, null_post_send);
	cr_expect_eq(ibv_close_device(context), 0);
}

Test(shim, a_child_counts_nothing)
{
	struct null_qp *qp;
	int status;
	pid_t child;

	open_device();
	qp = make_qp(make_cq(), true);
	send_one(qp, 1, 0);
	child = fork();
	if (!child) {
		bool good = !send_one(qp, 1, 0);

		drain(ibv_cq_ex_to_cq(&qp->send->ex), true);
		ibv_wr_start(&qp->ex);
		ibv_wr_send(&qp->ex);
		good = good && !ibv_wr_complete(&qp->ex) && !ibv_destroy_qp(&qp->ex.qp_base);
		_exit(good ? 0 : 1);
	}
	waitpid(child, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_eq(counts_of(qp)->messages[SEGMENT_SEND], 1);
	send_one(qp, 1, 0);
	cr_expect_eq(counts_of(qp)->messages[SEGMENT_SEND], 2);
}

/* --- no system call: any but write and exit kills the process --- */

static void post_without_calls(int out)
{
	const struct segment_qp *counts;
	struct null_qp *qp;
	struct ibv_cq *cq;
	uint64_t sums[2];

	open_device();
	qp = make_qp(make_cq(), true);
	cq = ibv_cq_ex_to_cq(&qp->send->ex);
	counts = counts_of(qp);
	if (!forbid_calls())
		_exit(1);
	for (int i = 0; i < 10000; i++) {
		send_one(qp, 4096, 0);
		ibv_wr_start(&qp->ex);
		ibv_wr_rdma_write(&qp->ex, 1, 2);
		ibv_wr_set_sge(&qp->ex, 1, 2, 3);
		ibv_wr_complete(&qp->ex);
		drain(cq, i % 2);
	}
	sums[0] = segment_messages(counts);
	segment_latency_quantile(counts, 1, &sums[1]);
	syscall(SYS_exit, write(out, sums, sizeof(sums)) == sizeof(sums) ? 0 : 2);
}

Test(shim, no_system_call_on_the_data_path)
{
	uint64_t sums[2] = {};
	int ends[2], status;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (!child)
		post_without_calls(ends[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "ended by signal %d", WTERMSIG(status));
	cr_assert_eq(read(ends[0], sums, sizeof(sums)), sizeof(sums));
	cr_expect_eq(sums[0], 20000);
	cr_expect_geq(sums[1], 1000, "times were taken");
}

/* --- threads --- */

static void *post_many(void *qp)
{
	for (int i = 0; i < 100000; i++)
		send_one(qp, 3, IBV_SEND_SIGNALED);
	return NULL;
}

Test(shim, two_threads_post_to_one_queue_pair)
{
	struct null_qp *qp;
	pthread_t threads[2];

	open_device();
	qp = make_qp(make_cq(), false);
	qp->drops = true;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, post_many, qp), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(counts_of(qp)->messages[SEGMENT_SEND], 200000);
	cr_expect_eq(counts_of(qp)->bytes[SEGMENT_SEND], 600000);
	cr_expect_eq(counts_of(qp)->signaled, 200000);
}

/* --- the daemon's end --- */

static void connect_qp(struct null_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = 77,
				   .ah_attr = {.is_global = 1,
					       .port_num = 1,
					       .grh = {.sgid_index = 3, .flow_label = 9}}};

	memcpy(attr.ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\377\377\12\0\0\2", 16);
	ibv_modify_qp(&qp->ex.qp_base, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
	ibv_modify_qp(&qp->ex.qp_base, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT);
}

/* A job: it begins before the library is in it, and lives until it is killed. */
static pid_t start_job(int copies)
{
	int ready[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child) {
		cr_assert_eq(read(ready[0], &byte, 1), 1);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a test that failed */
	setenv("RANK", "5", 1);
	open_device();
	for (int i = 0; i < copies; i++) {
		struct null_qp *qp = make_qp(make_cq(), true);

		connect_qp(qp);
		for (int n = 0; n < 10; n++)
			send_one(qp, 1000, 0);
		ibv_wr_start(&qp->ex);
		ibv_wr_send(&qp->ex);
		ibv_wr_set_inline_data(&qp->ex, NULL, 24);
		ibv_wr_complete(&qp->ex);
		null_complete(qp->receive, &(struct ibv_wc){.qp_num = qp->ex.qp_base.qp_num,
							    .opcode = IBV_WC_RECV,
							    .byte_len = 50});
		drain(ibv_cq_ex_to_cq(&qp->send->ex), false);
	}
	if (write(ready[1], "x", 1) == 1)
		pause();
	_exit(0);
}

static void end_job(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

Test(shim, the_daemon_reads_a_process_and_what_it_left)
{
	struct ibverbs verbs = {.processes = {.folder = folder, .idle_ns = 1000000000}};
	struct processes *processes = &verbs.processes;
	struct qptable table = {};
	const struct process *process;
	const struct segment_qp *qp;
	json_t *row;
	pid_t job = start_job(2);
	uint64_t now_ns = time_local_ns();

	verbs.table = &table;
	processes_poll(processes, now_ns);
	cr_assert_eq(processes->count, 1);
	process = processes->list[0];
	cr_expect_eq(process->pid, (uint32_t)job);
	cr_expect_str_eq(process->header.rank, "5");
	cr_expect_str_eq(process->header.comm, "test_shim");
	cr_assert_eq(process->count, 2);
	qp = &process->qps[0].is;
	cr_expect_eq(segment_messages(qp), 11);
	cr_expect_eq(segment_bytes(qp), 10024);
	cr_expect_eq(qp->completed, 11);
	cr_expect_eq(qp->dest_qpn, 77);
	cr_expect_eq(qp->path_mtu, 1024);
	cr_expect_eq(qp->ack_timeout, 14);
	cr_expect_eq(qp->retry_count, 7);
	cr_expect_str_eq(qp->device, "null0");

	report_make_rows(&verbs);
	cr_assert_eq(verbs.shown_count, 4, "each direction of two");
	row = report_row(&verbs.rows[0]);
	cr_expect_str_eq(json_text(row, "source"), "verbs");
	cr_expect_str_eq(json_text(row, "key"), "10.0.0.2>10.0.0.3/1");
	cr_expect_eq(json_count(row, "payload_bytes"), 50);
	cr_expect_eq(json_count(row, "packets"), 0);
	cr_expect_null(json_object_get(row, "packets"), "what is not seen is absent");
	json_decref(row);
	row = report_row(&verbs.rows[2]);
	cr_expect_str_eq(json_text(row, "key"), "10.0.0.3>10.0.0.2/77");
	cr_expect_str_eq(json_text(row, "direction"), "tx");
	cr_expect_eq(json_count(row, "messages"), 11);
	json_decref(row);

	end_job(job);
	processes_poll(processes, now_ns + 1);
	cr_assert_eq(processes->count, 1);
	cr_expect_eq(processes->list[0]->fd, -1);
	cr_expect_eq(segment_messages(&processes->list[0]->qps[1].is), 11);
	cr_expect_eq(count_files(), 0, "its file is gone");
	cr_expect_eq(processes->totals[0].messages[SEGMENT_SEND], 22);
	cr_expect_eq(processes->totals[0].received_bytes, 100);
	processes_poll(processes, now_ns + 2000000000);
	cr_expect_eq(processes->count, 0);
	cr_expect_eq(processes->qp_count, 0);
	report_make_rows(&verbs);
	cr_expect_eq(verbs.row_count, 0);
	free(verbs.rows);
	free(verbs.shown);
}

static void leave_file(const char *name, off_t bytes)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	cr_assert_eq(ftruncate(fd, bytes), 0);
	close(fd);
}

static bool read_local(void *none, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	(void)none;
	*fabric_ns = (int64_t)local_ns;
	*bound_ns = 7;
	return true;
}

/* For the timeline of a job: between which readings a queue pair moved. */
Test(shim, the_daemon_notes_when_a_queue_pair_moved)
{
	struct processes processes = {
		.folder = strdup(folder), .idle_ns = 1000000000, .read_time = read_local};
	const struct qp_progress *progress;
	uint64_t began_ns = time_local_ns(), read_ns;
	struct qp_progress before;
	struct verbs_qp *qp;
	pid_t job;

	processes_poll(&processes, began_ns);
	job = start_job(1);
	read_ns = time_local_ns();
	processes_poll(&processes, read_ns);
	cr_assert_eq(processes.count, 1);
	cr_assert_eq(processes.list[0]->count, 1);
	qp = &processes.list[0]->qps[0];
	for (unsigned int d = 0; d < 2; d++) {
		progress = &qp->progress[d];
		cr_expect(progress->moved && progress->timed);
		cr_expect_eq(progress->after_fabric_ns, (int64_t)qp->is.first_local_ns);
		cr_expect_geq(progress->after_fabric_ns, (int64_t)began_ns);
		cr_expect_geq(progress->before_fabric_ns, (int64_t)read_ns);
		cr_expect_eq(progress->bound_ns, 7);
	}
	before = *progress;
	processes_poll(&processes, time_local_ns());
	cr_expect_eq(memcmp(&before, progress, sizeof(before)), 0, "it did not move");
	/* As if it had completed one more since. */
	qp->is.completed--;
	began_ns = qp->read_local_ns;
	processes_poll(&processes, time_local_ns());
	cr_expect_eq(qp->progress[0].after_fabric_ns, (int64_t)began_ns);
	cr_expect_eq(memcmp(&before, progress, sizeof(before)), 0, "nothing was received");
	end_job(job);
	processes_poll(&processes, time_local_ns());
	processes_free(&processes);

	/* A daemon that begins does not know since when a process has stood still. */
	processes = (struct processes){
		.folder = strdup(folder), .idle_ns = 1000000000, .read_time = read_local};
	job = start_job(1);
	processes_poll(&processes, time_local_ns());
	cr_assert_eq(processes.count, 1);
	cr_expect_not(processes.list[0]->qps[0].progress[0].moved);
	end_job(job);
	processes_poll(&processes, time_local_ns());
	processes_free(&processes);
}

Test(shim, the_daemon_takes_nothing_else_for_a_segment)
{
	struct processes processes = {.folder = folder, .idle_ns = 1000000000};
	char path[128];

	leave_file("notes", SEGMENT_BYTES);
	leave_file("0123456789abcde0", 17);
	leave_file("0123456789abcde1", SEGMENT_BYTES);
	snprintf(path, sizeof(path), "%s/0123456789abcde2", folder);
	cr_assert_eq(symlink("/etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/0123456789abcde3", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	processes_poll(&processes, 1);
	cr_expect_eq(processes.unreadable, 2, "a short file and a FIFO");
	cr_expect_eq(processes.count, 1, "what has no header yet");
	processes_poll(&processes, 60000000000);
	cr_expect_eq(processes.count, 0);
	cr_expect_eq(count_files(), 4, "and is removed when it gets none");
}

Test(shim, the_folder_is_for_writing_only)
{
	struct stat status;
	char path[128];

	snprintf(path, sizeof(path), "%s/verbs", folder);
	cr_expect_eq(processes_make_folder(path), 0);
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 01730);
	chmod(path, 01733);
	cr_expect_eq(processes_make_folder(path), 0);
	cr_assert_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 01733, "what an administrator chose stays");
	rmdir(path);
	cr_assert_eq(symlink("/tmp", path), 0);
	cr_expect_eq(processes_make_folder(path), -ENOTDIR);
}

/* --- as programs bind it --- */

Test(shim, programs_find_both_libraries_through_it)
{
	void *library = dlopen("build/libescapement-verbs.so", RTLD_NOW | RTLD_LOCAL);
	void *behind = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

	cr_assert_not_null(library, "%s", dlerror());
	cr_assert_not_null(behind);
	cr_expect_neq(dlvsym(library, "ibv_create_qp", "IBVERBS_1.1"),
		      dlvsym(behind, "ibv_create_qp", "IBVERBS_1.1"));
	cr_expect_not_null(dlvsym(library, "ibv_create_qp", "IBVERBS_1.1"));
	cr_expect_eq(dlvsym(library, "ibv_reg_mr", "IBVERBS_1.1"),
		     dlvsym(behind, "ibv_reg_mr", "IBVERBS_1.1"));
	cr_expect_not_null(dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1"));
	dlclose(library);
	cr_expect_not_null(dlopen("build/libescapement-verbs.so", RTLD_NOW | RTLD_NOLOAD),
			   "it stays, since a device may have its functions");
}
