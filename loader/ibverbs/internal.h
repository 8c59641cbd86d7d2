/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of ibverbs/ share. */
#ifndef ESC_IBVERBS_INTERNAL_H
#define ESC_IBVERBS_INTERNAL_H

#include <sys/types.h>

#include "base/address.h"
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
	/* Since when it has had operations without a completion, and completed none; 0: it has not.
	 */
	uint64_t pending_local_ns;
	uint64_t failures_before; /* until its newest reset */
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
	uint64_t polled_local_ns; /* of the reading that last saw it poll; 0: none did */
	struct job job;
	struct ibverbs_growth grown; /* that ibverbs_take_jobs() has not handed over yet */
	size_t rows;
	struct verbs_qp *qps; /* by slot */
	size_t count;
};

/* Of an RDMA device, since the daemon started: never go back. */
struct verbs_totals {
	char device[32]; /* "": those for which there was no room */
	uint64_t messages[SEGMENT_KINDS], bytes[SEGMENT_KINDS];
	uint64_t received, received_bytes, errors;
};

struct ibverbs;

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

/* --- watch.c: queue pairs that fail, as findings --- */

#define CONDITIONS_MAX 128
#define STUCK_NS 10000000000ull

#define IBVERBS_EVENTS(X)                                                                          \
	X(VERBS_QP_FAILED, "verbs_qp_failed", WARNING,                                             \
	  "Operations of a process's queue pairs to a peer ended with an error.",                  \
	  .about = EVENT_QP, .begins = "verbs_qp_failed",                                          \
	  .remedy = "`status` has the cause; with `retries_exceeded` see `escapement paths` and "  \
		    "the peer.")                                                                   \
	X(VERBS_QP_FAILED_OVER, "verbs_qp_failed_over", INFO,                                      \
	  "Queue pairs that failed were reset, or ended.", .about = EVENT_QP,                      \
	  .ends = "verbs_qp_failed")                                                               \
	X(VERBS_QP_STUCK, "verbs_qp_stuck", WARNING,                                               \
	  "A process polls, and for 10 s no operation of its queue pairs to a peer completed.",    \
	  .about = EVENT_QP, .begins = "verbs_qp_stuck",                                           \
	  .remedy = "Either the peer's process posts no receive, or packets are lost: see "        \
		    "`escapement job` of its job there, and `escapement paths`.")                  \
	X(VERBS_QP_STUCK_OVER, "verbs_qp_stuck_over", NOTICE,                                      \
	  "Queue pairs that were stuck complete operations again, failed, or ended.",              \
	  .about = EVENT_QP, .ends = "verbs_qp_stuck")
enum { IBVERBS_EVENTS(EVENT_ENUM) };
extern const struct event_kind ibverbs_events[];

/* Of one process and one pair of addresses. */
struct verbs_condition {
	unsigned int kind; /* VERBS_QP_FAILED or VERBS_QP_STUCK */
	char process[SEGMENT_NAME_DIGITS + 1];
	struct esc_address local, remote;
	char subject[ADDRESS_QP_BYTES]; /* the first queue pair */
	size_t qps;			/* at the newest poll */
};

/* Without flushes, which follow an error, or what the process did itself. */
uint64_t watch_failures(const struct segment_qp *qp);
/* Its status with the smallest number of them; 0: none failed. */
unsigned int watch_status(const struct segment_qp *qp);
/* Operations without a completion; 0 where that is not known. */
uint64_t watch_pending(const struct segment_qp *qp);
/* After a poll: begins and ends findings. */
void watch_poll(struct ibverbs *verbs, uint64_t now_local_ns);

/* --- report.c --- */

/* A direction of a queue pair, as `qp` has it. */
struct verbs_row {
	struct esc_qp_key key; /* zero: not connected */
	struct process *process;
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
	struct verbs_condition conditions[CONDITIONS_MAX];
	size_t condition_count;
};

/* Of a status; NULL: of success. */
const char *report_status(unsigned int status);
void report_put_process(json_t *object, const struct process *process);
/* The member at @address; NULL: none. */
const char *report_peer(const struct ibverbs *verbs, const struct esc_address *address);

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
