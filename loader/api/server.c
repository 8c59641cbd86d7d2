// SPDX-License-Identifier: BSD-2-Clause
#include "api.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/array.h"
#include "base/explain.h"
#include "base/log.h"
#include "base/verb.h"
#include "internal.h"

#define CLIENTS_MAX 64
#define READERS_MAX 48 /* of them without root: they cannot lock it out */
#define GROUPS_MAX 1024
#define IDLE_TIMEOUT_NS 30000000000ull /* without a byte in either direction */
#define FOLLOW_BACKLOG_MAX (1u << 20)  /* a follower that falls further behind is dropped */
#define TICK_NS 5000000000ull
#define SERVER_BACKLOG 16

struct client {
	struct server *server;
	struct client *next;
	int fd;
	enum access access;
	sd_event_source *source;
	char in[REQUEST_BYTES_MAX];
	size_t in_bytes;
	char *out; /* what is not sent yet is from out + sent to out + out_bytes */
	size_t out_bytes, out_room, sent;
	bool following;
	bool later, resumed; /* its request is handled again by server_resume() */
	size_t follow_limit; /* bytes that may wait to be read by a follower */
	bool closing;	     /* no more is read; ends when all is sent */
	uint64_t moved_local_ns;
};

struct server {
	struct core *core;
	char *path; /* of the socket */
	int fd;
	int lock_fd; /* PATH.lock, locked as long as the daemon runs */
	sd_event_source *accepting;
	struct core_timer *timer;
	struct client *clients;
	unsigned int client_count, reader_count;
	struct core_reader reader;
	gid_t group; /* PLACES_GROUP; (gid_t)-1: there is none */
};

/* --- the listening socket: never two daemons on a path, never a stale one --- */

static int in_use(const char *path, char **error)
{
	return explain(error, -EADDRINUSE,
		       "another escapementd replies at %s: stop it, or give this one its own "
		       "`socket` and `pin_root`",
		       path);
}

static int unwritable(const char *path, int err, char **error)
{
	return explain(error, err,
		       "%s: %s; see that root may write there, or give `socket` another path", path,
		       strerror(-err));
}

/* The kernel releases the lock with the process, however it ends. */
static int take_lock(struct server *server, char **error)
{
	char *name;
	int err = 0;

	if (asprintf(&name, "%s.lock", server->path) < 0)
		return -ENOMEM;
	server->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (server->lock_fd < 0)
		err = unwritable(name, -errno, error);
	else if (flock(server->lock_fd, LOCK_EX | LOCK_NB))
		err = errno == EWOULDBLOCK
			      ? in_use(server->path, error)
			      : explain(error, -errno, "%s: %s", name, strerror(errno));
	free(name);
	return err;
}

/* A socket on which a daemon listens is in use; one without is left from a crash. */
static int clear_stale(const struct sockaddr_un *address, char **error)
{
	struct stat status;
	int fd, err = 0;

	if (lstat(address->sun_path, &status))
		return 0;
	if (!S_ISSOCK(status.st_mode))
		return explain(error, -EEXIST,
			       "%s is there and is no socket; remove it, or give "
			       "`socket` another path",
			       address->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)address, sizeof(*address)) || errno == EAGAIN)
		err = in_use(address->sun_path, error);
	else if (unlink(address->sun_path))
		err = explain(error, -errno, "%s: %s", address->sun_path, strerror(errno));
	close(fd);
	return err;
}

static int bind_and_listen(struct server *server, const struct sockaddr_un *address, char **error)
{
	mode_t mask;
	int err;

	server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->fd < 0)
		return -errno;
	mask = umask(0117); /* 0660 from its creation on */
	err = bind(server->fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
	umask(mask);
	if (!err && listen(server->fd, SERVER_BACKLOG))
		err = -errno;
	if (!err)
		return 0;
	close(server->fd);
	server->fd = -1;
	return unwritable(server->path, err, error);
}

