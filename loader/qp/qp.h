/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of queue pairs: snapshots of the map `qps`, rates, ageing, and the process and job
 * that own each.
 */
#ifndef ESC_QP_H
#define ESC_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/maps.h"

struct capability;
struct delays_entry;
struct job_entry;
struct port_info;
struct port_facts;
struct qptable;

/* needs: dataplane; self is the struct qptable. */
extern const struct capability qp_capability;

/* --- jobs --- */

#define JOB_NAME_BYTES 96
#define JOB_PATH_BYTES 384

/* The most specific one first: a Slurm job in a pod is a Slurm job. */
enum job_kind { JOB_NONE, JOB_SLURM, JOB_POD, JOB_DOCKER, JOB_PODMAN, JOB_UNIT };

struct job {
	enum job_kind kind;
	/* "job_1234/step_0", "pod_<uid>/<12 digits>", "docker_<12 digits>", "nfsd.service"; "" */
	char name[JOB_NAME_BYTES];
	char cgroup[JOB_PATH_BYTES]; /* by this path; "" unknown; a longer one is cut */
};

/* By the path of a cgroup from its root: "/system.slice/...". */
void job_of_path(const char *path, struct job *out);
/* @proc: "/proc", or a recorded tree. False: the process is gone. */
bool job_read(const char *proc, uint32_t pid, struct job *out);
/* "slurm", "kubernetes", "docker", "podman", "systemd", "none" */
const char *job_kind_name(enum job_kind kind);
#define JOB_ID_BYTES 128
/* "job_1234", "pod_<uid>", "nccl.service", "/a/cgroup"; "": it is of no job. */
const char *job_id_of(const struct job *job, char out[JOB_ID_BYTES]);

/* --- queue pairs --- */

/* Counts at a time, for rates. */
struct qp_rate_base {
	uint64_t local_ns, packets, bytes, losses;
};

struct qp_entry {
	struct esc_qp_key key;
	struct esc_qp qp;	   /* as last read */
	double packets_per_second; /* over the last half a second or more */
	double bytes_per_second;
	double loss_per_second;	 /* gaps and retransmissions: of datagrams neither */
	uint64_t seen_local_ns;	 /* CLOCK_MONOTONIC of the refresh that last saw it move */
	uint64_t moved_local_ns; /* the same; 0: it has not moved since we began */
	struct qp_rate_base before;
	struct delays_entry *delays; /* slot of delay/; NULL: none */
	struct job_entry *job;	     /* slot of job/; NULL: none */
};

/* Reads the map and computes rates. 0 or -errno. */
int qptable_poll(struct qptable *table);
/* CLOCK_MONOTONIC of the newest refresh that succeeded; 0: none. */
uint64_t qptable_refreshed_ns(const struct qptable *table);
/*
 * Entries by src, dst, dest_qpn, direction; valid until the next refresh. A capability writes its
 * own slot of them alone.
 */
struct qp_entry *qptable_entries(const struct qptable *table, size_t *count);
/* NULL: there is none of that key. */
struct qp_entry *qptable_find(const struct qptable *table, const struct esc_qp_key *key);

/*
 * The module that knows delays. @gone is called with @context before an entry with something in its
 * slot goes; @order is the value of `qp --sort delay`, the largest first. NULL: not any more.
 */
typedef void qptable_gone_fn(void *context, struct qp_entry *entry);
typedef double qptable_order_fn(const struct qp_entry *entry);
void qptable_set_delays(struct qptable *table, qptable_gone_fn *gone, void *context,
			qptable_order_fn *order);

/*
 * The module that sums by job. @ended is called with @context, and with the last counts, before an
 * entry goes or its key begins again from zero. NULL: not any more.
 */
typedef void qptable_ended_fn(void *context, struct qp_entry *entry);
void qptable_set_jobs(struct qptable *table, qptable_ended_fn *ended, void *context);

/*
 * The module that knows queue pairs of which the kernel sees no packet. @next sets the key, the
 * payload and the rate of number @index, from 0, in @out, which is zero; false: there are no more.
 * @describe is what `qp` has of it, @owner its process and job as of struct events. NULL: not any
 * more.
 */
typedef bool qptable_next_fn(void *context, size_t index, struct qp_entry *out);
typedef json_t *qptable_describe_fn(void *context, size_t index);
typedef bool qptable_owner_fn(void *context, const struct esc_qp_key *key, uint32_t *pid,
			      const char **job);
