/* SPDX-License-Identifier: BSD-2-Clause */
/* A cgroup of the test's own in the unified hierarchy. */
#ifndef ESC_TESTS_BPF_TCP_CGROUP_H
#define ESC_TESTS_BPF_TCP_CGROUP_H

#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Its path; nothing is made. */
static inline bool tcp_cgroup_find(char *path, size_t bytes)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	struct mntent *mount;
	bool found = false;

	while (mounts && !found && (mount = getmntent(mounts))) {
		found = !strcmp(mount->mnt_type, "cgroup2");
		if (found)
			snprintf(path, bytes, "%s/esc-tcp-%d", mount->mnt_dir, getpid());
	}
	if (mounts)
		endmntent(mounts);
	return found;
}

static inline bool tcp_cgroup_join(const char *path, pid_t pid)
{
	char file[256];
	FILE *procs;
	bool good;

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	procs = fopen(file, "w");
	good = procs && fprintf(procs, "%d\n", pid) > 0;
	if (procs)
		good = !fclose(procs) && good;
	return good;
}

#endif
