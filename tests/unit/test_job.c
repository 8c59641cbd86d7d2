// SPDX-License-Identifier: BSD-2-Clause
/* Paths as Slurm 23, the kubelet, Docker, Podman and systemd make them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qp/internal.h"

#define ID64 "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
#define UID_DASHED "8d2d37a1-6d4c-4e5e-9c3b-0f6a1b2c3d4e"
#define UID_SCORED "8d2d37a1_6d4c_4e5e_9c3b_0f6a1b2c3d4e"
#define UID_STATIC "cdfb1d9ce1e7a9ed7e0a5eb8e3d0e3f1"

static const struct {
	const char *path;
	enum job_kind kind;
	const char *name;
} paths[] = {
	/* Slurm with cgroup/v2, under systemd and without (IgnoreSystemd) */
	{"/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0", JOB_SLURM,
	 "job_1234/step_0"},
	{"/system.slice/node7_slurmstepd.scope/job_88/step_batch/user/task_special", JOB_SLURM,
	 "job_88/step_batch"},
	{"/system.slice/slurmstepd.scope/job_1234/step_extern/slurm", JOB_SLURM,
	 "job_1234/step_extern"},
	{"/system.slice/slurmstepd.scope/job_1234", JOB_SLURM, "job_1234"},
	/* Slurm with cgroup/v1 */
	{"/slurm/uid_1000/job_42/step_interactive/task_3", JOB_SLURM, "job_42/step_interactive"},
	{"/slurm_node7/uid_0/job_42/step_4294967290", JOB_SLURM, "job_42/step_4294967290"},
	/* a Slurm node in a pod: the job has more */
	{"/kubepods.slice/kubepods-pod" UID_SCORED ".slice/cri-containerd-" ID64
	 ".scope/system.slice/slurmstepd.scope/job_7/step_1/user/task_0",
	 JOB_SLURM, "job_7/step_1"},
	/* kubelet, systemd driver */
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_SCORED
	 ".slice/cri-containerd-" ID64 ".scope",
	 JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	{"/kubepods.slice/kubepods-pod" UID_SCORED ".slice/crio-" ID64 ".scope/container", JOB_POD,
	 "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_SCORED
	 ".slice/docker-" ID64 ".scope",
	 JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_STATIC
	 ".slice/cri-containerd-" ID64 ".scope",
	 JOB_POD, "pod_" UID_STATIC "/0a1b2c3d4e5f"},
	{"/system.slice/containerd.service/kubepods-burstable-pod" UID_SCORED
	 ".slice:cri-containerd:" ID64,
	 JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	/* kind: a kubelet in a container */
	{"/docker/" ID64 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
	 "kubelet-kubepods-burstable-pod" UID_SCORED ".slice/cri-containerd-" ID64 ".scope",
	 JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	/* kubelet, cgroupfs driver */
	{"/kubepods/burstable/pod" UID_DASHED "/" ID64, JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	{"/kubepods/pod" UID_DASHED "/crio-" ID64, JOB_POD, "pod_" UID_DASHED "/0a1b2c3d4e5f"},
	{"/kubepods/besteffort/pod" UID_DASHED, JOB_POD, "pod_" UID_DASHED},
	/* containers alone */
	{"/docker/" ID64, JOB_DOCKER, "docker_0a1b2c3d4e5f"},
	{"/system.slice/docker-" ID64 ".scope", JOB_DOCKER, "docker_0a1b2c3d4e5f"},
	{"/machine.slice/libpod-" ID64 ".scope/container", JOB_PODMAN, "podman_0a1b2c3d4e5f"},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID64 ".scope",
	 JOB_PODMAN, "podman_0a1b2c3d4e5f"},
	{"/libpod_parent/libpod-" ID64, JOB_PODMAN, "podman_0a1b2c3d4e5f"},
	{"/machine.slice/libpod-conmon-" ID64 ".scope", JOB_UNIT, "libpod-conmon-" ID64 ".scope"},
	/* systemd */
	{"/system.slice/opensm.service", JOB_UNIT, "opensm.service"},
	{"/user.slice/user-1000.slice/session-3.scope", JOB_UNIT, "session-3.scope"},
	{"/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service", JOB_UNIT,
	 "serial-getty@ttyS0.service"},
	{"/system.slice/containerd.service/anything", JOB_UNIT, "containerd.service"},
	/* nothing of use */
	{"/", JOB_NONE, ""},
	{"", JOB_NONE, ""},
	{"/..", JOB_NONE, ""},
	{"/job_/step_0", JOB_NONE, ""},
	{"/jobs/job_list", JOB_NONE, ""},
	{"/docker/short", JOB_NONE, ""},
	{"/pod-of-whales/x", JOB_NONE, ""},
};

Test(job, paths)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct job job;

		job_of_path(paths[i].path, &job);
		cr_expect_eq(job.kind, paths[i].kind, "%s: %s", paths[i].path,
			     job_kind_name(job.kind));
		cr_expect_str_eq(job.name, paths[i].name, "%s: '%s'", paths[i].path, job.name);
		cr_expect_str_eq(job.cgroup, paths[i].path);
	}
}

