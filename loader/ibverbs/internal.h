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
/* The same of any buckets of segment_latency_bucket(). */
uint64_t segment_quantile(const uint32_t buckets[SEGMENT_LATENCIES], double q, uint64_t *samples);

/* --- delays.c: messages at both ends --- */

#define DELAY_SAMPLES 32 /* that are kept of an end; some ten come in a second */
#define REPORT_SAMPLES 8
#define REPORT_BYTES (56 + REPORT_SAMPLES * 32 + 8)

struct verbs_sample {
	uint64_t number;
	int64_t fabric_ns;
	uint32_t bound_ns, bytes;
	bool was_joined;
};

struct verbs_samples {
	struct verbs_sample list[DELAY_SAMPLES];
	uint64_t count; /* ever */
	uint64_t sent;	/* of them, reported to the other end, or left out */
};

struct verbs_delays {
	struct verbs_samples ends[SEGMENT_ENDS];
	bool is_broken; /* the numbers of the two ends are not of the same messages */
	/* Of messages that were posted here, from before the post to after the poll there. */
	uint64_t joined, sum_ns, bound_ns; /* bound_ns: the largest */
	int64_t max_ns;
	uint32_t histogram[SEGMENT_LATENCIES];
	struct verbs_sample newest;
	int64_t newest_ns;
	uint64_t newest_bound_ns;
};

struct process;
struct fleet_keys;

/* A sample of the process's ring, with its time in fabric time. */
void delays_take(struct process *process, const struct segment_sample *raw, int64_t fabric_ns,
		 int64_t bound_ns);
/* Of the other end. How many delays are known by it: 1, or 0. */
unsigned int delays_join(struct verbs_delays *delays, const struct verbs_sample *received);

/* What the end that received a queue pair's messages reports to the one that posted them. */
struct verbs_report {
	struct esc_address posted_at, received_at;
	uint32_t posted_qpn, received_qpn;
	size_t count;
	struct verbs_sample samples[REPORT_SAMPLES];
};
/* @self, @peer: graph_member_id(). Returns how many bytes. */
size_t report_encode(const struct verbs_report *report, const struct fleet_keys *keys,
		     uint64_t self, uint64_t peer, uint8_t out[REPORT_BYTES]);
/* False: none, of another version, for another host, or not tagged with the key of *@peer. */
bool report_decode(const uint8_t *bytes, size_t size, const struct fleet_keys *keys, uint64_t self,
		   uint64_t *peer, struct verbs_report *out);

/* --- processes.c: the files of the folder --- */

struct verbs_qp {
	struct segment_qp is; /* as last read; state SEGMENT_FREE: it was not readable yet */
	double sent_per_second,
		received_per_second; /* bytes, over the last half a second or more */
	uint64_t moved_local_ns;     /* of the reading that last saw it move */
	uint64_t read_local_ns;	     /* before its newest reading */
	/* By direction: what was posted or completed; what was received. */
	struct qp_progress progress[2];
	/* Since when it has had operations without a completion, and completed none; 0: it has not.
	 */
	uint64_t pending_local_ns;
	uint64_t failures_before;    /* until its newest reset */
	struct verbs_delays *delays; /* NULL: no sample was taken */
	struct {
		uint64_t local_ns, sent, received;
	} before;
};

struct process {
	char name[SEGMENT_NAME_DIGITS + 1];
	int fd;				   /* -1: it has ended, and the file is gone */
	const struct ibverbs_files *files; /* NULL: libescapement-verbs' */
	void *own;			   /* of these files */
	uid_t uid;
	uint32_t pid; /* of the one that holds the lock, as the kernel has it; 0: another
			 namespace's */
	bool begun;   /* the header was read */
	uint64_t opened_local_ns, ended_local_ns; /* 0: it lives */
	struct segment_header header;
	uint64_t polled_local_ns; /* of the reading that last saw it poll; 0: none did */
	struct job job;
	uint64_t samples_taken;	     /* of its ring */
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

/* CLOCK_MONOTONIC in fabric time, with its bound; false: not known. */
typedef bool processes_time_fn(void *context, uint64_t local_ns, int64_t *fabric_ns,
			       int64_t *bound_ns);

struct processes {
	char *folder;
	processes_time_fn *read_time; /* NULL: there is none, and samples are not taken */
	void *time_context;
	uint64_t idle_ns;		   /* what has ended is kept so long */
	const struct ibverbs_files *files; /* of another library; NULL: none */
	struct process *list[PROCESSES_MAX];
	size_t count, qp_count;
	bool has_polled;
	/* Of the newest poll: files without room for them or their queue pairs; of another kind. */
	uint64_t refused, unreadable;
	struct verbs_totals totals[DEVICES_MAX];
	size_t device_count;
};

/* Creates the folder unless it exists. 0, or -errno: processes cannot create files in it. */
int processes_make_folder(const char *folder);
/* Looks for files, reads all, and removes those whose processes have ended. */
void processes_poll(struct processes *processes, uint64_t now_local_ns);
/* @files are not read any more. */
void processes_forget(struct processes *processes, const struct ibverbs_files *files);
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
	struct clock *clock;
	uint64_t polled_local_ns;
	/* exchange.c */
	int socket;	  /* -1: not open */
	int socket_error; /* 0 or -errno */
	bool ipv4;	  /* the socket's */
	sd_event_source *source;
	size_t first_sender;
	uint64_t reports_sent, reports_received, reports_refused, joined;
};

/* --- exchange.c --- */

/* After a poll: sends what was received here. */
void exchange_poll(struct ibverbs *verbs);
/* A report of another host. */
void exchange_take(struct ibverbs *verbs, const uint8_t *bytes, size_t size);
void exchange_close(struct ibverbs *verbs);

/* --- capability.c --- */

/* Reads the processes and makes the rows. */
void ibverbs_poll(struct ibverbs *verbs, uint64_t now_local_ns);

/* Of a status; NULL: of success. */
const char *report_status(unsigned int status);
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
