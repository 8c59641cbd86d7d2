/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of api/ share. */
#ifndef ESC_API_INTERNAL_H
#define ESC_API_INTERNAL_H

#include <sys/socket.h>

#include "core/core.h"

/* --- who may do what --- */

enum access {
	ACCESS_NONE,
	ACCESS_READ,	/* verbs that change nothing: members of PLACES_GROUP */
	ACCESS_CONTROL, /* all verbs: root, and the daemon's own user */
};
/*
 * Of a client, from its credentials: @groups are its @count other groups, @own_uid the daemon's
 * user, @group PLACES_GROUP, or (gid_t)-1 where there is no such group.
 */
enum access access_of(const struct ucred *client, const gid_t *groups, size_t count, uid_t own_uid,
		      gid_t group);

/* --- requests --- */

/*
 * One request of the socket and its reply, both a line of JSON:
 *   {"verb": "qp", "args": {"key": "10.0.0.2", "sort": "rate"}}
 *   {"ok": true, "result": {...}}
 *   {"ok": false, "error": "...", "exit": 2}
 * The exit is the one of the command line: 1 it failed, 2 it was wrong, 4 it is not permitted.
 */
#define REQUEST_BYTES_MAX 65536

/*
 * The reply of the capability that has the verb, or of api/ itself: its line in @request->text,
 * malloc'd (NULL: no memory), and whether each later event is a reply too.
 */
void request_reply(struct core *core, const char *line, size_t bytes, enum access access,
		   struct request *request);

/* {"ok": true, "result": @result} and a newline, malloc'd; @result is borrowed. */
char *request_wrap(const json_t *result, size_t *bytes);
/* {"ok": false, ...} and a newline, malloc'd. */
char *request_refuse(int exit_code, const char *error, size_t *bytes);

/* --- verbs of no capability: status, events, mode, off, config, features, reload --- */

/* self is the struct core. */
extern const struct verb_handler api_verb_handlers[];

/* What the command line does itself where no daemon replies; see struct verb. */
json_t *local_off(const json_t *args, int *exit, char **error);
json_t *local_features(const json_t *args, int *exit, char **error);
json_t *local_version(const json_t *args, int *exit, char **error);

#endif
