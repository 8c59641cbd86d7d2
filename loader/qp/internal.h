/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of qp/ share. */
#ifndef ESC_QP_INTERNAL_H
#define ESC_QP_INTERNAL_H

#include <pthread.h>

#include "base/fields.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "net/rdma.h"
#include "qp.h"

/* --- table.c --- */

/* Sums over all queue pairs of a direction there have been, the aged ones too: never go back. */
struct qp_totals {
	enum esc_direction direction;
	uint64_t messages, psn_gaps, duplicates, retransmits, naks, rnr_naks;
};

/*
 * Events of a kind in one refresh: each for itself up to @max, the rest as one, and with it what
 * unknown hosts send: they may use a new number for each packet.
 */
struct qp_burst {
	unsigned int kind; /* of qp_events */
	size_t max, count;
	size_t rest;
	uint64_t packets, bytes; /* of the rest */
};

struct qptable {
	struct mapread reader;
	uint64_t idle_ns;
	struct events *events;
	struct qp_entry *entries; /* sorted by key */
	size_t count;
	uint64_t refreshed_local_ns; /* 0: never */
	struct qp_totals aged[2];    /* by direction */
	struct qp_burst seen, gone;  /* of the refresh under way */
	uint64_t refused_reported, refused_reported_local_ns;
	qptable_gone_fn *gone_fn;
	void *gone_context;
	qptable_ended_fn *ended_fn;
	void *ended_context;
	qptable_order_fn *delay_order; /* NULL: delays are not known */
	qptable_next_fn *next_other;   /* NULL: there are none */
	qptable_describe_fn *describe_other;
	qptable_owner_fn *other_owner;
	void *others_context;

	/* Of the capability. */
	struct core *core;
	struct dataplane *dataplane;
	struct esc_qp_room *room; /* mapped; NULL: no limits */
	struct owners *owners;
	bool refresh_failed; /* the newest refresh could not read the map */
};

extern const struct event_kind qp_events[];

/*
 * @qps_fd and @events (NULL: none) are borrowed. @idle_ns: an entry that is idle for this time is
 * deleted from the map; 0: never. 0 or -ENOMEM.
 */
int qptable_new(struct qptable **out, int qps_fd, uint32_t max, uint64_t idle_ns,
		struct events *events);
/* The shares of the table are kept in the map @fd, `qp_room`, from now on. 0 or -errno. */
int qptable_share(struct qptable *table, int fd);
/* The RDMA devices whose queue pairs are traced; more than ESC_QP_ROOM_DEVICES: as none. */
void qptable_set_devices(struct qptable *table, const uint32_t *devices, size_t count);
void qptable_free(struct qptable *table);
/*
 * Reads the map, computes rates, retires idle entries, and emits qp_seen, qp_gone and
 * qp_table_full (when @refused rose). @refused: the reason count qp_table_full summed over hooks.
 */
int qptable_refresh(struct qptable *table, uint64_t now_local_ns, uint64_t refused);
void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out);
/* A quantile of message sizes in bytes, 0 < q < 1; 0 when none was seen whole. */
uint64_t qp_message_quantile(const struct esc_qp *qp, double q);
/*
 * The entries of a map into *@list, malloc'd: @bytes each, with the key at 0, the value at
 * @value_at, and zeros. 0 or -errno.
 */
int mapread_list(struct mapread *reader, size_t bytes, size_t value_at, void **list, size_t *count);

/* --- job.c: which job a process belongs to, by the name of its cgroup --- */

/* By a whole /proc/PID/cgroup: of its lines (v1 has many) the most specific one. */
void job_of_text(const char *text, struct job *out);
/* The process that thread @tid belongs to and its name (@comm: 16 bytes). False: it is gone. */
bool job_read_process(const char *proc, uint32_t tid, uint32_t *pid, char *comm);

/* --- owners.c: the map `qp_owners`, and what fills it: tracing programs and RDMA netlink --- */

/* Queue pairs that no trace has seen being made, as RDMA netlink lists them in a thread. */
struct owners_list {
	bool works; /* a list has come, and named a device */
	bool listing;
	uint64_t due_local_ns;	   /* of the next list; UINT64_MAX: none */
	uint64_t started_local_ns; /* before the kernel began to list */
	pthread_t thread;
	int done; /* written by the thread, last */
	int err;
	struct rdmares result;
};

struct owners {
	int control_fd;
	bool off;
	struct qptrace *trace;
	uint64_t refused_before; /* by tracing programs that were detached since */
	char why[256];		 /* not traced */
	bool may_come;		 /* the RDMA core may be loaded later */
	uint64_t tried_local_ns;
	struct owners_list netlink;
	struct mapread reader;

	/* The map as last read. */
	const char *proc;   /* "/proc", or a recorded tree */
	struct owner *list; /* by local number, then device */
	size_t count;
	const struct owner **remote; /* those with a remote number, by it */
	size_t remote_count;
};

