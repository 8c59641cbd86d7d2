// SPDX-License-Identifier: BSD-2-Clause
/* The verbs of the audit; the command line runs them, with the daemon's replies where there is one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/explain.h"
#include "base/json.h"
#include "base/readfile.h"
#include "internal.h"

#define FILE_BYTES_MOST (256u << 20)
#define ORDER_BYTES_MOST (16u << 20)
#define EXIT_USAGE 2
#define NICE 19

/* New reference; NULL with *@error, which names the file and the line. */
static json_t *load(const char *path, char **error)
{
	json_error_t where;
	char *bytes = NULL, *why = NULL;
	json_t *value;
	size_t size;

	if (readfile(path, FILE_BYTES_MOST, &bytes, &size, NULL, &why)) {
		explain_text(error, "%s", why);
		free(why);
		return NULL;
	}
	value = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &where);
	free(bytes);
	if (!value)
		explain_text(error, "%s:%d: %s", path, where.line, where.text);
	return value;
}

/* Puts the name of the file in front of what is wrong with it. */
static void blame(char **error, const char *path)
{
	char *why = *error;

	*error = NULL;
	explain_text(error, "%s: %s", path, why ? why : "out of memory");
	free(why);
}

/* *@out stays NULL without --expect. */
static int load_expect(const json_t *args, json_t **out, char **error)
{
	const char *path = json_text(args, "expect");

	if (!*path)
		return 0;
	*out = load(path, error);
	if (!*out)
		return -EINVAL;
	if (!audit_expect_check(*out, error))
		return 0;
	blame(error, path);
	json_decref(*out);
	*out = NULL;
	return -EINVAL;
}

/* Runs the ring, if one is asked for. *@out stays NULL without. */
static int load_ring(const json_t *args, json_t **out, char **error)
{
	const char *path = json_text(args, "ring_order");
	uint64_t traffic_ns = json_count(args, "ring");
	char *order = NULL;
	size_t bytes;

	if (!traffic_ns && !*path)
		return 0;
	if (!traffic_ns || !json_is_true(json_object_get(args, "fleet")))
		return explain(error, -EINVAL, "%s",
			       traffic_ns ? "--ring follows the run of all pairs: give --fleet, too"
					  : "--ring-order is the order of --ring: give that, too");
	if (*path && readfile(path, ORDER_BYTES_MOST, &order, &bytes, NULL, error))
		return -EINVAL;
	*out = audit_ring(json_text(args, "socket"), traffic_ns, order, error);
	if (!*out && *path)
		blame(error, path);
	free(order);
	return *out ? 0 : -EINVAL;
}

/* The file of `--subnet-links`. *@out stays NULL without. */
static int load_links(const json_t *args, char **out, char **error)
{
	const char *path = json_text(args, "subnet_links");
	size_t bytes;

	return *path ? readfile(path, ORDER_BYTES_MOST, out, &bytes, NULL, error) : 0;
}

static bool group_exists(const char *only)
{
	const struct audit_check *check = NULL;

	while ((check = audit_next(check)))
		if (audit_is_of(check, only))
			return true;
	return false;
}

/* Whether the audit failed, by `--strict` also for what is unknown. */
static void conclude(json_t *report, const json_t *args)
{
	bool strict = json_is_true(json_object_get(args, "strict"));

	json_put_bool(report, "failed",
		      json_count(report, "errors") || (strict && json_count(report, "unknown")));
}

/* With the files that were asked for. Steals @report, which may be NULL. */
static json_t *finish(json_t *report, const json_t *args, char **error)
{
	if (!report)
		return NULL;
	conclude(report, args);
	if (!audit_write_files(report, args, error))
		return report;
	json_decref(report);
	return NULL;
}

