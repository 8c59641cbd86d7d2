// SPDX-License-Identifier: BSD-2-Clause
/*
 * The functions that programs bind by name, and those of an opened context, which the inline
 * functions of verbs.h call. Whatever goes wrong here, the call goes through to what was there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "shim.h"

struct shim_real shim_real;

static struct shim_context contexts[SHIM_CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- libibverbs --- */

/* By its name: RTLD_NEXT finds nothing for a program that opened us with dlopen(). */
static void find_real(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	int err = errno;

	if (!library)
		return;
#define FIND(name, version)                                                                        \
	if (!shim_real.name)                                                                       \
	shim_real.name = (__typeof__(shim_real.name))dlvsym(library, "ibv_" #name, version)
	FIND(open_device, "IBVERBS_1.1");
	FIND(import_device, "IBVERBS_1.10");
	FIND(close_device, "IBVERBS_1.1");
	FIND(create_qp, "IBVERBS_1.1");
	FIND(modify_qp, "IBVERBS_1.1");
	FIND(destroy_qp, "IBVERBS_1.1");
	FIND(destroy_cq, "IBVERBS_1.1");
	FIND(query_gid, "IBVERBS_1.1");
	FIND(get_device_name, "IBVERBS_1.1");
	FIND(qp_to_qp_ex, "IBVERBS_1.6");
#undef FIND
	errno = err;
}

/* False, with errno: this libibverbs has no such function. */
#define real_has(name)                                                                             \
	({                                                                                         \
		pthread_once(&real_once, find_real);                                               \
		if (!shim_real.name)                                                               \
			errno = ENOSYS;                                                            \
		shim_real.name != NULL;                                                            \
	})
static pthread_once_t real_once = PTHREAD_ONCE_INIT;

/* --- contexts --- */

static struct shim_context *place_of(const struct ibv_context *context, unsigned int probe)
{
	return &contexts[(((uintptr_t)context >> 6) + probe) % SHIM_CONTEXTS];
}

/* Called from the functions of a patched context only, so that there is one. */
static const struct shim_context *before_of(const struct ibv_context *context)
{
	for (unsigned int i = 0;; i++) {
		const struct shim_context *before = place_of(context, i);

		if (__atomic_load_n(&before->context, __ATOMIC_ACQUIRE) == context)
			return before;
	}
}

/* --- the data path --- */

/* The list of other operations may be anything. */
static uint64_t bytes_of(const struct ibv_send_wr *wr, enum segment_kind kind)
{
	uint64_t bytes = 0;

	for (int i = 0; kind != SEGMENT_OTHER && i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static enum segment_kind kind_of(const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return SEGMENT_SEND;
	case IBV_WR_RDMA_WRITE:
		return SEGMENT_WRITE;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return SEGMENT_WRITE_IMM;
	case IBV_WR_RDMA_READ:
		return SEGMENT_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return SEGMENT_ATOMIC;
	default:
		return SEGMENT_OTHER;
	}
}

static bool is_signaled(const struct shim_qp *qp, const struct ibv_send_wr *wr)
{
	return qp->signals_all || wr->send_flags & IBV_SEND_SIGNALED;
}

static unsigned int count_signaled(const struct shim_qp *qp, const struct ibv_send_wr *wr)
{
	unsigned int count = 0;

	for (; wr; wr = wr->next)
		count += is_signaled(qp, wr);
	return count;
}

/* How many of a list use a receive. */
static unsigned int count_ordered(const struct ibv_send_wr *wr)
{
	unsigned int count = 0;

	for (; wr; wr = wr->next)
		count += shim_uses_receive(kind_of(wr));
	return count;
}

/*
 * They are read before they are posted: when they have completed, another thread may already have
 * changed them. Those from the one that failed on are still the caller's.
 */
static int post_list(const struct shim_context *before, struct shim_qp *qp, struct ibv_qp *ibqp,
		     struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
	unsigned int signaled = count_signaled(qp, list);
	uint64_t last = signaled ? shim_begin_post(qp, signaled) : 0;
	unsigned int ordered = count_ordered(list), refused;
	uint64_t number = shim_number(qp, SEGMENT_POSTED, ordered), next = number;
	struct shim_sample sample = {};
	int err;

	for (const struct ibv_send_wr *wr = list; wr; wr = wr->next) {
		shim_count_message(qp, kind_of(wr), bytes_of(wr, kind_of(wr)), 1);
		if (shim_uses_receive(kind_of(wr)))
			shim_take_sample(qp, SEGMENT_POSTED, next++, bytes_of(wr, kind_of(wr)),
					 &sample);
	}
	err = before->ops.post_send(ibqp, list, bad);
	refused = err ? count_ordered(*bad) : 0;
	if (sample.ns && sample.number < next - refused)
		shim_put_sample(qp, SEGMENT_POSTED, &sample);
	if (!err)
		return 0;
	shim_return_numbers(qp, next, refused);
	shim_undo_post(qp, last, count_signaled(qp, *bad));
	for (const struct ibv_send_wr *wr = *bad; wr; wr = wr->next)
		shim_count_message(qp, kind_of(wr), bytes_of(wr, kind_of(wr)), -1);
	return err;
}

static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct shim_context *before = before_of(ibqp->context);
	struct shim_qp *qp = shim_counts ? shim_find(ibqp->context, ibqp->qp_num) : NULL;
	struct shim_sample sample = {};
	enum segment_kind kind;
	bool signaled;
	uint64_t bytes, last = 0, number = 0;
	int err;

	if (!qp || !wr)
		return before->ops.post_send(ibqp, wr, bad);
	if (wr->next)
		return post_list(before, qp, ibqp, wr, bad);
	kind = kind_of(wr);
	bytes = bytes_of(wr, kind);
	signaled = is_signaled(qp, wr);
	if (signaled)
		last = shim_begin_post(qp, 1);
	if (shim_uses_receive(kind)) {
		number = shim_number(qp, SEGMENT_POSTED, 1);
		shim_take_sample(qp, SEGMENT_POSTED, number, bytes, &sample);
	}
	err = before->ops.post_send(ibqp, wr, bad);
	if (!err) {
		shim_count_message(qp, kind, bytes, 1);
		if (sample.ns)
			shim_put_sample(qp, SEGMENT_POSTED, &sample);
		return 0;
	}
	shim_undo_post(qp, last, signaled);
	if (shim_uses_receive(kind))
		shim_return_numbers(qp, number + 1, 1);
	return err;
}

static int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
	const struct shim_context *before = before_of(ibqp->context);
	struct shim_qp *qp = shim_counts ? shim_find(ibqp->context, ibqp->qp_num) : NULL;
	uint64_t count = 0;
	int err;

	for (const struct ibv_recv_wr *wr = qp ? list : NULL; wr; wr = wr->next)
		count++;
	err = before->ops.post_recv(ibqp, list, bad);
	for (const struct ibv_recv_wr *wr = qp && err ? *bad : NULL; wr; wr = wr->next)
		count--;
	if (count)
		__atomic_fetch_add(&qp->slot->receives, count, __ATOMIC_RELAXED);
	return err;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int count = before_of(cq->context)->ops.poll_cq(cq, room, wc);
	struct shim_qp *qp = NULL;

	if (!shim_counts)
		return count;
	shim_count_poll();
	for (int i = 0; i < count; i++) {
		if (!qp || qp->qpn != wc[i].qp_num)
			qp = shim_find(cq->context, wc[i].qp_num);
		if (qp)
			shim_count_completion(qp, wc[i].status, wc[i].opcode, wc[i].byte_len);
		else
			shim_count_unknown();
	}
	return count;
}

