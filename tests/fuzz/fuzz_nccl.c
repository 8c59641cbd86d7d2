// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as the file of a process with libescapement-nccl: read, judged and shown; and what was
 * shown, or any JSON, joined as of another host.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ibverbs/internal.h"
#include "nccl/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static uint64_t now_ns = 1000000000;

static uint64_t read_now(void)
{
	return now_ns;
}

static bool read_time(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns)
{
	(void)context;
	*fabric_ns = (int64_t)local_ns;
	*bound_ns = (int64_t)(local_ns >> 8);
	return local_ns & 1;
}

static bool is_any(const struct job *job, const char *id)
{
	(void)job;
	(void)id;
	return true;
}

struct input {
	uint8_t kind, comm, channel, sequence, algo, flags, steps, reserved;
	int8_t peer;
	uint8_t shift; /* of the times */
	uint16_t begin, end, network, wait, gpu, slowest;
	uint32_t bytes, qpn;
};

static void fill_comm(struct nccl_comm *comm, uint8_t byte)
{
	comm->state = 1 + byte % 2;
	comm->generation = 1;
	comm->rank = byte / 2 % 16 - 1;
	comm->hash = byte / 32 % 2;
	comm->ranks = byte / 64;
	memset(comm->name, byte, sizeof(comm->name));
}

static void fill_record(struct nccl_record *record, const struct input *in)
{
	unsigned int shift = in->shift % 48;

	*record = (struct nccl_record){.begin_ns = (uint64_t)in->begin << shift,
				       .network_ns = (uint64_t)in->network << shift,
				       .peer_ns = (uint64_t)in->wait << shift,
				       .gpu_ns = (uint64_t)in->gpu << shift,
				       .slowest_ns = (uint64_t)in->slowest << shift,
				       .sequence = in->sequence,
				       .bytes = (uint64_t)in->bytes << shift,
				       .steps = in->steps,
				       .qpn = in->qpn,
				       .peer = in->peer,
				       .kind = in->kind % (NCCL_KINDS + 1),
				       .comm = in->comm % 10,
				       .generation = 1,
				       .flags = in->flags,
				       .channel = in->channel};
	if (in->end)
		record->end_ns = record->begin_ns + ((uint64_t)in->end << shift);
	memset(record->func, "AB/\xff"[in->algo & 3], 1 + in->algo % 15);
	memset(record->algo, "R\0/T"[in->algo >> 2 & 3], 1 + in->algo % 15);
}

/* What a library may write, or, where the last byte is 0xff, the input alone. */
static void write_file(int fd, const uint8_t *bytes, size_t size)
{
	struct nccl_header header = {.magic = NCCL_MAGIC, .version = NCCL_VERSION, .used = 8};
	struct nccl_comm comms[8] = {};
	struct nccl_record record;
	struct input in;

	if (size && bytes[size - 1] == 0xff) {
		if (pwrite(fd, bytes, size, 0) != (ssize_t)size || ftruncate(fd, NCCL_BYTES))
			abort();
		return;
	}
	for (size_t i = 0; i < 8; i++, size -= size != 0)
		fill_comm(&comms[i], size ? *bytes++ : 0);
	for (; size >= sizeof(in); bytes += sizeof(in), size -= sizeof(in)) {
		memcpy(&in, bytes, sizeof(in));
		fill_record(&record, &in);
		record.place = (uint32_t)++header.records;
		if (pwrite(fd, &record, sizeof(record),
			   (off_t)(offsetof(struct nccl_segment, records) +
				   (header.records - 1) % NCCL_RECORDS * sizeof(record))) < 0)
			abort();
	}
	if (pwrite(fd, &header, sizeof(header), 0) < 0 ||
	    pwrite(fd, comms, sizeof(comms), sizeof(header)) < 0 || ftruncate(fd, NCCL_BYTES))
		abort();
}

static void show(json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT);

	if (!text)
		abort();
	free(text);
}

static void join_any(const uint8_t *bytes, size_t size)
{
	json_t *any = json_loadb((const char *)bytes, size, 0, NULL), *joined;

	if (!any)
		return;
	joined = nccl_merge(any);
	show(joined);
	json_decref(joined);
	json_decref(any);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct process process = {.fd = 1};
	struct ibverbs verbs = {.processes = {.list = {&process}, .count = 1}};
	static struct nccl nccl;
	int fd = memfd_create("nccl", 0);
	FILE *nowhere = fopen("/dev/null", "w");
	json_t *made, *joined;

	now_ns = 1000000000;
	nccl = (struct nccl){.verbs = &verbs,
			     .reader = {.read_time = read_time, .now_ns = read_now}};
	write_file(fd, bytes, size < NCCL_BYTES ? size : NCCL_BYTES);
	for (int i = 0; i < 3; i++) {
		nccl_read(&nccl.reader, fd, &process.own, process.header.comm, process.header.rank,
			  process.header.job_id);
		now_ns += 40000000000;
		nccl_poll(&nccl, now_ns);
	}
	made = nccl_job_communicators(&nccl, is_any, "");
	show(made);
	joined = nccl_merge(made);
	show(joined);
	nccl_write_metrics(&nccl, nowhere);
	join_any(bytes, size);
	json_decref(joined);
	json_decref(made);
	fclose(nowhere);
	close(fd);
	if (process.own)
		nccl_free(&nccl.reader, process.own);
	return 0;
}
