// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as a file of a host's tree that the audit reads: the kernel's log, recorded replies of
 * netlink, configuration spaces, files of sysfs and procfs. Always a report, and each result has
 * its value or its reason.
 */
#include "audit/internal.h"
#include "base/json.h"
#include "input.h"
#include "../lib/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void put_bytes(const char *name, const void *bytes, size_t size)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	unlink(path);
	file = fopen(path, "w");
	tree_need(file, path);
	fwrite(bytes, 1, size, file);
	fclose(file);
}

static void check_result(const json_t *entry)
{
	const char *result = json_text(entry, "result");
	bool reason = !strcmp(result, "unknown") || !strcmp(result, "skipped");

	if (!*result || !audit_named(json_text(entry, "check")))
		abort();
	if (reason && !*json_text(entry, "reason"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = {bytes, bytes + size};
	/* Beyond the tree's own files: what programs print. */
	static const char *const more[] = {"command/iblinkinfo", "command/ibqueryerrors"};
	struct audit_options options = {.root = root, .subnet = true, .subnet_links = ""};
	const char *name;
	size_t rest, i, which = (size_t)input_take(&in, 1);
	const json_t *entry;
	json_t *report;
	char *copy, *text;

	if (!root[0]) {
		unpack("irdma");
		atexit(clean);
	}
	which %= line_count + 2;
	name = which < line_count ? lines[which] : more[which - line_count];
	copy = input_rest(&in, &rest);
	put_bytes(name, copy, rest);
	free(copy);
	report = audit_local(&options);
	text = report ? json_dumps(report, 0) : NULL;
	if (!text)
		abort();
	free(text);
	json_array_foreach (json_object_get(report, "results"), i, entry)
		check_result(entry);
	json_decref(report);
	if (which < line_count)
		restore(name);
	else
		put(name, NULL);
	return 0;
}
