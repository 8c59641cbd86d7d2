/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ESC_AUDIT_INTERNAL_H
#define ESC_AUDIT_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit.h"
#include "net/dcb.h"
#include "net/linkinfo.h"
#include "net/rdma.h"
#include "net/rtnl.h"

#define AUDIT_NICS_MAX 64
#define AUDIT_TEXT_BYTES 256

/* A port of an RDMA device. */
struct audit_nic {
	char subject[96]; /* "mlx5_0:1" */
	char device[64];
	unsigned int port;
	char netdev[64];       /* "" none was found */
	char driver[32];       /* of the bus device; "" none: software */
	char bus[32];	       /* its address there, "0000:1a:00.0"; "" not known */
	bool infiniband, roce; /* by its link layer; that of EFA is neither */
	bool active_failed;    /* what depends on it is skipped */
	/* By netlink; of a captured tree those of which there is a recorded reply. */
	struct link_details link;
	struct dcb_facts dcb;
};

struct audit_run {
	const struct audit_options *options;
	const struct audit_check *check; /* the one that runs */
	struct audit_nic nics[AUDIT_NICS_MAX];
	size_t nic_count, nics_left_out;
	const char *host; /* its name, or NULL */
	json_t *results;
};

enum audit_compare {
	AUDIT_ABSOLUTE, /* decided on this host */
	AUDIT_MAJORITY, /* equal on most hosts */
	AUDIT_UNIQUE,	/* different on all hosts */
	AUDIT_MEDIAN,	/* a number, not much below the median of all hosts */
	AUDIT_SIBLINGS, /* of a switch, equal on most of those beside it */
};

struct audit_check {
	const char *id;	   /* "pcie.width" */
	const char *group; /* a part of the report: "configuration.pcie" */
	const char *name;
	const char *source;
	const char *criterion; /* of a value that passes */
	const char *remedy;
	const char *unknown;  /* when it is not known */
	const char *severity; /* "critical": a job fails or is slow; "warning" */
	enum audit_compare compare;
	void (*run)(struct audit_run *run);
};

/* Each list ends with one of zeros. */
extern const struct audit_check audit_host_checks[], audit_queue_pair_checks[], audit_log_checks[],
	audit_pcie_checks[], audit_nic_checks[], audit_dcb_checks[], audit_daemon_checks[],
	audit_peer_checks[], audit_fabric_checks[], audit_ring_checks[], audit_neighbor_checks[],
	audit_nccl_checks[], audit_subnet_checks[], audit_topology_checks[];
#define AUDIT_FABRIC "fabric"	      /* the group of what all pairs of NICs are measured for */
#define AUDIT_SUBNET "backend.subnet" /* of a whole InfiniBand subnet */
#define AUDIT_NCCL "nccl"	      /* of collectives by nccl-tests */
#define AUDIT_RING "ring"	      /* of bandwidth by perftest */

/* In the order of the report: NULL begins and ends. */
const struct audit_check *audit_next(const struct audit_check *last);
const struct audit_check *audit_named(const char *id);
/* @group: the check's id or its group, or some of the first words of one of these. */
bool audit_is_of(const struct audit_check *check, const char *group);

/* --- results of the check that runs; @subject "": the host; @format: the value, or the reason ---
 */

#define AUDIT_PRINTF __attribute__((format(printf, 3, 4)))
void audit_pass(struct audit_run *run, const char *subject, const char *format, ...) AUDIT_PRINTF;
void audit_fail(struct audit_run *run, const char *subject, const char *format, ...) AUDIT_PRINTF;
void audit_unknown(struct audit_run *run, const char *subject, const char *format,
		   ...) AUDIT_PRINTF;
/* Something that it depends on failed. */
void audit_skip(struct audit_run *run, const char *subject, const char *format, ...) AUDIT_PRINTF;
/* A value of AUDIT_MAJORITY or AUDIT_UNIQUE: an expected one decides, else a merge of reports. */
void audit_record(struct audit_run *run, const char *subject, const char *format, ...) AUDIT_PRINTF;
/* audit_pass() or audit_fail(). */
#define audit_decide(run, good, subject, ...)                                                      \
	((good) ? audit_pass(run, subject, __VA_ARGS__) : audit_fail(run, subject, __VA_ARGS__))

