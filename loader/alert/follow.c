// SPDX-License-Identifier: BSD-2-Clause
/* The daemon's events and configuration, by the command line: `escapement -j events --follow`. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alert.h"
#include "base/array.h"
#include "base/log.h"
#include "base/now.h"

#define LINE_BYTES_MAX (256u << 10)
#define READ_BYTES 65536
#define READS_MAX 64 /* in one call */
#define RETRY_NS ALERT_S
/* What comes this long after the connection is not of the daemon's memory. */
#define LIVE_NS (10 * ALERT_S)
#define CONFIG_BYTES_MAX (1u << 20)
#define CONFIG_TIMEOUT_MS 10000

struct follow {
	const char *program, *socket; /* borrowed; NULL: the default */
	pid_t pid;
	int fd; /* -1: it does not run */
	char *line;
	size_t bytes, room;
	bool skipping; /* the rest of a line that is too long */
	uint64_t started_local_ns, heard_local_ns;
};

int follow_new(struct follow **out, const char *program, const char *socket)
{
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return -ENOMEM;
	*follow = (struct follow){
		.program = program, .socket = socket, .fd = -1, .heard_local_ns = time_local_ns()};
	*out = follow;
	return 0;
}

int follow_fd(const struct follow *follow)
{
	return follow->fd;
}

/* --- the command line --- */

/* *@fd is its standard output. Returns its pid, or -errno. */
static pid_t run(const struct follow *follow, const char *const words[], int *fd)
{
	const char *argv[16] = {follow->program, "-j"};
	size_t count = 2;
	int out[2];
	pid_t pid;

	if (follow->socket) {
		argv[count++] = "--socket";
		argv[count++] = follow->socket;
	}
	for (size_t i = 0; words[i]; i++)
		argv[count++] = words[i];
	if (pipe2(out, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (dup2(out[1], STDOUT_FILENO) >= 0)
			execvp(follow->program, (char *const *)argv);
		_exit(127);
	}
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return -errno;
	}
	*fd = out[0];
	return pid;
}

static void stop(struct follow *follow)
{
	if (follow->fd < 0)
		return;
	close(follow->fd);
	follow->fd = -1;
	kill(follow->pid, SIGKILL);
	waitpid(follow->pid, NULL, 0);
	follow->bytes = 0;
	follow->skipping = false;
}

void follow_free(struct follow *follow)
{
	if (!follow)
		return;
	stop(follow);
	free(follow->line);
	free(follow);
}

/* --- events --- */

static void take_line(struct follow *follow, bool live, follow_take_fn *take, void *context)
{
	json_t *event = json_loadb(follow->line, follow->bytes, 0, NULL);

	if (event)
		take(context, event, live);
	json_decref(event);
}

static void take_bytes(struct follow *follow, const char *bytes, size_t count, bool live,
		       follow_take_fn *take, void *context)
{
	while (count) {
		const char *newline = memchr(bytes, '\n', count);
		size_t part = newline ? (size_t)(newline - bytes) : count;

		if (follow->skipping || follow->bytes + part > LINE_BYTES_MAX ||
		    array_reserve(&follow->line, &follow->room, follow->bytes + part + 1, 1))
			follow->skipping = true;
		if (!follow->skipping) {
			memcpy(follow->line + follow->bytes, bytes, part);
			follow->bytes += part;
		}
		if (newline) {
			if (!follow->skipping)
				take_line(follow, live, take, context);
			follow->bytes = 0;
			follow->skipping = false;
			part++;
		}
		bytes += part;
		count -= part;
	}
}

static void start(struct follow *follow, uint64_t now_ns)
{
	static const char *const words[] = {"events", "--follow", "--since", "@0", NULL};

	follow->started_local_ns = now_ns;
	follow->pid = run(follow, words, &follow->fd);
	if (follow->pid < 0) {
		log_warning("%s: %s", follow->program, strerror(-follow->pid));
		follow->fd = -1;
		return;
	}
	fcntl(follow->fd, F_SETFL, O_NONBLOCK);
}

bool follow_run(struct follow *follow, uint64_t now_local_ns, uint64_t *due_local_ns,
		follow_take_fn *take, void *context)
{
	bool live = now_local_ns - follow->started_local_ns > LIVE_NS;
	static char bytes[READ_BYTES];
	ssize_t got = -1;

	*due_local_ns = UINT64_MAX;
	if (follow->fd < 0 && now_local_ns - follow->started_local_ns >= RETRY_NS) {
		start(follow, now_local_ns);
		live = false;
	}
	for (int i = 0; follow->fd >= 0 && i < READS_MAX; i++) {
		got = read(follow->fd, bytes, sizeof(bytes));
		if (got <= 0)
			break;
		take_bytes(follow, bytes, (size_t)got, live, take, context);
	}
	if (follow->fd >= 0 && (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)))
		stop(follow);
	/* It ends as soon as no daemon replies. */
	if (follow->fd >= 0 && now_local_ns - follow->started_local_ns >= 2 * RETRY_NS)
		follow->heard_local_ns = now_local_ns;
	if (follow->fd < 0)
		*due_local_ns = follow->started_local_ns + RETRY_NS;
	return now_local_ns - follow->heard_local_ns < ALERT_ABSENT_NS;
}

/* --- the configuration --- */

json_t *follow_config(const struct follow *follow)
{
	static const char *const words[] = {"config", "show", NULL};
	uint64_t end_ns = time_local_ns() + CONFIG_TIMEOUT_MS * 1000000ull, now_ns;
	char *text = malloc(CONFIG_BYTES_MAX);
	json_t *config = NULL;
	size_t bytes = 0;
	ssize_t got = -1;
	int fd = -1;
	pid_t pid = text ? run(follow, words, &fd) : -ENOMEM;

	while (pid > 0 && bytes < CONFIG_BYTES_MAX && (now_ns = time_local_ns()) < end_ns) {
		struct pollfd one = {.fd = fd, .events = POLLIN};

		if (poll(&one, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
			break;
		got = read(fd, text + bytes, CONFIG_BYTES_MAX - bytes);
		if (got <= 0)
			break;
		bytes += (size_t)got;
	}
	if (pid > 0) {
		close(fd);
		if (got)
			kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (!got && bytes)
		config = json_loadb(text, bytes, 0, NULL);
	free(text);
	return config;
}
