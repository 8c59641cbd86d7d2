// SPDX-License-Identifier: BSD-2-Clause
#include "eventlog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/now.h"

#define BACKLOG_BYTES_MAX (1u << 20)
#define END_TIMEOUT_MS 1000
#define OPEN_TRIES 5

struct eventlog {
	char *path;
	pthread_mutex_t mutex; /* of what follows, but line_open */
	pthread_cond_t added, written;
	char *text; /* whole lines that wait for the thread */
	size_t bytes, room;
	bool writing, end;
	bool abandoned; /* the thread frees all this when its write returns */
	struct eventlog_state state;
	int fd;
	bool line_open; /* the last write ended inside a line; the thread's own */
};

/* --- the thread: it alone touches the disk --- */

static int rotate(const char *path)
{
	char from[PATH_MAX], to[PATH_MAX];

	for (int i = EVENTLOG_FILES - 1; i > 0; i--) {
		snprintf(to, sizeof(to), "%s.%d", path, i);
		snprintf(from, sizeof(from), i > 1 ? "%s.%d" : "%s", path, i - 1);
		if (rename(from, to) && errno != ENOENT)
			return -errno;
	}
	return 0;
}

/* Makes the directory of the file if that alone is missing. */
static int open_file(const char *path)
{
	const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
	int fd = open(path, flags, 0640);
	char directory[PATH_MAX], *slash;

	if (fd >= 0 || errno != ENOENT)
		return fd;
	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (!slash || slash == directory)
		return fd;
	*slash = '\0';
	return mkdir(directory, 0755) ? -1 : open(path, flags, 0640);
}

/*
 * Opened for each write, so that a file that was moved or removed is followed. Locked, since two
 * daemons may have one file. Rotated when @bytes more would make it too long. fd or -errno.
 */
static int open_for(const char *path, size_t bytes)
{
	int err = -EBUSY;

	for (int i = 0; i < OPEN_TRIES; i++) {
		int fd = open_file(path);
		struct stat ours, there;

		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX) || fstat(fd, &ours)) {
			err = -errno;
			close(fd);
			return err;
		}
		if (!S_ISREG(ours.st_mode))
			return fd;
		if (!stat(path, &there) && there.st_ino == ours.st_ino &&
		    there.st_dev == ours.st_dev) {
			if (!ours.st_size || ours.st_size + bytes <= EVENTLOG_FILE_BYTES)
				return fd;
			err = rotate(path);
		}
		close(fd);
		if (err && err != -EBUSY)
			return err;
	}
	return err;
}

static uint64_t count_lines(const char *text, size_t bytes)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	return lines;
}

/* 0 or -errno, with the lines of @text that were not written in *@lost. */
static int write_lines(struct eventlog *log, const char *text, size_t bytes, uint64_t *lost)
{
	int fd = open_for(log->path, bytes), err = fd < 0 ? fd : 0;
	ssize_t wrote = 0;

	if (!err && log->line_open && write(fd, "\n", 1) == 1)
		log->line_open = false;
	if (!err)
		wrote = write(fd, text, bytes);
	if (wrote < 0)
		err = -errno;
	else if (!err && (size_t)wrote < bytes)
		err = -ENOSPC;
	if (wrote > 0)
		log->line_open = text[wrote - 1] != '\n';
	*lost = count_lines(text + (wrote > 0 ? wrote : 0), bytes - (wrote > 0 ? wrote : 0));
	if (fd >= 0)
		close(fd);
	return err;
}

/* With the mutex held. */
static void set_error(struct eventlog *log, int err, uint64_t lost)
{
	bool changed = !log->state.error != !err;

	log->state.lost += lost;
	log->state.error = err;
	if (changed)
		eventfd_write(log->fd, 1);
}

static void destroy(struct eventlog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	pthread_mutex_destroy(&log->mutex);
	pthread_cond_destroy(&log->added);
	pthread_cond_destroy(&log->written);
	free(log->path);
	free(log->text);
	free(log);
}

static void *run(void *context)
{
	struct eventlog *log = context;
	bool abandoned;

	pthread_mutex_lock(&log->mutex);
	while (log->bytes || !log->end) {
		char *text = log->text;
		size_t bytes = log->bytes;
		uint64_t lost;
		int err;

		if (!bytes) {
			pthread_cond_wait(&log->added, &log->mutex);
			continue;
		}
		log->text = NULL;
		log->bytes = log->room = 0;
		log->writing = true;
		log->state.write_since_ns = time_local_ns();
		pthread_mutex_unlock(&log->mutex);
		err = write_lines(log, text, bytes, &lost);
		free(text);
		pthread_mutex_lock(&log->mutex);
		log->writing = false;
		log->state.write_since_ns = 0;
		set_error(log, err, lost);
		pthread_cond_broadcast(&log->written);
		if (log->abandoned)
			break;
	}
	abandoned = log->abandoned;
	pthread_mutex_unlock(&log->mutex);
	if (abandoned)
		destroy(log);
	return NULL;
}

