// SPDX-License-Identifier: BSD-2-Clause
#include "job.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_FILE_BYTES 16384
#define JOB_PARTS_MAX 32
#define JOB_ID_DIGITS 12 /* of a container's id, as docker and crictl show it */

struct job_part {
	const char *at;
	size_t bytes;
};

const char *job_kind_name(enum job_kind kind)
{
	static const char *const names[] = {
		[JOB_NONE] = "none",	 [JOB_SLURM] = "slurm",	  [JOB_POD] = "kubernetes",
		[JOB_DOCKER] = "docker", [JOB_PODMAN] = "podman", [JOB_UNIT] = "systemd",
	};

	return names[kind];
}

/* --- parts of a path --- */

/*
 * containerd without its systemd driver under a kubelet with one makes one
 * part "kubepods-pod<uid>.slice:cri-containerd:<id>" of what are two.
 */
static size_t job_part_bytes(const char *path)
{
	size_t bytes = strcspn(path, "/");
	const char *mark = memmem(path, bytes, ".slice:", 7);

	return mark ? (size_t)(mark - path) + 6 : bytes;
}

static size_t job_split(const char *path, struct job_part parts[JOB_PARTS_MAX])
{
	size_t count = 0;

	while (*path && count < JOB_PARTS_MAX) {
		size_t bytes = job_part_bytes(path);

		if (bytes)
			parts[count++] = (struct job_part){path, bytes};
		path += bytes;
		path += *path == '/' || *path == ':';
	}
	return count;
}

static bool job_begins(const struct job_part *part, const char *word)
{
	return part->bytes > strlen(word) && !strncmp(part->at, word, strlen(word));
}

static bool job_ends(const struct job_part *part, const char *word)
{
	size_t bytes = strlen(word);

	return part->bytes > bytes && !strncmp(part->at + part->bytes - bytes, word, bytes);
}

static struct job_part job_cut(const struct job_part *part, size_t head, size_t tail)
{
	return (struct job_part){part->at + head, part->bytes - head - tail};
}

static bool job_is_hex(const struct job_part *part, size_t least)
{
	for (size_t i = 0; i < part->bytes; i++)
		if (!isxdigit((unsigned char)part->at[i]))
			return false;
	return part->bytes >= least;
}

/* "docker-<id>.scope", "cri-containerd-<id>.scope", or the bare id: its digits. */
static bool job_container(const struct job_part *part, struct job_part *id)
{
	*id = job_ends(part, ".scope") ? job_cut(part, 0, 6) : *part;
	for (size_t i = id->bytes; i-- > 0;)
		if (id->at[i] == '-' || id->at[i] == ':') {
			*id = job_cut(id, i + 1, 0);
			break;
		}
	return job_is_hex(id, 32);
}

static void job_name(struct job *out, enum job_kind kind, const char *prefix,
		     const struct job_part *id)
{
	int most = id->bytes < JOB_ID_DIGITS ? (int)id->bytes : JOB_ID_DIGITS;

	out->kind = kind;
	snprintf(out->name, sizeof(out->name), "%s%.*s", prefix, most, id->at);
}

/* --- Slurm: .../job_1234/step_0/user/task_0, in v1 below /slurm/uid_1000 --- */

static bool job_is_slurms(const struct job_part *part, const char *word)
{
	return job_begins(part, word) && isdigit((unsigned char)part->at[strlen(word)]);
}

static bool job_of_slurm(const struct job_part *parts, size_t count, struct job *out)
{
	for (size_t i = count; i-- > 0;) {
		const struct job_part *next = &parts[i + 1];

		if (!job_is_slurms(&parts[i], "job_"))
			continue;
		out->kind = JOB_SLURM;
		if (i + 1 < count && job_begins(next, "step_"))
			snprintf(out->name, sizeof(out->name), "%.*s/%.*s",
				 (int)(parts[i].bytes < 40 ? parts[i].bytes : 40), parts[i].at,
				 (int)(next->bytes < 40 ? next->bytes : 40), next->at);
		else
			snprintf(out->name, sizeof(out->name), "%.*s",
				 (int)(parts[i].bytes < 40 ? parts[i].bytes : 40), parts[i].at);
		return true;
	}
	return false;
}

/* --- Kubernetes --- */

