/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The audit of a host: is its configuration fit for a job, and if not, which part of it is at
 * fault. A table of checks, each with its source, criterion and remedy; a report as JSON; reports
 * of many hosts merged, and two of them compared. Nothing is written to the host.
 */
#ifndef ESC_AUDIT_H
#define ESC_AUDIT_H

#include <jansson.h>

#include "base/fields.h"
#include "base/verb.h"

#define AUDIT_REPORT_VERSION 1

struct audit_options {
	const char *root; /* "" this host, or a captured tree with sys/, proc/, etc/, dev/ */
	const char *only; /* a group, or a check's id; NULL: all */
	/*
	 * {"values": {ID or "ID/SUBJECT": TEXT}, "waive": {ID or "ID/SUBJECT": REASON}, "off":
	 * [ID], "of_hosts": {HOST: as "values"}}; NULL: none. audit_expect_check() has accepted it.
	 */
	const json_t *expect;
	bool fleet;  /* the checks of all pairs too, by the daemon's last run (pairs/) */
	bool nccl;   /* an all-reduce of this host's GPUs, too, which loads them */
	bool subnet; /* the checks of a whole InfiniBand subnet, too */
	const char *subnet_links; /* an earlier output of iblinkinfo; NULL: none */
	const json_t *ring;	  /* what audit_ring() found; NULL: there was none */
	/* The daemon's replies by verb: "status", "clock", "peers", "links", "pairs";
	 * NULL or without one: the checks that need it are unknown. */
	const json_t *daemon;
};

/* A report, see escapement(1), AUDIT (new reference); NULL: out of memory. */
json_t *audit_local(const struct audit_options *options);

/*
 * A ring of bandwidth tests of @traffic_ns each, after a run of all pairs, which takes a minute or
 * two. @order: text of a rank file for the order of the topology, or NULL. New reference, or NULL
 * with *@error.
 */
json_t *audit_ring(const char *socket, uint64_t traffic_ns, const char *order, char **error);

/* 0, or -EINVAL with *@error, a malloc'd sentence that names the key and a remedy. */
int audit_expect_check(const json_t *expect, char **error);

/*
 * One report of those of several hosts: what has to be equal on all of them is compared with the
 * majority, what has to be unique among them with all. @hosts: names that have to be there, an
 * array, or NULL. NULL with *@error when one is no report.
 */
json_t *audit_merge(const json_t *reports, const json_t *hosts, char **error);

/* What changed from one report to another (new reference); NULL with *@error. */
json_t *audit_diff(const json_t *before, const json_t *after, char **error);

extern const struct verb_set audit_verbs;
extern const struct metric audit_metrics[]; /* of `audit --textfile`; ended by {} */

#endif