static json_t *run_audit(const json_t *args, int *exit, char **error)
{
	struct audit_options options = {.root = json_text(args, "root"),
					.daemon = json_object_get(args, "replies"),
					.fleet = json_is_true(json_object_get(args, "fleet"))};
	json_t *expect = NULL, *ring = NULL, *report;
	char *links = NULL;

	*exit = EXIT_USAGE;
	if (*json_text(args, "only")) {
		options.only = json_text(args, "only");
		if (!group_exists(options.only)) {
			explain_text(error,
				     "no group or check `%s`: `escapement audit checks` lists them",
				     options.only);
			return NULL;
		}
	}
	if (load_expect(args, &expect, error))
		return NULL;
	if (*options.root)
		options.daemon = NULL; /* a captured tree is of another host */
	if (*options.root && options.fleet) {
		explain_text(error, "--fleet measures from this host, not from a tree: leave out "
				    "--root");
		json_decref(expect);
		return NULL;
	}
	if (options.fleet && json_is_true(json_object_get(args, "only_local"))) {
		explain_text(error,
			     "--local sends nothing, and --fleet measures: give one of both");
		json_decref(expect);
		return NULL;
	}
	options.expect = expect;
	if (load_links(args, &links, error) || load_ring(args, &ring, error)) {
		json_decref(expect);
		free(links);
		return NULL;
	}
	options.ring = ring;
	options.subnet_links = links;
	options.nccl = json_is_true(json_object_get(args, "nccl"));
	options.subnet = links || json_is_true(json_object_get(args, "subnet"));
	/* A job on this host comes first; but what nccl-tests measure needs the CPU. */
	if (!options.nccl)
		setpriority(PRIO_PROCESS, 0, NICE);
	report = finish(audit_local(&options), args, error);
	json_decref(ring);
	free(links);
	json_decref(expect);
	return report;
}

/* Adds the reports of a file: one, or one in each line, as pdsh and srun collect them. */
static int add_reports(json_t *reports, const char *path, char **error)
{
	char *bytes = NULL, *why = NULL;
	json_error_t where;
	size_t size, at = 0;

	if (readfile(path, FILE_BYTES_MOST, &bytes, &size, NULL, &why)) {
		explain_text(error, "%s", why);
		free(why);
		return -EINVAL;
	}
	while (at < size && at + strspn(bytes + at, " \t\r\n") < size) {
		json_t *report = json_loadb(bytes + at, size - at, JSON_DISABLE_EOF_CHECK, &where);

		if (!report) {
			int line = where.line;

			for (size_t i = 0; i < at; i++)
				line += bytes[i] == '\n';
			explain_text(error, "%s:%d: %s", path, line, where.text);
			free(bytes);
			return -EINVAL;
		}
		json_array_append_new(reports, report);
		at += (size_t)where.position;
	}
	free(bytes);
	return 0;
}

static json_t *run_merge(const json_t *args, int *exit, char **error)
{
	json_t *reports = json_array(), *expect = NULL, *merged = NULL;
	const json_t *path;
	size_t i;

	*exit = EXIT_USAGE;
	if (load_expect(args, &expect, error))
		goto out;
	json_array_foreach (json_object_get(args, "files"), i, path)
		if (add_reports(reports, json_string_value(path), error))
			goto out;
	if (!json_array_size(reports)) {
		explain_text(error, "the files have no reports: make them with `escapement -j "
				    "audit`, and see why that failed");
		goto out;
	}
	merged = finish(audit_merge(reports, json_object_get(expect, "hosts"), error), args, error);
out:
	json_decref(expect);
	json_decref(reports);
	return merged;
}

static json_t *run_diff(const json_t *args, int *exit, char **error)
{
	json_t *before = load(json_text(args, "before"), error), *after = NULL, *changes = NULL;

	*exit = EXIT_USAGE;
	if (before)
		after = load(json_text(args, "after"), error);
	if (after)
		changes = audit_diff(before, after, error);
	json_decref(before);
	json_decref(after);
	return changes;
}

static json_t *run_checks(const json_t *args, int *exit, char **error)
{
	static const char *const compare[] = {"this host", "most hosts", "all hosts", "median",
					      "sibling switches"};
	const struct audit_check *check = NULL;
	json_t *list = json_array();

	(void)args;
	(void)exit;
	(void)error;
	while ((check = audit_next(check)))
		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "check",
				  check->id, "group", check->group, "name", check->name, "source",
				  check->source, "criterion", check->criterion, "remedy",
				  check->remedy, "unknown", check->unknown, "severity",
				  check->severity, "compared_with", compare[check->compare]));
	return json_pack("{s:o}", "checks", list);
}

/* clang-format off: tables */