/* "pod<uid>", or "kubepods-burstable-pod<uid>.slice", where systemd made _ of -. */
static bool job_pod_uid(const struct job_part *part, char uid[40])
{
	struct job_part at = job_ends(part, ".slice") ? job_cut(part, 0, 6) : *part;
	const char *pod = NULL;
	size_t bytes;

	if (job_begins(&at, "pod"))
		pod = at.at + 3;
	else if (memmem(at.at, at.bytes, "kubepods", 8))
		for (size_t i = 0; i + 4 < at.bytes; i++)
			if (!strncmp(at.at + i, "-pod", 4))
				pod = at.at + i + 4;
	if (!pod)
		return false;
	bytes = at.at + at.bytes - pod;
	if (bytes < 32 || bytes >= 40) /* 36 as it is, 32 of a static pod */
		return false;
	for (size_t i = 0; i < bytes; i++) {
		uid[i] = pod[i] == '_' ? '-' : pod[i];
		if (!isxdigit((unsigned char)uid[i]) && uid[i] != '-')
			return false;
	}
	uid[bytes] = '\0';
	return true;
}

static bool job_of_pod(const struct job_part *parts, size_t count, struct job *out)
{
	for (size_t i = count; i-- > 0;) {
		struct job_part id;
		char prefix[48], uid[40];

		if (!job_pod_uid(&parts[i], uid))
			continue;
		if (i + 1 == count || !job_container(&parts[i + 1], &id))
			id = (struct job_part){"", 0};
		snprintf(prefix, sizeof(prefix), "pod_%s%s", uid, id.bytes ? "/" : "");
		job_name(out, JOB_POD, prefix, &id);
		return true;
	}
	return false;
}

/* --- containers without an orchestrator --- */

static bool job_of_container(const struct job_part *parts, size_t count, struct job *out)
{
	for (size_t i = count; i-- > 0;) {
		struct job_part id;

		/* conmon only watches over its container. */
		if (job_begins(&parts[i], "libpod-conmon-") || !job_container(&parts[i], &id))
			continue;
		if (job_begins(&parts[i], "libpod-")) {
			job_name(out, JOB_PODMAN, "podman_", &id);
			return true;
		}
		if (job_begins(&parts[i], "docker-") ||
		    (i && parts[i - 1].bytes == 6 && !strncmp(parts[i - 1].at, "docker", 6))) {
			job_name(out, JOB_DOCKER, "docker_", &id);
			return true;
		}
	}
	return false;
}

/* --- systemd: the innermost unit --- */

static bool job_of_unit(const struct job_part *parts, size_t count, struct job *out)
{
	static const char *const kinds[] = {".service", ".scope", ".slice"};

	for (size_t i = count; i-- > 0;)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			if (!job_ends(&parts[i], kinds[k]))
				continue;
			out->kind = JOB_UNIT;
			snprintf(out->name, sizeof(out->name), "%.*s",
				 (int)(parts[i].bytes < JOB_NAME_BYTES ? parts[i].bytes
								       : JOB_NAME_BYTES - 1),
				 parts[i].at);
			return true;
		}
	return false;
}

void job_of_path(const char *path, struct job *out)
{
	struct job_part parts[JOB_PARTS_MAX + 1] = {};
	size_t count = job_split(path, parts);

	memset(out, 0, sizeof(*out));
	snprintf(out->cgroup, sizeof(out->cgroup), "%s", path);
	if (!job_of_slurm(parts, count, out) && !job_of_pod(parts, count, out) &&
	    !job_of_container(parts, count, out))
		job_of_unit(parts, count, out);
}

/* --- /proc --- */

void job_of_text(const char *text, struct job *out)
{
	memset(out, 0, sizeof(*out));
	while (*text) {
		size_t bytes = strcspn(text, "\n");
		char line[JOB_FILE_BYTES], *path;
		struct job job;

		snprintf(line, sizeof(line), "%.*s", (int)bytes, text);
		text += bytes + (text[bytes] == '\n');
		path = strchr(line, ':'); /* hierarchy:controllers:path */
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		job_of_path(path + 1, &job);
		if (!out->cgroup[0] || (job.kind && (!out->kind || job.kind < out->kind)))
			*out = job;
	}
}

static bool job_read_file(const char *proc, uint32_t pid, const char *name, char *out, size_t bytes)
{
	char path[512];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/%s", proc, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, out, bytes - 1);
	close(fd);
	out[got > 0 ? got : 0] = '\0';
	return got > 0;
}

bool job_read(const char *proc, uint32_t pid, struct job *out)
{
	char text[JOB_FILE_BYTES];

	memset(out, 0, sizeof(*out));
	if (!job_read_file(proc, pid, "cgroup", text, sizeof(text)))
		return false;
	job_of_text(text, out);
	return true;
}

bool job_read_process(const char *proc, uint32_t tid, uint32_t *pid, char *comm)
{
	char text[4096];
	const char *line;

	if (!job_read_file(proc, tid, "status", text, sizeof(text)))
		return false;
	line = strstr(text, "\nTgid:");
	*pid = line ? strtoul(line + 6, NULL, 10) : tid;
	if (!job_read_file(proc, *pid, "comm", text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	snprintf(comm, 16, "%.15s", text);
	return true;
}
