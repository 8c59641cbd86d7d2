// SPDX-License-Identifier: BSD-2-Clause
/* The records of a process, as parts of collectives and sums. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* --- parts --- */

static struct nccl_operation *operation_of(struct nccl_rank *rank, const struct nccl_part *part)
{
	struct nccl_operation *operation;

	for (size_t i = 0; i < rank->operation_count; i++) {
		operation = &rank->operations[i];
		if (!strcmp(operation->func, part->func) && !strcmp(operation->algo, part->algo) &&
		    !strcmp(operation->proto, part->proto))
			return operation;
	}
	if (rank->operation_count == OPERATIONS)
		return NULL;
	operation = &rank->operations[rank->operation_count++];
	memcpy(operation->func, part->func, sizeof(part->func));
	memcpy(operation->algo, part->algo, sizeof(part->algo));
	memcpy(operation->proto, part->proto, sizeof(part->proto));
	return operation;
}

/* A part makes room: it is added to the sums. */
static void retire(struct nccl_rank *rank, size_t index)
{
	const struct nccl_part *part = &rank->parts[index];
	struct nccl_operation *sum = operation_of(rank, part);

	if (!sum || !part->end_ns)
		return;
	sum->count++;
	sum->bytes += part->bytes;
	sum->duration_ns += part->end_ns - part->begin_ns;
}

static struct nccl_part *part_of(struct nccl_rank *rank, const struct nccl_record *record,
				 uint64_t now_ns)
{
	struct nccl_part *part;
	size_t index;

	for (size_t i = 0; i < PARTS; i++)
		if (rank->states[i].updated_ns && rank->parts[i].sequence == record->sequence &&
		    !strcmp(rank->parts[i].func, record->func)) {
			rank->states[i].updated_ns = now_ns;
			return &rank->parts[i];
		}
	index = rank->next_part++ % PARTS;
	if (rank->states[index].updated_ns)
		retire(rank, index);
	part = &rank->parts[index];
	*part = (struct nccl_part){
		.rank = rank->is.rank, .sequence = record->sequence, .begin_ns = record->begin_ns};
	memcpy(part->func, record->func, sizeof(part->func));
	memcpy(part->algo, record->algo, sizeof(part->algo));
	memcpy(part->proto, record->proto, sizeof(record->proto));
	rank->states[index].updated_ns = now_ns;
	rank->states[index].judged = false;
	return part;
}

static struct nccl_hop *hop_of(struct nccl_part *part, int32_t peer, bool is_send)
{
	for (size_t i = 0; i < part->hop_count; i++)
		if (part->hops[i].peer == peer && part->hops[i].is_send == is_send)
			return &part->hops[i];
	if (part->hop_count == HOPS)
		return NULL;
	part->hops[part->hop_count] = (struct nccl_hop){.peer = peer, .is_send = is_send};
	return &part->hops[part->hop_count++];
}

static void add_to_sums(struct nccl_rank *rank, const struct nccl_part *part,
			const struct nccl_record *is)
{
	struct nccl_operation *sum = operation_of(rank, part);
	uint64_t idle = is->end_ns - is->begin_ns - is->network_ns - is->peer_ns - is->gpu_ns;

	if (is->kind == NCCL_SEND) {
		rank->network_ns += is->network_ns;
		rank->peer_ns += is->peer_ns;
		rank->gpu_ns += is->gpu_ns;
	}
	if (!sum)
		return;
	if (is->kind == NCCL_RECV) {
		sum->receive_ns += is->end_ns - is->begin_ns;
		sum->data_ns += is->peer_ns;
		return;
	}
	sum->channels++;
	sum->network_ns += is->network_ns;
	sum->peer_ns += is->peer_ns;
	sum->gpu_ns += is->gpu_ns;
	sum->idle_ns += idle;
}

static void take_operation(struct nccl_rank *rank, struct nccl_part *part,
			   const struct nccl_record *is)
{
	struct nccl_hop *hop = hop_of(part, is->peer, is->kind == NCCL_SEND);

	if (is->end_ns > part->end_ns)
		part->end_ns = is->end_ns;
	if (is->begin_ns < part->begin_ns)
		part->begin_ns = is->begin_ns;
	part->unfinished = part->unfinished || is->flags & NCCL_UNFINISHED;
	add_to_sums(rank, part, is);
	if (!hop)
		return;
	hop->channels++;
	hop->has_bytes = is->flags & NCCL_HAS_BYTES;
	hop->bytes += is->bytes;
	hop->steps += is->steps;
	hop->network_ns += is->network_ns;
	hop->peer_ns += is->peer_ns;
	hop->gpu_ns += is->gpu_ns;
	if (is->slowest_ns > hop->slowest_ns)
		hop->slowest_ns = is->slowest_ns;
}

static void take_qp(struct nccl_rank *rank, const struct nccl_record *is)
{
	struct nccl_qp *qp = NULL;

	for (size_t i = 0; i < rank->qp_count && !qp; i++)
		if (rank->qps[i].qpn == is->qpn && rank->qps[i].peer == is->peer)
			qp = &rank->qps[i];
	if (!qp && rank->qp_count < QPS) {
		qp = &rank->qps[rank->qp_count++];
		qp->qpn = is->qpn;
		qp->peer = is->peer;
	}
	if (!qp)
		return;
	qp->operations += is->steps;
	qp->bytes += is->bytes;
	qp->ns += is->network_ns;
	if (is->slowest_ns > qp->slowest_ns)
		qp->slowest_ns = is->slowest_ns;
}

