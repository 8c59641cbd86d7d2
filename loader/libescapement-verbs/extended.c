// SPDX-License-Identifier: BSD-2-Clause
/* The functions of struct ibv_qp_ex (ibv_wr_*) and of struct ibv_cq_ex (ibv_start_poll). */
#include <pthread.h>
#include <stddef.h>

#include "shim.h"

/* --- ibv_wr_*: the provider's lock is held from wr_start to wr_complete or wr_abort --- */

/* Called from the functions of a patched queue pair only. */
static struct shim_qp *find(const struct ibv_qp_ex *qp)
{
	return shim_find(qp->qp_base.context, qp->qp_base.qp_num);
}

static void commit(struct shim_qp *qp)
{
	for (unsigned int i = 0; i < qp->batch.count; i++) {
		shim_count_message(qp, qp->batch.ops[i].kind, qp->batch.ops[i].bytes, 1);
		shim_number(qp, SEGMENT_POSTED, shim_uses_receive(qp->batch.ops[i].kind));
	}
	qp->batch.count = 0;
	qp->batch.was_full = true;
}

static void add(struct shim_qp *qp, const struct ibv_qp_ex *extended, enum segment_kind kind,
		uint64_t bytes)
{
	/* More than there is room for: counted now, whether or not they will be posted. */
	if (qp->batch.count == SHIM_BATCH)
		commit(qp);
	qp->batch.ops[qp->batch.count].kind = kind;
	qp->batch.ops[qp->batch.count++].bytes = bytes;
	qp->batch.signaled += qp->signals_all || extended->wr_flags & IBV_SEND_SIGNALED;
}

static void add_bytes(struct shim_qp *qp, uint64_t bytes)
{
	if (qp->batch.count)
		qp->batch.ops[qp->batch.count - 1].bytes += bytes;
}

/* Each operation: its name, its kind, its bytes beside the list's, parameters and arguments. */
#define OPERATIONS(X)                                                                              \
	X(wr_send, SEND, 0, (struct ibv_qp_ex * qp), (qp))                                         \
	X(wr_send_imm, SEND, 0, (struct ibv_qp_ex * qp, __be32 imm), (qp, imm))                    \
	X(wr_send_inv, SEND, 0, (struct ibv_qp_ex * qp, uint32_t rkey), (qp, rkey))                \
	X(wr_send_tso, OTHER, bytes,                                                               \
	  (struct ibv_qp_ex * qp, void *header, uint16_t bytes, uint16_t mss),                     \
	  (qp, header, bytes, mss))                                                                \
	X(wr_rdma_write, WRITE, 0, (struct ibv_qp_ex * qp, uint32_t rkey, uint64_t at),            \
	  (qp, rkey, at))                                                                          \
	X(wr_rdma_write_imm, WRITE_IMM, 0,                                                         \
	  (struct ibv_qp_ex * qp, uint32_t rkey, uint64_t at, __be32 imm), (qp, rkey, at, imm))    \
	X(wr_rdma_read, READ, 0, (struct ibv_qp_ex * qp, uint32_t rkey, uint64_t at),              \
	  (qp, rkey, at))                                                                          \
	X(wr_atomic_cmp_swp, ATOMIC, 0,                                                            \
	  (struct ibv_qp_ex * qp, uint32_t rkey, uint64_t at, uint64_t compare, uint64_t swap),    \
	  (qp, rkey, at, compare, swap))                                                           \
	X(wr_atomic_fetch_add, ATOMIC, 0,                                                          \
	  (struct ibv_qp_ex * qp, uint32_t rkey, uint64_t at, uint64_t more),                      \
	  (qp, rkey, at, more))                                                                    \
	X(wr_bind_mw, OTHER, 0,                                                                    \
	  (struct ibv_qp_ex * qp, struct ibv_mw * mw, uint32_t rkey,                               \
	   const struct ibv_mw_bind_info *info),                                                   \
	  (qp, mw, rkey, info))                                                                    \
	X(wr_local_inv, OTHER, 0, (struct ibv_qp_ex * qp, uint32_t rkey), (qp, rkey))

