// SPDX-License-Identifier: BSD-2-Clause
/* Which job a cgroup's is, and what a user may type for it; pure. */
#include <string.h>

#include "internal.h"

const char *job_id_of(const struct job *job, char out[JOB_ID_BYTES])
{
	size_t bytes = strlen(job->name);

	/* All steps of a Slurm job, and all containers of a pod, are one job. */
	if (job->kind == JOB_SLURM || job->kind == JOB_POD)
		bytes = strcspn(job->name, "/");
	snprintf(out, JOB_ID_BYTES, "%.*s", (int)bytes, job->name);
	/* A cgroup that is no manager's is a job by its path; the root is every process's. */
	if (job->kind == JOB_NONE && strcmp(job->cgroup, "/"))
		snprintf(out, JOB_ID_BYTES, "%.*s", JOB_ID_BYTES - 1, job->cgroup);
	return out;
}

bool job_id_matches(const char *id, const char *typed)
{
	size_t bytes = strcspn(typed, "/");

	if (!strcmp(id, typed))
		return true;
	if (!strncmp(id, "job_", 4) && !strcmp(id + 4, typed))
		return true;
	/* "job_1234/step_0", as `qp` shows it. */
	return bytes && typed[bytes] && strlen(id) == bytes && !strncmp(id, typed, bytes);
}
