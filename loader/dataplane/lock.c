// SPDX-License-Identifier: BSD-2-Clause
/* One daemon on an interface: an abstract socket per name, gone with the process. */
#include "internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/explain.h"

struct locks {
	size_t count;
	struct lock {
		char name[IF_NAMESIZE];
		int fd;
		int borrowed; /* of another set, which closes it */
	} locks[];
};

static socklen_t lock_address(const char *name, struct sockaddr_un *out)
{
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	/* Abstract: sun_path[0] stays NUL; names are per network namespace. */
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "escapementd-%s", name);
}

static int explain_busy(const char *name, const struct config *config, char **error)
{
	struct ucred holder = {0};
	socklen_t bytes = sizeof(holder);
	struct sockaddr_un address;
	char path[32], command[128] = "";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FILE *file = NULL;
	size_t got = 0;

	if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, lock_address(name, &address)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &bytes)) {
		snprintf(path, sizeof(path), "/proc/%d/cmdline", holder.pid);
		file = fopen(path, "re");
	}
	if (fd >= 0)
		close(fd);
	if (file) {
		got = fread(command, 1, sizeof(command) - 1, file);
		fclose(file);
	}
	for (size_t i = 0; i + 1 < got; i++) /* arguments end with NUL */
		if (!command[i])
			command[i] = ' ';
	return explain(
		error, -EADDRINUSE,
		"interface %s is already served by escapementd pid %d (%s); stop it, or remove "
		"the interface from %s",
		name, holder.pid, command, config->path ? config->path : "the configuration");
}

/* A listening socket: a later daemon connects to it to learn our pid. */
static int lock_bind(const char *name, const struct config *config, char **error)
{
	struct sockaddr_un address;
	socklen_t bytes = lock_address(name, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return explain(error, -errno, "socket: %s", strerror(errno));
	if (!bind(fd, (struct sockaddr *)&address, bytes) && !listen(fd, 1))
		return fd;
	err = -errno;
	close(fd);
	if (err == -EADDRINUSE)
		return explain_busy(name, config, error);
	return explain(error, err, "interface %s cannot be claimed: %s", name, strerror(-err));
}

/* The descriptor that @locks has for @name, -1 when it has none. */
static int locks_find(const struct locks *locks, const char *name)
{
	for (size_t i = 0; locks && i < locks->count; i++)
		if (!strcmp(locks->locks[i].name, name))
			return locks->locks[i].fd;
	return -1;
}

int locks_take(struct locks **out, const struct locks *owned, const struct config *config,
	       char **error)
{
	struct locks *locks =
		calloc(1, sizeof(*locks) + config->interface_count * sizeof(locks->locks[0]));

	*out = NULL;
	if (!locks)
		return -ENOMEM;
	for (size_t i = 0; i < config->interface_count; i++) {
		struct lock *lock = &locks->locks[locks->count];

		snprintf(lock->name, sizeof(lock->name), "%s", config->interfaces[i].name);
		lock->fd = locks_find(owned, lock->name);
		lock->borrowed = lock->fd >= 0;
		if (!lock->borrowed)
			lock->fd = lock_bind(lock->name, config, error);
		if (lock->fd < 0) {
			int err = lock->fd;

			locks_free(locks);
			return err;
		}
		locks->count++;
	}
	*out = locks;
	return 0;
}

void locks_replace(struct locks **owned, struct locks *taken)
{
	struct locks *old = *owned;

	for (size_t i = 0; old && i < old->count; i++)
		old->locks[i].borrowed = locks_find(taken, old->locks[i].name) >= 0;
	locks_free(old);
	for (size_t i = 0; i < taken->count; i++)
		taken->locks[i].borrowed = 0;
	*owned = taken;
}

void locks_free(struct locks *locks)
{
	for (size_t i = 0; locks && i < locks->count; i++)
		if (locks->locks[i].fd >= 0 && !locks->locks[i].borrowed)
			close(locks->locks[i].fd);
	free(locks);
}