#define DEFINE(name, kind, bytes, parameters, arguments)                                           \
	static void name parameters                                                                \
	{                                                                                          \
		struct shim_qp *found = find(qp);                                                  \
                                                                                                   \
		if (shim_counts)                                                                   \
			add(found, qp, SEGMENT_##kind, bytes);                                     \
		found->before.name arguments;                                                      \
	}
OPERATIONS(DEFINE)
#undef DEFINE

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct shim_qp *found = find(qp);

	add_bytes(found, length);
	found->before.wr_set_sge(qp, lkey, addr, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	struct shim_qp *found = find(qp);

	for (size_t i = 0; i < count; i++)
		add_bytes(found, list[i].length);
	found->before.wr_set_sge_list(qp, count, list);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct shim_qp *found = find(qp);

	add_bytes(found, length);
	found->before.wr_set_inline_data(qp, addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t count,
				    const struct ibv_data_buf *list)
{
	struct shim_qp *found = find(qp);

	for (size_t i = 0; i < count; i++)
		add_bytes(found, list[i].length);
	found->before.wr_set_inline_data_list(qp, count, list);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	struct shim_qp *found = find(qp);

	found->before.wr_start(qp);
	found->batch.count = found->batch.signaled = 0;
	found->batch.was_full = false;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct shim_qp *found = find(qp);
	struct shim_sample sample = {};
	struct shim_batch batch;
	unsigned int ordered = 0;
	uint64_t last, next;
	int err;

	if (!shim_counts)
		return found->before.wr_complete(qp);
	/* It is another thread's as soon as the provider has unlocked it. */
	batch.count = found->batch.count;
	batch.signaled = found->batch.signaled;
	for (unsigned int i = 0; i < batch.count; i++)
		batch.ops[i] = found->batch.ops[i];
	batch.was_full = found->batch.was_full;
	for (unsigned int i = 0; i < batch.count; i++)
		ordered += shim_uses_receive(batch.ops[i].kind);
	next = shim_number(found, SEGMENT_POSTED, ordered);
	for (unsigned int i = 0; i < batch.count; i++)
		if (shim_uses_receive(batch.ops[i].kind))
			shim_take_sample(found, SEGMENT_POSTED, next++, batch.ops[i].bytes,
					 &sample);
	last = batch.signaled ? shim_begin_post(found, batch.signaled) : 0;
	err = found->before.wr_complete(qp);
	if (err) {
		shim_undo_post(found, last, batch.signaled);
		shim_return_numbers(found, next, ordered);
	} else if (sample.ns) {
		shim_put_sample(found, SEGMENT_POSTED, &sample);
	}
	if (err && batch.was_full)
		shim_stop_samples(found);
	for (unsigned int i = 0; !err && i < batch.count; i++)
		shim_count_message(found, batch.ops[i].kind, batch.ops[i].bytes, 1);
	return err;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	struct shim_qp *found = find(qp);

	found->batch.count = 0;
	if (found->batch.was_full)
		shim_stop_samples(found);
	found->before.wr_abort(qp);
}

#define FUNCTIONS(X)                                                                               \
	OPERATIONS(X)                                                                              \
	X(wr_set_sge)                                                                              \
	X(wr_set_sge_list)                                                                         \
	X(wr_set_inline_data) X(wr_set_inline_data_list) X(wr_start) X(wr_complete) X(wr_abort)

void shim_patch_qp(struct shim_qp *qp, struct ibv_qp_ex *extended)
{
	/* Without wr_start it has none; find() needs its key. */
	if (!extended || !extended->wr_start || extended->qp_base.context != qp->context ||
	    extended->qp_base.qp_num != qp->qpn)
		return;
	qp->extended = extended;
#define PATCH(name, ...)                                                                           \
	if (extended->name && extended->name != name) {                                            \
		qp->before.name = extended->name;                                                  \
		extended->name = name;                                                             \
	}
	FUNCTIONS(PATCH)
#undef PATCH
}

/* --- ibv_start_poll() --- */

static struct shim_cq cqs[SHIM_CQS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct shim_cq *place_of(const void *cq, unsigned int probe)
{
	return &cqs[(((uintptr_t)cq >> 6) + probe) % SHIM_CQS];
}

static const struct shim_cq *before_of(const struct ibv_cq_ex *cq)
{
	for (unsigned int i = 0;; i++) {
		const struct shim_cq *before = place_of(cq, i);

		if (__atomic_load_n(&before->cq, __ATOMIC_ACQUIRE) == cq)
			return before;
	}
}

static void count(const struct shim_cq *before, struct ibv_cq_ex *cq)
{
	struct shim_qp *qp = NULL;
	unsigned int opcode = 0;
	uint32_t bytes = 0;

	if (before->has_qpn)
		qp = shim_find(cq->context, cq->read_qp_num(cq));
	if (!qp) {
		shim_count_unknown();
		return;
	}
	if (!cq->status) {
		opcode = cq->read_opcode(cq);
		if (before->has_length && opcode & IBV_WC_RECV)
			bytes = cq->read_byte_len(cq);
	}
	shim_count_completion(qp, cq->status, opcode, bytes);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	const struct shim_cq *before = before_of(cq);
	int err = before->start_poll(cq, attr);

	if (shim_counts)
		shim_count_poll();
	if (!err && shim_counts)
		count(before, cq);
	return err;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	const struct shim_cq *before = before_of(cq);
	int err = before->next_poll(cq);

	if (!err && shim_counts)
		count(before, cq);
	return err;
}

void shim_patch_cq(struct ibv_cq_ex *cq, uint64_t flags)
{
	struct shim_cq *before = NULL;

	if (!cq->start_poll || !cq->next_poll)
		return;
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < SHIM_CQS; i++) {
		struct shim_cq *place = place_of(cq, i);

		if (place->cq == cq || (!place->cq && !before))
			before = place;
	}
	if (before) {
		before->flags = flags;
		before->has_qpn = flags & IBV_WC_EX_WITH_QP_NUM && cq->read_qp_num;
		before->has_length = flags & IBV_WC_EX_WITH_BYTE_LEN && cq->read_byte_len;
		before->start_poll = cq->start_poll;
		before->next_poll = cq->next_poll;
		__atomic_store_n(&before->cq, cq, __ATOMIC_RELEASE);
		cq->start_poll = start_poll;
		cq->next_poll = next_poll;
	}
	pthread_mutex_unlock(&lock);
}

uint64_t shim_unpatch_cq(struct ibv_cq *cq)
{
	struct ibv_cq_ex *extended = (struct ibv_cq_ex *)cq;
	uint64_t flags = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < SHIM_CQS; i++) {
		struct shim_cq *before = place_of(cq, i);

		if (before->cq != extended)
			continue;
		flags = before->flags | SHIM_CQ_PATCHED;
		extended->start_poll = before->start_poll;
		extended->next_poll = before->next_poll;
		__atomic_store_n(&before->cq, NULL, __ATOMIC_RELEASE);
		break;
	}
	pthread_mutex_unlock(&lock);
	return flags;
}
