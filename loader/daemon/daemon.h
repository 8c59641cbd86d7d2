/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: its parts, and what the socket may ask of it. */
#ifndef ESC_LOADER_DAEMON_H
#define ESC_LOADER_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct dataplane;
struct delays;
struct judge;
struct ledger;
struct locks;
struct hostqueue;
struct mesh;
struct nics;
struct owners;
struct paths;
struct qptable;
struct server;
struct steer;
struct pace;
struct tcppace;
struct sd_event;
struct sd_event_source;
struct textfile;

struct daemon {
	struct config *config; /* in force; replaced as a whole by a reload */
	struct dataplane *dataplane;
	struct qptable *qps;
	struct delays *delays; /* follows qps */
	struct hostqueue *host_queue; /* NULL: not wanted, or host_queue_note says why not */
	char host_queue_note[160];
	struct mesh *mesh;
	struct steer *steer;
	struct paths *paths;
	struct pace *pace;
	struct tcppace *tcp;
	struct nics *nics;
	struct judge *judge; /* NULL: nothing is judged */
	struct owners *owners; /* of queue pairs; NULL: none are looked for */
	struct ledger *ledger;
	struct server *server;
	struct textfile *textfile; /* always there; writes nothing without a directory */
	struct locks *locks;	   /* one per interface served */
	struct sd_event *event;
	uint64_t start_realtime_ns;  /* CLOCK_REALTIME */
	uint64_t start_local_ns;     /* CLOCK_MONOTONIC */
	uint64_t refreshed_local_ns; /* CLOCK_MONOTONIC of the last daemon_refresh() */
	bool takeover;		     /* the maps were there before us */

	/* daemon.c's own */
	const char *config_path; /* as given by -c; read again by a reload */
	struct sd_event_source *tick;
	struct sd_event_source *look;
	struct sd_event_source *links;
	int links_fd;
	uint32_t control_flags; /* as last seen, to tell a change made by others */
	bool kill_file_seen;	/* it was there at the last tick */
};

/*
 * Builds everything from the file at @config_path (NULL: the default path) and
 * attaches. On failure nothing is left attached that was not before, and
 * *@error is a malloc'd sentence.
 */
int daemon_new(struct daemon **out, const char *config_path, char **error);
/* Stops serving; programs stay attached and go on counting. */
void daemon_free(struct daemon *daemon);

/*
 * Reads the QP table, the delays and the owners now, before the socket and the textfile answer.
 * The loop does it four times a second (once, of many queue pairs), for owners once.
 */
int daemon_refresh(struct daemon *daemon);

/* Attaches or detaches the program behind the qdisc, as the configuration and the kill switch have it. */
void daemon_follow_host_queue(struct daemon *daemon);

/* Reads the configuration file again: all of it is applied, or none. */
int daemon_reload(struct daemon *daemon, char **error);

/*
 * The kill switch. Off: the kill file is made, every program detached, maps
 * kept. On (`mode observe`): the kill file is removed, everything attached
 * again. Both idempotent.
 */
int daemon_set_off(struct daemon *daemon, bool off, char **error);

/* CLOCK_MONOTONIC, CLOCK_REALTIME. */
uint64_t daemon_local_ns(void);
uint64_t daemon_realtime_ns(void);

#endif
