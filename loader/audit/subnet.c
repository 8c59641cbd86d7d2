// SPDX-License-Identifier: BSD-2-Clause
/*
 * The links of an InfiniBand subnet, by iblinkinfo and ibqueryerrors of infiniband-diags, which
 * read all switches with SMPs: from one host, when it is asked for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/units.h"
#include "internal.h"
#include "net/iblinks.h"

#define LEAVES_LEAST 3
#define PERCENT 60

/* "leaf1:5" */
static const char *port_name(const struct iblinks_port *port, char out[96])
{
	snprintf(out, 96, "%s:%u", port->name, port->port);
	return out;
}

/* --- checks --- */

/* False: a result says why it is unknown. */
static bool run_tool(struct audit_run *run, const char *const argv[], bool may_fail,
		     struct child *child)
{
	if (audit_command(run, argv, child) == -ENOENT) {
		audit_unknown(run, "",
			      run->options->root[0] ? "the tree has no command/%s"
						    : "%s is not installed: infiniband-diags",
			      argv[0]);
		return false;
	}
	if ((child->status && !may_fail) || !child->text) {
		audit_unknown(run, "", "%s: %s", argv[0],
			      child->complaint[0] ? child->complaint : "no output");
		return false;
	}
	return true;
}

static bool read_subnet(struct audit_run *run, struct iblinks *out)
{
	static const char *const argv[] = {"iblinkinfo", "--line", "--switches-only", NULL};
	struct child child = {};

	*out = (struct iblinks){};
	if (run_tool(run, argv, false, &child)) {
		iblinks_parse(out, child.text);
		if (!out->count)
			audit_unknown(run, "", "iblinkinfo shows no switch");
	}
	child_clear(&child);
	return out->count;
}

/* The number of uplinks of the most leaves; 0: no number has 60% of them. */
static unsigned int usual_links(const struct iblinks_leaf *leaves, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t k = 0; k < count; k++)
			same += leaves[k].up == leaves[i].up;
		if (same * 100 >= count * PERCENT)
			return leaves[i].up;
	}
	return 0;
}

static void judge_leaves(struct audit_run *run, const struct iblinks_leaf *leaves, size_t count)
{
	unsigned int usual = usual_links(leaves, count);
	bool failed = false;

	if (count < LEAVES_LEAST || !usual) {
		audit_unknown(run, "", "%s",
			      count < LEAVES_LEAST ? "fewer than 3 switches have hosts"
						   : "no number of links has a majority of 60%");
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (leaves[i].up >= usual)
			continue;
		failed = true;
		audit_fail(run, leaves[i].first->name, "%u of %u links to other switches",
			   leaves[i].up, usual);
	}
	if (!failed)
		audit_pass(run, "", "%u links of each of %zu switches with hosts", usual, count);
}

static void uplinks(struct audit_run *run)
{
	struct iblinks_leaf *leaves;
	struct iblinks subnet;

	if (!read_subnet(run, &subnet))
		return;
	leaves = calloc(subnet.count, sizeof(*leaves));
	if (leaves)
		judge_leaves(run, leaves, iblinks_leaves(&subnet, leaves));
	free(leaves);
	free(subnet.ports);
}

static const struct iblinks_port *same_port(const struct iblinks *subnet,
					    const struct iblinks_port *port)
{
	for (size_t i = 0; i < subnet->count; i++)
		if (subnet->ports[i].guid == port->guid && subnet->ports[i].port == port->port)
			return &subnet->ports[i];
	return NULL;
}

/* Each link once, of the end with the smaller GUID where both are switches. */
static bool is_other_end(const struct iblinks *subnet, const struct iblinks_port *port)
{
	return iblinks_is_switch(subnet, port->far_guid) && port->far_guid < port->guid;
}

/* Against an earlier output, when all was right. */
static void links(struct audit_run *run)
{
	struct iblinks before = {}, now;
	char name[96];
	size_t lost = 0;

	if (!run->options->subnet_links) {
		audit_unknown(run, "", "no earlier output to compare with: --subnet-links");
		return;
	}
	if (!read_subnet(run, &now))
		return;
	iblinks_parse(&before, run->options->subnet_links);
	for (size_t i = 0; i < before.count; i++) {
		const struct iblinks_port *old = &before.ports[i], *port = same_port(&now, old);

		if (!old->far_guid || is_other_end(&before, old) ||
		    (port && port->far_guid == old->far_guid && port->far_port == old->far_port))
			continue;
		lost++;
		audit_fail(run, port_name(old, name), "no link to %s:%u%s%s", old->far_name,
			   old->far_port, port && port->far_guid ? ", but to " : "",
			   port && port->far_guid ? port->far_name : "");
	}
	if (!before.count)
		audit_unknown(run, "",
			      "the file of --subnet-links has no line of iblinkinfo --line");
	else if (!lost)
		audit_pass(run, "", "all links of before");
	free(before.ports);
	free(now.ports);
}

