/* SPDX-License-Identifier: BSD-2-Clause */
/* The unix socket: one JSON object a line in, one a line out; see request.h for what is asked. */
#ifndef ESC_LOADER_SERVER_H
#define ESC_LOADER_SERVER_H

struct core;
struct server;

/*
 * Listens on daemon->config->socket and registers with the loop of @core. A socket
 * that nobody answers on is replaced; one that is answered is -EADDRINUSE.
 * *@error is a malloc'd sentence on failure.
 */
int server_new(struct server **out, struct core *core, char **error);
/* Closes all clients and removes the socket. */
void server_free(struct server *server);

#endif
