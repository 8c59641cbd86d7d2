/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of nccl/ share. */
#ifndef ESC_NCCL_INTERNAL_H
#define ESC_NCCL_INTERNAL_H

#include "base/fields.h"
#include "core/core.h"
#include "ibverbs/ibverbs.h"
#include "nccl.h"
#include "qp/qp.h"
#include "segment.h"

#define RANKS_MAX 512 /* of all processes */
#define PARTS 16      /* collectives that are kept of a rank */
#define HOPS 16	      /* of a rank in a collective: peers, in two directions */
#define OPERATIONS 8  /* kinds that are summed of a rank */
#define QPS 16
#define GROUPS_MAX 128
#define SETTLED_NS 300000000ull /* a rank's part is complete after this time without a record */

/* --- segment.c: pure; the bytes are a user's --- */

/* Copies with texts that end and counts within their limits. False: none of this version. */
bool nccl_take_header(const struct nccl_header *raw, struct nccl_header *out);
/* False: it was never used, or is being written now. */
bool nccl_take_comm(const struct nccl_comm *raw, struct nccl_comm *out);
/* @place: which record it should be. False: it is another one, or is being written now. */
bool nccl_take_record(const struct nccl_record *raw, uint64_t place, struct nccl_record *out);

/* --- law.c: pure --- */

/* What a rank's proxies did with one peer in one direction, on all channels. */
struct nccl_hop {
	int32_t peer;
	bool is_send, has_bytes;
	uint32_t channels; /* operations: the times below are sums over them */
	uint64_t bytes, steps;
	uint64_t network_ns, peer_ns, gpu_ns, slowest_ns;
};

/* What a rank did in one collective. */
struct nccl_part {
	int32_t rank;
	char func[16], algo[16], proto[8];
	uint64_t sequence, bytes;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC of its host; end 0: no operation ended */
	bool unfinished;
	/* When it began, in fabric time. */
	bool is_timed;
	int64_t at_ns, bound_ns;
	size_t hop_count;
	struct nccl_hop hops[HOPS];
};

enum nccl_cause { CAUSE_NONE, CAUSE_LINK, CAUSE_RANK };

/* What held a collective up. */
struct nccl_verdict {
	enum nccl_cause cause;
	int32_t rank, peer;	       /* of a link: from rank to peer */
	uint64_t excess_ns, median_ns; /* beyond the others' median, of the same measure */
	uint64_t duration_ns;	       /* of the collective, median of the ranks */
	/* The slowest hop, also where it is not the cause; rank -1: none is known. */
	int32_t hop_rank, hop_peer;
	uint64_t hop_bytes, hop_ns;
};

/*
 * At least three hops, or ranks, are needed to compare. @one_host: all were read here, so that
 * their local times compare.
 */
void nccl_judge(const struct nccl_part *const parts[], size_t count, bool one_host,
		struct nccl_verdict *out);
/* Delay by the rank's own GPU: there were data and room, and the GPU was not ready. */
uint64_t nccl_own_ns(const struct nccl_part *part);

/* --- read.c: the records of processes --- */

/* Sums of one function with one algorithm, since the rank was seen first. */
struct nccl_operation {
	char func[16], algo[16], proto[8];
	uint64_t count, bytes, duration_ns;
	uint64_t network_ns, peer_ns, gpu_ns, idle_ns, channels; /* of sends */
	uint64_t receive_ns, data_ns; /* of receives: in all, and without data */
};

struct nccl_qp {
	uint32_t qpn;
	int32_t peer;
	bool is_send;
	uint64_t operations, bytes, ns, slowest_ns;
};

struct nccl_rank {
	struct nccl_comm is;
	struct nccl_part parts[PARTS];
	struct {
		uint64_t updated_ns; /* 0: free */
		bool judged;
	} states[PARTS];
	size_t next_part;
	bool has_proxies; /* it sends to other hosts, or receives from them */
	struct nccl_operation operations[OPERATIONS];
	size_t operation_count;
	struct nccl_qp qps[QPS];
	size_t qp_count;
	uint64_t network_ns, peer_ns, gpu_ns; /* of all sends, for metrics */
};

