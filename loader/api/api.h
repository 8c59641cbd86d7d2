/* SPDX-License-Identifier: BSD-2-Clause */
/* The interfaces of the daemon: the socket and the textfile. */
#ifndef ESC_API_H
#define ESC_API_H

#include "base/fields.h"
#include "core/core.h"

struct server;
struct textfile;

/* --- the unix socket: one JSON object a line in, one a line out --- */

/*
 * Listens on the socket of the configuration. One on which no daemon listens is replaced; else
 * -EADDRINUSE. *@error is a malloc'd sentence on failure.
 */
int server_new(struct server **out, struct core *core, char **error);
/* Closes all clients and removes the socket. */
void server_free(struct server *server);

/* --- escapement.prom for node_exporter's textfile collector: written aside, renamed --- */

/*
 * Registers a timer with the loop of @core. Without textfile.directory it writes nothing. The
 * configuration is read from @core at each tick, so a reload needs no call.
 */
int textfile_new(struct textfile **out, struct core *core);
/* Leaves a file with escapement_up 0. */
void textfile_free(struct textfile *textfile);

/*
 * What the file is to have now, handed to the worker that writes it: its directory may not respond.
 * A failure is logged and recorded once. 0; -EBUSY: the write before has not ended.
 */
int textfile_write(struct textfile *textfile);
/* What the file would have now, malloc'd; nothing starts from 0. NULL: no memory. */
char *textfile_text(struct core *core, size_t *bytes);
/* Waits for that write. 0 or -errno of it; -EBUSY: it has not ended within @timeout_ms. */
int textfile_wait(struct textfile *textfile, unsigned int timeout_ms);

extern const struct event_kind textfile_events[]; /* ended by {} */
extern const struct metric textfile_metrics[];	  /* of the daemon; ended by {} */

#endif
