// SPDX-License-Identifier: BSD-2-Clause
#include "sysdump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/now.h"

#define READ_BYTES 65536

void part_clear(struct part *part)
{
	free(part->bytes);
	*part = (struct part){};
}

static void fail(struct part *part, const char *what, int err)
{
	snprintf(part->problem, sizeof(part->problem), "%s: %s", what, strerror(err));
}

/*
 * One read into @part; false: there is no more, or none is wanted. With @tail there is room for
 * twice the most, of which the older half goes when it is full.
 */
static bool take(struct part *part, int fd, bool tail)
{
	size_t room = SYSDUMP_PART_BYTES * (tail ? 2ul : 1ul);
	ssize_t got;

	if (part->size == room && tail) {
		part->size = SYSDUMP_PART_BYTES;
		memmove(part->bytes, part->bytes + SYSDUMP_PART_BYTES, SYSDUMP_PART_BYTES);
		part->cut = true;
	}
	if (part->size == room) {
		part->cut = true;
		return false;
	}
	room -= part->size;
	got = read(fd, part->bytes + part->size, room < READ_BYTES ? room : READ_BYTES);
	if (got > 0)
		part->size += (size_t)got;
	return got > 0 || (got < 0 && errno == EINTR);
}

/* Of what was kept for @tail only the last SYSDUMP_PART_BYTES. */
static void cut_tail(struct part *part)
{
	size_t more = part->size > SYSDUMP_PART_BYTES ? part->size - SYSDUMP_PART_BYTES : 0;

	if (!more)
		return;
	part->cut = true;
	part->size -= more;
	memmove(part->bytes, part->bytes + more, part->size);
}

static bool make_room(struct part *part)
{
	*part = (struct part){.bytes = malloc(2ul * SYSDUMP_PART_BYTES)};
	if (!part->bytes)
		fail(part, "memory", ENOMEM);
	return part->bytes;
}

void collect_file(struct part *out, const char *path, bool tail)
{
	int fd;

	if (!make_room(out))
		return;
	/* A FIFO must not hold it up, whatever the configuration names. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		fail(out, path, errno);
		return;
	}
	while (take(out, fd, tail))
		;
	close(fd);
	cut_tail(out);
}

/* --- commands --- */

struct running {
	int out, err; /* -1: ended */
	struct part *part;
	char text[200]; /* of the standard error, its beginning */
	size_t text_bytes;
};

static void take_error(struct running *run)
{
	char more[512];
	ssize_t got = read(run->err, more, sizeof(more));
	size_t room = sizeof(run->text) - 1 - run->text_bytes;

	if (got <= 0) {
		close(run->err);
		run->err = -1;
		return;
	}
	room = (size_t)got < room ? (size_t)got : room;
	memcpy(run->text + run->text_bytes, more, room);
	run->text_bytes += room;
}

/* False: it has taken too long, or nothing more is wanted of it. */
static bool read_all(struct running *run, bool tail, uint64_t end_ns)
{
	while (run->out >= 0 || run->err >= 0) {
		struct pollfd fds[] = {{run->out, POLLIN, 0}, {run->err, POLLIN, 0}};
		uint64_t now_ns = time_local_ns();

		if (now_ns >= end_ns)
			return false;
		if (poll(fds, 2, (int)((end_ns - now_ns) / 1000000) + 1) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			take_error(run);
		if (fds[0].revents && !take(run->part, run->out, tail)) {
			if (run->part->cut && !tail)
				return true;
			close(run->out);
			run->out = -1;
		}
	}
	return true;
}

/* One line, without control characters. */
static void make_line(char *text)
{
	size_t bytes = strlen(text);

	while (bytes && (unsigned char)text[bytes - 1] <= ' ')
		text[--bytes] = '\0';
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = ' ';
}

void collect_command(struct part *out, const char *const argv[], bool tail, uint64_t timeout_ns)
{
	struct running run = {.out = -1, .err = -1, .part = out};
	bool ended;
	int status = 0;
	pid_t pid;

	if (!make_room(out))
		return;
	pid = child_start(argv, &run.out, &run.err);
	if (pid < 0) {
		fail(out, argv[0], -(int)pid);
		return;
	}
	ended = read_all(&run, tail, time_local_ns() + timeout_ns);
	if (run.out >= 0)
		close(run.out);
	if (run.err >= 0)
		close(run.err);
	if (!ended || run.out >= 0)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	cut_tail(out);
	make_line(run.text);
	if (!ended)
		snprintf(out->problem, sizeof(out->problem), "it did not end in time");
	else if (run.out < 0 && status)
		snprintf(out->problem, sizeof(out->problem), "exit %d: %s",
			 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
			 run.text);
}