static const struct column failures[] = {
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "in merged reports"},
	{"CHECK", "check", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "its id; `audit checks` has its source and criterion"},
	{"SUBJECT", "subject", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "a NIC as DEVICE:PORT, an interface; none: the host"},
	{"SEVERITY", "severity", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`critical`: a job fails or is slow"},
	{"VALUE", "value", FORMAT_TEXT, COLUMN_LEFT, .help = "what was found"},
	{"EXPECTED", "expected", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the criterion, the expected value, or that of most hosts"},
	{"REMEDY", "remedy", FORMAT_TEXT, COLUMN_LEFT, .help = "what to do"},
	{},
};

static const struct column nics[] = {
	{"STATUS", "status", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`fail` if any check of the NIC failed, `unknown` if any is unknown"},
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "in merged reports"},
	{"NIC", "nic", FORMAT_TEXT, COLUMN_LEFT, .help = "DEVICE:PORT"},
	{"INITIALIZED", "initialized", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "the daemon's programs are attached"},
	{"ACTIVE", "active", FORMAT_TEXT, COLUMN_LEFT, .help = "the port is ACTIVE and LinkUp"},
	{"GID_INDEX", "gid_index", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "of the first routable GID of RoCE v2"},
	{"CONNECTIVITY", "connectivity", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "all peers that are probed from it are up"},
	{"NETDEV", "netdev", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "its network device"},
	{},
};

static const struct column ring[] = {
	{"ORDER", "order", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "of the ring: `host`, or `topology`, that of the file of `--ring-order`"},
	{"QPS", "qps", FORMAT_COUNT, .help = "queue pairs of each NIC"},
	{"FROM", "nic", FORMAT_TEXT, COLUMN_LEFT, .help = "this host's NIC"},
	{"TO", "peer", FORMAT_TEXT, COLUMN_LEFT, .help = "the next host of the ring"},
	{"GBPS", "gbps", FORMAT_REAL, COLUMN_OPTIONAL, .help = "Gbit/s that perftest wrote"},
	{"OWD_IDLE", "idle_owd_ns", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "least one-way delay to it in the run of all pairs"},
	{"OWD_P50", "owd_ns.p50", FORMAT_TIME, COLUMN_OPTIONAL,
	 .help = "of perftest's queue pairs, of the one with the longest"},
	{"OWD_P99", "owd_ns.p99", FORMAT_TIME, COLUMN_OPTIONAL, .help = "the same"},
	{"ERR", "owd_ns.bound", FORMAT_TIME, COLUMN_OPTIONAL, .help = "bound of their error"},
	{"WHY", "missed|error", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "there is no bandwidth"},
	{},
};

static const struct column groups[] = {
	{"GROUP", "{number} {group}", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "1 to 5; those below are parts of it"},
	{"ERRORS", "errors", FORMAT_COUNT, .help = "results that failed"},
	{"UNKNOWN", "unknown", FORMAT_COUNT, .help = "results that are not known"},
	{"PASSED", "passed", FORMAT_COUNT, .help = "results that passed"},
	{},
};

static const struct column unknown[] = {
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "in merged reports"},
	{"UNKNOWN", "check", FORMAT_TEXT, COLUMN_LEFT, .help = "a check without a result"},
	{"SUBJECT", "subject", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "a NIC as DEVICE:PORT, an interface; none: the host"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "why"},
	{},
};

static const struct column waived[] = {
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "in merged reports"},
	{"WAIVED", "check", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "a failure that the operator expects"},
	{"SUBJECT", "subject", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "a NIC as DEVICE:PORT, an interface; none: the host"},
	{"VALUE", "value", FORMAT_TEXT, COLUMN_LEFT, .help = "what was found"},
	{"REASON", "reason", FORMAT_TEXT, COLUMN_LEFT, .help = "why"},
	{},
};

static const struct verb_section report[] = {
	{.header = "Audit run", .text = "{state} {run_ns}<|, {host}|>"},
	{.header = "Checks",
	 .text = "passed {passed}, errors {errors}, unknown {unknown}, waived {waived}, skipped "
		 "{skipped}"},
	{.when = "pairs",
	 .header = "Pairs",
	 .text = "run {pairs.run_ns}, {pairs.rounds} rounds in {pairs.takes_s:age}<|; each NIC "
		 "sent at most {pairs.budget_pps:count} packets a second, "
		 "{pairs.budget_bytes_per_second:rate}|>"},
	{.when = "ring.rows",
	 .header = "Ring",
	 .text = "{ring.steps} steps in {ring.takes_s:age}; each NIC sent at its rate for "
		 "{ring.loaded_s:age}"},
	{.when = "ring.note", .header = "Ring", .text = "{ring.note}"},
	{.when = "not_compared",
	 .header = "Recorded",
	 .text = "{not_compared} values that one host cannot judge: `escapement audit merge` "
		 "compares hosts"},
	{.when = "groups", .rows = "groups", .columns = groups},
	{.when = "nics", .rows = "nics", .columns = nics},
	{.when = "ring.rows", .rows = "ring.rows", .columns = ring},
	{.when = "errors", .rows = "results", .only = "result=fail", .columns = failures},
	{.when = "waived", .rows = "results", .only = "result=waived", .columns = waived},
	{.when = "unknown", .rows = "results", .only = "result=unknown", .columns = unknown},
	{},
};