/* --- queue pairs --- */

static void add_qp(struct ibv_qp *ibqp, bool signals_all, bool timed)
{
	int err = errno;
	struct shim_qp *qp = shim_add(ibqp, signals_all, timed);

	/* NULL for those that have no ibv_wr_*. */
	if (qp && shim_real.qp_to_qp_ex)
		shim_patch_qp(qp, shim_real.qp_to_qp_ex(ibqp));
	errno = err;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = before_of(context)->create_qp_ex(context, attr);

	if (qp)
		add_qp(qp, attr->sq_sig_all, true);
	return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = real_has(create_qp) ? shim_real.create_qp(pd, attr) : NULL;

	if (qp)
		add_qp(qp, attr->sq_sig_all, true);
	return qp;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	int err = real_has(modify_qp) ? shim_real.modify_qp(ibqp, attr, mask) : ENOSYS,
	    saved = errno;
	struct shim_qp *qp;

	if (err || !shim_counts)
		return err;
	qp = shim_find(ibqp->context, ibqp->qp_num);
	/* One of a provider's own function, as mlx5dv_create_qp(). */
	if (!qp && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_INIT) {
		add_qp(ibqp, false, false);
		qp = shim_find(ibqp->context, ibqp->qp_num);
	}
	if (qp) {
		shim_set_attributes(qp, attr, mask);
		shim_patch_qp(qp, qp->extended);
	}
	errno = saved;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct shim_qp *qp = shim_counts ? shim_find(ibqp->context, ibqp->qp_num) : NULL;
	uint32_t generation = qp ? qp->slot->generation : 0;
	int err = real_has(destroy_qp) ? shim_real.destroy_qp(ibqp) : ENOSYS;

	if (!err && qp)
		shim_remove(qp, generation);
	return err;
}

