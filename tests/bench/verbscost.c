// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nanoseconds that libescapement-verbs adds to a post and to a completion, before a provider that
 * does nothing else. Rounds alternate between the provider alone and ours; the least of each is
 * shown, because what else the machine does can only add to it.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/nullverbs.h"

#define ROUNDS 40
#define CALLS 200000

static struct null_device null;
static struct ibv_context *context;
static struct null_qp *qp;
static struct null_cq *cq;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void post(int (*function)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **))
{
	struct ibv_sge sge = {.length = 4096};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	function(&qp->ex.qp_base, &wr, &bad);
}

/* The completion of each is taken at once, as of a program with short messages. */
static void post_old(bool ours)
{
	cq->head = cq->tail = 0;
	post(ours ? context->ops.post_send : null_post_send);
}

static void post_wr(bool ours)
{
	struct ibv_qp_ex *ex = &qp->ex;

	cq->head = cq->tail = 0;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (ours) {
		ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, 1, 2);
		ibv_wr_set_sge(ex, 1, 2, 4096);
		ibv_wr_complete(ex);
	} else {
		null_start(ex);
		null_wr_rdma(ex, 1, 2);
		null_set_sge(ex, 1, 2, 4096);
		null_finish(ex);
	}
}

static void poll_one(bool ours)
{
	struct ibv_wc wc;

	cq->head = 0;
	cq->tail = 1;
	(ours ? context->ops.poll_cq : null_poll_cq)((struct ibv_cq *)cq, 1, &wc);
}

static void poll_none(bool ours)
{
	struct ibv_wc wc;

	cq->head = cq->tail = 0;
	(ours ? context->ops.poll_cq : null_poll_cq)((struct ibv_cq *)cq, 1, &wc);
}

static double measure(void (*step)(bool ours), bool ours)
{
	double begin = now_ns();

	for (int i = 0; i < CALLS; i++)
		step(ours);
	return (now_ns() - begin) / CALLS;
}

static void show(const char *name, void (*step)(bool ours), double aim_ns)
{
	double without = 1e9, with = 1e9;

	for (int i = 0; i < ROUNDS; i++) {
		without = fmin(without, measure(step, false));
		with = fmin(with, measure(step, true));
	}
	printf("%-28s %8.1f %8.1f %8.1f %8.0f  %s\n", name, without, with, with - without, aim_ns,
	       with - without <= aim_ns ? "met" : "missed");
}

int main(void)
{
	char folder[] = "/tmp/esc-verbscost-XXXXXX", command[64];
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_pd pd;

	if (!mkdtemp(folder))
		return 1;
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	null_begin(&null);
	context = ibv_open_device(&null.device);
	pd.context = context;
	cq = (struct null_cq *)ibv_create_cq_ex(context, &attr);
	init.send_cq = init.recv_cq = (struct ibv_cq *)cq;
	qp = (struct null_qp *)ibv_create_qp(&pd, &init);
	if (!shim_find(context, qp->ex.qp_base.qp_num)) {
		fprintf(stderr, "verbscost: the queue pair is not counted\n");
		return 1;
	}
	null_complete(cq, &(struct ibv_wc){.qp_num = qp->ex.qp_base.qp_num});
	printf("libescapement-verbs, ns       without     with     cost      aim\n");
	show("ibv_post_send", post_old, 60);
	show("ibv_wr_* with one operation", post_wr, 60);
	show("ibv_poll_cq, a completion", poll_one, 20);
	show("ibv_poll_cq, nothing", poll_none, 20);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) ? 1 : 0;
}
