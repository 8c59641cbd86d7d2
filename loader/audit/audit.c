// SPDX-License-Identifier: BSD-2-Clause
/* A run of the checks, and the report of it. */
#include "audit.h"

#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/json.h"
#include "base/now.h"
#include "base/readfile.h"
#include "internal.h"

static const struct audit_check *const lists[] = {
	audit_host_checks,     audit_queue_pair_checks, audit_log_checks,  audit_pcie_checks,
	audit_daemon_checks,   audit_nic_checks,	audit_dcb_checks,  audit_peer_checks,
	audit_neighbor_checks, audit_fabric_checks,	audit_ring_checks, audit_nccl_checks,
	audit_subnet_checks,   audit_topology_checks,
};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

const struct audit_check *audit_next(const struct audit_check *last)
{
	bool found = !last;

	for (size_t i = 0; i < LISTS; i++)
		for (const struct audit_check *check = lists[i]; check->id; check++) {
			if (found)
				return check;
			found = check == last;
		}
	return NULL;
}

const struct audit_check *audit_named(const char *id)
{
	const struct audit_check *check = NULL;

	while ((check = audit_next(check)))
		if (!strcmp(check->id, id))
			return check;
	return NULL;
}

/* --- files below the root --- */

int audit_read(const struct audit_run *run, char *out, size_t bytes, const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	return readtext(out, bytes, "%s%s", run->options->root, path);
}

bool audit_read_number(const struct audit_run *run, int64_t *out, const char *format, ...)
{
	char path[PATH_MAX], text[64], *end;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	if (readtext(text, sizeof(text), "%s%s", run->options->root, path) <= 0)
		return false;
	errno = 0;
	*out = strtoll(text, &end, 0);
	return end != text && !errno && (*end == '\0' || *end == ' ' || *end == '\n');
}

size_t audit_each(struct audit_run *run, const char *pattern, audit_path_fn *fn, void *context)
{
	size_t skip = strlen(run->options->root), count;
	char full[PATH_MAX];
	glob_t found;

	snprintf(full, sizeof(full), "%s%s", run->options->root, pattern);
	if (glob(full, 0, NULL, &found))
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		fn(run, found.gl_pathv[i] + skip, context);
	count = found.gl_pathc;
	globfree(&found);
	return count;
}

int audit_recorded(const struct audit_run *run, const char *netdev, const char *query,
		   netlink_reply_fn *fn, void *context)
{
	char path[PATH_MAX], *bytes, *error = NULL;
	const struct nlmsghdr *message;
	size_t size;
	int left, err;

	snprintf(path, sizeof(path), "%s/netlink/%s/%s", run->options->root, netdev, query);
	err = readfile(path, 1 << 20, &bytes, &size, NULL, &error);
	if (err) {
		free(error);
		return err;
	}
	left = (int)size;
	message = (const void *)bytes;
	/* mnl_nlmsg_ok() takes a length above INT_MAX as a negative one. */
	for (; left > 0 && mnl_nlmsg_ok(message, left) && message->nlmsg_len <= (uint32_t)left;
	     message = mnl_nlmsg_next(message, &left))
		fn(message, context);
	free(bytes);
	return left > 0 ? -EBADMSG : 0;
}

#define COMMAND_NS 20000000000ull
#define COMMAND_BYTES_MOST (64u << 20)

int audit_command(const struct audit_run *run, const char *const argv[], struct child *out)
{
	char path[PATH_MAX], *error = NULL;
	int err;

	*out = (struct child){};
	if (run->options->root[0]) {
		snprintf(path, sizeof(path), "%s/command/%s", run->options->root, argv[0]);
		err = readfile(path, COMMAND_BYTES_MOST, &out->text, &out->bytes, NULL, &error);
		free(error);
		return err ? -ENOENT : 0;
	}
	err = child_run(out, argv, COMMAND_NS);
	if (!err)
		return out->status == CHILD_NOT_FOUND ? -ENOENT : 0;
	out->status = -1;
	snprintf(out->complaint, sizeof(out->complaint), "%s",
		 err == -ETIME ? "it did not end within 20 s" : strerror(-err));
	return 0;
}

const char *audit_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* --- results --- */

