// SPDX-License-Identifier: BSD-2-Clause
#include "readfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain.h"

int readfile(const char *path, size_t max, char **bytes, size_t *size, struct stat *status,
	     char **error)
{
	/* Not to hang on a pipe without a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	char *buffer = NULL;
	size_t have = 0;
	struct stat st;
	ssize_t got = 1;

	*error = NULL;
	if (fd < 0 || fstat(fd, &st)) {
		err = explain(error, -errno, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = S_ISDIR(st.st_mode)
			      ? explain(error, -EISDIR, "%s: is a directory", path)
			      : explain(error, -EINVAL, "%s: is not a regular file", path);
	} else if ((unsigned long long)st.st_size > max) {
		err = explain(error, -EFBIG, "%s: is larger than %zu KiB", path, max / 1024);
	} else if (!(buffer = malloc(st.st_size + 1))) {
		err = explain(error, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
	}
	/* A file that grows meanwhile is read as far as it was. */
	while (!err && got && have < (size_t)st.st_size) {
		got = read(fd, buffer + have, st.st_size - have);
		if (got < 0 && errno != EINTR)
			err = explain(error, -errno, "%s: %s", path, strerror(errno));
		have += got > 0 ? got : 0;
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		free(buffer);
		return err;
	}
	buffer[have] = '\0';
	*bytes = buffer;
	*size = have;
	if (status)
		*status = st;
	return 0;
}

int readtext(char *out, size_t bytes, const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	int fd, got;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	out[0] = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = (int)read(fd, out, bytes - 1);
	if (got < 0)
		got = -errno;
	close(fd);
	if (got > 0 && out[got - 1] == '\n')
		got--;
	out[got > 0 ? got : 0] = '\0';
	return got;
}

/* A file's name is on disk once its directory is. */
static int sync_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

int createfile(const char *path, const char *text)
{
	size_t bytes = strlen(text);
	char *copy = strdup(path);
	const char *directory;
	int fd, err = 0;

	if (!copy)
		return -ENOMEM;
	directory = dirname(copy);
	mkdir(directory, 0755); /* when it fails, so does open() */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		err = errno == EEXIST ? 0 : -errno;
	else if (write(fd, text, bytes) != (ssize_t)bytes || fsync(fd))
		err = errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !err)
		err = sync_directory(directory);
	if (fd >= 0 && err)
		unlink(path);
	free(copy);
	return err;
}
