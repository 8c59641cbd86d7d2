/* SPDX-License-Identifier: BSD-2-Clause */
/* One daemon's listening socket: never two on a path, never a stale one in the way. */
#ifndef ESC_LOADER_SERVER_LISTEN_H
#define ESC_LOADER_SERVER_LISTEN_H

struct server_listener {
	char *path;
	int fd;
	int lock_fd; /* PATH.lock, locked as long as the daemon runs */
};

/* -EADDRINUSE: another daemon is there. *@error is a malloc'd sentence on failure. */
int server_listen(struct server_listener *out, const char *path, char **error);
/* Removes the socket and unlocks its path. */
void server_unlisten(struct server_listener *listener);

#endif