/* Descriptors are borrowed. Where a feature of the kernel lacks, nothing is known. 0 or -ENOMEM. */
int owners_new(struct owners **out, int control_fd, int owners_fd, bool off);
void owners_free(struct owners *owners); /* waits for a list under way; NULL is fine */
/* The kill switch: nothing is traced, listed or known while it is on. */
void owners_set_off(struct owners *owners, bool off);
/*
 * Once a second: starts tracing where that is possible, and has RDMA netlink list, in a thread,
 * since drivers may take seconds for it, the queue pairs that are there already. Not in
 * owners_new(): it reads the kernel's types, and serving comes first.
 */
void owners_tick(struct owners *owners, uint64_t now_local_ns);
/* Reads the map: once a second, and before a reply. */
void owners_refresh(struct owners *owners);
/*
 * The kernel's indices of the devices that have queue pairs, @max of them at most. How many there
 * are, also beyond @max; 0: none, or queue pairs are not traced.
 */
size_t owners_traced_devices(const struct owners *owners, uint32_t *devices, size_t max);
/*
 * Takes over a fresh reading of the map: @entries (malloc'd, in any order, jobs unset) belongs to
 * @owners. -ENOMEM: what is known is as it was.
 */
int owners_replace(struct owners *owners, struct owner *entries, size_t count);
/*
 * How many queue pairs of a device's port have been ready to send (RTS) for @for_ns. @port 0: of
 * any port.
 */
size_t owners_ready(const struct owners *owners, const char *device, unsigned int port,
		    uint64_t now_local_ns, uint64_t for_ns);
const char *owners_how(const struct owners *owners); /* fentry, kprobe, netlink or none */
/* Queue pairs that found the table full, since the daemon started. */
uint64_t owners_refused(const struct owners *owners);
/*
 * A port whose device has had connected queue pairs for some time, and none of whose packets passes
 * the kernel, sees `control`: the NIC carries them past it. Changes port->visibility and its note,
 * or nothing. @owners: a struct owners.
 */
void owners_check_port(void *owners, uint64_t now_local_ns, struct port_info *port);

/*
 * What to do about one entry of the map, or (with @is NULL) about a queue pair that is not in it,
 * by a list that began at @started_local_ns.
 */
enum owners_action { OWNERS_KEEP, OWNERS_DROP, OWNERS_PUT };
enum owners_action owners_decide(const struct esc_owner *is, const struct rdmares_qp *listed,
				 uint32_t listed_pid, bool traced, uint64_t started_local_ns);

/* --- trace.c: the tracing programs on the kernel's modify-QP path --- */

enum qptrace_how { QPTRACE_NONE, QPTRACE_FENTRY, QPTRACE_KPROBE };

/*
 * Attaches by @how, QPTRACE_NONE: by fentry, else by kprobes. The descriptors of the pinned maps
 * are borrowed; less than 0: maps of its own. Returns 0 or -errno with one sentence in @why;
 * -ENODEV: the kernel's RDMA core is not loaded (yet).
 * Nothing is pinned: the programs hold the module ib_core, which could not be unloaded any more
 * after this process.
 */
int qptrace_open(struct qptrace **out, enum qptrace_how how, int control_fd, int owners_fd,
		 char *why, size_t why_bytes);
void qptrace_close(struct qptrace *trace); /* detaches */

enum qptrace_how qptrace_how(const struct qptrace *trace);
/* Queue pairs that found the table full since qptrace_open(). */
uint64_t qptrace_refused(const struct qptrace *trace);

/* "fentry", "kprobe", "none" */
const char *qptrace_how_name(enum qptrace_how how);

/* The kernel features that it uses, for `features`. */
void qptrace_features(json_t *list);

/* --- report.c: the reply to `qp`, and metrics --- */

/*
 * KEY: a QPN ("17", "0x11"), a part of an address, or
 * "SRC>DST/QPN" of which parts may be missing. "" or NULL: all.
 */
struct report_qp_filter {
	char src[64], dst[64]; /* "": any; parts of the address as text */
	bool either;	       /* src may match the destination instead */
	bool has_qpn;
	uint32_t qpn;
};
/* False: @key is longer than any address, or its QPN is no 24-bit number. */
bool report_qp_filter(const char *key, struct report_qp_filter *out);
bool report_qp_matches(const struct report_qp_filter *filter, const struct qp_entry *entry);

struct qp_ranked {
	const struct qp_entry *entry;
	double value;
};
/*
 * The matching queue pairs, the most first; equal ones keep their order. @order: of `--sort`, ""
 * the same as "bytes"; those without a delay come last. A malloc'd array and its length in
 * *@chosen, or NULL.
 */
struct qp_ranked *report_qp_choose(const struct qptable *table,
				   const struct report_qp_filter *filter, const char *order,
				   size_t *chosen);

/* @interface may be NULL: its port is not configured any more. */
json_t *report_qp(const struct qp_entry *entry, const char *interface);

const char *report_direction(const struct esc_qp_key *key);
extern const struct metric qp_metrics[];
void qp_write_metrics(void *self, FILE *out);
extern const struct verb_handler qp_verb_handlers[];

#endif
