// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/now.h"
#include "fleet/fleet.h"
#include "internal.h"

/* Lanes that are due within it are served together: a wakeup costs more than the wait. */
#define SEND_AHEAD_NS 100000
#define SEND_BATCH 64
#define SEND_PHASES 8
/* Below, paths are all of one phase: a wakeup for each would cost more than a burst does. */
#define SEND_PHASED_NS 8000000

struct send_socket {
	struct send_socket *next;
	unsigned int users;
	char interface[16];
	struct esc_address from;
	bool ipv4;
	int fd;
};

struct send_path {
	struct pathsend_pair *pair;
	uint64_t due_ns;
	uint64_t interval_ns; /* 0: it is not in the heap */
	size_t place;	      /* in it */
	uint16_t sport;
	uint8_t path;
};

struct pathsend_pair {
	struct pathsend_pair *next;
	struct send_socket *socket;
	struct sockaddr_storage to;
	struct pathpacket packet; /* what is the same of all */
	unsigned int phase;
	uint32_t sequence; /* of the next request */
	struct send_path paths[ESC_PATHS_MAX];
};

struct send_batch {
	struct send_socket *socket;
	unsigned int count;
	struct mmsghdr messages[SEND_BATCH];
	struct iovec parts[SEND_BATCH];
	uint8_t bytes[SEND_BATCH][PATHPACKET_BYTES_MAX];
};

struct pathsend {
	struct probe_thread thread; /* its lock: all below */
	struct send_socket *sockets;
	struct pathsend_pair *pairs;
	struct send_path **heap; /* the next one is the first */
	size_t count, room;
	struct send_batch batch;
	struct pathsend_counts counts;
	uint32_t ended; /* the highest sequence of a pair that was removed: the peer remembers it */
};

/* --- the heap of paths, by when they are due --- */

static void heap_put(struct pathsend *send, size_t place, struct send_path *path)
{
	send->heap[place] = path;
	path->place = place;
}

