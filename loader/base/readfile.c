// SPDX-License-Identifier: BSD-2-Clause
#include "readfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int refuse(const char *path, int err, const char *reason, char **error)
{
	if (asprintf(error, "%s: %s", path, reason) < 0)
		*error = NULL;
	return -err;
}

static int read_all(int fd, size_t max, char **bytes, size_t *size)
{
	char *buffer = malloc(max + 1);
	size_t have = 0;
	ssize_t got = 1;

	if (!buffer)
		return -ENOMEM;
	while (got && have < max) {
		got = read(fd, buffer + have, max - have);
		if (got < 0 && errno != EINTR) {
			int err = errno;

			free(buffer);
			return -err;
		}
		have += got > 0 ? got : 0;
	}
	buffer[have] = '\0';
	*bytes = buffer;
	*size = have;
	return 0;
}

int readfile(const char *path, size_t max, char **bytes, size_t *size, struct stat *status,
	     char **error)
{
	/* Not to hang on a pipe that nobody writes to. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	struct stat st;

	*error = NULL;
	if (fd < 0 || fstat(fd, &st)) {
		err = refuse(path, errno, strerror(errno), error);
	} else if (!S_ISREG(st.st_mode)) {
		err = refuse(path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
			     S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file",
			     error);
	} else if ((unsigned long long)st.st_size > max) {
		char reason[64];

		snprintf(reason, sizeof(reason), "is larger than %zu KiB", max / 1024);
		err = refuse(path, EFBIG, reason, error);
	} else {
		/* A file that grows meanwhile is read as far as it was. */
		err = read_all(fd, st.st_size, bytes, size);
		if (err)
			refuse(path, -err, strerror(-err), error);
	}
	if (fd >= 0)
		close(fd);
	if (!err && status)
		*status = st;
	return err;
}