/* The directory of groups may be a server that does not reply: asked once, at the start. */
static void admit_group(struct server *server)
{
	char buffer[16384];
	struct group group, *found = NULL;
	int err = getgrnam_r(PLACES_GROUP, &group, buffer, sizeof(buffer), &found);

	server->group = found ? found->gr_gid : (gid_t)-1;
	if (!found)
		log_debug("there is no group " PLACES_GROUP " (%s): only root may use the socket",
			  err ? strerror(err) : "not in the group database");
	/* Without CAP_CHOWN it takes a daemon that is in the group itself. */
	else if (chown(server->path, (uid_t)-1, server->group))
		log_warning("%s: cannot be given to the group " PLACES_GROUP ": %s; only root may "
			    "use it (the unit needs SupplementaryGroups=" PLACES_GROUP ")",
			    server->path, strerror(errno));
}

static int server_listen(struct server *server, char **error)
{
	const char *path = server->core->config->socket;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char *copy = strdup(path), *directory;
	int err;

	server->path = strdup(path);
	if (!copy || !server->path) {
		free(copy);
		return -ENOMEM;
	}
	directory = dirname(copy);
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path))
		err = explain(error, -ENAMETOOLONG,
			      "%s is too long for a socket; give `socket` a shorter path", path);
	else if (mkdir(directory, 0755) && errno != EEXIST)
		err = explain(error, -errno, "%s: %s; make the folder, or give `socket` another",
			      directory, strerror(errno));
	else
		err = take_lock(server, error);
	if (!err)
		err = clear_stale(&address, error);
	if (!err)
		err = bind_and_listen(server, &address, error);
	if (!err)
		admit_group(server);
	free(copy);
	return err;
}

/* --- clients --- */

static void follow_event(const json_t *event, void *context);

static void client_drop(struct client *client)
{
	struct client **place = &client->server->clients;

	while (*place != client)
		place = &(*place)->next;
	*place = client->next;
	client->server->client_count--;
	client->server->reader_count -= client->access != ACCESS_CONTROL;
	if (client->following)
		events_unlisten(client->server->core->events, follow_event, client);
	sd_event_source_disable_unref(client->source);
	close(client->fd);
	free(client->out);
	free(client);
}

static bool client_has_output(const struct client *client)
{
	return client->sent < client->out_bytes;
}

static char *client_line_end(const struct client *client)
{
	return memchr(client->in, '\n', client->in_bytes);
}

/*
 * One reply at a time: until it is sent no further request is read. A request that was received
 * already waits for the socket to be writable, so that many in a row do not keep the daemon from
 * its other work.
 */
static void client_watch(struct client *client)
{
	bool waiting = client_has_output(client) || (!client->following && client_line_end(client));
	bool reading = !client->closing && (client->following || !waiting);

	/* Until then only its end is of interest. */
	if (client->later)
		waiting = reading = false;
	sd_event_source_set_io_events(client->source,
				      (reading ? EPOLLIN : 0) | (waiting ? EPOLLOUT : 0));
}

/* Appends @text, taken over, to the output. False: the client was dropped. */
static bool client_queue(struct client *client, char *text, size_t bytes)
{
	size_t waiting = client->out_bytes - client->sent;

	if (!text || (client->following && waiting + bytes > client->follow_limit) ||
	    array_reserve(&client->out, &client->out_room, waiting + bytes, 1)) {
		free(text);
		client_drop(client);
		return false;
	}
	memmove(client->out, client->out + client->sent, waiting);
	memcpy(client->out + waiting, text, bytes);
	client->out_bytes = waiting + bytes;
	client->sent = 0;
	free(text);
	return true;
}