static void heap_sift(struct pathsend *send, size_t place)
{
	struct send_path *path = send->heap[place];

	while (place && send->heap[(place - 1) / 2]->due_ns > path->due_ns) {
		heap_put(send, place, send->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	for (;;) {
		size_t child = 2 * place + 1;

		if (child + 1 < send->count &&
		    send->heap[child + 1]->due_ns < send->heap[child]->due_ns)
			child++;
		if (child >= send->count || send->heap[child]->due_ns >= path->due_ns)
			break;
		heap_put(send, place, send->heap[child]);
		place = child;
	}
	heap_put(send, place, path);
}

static int heap_add(struct pathsend *send, struct send_path *path)
{
	int err = array_reserve(&send->heap, &send->room, send->count + 1, sizeof(*send->heap));

	if (err)
		return err;
	heap_put(send, send->count++, path);
	heap_sift(send, path->place);
	return 0;
}

static void heap_remove(struct pathsend *send, struct send_path *path)
{
	size_t place = path->place;
	struct send_path *last = send->heap[--send->count];

	if (last == path)
		return;
	heap_put(send, place, last);
	heap_sift(send, place);
}

/* --- sending --- */

static void batch_flush(struct pathsend *send)
{
	struct send_batch *batch = &send->batch;
	unsigned int at = 0;

	while (at < batch->count) {
		int sent = sendmmsg(batch->socket->fd, batch->messages + at, batch->count - at,
				    MSG_NOSIGNAL);

		if (sent > 0) {
			send->counts.sent += (unsigned int)sent;
			at += (unsigned int)sent;
			continue;
		}
		send->counts.failed++;
		send->counts.last_error = -errno;
		at++; /* the one that was refused */
	}
	batch->count = 0;
}

static void batch_add(struct pathsend *send, const struct pathsend_pair *pair,
		      const struct pathpacket *packet)
{
	struct send_batch *batch = &send->batch;
	unsigned int at;

	if (batch->count == SEND_BATCH || (batch->count && batch->socket != pair->socket))
		batch_flush(send);
	at = batch->count++;
	batch->socket = pair->socket;
	batch->parts[at].iov_base = batch->bytes[at];
	batch->parts[at].iov_len = pathpacket_build(packet, batch->bytes[at]);
	batch->messages[at].msg_hdr = (struct msghdr){
		.msg_name = (void *)&pair->to,
		.msg_namelen = pair->socket->ipv4 ? sizeof(struct sockaddr_in)
						  : sizeof(struct sockaddr_in6),
		.msg_iov = &batch->parts[at],
		.msg_iovlen = 1,
	};
}

/* On a grid, so that paths of one interval are due together; a time that has passed is left out. */
static uint64_t path_next(const struct send_path *path, uint64_t now)
{
	uint64_t phase_ns =
		path->interval_ns < SEND_PHASED_NS
			? 0
			: path->pair->phase % SEND_PHASES * path->interval_ns / SEND_PHASES;

	return (now - phase_ns) / path->interval_ns * path->interval_ns + path->interval_ns +
	       phase_ns;
}

/* Serves the paths that are due; returns when the next one is. */
static uint64_t send_due(struct pathsend *send)
{
	uint64_t until = time_local_ns() + SEND_AHEAD_NS;

	while (send->count && send->heap[0]->due_ns <= until) {
		struct send_path *path = send->heap[0];
		struct pathpacket packet = path->pair->packet;

		packet.from_port = path->sport;
		packet.path = path->path;
		packet.hop_limit = PATHPACKET_HOP_LIMIT;
		packet.sequence = path->pair->sequence++;
		batch_add(send, path->pair, &packet);
		path->due_ns = path_next(path, until);
		heap_sift(send, 0);
	}
	if (send->batch.count)
		batch_flush(send);
	return send->count ? send->heap[0]->due_ns : 0;
}

static void *send_run(void *context)
{
	struct pathsend *send = context;

	probe_thread_setup("esc-paths");
	pthread_mutex_lock(&send->thread.lock);
	while (!send->thread.ends) {
		uint64_t next_ns = send->thread.paused ? 0 : send_due(send);
		struct timespec until = {
			.tv_sec = (time_t)(next_ns / 1000000000),
			.tv_nsec = (long)(next_ns % 1000000000),
		};

		if (next_ns)
			pthread_cond_timedwait(&send->thread.changed, &send->thread.lock, &until);
		else
			pthread_cond_wait(&send->thread.changed, &send->thread.lock);
	}
	pthread_mutex_unlock(&send->thread.lock);
	return NULL;
}

/* --- sockets --- */

/* Of IPPROTO_RAW: the header is ours, and nothing is ever received. */
static int socket_open(const char *interface, const struct esc_address *from, bool ipv4)
{
	const int mark = (int)ESC_PROBE_MARK;
	struct sockaddr_storage address;
	socklen_t bytes = probe_sockaddr(from, 0, ipv4, &address);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			IPPROTO_RAW);
	int err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1) &&
	    !bind(fd, (struct sockaddr *)&address, bytes))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int socket_take(struct pathsend *send, const struct pathsend_config *config,
		       struct send_socket **out)
{
	struct send_socket *found = send->sockets;
	int err;

	while (found && (strcmp(found->interface, config->interface) ||
			 memcmp(&found->from, &config->from, sizeof(found->from))))
		found = found->next;
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return -ENOMEM;
		strncpy(found->interface, config->interface, sizeof(found->interface) - 1);
		found->from = config->from;
		found->ipv4 = roster_is_ipv4(&config->from);
		err = found->fd = socket_open(found->interface, &found->from, found->ipv4);
		if (err < 0) {
			free(found);
			return err;
		}
		found->next = send->sockets;
		send->sockets = found;
	}
	found->users++;
	*out = found;
	return 0;
}

static void socket_drop(struct pathsend *send, struct send_socket *socket)
{
	struct send_socket **at = &send->sockets;

	if (--socket->users)
		return;
	while (*at != socket)
		at = &(*at)->next;
	*at = socket->next;
	close(socket->fd);
	free(socket);
}

/* --- from the daemon's thread --- */

int pathsend_new(struct pathsend **out)
{
	struct pathsend *send = calloc(1, sizeof(*send));
	int err = send ? probe_thread_start(&send->thread, send_run, send) : -ENOMEM;

	*out = err ? NULL : send;
	if (err)
		free(send);
	return err;
}