struct nccl_process {
	struct nccl_header header;
	uint64_t taken, lost; /* records */
	size_t refused;	      /* ranks, for want of room */
	struct nccl_rank *ranks[NCCL_COMMS];
};

struct nccl_reader {
	size_t rank_count;
	/* CLOCK_MONOTONIC in fabric time; false: not known. NULL: never. */
	bool (*read_time)(void *context, uint64_t local_ns, int64_t *fabric_ns, int64_t *bound_ns);
	void *context;
	uint64_t (*now_ns)(void);
};
/* As members of struct ibverbs_files, whose context is a struct nccl_reader. */
bool nccl_read(void *reader, int fd, void **own, char comm[16], char rank[16], char job_id[64]);
void nccl_free(void *reader, void *own);

/* --- watch.c: what is judged, and the findings --- */

#define NCCL_EVENTS(X)                                                                             \
	X(NCCL_SLOW_LINK, "nccl_slow_link", WARNING,                                               \
	  "Collectives of a job are held up by what one rank sends to another.",                   \
	  .about = EVENT_HOST, .begins = "nccl_slow_link",                                         \
	  .remedy = "See `escapement qp` and `escapement paths` to the host of the peer, and "     \
		    "`escapement links` at both ends.")                                            \
	X(NCCL_SLOW_LINK_OVER, "nccl_slow_link_over", NOTICE,                                      \
	  "Collectives are not held up by this hop any more, or have ended.", .about = EVENT_HOST, \
	  .ends = "nccl_slow_link")                                                                \
	X(NCCL_SLOW_RANK, "nccl_slow_rank", WARNING,                                               \
	  "Collectives of a job wait for one rank, whose network is not slow.",                    \
	  .about = EVENT_HOST, .begins = "nccl_slow_rank",                                         \
	  .remedy = "See the GPU and the process of this rank: clocks, throttling, input data, "   \
		    "`escapement audit` of its host.")                                             \
	X(NCCL_SLOW_RANK_OVER, "nccl_slow_rank_over", NOTICE,                                      \
	  "Collectives do not wait for this rank any more, or have ended.", .about = EVENT_HOST,   \
	  .ends = "nccl_slow_rank")
enum { NCCL_EVENTS(EVENT_ENUM) };
extern const struct event_kind nccl_events[];

#define VERDICTS 3 /* the newest collectives: two of them make a finding */

/* A communicator of one user, with the ranks that are here. */
struct nccl_group {
	uint64_t hash;
	uint32_t uid; /* another user's processes cannot join it */
	char name[40];
	char job[JOB_NAME_BYTES]; /* of the first process */
	struct nccl_verdict verdicts[VERDICTS];
	uint64_t judged; /* collectives */
	uint64_t judged_ns;
	struct nccl_verdict finding; /* cause: CAUSE_NONE, or what was reported */
	bool seen, lives;	     /* it has ranks here, and some have not ended */
};

/* Of a rank, with its process. */
struct nccl_place {
	const struct process *process;
	const struct nccl_process *of;
	struct nccl_rank *rank;
};

struct nccl {
	struct core *core;
	struct ibverbs *verbs;
	struct clock *clock;
	struct ibverbs_files files;
	struct nccl_reader reader;
	struct nccl_place places[RANKS_MAX];
	size_t place_count;
	size_t refused; /* ranks, for want of room */
	struct nccl_group groups[GROUPS_MAX];
	size_t group_count;
};

/* After a poll of ibverbs/: places, groups, verdicts, findings. */
void nccl_poll(struct nccl *nccl, uint64_t now_local_ns);
const struct nccl_group *nccl_find_group(const struct nccl *nccl, const struct nccl_place *place);
/* The cause that two of the newest three collectives have; NULL: none. */
const struct nccl_verdict *nccl_group_verdict(const struct nccl_group *group);

/* --- part.c: pure --- */

json_t *nccl_verdict_json(const struct nccl_verdict *verdict);
json_t *nccl_part_json(const struct nccl_part *part);
/* False: it is none. */
bool nccl_part_parse(const json_t *object, struct nccl_part *part);

/* --- report.c --- */

extern const struct metric nccl_metrics[];
void nccl_write_metrics(void *self, FILE *out);

#endif
