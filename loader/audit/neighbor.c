// SPDX-License-Identifier: BSD-2-Clause
/* Cabling: which port of which switch a NIC is connected to, as LLDP reports it. */
#include <errno.h>
#include <string.h>

#include "base/child.h"
#include "base/json.h"
#include "internal.h"

#define TOOL "lldpcli"

/* Of json0 every member is a list: the first entry's `value` of @key. */
static const char *value_of(const json_t *object, const char *key)
{
	return json_text(json_array_get(json_object_get(object, key), 0), "value");
}

static bool has_type(const json_t *object, const char *type)
{
	return !strcmp(json_text(json_array_get(json_object_get(object, "id"), 0), "type"), type);
}

/* "leaf1 swp3": names where there are any, since addresses are not what a cable plan has. */
static void describe(const json_t *neighbor, char *out, size_t bytes)
{
	const json_t *chassis = json_array_get(json_object_get(neighbor, "chassis"), 0);
	const json_t *port = json_array_get(json_object_get(neighbor, "port"), 0);
	const char *name = value_of(chassis, "name"), *at = value_of(port, "id");

	if (has_type(port, "mac") && *value_of(port, "descr"))
		at = value_of(port, "descr");
	snprintf(out, bytes, "%s %s", *name ? name : value_of(chassis, "id"), at);
}

/* The neighbors on @interface: how many, and the first one. */
static size_t find(const json_t *reply, const char *interface, const json_t **first)
{
	const json_t *list = json_array_get(json_object_get(reply, "lldp"), 0), *neighbor;
	size_t i, count = 0;

	json_array_foreach (json_object_get(list, "interface"), i, neighbor) {
		if (strcmp(json_text(neighbor, "name"), interface))
			continue;
		if (!count++)
			*first = neighbor;
	}
	return count;
}

static void judge(struct audit_run *run, const json_t *reply, const struct audit_nic *nic)
{
	const json_t *first = NULL;
	size_t count = nic->netdev[0] ? find(reply, nic->netdev, &first) : 0;
	char text[AUDIT_TEXT_BYTES];

	if (nic->infiniband) {
		audit_skip(run, nic->subject, "InfiniBand has no LLDP");
	} else if (nic->active_failed) {
		audit_skip(run, nic->subject, "nic.active failed");
	} else if (!count) {
		audit_unknown(
			run, nic->subject,
			"no neighbor is received: none sends, or the NIC's firmware keeps it");
	} else if (count > 1) {
		audit_unknown(run, nic->subject, "%zu neighbors are received, not one", count);
	} else {
		describe(first, text, sizeof(text));
		audit_record(run, nic->subject, "%s", text);
	}
}

static void neighbor(struct audit_run *run)
{
	static const char *const argv[] = {TOOL, "-f", "json0", "show", "neighbors", NULL};
	struct child child = {};
	json_t *reply = NULL;

	if (!run->nic_count) {
		audit_skip(run, "", "there is no RDMA device");
	} else if (audit_command(run, argv, &child) == -ENOENT) {
		audit_unknown(run, "", "%s",
			      run->options->root[0] ? "the tree has no command/" TOOL
						    : "lldpd is not installed");
	} else {
		reply = child.text ? json_loadb(child.text, child.bytes, 0, NULL) : NULL;
		if (child.status || !reply)
			audit_unknown(run, "", TOOL ": %s",
				      child.complaint[0] ? child.complaint
							 : "its output is not understood");
		else
			audit_for_each_nic(nic, run) judge(run, reply, nic);
	}
	json_decref(reply);
	child_clear(&child);
}

/* clang-format off: a table */

const struct audit_check audit_neighbor_checks[] = {
	{"nic.neighbor", .group = "backend", .name = "switch port by LLDP", .compare = AUDIT_UNIQUE,
	 .source = "lldpcli -f json0 show neighbors",
	 .criterion = "no other port has it; or that of the cable plan",
	 .remedy =
		 "compare the cable with the plan; it may be swapped with that of the port that is "
		 "expected there",
	 .unknown = "lldpd does not run, or no neighbor is received", .severity = "critical",
	 .run = neighbor},
	{},
};