static void take_record(struct nccl_reader *reader, struct nccl_process *process,
			const struct nccl_record *record)
{
	struct nccl_rank *rank = process->ranks[record->comm];
	struct nccl_part *part;
	int64_t bound_ns;

	if (!rank || rank->is.generation != record->generation)
		return;
	if (record->kind == NCCL_QP) {
		take_qp(rank, record);
		return;
	}
	part = part_of(rank, record, reader->now_ns());
	part->rank = rank->is.rank;
	if (record->kind == NCCL_SEND || record->kind == NCCL_RECV) {
		rank->has_proxies = true;
		take_operation(rank, part, record);
		return;
	}
	part->bytes = record->bytes;
	part->begin_ns = record->begin_ns;
	if (reader->read_time &&
	    reader->read_time(reader->context, record->begin_ns, &part->at_ns, &bound_ns)) {
		part->bound_ns = bound_ns;
		part->is_timed = true;
	}
}

/* --- a process --- */

#define WRITERS 64 /* threads that write at once, at most */
#define CHUNK 256  /* records in a call */

/* The slot has a rank, or another one than before. */
static void take_slot(struct nccl_reader *reader, struct nccl_process *process, size_t slot,
		      const struct nccl_comm *raw)
{
	struct nccl_rank *rank = process->ranks[slot];
	struct nccl_comm now;

	if (!nccl_take_comm(raw, &now))
		return;
	if (!rank) {
		rank = reader->rank_count < RANKS_MAX ? calloc(1, sizeof(*rank)) : NULL;
		if (!rank) {
			process->refused++;
			return;
		}
		reader->rank_count++;
		process->ranks[slot] = rank;
	} else if (rank->is.generation != now.generation) {
		*rank = (struct nccl_rank){};
	}
	rank->is = now;
}

/* The record of @place and those behind it in the ring, as many as there is room for at once. */
static size_t read_chunk(int fd, uint64_t place, uint64_t end, struct nccl_record chunk[CHUNK])
{
	size_t at = place % NCCL_RECORDS, count = end - place < CHUNK ? end - place : CHUNK;
	size_t bytes;

	if (count > NCCL_RECORDS - at)
		count = NCCL_RECORDS - at;
	bytes = count * sizeof(chunk[0]);
	return pread(fd, chunk, bytes,
		     (off_t)(offsetof(struct nccl_segment, records) + at * sizeof(chunk[0]))) ==
			       (ssize_t)bytes
		       ? count
		       : 0;
}

/* Those that are new, the oldest first; what was overwritten meanwhile is lost. */
static void read_records(struct nccl_reader *reader, struct nccl_process *process, int fd)
{
	uint64_t end = process->header.records, place = process->taken;
	static struct nccl_record chunk[CHUNK];
	struct nccl_record record;
	size_t count;

	if (place > end)
		place = end;
	if (end - place > NCCL_RECORDS) {
		/* What was before this daemon is not lost to it. */
		process->lost += place ? end - place - NCCL_RECORDS : 0;
		place = end - NCCL_RECORDS;
	}
	while (place < end && (count = read_chunk(fd, place, end, chunk)))
		for (size_t i = 0; i < count; i++, place++) {
			/* It is being written: next time. */
			if (chunk[i].place != (uint32_t)place + 1 && end - place <= WRITERS) {
				process->taken = place;
				return;
			}
			if (nccl_take_record(&chunk[i], place, &record))
				take_record(reader, process, &record);
			else
				process->lost++;
		}
	process->taken = place;
}

bool nccl_read(void *self, int fd, void **own, char comm[16], char rank[16], char job_id[64])
{
	struct {
		struct nccl_header header;
		struct nccl_comm comms[NCCL_COMMS];
	} raw;
	struct nccl_process *process = *own;
	struct nccl_reader *reader = self;
	struct nccl_header header;

	if (pread(fd, &raw, sizeof(raw), 0) != sizeof(raw) ||
	    !nccl_take_header(&raw.header, &header))
		return false;
	if (!process)
		process = *own = calloc(1, sizeof(*process));
	if (!process)
		return false;
	process->header = header;
	memcpy(comm, header.comm, sizeof(header.comm));
	memcpy(rank, header.rank, sizeof(header.rank));
	memcpy(job_id, header.job_id, sizeof(header.job_id));
	process->refused = 0;
	for (size_t i = 0; i < header.used; i++)
		take_slot(reader, process, i, &raw.comms[i]);
	read_records(reader, process, fd);
	return true;
}

void nccl_free(void *self, void *own)
{
	struct nccl_process *process = own;
	struct nccl_reader *reader = self;

	for (size_t i = 0; i < NCCL_COMMS; i++) {
		reader->rank_count -= process->ranks[i] != NULL;
		free(process->ranks[i]);
	}
	free(process);
}
