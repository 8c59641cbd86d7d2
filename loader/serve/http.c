// SPDX-License-Identifier: BSD-2-Clause
/*
 * HTTP by libmicrohttpd, in one thread: its epoll descriptor is polled by the caller. A request
 * whose reply is not there yet is suspended until it is.
 */
#include "serve.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/log.h"
#include "base/now.h"

#define HEADERS_BYTES 16384 /* of a request line and its headers */
#define BACKLOG 128
#define TICK_NS SERVE_S
#define HTML_POLICY                                                                                \
	"default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"

struct http {
	struct MHD_Daemon *daemon;
	struct cache *cache; /* borrowed */
	struct slots slots;
	uint64_t now_ns, tick_ns;
	char *index, *list; /* pages that do not change */
	size_t index_bytes, list_bytes;
};

/* --- replies --- */

/* What each reply has, whatever it is. */
static void add_headers(struct MHD_Response *response, const char *type, const char *etag)
{
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Cache-Control", etag ? "no-cache" : "no-store");
	if (etag)
		MHD_add_response_header(response, "ETag", etag);
	if (!strncmp(type, "text/html", 9))
		MHD_add_response_header(response, "Content-Security-Policy", HTML_POLICY);
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned int status,
			     struct MHD_Response *response)
{
	enum MHD_Result done = response ? MHD_queue_response(connection, status, response) : MHD_NO;

	if (response)
		MHD_destroy_response(response);
	return done;
}

static enum MHD_Result queue_error(struct MHD_Connection *connection, unsigned int status,
				   const char *sentence)
{
	size_t bytes = 0;
	char *body = page_error(sentence, &bytes);
	struct MHD_Response *response =
		body ? MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE) : NULL;

	if (!response) {
		free(body);
		return MHD_NO;
	}
	add_headers(response, "application/json", NULL);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	return queue(connection, status, response);
}

static enum MHD_Result queue_page(struct MHD_Connection *connection, const char *type, char *body,
				  size_t bytes)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_PERSISTENT);

	if (response)
		add_headers(response, type, NULL);
	return queue(connection, MHD_HTTP_OK, response);
}

static bool has_it(struct MHD_Connection *connection, const struct reply *reply)
{
	const char *match =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "If-None-Match");

	return reply->status == MHD_HTTP_OK && match &&
	       (!strcmp(match, "*") || strstr(match, reply->etag));
}

/* The text belongs to @reply, which the connection's slot holds until it is sent. */
static enum MHD_Result queue_reply(struct MHD_Connection *connection, const struct reply *reply)
{
	bool same = has_it(connection, reply);
	struct MHD_Response *response = MHD_create_response_from_buffer(
		same ? 0 : reply->bytes, reply->body, MHD_RESPMEM_PERSISTENT);

	if (response)
		add_headers(response, reply->type,
			    reply->status == MHD_HTTP_OK ? reply->etag : NULL);
	return queue(connection, same ? MHD_HTTP_NOT_MODIFIED : reply->status, response);
}

/* --- requests --- */

struct taking {
	struct route *route;
	char *error;
};

static enum MHD_Result take_argument(void *context, enum MHD_ValueKind kind, const char *name,
				     size_t name_bytes, const char *value, size_t value_bytes)
{
	struct taking *taking = context;

	(void)kind;
	if (strlen(name) != name_bytes || (value && strlen(value) != value_bytes)) {
		explain(&taking->error, 0, "an argument has a NUL");
		return MHD_NO;
	}
	return route_take(taking->route, name, value, &taking->error) ? MHD_YES : MHD_NO;
}

