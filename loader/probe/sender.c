// SPDX-License-Identifier: BSD-2-Clause
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "internal.h"

/* Edges that are due within it are served together: a wakeup costs more than the wait. */
#define SENDER_AHEAD_NS 50000
#define SENDER_IDLE_NS 100000000
#define SENDER_LATE_INTERVALS 2

struct sender_edge {
	struct sender_edge *next;
	int fd;
	struct probe_datagram datagram;
	uint64_t due_ns;
	uint64_t interval_ns;
	uint32_t sequence; /* of the next request; the fields below are read without the lock */
	uint32_t pair;
	uint64_t requests;
	uint64_t failed;
	int last_error;
};

struct sender {
	struct probe_thread thread; /* its lock: the list and what is in it */
	struct sender_edge *edges;
	uint64_t spacing_ns;
	uint64_t random;
};

/* xorshift64: phases have to differ, not to be secret. */
static uint64_t sender_random(struct sender *sender)
{
	sender->random ^= sender->random << 13;
	sender->random ^= sender->random >> 7;
	sender->random ^= sender->random << 17;
	return sender->random;
}

/* --- sending --- */

static int edge_send(struct sender_edge *edge)
{
	int err = probe_datagram_send(edge->fd, &edge->datagram);

	/* A pending "port unreachable" is reported once, and this packet was not sent. */
	return err == -ECONNREFUSED ? probe_datagram_send(edge->fd, &edge->datagram) : err;
}

/* What did not leave has no number. */
static int edge_send_request(struct sender_edge *edge, uint8_t more)
{
	int err;

	probe_datagram_number(&edge->datagram, ESC_PROBE_OPCODE_REQUEST, edge->sequence, edge->pair,
			      more);
	err = edge_send(edge);
	if (!err) {
		__atomic_store_n(&edge->sequence, edge->sequence + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&edge->requests, edge->requests + 1, __ATOMIC_RELAXED);
		return 0;
	}
	__atomic_store_n(&edge->failed, edge->failed + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&edge->last_error, err, __ATOMIC_RELAXED);
	return err;
}

/* An idle queue or doorbell would delay the first of the pair: a warm-up packet precedes it. */
static void edge_send_pair(struct sender_edge *edge, uint64_t spacing_ns)
{
	uint64_t begun_ns;

	edge->pair++;
	probe_datagram_number(&edge->datagram, ESC_PROBE_OPCODE_WARMUP, edge->sequence, edge->pair,
			      0);
	edge_send(edge);
	begun_ns = time_local_ns();
	edge_send_request(edge, 0);
	while (time_local_ns() - begun_ns < spacing_ns)
		;
	edge_send_request(edge, ESC_PROBE_SECOND);
}

/* Within an eighth of its interval to either side, so that no two hosts stay synchronized. */
static void edge_schedule(struct sender *sender, struct sender_edge *edge, uint64_t now)
{
	uint64_t interval = __atomic_load_n(&edge->interval_ns, __ATOMIC_RELAXED);
	uint64_t jitter = interval / 4;

	edge->due_ns += interval - jitter / 2 + sender_random(sender) % (jitter + 1);
	if (edge->due_ns + SENDER_LATE_INTERVALS * interval < now)
		edge->due_ns = now + sender_random(sender) % interval;
}

/* Serves the edges that are due; returns when the next one is. */
static uint64_t sender_send_due(struct sender *sender)
{
	uint64_t now = time_local_ns(), next_ns = now + SENDER_IDLE_NS;

	for (struct sender_edge *edge = sender->edges; edge; edge = edge->next) {
		if (edge->due_ns <= now + SENDER_AHEAD_NS) {
			edge_send_pair(edge, sender->spacing_ns);
			now = time_local_ns();
			edge_schedule(sender, edge, now);
		}
		if (edge->due_ns < next_ns)
			next_ns = edge->due_ns;
	}
	return next_ns;
}

static void *sender_run(void *context)
{
	struct sender *sender = context;
	struct timespec until;
	uint64_t next_ns;

	probe_thread_setup("esc-probes");
	pthread_mutex_lock(&sender->thread.lock);
	while (!sender->thread.ends) {
		if (sender->thread.paused || !sender->edges) {
			pthread_cond_wait(&sender->thread.changed, &sender->thread.lock);
			continue;
		}
		next_ns = sender_send_due(sender);
		pthread_mutex_unlock(&sender->thread.lock);
		until.tv_sec = (time_t)(next_ns / 1000000000);
		until.tv_nsec = (long)(next_ns % 1000000000);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		pthread_mutex_lock(&sender->thread.lock);
	}
	pthread_mutex_unlock(&sender->thread.lock);
	return NULL;
}

