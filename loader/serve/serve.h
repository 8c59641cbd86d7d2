/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * escapement-serve(8): what the daemon replies to verbs that change nothing, over HTTP. All times
 * are CLOCK_MONOTONIC.
 */
#ifndef ESC_SERVE_H
#define ESC_SERVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/verb.h"

#define SERVE_S 1000000000ull
#define SERVE_API "/api/v1"

/* --- route.c: what a path and its arguments ask for. Pure --- */

enum route_kind { ROUTE_INDEX, ROUTE_LIST, ROUTE_METRICS, ROUTE_HEALTH, ROUTE_REPORT, ROUTE_VERB };

struct route {
	enum route_kind kind;
	const struct verb *verb; /* whose arguments it takes; NULL: none */
	json_t *args;		 /* of the command line, by their JSON keys */
};

/* "/api/v1/steer/plan". */
#define ROUTE_PATH_BYTES 96
void route_path(const struct verb *verb, char out[ROUTE_PATH_BYTES]);
/* False with *@error, a malloc'd sentence: there is no such path. Else route_clear() is due. */
bool route_find(struct route *out, const char *path, char **error);
void route_clear(struct route *route);
/* NAME=VALUE of the query; @value NULL: without one. False with *@error. */
bool route_take(struct route *route, const char *name, const char *value, char **error);
/* The same for the same reply, malloc'd; NULL: no memory. */
char *route_key(const struct route *route);
/*
 * Request @i to the daemon of those that the reply is made of: *@verb, in @room unless it is a
 * literal, and *@args (new reference). False: there is none.
 */
bool route_request(const struct route *route, size_t i, const char **verb, char room[64],
		   json_t **args);
/* The name of an argument in a query: "top" of --top, "key" of KEY. */
void route_arg_name(const struct verb_arg *arg, char out[64]);
/* It is one for HTTP. */
bool route_takes(const struct route *route, const struct verb_arg *arg);

/* --- page.c: the texts of replies --- */

/* Each malloc'd, or NULL without memory. */
char *page_index(size_t *bytes);
char *page_list(size_t *bytes);
/* {"error": "..."}, one sentence. */
char *page_error(const char *sentence, size_t *bytes);

/* --- ask.c: one request to the daemon, which is not waited for --- */

#define ASK_TIMEOUT_NS (8 * SERVE_S) /* below the 10 s of a scrape */
#define ASK_BYTES_MAX (64u << 20)

enum ask_state {
	ASK_NONE,
	ASK_RUNS,
	ASK_DONE,   /* ->in is the line of the reply */
	ASK_ABSENT, /* no daemon, or it does not reply: ->error */
	ASK_FAILED, /* another failure: ->error */
};

struct ask {
	enum ask_state state;
	int fd; /* while it runs */
	char *out;
	size_t out_bytes, sent;
	char *in; /* ended by a NUL */
	size_t in_bytes, in_room;
	uint64_t begun_ns;
	char error[256];
};

/* @args (NULL: none) is borrowed. */
void ask_start(struct ask *ask, const char *socket, const char *verb, const json_t *args,
	       uint64_t now_ns);
/* Goes on as far as it can. */
void ask_run(struct ask *ask, uint64_t now_ns);
/* What it waits for, of poll(). */
short ask_events(const struct ask *ask);
void ask_clear(struct ask *ask);

/* --- cache.c: replies, each asked for once a second at most --- */

#define CACHE_ENTRIES 64
#define CACHE_AGE_NS SERVE_S

struct reply {
	struct route route;
	char *key;
	bool ready;
	unsigned int status; /* of HTTP */
	const char *type;    /* of its content */
	char *body;
	size_t bytes;
	char etag[24];
	/* Of cache.c. */
	uint64_t queued_ns, made_ns;
	unsigned int users;
	size_t step;
	json_t *parts; /* replies so far, by the verb that was sent */
};

struct cache {
	const char *socket; /* borrowed */
	struct ask ask;
	struct reply *asking; /* whose request runs; NULL: none */
	uint64_t not_before_ns;
	struct reply *replies[CACHE_ENTRIES];
	uint64_t asked; /* requests to the daemon */
};

/*
 * Takes @route over, also on failure. A reply that is ready, or will be; it stays until
 * cache_release(). NULL: too many different ones are waited for.
 */
struct reply *cache_get(struct cache *cache, struct route *route, uint64_t now_ns);
void cache_release(struct reply *reply);
/* Goes on. Returns when it has to be called again at the latest. */
uint64_t cache_run(struct cache *cache, uint64_t now_ns);
void cache_free(struct cache *cache);

/* --- slots.c: which connection is closed for a new one. Pure --- */

#define SLOTS_MAX 256
/* Those that are being closed have room beside them. */
#define SLOTS_ROOM (SLOTS_MAX + 64)
#define SLOTS_FIRST_NS (10 * SERVE_S) /* for the first request of a connection, */
#define SLOTS_KEEP_NS (120 * SERVE_S) /* each further one, */
#define SLOTS_REPLY_NS (60 * SERVE_S) /* and a reply, from the daemon to its last byte */

enum slot_state { SLOT_FREE, SLOT_WAITS, SLOT_REPLIES, SLOT_CLOSES };

struct slot {
	enum slot_state state;
	bool served; /* a request at least */
	int fd;
	uint64_t since_ns; /* in this state */
	uint8_t address[16];
	/* Of http.c. */
	void *connection;
	struct reply *reply;
	bool suspended;
};

struct slots {
	struct slot list[SLOTS_ROOM];
	uint64_t opened, displaced, expired, refused;
};

/* A free one, in state SLOT_WAITS; NULL: none. */
struct slot *slots_open(struct slots *slots, const uint8_t address[16], int fd, uint64_t now_ns);
/*
 * When there are more than SLOTS_MAX: the one that has to be closed, in state SLOT_CLOSES. Of the
 * address that has most, the one that has waited longest for a request, else of any address, else
 * @newest itself. NULL: none has to be.
 */
struct slot *slots_displace(struct slots *slots, struct slot *newest);
/* One whose time is over, in state SLOT_CLOSES; NULL: none. */
struct slot *slots_expire(struct slots *slots, uint64_t now_ns);

/* --- http.c: libmicrohttpd --- */

struct http;
/* "127.0.0.1:9470" or "[::1]:9470"; -errno with *@error, a malloc'd sentence. */
int http_new(struct http **out, const char *listen, struct cache *cache, char **error);
void http_free(struct http *http);
/* To be polled for reading. */
int http_fd(const struct http *http);
/* Goes on. Returns when it has to be called again at the latest. */
uint64_t http_run(struct http *http, uint64_t now_ns);
/* "12 connections; 340 opened, 2 displaced, 1 expired, 0 refused". */
void http_describe(const struct http *http, char *out, size_t bytes);

#endif
