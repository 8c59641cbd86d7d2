// SPDX-License-Identifier: BSD-2-Clause
/* Queue pairs that processes outside of any job have: they use the NIC that a job is about to get.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "qp/qp.h"

/* Whether a process is of a job, a container or a service, by its cgroups; false also: it is gone.
 */
static bool is_managed(const struct audit_run *run, uint32_t pid)
{
	char text[4096], *line, *save = NULL;

	if (audit_read(run, text, sizeof(text), "/proc/%u/cgroup", pid) <= 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, ':'); /* hierarchy:controllers:path */
		struct job job;

		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		job_of_path(path + 1, &job);
		if (job.kind != JOB_NONE &&
		    (job.kind != JOB_UNIT || strncmp(path + 1, "/user.slice/", 12)))
			return true;
	}
	return false;
}

void audit_judge_queue_pairs(struct audit_run *run, const struct rdmares *list)
{
	size_t foreign = 0, users = 0;
	const struct rdmares_qp *first = NULL;
	char comm[32];

	for (const struct rdmares_qp *qp = list->qps; qp < list->qps + list->count; qp++) {
		if (!qp->tid) /* the kernel's own */
			continue;
		users++;
		if (is_managed(run, qp->tid))
			continue;
		foreign++;
		if (!first)
			first = qp;
	}
	if (!first) {
		audit_pass(run, "", "none of %zu", users);
		return;
	}
	if (audit_read(run, comm, sizeof(comm), "/proc/%u/comm", first->tid) <= 0)
		snprintf(comm, sizeof(comm), "a process that is gone");
	audit_fail(run, "", "%zu of %zu, the first of %s (%u) on %s", foreign, users, comm,
		   first->tid, first->name);
}

static void queue_pairs(struct audit_run *run)
{
	struct rdmares list = {};
	int err;

	if (run->options->root[0]) {
		audit_unknown(run, "", "a captured tree has no queue pairs");
		return;
	}
	if (!run->nic_count) {
		audit_skip(run, "", "there is no RDMA device");
		return;
	}
	err = rdmares_read(&list);
	if (err)
		audit_unknown(run, "", "RDMA netlink does not list them: %s", strerror(-err));
	else if (list.device_count < list.device_seen)
		audit_unknown(run, "", "RDMA netlink lists those of %zu of %zu devices",
			      list.device_count, list.device_seen);
	else
		audit_judge_queue_pairs(run, &list);
	rdmares_free(&list);
}

/* clang-format off: a table */

const struct audit_check audit_queue_pair_checks[] = {
	{"software.queue_pairs", .group = "configuration.software",
	 .name = "queue pairs of processes without a job",
	 .source = "RDMA netlink, RES_QP_GET; /proc/PID/cgroup",
	 .criterion = "none: each process is of a Slurm job, a container or a service",
	 .remedy = "end the processes that are named by `rdma resource show qp`, which an earlier "
		   "job left",
	 .unknown = "RDMA netlink does not reply for each device", .severity = "warning",
	 .run = queue_pairs},
	{},
};
