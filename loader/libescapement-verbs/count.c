// SPDX-License-Identifier: BSD-2-Clause
/*
 * Queue pairs of this process and their counts. On the data path: atomic additions to memory that
 * is mapped, and a time of the vDSO for one message in 16; no lock, no system call, no allocation.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "file.h"
#include "shim.h"

#define TABLE 4096 /* a power of two, at most a quarter full */
#define PROBES 16

bool shim_counts;

static struct segment *segment;
static struct shim_qp qps[SEGMENT_QPS];
static struct shim_qp *table[TABLE]; /* by context and number; read without a lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t untracked_contexts;
static uint32_t next_slot; /* where the search for a free one goes on */

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define ADD(field, value) __atomic_fetch_add(&(field), (value), __ATOMIC_RELAXED)

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* --- the segment --- */

static void write_header(struct segment_header *header)
{
	header->version = SEGMENT_VERSION;
	file_identify(header->comm, header->rank, header->job_id);
	__atomic_store_n(&header->magic, SEGMENT_MAGIC, __ATOMIC_RELEASE);
}

/* The segment is the parent's. It stays mapped: a child of a bare clone() would fault without. */
static void stop_in_child(void)
{
	shim_counts = false;
}

bool shim_may_count(void)
{
	return file_may_write(stop_in_child);
}

/* With the first queue pair: many programs open devices and use none. Under the lock. */
static bool begin(void)
{
	if (!segment)
		segment = file_make(SEGMENT_BYTES);
	if (segment && !shim_counts) {
		segment->header.untracked_contexts = untracked_contexts;
		write_header(&segment->header);
		__atomic_store_n(&shim_counts, true, __ATOMIC_RELEASE);
	}
	return segment;
}

void shim_count_untracked_context(void)
{
	ADD(untracked_contexts, 1);
	if (shim_counts)
		ADD(segment->header.untracked_contexts, 1);
}

void shim_count_unknown(void)
{
	ADD(segment->header.unknown_completions, 1);
}

__thread unsigned int shim_polls;

void shim_count_polls(void)
{
	ADD(segment->header.polls, 1);
}

/* --- the table --- */

static struct shim_qp **place_of(const struct ibv_context *context, uint32_t qpn,
				 unsigned int probe)
{
	uint64_t key =
		((uintptr_t)context >> 4) * 0x9e3779b97f4a7c15ull ^ qpn * 0xff51afd7ed558ccdull;

	return &table[((key >> 40) + probe) & (TABLE - 1)];
}

static bool is_of(const struct shim_qp *qp, const struct ibv_context *context, uint32_t qpn)
{
	return qp && qp->context == context && qp->qpn == qpn;
}

struct shim_qp *shim_find(const struct ibv_context *context, uint32_t qpn)
{
	for (unsigned int i = 0; i < PROBES; i++) {
		struct shim_qp *qp = __atomic_load_n(place_of(context, qpn, i), __ATOMIC_ACQUIRE);

		if (is_of(qp, context, qpn))
			return qp;
	}
	return NULL;
}

/* False: all the places for its key are taken. */
static bool table_add(struct shim_qp *qp)
{
	for (unsigned int i = 0; i < PROBES; i++) {
		struct shim_qp **place = place_of(qp->context, qp->qpn, i);

		if (!*place) {
			__atomic_store_n(place, qp, __ATOMIC_RELEASE);
			return true;
		}
	}
	return false;
}

static void table_remove(const struct shim_qp *qp)
{
	for (unsigned int i = 0; i < PROBES; i++) {
		struct shim_qp **place = place_of(qp->context, qp->qpn, i);

		if (*place == qp)
			__atomic_store_n(place, NULL, __ATOMIC_RELEASE);
	}
}

/* A slot that was never used, else the one that ended and was looked at longest ago; or NULL. */
static struct segment_qp *take_slot(void)
{
	uint32_t used = segment->header.used;

	if (used < SEGMENT_QPS) {
		__atomic_store_n(&segment->header.used, used + 1, __ATOMIC_RELEASE);
		return &segment->qps[used];
	}
	for (unsigned int i = 0; i < SEGMENT_QPS; i++) {
		struct segment_qp *slot = &segment->qps[next_slot++ % SEGMENT_QPS];

		if (slot->state != SEGMENT_LIVE)
			return slot;
	}
	return NULL;
}

