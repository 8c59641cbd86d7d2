/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What NCCL does with a profiler plugin, of each version of the API: descriptions are written at
 * the places at which NCCL's own headers have them (2.23 to 2.31), not by the plugin's
 * declarations.
 */
#ifndef TESTS_LIB_NCCLHOST_H
#define TESTS_LIB_NCCLHOST_H

#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { HOST_VERSIONS = 7 };
enum { HOST_GROUP = 1, HOST_COLL = 2, HOST_P2P = 4, HOST_OP = 8, HOST_STEP = 16, HOST_NET = 128 };
enum {
	HOST_OP_PEER_WAIT = 1, /* until version 3 */
	HOST_OP_SENT = 2,
	HOST_OP_RECEIVED = 5,
	HOST_SEND_GPU = 8,
	HOST_SEND_WAIT = 9,
	HOST_RECV_WAIT = 10,
	HOST_RECV_FLUSH = 11,
	HOST_RECV_GPU = 12,
	HOST_SEND_PEER = 20,
};

/* A table of the plugin: its functions by place. */
struct host {
	unsigned int version;
	void *const *table; /* name, init, start, stop, record, finalize */
};

static inline int host_init(const struct host *host, void **context, int *mask, const char *name,
			    uint64_t hash, int nodes, int ranks, int rank)
{
	if (host->version <= 3)
		return ((int (*)(void **, int *))host->table[1])(context, mask);
	if (host->version == 4)
		return ((int (*)(void **, int *, const char *, uint64_t, int, int, int,
				 void *))host->table[1])(context, mask, name, hash, nodes, ranks,
							 rank, NULL);
	return ((int (*)(void **, uint64_t, int *, const char *, int, int, int,
			 void *))host->table[1])(context, hash, mask, name, nodes, ranks, rank,
						 NULL);
}

static inline int host_finalize(const struct host *host, void *context)
{
	return ((int (*)(void *))host->table[5])(context);
}

static inline int host_stop(const struct host *host, void *handle)
{
	return ((int (*)(void *))host->table[3])(handle);
}

/* @bytes: of a step or an operation, by the version. */
static inline int host_record(const struct host *host, void *handle, int state, uint64_t bytes)
{
	uint64_t args[4] = {bytes, 0x5555555555555555, 0, 0};

	return ((int (*)(void *, int, void *))host->table[4])(handle, state, args);
}

/* --- descriptions --- */

struct host_event {
	unsigned char bytes[256];
};

static inline void host_put(struct host_event *event, size_t at, const void *value, size_t bytes)
{
	memcpy(event->bytes + at, value, bytes);
}
#define HOST_PUT(event, at, type, value) host_put(event, at, &(type){value}, sizeof(type))

static inline struct host_event host_event(const struct host *host, uint64_t type, void *parent,
					   int rank)
{
	struct host_event event;

	/* What is not set is not zero in some versions. */
	memset(&event, 0xa5, sizeof(event));
	if (host->version <= 4)
		HOST_PUT(&event, 0, uint8_t, (uint8_t)type);
	else
		HOST_PUT(&event, 0, uint64_t, type);
	HOST_PUT(&event, 8, void *, parent);
	HOST_PUT(&event, 16, int, rank);
	return event;
}

static inline void *host_start(const struct host *host, void *context,
			       const struct host_event *event)
{
	void *handle = (void *)0x1234; /* what was there before */

	((int (*)(void *, void **, const void *))host->table[2])(context, &handle, event);
	return handle;
}

/* Where each version has what: sequence, func, count, root, datatype, algorithm, protocol. */
static const struct {
	size_t sequence, func, count, root, datatype, algo, proto;
} host_colls[HOST_VERSIONS + 1] = {
	[1] = {40, 48, 72, 80, 84, 106, 107}, [2] = {40, 48, 72, 80, 88, 112, 120},
	[3] = {40, 48, 72, 80, 88, 104, 112}, [4] = {24, 32, 56, 64, 72, 88, 96},
	[5] = {24, 32, 56, 64, 72, 88, 96},   [6] = {24, 32, 56, 64, 72, 88, 96},
	[7] = {24, 32, 56, 64, 72, 88, 96},
};