/* Sends what the socket takes now. False: the client was dropped. */
static bool client_flush(struct client *client)
{
	while (client_has_output(client)) {
		ssize_t sent = send(client->fd, client->out + client->sent,
				    client->out_bytes - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			break;
		if (sent < 0) {
			client_drop(client);
			return false;
		}
		client->sent += sent;
		client->moved_local_ns = time_local_ns();
	}
	if (!client_has_output(client) && client->closing) {
		client_drop(client);
		return false;
	}
	client_watch(client);
	return true;
}

static void follow_event(const json_t *event, void *context)
{
	struct client *client = context;
	size_t bytes;
	char *text = request_wrap(event, &bytes);

	if (!client_has_output(client))
		client->moved_local_ns = time_local_ns(); /* the backlog begins now */
	if (client_queue(client, text, bytes))
		client_flush(client);
}

/* Replies to a whole line if there is one. False: the client was dropped. */
static bool client_take_line(struct client *client)
{
	struct core *core = client->server->core;
	char *end = client_line_end(client);
	struct request reply = {};

	if (client->following)
		client->in_bytes = 0; /* a follower sends no more requests */
	if (client->later || client->following || client_has_output(client) ||
	    (!end && client->in_bytes < sizeof(client->in)))
		return true;
	if (end) {
		request_reply(core, client->in, end - client->in, client->access, &reply);
		client->later = reply.later;
		if (client->later) {
			client_watch(client);
			return true;
		}
	} else {
		client->closing = true;
		reply.text =
			request_refuse(2, "a request is one line of at most 64 KiB", &reply.bytes);
	}
	if (!client_queue(client, reply.text, reply.bytes))
		return false;
	if (reply.follow && events_listen(core->events, follow_event, client) == 0) {
		client->following = true;
		client->follow_limit = reply.bytes + FOLLOW_BACKLOG_MAX;
	}
	if (!client_flush(client))
		return false;
	if (end) {
		client->in_bytes -= end + 1 - client->in;
		memmove(client->in, end + 1, client->in_bytes);
		client_watch(client);
	}
	return true;
}

static struct client *find_resumed(struct client *at)
{
	while (at && !at->resumed)
		at = at->next;
	return at;
}

/* What these clients wait for is there. Any client may be dropped while one is served. */
static void server_resume(void *context)
{
	struct server *server = context;
	struct client *client;

	for (client = server->clients; client; client = client->next)
		client->resumed = client->later;
	while ((client = find_resumed(server->clients))) {
		client->resumed = client->later = false;
		client->moved_local_ns = time_local_ns();
		client_take_line(client);
	}
}

static int client_event(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct client *client = context;
	ssize_t got;

	(void)source;
	if (events & EPOLLOUT && (!client_flush(client) || !client_take_line(client)))
		return 0;
	if (!(events & EPOLLIN)) {
		if (events & (EPOLLHUP | EPOLLERR))
			client_drop(client);
		return 0;
	}
	got = recv(fd, client->in + client->in_bytes, sizeof(client->in) - client->in_bytes,
		   MSG_DONTWAIT);
	if (got > 0) {
		client->in_bytes += got;
		client->moved_local_ns = time_local_ns();
		client_take_line(client);
	} else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	} else if (client_has_output(client)) {
		client->closing = true;
		client_watch(client);
	} else {
		client_drop(client);
	}
	return 0;
}

/* --- new clients --- */

enum access access_of(const struct ucred *client, const gid_t *groups, size_t count, uid_t own_uid,
		      gid_t group)
{
	if (client->uid == 0 || client->uid == own_uid)
		return ACCESS_CONTROL;
	if (group == (gid_t)-1)
		return ACCESS_NONE;
	if (client->gid == group)
		return ACCESS_READ;
	for (size_t i = 0; i < count; i++)
		if (groups[i] == group)
			return ACCESS_READ;
	return ACCESS_NONE;
}

/* As the kernel recorded them when it connected. */
static enum access client_access(const struct server *server, int fd)
{
	struct ucred client;
	gid_t groups[GROUPS_MAX];
	socklen_t bytes = sizeof(client), group_bytes = sizeof(groups);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client, &bytes))
		return ACCESS_NONE;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &group_bytes))
		group_bytes = 0;
	return access_of(&client, groups, group_bytes / sizeof(*groups), geteuid(), server->group);
}