/* Both ends could have more than the link has. */
static void speed(struct audit_run *run)
{
	struct iblinks subnet;
	size_t slow = 0;
	char name[96];

	if (!read_subnet(run, &subnet))
		return;
	for (size_t i = 0; i < subnet.count; i++) {
		const struct iblinks_port *port = &subnet.ports[i];

		if (!strstr(port->could, "Could be") || is_other_end(&subnet, port))
			continue;
		slow++;
		audit_fail(run, port_name(port, name), "to %s:%u: %s. %s", port->far_name,
			   port->far_port, port->state, port->could);
	}
	if (!slow)
		audit_pass(run, "", "%zu ports", subnet.count);
	free(subnet.ports);
}

/*
 * Errors for 0x200000 "leaf1"
 *    GUID 0x200000 port 5: [LinkDownedCounter == 9]
 */
static void errors(struct audit_run *run)
{
	static const char *const argv[] = {"ibqueryerrors", NULL};
	struct child child = {};
	char name[64] = "", line[512], subject[96];
	const char *text;
	size_t bad = 0;
	bool summary = false;

	/* Its exit status is 1 for errors of ports. */
	if (!run_tool(run, argv, true, &child))
		goto out;
	text = child.text;
	while (text_next_line(&text, line, sizeof(line))) {
		const char *at = line, *counters;
		uint64_t port;

		summary |= strstr(line, "ports checked") != NULL;
		if (!strncmp(line, "Errors for", 10)) {
			iblinks_between(&at, "\"", "\"", name, sizeof(name));
			continue;
		}
		counters = strchr(line, '[');
		at = strstr(line, " port ");
		if (!at || !counters || (at += strlen(" port "), !iblinks_number(&at, 10, &port)))
			continue; /* "port ALL" is their sum */
		bad++;
		snprintf(subject, sizeof(subject), "%s:%llu", name, (unsigned long long)port);
		audit_fail(run, subject, "%s", counters);
	}
	if (!summary)
		audit_unknown(run, "", "ibqueryerrors: %s",
			      child.complaint[0] ? child.complaint : "no summary");
	else if (!bad)
		audit_pass(run, "", "no port above the thresholds of ibqueryerrors");
out:
	child_clear(&child);
}

/* clang-format off: a table */

#define LINKINFO .group = AUDIT_SUBNET, .source = "iblinkinfo --line --switches-only"

const struct audit_check audit_subnet_checks[] = {
	{"subnet.uplinks", LINKINFO, .name = "links between InfiniBand switches",
	 .criterion = "as many of each switch with hosts as of most of them",
	 .remedy = "look for the switch's ports that are down: `iblinkinfo -S GUID`; reseat or "
		   "replace cables",
	 .unknown = "iblinkinfo is not there or fails, or fewer than 3 switches have hosts",
	 .severity = "critical", .run = uplinks},
	{"subnet.links", LINKINFO, .name = "InfiniBand links of before",
	 .criterion = "each link of the file of --subnet-links",
	 .remedy = "reseat or replace the cable; a link to another port is a swapped one",
	 .unknown = "there is no file, iblinkinfo is not there or fails", .severity = "critical",
	 .run = links},
	{"subnet.speed", LINKINFO, .name = "speed and width of InfiniBand links",
	 .criterion = "what both ends can", .remedy = "reseat or replace the cable",
	 .unknown = "iblinkinfo is not there or fails", .severity = "critical", .run = speed},
	{"subnet.errors", .group = AUDIT_SUBNET, .source = "ibqueryerrors",
	 .name = "error counters of InfiniBand ports", .criterion = "none above the thresholds",
	 .remedy = "clean or replace cable and module; then `ibclearerrors`",
	 .unknown = "ibqueryerrors is not there or fails", .severity = "warning", .run = errors},
	{},
};
