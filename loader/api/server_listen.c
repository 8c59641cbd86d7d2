// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/explain.h"

#define SERVER_BACKLOG 16

static int make_directory(const char *path, char **error)
{
	char *copy = strdup(path), *directory;
	int err = 0;

	if (!copy)
		return -ENOMEM;
	directory = dirname(copy);
	if (mkdir(directory, 0755) && errno != EEXIST)
		err = explain(error, -errno, "%s: %s; make the folder, or give `socket` another",
			      directory, strerror(errno));
	free(copy);
	return err;
}

static int in_use(const char *path, char **error)
{
	return explain(error, -EADDRINUSE,
		       "another escapementd replies at %s: stop it, or give this one its own "
		       "`socket` and `pin_root`",
		       path);
}

static int unwritable(const char *path, int err, char **error)
{
	return explain(error, err,
		       "%s: %s; see that root may write there, or give `socket` another path", path,
		       strerror(-err));
}

/* The kernel releases the lock with the process, however it ends. */
static int take_lock(struct server_listener *listener, char **error)
{
	char *name;
	int err = 0;

	if (asprintf(&name, "%s.lock", listener->path) < 0)
		return -ENOMEM;
	listener->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (listener->lock_fd < 0)
		err = unwritable(name, -errno, error);
	else if (flock(listener->lock_fd, LOCK_EX | LOCK_NB))
		err = errno == EWOULDBLOCK
			      ? in_use(listener->path, error)
			      : explain(error, -errno, "%s: %s", name, strerror(errno));
	free(name);
	return err;
}

/* A socket on which a daemon listens is in use; one without is left from a crash. */
static int clear_stale(const struct sockaddr_un *address, char **error)
{
	struct stat status;
	int fd, err = 0;

	if (lstat(address->sun_path, &status))
		return 0;
	if (!S_ISSOCK(status.st_mode))
		return explain(error, -EEXIST,
			       "%s is there and is no socket; remove it, or give "
			       "`socket` another path",
			       address->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno == EAGAIN)
		err = in_use(address->sun_path, error);
	else if (unlink(address->sun_path))
		err = explain(error, -errno, "%s: %s", address->sun_path, strerror(errno));
	close(fd);
	return err;
}

static int bind_and_listen(struct server_listener *listener, const struct sockaddr_un *address,
			   char **error)
{
	mode_t mask;
	int err;

	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return -errno;
	mask = umask(0117); /* 0660 from its creation on */
	err = bind(listener->fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
	umask(mask);
	if (!err && listen(listener->fd, SERVER_BACKLOG))
		err = -errno;
	if (!err)
		return 0;
	close(listener->fd);
	listener->fd = -1;
	return unwritable(listener->path, err, error);
}

int server_listen(struct server_listener *out, const char *path, char **error)
{
	struct server_listener listener = {.path = strdup(path), .fd = -1, .lock_fd = -1};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int err;

	if (!listener.path)
		return -ENOMEM;
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) <
	    (int)sizeof(address.sun_path))
		err = make_directory(path, error);
	else
		err = explain(error, -ENAMETOOLONG,
			      "%s is too long for a socket; give `socket` a shorter path", path);
	if (!err)
		err = take_lock(&listener, error);
	if (!err)
		err = clear_stale(&address, error);
	if (!err)
		err = bind_and_listen(&listener, &address, error);
	*out = listener;
	if (err)
		server_unlisten(out);
	return err;
}

void server_unlisten(struct server_listener *listener)
{
	if (listener->fd >= 0) {
		unlink(listener->path);
		close(listener->fd);
	}
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	free(listener->path);
	*listener = (struct server_listener){.fd = -1, .lock_fd = -1};
}
