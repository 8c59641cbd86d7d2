// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables that NCCL and RCCL look up, one for each version of the API; the newest that the
 * library knows is used. No call fails: what is not understood has no handle, and is counted.
 */
#include "track.h"

#define NAME "escapement"
#define MASK (ABI_COLL | ABI_P2P | ABI_PROXY_OP | ABI_PROXY_STEP | ABI_NET_PLUGIN)
/* Types that NCCL starts as parents of those, although they are not asked for. */
#define PARENTS (ABI_GROUP | ABI_GROUP_API | ABI_COLL_API | ABI_P2P_API | ABI_KERNEL_LAUNCH)

/* --- names and sizes --- */

/* Of version 1, whose descriptions have numbers. */
static const char *name_of(const char *const names[], size_t count, unsigned int number)
{
	return number < count ? names[number] : NULL;
}
#define NAME_OF(names, number) name_of(names, sizeof(names) / sizeof((names)[0]), number)

static const char *const funcs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
				    "AllReduce", "SendRecv", "Send",	  "Recv"};
static const char *const algos[] = {"TREE",	 "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
				    "NVLS_TREE", "PAT"};
static const char *const protos[] = {"LL", "LL128", "SIMPLE"};
static const uint8_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static uint64_t bytes_of_v1(uint64_t count, unsigned int datatype)
{
	return datatype < sizeof(type_bytes) ? count * type_bytes[datatype] : 0;
}

/* "ncclFloat32": the first number in a name is of bits. 0: not known. */
static uint64_t bytes_of(uint64_t count, const char *datatype)
{
	unsigned int bits = 0;

	while (datatype && *datatype && (*datatype < '0' || *datatype > '9'))
		datatype++;
	while (datatype && *datatype >= '0' && *datatype <= '9' && bits < 128)
		bits = bits * 10 + (unsigned int)(*datatype++ - '0');
	return count * (bits / 8);
}

/* --- descriptions, by version --- */

static struct track_call coll_of(unsigned int abi, const struct abi_event *event)
{
	struct track_call call = {.kind = NCCL_COLL, .rank = event->rank};

	if (abi == 1) {
		const struct abi_coll_v1 *is = &event->coll_v1;

		call.func = NAME_OF(funcs, is->func);
		call.algo = NAME_OF(algos, is->algo);
		call.proto = NAME_OF(protos, is->proto);
		call.bytes = bytes_of_v1(is->count, is->datatype);
		call.peer = is->root;
	} else if (abi == 2) {
		const struct abi_coll_v2 *is = &event->coll_v2;

		call.func = is->func;
		call.algo = is->algo;
		call.proto = is->proto;
		call.bytes = bytes_of(is->count, is->datatype);
		call.peer = is->root;
	} else if (abi == 3) {
		const struct abi_coll_v3 *is = &event->coll_v3;

		call.func = is->func;
		call.algo = is->algo;
		call.proto = is->proto;
		call.bytes = bytes_of(is->count, is->datatype);
		call.peer = is->root;
	} else {
		const struct abi_coll_v4 *is = &event->coll_v4;

		call.func = is->func;
		call.algo = is->algo;
		call.proto = is->proto;
		call.bytes = bytes_of(is->count, is->datatype);
		call.peer = is->root;
		call.sequence = is->sequence;
		return call;
	}
	/* Until version 3 these are the first members. */
	call.name = event->coll_v1.name;
	call.hash = event->coll_v1.hash;
	call.sequence = event->coll_v1.sequence;
	return call;
}

static struct track_call p2p_of(unsigned int abi, const struct abi_event *event)
{
	struct track_call call = {.kind = NCCL_P2P, .rank = event->rank};

	if (abi == 1) {
		call.func = NAME_OF(funcs, event->p2p_v1.func);
		call.bytes = bytes_of_v1(event->p2p_v1.count, event->p2p_v1.datatype);
		call.peer = event->p2p_v1.peer;
	} else if (abi <= 3) {
		call.func = event->p2p_v2.func;
		call.bytes = bytes_of(event->p2p_v2.count, event->p2p_v2.datatype);
		call.peer = event->p2p_v2.peer;
	} else {
		call.func = event->p2p_v4.func;
		call.bytes = bytes_of(event->p2p_v4.count, event->p2p_v4.datatype);
		call.peer = event->p2p_v4.peer;
		return call;
	}
	call.name = event->p2p_v1.name;
	call.hash = event->p2p_v1.hash;
	return call;
}

