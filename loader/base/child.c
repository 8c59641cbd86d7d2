// SPDX-License-Identifier: BSD-2-Clause
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/now.h"

#define READ_BYTES 65536
#define TEXT_BYTES_MOST (64u << 20) /* the rest is read and dropped */
#define POLLED_MOST 128

pid_t child_start(const char *const argv[], int *out, int *err)
{
	int outs[2], errs[2];
	pid_t pid;

	if (pipe2(outs, O_CLOEXEC))
		return -errno;
	if (pipe2(errs, O_CLOEXEC)) {
		close(outs[0]);
		close(outs[1]);
		return -errno;
	}
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDONLY);

		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("LC_ALL", "C.UTF-8", 1);
		if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
		    dup2(outs[1], STDOUT_FILENO) >= 0 && dup2(errs[1], STDERR_FILENO) >= 0)
			execvp(argv[0], (char *const *)argv);
		dprintf(STDERR_FILENO, "%s: %s", argv[0], strerror(errno));
		_exit(CHILD_NOT_FOUND);
	}
	close(outs[1]);
	close(errs[1]);
	if (pid < 0) {
		close(outs[0]);
		close(errs[0]);
		return -EAGAIN;
	}
	/* The child does so too: its group exists before either of them goes on. */
	setpgid(pid, pid);
	*out = outs[0];
	*err = errs[0];
	return pid;
}

int child_begin(struct child *child, const char *const argv[])
{
	pid_t pid;

	*child = (struct child){};
	pid = child_start(argv, &child->out, &child->err);
	if (pid < 0)
		return (int)pid;
	child->pid = pid;
	return 0;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void take_text(struct child *child)
{
	char more[READ_BYTES];
	ssize_t got = read(child->out, more, sizeof(more));

	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0)
		close_end(&child->out);
	if (got <= 0 || child->bytes + (size_t)got > TEXT_BYTES_MOST ||
	    array_reserve(&child->text, &child->room, child->bytes + (size_t)got + 1, 1))
		return;
	memcpy(child->text + child->bytes, more, (size_t)got);
	child->bytes += (size_t)got;
	child->text[child->bytes] = '\0';
}

static void take_complaint(struct child *child)
{
	size_t used = strlen(child->complaint), room = sizeof(child->complaint) - 1 - used;
	char more[512];
	ssize_t got = read(child->err, more, sizeof(more));

	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0) {
		close_end(&child->err);
		return;
	}
	for (ssize_t i = 0; i < got && room; i++) {
		char c = more[i] >= ' ' && more[i] < 0x7f ? more[i] : ' ';

		/* Blanks are not repeated, and not first. */
		if (c == ' ' && (!used || child->complaint[used - 1] == ' '))
			continue;
		child->complaint[used++] = c;
		room--;
	}
}

static void reap(struct child *child, int options)
{
	size_t used = strlen(child->complaint);
	int status;
	pid_t pid;

	while ((pid = waitpid(child->pid, &status, options)) < 0 && errno == EINTR)
		;
	if (!pid)
		return;
	child->pid = 0;
	child->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (used && child->complaint[used - 1] == ' ')
		child->complaint[used - 1] = '\0';
}

void child_poll(struct child *children[], size_t count, int wait_ms)
{
	struct pollfd fds[2 * POLLED_MOST];
	size_t polled = count < POLLED_MOST ? count : POLLED_MOST;

	for (size_t i = 0; i < polled; i++) {
		bool runs = children[i]->pid > 0;

		fds[2 * i] = (struct pollfd){runs ? children[i]->out : -1, POLLIN, 0};
		fds[2 * i + 1] = (struct pollfd){runs ? children[i]->err : -1, POLLIN, 0};
	}
	if (poll(fds, 2 * polled, wait_ms) < 0)
		return;
	for (size_t i = 0; i < polled; i++) {
		struct child *child = children[i];

		if (fds[2 * i].revents)
			take_text(child);
		if (fds[2 * i + 1].revents)
			take_complaint(child);
		if (child->pid > 0 && child->out < 0 && child->err < 0)
			reap(child, WNOHANG);
	}
}

void child_clear(struct child *child)
{
	if (child->pid > 0) {
		kill(-child->pid, SIGKILL);
		reap(child, 0);
		close_end(&child->out);
		close_end(&child->err);
	}
	free(child->text);
	*child = (struct child){};
}

int child_run(struct child *child, const char *const argv[], uint64_t timeout_ns)
{
	uint64_t end_ns = time_local_ns() + timeout_ns;
	int err = child_begin(child, argv);

	while (!err && child->pid > 0) {
		uint64_t now_ns = time_local_ns();

		if (now_ns >= end_ns)
			return -ETIME;
		/* One that has closed its output has nothing to wait for but its end. */
		child_poll(&child, 1, child->out < 0 && child->err < 0 ? 10 : 100);
	}
	return err;
}