void pathsend_free(struct pathsend *send)
{
	if (!send)
		return;
	probe_thread_end(&send->thread);
	while (send->pairs)
		pathsend_remove(send, send->pairs);
	pthread_cond_destroy(&send->thread.changed);
	pthread_mutex_destroy(&send->thread.lock);
	free(send->heap);
	free(send);
}

void pathsend_pause(struct pathsend *send, bool paused)
{
	probe_thread_pause(&send->thread, paused);
}

int pathsend_add(struct pathsend *send, const struct pathsend_config *config,
		 struct pathsend_pair **out)
{
	struct pathsend_pair *pair = calloc(1, sizeof(*pair));
	int err;

	*out = NULL;
	if (!pair)
		return -ENOMEM;
	pair->packet = (struct pathpacket){
		.from = config->from,
		.to = config->to,
		.to_port = config->to_port,
		.target = config->target,
		.flags = config->flags,
	};
	pair->phase = config->phase;
	probe_sockaddr(&config->to, 0, roster_is_ipv4(&config->to), &pair->to);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		pair->paths[i] = (struct send_path){.pair = pair, .path = (uint8_t)i};
	pthread_mutex_lock(&send->thread.lock);
	pair->sequence = send->ended + 1;
	err = socket_take(send, config, &pair->socket);
	if (!err) {
		pair->next = send->pairs;
		send->pairs = pair;
	}
	pthread_mutex_unlock(&send->thread.lock);
	if (err)
		free(pair);
	else
		*out = pair;
	return err;
}

void pathsend_remove(struct pathsend *send, struct pathsend_pair *pair)
{
	struct pathsend_pair **at = &send->pairs;

	if (!pair)
		return;
	pthread_mutex_lock(&send->thread.lock);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		if (pair->paths[i].interval_ns)
			heap_remove(send, &pair->paths[i]);
	while (*at != pair)
		at = &(*at)->next;
	*at = pair->next;
	if ((int32_t)(pair->sequence - send->ended) > 0)
		send->ended = pair->sequence;
	socket_drop(send, pair->socket);
	pthread_mutex_unlock(&send->thread.lock);
	free(pair);
}

void pathsend_set(struct pathsend *send, struct pathsend_pair *pair, unsigned int number,
		  uint16_t sport, uint64_t interval_ns)
{
	struct send_path *path = &pair->paths[number];

	if (path->sport == sport && path->interval_ns == interval_ns)
		return;
	pthread_mutex_lock(&send->thread.lock);
	if (path->interval_ns)
		heap_remove(send, path);
	path->sport = sport;
	path->interval_ns = interval_ns;
	if (interval_ns) {
		path->due_ns = path_next(path, time_local_ns());
		/* Without memory it is not probed, and the next call tries again. */
		if (heap_add(send, path))
			path->interval_ns = 0;
	}
	probe_thread_wake(&send->thread);
}

uint16_t pathsend_ident(uint32_t sequence)
{
	return (uint16_t)(sequence % 0xffff + 1); /* the kernel would fill in a 0 */
}

int pathsend_try(struct pathsend *send, struct pathsend_pair *pair, uint16_t sport,
		 uint8_t hop_limit, uint32_t *sequence)
{
	struct pathpacket packet;
	uint64_t failed;

	pthread_mutex_lock(&send->thread.lock);
	packet = pair->packet;
	packet.from_port = sport;
	packet.path = ESC_PATH_NONE;
	packet.hop_limit = hop_limit;
	packet.sequence = *sequence = pair->sequence++;
	packet.ident = pathsend_ident(packet.sequence);
	failed = send->counts.failed;
	if (!send->thread.paused) {
		batch_add(send, pair, &packet);
		batch_flush(send);
	}
	failed = send->thread.paused || send->counts.failed != failed;
	pthread_mutex_unlock(&send->thread.lock);
	return failed ? -EAGAIN : 0;
}

void pathsend_get(struct pathsend *send, struct pathsend_counts *out)
{
	pthread_mutex_lock(&send->thread.lock);
	*out = send->counts;
	pthread_mutex_unlock(&send->thread.lock);
}
