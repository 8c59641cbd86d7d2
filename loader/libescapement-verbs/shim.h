/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the shim share. */
#ifndef ESC_SHIM_H
#define ESC_SHIM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "loader/ibverbs/segment.h"

/* --- dispatch.c: the functions of the library behind, and what each object had before --- */

/* libibverbs' own, by version; NULL: it has none. Tests set it themselves. */
struct shim_real {
	struct ibv_context *(*open_device)(struct ibv_device *device);
	struct ibv_context *(*import_device)(int fd);
	int (*close_device)(struct ibv_context *context);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);
};
extern struct shim_real shim_real;

#define SHIM_CONTEXTS 64
#define SHIM_CQS 512

/* What a context had before it was patched. Read without a lock: `context` is stored last. */
struct shim_context {
	struct ibv_context *context; /* NULL: free */
	struct ibv_context_ops ops;
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
};

struct shim_cq {
	struct ibv_cq_ex *cq; /* NULL: free */
	uint64_t flags;	      /* of its creation */
	bool has_qpn, has_length;
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
};

/* --- count.c: queue pairs and their counts --- */

#define SHIM_BATCH 32

/* What is posted between wr_start and wr_complete, under the provider's lock. */
struct shim_batch {
	unsigned int count, signaled;
	bool was_full; /* some were counted already */
	struct {
		enum segment_kind kind;
		uint64_t bytes;
	} ops[SHIM_BATCH];
};

/* One in this process; parallel to the slots of the segment. */
struct shim_qp {
	struct segment_qp *slot;
	struct ibv_context *context; /* with qpn the key; NULL: free */
	uint32_t qpn;
	bool signals_all, timed; /* as of shim_add() */
	/* The one operation whose latency is taken: its number among the signaled; 0: none. */
	uint64_t sampled, sampled_ns;
	struct ibv_qp_ex *extended; /* NULL: it has no ibv_wr_* */
	struct ibv_qp_ex before;    /* its functions */
	/* Operations that use a receive, at each end: how many, and one in how many is sampled. */
	bool is_ordered; /* RC, before it was reset */
	struct {
		uint64_t numbers, sampled_ns;
		unsigned int shift;
	} ends[SEGMENT_ENDS];
	struct shim_batch batch;
};

/* False after fork(), or where the environment says so: nothing is counted. */
extern bool shim_counts;

/* Neither does the environment forbid it, nor is this a child of fork(): no lock is taken there. */
bool shim_may_count(void);
void shim_count_untracked_context(void);
void shim_count_unknown(void);

/* Calls of this thread: it gives away one cache line to others for one call in SEGMENT_POLLS. */
extern __thread unsigned int shim_polls __attribute__((tls_model("initial-exec")));
void shim_count_polls(void);
static inline void shim_count_poll(void)
{
	if (!(++shim_polls % SEGMENT_POLLS))
		shim_count_polls();
}

/* NULL: it is not tracked. */
struct shim_qp *shim_find(const struct ibv_context *context, uint32_t qpn);
/* @signals_all as it was created; @timed false: that is not known. NULL: no slot is free. */
struct shim_qp *shim_add(struct ibv_qp *qp, bool signals_all, bool timed);
/* After it was destroyed. @generation: of its slot, before; another one's by now: nothing. */
void shim_remove(struct shim_qp *qp, uint32_t generation);
void shim_set_attributes(struct shim_qp *qp, const struct ibv_qp_attr *attr, int mask);

/*
 * @count signaled operations are about to be posted: their numbers, and the time of one. Returns
 * the number of the last one.
 */
uint64_t shim_begin_post(struct shim_qp *qp, unsigned int count);
/* @count of them were not posted after all. */
void shim_undo_post(struct shim_qp *qp, uint64_t last, unsigned int count);
/* A sample that is not in the ring yet; ns 0: none. */
struct shim_sample {
	uint64_t number, ns;
	uint32_t bytes;
};
static inline bool shim_uses_receive(enum segment_kind kind)
{
	return kind == SEGMENT_SEND || kind == SEGMENT_WRITE_IMM;
}
/* Numbers @count operations that use a receive; returns the first one's. */
uint64_t shim_number(struct shim_qp *qp, enum segment_end end, unsigned int count);
/* The last @count posts before number @next failed, as on a full queue: they have no number. */
void shim_return_numbers(struct shim_qp *qp, uint64_t next, unsigned int count);
/* The one with @number is about to be posted, or was polled: its sample, if it is one. */
void shim_take_sample(struct shim_qp *qp, enum segment_end end, uint64_t number, uint64_t bytes,
		      struct shim_sample *sample);
void shim_put_sample(struct shim_qp *qp, enum segment_end end, const struct shim_sample *sample);
/* Which operations were posted is not known: no more samples. */
void shim_stop_samples(struct shim_qp *qp);
void shim_count_message(struct shim_qp *qp, enum segment_kind kind, uint64_t bytes, int sign);
void shim_count_completion(struct shim_qp *qp, enum ibv_wc_status status, unsigned int opcode,
			   uint32_t bytes);

/* --- extended.c: ibv_wr_* and struct ibv_cq_ex --- */

/* Puts our functions in; again after each ibv_modify_qp, since providers change theirs. */
void shim_patch_qp(struct shim_qp *qp, struct ibv_qp_ex *extended);
void shim_patch_cq(struct ibv_cq_ex *cq, uint64_t flags);
/* As it was. Returns the flags to patch it with again, or 0: it was not patched. */
#define SHIM_CQ_PATCHED (1ull << 63)
uint64_t shim_unpatch_cq(struct ibv_cq *cq);

#endif