static int start(unsigned int abi, void *context, void **handle, const struct abi_event *event)
{
	uint64_t type;
	struct track_call call;

	if (!handle)
		return ABI_SUCCESS;
	*handle = NULL;
	if (!event)
		return ABI_SUCCESS;
	type = abi < 5 ? event->type_v1 : event->type_v5;
	if (type == ABI_COLL || type == ABI_P2P) {
		call = type == ABI_COLL ? coll_of(abi, event) : p2p_of(abi, event);
		*handle = track_begin_call(context, &call);
	} else if (type == ABI_PROXY_OP) {
		*handle = track_begin_op(event->parent, &event->proxy_op);
	} else if (type == ABI_PROXY_STEP) {
		*handle = track_begin_step(event->parent);
	} else if (type == ABI_NET_PLUGIN && abi >= 3) {
		*handle = track_begin_net(event->parent, event->net.id, event->net.data);
	} else if (!(type & PARENTS)) {
		track_unknown();
	}
	return ABI_SUCCESS;
}

static int stop(void *handle)
{
	track_end(handle);
	return ABI_SUCCESS;
}

/* Until version 3 operations have bytes, and steps from version 4 on. */
static int record_v1(void *handle, int state, const union abi_args *args)
{
	track_state(handle, state, args && state <= ABI_OP_RECV_DONE ? args->bytes : 0);
	return ABI_SUCCESS;
}

static int record_v4(void *handle, int state, const union abi_args *args)
{
	bool has_bytes = args && (state == ABI_SEND_WAIT || state == ABI_RECV_FLUSH_WAIT);

	track_state(handle, state, has_bytes ? args->bytes : 0);
	return ABI_SUCCESS;
}

static int finalize(void *context)
{
	track_end_comm(context);
	return ABI_SUCCESS;
}

static int begin(unsigned int abi, void **context, int *mask, const char *name, uint64_t hash,
		 int nodes, int ranks, int rank)
{
	if (!context || !mask)
		return ABI_SUCCESS;
	*context = track_begin_comm(abi, name, hash, nodes, ranks, rank);
	/* One mask is of all communicators: what another one is recorded for goes on. */
	if (*context)
		*mask = MASK;
	else if (!track_segment())
		*mask = 0;
	return ABI_SUCCESS;
}

/* --- the tables --- */

#define START(abi)                                                                                 \
	static int start_v##abi(void *context, void **handle, const struct abi_event *event)       \
	{                                                                                          \
		return start(abi, context, handle, event);                                         \
	}

#define PROFILER_V1(abi)                                                                           \
	START(abi)                                                                                 \
	static int init_v##abi(void **context, int *mask)                                          \
	{                                                                                          \
		return begin(abi, context, mask, NULL, 0, 0, 0, -1);                               \
	}                                                                                          \
	extern const struct abi_profiler_v1 ncclProfiler_v##abi;                                   \
	const struct abi_profiler_v1 ncclProfiler_v##abi = {NAME, init_v##abi, start_v##abi,       \
							    stop, record_v1,   finalize};

#define PROFILER_V5(abi)                                                                           \
	START(abi)                                                                                 \
	static int init_v##abi(void **context, uint64_t hash, int *mask, const char *name,         \
			       int nodes, int ranks, int rank, abi_log_fn *log)                    \
	{                                                                                          \
		(void)log;                                                                         \
		return begin(abi, context, mask, name, hash, nodes, ranks, rank);                  \
	}                                                                                          \
	extern const struct abi_profiler_v5 ncclProfiler_v##abi;                                   \
	const struct abi_profiler_v5 ncclProfiler_v##abi = {NAME, init_v##abi, start_v##abi,       \
							    stop, record_v4,   finalize};

PROFILER_V1(1)
PROFILER_V1(2)
PROFILER_V1(3)

START(4)
static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
		   int rank, abi_log_fn *log)
{
	(void)log;
	return begin(4, context, mask, name, hash, nodes, ranks, rank);
}
extern const struct abi_profiler_v4 ncclProfiler_v4;
const struct abi_profiler_v4 ncclProfiler_v4 = {NAME, init_v4, start_v4, stop, record_v4, finalize};

PROFILER_V5(5)
PROFILER_V5(6)
PROFILER_V5(7)