/* --- from the daemon's thread --- */

int sender_new(struct sender **out, uint64_t spacing_ns)
{
	struct sender *sender = calloc(1, sizeof(*sender));
	int err;

	*out = NULL;
	if (!sender)
		return -ENOMEM;
	sender->spacing_ns = spacing_ns;
	if (getrandom(&sender->random, sizeof(sender->random), 0) < 0 || !sender->random)
		sender->random = time_local_ns() | 1;
	err = probe_thread_start(&sender->thread, sender_run, sender);
	if (err)
		free(sender);
	else
		*out = sender;
	return err;
}

void sender_free(struct sender *sender)
{
	if (!sender)
		return;
	probe_thread_end(&sender->thread);
	while (sender->edges)
		sender_remove(sender, sender->edges);
	pthread_cond_destroy(&sender->thread.changed);
	pthread_mutex_destroy(&sender->thread.lock);
	free(sender);
}

void sender_set_spacing(struct sender *sender, uint64_t spacing_ns)
{
	pthread_mutex_lock(&sender->thread.lock);
	sender->spacing_ns = spacing_ns;
	pthread_mutex_unlock(&sender->thread.lock);
}

void sender_pause(struct sender *sender, bool paused)
{
	probe_thread_pause(&sender->thread, paused);
}

int sender_add(struct sender *sender, const struct sender_edge_config *config,
	       struct sender_edge **out)
{
	struct sender_edge *edge = calloc(1, sizeof(*edge));
	int err = edge ? probesock_open(&config->route) : -ENOMEM;

	*out = NULL;
	if (err < 0) {
		free(edge);
		return err;
	}
	edge->fd = err;
	probe_datagram_init(&edge->datagram, config->self, config->target, config->epoch,
			    config->flags);
	edge->sequence = config->first_sequence;
	edge->pair = config->first_sequence;
	edge->interval_ns = config->interval_ns;
	pthread_mutex_lock(&sender->thread.lock);
	edge->due_ns = time_local_ns() + sender_random(sender) % config->interval_ns;
	edge->next = sender->edges;
	sender->edges = edge;
	probe_thread_wake(&sender->thread);
	*out = edge;
	return 0;
}

int sender_move(struct sender *sender, struct sender_edge *edge, const struct probe_route *route)
{
	int fd = probesock_open(route), before;

	if (fd < 0)
		return fd;
	pthread_mutex_lock(&sender->thread.lock);
	before = edge->fd;
	edge->fd = fd;
	pthread_mutex_unlock(&sender->thread.lock);
	close(before);
	return 0;
}

void sender_remove(struct sender *sender, struct sender_edge *edge)
{
	struct sender_edge **at = &sender->edges;

	if (!edge)
		return;
	pthread_mutex_lock(&sender->thread.lock);
	while (*at && *at != edge)
		at = &(*at)->next;
	if (*at)
		*at = edge->next;
	pthread_mutex_unlock(&sender->thread.lock);
	close(edge->fd);
	free(edge);
}

void sender_set_interval(struct sender_edge *edge, uint64_t interval_ns)
{
	__atomic_store_n(&edge->interval_ns, interval_ns, __ATOMIC_RELAXED);
}

int sender_query(struct sender *sender, struct sender_edge *edge, uint64_t about)
{
	int err;

	pthread_mutex_lock(&sender->thread.lock);
	/* A pair of its own: this request must not be taken for half of another. */
	edge->pair++;
	edge->datagram.probe.about = htobe64(about);
	err = edge_send_request(edge, ESC_PROBE_QUERY);
	edge->datagram.probe.about = 0;
	pthread_mutex_unlock(&sender->thread.lock);
	return err;
}

void sender_counts(const struct sender_edge *edge, struct sender_counts *out)
{
	out->requests = __atomic_load_n(&edge->requests, __ATOMIC_RELAXED);
	out->failed = __atomic_load_n(&edge->failed, __ATOMIC_RELAXED);
	out->last_error = __atomic_load_n(&edge->last_error, __ATOMIC_RELAXED);
	out->next_sequence = __atomic_load_n(&edge->sequence, __ATOMIC_RELAXED);
}