/* --- completion queues of ibv_start_poll() --- */

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = before_of(context)->create_cq_ex(context, attr);

	if (cq)
		shim_patch_cq(cq, attr->wc_flags);
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	uint64_t flags = shim_may_count() ? shim_unpatch_cq(cq) : 0;
	int err = real_has(destroy_cq) ? shim_real.destroy_cq(cq) : ENOSYS;

	if (err && flags)
		shim_patch_cq((struct ibv_cq_ex *)cq, flags);
	return err;
}

/* --- contexts --- */

/*
 * A context ends with what every version has; struct verbs_context grows at its front, and `sz` is
 * its size.
 */
static struct verbs_context *extended_of(struct ibv_context *context)
{
	struct verbs_context *extended = verbs_get_ctx(context);
	size_t least = sizeof(*extended) - offsetof(struct verbs_context, create_cq_ex);

	return extended && extended->sz >= least && extended->sz <= 4096 ? extended : NULL;
}

static void patch(struct ibv_context *context)
{
	struct verbs_context *extended = extended_of(context);
	struct shim_context *before = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; extended && i < SHIM_CONTEXTS; i++) {
		struct shim_context *place = place_of(context, i);

		/* Where one was closed in another way its address may be this one's. */
		if (place->context == context || (!place->context && !before))
			before = place;
	}
	if (before) {
		before->ops = context->ops;
		before->create_qp_ex = extended->create_qp_ex;
		before->create_cq_ex = extended->create_cq_ex;
		__atomic_store_n(&before->context, context, __ATOMIC_RELEASE);
		context->ops.post_send = post_send;
		context->ops.post_recv = post_recv;
		context->ops.poll_cq = poll_cq;
		if (extended->create_qp_ex)
			extended->create_qp_ex = create_qp_ex;
		if (extended->create_cq_ex)
			extended->create_cq_ex = create_cq_ex;
	} else {
		shim_count_untracked_context();
	}
	pthread_mutex_unlock(&lock);
}

/* The context is about to be closed and has no other user. False: it was not patched. */
static bool unpatch(struct ibv_context *context)
{
	struct verbs_context *extended = verbs_get_ctx(context);
	bool done = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; !done && i < SHIM_CONTEXTS; i++) {
		struct shim_context *before = place_of(context, i);

		if (before->context != context)
			continue;
		context->ops.post_send = before->ops.post_send;
		context->ops.post_recv = before->ops.post_recv;
		context->ops.poll_cq = before->ops.poll_cq;
		extended->create_qp_ex = before->create_qp_ex;
		extended->create_cq_ex = before->create_cq_ex;
		__atomic_store_n(&before->context, NULL, __ATOMIC_RELEASE);
		done = true;
	}
	pthread_mutex_unlock(&lock);
	return done;
}

static struct ibv_context *opened(struct ibv_context *context)
{
	int err = errno;

	if (context && shim_may_count())
		patch(context);
	errno = err;
	return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return opened(real_has(open_device) ? shim_real.open_device(device) : NULL);
}

struct ibv_context *ibv_import_device(int fd)
{
	return opened(real_has(import_device) ? shim_real.import_device(fd) : NULL);
}

int ibv_close_device(struct ibv_context *context)
{
	bool was_patched = shim_may_count() && unpatch(context);
	int err = real_has(close_device) ? shim_real.close_device(context) : ENOSYS;

	if (err && was_patched)
		patch(context);
	return err;
}