static bool has_body(struct MHD_Connection *connection)
{
	const char *length =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");

	return (length && strcmp(length, "0")) ||
	       MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

static enum MHD_Result reply_to(struct http *http, struct slot *slot,
				struct MHD_Connection *connection, struct route *route)
{
	if (route->kind == ROUTE_INDEX)
		return queue_page(connection, "text/html; charset=utf-8", http->index,
				  http->index_bytes);
	if (route->kind == ROUTE_LIST)
		return queue_page(connection, "application/json", http->list, http->list_bytes);
	slot->reply = cache_get(http->cache, route, http->now_ns);
	if (!slot->reply)
		return queue_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				   "too many different requests wait for the daemon");
	if (slot->reply->ready)
		return queue_reply(connection, slot->reply);
	slot->suspended = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static enum MHD_Result first_call(struct MHD_Connection *connection, const char *path,
				  const char *method)
{
	struct route route;
	char *error = NULL;
	enum MHD_Result done;

	if (!route_find(&route, path, &error)) {
		done = queue_error(connection, MHD_HTTP_NOT_FOUND,
				   error ? error : "there is no such path");
		free(error);
		return done;
	}
	route_clear(&route);
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return queue_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "only GET and HEAD are served: nothing can be changed");
	if (has_body(connection))
		return queue_error(connection, MHD_HTTP_BAD_REQUEST, "a request has no body here");
	return MHD_YES;
}

static enum MHD_Result second_call(struct http *http, struct slot *slot,
				   struct MHD_Connection *connection, const char *path)
{
	struct route route;
	struct taking taking = {&route, NULL};
	enum MHD_Result done;

	if (!route_find(&route, path, &taking.error))
		return MHD_NO;
	MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_argument, &taking);
	if (taking.error)
		done = queue_error(connection, MHD_HTTP_BAD_REQUEST, taking.error);
	else
		done = reply_to(http, slot, connection, &route);
	route_clear(&route);
	free(taking.error);
	return done;
}

/*
 * Called when the headers are there, again when the body is, and when the request goes on after it
 * was suspended.
 */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
				  const char *path, const char *method, const char *version,
				  const char *body, size_t *body_bytes, void **request)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct slot *slot = info ? info->socket_context : NULL;
	struct http *http = context;

	(void)version;
	(void)body;
	if (!slot || slot->state == SLOT_CLOSES)
		return MHD_NO;
	if (!*request) {
		*request = slot;
		slot->state = SLOT_REPLIES;
		slot->since_ns = http->now_ns;
		return first_call(connection, path, method);
	}
	if (*body_bytes) {
		*body_bytes = 0;
		return MHD_YES;
	}
	if (slot->reply)
		return slot->reply->ready ? queue_reply(connection, slot->reply) : MHD_NO;
	return second_call(http, slot, connection, path);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
			 enum MHD_RequestTerminationCode how)
{
	struct http *http = context;
	struct slot *slot = *request;

	(void)connection;
	(void)how;
	if (!slot)
		return;
	if (slot->reply)
		cache_release(slot->reply);
	slot->reply = NULL;
	slot->served = true;
	slot->since_ns = http->now_ns;
	if (slot->state == SLOT_REPLIES)
		slot->state = SLOT_WAITS;
	*request = NULL;
}

/* --- connections --- */

static void address_of(const union MHD_ConnectionInfo *info, uint8_t out[16])
{
	const struct sockaddr *from = info ? info->client_addr : NULL;

	memset(out, 0, 16);
	if (from && from->sa_family == AF_INET)
		memcpy(out, &((const struct sockaddr_in *)from)->sin_addr, 4);
	else if (from && from->sa_family == AF_INET6)
		memcpy(out, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
}

/* libmicrohttpd closes a connection whose other end has closed it. */
static void close_slot(const struct slot *slot)
{
	shutdown(slot->fd, SHUT_RDWR);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info;
	struct slot *slot = *socket_context, *closes;
	struct http *http = context;
	uint8_t address[16];
	int fd;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (slot)
			*slot = (struct slot){};
		*socket_context = NULL;
		return;
	}
	address_of(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS),
		   address);
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	fd = info ? info->connect_fd : -1;
	slot = slots_open(&http->slots, address, fd, http->now_ns);
	*socket_context = slot;
	if (!slot) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	slot->connection = connection;
	closes = slots_displace(&http->slots, slot);
	if (closes)
		close_slot(closes);
}

