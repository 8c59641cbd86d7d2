/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where events go besides memory: a file with a bounded size, written by a thread of its own, and
 * the journal.
 */
#ifndef ESC_CORE_EVENTLOG_H
#define ESC_CORE_EVENTLOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PATH and PATH.1 to PATH.3; each may be a line longer. */
#define EVENTLOG_FILE_BYTES (8u << 20)
#define EVENTLOG_FILES 4

/* --- the file: a line of JSON for each event --- */

struct eventlog;

struct eventlog_state {
	int error;		 /* of the newest write; 0 or -errno */
	uint64_t lost;		 /* lines that were not written, since the start */
	uint64_t write_since_ns; /* CLOCK_MONOTONIC: a write has not ended; 0: none */
};

/* Starts the thread. @path is copied; it need not exist, and its directory neither. 0 or -errno. */
int eventlog_new(struct eventlog **out, const char *path);
/* Waits for a second at most for what is to be written. */
void eventlog_free(struct eventlog *log);
/* Queues @line, without a newline; never waits for the disk. */
void eventlog_add(struct eventlog *log, const char *line);
/* Waits until all is written or has failed; false: not within @timeout_ms. */
bool eventlog_flush(struct eventlog *log, unsigned int timeout_ms);
struct eventlog_state eventlog_state(struct eventlog *log);
/* Readable after each change from good to failed or back; eventlog_state() does not read it. */
int eventlog_fd(const struct eventlog *log);

/*
 * The newest events of @host, @most of them, in the files that an earlier daemon left: a new
 * array, oldest first. Lines that are no events are skipped. NULL: no memory.
 */
json_t *eventlog_read(const char *path, const char *host, size_t most);

/* --- the journal --- */

#define MESSAGE_ID_BYTES 33

/* The MESSAGE_ID of a kind, a function of its name alone: 32 hexadecimal digits. */
void event_message_id(const char *kind, char out[MESSAGE_ID_BYTES]);

/*
 * Sends @event to the socket of systemd-journald at @path, and never waits for it: -EAGAIN when
 * its queue is full. *@fd: -1 before the first call; the caller closes it. @priority as syslog's.
 */
int journal_send(int *fd, const char *path, const json_t *event, int priority, const char *help);

#endif