/* What @section of the expected values has for a subject, or for all subjects of the check. */
static const char *expected(const struct audit_run *run, const char *section, const char *subject)
{
	const json_t *object = json_object_get(run->options->expect, section);
	const json_t *of_hosts = json_object_get(run->options->expect, "of_hosts");
	char key[AUDIT_TEXT_BYTES];
	const json_t *value = NULL;

	snprintf(key, sizeof(key), "%s/%s", run->check->id, subject);
	if (run->host && !strcmp(section, "values"))
		value = json_object_get(json_object_get(of_hosts, run->host), key);
	if (!value)
		value = json_object_get(object, key);
	if (!value)
		value = json_object_get(object, run->check->id);
	return json_string_value(value);
}

static void add(struct audit_run *run, const char *subject, const char *result, const char *member,
		const char *text)
{
	const struct audit_check *check = run->check;
	const char *waiver = expected(run, "waive", subject);
	bool failed = !strcmp(result, "fail");
	json_t *entry = json_object();

	json_put_text(entry, "check", check->id);
	json_put_text(entry, "group", check->group);
	json_put_text(entry, "name", check->name);
	json_put_name(entry, "subject", subject);
	json_put_text(entry, "result", failed && waiver ? "waived" : result);
	json_put_name(entry, member, text);
	if (failed || check->compare != AUDIT_ABSOLUTE)
		json_put_text(entry, "severity", check->severity);
	if (failed && waiver)
		json_put_name(entry, "reason", waiver);
	if (failed && !json_object_get(entry, "expected"))
		json_put_text(entry, "expected", check->criterion);
	if (failed)
		json_put_text(entry, "remedy", check->remedy);
	json_array_append_new(run->results, entry);
}

#define ADD(result, member)                                                                        \
	do {                                                                                       \
		char text[AUDIT_TEXT_BYTES];                                                       \
		va_list arguments;                                                                 \
                                                                                                   \
		va_start(arguments, format);                                                       \
		vsnprintf(text, sizeof(text), format, arguments);                                  \
		va_end(arguments);                                                                 \
		add(run, subject, result, member, text);                                           \
	} while (0)

void audit_pass(struct audit_run *run, const char *subject, const char *format, ...)
{
	ADD("pass", "value");
}

void audit_fail(struct audit_run *run, const char *subject, const char *format, ...)
{
	ADD("fail", "value");
}

void audit_unknown(struct audit_run *run, const char *subject, const char *format, ...)
{
	ADD("unknown", "reason");
}

void audit_skip(struct audit_run *run, const char *subject, const char *format, ...)
{
	ADD("skipped", "reason");
}

void audit_record(struct audit_run *run, const char *subject, const char *format, ...)
{
	const char *wanted = expected(run, "values", subject);
	char text[AUDIT_TEXT_BYTES];
	va_list arguments;
	bool good;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!wanted) {
		add(run, subject, "recorded", "value", text);
		return;
	}
	good = run->check->compare == AUDIT_MEDIAN ? strtod(text, NULL) >= strtod(wanted, NULL)
						   : !strcmp(text, wanted);
	add(run, subject, good ? "pass" : "fail", "value", text);
	json_put_name(json_array_get(run->results, json_array_size(run->results) - 1), "expected",
		      wanted);
}

/* --- a run --- */

/* @name is all of @dotted, or some of its first words. */
static bool is_head(const char *dotted, const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(dotted, name, bytes) && (dotted[bytes] == '\0' || dotted[bytes] == '.');
}

bool audit_is_of(const struct audit_check *check, const char *group)
{
	return is_head(check->group, group) || is_head(check->id, group);
}

static bool is_wanted(const struct audit_options *options, const struct audit_check *check)
{
	const json_t *off = json_object_get(options->expect, "off"), *id;
	size_t i;

	json_array_foreach (off, i, id)
		if (!strcmp(json_string_value(id), check->id))
			return false;
	if (options->only)
		return audit_is_of(check, options->only);
	if (!strcmp(check->group, AUDIT_RING))
		return options->ring;
	if (!strcmp(check->group, AUDIT_NCCL))
		return options->nccl;
	if (!strcmp(check->group, AUDIT_SUBNET))
		return options->subnet;
	return options->fleet || strcmp(check->group, AUDIT_FABRIC) != 0;
}

