// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is in flight, and its records. Nothing is allocated; a lock is only tried, and what it would
 * have to wait for is dropped and counted; the only call is the time, by the vDSO.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "loader/libescapement-verbs/file.h"
#include "track.h"

#define CALLS 4096 /* in flight: older ones are overwritten */
#define OPS 2048
#define OP_PROBES 8
#define STEPS 16 /* of an operation at a time; NCCL has 8 */
#define NETS 24
#define OP_QPS 4
#define OLD_NS 30000000000ull /* then the place of an operation without events is reused */

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define SET(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define ADD(field, value) __atomic_fetch_add(&(field), (value), __ATOMIC_RELAXED)

static uint64_t read_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t (*track_now_ns)(void) = read_clock;

static struct nccl_segment *segment;
static bool counts; /* false in a child of fork() as well */
static pid_t own_pid;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of communicators alone */

/* --- handles --- */

enum handle_kind { HANDLE_NONE, HANDLE_COMM, HANDLE_CALL, HANDLE_OP, HANDLE_STEP, HANDLE_NET };

/* 3 bits of kind, 5 of a place within an operation, 16 of the slot, 40 of its generation. */
struct handle {
	enum handle_kind kind;
	unsigned int place, slot;
	uint64_t generation;
};

#define GENERATION_MASK ((1ull << 40) - 1)

static void *make_handle(enum handle_kind kind, unsigned int place, size_t slot,
			 uint64_t generation)
{
	return (void *)(uintptr_t)((uint64_t)kind << 61 | (uint64_t)place << 56 |
				   (uint64_t)slot << 40 | (generation & GENERATION_MASK));
}

static struct handle read_handle(void *handle)
{
	uint64_t value = (uintptr_t)handle;

	return (struct handle){value >> 61, value >> 56 & 31, value >> 40 & 0xffff,
			       value & GENERATION_MASK};
}

/* --- records --- */

static void put_record(const struct nccl_record *record)
{
	uint64_t place = ADD(segment->header.records, 1);
	struct nccl_record *to = &segment->records[place % NCCL_RECORDS];

	SET(to->place, 0);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(to, record, offsetof(struct nccl_record, place));
	memcpy((char *)to + offsetof(struct nccl_record, peer), &record->peer,
	       sizeof(*to) - offsetof(struct nccl_record, peer));
	__atomic_store_n(&to->place, (uint32_t)place + 1, __ATOMIC_RELEASE);
}

static void put_text(char *out, size_t bytes, const char *text)
{
	size_t i = 0;

	for (; text && i + 1 < bytes && text[i]; i++)
		out[i] = text[i];
	memset(out + i, 0, bytes - i);
}

void track_unknown(void)
{
	if (GET(counts))
		ADD(segment->header.unknown, 1);
}

/* --- communicators --- */

/* What is private to this process of a slot. */
static struct comm {
	uint64_t window_ns, window_records;
	unsigned int shift; /* one collective in 2^shift has its operations recorded */
} comms[NCCL_COMMS];

static void stop_in_child(void)
{
	SET(counts, false);
}

/* Under the lock. */
static bool begin(unsigned int abi)
{
	if (!file_may_write(stop_in_child))
		return false;
	if (segment)
		return true;
	segment = file_make(NCCL_BYTES);
	if (!segment)
		return false;
	own_pid = getpid();
	segment->header.version = NCCL_VERSION;
	segment->header.abi = abi;
	file_identify(segment->header.comm, segment->header.rank, segment->header.job_id);
	__atomic_store_n(&segment->header.magic, NCCL_MAGIC, __ATOMIC_RELEASE);
	__atomic_store_n(&counts, true, __ATOMIC_RELEASE);
	return true;
}

static void write_begin(struct nccl_comm *comm)
{
	__atomic_store_n(&comm->writing, comm->written + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void write_end(struct nccl_comm *comm)
{
	__atomic_store_n(&comm->written, comm->writing, __ATOMIC_RELEASE);
}

/* One that was never used, else the first that has ended. */
static struct nccl_comm *take_comm(void)
{
	uint32_t used = segment->header.used;

	if (used < NCCL_COMMS) {
		__atomic_store_n(&segment->header.used, used + 1, __ATOMIC_RELEASE);
		return &segment->comms[used];
	}
	for (size_t i = 0; i < NCCL_COMMS; i++)
		if (segment->comms[i].state == NCCL_ENDED)
			return &segment->comms[i];
	segment->header.untracked_comms++;
	return NULL;
}

void *track_begin_comm(unsigned int abi, const char *name, uint64_t hash, int nodes, int ranks,
		       int rank)
{
	struct nccl_comm *comm = NULL;
	void *context = NULL;

	if (pthread_mutex_trylock(&lock)) /* held by another thread, or in a parent's child */
		return NULL;
	if (begin(abi))
		comm = take_comm();
	if (comm) {
		write_begin(comm);
		comm->state = NCCL_LIVE;
		SET(comm->generation, comm->generation + 1);
		comm->rank = rank;
		comm->hash = hash;
		comm->ranks = ranks > 0 ? (uint32_t)ranks : 0;
		comm->nodes = nodes > 0 ? (uint32_t)nodes : 0;
		put_text(comm->name, sizeof(comm->name), name);
		SET(comm->collectives, 0);
		SET(comm->messages, 0);
		SET(comm->bytes, 0);
		SET(comm->network_bytes, 0);
		write_end(comm);
		comms[comm - segment->comms] = (struct comm){};
		context = make_handle(HANDLE_COMM, 0, (size_t)(comm - segment->comms),
				      comm->generation);
	}
	pthread_mutex_unlock(&lock);
	return context;
}

/* NULL: of nothing that lives. */
static struct nccl_comm *find_comm(void *context)
{
	struct handle handle = read_handle(context);
	struct nccl_comm *comm;

	if (!GET(counts) || handle.kind != HANDLE_COMM || handle.slot >= NCCL_COMMS)
		return NULL;
	comm = &segment->comms[handle.slot];
	return GET(comm->generation) == handle.generation ? comm : NULL;
}

void track_end_comm(void *context)
{
	struct nccl_comm *comm = find_comm(context);

	if (!comm || pthread_mutex_trylock(&lock))
		return;
	if (comm->state == NCCL_LIVE) {
		write_begin(comm);
		comm->state = NCCL_ENDED;
		write_end(comm);
	}
	pthread_mutex_unlock(&lock);
}

/* Until version 3 the first collective tells what a communicator is. */
static void name_comm(struct nccl_comm *comm, const struct track_call *call)
{
	if (GET(comm->rank) >= 0 || pthread_mutex_trylock(&lock))
		return;
	if (comm->rank < 0) {
		write_begin(comm);
		comm->hash = call->hash;
		put_text(comm->name, sizeof(comm->name), call->name);
		SET(comm->rank, call->rank);
		write_end(comm);
	}
	pthread_mutex_unlock(&lock);
}

/* --- calls: collectives, sends and receives --- */

/* What an operation takes of its call, as words that may be read while they are overwritten. */
struct call {
	char func[16], algo[16];
	char proto[8];
	uint64_t sequence;
	uint32_t comm, generation;
};
#define CALL_WORDS (sizeof(struct call) / sizeof(uint64_t))
_Static_assert(sizeof(struct call) % sizeof(uint64_t) == 0, "whole words");

static struct {
	uint64_t generation; /* stored last; 0: being written */
	uint64_t words[CALL_WORDS];
} calls[CALLS];
static uint64_t calls_begun;

static void *keep_call(const struct call *call)
{
	uint64_t number = ADD(calls_begun, 1) + 1, words[CALL_WORDS];
	size_t slot = number % CALLS;

	memcpy(words, call, sizeof(words));
	SET(calls[slot].generation, 0);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 0; i < CALL_WORDS; i++)
		SET(calls[slot].words[i], words[i]);
	__atomic_store_n(&calls[slot].generation, number & GENERATION_MASK, __ATOMIC_RELEASE);
	return make_handle(HANDLE_CALL, 0, slot, number);
}

static bool find_call(const struct handle *handle, struct call *call)
{
	uint64_t words[CALL_WORDS];

	if (handle->kind != HANDLE_CALL || handle->slot >= CALLS)
		return false;
	if (__atomic_load_n(&calls[handle->slot].generation, __ATOMIC_ACQUIRE) !=
	    handle->generation)
		return false;
	for (size_t i = 0; i < CALL_WORDS; i++)
		words[i] = GET(calls[handle->slot].words[i]);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	memcpy(call, words, sizeof(words));
	return GET(calls[handle->slot].generation) == handle->generation;
}

#define WINDOW_NS 100000000ull
#define WINDOW_MOST (NCCL_RECORDS / 16) /* the daemon reads once a second */
#define WINDOW_LEAST (NCCL_RECORDS / 64)
#define SHIFT_MOST 20

/*
 * All ranks have to record the same collectives: those whose number is divisible by a power of two,
 * the larger the more there are.
 */
static bool is_recorded(struct comm *comm, uint64_t sequence, uint64_t now_ns)
{
	uint64_t records = GET(segment->header.records), window_ns = GET(comm->window_ns);
	uint64_t grown = records - GET(comm->window_records);
	unsigned int shift = GET(comm->shift);

	if (!window_ns || now_ns - window_ns >= WINDOW_NS || grown > 4 * WINDOW_MOST) {
		SET(comm->window_ns, now_ns);
		SET(comm->window_records, records);
		if (!window_ns)
			grown = WINDOW_LEAST;
		if (grown < WINDOW_LEAST && shift)
			shift--;
		for (; grown > WINDOW_MOST && shift < SHIFT_MOST; grown /= 2)
			shift++;
		SET(comm->shift, shift);
	}
	return !(sequence & ((1ull << shift) - 1));
}

void *track_begin_call(void *context, const struct track_call *is)
{
	struct nccl_comm *comm = find_comm(context);
	struct nccl_record record = {.kind = is->kind, .peer = is->peer};
	struct call call = {};
	size_t slot;
	uint64_t count;

	if (!comm)
		return NULL;
	name_comm(comm, is);
	slot = (size_t)(comm - segment->comms);
	count = ADD(*(is->kind == NCCL_COLL ? &comm->collectives : &comm->messages), 1);
	ADD(comm->bytes, is->bytes);
	record.begin_ns = track_now_ns();
	/* Sends and receives have no number. */
	call.sequence = is->kind == NCCL_COLL ? is->sequence : count;
	if (!is_recorded(&comms[slot], call.sequence, record.begin_ns))
		return NULL;
	put_text(call.func, sizeof(call.func), is->func);
	put_text(call.algo, sizeof(call.algo), is->algo);
	put_text(call.proto, sizeof(record.proto), is->proto);
	call.comm = record.comm = (uint16_t)slot;
	call.generation = record.generation = GET(comm->generation);
	record.sequence = call.sequence;
	record.bytes = is->bytes;
	memcpy(record.func, call.func, sizeof(record.func));
	memcpy(record.algo, call.algo, sizeof(record.algo));
	memcpy(record.proto, call.proto, sizeof(record.proto));
	put_record(&record);
	return keep_call(&call);
}

/* --- operations of proxies --- */

enum wait { WAIT_NONE, WAIT_GPU, WAIT_PEER, WAIT_NETWORK, WAITS };

struct op {
	bool busy, used;
	uint32_t generation;
	uint32_t serial; /* of its steps and network events */
	uint64_t last_ns;
	unsigned int waiting[WAITS]; /* steps */
	struct nccl_record record;
	struct {
		uint16_t serial; /* 0: free */
		uint8_t wait;
		uint64_t since_ns;
	} steps[STEPS];
	struct {
		uint16_t serial;
		uint32_t qpn;
		uint64_t begin_ns, bytes;
	} nets[NETS];
	size_t qp_count;
	struct {
		uint32_t qpn, operations;
		uint64_t ns, slowest_ns, bytes;
	} qps[OP_QPS];
};

static struct op ops[OPS];
static uint32_t next_op;

static bool try_lock(struct op *op)
{
	return !__atomic_exchange_n(&op->busy, true, __ATOMIC_ACQUIRE);
}

static void unlock(struct op *op)
{
	__atomic_store_n(&op->busy, false, __ATOMIC_RELEASE);
}

/* The time since the newest event goes to what was waited for. */
static void account(struct op *op, uint64_t now_ns)
{
	uint64_t ns = now_ns > op->last_ns ? now_ns - op->last_ns : 0;
	bool sends = op->record.kind == NCCL_SEND;

	if (op->waiting[WAIT_NETWORK])
		op->record.network_ns += ns;
	else if (op->waiting[WAIT_GPU] && !sends) /* there is data: it is the GPU's turn */
		op->record.gpu_ns += ns;
	else if (op->waiting[WAIT_PEER])
		op->record.peer_ns += ns;
	else if (op->waiting[WAIT_GPU])
		op->record.gpu_ns += ns;
	op->last_ns = now_ns;
}

static void set_wait(struct op *op, unsigned int step, enum wait wait, uint64_t now_ns)
{
	enum wait before = op->steps[step].wait;

	account(op, now_ns);
	if (before == WAIT_NETWORK && now_ns - op->steps[step].since_ns > op->record.slowest_ns)
		op->record.slowest_ns = now_ns - op->steps[step].since_ns;
	op->waiting[before]--;
	op->waiting[wait]++;
	op->steps[step].wait = (uint8_t)wait;
	op->steps[step].since_ns = now_ns;
}

/* Its records; then its place is free. */
static void end_op(struct op *op, unsigned int flags)
{
	struct nccl_record *record = &op->record;

	record->end_ns = op->last_ns;
	record->flags |= (uint8_t)flags;
	if (record->kind == NCCL_SEND)
		ADD(segment->comms[record->comm].network_bytes, record->bytes);
	put_record(record);
	for (size_t i = 0; i < op->qp_count; i++) {
		struct nccl_record qp = *record;

		qp.kind = NCCL_QP;
		qp.qpn = op->qps[i].qpn;
		qp.steps = op->qps[i].operations;
		qp.bytes = op->qps[i].bytes;
		qp.network_ns = op->qps[i].ns;
		qp.slowest_ns = op->qps[i].slowest_ns;
		qp.peer_ns = qp.gpu_ns = 0;
		put_record(&qp);
	}
	op->used = false;
}

/* Locked, its place given to the caller; NULL: there is none. */
static struct op *take_op(uint64_t now_ns)
{
	for (unsigned int i = 0; i < OP_PROBES; i++) {
		struct op *op = &ops[ADD(next_op, 1) % OPS];

		if (!try_lock(op))
			continue;
		if (op->used && now_ns - op->last_ns > OLD_NS)
			end_op(op, NCCL_UNFINISHED);
		if (!op->used)
			return op;
		unlock(op);
	}
	ADD(segment->header.dropped, 1);
	return NULL;
}

void *track_begin_op(void *parent, const struct abi_proxy_op *is)
{
	struct handle handle = read_handle(parent);
	uint32_t generation;
	struct call call;
	uint64_t now_ns;
	struct op *op;

	if (!GET(counts) || !parent)
		return NULL;
	/* A proxy that works for another process has that one's parent. */
	if (is->pid != own_pid) {
		ADD(segment->header.foreign, 1);
		return NULL;
	}
	if (!find_call(&handle, &call)) {
		ADD(segment->header.late, 1);
		return NULL;
	}
	now_ns = track_now_ns();
	op = take_op(now_ns);
	if (!op)
		return NULL;
	generation = op->generation + 1;
	memset((char *)op + offsetof(struct op, used), 0, sizeof(*op) - offsetof(struct op, used));
	op->used = true;
	op->generation = generation;
	op->last_ns = now_ns;
	op->record = (struct nccl_record){.begin_ns = now_ns,
					  .sequence = call.sequence,
					  .kind = is->is_send ? NCCL_SEND : NCCL_RECV,
					  .peer = is->peer,
					  .channel = is->channel,
					  .comm = (uint16_t)call.comm,
					  .generation = call.generation};
	memcpy(op->record.func, call.func, sizeof(call.func));
	memcpy(op->record.algo, call.algo, sizeof(call.algo));
	memcpy(op->record.proto, call.proto, sizeof(op->record.proto));
	unlock(op);
	return make_handle(HANDLE_OP, 0, (size_t)(op - ops), (uint64_t)generation << 16);
}

/* Locked; NULL: it has ended, or another thread has it. */
static struct op *find_op(const struct handle *handle)
{
	struct op *op;

	if (!GET(counts) || handle->slot >= OPS)
		return NULL;
	op = &ops[handle->slot];
	if (!try_lock(op)) {
		ADD(segment->header.dropped, 1);
		return NULL;
	}
	if (op->used && (op->generation & (GENERATION_MASK >> 16)) == handle->generation >> 16)
		return op;
	unlock(op);
	ADD(segment->header.late, 1);
	return NULL;
}

static uint16_t next_serial(struct op *op)
{
	op->serial = op->serial % 0xffff + 1;
	return (uint16_t)op->serial;
}

static void *child_handle(const struct op *op, enum handle_kind kind, unsigned int place,
			  uint16_t serial)
{
	return make_handle(kind, place, (size_t)(op - ops),
			   (uint64_t)op->generation << 16 | serial);
}

void *track_begin_step(void *parent)
{
	struct handle handle = read_handle(parent);
	void *made = NULL;
	struct op *op = handle.kind == HANDLE_OP ? find_op(&handle) : NULL;

	if (!op)
		return NULL;
	for (unsigned int i = 0; i < STEPS && !made; i++) {
		if (op->steps[i].serial)
			continue;
		op->steps[i].serial = next_serial(op);
		op->steps[i].wait = WAIT_NONE;
		op->waiting[WAIT_NONE]++;
		made = child_handle(op, HANDLE_STEP, i, op->steps[i].serial);
	}
	if (!made)
		ADD(segment->header.dropped, 1);
	unlock(op);
	return made;
}

void *track_begin_net(void *parent, int64_t id, const void *data)
{
	struct handle handle = read_handle(parent);
	const struct abi_net_ib_v1 *is = data;
	void *made = NULL;
	struct op *op;

	if (id != ABI_NET_IB_V1 || !data || is->type != 1) {
		track_unknown();
		return NULL;
	}
	op = handle.kind == HANDLE_STEP ? find_op(&handle) : NULL;
	if (!op)
		return NULL;
	for (unsigned int i = 0; i < NETS && !made; i++) {
		if (op->nets[i].serial)
			continue;
		op->nets[i].serial = next_serial(op);
		op->nets[i].qpn = (uint32_t)is->qp.qpn;
		op->nets[i].bytes = op->record.kind == NCCL_SEND ? is->qp.bytes : 0;
		op->nets[i].begin_ns = track_now_ns();
		made = child_handle(op, HANDLE_NET, i, op->nets[i].serial);
	}
	if (!made)
		ADD(segment->header.dropped, 1);
	unlock(op);
	return made;
}

static void end_net(struct op *op, unsigned int place, uint64_t now_ns)
{
	uint64_t ns = now_ns - op->nets[place].begin_ns;
	size_t i = 0;

	while (i < op->qp_count && op->qps[i].qpn != op->nets[place].qpn)
		i++;
	op->nets[place].serial = 0;
	if (i == OP_QPS) {
		ADD(segment->header.dropped, 1);
		return;
	}
	if (i == op->qp_count) {
		op->qp_count++;
		op->qps[i].qpn = op->nets[place].qpn;
	}
	op->qps[i].operations++;
	op->qps[i].bytes += op->nets[place].bytes;
	op->qps[i].ns += ns;
	if (ns > op->qps[i].slowest_ns)
		op->qps[i].slowest_ns = ns;
}

static bool is_step(const struct op *op, const struct handle *handle)
{
	return handle->place < STEPS &&
	       op->steps[handle->place].serial == (handle->generation & 0xffff);
}

static void end_step(struct op *op, unsigned int step, uint64_t now_ns)
{
	set_wait(op, step, WAIT_NONE, now_ns);
	op->waiting[WAIT_NONE]--;
	op->steps[step].serial = 0;
	op->record.steps++;
}

void track_end(void *made)
{
	struct handle handle = read_handle(made);
	struct op *op;

	/* A call ends when it is enqueued, before its operations begin. */
	if (handle.kind < HANDLE_OP || handle.kind > HANDLE_NET)
		return;
	op = find_op(&handle);
	if (!op)
		return;
	if (handle.kind == HANDLE_OP) {
		bool is_whole = true;

		account(op, track_now_ns());
		for (unsigned int i = 0; i < STEPS; i++)
			is_whole = is_whole && !op->steps[i].serial;
		end_op(op, is_whole ? 0 : NCCL_UNFINISHED);
	} else if (handle.kind == HANDLE_STEP && is_step(op, &handle)) {
		end_step(op, handle.place, track_now_ns());
	} else if (handle.kind == HANDLE_NET && handle.place < NETS && handle.generation & 0xffff &&
		   op->nets[handle.place].serial == (handle.generation & 0xffff)) {
		end_net(op, handle.place, track_now_ns());
	} else {
		ADD(segment->header.late, 1);
	}
	unlock(op);
}

/* --- states --- */

static void take_step_state(struct op *op, unsigned int step, int state, uint64_t bytes)
{
	static const uint8_t waits[] = {
		[ABI_SEND_GPU_WAIT] = WAIT_GPU,	  [ABI_SEND_PEER_WAIT] = WAIT_PEER,
		[ABI_SEND_WAIT] = WAIT_NETWORK,	  [ABI_RECV_WAIT] = WAIT_PEER,
		[ABI_RECV_FLUSH_WAIT] = WAIT_GPU, [ABI_RECV_GPU_WAIT] = WAIT_GPU,
	};
	bool is_of_receive = state >= ABI_RECV_WAIT && state <= ABI_RECV_GPU_WAIT;

	if (state < 0 || (size_t)state >= sizeof(waits) || !waits[state] ||
	    is_of_receive != (op->record.kind == NCCL_RECV)) {
		track_unknown();
		return;
	}
	set_wait(op, step, waits[state], track_now_ns());
	/* The size is known from here on. */
	if (bytes && (state == ABI_SEND_WAIT || state == ABI_RECV_FLUSH_WAIT)) {
		op->record.bytes += bytes;
		op->record.flags |= NCCL_HAS_BYTES;
	}
}

/* Until version 3 an operation tells that its oldest step waits for the peer. */
static void take_peer_wait(struct op *op)
{
	unsigned int oldest = STEPS;

	for (unsigned int i = 0; i < STEPS; i++)
		if (op->steps[i].serial && op->steps[i].wait == WAIT_GPU &&
		    (oldest == STEPS || op->steps[i].since_ns < op->steps[oldest].since_ns))
			oldest = i;
	if (oldest < STEPS)
		set_wait(op, oldest, WAIT_PEER, track_now_ns());
}

static void take_op_state(struct op *op, int state, uint64_t bytes)
{
	if (state == ABI_OP_SEND_PEER_WAIT && op->record.kind == NCCL_SEND)
		take_peer_wait(op);
	else if (state != ABI_OP_IN_PROGRESS && (state < 0 || state > ABI_OP_RECV_DONE))
		track_unknown();
	if (bytes > op->record.bytes) {
		op->record.bytes = bytes;
		op->record.flags |= NCCL_HAS_BYTES;
	}
}

void track_state(void *made, int state, uint64_t bytes)
{
	struct handle handle = read_handle(made);
	struct op *op;

	if (handle.kind < HANDLE_OP || handle.kind > HANDLE_STEP)
		return;
	op = find_op(&handle);
	if (!op)
		return;
	if (handle.kind == HANDLE_OP)
		take_op_state(op, state, bytes);
	else if (is_step(op, &handle))
		take_step_state(op, handle.place, state, bytes);
	else
		ADD(segment->header.late, 1);
	unlock(op);
}

const struct nccl_segment *track_segment(void)
{
	return segment;
}
