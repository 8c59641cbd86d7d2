// SPDX-License-Identifier: BSD-2-Clause
#include "writefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, data, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		data += done;
		bytes -= (size_t)done;
	}
	return 0;
}

int writefile(const char *path, const void *data, size_t bytes, mode_t mode, bool sync)
{
	char *aside;
	int fd, err = 0;

	if (asprintf(&aside, "%s.new", path) < 0)
		return -ENOMEM;
	unlink(aside);
	fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0 || fchmod(fd, mode))
		err = -errno;
	if (!err)
		err = write_all(fd, data, bytes);
	if (!err && sync && fsync(fd))
		err = -errno;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && rename(aside, path))
		err = -errno;
	if (err && fd >= 0)
		unlink(aside);
	free(aside);
	return err;
}