void qptable_set_others(struct qptable *table, qptable_next_fn *next, qptable_describe_fn *describe,
			qptable_owner_fn *owner, void *context);

/*
 * All that the capabilities know of @entry, as `qp` has it (new reference). @port: its own, or NULL
 * when that is not configured any more.
 */
json_t *qptable_describe(const struct qptable *table, const struct qp_entry *entry,
			 const struct port_info *port);

/* When a queue pair moved last: between two readings. */
struct qp_progress {
	bool moved;		 /* since this daemon began */
	uint64_t moved_local_ns; /* CLOCK_MONOTONIC of the reading that saw it */
	bool timed;		 /* there was fabric time then: */
	int64_t after_fabric_ns, before_fabric_ns, bound_ns;
};
/* The member `progress` of @qp; none when it has not moved. */
void qp_put_progress(json_t *qp, const struct qp_progress *progress);

uint64_t qp_naks(const struct esc_qp *qp);
/* The port in slot @index; NULL: it is not among them. */
const struct port_info *report_port(const struct port_facts *ports, unsigned int count,
				    unsigned int index);

/* --- owners --- */

struct owner {
	struct esc_owner_key key;
	struct esc_owner is;
	struct job job; /* of the process, read when it was first seen; empty: it was gone */
};

/*
 * The local queue pair of an entry of `qps`. tx: the one whose remote end the packets go to; where
 * only the numbers are known (ESC_OWNER_LISTED), the only one on @device with this remote number.
 * rx: the one that they come to. @device: the RDMA device of the entry's interface, "" unknown:
 * then the addresses must fit. NULL: not known. UD has no remote end.
 */
const struct owner *qptable_owner(const struct qptable *table, const struct esc_qp_key *key,
				  const char *device);
/* The queue pairs of this host's RDMA devices are known: one without an owner is not of these. */
bool qptable_has_owners(const struct qptable *table);
/* How many queue pairs of a device's port use a RoCE v1 GID. */
size_t qptable_rocev1(const struct qptable *table, const char *device, unsigned int port);

/* --- rings: copies of a queue pair's newest packets (maps/repair.h) --- */

struct qpring_counts {
	uint64_t rings;
	uint64_t repairs, replayed, overruns, missed, refused;
};

/*
 * A new and empty ring in place @index of the array of maps @rings_fd, of the queue pair @key
 * (NULL: the programs say). Its first page, which ends with the counts, is mapped at *@out. 0 or
 * -errno.
 */
int qpring_make(int rings_fd, uint32_t index, const struct esc_qp_key *key, bool last_only,
		struct esc_repair_ring **out);
/* Deletes it; @ring: its mapped page. */
void qpring_drop(int rings_fd, uint32_t index, struct esc_repair_ring *ring);
void qpring_unmap(struct esc_repair_ring *ring); /* NULL is fine */
/* Adds its counts to @sum, but for `rings` and `refused`. */
void qpring_add(struct qpring_counts *sum, const struct esc_repair_ring *ring);

/*
 * The key of what comes back to the queue pair that sends @key, whose own source port is @sport. By
 * the queue pair's own number, where it is known; such an entry may not exist. Else both directions
 * have one source port at both ends (soft-RoCE and most NICs derive it from both numbers): the one
 * entry that fits, or none, since of two it is not known which.
 */
bool qptable_find_back(const struct qptable *table, const struct esc_qp_key *key, uint16_t sport,
		       struct esc_qp_key *back);

/* --- hash maps read whole, in as few calls as the kernel allows --- */

/* Set up by its owner: fd (borrowed; less than 0: an empty map), max, sizes and a first batch. */
struct mapread {
	int fd;
	uint32_t max; /* entries that the map has room for */
	size_t key_bytes, value_bytes;
	uint32_t batch; /* entries in a call */
	bool no_batch;	/* the kernel has none for this map */
	void *keys, *values;
};

/* 0, or -errno, which ends the reading. */
typedef int mapread_take_fn(void *context, const void *key, const void *value);

/*
 * Calls @take for each entry, in no order. Without batches an entry may come twice, when others
 * are deleted meanwhile. 0 or -errno.
 */
int mapread_all(struct mapread *reader, mapread_take_fn *take, void *context);
void mapread_free(struct mapread *reader);

#endif