static const struct column changes[] = {
	{"HOST", "host", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL, .help = "in merged reports"},
	{"CHECK", "check", FORMAT_TEXT, COLUMN_LEFT, .help = "its id"},
	{"SUBJECT", "subject", FORMAT_TEXT, COLUMN_LEFT | COLUMN_OPTIONAL,
	 .help = "a NIC as DEVICE:PORT, an interface; none: the host"},
	{"BEFORE", "before", FORMAT_TEXT, COLUMN_LEFT, .help = "result in the older report"},
	{"AFTER", "after", FORMAT_TEXT, COLUMN_LEFT, .help = "result in the newer report"},
	{"VALUE_BEFORE", "value_before", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "value in the older report"},
	{"VALUE_AFTER", "value_after", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "value in the newer report"},
	{},
};

static const struct verb_section diff[] = {
	{.rows = "changes", .columns = changes, .empty = "The two reports agree."},
	{},
};

static const struct column checks[] = {
	{"CHECK", "check", FORMAT_TEXT, COLUMN_LEFT, .help = "its id"},
	{"SEVERITY", "severity", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "`critical`: a job fails or is slow"},
	{"COMPARED_WITH", "compared_with", FORMAT_TEXT, COLUMN_LEFT,
	 .help = "what decides: this host alone, most hosts, or all"},
	{"CRITERION", "criterion", FORMAT_TEXT, COLUMN_LEFT, .help = "of a pass"},
	{"SOURCE", "source", FORMAT_TEXT, COLUMN_LEFT, .help = "where it reads"},
	{},
};

static const struct verb_section list[] = {{.rows = "checks", .columns = checks}, {}};

static const struct verb_arg audit_args[] = {
	{"--local", .type = VERB_FLAG, .key = "only_local", .local = true,
	 .help = "this host alone, nothing is sent: what is done without `--fleet`, too"},
	{"--fleet", .type = VERB_FLAG, .key = "fleet", .local = true,
	 .help = "measures all pairs of this host's NICs with those of their rails first, by the "
		 "daemon (`pairs`), which takes half a second for each host; needs root. On other "
		 "hosts at the same time, by pdsh or srun, they measure in step"},
	{"--run", "ID", .key = "run", .type = VERB_COUNT, .least = 1, .local = true,
	 .help = "of `--fleet`: the same on all hosts, as of `pairs start`"},
	{"--round", "DURATION", .key = "round", .type = VERB_DURATION, .least = 400000000,
	 .most = 60000000000, .local = true,
	 .help = "of `--fleet`: of a pair, as of `pairs start`; longer is less load"},
	{"--ring", "DURATION", .key = "ring", .type = VERB_DURATION, .least = 1000000000,
	 .most = 60000000000, .local = true,
	 .help = "of `--fleet`: after all pairs, `ib_write_bw` (perftest) from each NIC to that of "
		 "the next host with 1, 2, 4 and 8 queue pairs, each for this time, at full rate: "
		 "it loads the fabric, and slows jobs that use it. All hosts need the same value"},
	{"--ring-order", "FILE", .key = "ring_order", .local = true,
	 .help = "of `--ring`: once more in the order of a file of `topo --ranks`, the same on all "
		 "hosts"},
	{"--nccl", .type = VERB_FLAG, .key = "nccl", .local = true,
	 .help = "an all-reduce of this host's GPUs too, by `all_reduce_perf` of nccl-tests: it "
		 "loads them for some seconds, and slows jobs that use them"},
	{"--subnet", .type = VERB_FLAG, .key = "subnet", .local = true,
	 .help = "the links of an InfiniBand subnet too, by iblinkinfo and ibqueryerrors, which "
		 "read all its switches: on one host"},
	{"--subnet-links", "FILE", .key = "subnet_links", .local = true,
	 .help = "the same, and each link of a file that `iblinkinfo --line --switches-only` wrote "
		 "when all was right"},
	{"--only", "GROUP", .key = "only", .local = true,
	 .help = "a group, as `configuration` or `pcie`, or one check"},
	{"--expect", "FILE", .key = "expect", .local = true,
	 .help = "JSON: `values` of checks that are else compared between hosts, {\"ID\" or "
		 "\"ID/SUBJECT\": \"TEXT\"}; "
		 "`of_hosts`, {\"HOST\": {...}}, those of a host, as a cable plan; "
		 "`waive`, the same with reasons: such failures are no errors; `off`: checks that "
		 "do not run"},
	{"--root", "DIR", .key = "root", .local = true,
	 .help = "a captured tree with sys/, proc/, etc/, dev/kmsg and replies of netlink instead "
		 "of this host; what needs the daemon is unknown"},
	{"--textfile", "FILE", .key = "textfile", .local = true,
	 .help = "writes metrics for the textfile collector of node_exporter too, as "
		 "escapement-audit.prom in its directory"},
	{"--html", "FILE", .key = "html", .local = true, .help = "writes the report as a page too"},
	{"--strict", .type = VERB_FLAG, .key = "strict", .local = true,
	 .help = "the exit status is 1 also when a check is unknown"},
	{},
};

