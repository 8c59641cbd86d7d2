// SPDX-License-Identifier: BSD-2-Clause
/* Numbers of messages at both ends: however they are posted, a sample's number is that of the same
 * message. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/nullverbs.h"
#include "tests/lib/rng.h"

#define MESSAGES 200000
#define LIST 6

static char folder[64];
static struct null_device null;
static struct ibv_context *context;
static struct null_qp *sender, *receiver;
static struct ibv_cq *cq;
static uint32_t sizes[MESSAGES + 64]; /* by number */
static uint64_t sent;

static void begin(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_pd pd;

	strcpy(folder, "/tmp/esc-shim-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	setenv("ESCAPEMENT_VERBS_FOLDER", folder, 1);
	null_begin(&null);
	context = ibv_open_device(&null.device);
	pd.context = context;
	cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
	init.send_cq = init.recv_cq = cq;
	sender = (struct null_qp *)ibv_create_qp(&pd, &init);
	receiver = (struct null_qp *)ibv_create_qp(&pd, &init);
	sent = 0;
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(samples, .init = begin, .fini = end);

/* Arrives at once. */
static void deliver(uint32_t bytes)
{
	sizes[sent++] = bytes;
	null_complete(receiver->receive, &(struct ibv_wc){.qp_num = receiver->ex.qp_base.qp_num,
							  .opcode = IBV_WC_RECV,
							  .byte_len = bytes});
}

static void post_list(struct rng *rng, int count)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
	struct ibv_send_wr list[LIST], *bad;
	struct ibv_sge sges[LIST];
	int good;

	sender->fails_after = rng_below(rng, 4) ? -1 : (int)rng_below(rng, count);
	good = sender->fails_after < 0 ? count : sender->fails_after;
	for (int i = 0; i < count; i++) {
		sges[i].length = rng_below(rng, 1 << 20);
		list[i] = (struct ibv_send_wr){.next = i + 1 < count ? &list[i + 1] : NULL,
					       .sg_list = &sges[i],
					       .num_sge = 1,
					       .opcode = opcodes[rng_below(rng, 4)]};
	}
	ibv_post_send(&sender->ex.qp_base, list, &bad);
	for (int i = 0; i < good; i++)
		if (list[i].opcode == IBV_WR_SEND || list[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			deliver(sges[i].length);
	sender->fails_after = -1;
}

static void write_batch(struct rng *rng)
{
	unsigned int count = 1 + rng_below(rng, SHIM_BATCH), how = rng_below(rng, 4);
	uint32_t bytes[SHIM_BATCH];

	sender->fails_after = how == 1 ? 0 : -1;
	ibv_wr_start(&sender->ex);
	for (unsigned int i = 0; i < count; i++) {
		bytes[i] = rng_below(rng, 1 << 20);
		if (i % 3)
			ibv_wr_send(&sender->ex);
		else
			ibv_wr_rdma_write(&sender->ex, 1, 2);
		ibv_wr_set_sge(&sender->ex, 1, 2, bytes[i]);
	}
	if (how == 0)
		ibv_wr_abort(&sender->ex);
	else
		ibv_wr_complete(&sender->ex);
	for (unsigned int i = 0; how > 1 && i < count; i++)
		if (i % 3)
			deliver(bytes[i]);
	sender->fails_after = -1;
}

/* The sender has the first slot. */
static const struct segment *find_segment(void)
{
	const struct shim_qp *found = shim_find(context, sender->ex.qp_base.qp_num);

	return (const struct segment *)((uintptr_t)found->slot - sizeof(struct segment_header));
}

static void poll_all(void)
{
	struct ibv_wc wc[16];

	while (ibv_poll_cq(cq, 16, wc) > 0)
		;
}

Test(samples, numbers_are_those_of_the_same_message)
{
	uint64_t seed = (uint64_t)time(NULL), count, found[2] = {};
	const struct segment *segment;
	struct rng rng;

	rng_seed(&rng, seed);
	printf("# seed %llu\n", (unsigned long long)seed);
	while (sent < MESSAGES) {
		unsigned int how = rng_below(&rng, 3);

		if (how == 0)
			post_list(&rng, 1);
		else if (how == 1)
			post_list(&rng, 1 + (int)rng_below(&rng, LIST));
		else
			write_batch(&rng);
		poll_all();
		if (sent % 5000 < 10)
			usleep(60000); /* samples are slower than that */
	}
	segment = find_segment();
	count = segment->header.samples;
	cr_assert_leq(count, SEGMENT_SAMPLES);
	for (uint64_t i = 0; i < count; i++) {
		const struct segment_sample *sample = &segment->samples[i];

		cr_assert_eq(sample->place, i + 1);
		cr_assert_lt(sample->number, sent);
		cr_expect_eq(sample->bytes, sizes[sample->number], "seed %llu, number %llu",
			     (unsigned long long)seed, (unsigned long long)sample->number);
		found[sample->end]++;
	}
	cr_expect_geq(found[SEGMENT_POSTED], 10);
	cr_expect_geq(found[SEGMENT_RECEIVED], 10);
	cr_expect_leq(count, 400, "one in many");
}

Test(samples, an_error_or_a_reset_ends_them)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	const struct segment *segment = find_segment();
	struct rng rng;
	uint64_t count;

	rng_seed(&rng, 1);
	write_batch(&rng);
	poll_all();
	ibv_modify_qp(&sender->ex.qp_base, &attr, IBV_QP_STATE);
	null_complete(receiver->receive, &(struct ibv_wc){.qp_num = receiver->ex.qp_base.qp_num,
							  .status = IBV_WC_WR_FLUSH_ERR});
	poll_all();
	count = segment->header.samples;
	for (int i = 0; i < 100; i++)
		write_batch(&rng);
	poll_all();
	cr_expect_eq(segment->header.samples, count);
}
