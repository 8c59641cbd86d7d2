/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A provider of verbs without a device: posts succeed up to one that is to fail, and each gives its
 * completion at once. It stands behind libescapement-verbs in place of libibverbs.
 */
#ifndef ESC_TESTS_NULLVERBS_H
#define ESC_TESTS_NULLVERBS_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/libescapement-verbs/shim.h"

#define NULL_CQ 1024

/* What is not destroyed stays reachable: a test may end without. Threads may make and destroy
 * objects. */
static void *null_kept[8192];

static inline void *null_keep(size_t bytes)
{
	void *object = calloc(1, bytes), *none;

	for (size_t i = 0; i < sizeof(null_kept) / sizeof(null_kept[0]); i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&null_kept[i], &none, object, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return object;
	}
	abort();
}

static inline void null_free(void *object)
{
	for (size_t i = 0; i < sizeof(null_kept) / sizeof(null_kept[0]); i++)
		if (__atomic_load_n(&null_kept[i], __ATOMIC_SEQ_CST) == object)
			__atomic_store_n(&null_kept[i], NULL, __ATOMIC_SEQ_CST);
	free(object);
}

struct null_cq {
	struct ibv_cq_ex ex;
	struct ibv_wc queue[NULL_CQ];
	unsigned int head, tail;
};

struct null_qp {
	struct ibv_qp_ex ex;
	struct null_cq *send, *receive;
	bool signals_all, drops; /* drops: no completions */
	int fails_after;	 /* of a call, operations that succeed; -1: all */
	unsigned int open;	 /* signaled, between wr_start and wr_complete */
};

struct null_device {
	struct ibv_device device;
	struct verbs_context context;
	uint32_t next_qpn;
};

static inline struct null_device *null_of(struct ibv_context *context)
{
	return (struct null_device *)((char *)context - offsetof(struct null_device, context) -
				      offsetof(struct verbs_context, context));
}

static inline void null_complete(struct null_cq *cq, const struct ibv_wc *wc)
{
	cq->queue[cq->tail++ % NULL_CQ] = *wc;
}

static inline enum ibv_wc_opcode null_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_SEND;
	}
}

static inline int null_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
				 struct ibv_send_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)ibqp;

	for (int i = 0; wr; wr = wr->next, i++) {
		if (i == qp->fails_after) {
			*bad = wr;
			return ENOMEM;
		}
		if (!qp->drops && (qp->signals_all || wr->send_flags & IBV_SEND_SIGNALED))
			null_complete(qp->send,
				      &(struct ibv_wc){.qp_num = ibqp->qp_num,
						       .opcode = null_opcode(wr->opcode)});
	}
	return 0;
}

static inline int null_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
				 struct ibv_recv_wr **bad)
{
	const struct null_qp *qp = (struct null_qp *)ibqp;

	for (int i = 0; wr; wr = wr->next, i++)
		if (i == qp->fails_after) {
			*bad = wr;
			return ENOMEM;
		}
	return 0;
}

static inline int null_poll_cq(struct ibv_cq *ibcq, int room, struct ibv_wc *wc)
{
	struct null_cq *cq = (struct null_cq *)ibcq;
	int count = 0;

	while (count < room && cq->head != cq->tail)
		wc[count++] = cq->queue[cq->head++ % NULL_CQ];
	return count;
}

/* --- ibv_wr_* --- */

static inline void null_wr(struct ibv_qp_ex *ex)
{
	struct null_qp *qp = (struct null_qp *)ex;

	qp->open += qp->signals_all || ex->wr_flags & IBV_SEND_SIGNALED;
}
static inline void null_wr_rdma(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at)
{
	(void)rkey;
	(void)at;
	null_wr(ex);
}
static inline void null_wr_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, __be32 imm)
{
	(void)imm;
	null_wr_rdma(ex, rkey, at);
}
static inline void null_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	(void)ex;
	(void)lkey;
	(void)addr;
	(void)length;
}
static inline void null_set_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	(void)ex;
	(void)count;
	(void)list;
}
static inline void null_set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	(void)ex;
	(void)addr;
	(void)length;
}
static inline void null_start(struct ibv_qp_ex *ex)
{
	((struct null_qp *)ex)->open = 0;
}
static inline int null_finish(struct ibv_qp_ex *ex)
{
	struct null_qp *qp = (struct null_qp *)ex;

	if (qp->fails_after >= 0)
		return ENOMEM;
	for (; !qp->drops && qp->open; qp->open--)
		null_complete(qp->send, &(struct ibv_wc){.qp_num = ex->qp_base.qp_num});
	return 0;
}

/* --- ibv_start_poll() --- */

