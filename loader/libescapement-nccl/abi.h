/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profiler API of NCCL, versions 1 (NCCL 2.23) to 7 (2.31), and of RCCL: our own declarations
 * of what is read of it. In every version a description begins with the type, the parent and the
 * rank, and what follows is a union by the type.
 */
#ifndef ESC_NCCL_ABI_H
#define ESC_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ABI_SUCCESS 0 /* ncclResult_t */

/* Types of events, as bits of the mask; those that are not here are not asked for. */
enum abi_type {
	ABI_GROUP = 1 << 0,
	ABI_COLL = 1 << 1,
	ABI_P2P = 1 << 2,
	ABI_PROXY_OP = 1 << 3,
	ABI_PROXY_STEP = 1 << 4,
	ABI_PROXY_CTRL = 1 << 5,
	ABI_KERNEL_CH = 1 << 6,
	ABI_NET_PLUGIN = 1 << 7,
	ABI_GROUP_API = 1 << 8,
	ABI_COLL_API = 1 << 9,
	ABI_P2P_API = 1 << 10,
	ABI_KERNEL_LAUNCH = 1 << 11,
};

/* States that events pass through. */
enum abi_state {
	/* Of an operation, until version 3: with bytes and steps. */
	ABI_OP_SEND_POSTED = 0,
	ABI_OP_SEND_PEER_WAIT = 1,
	ABI_OP_SENT = 2,
	ABI_OP_SEND_DONE = 3,
	ABI_OP_RECV_POSTED = 4,
	ABI_OP_RECEIVED = 5,
	ABI_OP_RECV_TRANSMITTED = 6,
	ABI_OP_RECV_DONE = 7,
	/* Of a step. */
	ABI_SEND_GPU_WAIT = 8,
	ABI_SEND_WAIT = 9, /* in the network */
	ABI_RECV_WAIT = 10,
	ABI_RECV_FLUSH_WAIT = 11,
	ABI_RECV_GPU_WAIT = 12,
	ABI_CTRL_FIRST = 13,
	ABI_CTRL_LAST = 18,
	ABI_OP_IN_PROGRESS = 19,
	ABI_SEND_PEER_WAIT = 20, /* from version 4 */
	ABI_NET_UPDATE = 21,
	ABI_KERNEL_STOP = 22,
	ABI_GROUP_API_FIRST = 23,
	ABI_GROUP_API_LAST = 24,
};

struct abi_coll_v1 {
	const char *name;
	uint64_t hash, sequence;
	uint8_t func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	uint8_t datatype;
	uint32_t op;
	size_t traffic;
	uint8_t channels, warps, algo, proto;
	int is_collnet, is_nvls;
};

/* Of version 3 the same without `traffic`: see abi_coll_v3. */
struct abi_coll_v2 {
	const char *name;
	uint64_t hash, sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct abi_coll_v3 {
	const char *name;
	uint64_t hash, sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
};

/* Versions 4 to 7, which append to it. */
struct abi_coll_v4 {
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct abi_p2p_v1 {
	const char *name;
	uint64_t hash;
	uint8_t func;
	void *buffer;
	uint8_t datatype;
	size_t count;
	int peer;
};

struct abi_p2p_v2 { /* and 3 */
	const char *name;
	uint64_t hash;
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};

struct abi_p2p_v4 { /* to 7; `channels` is not read: NCCL leaves it unset in some */
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
};

struct abi_proxy_op { /* in all; RCCL's version 6 appends to it */
	pid_t pid;    /* whose parent it is */
	uint8_t channel;
	int peer, steps, chunk_bytes, is_send;
};

struct abi_event {
	union {
		uint8_t type_v1; /* to 4 */
		uint64_t type_v5;
	};
	void *parent;
	int rank;
	union {
		struct abi_coll_v1 coll_v1;
		struct abi_coll_v2 coll_v2;
		struct abi_coll_v3 coll_v3;
		struct abi_coll_v4 coll_v4;
		struct abi_p2p_v1 p2p_v1;
		struct abi_p2p_v2 p2p_v2;
		struct abi_p2p_v4 p2p_v4;
		struct abi_proxy_op proxy_op;
		struct {
			int step;
		} proxy_step;
		struct { /* from version 3 */
			int64_t id;
			void *data;
		} net;
	};
};

/* What a state brings: until version 3 of an operation, from version 4 of a step. */
union abi_args {
	size_t bytes;
};

/* Of the plugin for InfiniBand, when it was built with its events. */
#define ABI_NET_IB_V1 (1 << 16 | 1)
struct abi_net_ib_v1 {
	uint8_t type; /* 1: an operation of a queue pair */
	struct {
		int device;
		uint64_t wr_id;
		int opcode, qpn;
		size_t bytes; /* of a receive it is not set */
	} qp;
};

typedef void abi_log_fn(int level, unsigned long flags, const char *file, int line,
			const char *format, ...);

/* The tables that NCCL looks up by name. */
struct abi_profiler_v1 { /* to 3 */
	const char *name;
	int (*init)(void **context, int *mask);
	int (*start)(void *context, void **handle, const struct abi_event *event);
	int (*stop)(void *handle);
	int (*record)(void *handle, int state, const union abi_args *args);
	int (*finalize)(void *context);
};

struct abi_profiler_v4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, abi_log_fn *log);
	int (*start)(void *context, void **handle, const struct abi_event *event);
	int (*stop)(void *handle);
	int (*record)(void *handle, int state, const union abi_args *args);
	int (*finalize)(void *context);
};

struct abi_profiler_v5 { /* to 7 */
	const char *name;
	int (*init)(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, abi_log_fn *log);
	int (*start)(void *context, void **handle, const struct abi_event *event);
	int (*stop)(void *handle);
	int (*record)(void *handle, int state, const union abi_args *args);
	int (*finalize)(void *context);
};

_Static_assert(offsetof(struct abi_event, parent) == 8 && offsetof(struct abi_event, rank) == 16 &&
		       offsetof(struct abi_event, coll_v1) == 24,
	       "as the compilers of NCCL lay it out");
_Static_assert(offsetof(struct abi_coll_v1, channels) == 80, "version 1");
_Static_assert(offsetof(struct abi_coll_v2, proto) == 96, "version 2");
_Static_assert(offsetof(struct abi_coll_v3, proto) == 88, "version 3");
_Static_assert(offsetof(struct abi_coll_v4, proto) == 72, "version 4");
_Static_assert(offsetof(struct abi_p2p_v4, peer) == 32, "version 4");
_Static_assert(offsetof(struct abi_proxy_op, is_send) == 20, "all versions");
_Static_assert(offsetof(struct abi_net_ib_v1, qp.bytes) == 32, "version 1");

#endif