/* --- for the loop --- */

int eventlog_new(struct eventlog **out, const char *path)
{
	struct eventlog *log = calloc(1, sizeof(*log));
	pthread_condattr_t clock;
	pthread_t thread;
	int err;

	*out = NULL;
	if (!log)
		return -ENOMEM;
	pthread_mutex_init(&log->mutex, NULL);
	pthread_cond_init(&log->added, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&log->written, &clock);
	pthread_condattr_destroy(&clock);
	log->path = strdup(path);
	log->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = log->fd < 0 ? -errno : log->path ? 0 : -ENOMEM;
	if (!err)
		err = -pthread_create(&thread, NULL, run, log);
	if (err) {
		destroy(log);
		return err;
	}
	/* It is never joined: a disk that does not respond would hold up the end, too. */
	pthread_detach(thread);
	*out = log;
	return 0;
}

void eventlog_add(struct eventlog *log, const char *line)
{
	size_t bytes = strlen(line);

	pthread_mutex_lock(&log->mutex);
	if (log->bytes + bytes + 1 > BACKLOG_BYTES_MAX ||
	    array_reserve(&log->text, &log->room, log->bytes + bytes + 1, 1)) {
		set_error(log, -EBUSY, 1);
	} else {
		memcpy(log->text + log->bytes, line, bytes);
		log->text[log->bytes + bytes] = '\n';
		log->bytes += bytes + 1;
		pthread_cond_signal(&log->added);
	}
	pthread_mutex_unlock(&log->mutex);
}

/* With the mutex held. */
static bool wait_written(struct eventlog *log, unsigned int timeout_ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	while (log->bytes || log->writing)
		if (pthread_cond_timedwait(&log->written, &log->mutex, &end))
			return !log->bytes && !log->writing;
	return true;
}

bool eventlog_flush(struct eventlog *log, unsigned int timeout_ms)
{
	bool done;

	pthread_mutex_lock(&log->mutex);
	done = wait_written(log, timeout_ms);
	pthread_mutex_unlock(&log->mutex);
	return done;
}

void eventlog_free(struct eventlog *log)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->mutex);
	wait_written(log, END_TIMEOUT_MS);
	log->end = log->abandoned = true; /* whichever it waits for, it then frees all this */
	pthread_cond_signal(&log->added);
	pthread_mutex_unlock(&log->mutex);
}

struct eventlog_state eventlog_state(struct eventlog *log)
{
	struct eventlog_state state;

	pthread_mutex_lock(&log->mutex);
	state = log->state;
	pthread_mutex_unlock(&log->mutex);
	return state;
}

int eventlog_fd(const struct eventlog *log)
{
	return log->fd;
}

/* --- what an earlier daemon left --- */

/* The end of a regular file, as much as we would have written; malloc'd, NULL: none. */
static char *read_end(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	char *text = NULL;
	off_t skip = 0;
	ssize_t got;

	*bytes = 0;
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size) {
		if (status.st_size > 2 * (off_t)EVENTLOG_FILE_BYTES)
			skip = status.st_size - 2 * (off_t)EVENTLOG_FILE_BYTES;
		text = malloc(status.st_size - skip);
	}
	while (text &&
	       (got = pread(fd, text + *bytes, status.st_size - skip - *bytes, skip + *bytes)) > 0)
		*bytes += got;
	close(fd);
	return text;
}

static bool is_event(const json_t *event, const char *host)
{
	const char *from = json_string_value(json_object_get(event, "host"));

	return json_is_string(json_object_get(event, "kind")) &&
	       json_is_integer(json_object_get(event, "time_ns")) && from && !strcmp(from, host);
}

/* Appends the events of @text to @list, the newest one first, until it has @most. */
static void add_events(json_t *list, const char *text, size_t bytes, const char *host, size_t most)
{
	while (bytes && json_array_size(list) < most) {
		const char *newline = memrchr(text, '\n', bytes - 1);
		size_t start = newline ? newline + 1 - text : 0;
		json_t *event = json_loadb(text + start, bytes - start, 0, NULL);

		if (is_event(event, host))
			json_array_append(list, event);
		json_decref(event);
		bytes = start;
	}
}

json_t *eventlog_read(const char *path, const char *host, size_t most)
{
	json_t *newest_first = json_array(), *list = json_array();

	for (int i = 0; i < EVENTLOG_FILES && json_array_size(newest_first) < most; i++) {
		char name[PATH_MAX], *text;
		size_t bytes;

		snprintf(name, sizeof(name), i ? "%s.%d" : "%s", path, i);
		text = read_end(name, &bytes);
		if (text)
			add_events(newest_first, text, bytes, host, most);
		free(text);
	}
	for (size_t i = json_array_size(newest_first); list && i--;)
		json_array_append(list, json_array_get(newest_first, i));
	json_decref(newest_first);
	return list;
}