/* NULL: it may be served. */
static const char *refusal(const struct server *server, enum access access, int *exit)
{
	*exit = access == ACCESS_NONE ? REQUEST_DENIED : REQUEST_FAILED;
	if (access == ACCESS_NONE)
		return "permission denied: root, or a member of the group " PLACES_GROUP
		       " to read, may use this socket";
	if (server->client_count == CLIENTS_MAX)
		return "the daemon serves 64 connections already; close some";
	if (access == ACCESS_READ && server->reader_count == READERS_MAX)
		return "the daemon serves 48 connections of others than root already; close some";
	return NULL;
}

static void refuse(int fd, int exit, const char *why)
{
	size_t bytes;
	char *text = request_refuse(exit, why, &bytes);

	if (text)
		send(fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(text);
	close(fd);
}

static int server_accept(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct server *server = context;
	int client_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *client;
	enum access access;
	const char *why;
	int exit;

	(void)events;
	if (client_fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		log_warning("socket: no connection can be taken now: %s", strerror(errno));
		sd_event_source_set_enabled(source, SD_EVENT_OFF); /* until the next tick */
	}
	if (client_fd < 0)
		return 0;
	access = client_access(server, client_fd);
	why = refusal(server, access, &exit);
	if (why) {
		refuse(client_fd, exit, why);
		return 0;
	}
	client = calloc(1, sizeof(*client));
	if (!client || sd_event_add_io(server->core->loop, &client->source, client_fd, EPOLLIN,
				       client_event, client) < 0) {
		close(client_fd);
		free(client);
		return 0;
	}
	client->server = server;
	client->fd = client_fd;
	client->access = access;
	client->moved_local_ns = time_local_ns();
	client->next = server->clients;
	server->clients = client;
	server->client_count++;
	server->reader_count += access != ACCESS_CONTROL;
	return 0;
}

/* Idle connections make room; a follower with nothing to read, and one whose reply is made, may
 * wait. */
static uint64_t server_tick(void *context, uint64_t now_ns)
{
	struct server *server = context;
	struct client *next;

	for (struct client *client = server->clients; client; client = next) {
		next = client->next;
		if ((client->following || client->later) && !client_has_output(client))
			continue;
		if (now_ns - client->moved_local_ns > IDLE_TIMEOUT_NS)
			client_drop(client);
	}
	sd_event_source_set_enabled(server->accepting, SD_EVENT_ON);
	return TICK_NS;
}

int server_new(struct server **out, struct core *core, char **error)
{
	struct server *server = calloc(1, sizeof(*server));
	int err;

	if (!server)
		return -ENOMEM;
	*server = (struct server){.core = core, .fd = -1, .lock_fd = -1};
	err = server_listen(server, error);
	if (!err)
		err = sd_event_add_io(core->loop, &server->accepting, server->fd, EPOLLIN,
				      server_accept, server);
	if (err >= 0)
		err = core_timer_new(core, &server->timer, TICK_NS, 0, server_tick, server);
	if (err < 0) {
		server_free(server);
		return err;
	}
	server->reader = (struct core_reader){.fn = server_resume, .context = server};
	core_listen_read(core, &server->reader);
	*out = server;
	return 0;
}

void server_free(struct server *server)
{
	if (!server)
		return;
	core_unlisten_read(server->core, &server->reader);
	while (server->clients)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is taken off the list */
		client_drop(server->clients);
	sd_event_source_disable_unref(server->accepting);
	core_timer_free(server->timer);
	if (server->fd >= 0) {
		unlink(server->path);
		close(server->fd);
	}
	if (server->lock_fd >= 0)
		close(server->lock_fd);
	free(server->path);
	free(server);
}