/*
 * Whether a result is of a NIC of the overview: its subject is the port (@nic, "mlx5_0:1"), the
 * device ("mlx5_0": pcie.*) or the network device.
 */
bool audit_concerns(const char *subject, const char *nic, const char *netdev);

#define AUDIT_RESULT_KINDS 6
/* Each result, and the member of a report that counts it. */
extern const char *const audit_results[AUDIT_RESULT_KINDS][2];
/* Sets the counts of a report by its results. */
void audit_count(json_t *report);

/* Adds the counts of each group that has results: `groups`. */
void audit_put_groups(json_t *report);
/*
 * The files of `--textfile` and `--html` in @args. 0, or -errno with *@error, a malloc'd sentence.
 */
int audit_write_files(const json_t *report, const json_t *args, char **error);

/* Adds what the run of all pairs sent to a report. */
void audit_put_pairs(json_t *report, const struct audit_run *run);
/*
 * Of the results of many hosts, which NIC is at fault where pairs fail. @results: changed, with
 * entries for NICs of hosts without a report.
 */
void audit_blame(json_t *results);
/*
 * A result that was no pass is `skipped` for @reason, which is taken, or passes without one (NULL):
 * what it had as a failure goes.
 */
void audit_explain(json_t *entry, json_t *reason);
/* Sets a result, and its `expected` or `reason`; the remedy of a failure. */
void audit_conclude(json_t *entry, const char *result, const char *member, const char *text);
/* Of AUDIT_SIBLINGS. @results: changed. */
void audit_compare_siblings(json_t *results);
/* Of AUDIT_MEDIAN: compares the values of many hosts. @results: changed. */
void audit_compare_median(json_t *results);

/* --- files below the root --- */

/* As readtext() of base/readfile.h, of the root and the path that @format gives. */
int audit_read(const struct audit_run *run, char *out, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* False: it is missing, or no decimal or 0x number. */
bool audit_read_number(const struct audit_run *run, int64_t *out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Calls @fn with each path below the root that matches; returns how many. */
typedef void audit_path_fn(struct audit_run *run, const char *path, void *context);
size_t audit_each(struct audit_run *run, const char *pattern, audit_path_fn *fn, void *context);
/* The last part of a path. */
const char *audit_last(const char *path);

/*
 * A recorded reply of netlink to @query ("dcb", "fec", "pause") about @netdev below the root: in
 * the file netlink/NETDEV/QUERY, as it came. @fn gets each message. -ENOENT: there is none;
 * -EBADMSG.
 */
int audit_recorded(const struct audit_run *run, const char *netdev, const char *query,
		   netlink_reply_fn *fn, void *context);

struct child;
/*
 * Runs a program that only reads, for 20 s at most; below a root its recorded output is in
 * command/NAME. 0: see @out, a program that fails included; -ENOENT: there is no such program, or
 * no record. The caller clears @out.
 */
int audit_command(const struct audit_run *run, const char *const argv[], struct child *out);

/* The value of "KEY=value" in a nccl.conf, "" none. */
#define AUDIT_CONF_BYTES 16384
void audit_nccl_value(const char *text, const char *key, char *out, size_t bytes);

/* GPUs on the PCI bus. */
size_t audit_gpus(struct audit_run *run);

/* Result of the queue pairs of a host; its processes are read below the root. */
void audit_judge_queue_pairs(struct audit_run *run, const struct rdmares *list);

/* The first index of a routable GID of RoCE v2, IPv4 before IPv6, as NCCL chooses; -1 none. */
int audit_gid_index(const struct audit_run *run, const struct audit_nic *nic);

/* Calls @fn for each RoCE port, but for those that are not active where @needs_active. */
void audit_each_roce(struct audit_run *run,
		     void (*fn)(struct audit_run *run, struct audit_nic *nic), bool needs_active);

/* Fills in nics. */
void audit_find_nics(struct audit_run *run);
#define audit_for_each_nic(nic, run)                                                               \
	for (struct audit_nic *nic = (run)->nics; nic < (run)->nics + (run)->nic_count; nic++)

#endif