/* --- the whole --- */

/* "127.0.0.1:9470": a socket that listens, or -errno with *@error. */
static int listen_at(const char *listen_text, char **error)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(listen_text, ':');
	struct addrinfo *found = NULL;
	char host[64];
	int fd, err = 0;

	if (colon && listen_text[0] == '[' && colon[-1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)(colon - listen_text) - 2,
			 listen_text + 1);
	else
		snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - listen_text) : 0,
			 listen_text);
	if (!colon || getaddrinfo(host, colon + 1, &hints, &found))
		return explain(error, -EINVAL,
			       "%.64s is no address and port: give one such as 127.0.0.1:9470 or "
			       "[::1]:9470",
			       listen_text);
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, BACKLOG))
		err = explain(error, -errno, "%s: %s; give another `serve.listen`, or --listen",
			      listen_text, strerror(errno));
	freeaddrinfo(found);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static void on_log(void *context, const char *format, va_list arguments)
{
	char text[256];

	(void)context;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libmicrohttpd: %s", text);
}

static struct MHD_Daemon *start_daemon(struct http *http, int fd)
{
	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
		on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned int)SLOTS_ROOM,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)(2 * SLOTS_KEEP_NS / SERVE_S),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, http, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

int http_new(struct http **out, const char *listen_text, struct cache *cache, char **error)
{
	struct http *http = calloc(1, sizeof(*http));
	int fd = http ? listen_at(listen_text, error) : -ENOMEM;

	if (fd < 0) {
		free(http);
		return fd;
	}
	http->cache = cache;
	http->now_ns = time_local_ns();
	http->index = page_index(&http->index_bytes);
	http->list = page_list(&http->list_bytes);
	if (http->index && http->list)
		http->daemon = start_daemon(http, fd);
	if (!http->daemon) {
		close(fd);
		http_free(http);
		return explain(error, -EIO, "libmicrohttpd cannot be started with epoll");
	}
	*out = http;
	return 0;
}

static void resume(struct http *http, bool all)
{
	for (size_t i = 0; i < SLOTS_ROOM; i++) {
		struct slot *slot = &http->slots.list[i];

		if (!slot->suspended || !(all || slot->reply->ready))
			continue;
		slot->suspended = false;
		slot->since_ns = http->now_ns;
		MHD_resume_connection(slot->connection);
	}
}

void http_free(struct http *http)
{
	if (!http)
		return;
	resume(http, true);
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	free(http->index);
	free(http->list);
	free(http);
}

int http_fd(const struct http *http)
{
	return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

uint64_t http_run(struct http *http, uint64_t now_ns)
{
	MHD_UNSIGNED_LONG_LONG timeout_ms;
	struct slot *slot;

	http->now_ns = now_ns;
	if (now_ns >= http->tick_ns) {
		http->tick_ns = now_ns + TICK_NS;
		while ((slot = slots_expire(&http->slots, now_ns)))
			close_slot(slot);
	}
	resume(http, false);
	MHD_run(http->daemon);
	if (MHD_get_timeout(http->daemon, &timeout_ms) == MHD_YES &&
	    timeout_ms * 1000000 < http->tick_ns - now_ns)
		return now_ns + timeout_ms * 1000000;
	return http->tick_ns;
}

void http_describe(const struct http *http, char *out, size_t bytes)
{
	const struct slots *slots = &http->slots;
	size_t open = 0;

	for (size_t i = 0; i < SLOTS_ROOM; i++)
		open += slots->list[i].state != SLOT_FREE;
	snprintf(out, bytes,
		 "%zu connections; %llu opened, %llu displaced, %llu expired, %llu refused", open,
		 (unsigned long long)slots->opened, (unsigned long long)slots->displaced,
		 (unsigned long long)slots->expired, (unsigned long long)slots->refused);
}
