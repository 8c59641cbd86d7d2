// SPDX-License-Identifier: BSD-2-Clause
/* PFC, ETS, DSCP and buffers of RoCE ports: the same on all hosts, and fit for the job's traffic.
 */
#include <linux/dcbnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "internal.h"

static void no_dcb(struct audit_run *run, const struct audit_nic *nic)
{
	audit_unknown(run, nic->subject, "the driver does not report it by DCB netlink");
}

/* "3, 4" of bits. */
static const char *bits_text(uint8_t bits, char out[32])
{
	size_t used = 0;

	snprintf(out, 32, "none");
	for (int i = 0; i < DCB_PRIORITIES; i++)
		if (bits & 1u << i)
			used += (size_t)snprintf(out + used, 32 - used, "%s%d", used ? ", " : "",
						 i);
	return out;
}

static void pfc_of(struct audit_run *run, struct audit_nic *nic)
{
	char text[32];

	if (nic->dcb.has_pfc)
		audit_record(run, nic->subject, "%s", bits_text(nic->dcb.pfc, text));
	else
		no_dcb(run, nic);
}

static void pfc(struct audit_run *run)
{
	audit_each_roce(run, pfc_of, false);
}

/* "0: 0-7, 3: 24-31": priorities with their DSCPs; by a digest where that is too long. */
static void dscps_text(const struct dcb_facts *dcb, char *out, size_t bytes)
{
	size_t used = 0;

	for (int priority = 0; priority < DCB_PRIORITIES; priority++) {
		bool any = false;

		for (int i = 0, last; i < DCB_DSCPS && used < bytes; i++) {
			if (dcb->priority_of[i] != priority)
				continue;
			for (last = i;
			     last + 1 < DCB_DSCPS && dcb->priority_of[last + 1] == priority;)
				last++;
			if (any)
				used += (size_t)snprintf(out + used, bytes - used, " %d", i);
			else
				used += (size_t)snprintf(out + used, bytes - used, "%s%d: %d",
							 used ? ", " : "", priority, i);
			if (last > i && used < bytes)
				used += (size_t)snprintf(out + used, bytes - used, "-%d", last);
			any = true;
			i = last;
		}
	}
	if (used >= bytes)
		snprintf(out, bytes, "%u DSCPs, digest %016llx", dcb->dscps,
			 (unsigned long long)hash_add(HASH_FIRST, dcb->priority_of,
						      sizeof(dcb->priority_of)));
}

/* Entries of DSCPs make a driver trust the DSCP, else it is the priority of the VLAN tag. */
static void trust_of(struct audit_run *run, struct audit_nic *nic)
{
	char text[AUDIT_TEXT_BYTES / 2];

	if (!nic->dcb.has_apps) {
		no_dcb(run, nic);
		return;
	}
	if (!nic->dcb.dscps) {
		audit_record(run, nic->subject, "priority of the VLAN tag");
		return;
	}
	dscps_text(&nic->dcb, text, sizeof(text));
	audit_record(run, nic->subject, "DSCP, %s", text);
}

static void trust(struct audit_run *run)
{
	audit_each_roce(run, trust_of, false);
}

static void ets_of(struct audit_run *run, struct audit_nic *nic)
{
	const struct dcb_facts *dcb = &nic->dcb;
	char text[AUDIT_TEXT_BYTES] = "";
	size_t used = 0;

	if (!dcb->has_ets) {
		no_dcb(run, nic);
		return;
	}
	for (int i = 0; i < DCB_PRIORITIES; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
					 i ? " " : "classes ", dcb->class_of[i]);
	for (int i = 0; i < DCB_PRIORITIES; i++)
		if (dcb->rule[i] == IEEE_8021QAZ_TSA_ETS)
			used += (size_t)snprintf(text + used, sizeof(text) - used, ", %d ets %u%%",
						 i, dcb->share[i]);
		else if (dcb->rule[i] != IEEE_8021QAZ_TSA_STRICT)
			used += (size_t)snprintf(text + used, sizeof(text) - used, ", %d rule %u",
						 i, dcb->rule[i]);
	audit_record(run, nic->subject, "%s", text);
}

static void ets(struct audit_run *run)
{
	audit_each_roce(run, ets_of, false);
}