static const json_t *result_of(const struct audit_run *run, const char *check, const char *subject)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (run->results, i, entry)
		if (!strcmp(json_text(entry, "check"), check) &&
		    !strcmp(json_text(entry, "subject"), subject))
			return entry;
	return NULL;
}

/* "pass", "fail", ... for the overview of NICs; "-" when the check did not run. */
static void put_cell(json_t *row, const char *key, const struct audit_run *run, const char *check,
		     const char *subject)
{
	const json_t *entry = result_of(run, check, subject);

	json_put_text(row, key, entry ? json_text(entry, "result") : "-");
}

bool audit_concerns(const char *subject, const char *nic, const char *netdev)
{
	size_t device = strcspn(nic, ":");

	return *subject && (!strcmp(subject, nic) || !strcmp(subject, netdev) ||
			    (!strncmp(subject, nic, device) && subject[device] == '\0'));
}

static const char *worst_of(const struct audit_run *run, const struct audit_nic *nic)
{
	const char *worst = "pass";
	const json_t *entry;
	size_t i;

	json_array_foreach (run->results, i, entry) {
		const char *result = json_text(entry, "result");

		if (!audit_concerns(json_text(entry, "subject"), nic->subject, nic->netdev))
			continue;
		if (!strcmp(result, "fail"))
			return "fail";
		if (!strcmp(result, "unknown"))
			worst = "unknown";
	}
	return worst;
}

/* The overview of NICs. */
static json_t *nics_of(struct audit_run *run)
{
	json_t *rows = json_array();

	audit_for_each_nic(nic, run)
	{
		const json_t *gid = result_of(run, "roce.gid", nic->subject);
		json_t *row = json_object();

		json_put_text(row, "status", worst_of(run, nic));
		json_put_name(row, "nic", nic->subject);
		json_put_name(row, "netdev", nic->netdev);
		put_cell(row, "initialized", run, "backend.initialized", nic->subject);
		put_cell(row, "active", run, "nic.active", nic->subject);
		json_put_text(row, "gid_index", gid ? json_text(gid, "value") : "-");
		put_cell(row, "connectivity", run, "backend.connectivity", nic->subject);
		json_array_append_new(rows, row);
	}
	return rows;
}

const char *const audit_results[AUDIT_RESULT_KINDS][2] = {
	{"pass", "passed"},   {"fail", "errors"},	    {"unknown", "unknown"},
	{"waived", "waived"}, {"recorded", "not_compared"}, {"skipped", "skipped"}};

void audit_count(json_t *report)
{
	for (size_t kind = 0; kind < AUDIT_RESULT_KINDS; kind++) {
		const json_t *entry;
		json_int_t count = 0;
		size_t i;

		json_array_foreach (json_object_get(report, "results"), i, entry)
			count += !strcmp(json_text(entry, "result"), audit_results[kind][0]);
		json_put_count(report, audit_results[kind][1], count);
	}
	audit_put_groups(report);
}

/* The daemon's name for it goes first. */
static const char *find_host(const struct audit_run *run, char out[256])
{
	const char *given = json_text(json_object_get(run->options->daemon, "status"), "host");

	if (*given)
		return given;
	return audit_read(run, out, 256, "/proc/sys/kernel/hostname") > 0 ? out : NULL;
}

json_t *audit_local(const struct audit_options *options)
{
	struct audit_run run = {.options = options, .results = json_array()};
	char host[256];
	json_t *report;

	run.host = find_host(&run, host);
	audit_find_nics(&run);
	while ((run.check = audit_next(run.check)))
		if (is_wanted(options, run.check))
			run.check->run(&run);
	report = json_pack("{s:i, s:I, s:s}", "version", AUDIT_REPORT_VERSION, "run_ns",
			   (json_int_t)now_clock_ns(CLOCK_REALTIME), "state", "completed");
	json_put_name(report, "host", run.host ? run.host : "");
	if (options->fleet)
		audit_put_pairs(report, &run);
	if (options->ring)
		json_object_set(report, "ring", (json_t *)options->ring);
	json_put(report, "nics", nics_of(&run));
	json_put(report, "results", run.results);
	audit_count(report);
	return report;
}
