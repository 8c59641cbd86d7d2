// SPDX-License-Identifier: BSD-2-Clause
/* What a ring of bandwidth tests (ring/) found. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"
#include "ring/ring.h"

/* That of the job, as NCCL has it; -1: not given. */
static int traffic_class(const struct audit_run *run)
{
	char text[AUDIT_CONF_BYTES], value[16];
	int tclass;

	if (audit_read(run, text, sizeof(text), "/etc/nccl.conf") <= 0)
		return -1;
	audit_nccl_value(text, "NCCL_IB_TC", value, sizeof(value));
	tclass = value[0] ? (int)strtol(value, NULL, 0) : -1;
	return tclass >= 0 && tclass < 256 ? tclass : -1;
}

json_t *audit_ring(const char *socket, uint64_t traffic_ns, const char *order, char **error)
{
	const struct audit_options here = {.root = ""};
	struct ring_nic_port ports[RING_NICS_MAX];
	struct ring_options options = {
		.socket = socket, .traffic_ns = traffic_ns, .order = order, .ports = ports};
	struct audit_run run = {.options = &here};

	audit_find_nics(&run);
	audit_for_each_nic(nic, &run)
	{
		if (options.port_count == RING_NICS_MAX)
			break;
		ports[options.port_count++] = (struct ring_nic_port){
			.subject = nic->subject,
			.device = nic->device,
			.interface = nic->netdev,
			.port = nic->port,
			.roce = nic->roce,
			.gid_index = nic->roce ? audit_gid_index(&run, nic) : -1,
		};
	}
	options.traffic_class = traffic_class(&run);
	return ring_run(&options, error);
}

/* No program listens: that host takes no part, or TCP does not reach it. */
static bool was_refused(const char *error)
{
	return strstr(error, "ouldn't connect") || strstr(error, "onnection refused");
}

static void judge_row(struct audit_run *run, const json_t *row)
{
	const char *subject = json_text(row, "nic"), *peer = json_text(row, "peer");
	const char *error = json_text(row, "error");
	json_t *entry;

	if (*json_text(row, "missed")) {
		audit_unknown(run, subject, "%s", json_text(row, "missed"));
	} else if (was_refused(error)) {
		audit_unknown(run, subject, "no " RING_TOOL " replies at %s %s", peer,
			      json_text(row, "to"));
	} else if (*error) {
		audit_fail(run, subject, "to %s: %s", peer, error);
	} else {
		double gbps = json_number_value(json_object_get(row, "gbps"));

		audit_record(run, subject, "%.2f Gbit/s to %s", gbps, peer);
		entry = json_array_get(run->results, json_array_size(run->results) - 1);
		json_put_real(entry, "gbps", gbps);
		json_put_text(entry, "address", json_text(row, "address"));
		json_put_text(entry, "to", json_text(row, "to"));
	}
}

static void judge(struct audit_run *run, const char *order, unsigned int qps)
{
	const json_t *ring = run->options->ring, *row;
	bool any = false;
	size_t i;

	if (*json_text(ring, "note")) {
		audit_unknown(run, "", "%s", json_text(ring, "note"));
		return;
	}
	json_array_foreach (json_object_get(ring, "rows"), i, row)
		if (!strcmp(json_text(row, "order"), order) && json_count(row, "qps") == qps) {
			judge_row(run, row);
			any = true;
		}
	/* Without a file of an order there are no results of it. */
	if (!ring)
		audit_unknown(run, "", "there was no ring: `escapement audit --fleet --ring`");
	else if (!any && !strcmp(order, ring_orders[0]))
		audit_unknown(run, "", "the ring has no result");
}

#define RING_CHECKS(X)                                                                             \
	X(host, 1)                                                                                 \
	X(host, 2) X(host, 4) X(host, 8) X(topology, 1) X(topology, 2) X(topology, 4) X(topology, 8)

#define X(order, qps)                                                                              \
	static void order##_##qps(struct audit_run *run)                                           \
	{                                                                                          \
		judge(run, #order, qps);                                                           \
	}
RING_CHECKS(X)
#undef X

/* clang-format off: a table */

#define X(order, n)                                                                                \
	{"ring." #order "_" #n "qp",                                                               \
	 .group = AUDIT_RING,                                                                      \
	 .compare = AUDIT_MEDIAN,                                                                  \
	 .name = "bandwidth of a ring in the order of " #order ", queue pairs: " #n,               \
	 .source = RING_TOOL " -q " #n " of perftest, to the next host and from the one before",   \
	 .criterion = "at least 95% of the median of all hosts",                                   \
	 .remedy = "check rate, PCIe width and MTU of both NICs, then cable and switch ports; "    \
		   "with more queue pairs alone: ECMP",                                            \
	 .unknown = "not asked for, perftest is not there, or the next host took no part",         \
	 .severity = "critical",                                                                   \
	 .run = order##_##n},

const struct audit_check audit_ring_checks[] = {
	RING_CHECKS(X){},
};
