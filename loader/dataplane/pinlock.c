// SPDX-License-Identifier: BSD-2-Clause
#include "pinlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/explain.h"

/* /proc/locks: "1: FLOCK  ADVISORY  WRITE 708 00:2e:1234 0 EOF"; 0 when not found. */
static int pinlock_holder(int fd)
{
	unsigned long inode;
	int pid, holder = 0;
	struct stat status;
	char line[256];
	FILE *locks;

	if (fstat(fd, &status) < 0)
		return 0;
	locks = fopen("/proc/locks", "re");
	while (locks && !holder && fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 &&
		    inode == status.st_ino)
			holder = pid;
	if (locks)
		fclose(locks);
	return holder;
}

int pinlock_take(const char *root, char **error)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char holder[32] = "";
	int err, pid;

	if (fd < 0)
		return explain(error, -errno, "pin_root %s: %s", root, strerror(errno));
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	pid = pinlock_holder(fd);
	if (pid)
		snprintf(holder, sizeof(holder), " (pid %d)", pid);
	explain(error, err,
		"pin_root %s is in use by another escapementd%s; stop it, or give this one a "
		"pin_root of its own",
		root, holder);
	close(fd);
	return err;
}
