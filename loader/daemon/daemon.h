/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: the core, the table of capabilities, the socket and the textfile. */
#ifndef ESC_LOADER_DAEMON_H
#define ESC_LOADER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct sd_event_source;
struct server;
struct textfile;

struct daemon {
	struct core core;
	struct server *server;
	struct textfile *textfile; /* writes nothing without a directory */
	struct sd_event_source *links;
	int links_fd;
};

/* In the order in which they are opened; ended by NULL. */
extern const struct capability *const daemon_capabilities[];

/*
 * Builds everything from the file at @config_path (NULL: the default path) and
 * attaches. On failure nothing is left attached that was not before, and
 * *@error is a malloc'd sentence.
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
