// SPDX-License-Identifier: BSD-2-Clause
#include "api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "base/array.h"
#include "base/log.h"
#include "config/config.h"
#include "internal.h"

#define CLIENTS_MAX 64
#define IDLE_TIMEOUT_NS 30000000000ull /* without a byte in either direction */
#define FOLLOW_BACKLOG_MAX (1u << 20)  /* a follower that falls further behind is dropped */
#define TICK_NS 5000000000ull

struct client {
	struct server *server;
	struct client *next;
	int fd;
	sd_event_source *source;
	char in[REQUEST_BYTES_MAX];
	size_t in_bytes;
	char *out; /* what is not sent yet is from out + sent to out + out_bytes */
	size_t out_bytes, out_room, sent;
	bool following;
	size_t follow_limit; /* bytes that may wait to be read by a follower */
	bool closing;	     /* no more is read; ends when all is sent */
	uint64_t moved_local_ns;
};

struct server {
	struct core *core;
	struct server_listener listener;
	sd_event_source *accepting;
	struct core_timer *timer;
	struct client *clients;
	unsigned int client_count;
};

static void follow_event(const json_t *event, void *context);

static void client_drop(struct client *client)
{
	struct client **place = &client->server->clients;

	while (*place != client)
		place = &(*place)->next;
	*place = client->next;
	client->server->client_count--;
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
	struct reply reply = {};

	if (client->following)
		client->in_bytes = 0; /* a follower sends no more requests */
	if (client->following || client_has_output(client) ||
	    (!end && client->in_bytes < sizeof(client->in)))
		return true;
	if (end) {
		request_reply(core, client->in, end - client->in, &reply);
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

static void client_add(struct server *server, int fd)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client || sd_event_add_io(server->core->loop, &client->source, fd, EPOLLIN,
				       client_event, client) < 0) {
		close(fd);
		free(client);
		return;
	}
	client->server = server;
	client->fd = fd;
	client->moved_local_ns = time_local_ns();
	client->next = server->clients;
	server->clients = client;
	server->client_count++;
}

static int server_accept(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct server *server = context;
	int client_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	size_t bytes;
	char *text;

	(void)events;
	if (client_fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		log_warning("socket: no connection can be taken now: %s", strerror(errno));
		sd_event_source_set_enabled(source, SD_EVENT_OFF); /* until the next tick */
	}
	if (client_fd < 0)
		return 0;
	if (server->client_count < CLIENTS_MAX) {
		client_add(server, client_fd);
		return 0;
	}
	text = request_refuse(1, "the daemon serves 64 connections already; close some", &bytes);
	if (text)
		send(client_fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(text);
	close(client_fd);
	return 0;
}

/* Idle connections make room; a follower with nothing to read may wait. */
static uint64_t server_tick(void *context, uint64_t now_ns)
{
	struct server *server = context;
	struct client *next;

	for (struct client *client = server->clients; client; client = next) {
		next = client->next;
		if (client->following && !client_has_output(client))
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
	server->core = core;
	err = server_listen(&server->listener, core->config->socket, error);
	if (err) {
		free(server);
		return err;
	}
	err = sd_event_add_io(core->loop, &server->accepting, server->listener.fd, EPOLLIN,
			      server_accept, server);
	if (err >= 0)
		err = core_timer_new(core, &server->timer, TICK_NS, 0, server_tick, server);
	if (err < 0) {
		server_free(server);
		return err;
	}
	*out = server;
	return 0;
}

void server_free(struct server *server)
{
	if (!server)
		return;
	for (struct client *client = server->clients, *next; client; client = next) {
		next = client->next;
		client_drop(client);
	}
	sd_event_source_disable_unref(server->accepting);
	core_timer_free(server->timer);
	server_unlisten(&server->listener);
	free(server);
}
