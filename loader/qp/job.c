// SPDX-License-Identifier: BSD-2-Clause
/* Which job a process belongs to, by the name of its cgroup. */
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/readfile.h"
#include "base/units.h"
#include "internal.h"

#define FILE_BYTES 16384
#define GROUPS 6
#define ID_DIGITS 12 /* of a container's id, as docker and crictl show it */

const char *job_kind_name(enum job_kind kind)
{
	static const char *const names[] = {
		[JOB_NONE] = "none",	 [JOB_SLURM] = "slurm",	  [JOB_POD] = "kubernetes",
		[JOB_DOCKER] = "docker", [JOB_PODMAN] = "podman", [JOB_UNIT] = "systemd",
	};

	return names[kind];
}

/* --- the path of a cgroup --- */

/* Of a container, 32 digits and more: "docker-<id>.scope", "cri-containerd-<id>.scope", or bare. */
#define ID "([0-9a-fA-F]{32,})(\\.scope)?"
#define END "(/.*)?$"

#define POD "^.*/(pod|[^/]*kubepods[^/]*-pod)([0-9a-fA-F_-]{32,39})"

/* How each kind names its cgroup; the innermost match counts. */
static const struct form {
	enum job_kind kind;
	const char *pattern, *prefix;
	/* Of the job's name: groups of the pattern and how much of each is shown; 0: none. */
	struct {
		unsigned int group, bytes;
	} parts[2];
} forms[] = {
	/* .../job_1234/step_0/user/task_0, in v1 below /slurm/uid_1000 */
	{JOB_SLURM, "^.*/(job_[0-9][^/]*)/(step_[^/]+)" END, "", {{1, 40}, {2, 40}}},
	{JOB_SLURM, "^.*/(job_[0-9][^/]*)" END, "", {{1, 40}}},
	/*
	 * "pod<uid>", or "kubepods-burstable-pod<uid>.slice" where systemd made _ of -. A static
	 * pod's uid has 32 characters. containerd without its systemd driver under a kubelet with
	 * one makes one part "kubepods-pod<uid>.slice:cri-containerd:<id>".
	 */
	{JOB_POD, POD "(/|\\.slice[/:])([^/]*[-:])?" ID END, "pod_", {{2, 39}, {5, ID_DIGITS}}},
	{JOB_POD, POD "(\\.slice)?" END, "pod_", {{2, 39}}},
	/* libpod-conmon only supervises its container. */
	{JOB_PODMAN, "^.*/libpod-" ID END, "podman_", {{1, ID_DIGITS}}},
	{JOB_DOCKER, "^.*/docker[-/]" ID END, "docker_", {{1, ID_DIGITS}}},
	{JOB_UNIT, "^.*/([^/]+\\.(service|scope|slice))" END, "", {{1, JOB_NAME_BYTES - 1}}},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))
static regex_t regexes[FORMS];

static void compile_forms(void)
{
	for (size_t i = 0; i < FORMS; i++)
		if (regcomp(&regexes[i], forms[i].pattern, REG_EXTENDED))
			abort();
}

void job_of_path(const char *path, struct job *out)
{
	static pthread_once_t compiled = PTHREAD_ONCE_INIT;
	regmatch_t match[GROUPS];
	char *end = out->name;
	size_t i = 0;

	pthread_once(&compiled, compile_forms);
	memset(out, 0, sizeof(*out));
	snprintf(out->cgroup, sizeof(out->cgroup), "%s", path);
	while (i < FORMS && regexec(&regexes[i], path, GROUPS, match, 0))
		i++;
	if (i == FORMS)
		return;
	out->kind = forms[i].kind;
	end = stpcpy(end, forms[i].prefix);
	for (size_t p = 0; p < 2 && forms[i].parts[p].group; p++) {
		const regmatch_t *at = &match[forms[i].parts[p].group];
		size_t bytes = at->rm_eo - at->rm_so, most = forms[i].parts[p].bytes;

		if (p)
			*end++ = '/';
		end = mempcpy(end, path + at->rm_so, bytes < most ? bytes : most);
	}
	/* A pod's uid as Kubernetes writes it. */
	for (char *c = out->name + strlen(forms[i].prefix); out->kind == JOB_POD && *c; c++)
		if (*c == '_')
			*c = '-';
}

/* --- /proc --- */

void job_of_text(const char *text, struct job *out)
{
	char line[FILE_BYTES], *path;
	struct job job;

	memset(out, 0, sizeof(*out));
	while (text_next_line(&text, line, sizeof(line))) {
		path = strchr(line, ':'); /* hierarchy:controllers:path */
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		job_of_path(path + 1, &job);
		if (!out->cgroup[0] || (job.kind && (!out->kind || job.kind < out->kind)))
			*out = job;
	}
}

bool job_read(const char *proc, uint32_t pid, struct job *out)
{
	char text[FILE_BYTES];

	memset(out, 0, sizeof(*out));
	if (readtext(text, sizeof(text), "%s/%u/cgroup", proc, pid) <= 0)
		return false;
	job_of_text(text, out);
	return true;
}

bool job_read_process(const char *proc, uint32_t tid, uint32_t *pid, char *comm)
{
	char text[4096];
	const char *line;

	if (readtext(text, sizeof(text), "%s/%u/status", proc, tid) <= 0)
		return false;
	line = strstr(text, "\nTgid:");
	*pid = line ? strtoul(line + 6, NULL, 10) : tid;
	if (readtext(text, sizeof(text), "%s/%u/comm", proc, *pid) < 0)
		return false;
	snprintf(comm, 16, "%.15s", text);
	return true;
}

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