static void buffers_of(struct audit_run *run, struct audit_nic *nic)
{
	const struct dcb_facts *dcb = &nic->dcb;
	char text[AUDIT_TEXT_BYTES] = "";
	size_t used = 0;

	if (!dcb->has_buffers) {
		no_dcb(run, nic);
		return;
	}
	for (int i = 0; i < DCB_PRIORITIES; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
					 i ? " " : "buffers ", dcb->buffer_of[i]);
	for (int i = 0; i < DCB_PRIORITIES; i++)
		if (dcb->buffer_bytes[i])
			used += (size_t)snprintf(text + used, sizeof(text) - used, ", %d: %u bytes",
						 i, dcb->buffer_bytes[i]);
	audit_record(run, nic->subject, "%s", text);
}

static void buffers(struct audit_run *run)
{
	audit_each_roce(run, buffers_of, false);
}

/* The DSCP of NCCL's queue pairs: NCCL_IB_TC of /etc/nccl.conf is the whole traffic class. -1:
 * none. */
static int job_dscp(const struct audit_run *run)
{
	char text[AUDIT_CONF_BYTES], value[16];
	unsigned long class;
	char *end;

	if (audit_read(run, text, sizeof(text), "/etc/nccl.conf") <= 0)
		return -1;
	audit_nccl_value(text, "NCCL_IB_TC", value, sizeof(value));
	class = strtoul(value, &end, 0);
	return end == value || *end || class > 255 ? -1 : (int)(class >> 2);
}

static void class_of(struct audit_run *run, struct audit_nic *nic)
{
	const struct dcb_facts *dcb = &nic->dcb;
	int dscp = job_dscp(run);
	uint8_t priority;
	char text[32];

	if (dscp < 0) {
		audit_unknown(run, nic->subject, "/etc/nccl.conf has no NCCL_IB_TC");
	} else if (!dcb->has_pfc || !dcb->has_apps) {
		no_dcb(run, nic);
	} else if (!dcb->pfc) {
		audit_skip(run, nic->subject, "no priority has PFC: the fabric is lossy");
	} else {
		priority = dcb->priority_of[dscp];
		if (priority == DCB_NO_PRIORITY)
			audit_fail(run, nic->subject, "DSCP %d has no priority, PFC is on %s", dscp,
				   bits_text(dcb->pfc, text));
		else
			audit_decide(run, dcb->pfc & 1u << priority, nic->subject,
				     "DSCP %d has priority %u, PFC is on %s", dscp, priority,
				     bits_text(dcb->pfc, text));
	}
}

static void job_class(struct audit_run *run)
{
	audit_each_roce(run, class_of, false);
}

/* clang-format off: a table */

#define DCB .group = "backend.roce", .source = "DCB netlink, IEEE_GET"

const struct audit_check audit_dcb_checks[] = {
	{"roce.pfc", DCB, .name = "priorities with PFC", .compare = AUDIT_MAJORITY,
	 .criterion = "as on most hosts",
	 .remedy = "dcb pfc set dev DEV prio-pfc, or the site's script",
	 .unknown = "the driver has no DCB", .severity = "critical", .run = pfc},
	{"roce.trust", DCB, .name = "priorities of DSCPs", .compare = AUDIT_MAJORITY,
	 .criterion = "as on most hosts",
	 .remedy = "dcb app add dev DEV dscp-prio, or mlnx_qos --trust dscp",
	 .unknown = "the driver has no DCB", .severity = "critical", .run = trust},
	{"roce.ets", DCB, .name = "traffic classes (ETS)", .compare = AUDIT_MAJORITY,
	 .criterion = "as on most hosts", .remedy = "dcb ets set dev DEV, or the site's script",
	 .unknown = "the driver has no DCB", .severity = "warning", .run = ets},
	{"roce.buffers", DCB, .name = "buffers of priorities", .compare = AUDIT_MAJORITY,
	 .criterion = "as on most hosts", .remedy = "dcb buffer set dev DEV, or the site's script",
	 .unknown = "the driver does not report them by DCB", .severity = "warning",
	 .run = buffers},
	{"roce.job_class", DCB, .name = "PFC of NCCL's traffic class",
	 .criterion = "the DSCP of NCCL_IB_TC has a priority with PFC",
	 .remedy = "correct NCCL_IB_TC in /etc/nccl.conf, or the priority of its DSCP",
	 .unknown = "NCCL_IB_TC is not set, or the driver has no DCB", .severity = "critical",
	 .run = job_class},
	{},
};
