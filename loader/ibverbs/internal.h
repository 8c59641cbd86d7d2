/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of ibverbs/ share. */
#ifndef ESC_IBVERBS_INTERNAL_H
#define ESC_IBVERBS_INTERNAL_H

#include <sys/types.h>

#include "base/fields.h"
#include "core/core.h"
#include "ibverbs.h"
#include "qp/qp.h"
#include "segment.h"

#define PROCESSES_MAX 256
#define PROCESSES_USER_MAX 128 /* of one user */
#define QPS_MAX 8192	       /* that are read, of all processes */
#define FILES_MAX 4096	       /* names of the folder that are looked at */
#define DEVICES_MAX 16

/* --- segment.c: pure; the bytes are a user's --- */

/* A copy with texts that end and counts within their limits. False: it is none of this version. */
bool segment_take_header(const struct segment_header *raw, struct segment_header *out);
/* The same of a slot. False: it was never used, or is being written now. */
bool segment_take_qp(const struct segment_qp *raw, struct segment_qp *out);
/* Of all kinds. */
uint64_t segment_messages(const struct segment_qp *qp);
uint64_t segment_bytes(const struct segment_qp *qp);
/* A quantile of the latencies, 0 < q <= 1; 0: none was taken. */
uint64_t segment_latency_quantile(const struct segment_qp *qp, double q, uint64_t *samples);

/* --- processes.c: the files of the folder --- */

struct verbs_qp {
	struct segment_qp is; /* as last read; state SEGMENT_FREE: it was not readable yet */
	double sent_per_second,
		received_per_second; /* bytes, over the last half a second or more */
	uint64_t moved_local_ns;     /* of the reading that last saw it move */
	struct {
		uint64_t local_ns, sent, received;
	} before;
};

struct process {
	char name[SEGMENT_NAME_DIGITS + 1];
	int fd; /* -1: it has ended, and the file is gone */
	uid_t uid;
	uint32_t pid; /* of the one that holds the lock, as the kernel has it; 0: another
			 namespace's */
	bool begun;   /* the header was read */
	uint64_t opened_local_ns, ended_local_ns; /* 0: it lives */
	struct segment_header header;
	struct job job;
	struct verbs_qp *qps; /* by slot */
	size_t count;
};

/* Of an RDMA device, since the daemon started: never go back. */
struct verbs_totals {
	char device[32]; /* "": those for which there was no room */
	uint64_t messages[SEGMENT_KINDS], bytes[SEGMENT_KINDS];
	uint64_t received, received_bytes, errors;
};

struct processes {
	char *folder;
	uint64_t idle_ns; /* what has ended is kept so long */
	struct process *list[PROCESSES_MAX];
	size_t count, qp_count;
	/* Of the newest poll: files without room for them or their queue pairs; of another kind. */
	uint64_t refused, unreadable;
	struct verbs_totals totals[DEVICES_MAX];
	size_t device_count;
};

/* Creates the folder unless it exists. 0, or -errno: processes cannot create files in it. */
int processes_make_folder(const char *folder);
/* Looks for files, reads all, and removes those whose processes have ended. */
void processes_poll(struct processes *processes, uint64_t now_local_ns);
void processes_free(struct processes *processes); /* what it holds */

/* --- report.c --- */

/* A direction of a queue pair, as `qp` has it. */
struct verbs_row {
	struct esc_qp_key key; /* zero: not connected */
	const struct process *process;
	const struct verbs_qp *qp;
	bool in_registry; /* the kernel programs see it too */
};

struct ibverbs {
	struct core *core;
	struct qptable *table;
	int folder_error;
	struct processes processes;
	struct verbs_row *rows; /* by key */
	size_t row_count;
	size_t *shown; /* rows that the registry has not */
	size_t shown_count;
};

/* After a poll, and after the registry was read. */
void report_make_rows(struct ibverbs *verbs);
json_t *report_row(const struct verbs_row *row);
/* What is counted in the process, for a row of the registry or our own. */
json_t *report_counts(const struct verbs_row *row);
/* NULL: no process counts it. */
const struct verbs_row *report_find(const struct ibverbs *verbs, const struct esc_qp_key *key);
extern const struct metric ibverbs_metrics[];
void ibverbs_write_metrics(void *self, FILE *out);

#endif