static inline const struct ibv_wc *null_current(struct ibv_cq_ex *ex)
{
	struct null_cq *cq = (struct null_cq *)ex;

	return &cq->queue[(cq->head - 1) % NULL_CQ];
}
static inline int null_next(struct ibv_cq_ex *ex)
{
	struct null_cq *cq = (struct null_cq *)ex;

	if (cq->head == cq->tail)
		return ENOENT;
	cq->head++;
	ex->status = null_current(ex)->status;
	return 0;
}
static inline int null_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	(void)attr;
	return null_next(ex);
}
static inline uint32_t null_read_qpn(struct ibv_cq_ex *ex)
{
	return null_current(ex)->qp_num;
}
static inline enum ibv_wc_opcode null_read_opcode(struct ibv_cq_ex *ex)
{
	return null_current(ex)->opcode;
}
static inline uint32_t null_read_length(struct ibv_cq_ex *ex)
{
	return null_current(ex)->byte_len;
}

static inline struct ibv_cq_ex *null_create_cq_ex(struct ibv_context *context,
						  struct ibv_cq_init_attr_ex *attr)
{
	struct null_cq *cq = null_keep(sizeof(*cq));

	(void)attr;
	cq->ex.context = context;
	cq->ex.start_poll = null_start_poll;
	cq->ex.next_poll = null_next;
	cq->ex.read_qp_num = null_read_qpn;
	cq->ex.read_opcode = null_read_opcode;
	cq->ex.read_byte_len = null_read_length;
	return &cq->ex;
}

/* --- objects --- */

static inline struct ibv_qp *null_make_qp(struct ibv_context *context, struct ibv_cq *send,
					  struct ibv_cq *receive, bool signals_all,
					  enum ibv_qp_type type)
{
	struct null_qp *qp = null_keep(sizeof(*qp));
	struct ibv_qp_ex *ex = &qp->ex;

	ex->qp_base.context = context;
	ex->qp_base.qp_num = __atomic_add_fetch(&null_of(context)->next_qpn, 1, __ATOMIC_SEQ_CST);
	ex->qp_base.qp_type = type;
	ex->wr_start = null_start;
	ex->wr_complete = null_finish;
	ex->wr_abort = null_start;
	ex->wr_send = null_wr;
	ex->wr_rdma_write = ex->wr_rdma_read = null_wr_rdma;
	ex->wr_rdma_write_imm = null_wr_imm;
	ex->wr_set_sge = null_set_sge;
	ex->wr_set_sge_list = null_set_list;
	ex->wr_set_inline_data = null_set_inline;
	qp->send = (struct null_cq *)send;
	qp->receive = (struct null_cq *)receive;
	qp->signals_all = signals_all;
	qp->fails_after = -1;
	return &ex->qp_base;
}

static inline struct ibv_qp *null_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return null_make_qp(pd->context, attr->send_cq, attr->recv_cq, attr->sq_sig_all,
			    attr->qp_type);
}

static inline struct ibv_qp *null_create_qp_ex(struct ibv_context *context,
					       struct ibv_qp_init_attr_ex *attr)
{
	return null_make_qp(context, attr->send_cq, attr->recv_cq, attr->sq_sig_all, attr->qp_type);
}

/* As mlx5 does: wr_complete is another one from now on. */
static inline int null_finish_ready(struct ibv_qp_ex *ex)
{
	return null_finish(ex);
}

static inline int null_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTS)
		((struct ibv_qp_ex *)qp)->wr_complete = null_finish_ready;
	return 0;
}

static inline int null_destroy_qp(struct ibv_qp *qp)
{
	null_free(qp);
	return 0;
}

static inline int null_destroy_cq(struct ibv_cq *cq)
{
	null_free(cq);
	return 0;
}

static inline struct ibv_context *null_open(struct ibv_device *device)
{
	struct null_device *null = (struct null_device *)device;
	struct verbs_context *context = &null->context;

	memset(context, 0, sizeof(*context));
	context->context.device = device;
	context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->sz = sizeof(*context);
	context->create_qp_ex = null_create_qp_ex;
	context->create_cq_ex = null_create_cq_ex;
	context->context.ops.post_send = null_post_send;
	context->context.ops.post_recv = null_post_recv;
	context->context.ops.poll_cq = null_poll_cq;
	return &context->context;
}

static inline int null_close(struct ibv_context *context)
{
	(void)context;
	return 0;
}

static inline int null_query_gid(struct ibv_context *context, uint8_t port, int index,
				 union ibv_gid *gid)
{
	(void)context;
	(void)port;
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	gid->raw[12] = 10;
	gid->raw[15] = (uint8_t)index;
	return 0;
}

static inline const char *null_name(struct ibv_device *device)
{
	return device->name;
}

static inline struct ibv_qp_ex *null_to_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)qp;
}

/* Puts it behind the shim, and makes a device of it. */
static inline void null_begin(struct null_device *null)
{
	memset(null, 0, sizeof(*null));
	strcpy(null->device.name, "null0");
	shim_real = (struct shim_real){.open_device = null_open,
				       .close_device = null_close,
				       .create_qp = null_create_qp,
				       .modify_qp = null_modify_qp,
				       .destroy_qp = null_destroy_qp,
				       .destroy_cq = null_destroy_cq,
				       .query_gid = null_query_gid,
				       .get_device_name = null_name,
				       .qp_to_qp_ex = null_to_ex};
}

#endif