/* An all-reduce of @count numbers of 4 bytes by the ring, with the simple protocol. */
static inline void *host_coll(const struct host *host, void *context, uint64_t hash,
			      const char *name, int rank, uint64_t sequence, uint64_t count)
{
	struct host_event event = host_event(host, HOST_COLL, NULL, rank);
	unsigned int v = host->version;

	if (v <= 3) {
		HOST_PUT(&event, 24, const char *, name);
		HOST_PUT(&event, 32, uint64_t, hash);
	}
	HOST_PUT(&event, host_colls[v].sequence, uint64_t, sequence);
	HOST_PUT(&event, host_colls[v].count, uint64_t, count);
	HOST_PUT(&event, host_colls[v].root, int, 0);
	if (v == 1) {
		HOST_PUT(&event, host_colls[v].func, uint8_t, 4);
		HOST_PUT(&event, host_colls[v].datatype, uint8_t, 7);
		HOST_PUT(&event, host_colls[v].algo, uint8_t, 1);
		HOST_PUT(&event, host_colls[v].proto, uint8_t, 2);
	} else {
		HOST_PUT(&event, host_colls[v].func, const char *, "AllReduce");
		HOST_PUT(&event, host_colls[v].datatype, const char *, "ncclFloat32");
		HOST_PUT(&event, host_colls[v].algo, const char *, "RING");
		HOST_PUT(&event, host_colls[v].proto, const char *, "SIMPLE");
	}
	return host_start(host, context, &event);
}

/* A send of @count numbers of 2 bytes. */
static inline void *host_p2p(const struct host *host, void *context, uint64_t hash, int rank,
			     int peer, uint64_t count)
{
	struct host_event event = host_event(host, HOST_P2P, NULL, rank);
	unsigned int v = host->version;
	size_t first = v <= 3 ? 40 : 24;

	if (v <= 3) {
		HOST_PUT(&event, 24, const char *, NULL);
		HOST_PUT(&event, 32, uint64_t, hash);
	}
	if (v == 1) {
		HOST_PUT(&event, first, uint8_t, 6);
		HOST_PUT(&event, first + 16, uint8_t, 9);
	} else {
		HOST_PUT(&event, first, const char *, "Send");
		HOST_PUT(&event, first + 16, const char *, "ncclBfloat16");
	}
	HOST_PUT(&event, first + 24, uint64_t, count);
	HOST_PUT(&event, first + 32, int, peer);
	return host_start(host, context, &event);
}

static inline void *host_op(const struct host *host, void *context, void *parent, pid_t pid,
			    int rank, int channel, int peer, int steps, int is_send)
{
	struct host_event event = host_event(host, HOST_OP, parent, rank);

	HOST_PUT(&event, 24, pid_t, pid);
	HOST_PUT(&event, 28, uint8_t, (uint8_t)channel);
	HOST_PUT(&event, 32, int, peer);
	HOST_PUT(&event, 36, int, steps);
	HOST_PUT(&event, 40, int, 1 << 19);
	HOST_PUT(&event, 44, int, is_send);
	return host_start(host, context, &event);
}

static inline void *host_step(const struct host *host, void *context, void *parent, int rank,
			      int step)
{
	struct host_event event = host_event(host, HOST_STEP, parent, rank);

	HOST_PUT(&event, 24, int, step);
	return host_start(host, context, &event);
}

/* An operation of a queue pair. */
static inline void *host_net(const struct host *host, void *context, void *parent, int rank,
			     int qpn, uint64_t bytes)
{
	struct host_event event = host_event(host, HOST_NET, parent, rank);
	struct host_event data = {};

	HOST_PUT(&data, 0, uint8_t, 1);
	HOST_PUT(&data, 28, int, qpn);
	HOST_PUT(&data, 32, uint64_t, bytes);
	HOST_PUT(&event, 24, int64_t, 1 << 16 | 1);
	HOST_PUT(&event, 32, void *, data.bytes);
	return host_start(host, context, &event);
}

#endif
