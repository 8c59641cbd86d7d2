// SPDX-License-Identifier: BSD-2-Clause
#include "readfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain.h"

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
			int err = -errno;

			free(buffer);
			return err;
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
	/* Not to hang on a pipe without a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	struct stat st;

	*error = NULL;
	if (fd < 0 || fstat(fd, &st)) {
		err = explain(error, -errno, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = S_ISDIR(st.st_mode)
			      ? explain(error, -EISDIR, "%s: is a directory", path)
			      : explain(error, -EINVAL, "%s: is not a regular file", path);
	} else if ((unsigned long long)st.st_size > max) {
		err = explain(error, -EFBIG, "%s: is larger than %zu KiB", path, max / 1024);
	} else {
		/* A file that grows meanwhile is read as far as it was. */
		err = read_all(fd, st.st_size, bytes, size);
		if (err)
			explain(error, err, "%s: %s", path, strerror(-err));
	}
	if (fd >= 0)
		close(fd);
	if (!err && status)
		*status = st;
	return err;
}

int createfile(const char *path)
{
	char *copy = strdup(path);
	int fd;

	if (copy)
		mkdir(dirname(copy), 0755); /* when it fails, so does open() */
	free(copy);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}
