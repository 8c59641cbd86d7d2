/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: the core, the table of capabilities, the socket and the textfile. */
#ifndef ESC_LOADER_DAEMON_H
#define ESC_LOADER_DAEMON_H

#include "core/core.h"

struct server;
struct textfile;

struct daemon {
	struct core core;
	struct server *server;
	struct textfile *textfile; /* writes nothing without a directory */
	sd_event_source *links;
	struct core_timer *links_timer; /* of a change that is still to be looked at */
	bool links_waits;
	bool reload_waits; /* SIGHUP came, and the members file is read */
	struct core_reader reader;
	uint64_t links_due_ns; /* not before it */
};

/* In the order in which they are opened; ended by NULL. */
extern const struct capability *const daemon_capabilities[];

/*
 * Builds everything from the file at @config_path (NULL: the default path) and attaches. On failure
 * nothing is left attached that was not before, and *@error is a malloc'd sentence.
 */
int daemon_new(struct daemon **out, const char *config_path, char **error);
/* Stops serving; programs stay attached and go on counting. */
void daemon_free(struct daemon *daemon);

/* The sections of the configuration that capabilities have; NULL at the end. */
const struct config_section *const *daemon_config_sections(void);

/* Lists of all event kinds and of all families of metrics, each ended by {}; NULL at the end. */
const struct event_kind *const *daemon_event_kinds(void);
const struct metric *const *daemon_metrics(void);

#endif
