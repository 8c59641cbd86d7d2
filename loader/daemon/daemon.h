/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: its parts, and what the socket may ask of it. */
#ifndef ESC_LOADER_DAEMON_H
#define ESC_LOADER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct config;
struct dataplane;
struct delays;
struct judge;
struct locks;
struct hostqueue;
struct mesh;
struct owners;
struct paths;
struct qptable;
struct server;
struct steer;
struct sd_event;
struct sd_event_source;
struct textfile;

struct daemon {
	struct core core; /* first */
	struct config *config; /* core.config */
	struct dataplane *dataplane;
	struct qptable *qps;
	struct delays *delays; /* follows qps */
	struct hostqueue *host_queue; /* NULL: not wanted, or host_queue_note says why not */
	char host_queue_note[160];
	struct mesh *mesh;
	struct steer *steer;
	struct paths *paths;
	struct judge *judge; /* NULL: nothing is judged */
	struct owners *owners; /* of queue pairs; NULL: none are looked for */
	struct events *ledger; /* core.events */
	struct server *server;
	struct textfile *textfile; /* writes nothing without a directory */
	struct locks *locks;	   /* one per interface served */
	struct sd_event *event;
	uint64_t start_realtime_ns;  /* CLOCK_REALTIME */
	uint64_t start_local_ns;     /* CLOCK_MONOTONIC */
	uint64_t refreshed_local_ns; /* CLOCK_MONOTONIC of the last daemon_refresh() */
	bool takeover;		     /* the maps were there before us */

	struct sd_event_source *links;
	int links_fd;
};

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

int daemon_refresh(struct daemon *daemon);
void daemon_follow_host_queue(struct daemon *daemon);
extern struct daemon *legacy_daemon; /* until legacy.c is gone */

#endif
