/* SPDX-License-Identifier: BSD-2-Clause */
/* An audit of the tree of tests/lib/tree.h, and its results. */
#ifndef ESC_TESTS_AUDIT_TREE_H
#define ESC_TESTS_AUDIT_TREE_H

#include <criterion/criterion.h>
#include <string.h>

#include "../lib/tree.h"
#include "audit/internal.h"
#include "base/json.h"

/* @expect and @replies of the daemon may be NULL. New reference. */
static inline json_t *run(const json_t *expect, const json_t *replies)
{
	struct audit_options options = {.root = root, .expect = expect, .daemon = replies};
	json_t *report = audit_local(&options);

	cr_assert(report);
	return report;
}

/* "absent": the check has no result for @subject. */
static inline const char *result_of(const json_t *report, const char *check, const char *subject)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(report, "results"), i, entry)
		if (!strcmp(json_text(entry, "check"), check) &&
		    !strcmp(json_text(entry, "subject"), subject))
			return json_text(entry, "result");
	return "absent";
}

/* A daemon that finds everything right, with one front-end and one back-end interface. */
static inline json_t *good_replies(const char *backend)
{
	return json_pack("{s:{s:s, s:[{s:s, s:s, s:b, s:s, s:s}, {s:s, s:s, s:b, s:s, s:s}]},"
			 "s:{s:s, s:i, s:i, s:i}, s:{s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]},"
			 "s:{s:[{s:s, s:s, s:i}, {s:s, s:s, s:i}, {s:s, s:s, s:i}]}}",
			 "status", "host", "node1", "interfaces", "name", "front0", "plane",
			 "frontend", "link_up", 1, "attach", "native", "tc", "tcx", "name", backend,
			 "plane", "backend", "link_up", 1, "attach", "native", "tc", "tcx", "clock",
			 "state", "synced", "bound_ns", 300, "peers_used", 9, "peers_configured",
			 10, "peers", "peers", "peer", "h2", "interface", "front0", "state", "up",
			 "peer", "h2", "interface", backend, "state", "up", "links", "links",
			 "netdev", backend, "state", "up", "flaps_1h", 2, "netdev", "front0",
			 "state", "up", "flaps_1h", 0, "netdev", "back1", "state", "up", "flaps_1h",
			 0);
}

#endif
