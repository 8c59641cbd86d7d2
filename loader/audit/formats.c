// SPDX-License-Identifier: BSD-2-Clause
/* A report by its groups, as metrics for the textfile collector, and as a page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explain.h"
#include "base/fields.h"
#include "base/json.h"
#include "base/writefile.h"
#include "internal.h"
#include "report/report.h"

/* --- groups, in the order of the screen --- */

#define BACKEND 6
#define OTHER 13

static const struct group {
	const char *number, *name;
	const char *of[4]; /* groups or checks */
} groups[] = {
	{"1", "configuration", {"configuration"}},
	{"1.1", "software", {"configuration.software"}},
	{"1.2", "memory", {"configuration.memory"}},
	{"1.3", "PCIe", {"configuration.pcie"}},
	{"2", "clock", {"clock"}},
	{"3", "front end", {"frontend"}},
	{"4", "back end", {"backend", AUDIT_FABRIC}},
	{"4.1", "initialized", {"backend.initialized"}},
	{"4.2", "active", {"nic.active", "backend.link"}},
	{"4.3", "GID index", {"roce.gid", "roce.gid_same"}},
	{"4.4",
	 "connectivity",
	 {"backend.connectivity", "fabric.pairs", "fabric.loss", "fabric.mtu"}},
	{"4.5", "latency", {"fabric.latency", "fabric.asymmetry"}},
	{"4.6", "topology", {"topology.uplinks", "nic.neighbor"}},
	[OTHER] = {"4.7", "other of NICs", {NULL}}, /* of the back end, in none of those above */
	{"5", "queue pairs", {AUDIT_RING, AUDIT_NCCL}},
	{"5.1", "1 queue pair", {"ring.host_1qp"}},
	{"5.2", "2 queue pairs", {"ring.host_2qp"}},
	{"5.3", "4 queue pairs", {"ring.host_4qp"}},
	{"5.4", "8 queue pairs", {"ring.host_8qp"}},
	{"5.5", "1, by topology", {"ring.topology_1qp"}},
	{"5.6", "2, by topology", {"ring.topology_2qp"}},
	{"5.7", "4, by topology", {"ring.topology_4qp"}},
	{"5.8", "8, by topology", {"ring.topology_8qp"}},
	{"5.9", "NCCL on this host", {AUDIT_NCCL}},
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static bool has(const struct group *group, const struct audit_check *check)
{
	for (size_t i = 0; i < 4 && group->of[i]; i++)
		if (audit_is_of(check, group->of[i]))
			return true;
	return false;
}

static bool is_in(size_t at, const struct audit_check *check)
{
	if (at != OTHER)
		return has(&groups[at], check);
	for (size_t i = BACKEND + 1; i < OTHER; i++)
		if (has(&groups[i], check))
			return false;
	return has(&groups[BACKEND], check);
}

void audit_put_groups(json_t *report)
{
	json_t *list = json_array();

	for (size_t at = 0; at < GROUPS; at++) {
		json_int_t passed = 0, errors = 0, unknown = 0, all = 0;
		const json_t *entry;
		size_t i;

		json_array_foreach (json_object_get(report, "results"), i, entry) {
			const struct audit_check *check = audit_named(json_text(entry, "check"));
			const char *result = json_text(entry, "result");

			/* "report": the host has none; it counts with the configuration. */
			if (check ? !is_in(at, check) : at != 0)
				continue;
			all++;
			passed += !strcmp(result, "pass");
			errors += !strcmp(result, "fail");
			unknown += !strcmp(result, "unknown");
		}
		if (all)
			json_array_append_new(list,
					      json_pack("{s:s, s:s, s:I, s:I, s:I}", "number",
							groups[at].number, "group", groups[at].name,
							"passed", passed, "errors", errors,
							"unknown", unknown));
	}
	json_put(report, "groups", list);
}

/* --- metrics --- */

#define AUDIT_METRICS(X)                                                                           \
	X(AUDIT_RUN, "audit_run_timestamp_seconds", GAUGE,                                         \
	  "When `escapement audit --textfile` examined the host; this family and the next three "  \
	  "are in the file that it writes.")                                                       \
	X(AUDIT_RESULTS, "audit_results", GAUGE,                                                   \
	  "Results of that audit by `result`: pass, fail, unknown, waived, recorded, skipped.")    \
	X(AUDIT_FAILED, "audit_failed", GAUGE,                                                     \
	  "How many results of a check failed, by `check` and `severity`; of others there is no "  \
	  "series.")                                                                               \
	X(AUDIT_NIC_FAILED, "audit_nic_failed", GAUGE, "1: a check of the NIC failed, by `nic`.")

enum { AUDIT_METRICS(METRIC_ENUM) };
const struct metric audit_metrics[] = {AUDIT_METRICS(METRIC){}};
#define AUDIT(id) FAMILY_OF(&audit_metrics[id])

static uint64_t count_failed(const json_t *report, const char *check)
{
	const json_t *entry;
	uint64_t count = 0;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry)
		count += !strcmp(json_text(entry, "check"), check) &&
			 !strcmp(json_text(entry, "result"), "fail");
	return count;
}

/* As many series as there are checks and NICs, at most. */
static void write_metrics(const json_t *report, FILE *out)
{
	struct prom_family *counts = AUDIT(AUDIT_RESULTS), *failed = AUDIT(AUDIT_FAILED);
	struct prom_family *nics = AUDIT(AUDIT_NIC_FAILED);
	const struct audit_check *check = NULL;
	const json_t *nic;
	size_t i;

	prom_value(AUDIT(AUDIT_RUN), (double)json_count(report, "run_ns") / 1e9, NULL);
	for (i = 0; i < AUDIT_RESULT_KINDS; i++)
		prom_count(counts, json_count(report, audit_results[i][1]), "result",
			   audit_results[i][0], NULL);
	while ((check = audit_next(check))) {
		uint64_t count = count_failed(report, check->id);

		if (count)
			prom_count(failed, count, "check", check->id, "severity", check->severity,
				   NULL);
	}
	json_array_foreach (json_object_get(report, "nics"), i, nic)
		prom_count(nics, !strcmp(json_text(nic, "status"), "fail"), "nic",
			   json_text(nic, "nic"), NULL);
}

/* --- files --- */

static int write_file(const json_t *report, const char *path,
		      void (*fn)(const json_t *report, FILE *out), char **error)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	int err = -ENOMEM;

	if (out) {
		fn(report, out);
		err = ferror(out) ? -ENOMEM : 0;
		if (fclose(out))
			err = -ENOMEM;
	}
	if (!err)
		err = writefile(path, text, bytes, 0644, false);
	free(text);
	if (err)
		explain(error, err, "%s: %s; give a file in a directory that can be written", path,
			strerror(-err));
	return err;
}

int audit_write_files(const json_t *report, const json_t *args, char **error)
{
	const char *textfile = json_text(args, "textfile"), *page = json_text(args, "html");
	int err = *textfile ? write_file(report, textfile, write_metrics, error) : 0;

	return err || !*page ? err : write_file(report, page, report_write_audit, error);
}