static void write_begin(struct segment_qp *slot)
{
	__atomic_store_n(&slot->writing, slot->written + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void write_end(struct segment_qp *slot)
{
	__atomic_store_n(&slot->written, slot->writing, __ATOMIC_RELEASE);
}

static void set_state(struct segment_qp *slot, enum segment_state state)
{
	write_begin(slot);
	slot->state = state;
	write_end(slot);
}

static void fill_slot(struct segment_qp *slot, const struct ibv_qp *qp, bool timed)
{
	const char *device = shim_real.get_device_name(qp->context->device);
	uint32_t generation = slot->generation, written = slot->written;

	write_begin(slot);
	memset((char *)slot + offsetof(struct segment_qp, state), 0,
	       offsetof(struct segment_qp, reserved2) - offsetof(struct segment_qp, state));
	memset(slot->messages, 0, sizeof(*slot) - offsetof(struct segment_qp, messages));
	slot->writing = written + 1;
	slot->state = SEGMENT_LIVE;
	slot->generation = generation + 1;
	slot->first_local_ns = now_ns();
	slot->qpn = qp->qp_num;
	slot->type = qp->qp_type;
	slot->qp_state = IBV_QPS_RESET;
	slot->untimed = !timed;
	strncpy(slot->device, device ? device : "", sizeof(slot->device) - 1);
	write_end(slot);
}

static void remove_locked(struct shim_qp *qp)
{
	table_remove(qp);
	set_state(qp->slot, SEGMENT_ENDED);
}

struct shim_qp *shim_add(struct ibv_qp *ibqp, bool signals_all, bool timed)
{
	struct shim_qp *qp = NULL, *before;
	struct segment_qp *slot;

	if (!shim_may_count())
		return NULL;
	pthread_mutex_lock(&lock);
	if (!begin())
		goto out;
	/* Its context was closed with it, and another one has its address now. */
	before = shim_find(ibqp->context, ibqp->qp_num);
	if (before)
		remove_locked(before);
	slot = take_slot();
	if (slot) {
		qp = &qps[slot - segment->qps];
		*qp = (struct shim_qp){.slot = slot,
				       .context = ibqp->context,
				       .qpn = ibqp->qp_num,
				       .signals_all = signals_all,
				       .is_ordered = timed && ibqp->qp_type == IBV_QPT_RC,
				       .timed = timed};
		fill_slot(slot, ibqp, timed);
		if (!table_add(qp)) {
			set_state(slot, SEGMENT_ENDED);
			qp = NULL;
		}
	}
	if (!qp)
		ADD(segment->header.untracked_qps, 1);
out:
	pthread_mutex_unlock(&lock);
	return qp;
}

void shim_remove(struct shim_qp *qp, uint32_t generation)
{
	pthread_mutex_lock(&lock);
	/* Its number may have been another one's at once, which ended it. */
	if (qp->slot->generation == generation && qp->slot->state == SEGMENT_LIVE)
		remove_locked(qp);
	pthread_mutex_unlock(&lock);
}

/* --- attributes --- */

static void set_path(struct shim_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_ah_attr *path = &attr->ah_attr;
	struct segment_qp *slot = qp->slot;
	union ibv_gid local;
	uint8_t port = path->port_num;

	slot->dest_qpn = attr->dest_qp_num;
	slot->path_mtu = attr->path_mtu <= IBV_MTU_4096 ? 128u << attr->path_mtu : 0;
	slot->port = port;
	slot->flags |= SEGMENT_HAS_PATH;
	if (!path->is_global)
		return;
	memcpy(slot->remote, &path->grh.dgid, sizeof(slot->remote));
	slot->flow_label = path->grh.flow_label;
	slot->traffic_class = path->grh.traffic_class;
	slot->sgid_index = path->grh.sgid_index;
	if (!shim_real.query_gid(qp->context, port, path->grh.sgid_index, &local))
		memcpy(slot->local, &local, sizeof(slot->local));
}

void shim_set_attributes(struct shim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct segment_qp *slot = qp->slot;

	pthread_mutex_lock(&lock);
	write_begin(slot);
	if (mask & IBV_QP_STATE) {
		slot->qp_state = attr->qp_state;
		if (attr->qp_state == IBV_QPS_RESET) {
			/* A new one in RESET has nothing to forget; the other end may not be reset.
			 */
			if (slot->epoch++ || qp->ends[0].numbers || qp->ends[1].numbers)
				shim_stop_samples(qp);
			__atomic_store_n(&qp->sampled, 0, __ATOMIC_RELAXED);
			slot->signaled = slot->completed;
			slot->untimed = !qp->timed;
		}
	}
	if (mask & IBV_QP_AV && mask & IBV_QP_DEST_QPN)
		set_path(qp, attr);
	if (mask & IBV_QP_TIMEOUT) {
		slot->ack_timeout = attr->timeout;
		slot->flags |= SEGMENT_HAS_TIMER;
	}
	if (mask & IBV_QP_RETRY_CNT)
		slot->retry_count = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		slot->rnr_retry = attr->rnr_retry;
	write_end(slot);
	pthread_mutex_unlock(&lock);
}

/* --- posts --- */

static unsigned int samples_until(uint64_t number)
{
	return (number + SEGMENT_SAMPLE_EVERY - 1) / SEGMENT_SAMPLE_EVERY;
}

uint64_t shim_begin_post(struct shim_qp *qp, unsigned int count)
{
	uint64_t before = ADD(qp->slot->signaled, count), last = before + count;

	if (samples_until(before) == samples_until(last) || GET(qp->slot->untimed) ||
	    __atomic_load_n(&qp->sampled, __ATOMIC_ACQUIRE))
		return last;
	SET(qp->sampled_ns, now_ns());
	__atomic_store_n(&qp->sampled, last, __ATOMIC_RELEASE);
	return last;
}

void shim_undo_post(struct shim_qp *qp, uint64_t last, unsigned int count)
{
	if (!count)
		return;
	ADD(qp->slot->signaled, -(uint64_t)count);
	__atomic_compare_exchange_n(&qp->sampled, &last, 0, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

void shim_count_message(struct shim_qp *qp, enum segment_kind kind, uint64_t bytes, int sign)
{
	struct segment_qp *slot = qp->slot;

	ADD(slot->messages[kind], (uint64_t)sign);
	ADD(slot->bytes[kind], sign < 0 ? -bytes : bytes);
	ADD(slot->sizes[segment_size_bucket(bytes)], (uint32_t)sign);
}

/* --- messages at both ends --- */

/* Between two samples of one end of a queue pair. */
#define PACE_LEAST_NS 50000000ull
#define PACE_MOST_NS 200000000ull
#define SHIFT_MOST 24

uint64_t shim_number(struct shim_qp *qp, enum segment_end end, unsigned int count)
{
	return ADD(qp->ends[end].numbers, count);
}

void shim_take_sample(struct shim_qp *qp, enum segment_end end, uint64_t number, uint64_t bytes,
		      struct shim_sample *sample)
{
	unsigned int shift = GET(qp->ends[end].shift);
	uint64_t ns, since;

	if (number & ((1ull << shift) - 1) || !GET(qp->is_ordered) || sample->ns)
		return;
	ns = now_ns();
	since = ns - GET(qp->ends[end].sampled_ns);
	SET(qp->ends[end].sampled_ns, ns);
	if (since < PACE_LEAST_NS && shift < SHIFT_MOST)
		SET(qp->ends[end].shift, shift + 1);
	else if (since > PACE_MOST_NS && shift)
		SET(qp->ends[end].shift, shift - 1);
	*sample = (struct shim_sample){number, ns, (uint32_t)bytes};
}

void shim_put_sample(struct shim_qp *qp, enum segment_end end, const struct shim_sample *sample)
{
	uint64_t place = ADD(segment->header.samples, 1);
	struct segment_sample *to = &segment->samples[place % SEGMENT_SAMPLES];

	__atomic_store_n(&to->place, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	to->local_ns = sample->ns;
	to->number = sample->number;
	to->bytes = sample->bytes;
	to->generation = qp->slot->generation;
	to->slot = (uint16_t)(qp->slot - segment->qps);
	to->end = end;
	__atomic_store_n(&to->place, (uint32_t)place + 1, __ATOMIC_RELEASE);
}

void shim_stop_samples(struct shim_qp *qp)
{
	SET(qp->is_ordered, false);
}

void shim_return_numbers(struct shim_qp *qp, uint64_t next, unsigned int count)
{
	/* Another thread has posted meanwhile. */
	if (count &&
	    !__atomic_compare_exchange_n(&qp->ends[SEGMENT_POSTED].numbers, &next, next - count,
					 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		shim_stop_samples(qp);
}

static void count_receive(struct shim_qp *qp, uint32_t bytes)
{
	struct shim_sample sample = {};

	shim_take_sample(qp, SEGMENT_RECEIVED, shim_number(qp, SEGMENT_RECEIVED, 1), bytes,
			 &sample);
	if (sample.ns)
		shim_put_sample(qp, SEGMENT_RECEIVED, &sample);
}

/* --- completions --- */

static void end_sample(struct shim_qp *qp)
{
	uint64_t ns = now_ns() - GET(qp->sampled_ns);

	__atomic_store_n(&qp->sampled, 0, __ATOMIC_RELEASE);
	ADD(qp->slot->latencies[segment_latency_bucket(ns)], 1);
	ADD(qp->slot->latency_sum_ns, ns);
	if (ns > GET(qp->slot->latency_max_ns))
		SET(qp->slot->latency_max_ns, ns);
}

/* The numbers of operations and of completions do not belong together any more. */
static void stop_timing(struct shim_qp *qp)
{
	SET(qp->slot->untimed, 1);
	shim_stop_samples(qp);
	__atomic_store_n(&qp->sampled, 0, __ATOMIC_RELAXED);
}

void shim_count_completion(struct shim_qp *qp, enum ibv_wc_status status, unsigned int opcode,
			   uint32_t bytes)
{
	struct segment_qp *slot = qp->slot;

	if (status) {
		/* What else it has is not valid, and operations without a completion get one. */
		ADD(slot->statuses[status < SEGMENT_STATUSES ? status : SEGMENT_STATUSES - 1], 1);
		stop_timing(qp);
	} else if (opcode == IBV_WC_RECV || opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		ADD(slot->received, 1);
		count_receive(qp, bytes);
		/* A datagram begins with room for a GRH. */
		ADD(slot->received_bytes,
		    slot->type == IBV_QPT_UD && bytes >= 40 ? bytes - 40 : bytes);
		if (opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			ADD(slot->received_imm, 1);
	} else if (opcode < IBV_WC_RECV) {
		uint64_t number = ADD(slot->completed, 1) + 1;

		if (number == __atomic_load_n(&qp->sampled, __ATOMIC_ACQUIRE))
			end_sample(qp);
	} else {
		stop_timing(qp);
	}
}
