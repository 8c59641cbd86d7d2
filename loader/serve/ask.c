// SPDX-License-Identifier: BSD-2-Clause
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"

#define READ_BYTES 65536

static void finish(struct ask *ask, enum ask_state state, const char *error)
{
	if (ask->fd >= 0)
		close(ask->fd);
	ask->fd = -1;
	ask->state = state;
	snprintf(ask->error, sizeof(ask->error), "%s", error);
}

void ask_clear(struct ask *ask)
{
	if (ask->state == ASK_RUNS)
		close(ask->fd);
	free(ask->out);
	free(ask->in);
	*ask = (struct ask){.fd = -1};
}

static void connect_daemon(struct ask *ask, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char error[256];

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path)) {
		finish(ask, ASK_FAILED, "the path of the daemon's socket is too long");
		return;
	}
	ask->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ask->fd >= 0 && !connect(ask->fd, (struct sockaddr *)&address, sizeof(address)))
		return;
	if (errno == EACCES || errno == EPERM) {
		finish(ask, ASK_FAILED,
		       "permission denied at the daemon's socket: escapement-serve has to run as "
		       "a member of the group " PLACES_GROUP);
		return;
	}
	snprintf(error, sizeof(error), "no daemon replies at %s: %s", path, strerror(errno));
	finish(ask, ASK_ABSENT, error);
}

void ask_start(struct ask *ask, const char *socket, const char *verb, const json_t *args,
	       uint64_t now_ns)
{
	json_t *request = json_pack("{s:s, s:O*}", "verb", verb, "args", args);
	char *text = json_dumps(request, JSON_COMPACT);

	json_decref(request);
	ask_clear(ask);
	ask->begun_ns = now_ns;
	ask->state = ASK_RUNS;
	if (!text) {
		finish(ask, ASK_FAILED, "out of memory");
		return;
	}
	ask->out = text;
	ask->out_bytes = strlen(text) + 1;
	text[ask->out_bytes - 1] = '\n'; /* in place of the NUL */
	connect_daemon(ask, socket);
}

short ask_events(const struct ask *ask)
{
	return ask->sent < ask->out_bytes ? POLLOUT : POLLIN;
}

/* False: it would wait, or it has ended. */
static bool send_some(struct ask *ask)
{
	ssize_t done =
		send(ask->fd, ask->out + ask->sent, ask->out_bytes - ask->sent, MSG_NOSIGNAL);

	if (done > 0)
		ask->sent += (size_t)done;
	/* A connection that was refused: the daemon's reason is still there to be read. */
	else if (done < 0 && (errno == EPIPE || errno == ECONNRESET))
		ask->sent = ask->out_bytes;
	else if (done < 0 && errno != EAGAIN && errno != EINTR)
		finish(ask, ASK_ABSENT, "the daemon accepts no request");
	return done > 0;
}

static bool read_some(struct ask *ask)
{
	ssize_t done;
	char *begin;

	if (ask->in_bytes >= ASK_BYTES_MAX) {
		finish(ask, ASK_FAILED,
		       "the reply has more than 64 MiB: give arguments that select less");
		return false;
	}
	if (array_reserve(&ask->in, &ask->in_room, ask->in_bytes + READ_BYTES + 1, 1)) {
		finish(ask, ASK_FAILED, "out of memory");
		return false;
	}
	begin = ask->in + ask->in_bytes;
	done = recv(ask->fd, begin, READ_BYTES, 0);
	if (done > 0) {
		ask->in_bytes += (size_t)done;
		if (begin[done - 1] == '\n') {
			ask->in[--ask->in_bytes] = '\0';
			finish(ask, ASK_DONE, "");
		}
	} else if (!done || (errno != EAGAIN && errno != EINTR)) {
		finish(ask, ASK_ABSENT, "the daemon closed the connection");
	}
	return ask->state == ASK_RUNS && done > 0;
}

void ask_run(struct ask *ask, uint64_t now_ns)
{
	while (ask->state == ASK_RUNS && ask->sent < ask->out_bytes && send_some(ask))
		;
	while (ask->state == ASK_RUNS && ask->sent == ask->out_bytes && read_some(ask))
		;
	if (ask->state == ASK_RUNS && now_ns - ask->begun_ns >= ASK_TIMEOUT_NS)
		finish(ask, ASK_ABSENT, "the daemon does not reply");
}
