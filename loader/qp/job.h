/* SPDX-License-Identifier: BSD-2-Clause */
/* Which job a process belongs to, by the name of its cgroup. */
#ifndef ESC_LOADER_JOB_H
#define ESC_LOADER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#define JOB_NAME_BYTES 96
#define JOB_PATH_BYTES 384

/* The most specific one first: a Slurm job in a pod is a Slurm job. */
enum job_kind { JOB_NONE, JOB_SLURM, JOB_POD, JOB_DOCKER, JOB_PODMAN, JOB_UNIT };

struct job {
	enum job_kind kind;
	/*
	 * "job_1234/step_0", "pod_<uid>/<12 digits of the container>",
	 * "docker_<12 digits>", "podman_<12 digits>", "nfsd.service"; "" none.
	 */
	char name[JOB_NAME_BYTES];
	char cgroup[JOB_PATH_BYTES]; /* by this path; "" unknown; a longer one is cut */
};

/* "slurm", "kubernetes", "docker", "podman", "systemd", "none" */
const char *job_kind_name(enum job_kind kind);

/* By the path of a cgroup from its root: "/system.slice/...". */
void job_of_path(const char *path, struct job *out);

/* By a whole /proc/PID/cgroup: of its lines (v1 has many) the most specific one. */
void job_of_text(const char *text, struct job *out);

/* @proc: "/proc", or a recorded tree. False: the process is gone. */
bool job_read(const char *proc, uint32_t pid, struct job *out);

/*
 * The process that thread @tid belongs to and its name. False: it is gone.
 * @comm: at least 16 bytes.
 */
bool job_read_process(const char *proc, uint32_t tid, uint32_t *pid, char *comm);

#endif
