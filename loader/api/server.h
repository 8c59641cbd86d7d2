/* SPDX-License-Identifier: BSD-2-Clause */
/* The unix socket: one JSON object a line in, one a line out, see request.h. */
#ifndef ESC_LOADER_SERVER_H
#define ESC_LOADER_SERVER_H

struct core;
struct server;

/*
 * Listens on the socket of the configuration. One on which no daemon listens is replaced; else
 * -EADDRINUSE. *@error is a malloc'd sentence on failure.
 */
int server_new(struct server **out, struct core *core, char **error);
/* Closes all clients and removes the socket. */
void server_free(struct server *server);

#endif