static const struct verb_arg merge_args[] = {
	{"FILE", .key = "files", .local = true, .required = true, .repeated = true,
	 .help = "a file with a report, or with one after the other, of `escapement -j audit`"},
	{"--expect", "FILE", .key = "expect", .local = true,
	 .help = "as of `audit`; `hosts` is a list of names that have to be there"},
	{"--html", "FILE", .key = "html", .local = true, .help = "writes the report as a page too"},
	{"--strict", .type = VERB_FLAG, .key = "strict", .local = true,
	 .help = "the exit status is 1 also when a check is unknown"},
	{},
};

static const struct verb_arg diff_args[] = {
	{"BEFORE", .key = "before", .local = true, .required = true, .help = "the older report"},
	{"AFTER", .key = "after", .local = true, .required = true, .help = "the newer report"},
	{},
};

static const char *const given[] = {"status", "clock", "peers", "links", "pairs", "paths", NULL};

static const struct verb verbs[] = {
	{.name = "audit",
	 .place = VERB_HERE,
	 .run = run_audit,
	 .given = given,
	 .fails = "failed",
	 .summary = "examine this host's configuration, clock and NICs",
	 .args = audit_args,
	 .output = report,
	 .help = "Reads sysfs, procfs, ethtool netlink and, if it runs, the daemon; writes nothing "
		 "to the host and sends nothing, but with `--fleet`. A check passes, fails, or is "
		 "unknown where its source is missing; unknown is never a pass. It runs at nice "
		 "19, but with `--nccl`. What should be equal on all hosts is recorded, and "
		 "compared by `audit merge` or with `--expect`. The exit status is 1 when a check "
		 "failed. With `--fleet` the daemon sends 100 probes and 6 ICMP echo requests to "
		 "each other NIC of its rails, one after the other: 424 packets a second of a NIC, "
		 "replies to the others included. `--ring` measures bandwidth; no other part sends "
		 "at a high rate."},
	{.name = "audit merge",
	 .place = VERB_HERE,
	 .run = run_merge,
	 .fails = "failed",
	 .summary = "compare the reports of many hosts",
	 .args = merge_args,
	 .output = report,
	 .help = "A value that differs from that of at least 60% of at least 3 hosts fails on the "
		 "host that has it, by NIC. The newest report of a host counts. Of pairs that fail "
		 "(`audit --fleet`) a NIC is at fault when a third of its pairs fail, two at "
		 "least; what fails with it alone is no error of the other end. A ToR with fewer "
		 "uplinks than most of its pod, by the surveyed paths of queue pairs, is named "
		 "with the NICs below it."},
	{.name = "audit diff",
	 .place = VERB_HERE,
	 .run = run_diff,
	 .fails = "failed",
	 .summary = "what changed between two reports",
	 .args = diff_args,
	 .output = diff,
	 .help = "The exit status is 1 when a check fails in the newer one and not in the older "
		 "one."},
	{.name = "audit checks",
	 .place = VERB_HERE,
	 .run = run_checks,
	 .summary = "list the checks of the audit",
	 .output = list},
	{},
};

const struct verb_set audit_verbs = {.name = "audit", .verbs = verbs};