Test(job, long_parts_do_not_overflow)
{
	char path[4096];
	struct job job;

	memset(path, 'a', sizeof(path));
	memcpy(path, "/job_1", 6);
	path[sizeof(path) - 1] = '\0';
	job_of_path(path, &job);
	cr_expect_eq(job.kind, JOB_SLURM);
	cr_expect_lt(strlen(job.name), JOB_NAME_BYTES);
	memcpy(path, "/xxxx/", 6);
	memcpy(path + sizeof(path) - 9, ".service", 9);
	job_of_path(path, &job);
	cr_expect_eq(job.kind, JOB_UNIT);
	for (size_t i = 0; i + 2 < sizeof(path); i += 2)
		memcpy(path + i, "/a", 2);
	job_of_path(path, &job);
	cr_expect_eq(job.kind, JOB_NONE);
}

Test(job, lines_of_v1_and_of_both)
{
	struct job job;

	job_of_text("12:pids:/user.slice/user-0.slice/session-1.scope\n"
		    "7:cpuset,cpu:/slurm/uid_1000/job_42/step_0/task_0\n"
		    "3:memory:/slurm/uid_1000/job_42/step_0\n"
		    "1:name=systemd:/system.slice/slurmd.service\n"
		    "0::/system.slice/slurmd.service\n",
		    &job);
	cr_expect_eq(job.kind, JOB_SLURM);
	cr_expect_str_eq(job.name, "job_42/step_0");
	cr_expect_str_eq(job.cgroup, "/slurm/uid_1000/job_42/step_0/task_0");
	job_of_text("0::/", &job);
	cr_expect_eq(job.kind, JOB_NONE);
	cr_expect_str_eq(job.cgroup, "/");
	job_of_text("no colons\n0:only one\n\n", &job);
	cr_expect_eq(job.kind, JOB_NONE);
	cr_expect_str_empty(job.cgroup);
}

Test(job, random_bytes_do_no_harm)
{
	static const char *const words[] = {"/",	"job_",	  "1",	    "step_", "pod",
					    "kubepods", ".slice", "-",	    ":",     ID64,
					    UID_SCORED, "docker", ".scope", "_",     "libpod-",
					    "\n",	"0::",	  "\xff",   "a",     ".service"};
	unsigned int seed = (unsigned int)getpid();

	cr_log_info("seed %u", seed);
	for (int round = 0; round < 20000; round++) {
		char text[2048] = "";
		struct job job;

		for (int i = rand_r(&seed) % 20; i > 0; i--)
			strcat(text, words[rand_r(&seed) % (sizeof(words) / sizeof(words[0]))]);
		job_of_text(text, &job);
		cr_assert_lt(strlen(job.name), sizeof(job.name), "seed %u", seed);
		cr_assert_eq(job.kind != JOB_NONE, job.name[0] != '\0', "seed %u: %s", seed, text);
	}
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

Test(job, a_recorded_proc)
{
	char root[] = "/tmp/escapement-job-XXXXXX", folder[64], comm[16];
	struct job job;
	uint32_t pid;

	cr_assert_not_null(mkdtemp(root));
	snprintf(folder, sizeof(folder), "%s/407", root);
	cr_assert_eq(mkdir(folder, 0700), 0);
	write_file(folder, "cgroup",
		   "0::/system.slice/slurmstepd.scope/job_9/step_2/user/task_0\n");
	write_file(folder, "comm", "ib_write_bw\n");
	write_file(folder, "status", "Name:\tib_write_bw\nTgid:\t407\nPid:\t407\n");
	snprintf(folder, sizeof(folder), "%s/409", root);
	cr_assert_eq(mkdir(folder, 0700), 0);
	write_file(folder, "status", "Name:\tworker\nTgid:\t407\nPid:\t409\n");
	cr_assert(job_read(root, 407, &job));
	cr_expect_str_eq(job.name, "job_9/step_2");
	cr_assert(job_read_process(root, 409, &pid, comm), "a thread leads to its process");
	cr_expect_eq(pid, 407);
	cr_expect_str_eq(comm, "ib_write_bw");
	cr_expect_not(job_read(root, 408, &job));
	cr_expect_str_empty(job.name);
	cr_expect_not(job_read_process(root, 408, &pid, comm));
	snprintf(folder, sizeof(folder), "rm -r %s", root);
	cr_expect_eq(system(folder), 0);
}
