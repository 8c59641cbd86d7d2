// SPDX-License-Identifier: BSD-2-Clause
/* What all senders share, and the thread that sends coded pairs. */
#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/address.h"
#include "base/now.h"
#include "dataplane/dataplane.h"
#include "fleet/fleet.h"
#include "internal.h"
#include "pacing/random.h"

/* Edges that are due within it are served together: a wakeup costs more than the wait. */
#define AHEAD_NS 50000
#define LATE_INTERVALS 2

/* --- sockets --- */

static int sockets_fd = -1; /* the map `probe_sockets` */

static bool no_socket_stays(const void *key, void *context)
{
	(void)key;
	(void)context;
	return false;
}

void probesock_use_map(int map_fd)
{
	sockets_fd = map_fd;
	mapsweep(map_fd, sizeof(uint64_t), no_socket_stays, NULL);
}

/* 0, or -errno; without a map nothing is done. */
static int socket_register(int fd)
{
	socklen_t bytes = sizeof(uint64_t);
	uint32_t one = 1;
	uint64_t cookie;

	if (sockets_fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes))
		return -errno;
	return bpf_map_update_elem(sockets_fd, &cookie, &one, BPF_ANY);
}

void probesock_close(int fd)
{
	socklen_t bytes = sizeof(uint64_t);
	uint64_t cookie;

	if (sockets_fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes))
		bpf_map_delete_elem(sockets_fd, &cookie);
	close(fd);
}

int probe_socket(int type, const char *interface, const struct esc_address *from, uint16_t port,
		 bool ipv4)
{
	const struct {
		int level, name, value;
	} options[] = {
		{SOL_SOCKET, SO_MARK, (int)ESC_PROBE_MARK},
		/* Of datagrams alone. Edges of one source port have their own destinations. */
		{SOL_SOCKET, SO_REUSEADDR, 1},
		{ipv4 ? SOL_SOCKET : IPPROTO_UDP, ipv4 ? SO_NO_CHECK : UDP_NO_CHECK6_TX, 1},
		{ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
		 ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO},
		/* XDP takes the replies; what is received here all the same is not read. */
		{SOL_SOCKET, SO_RCVBUF, 1},
	};
	size_t count = type == SOCK_RAW ? 1 : sizeof(options) / sizeof(options[0]);
	struct sockaddr_storage address;
	socklen_t bytes = address_to_socket(from, port, ipv4, &address);
	int err = 0, fd = socket(ipv4 ? AF_INET : AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK,
				 type == SOCK_RAW ? IPPROTO_RAW : 0);

	if (fd < 0)
		return -errno;
	for (size_t i = 0; !err && i < count; i++)
		err = setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				 sizeof(options[i].value));
	if (!err &&
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1) &&
	    !bind(fd, (struct sockaddr *)&address, bytes))
		err = socket_register(fd);
	else
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

uint16_t probe_source_port(uint64_t one_id, uint64_t other_id)
{
	uint64_t hash = (one_id ^ other_id) * 0x9e3779b97f4a7c15ull;

	return (uint16_t)(PROBESOCK_PORT_BASE + (hash >> 50)); /* 14 bits */
}

int probesock_open(const struct probe_route *route)
{
	bool ipv4 = address_is_ipv4(&route->to);
	int fd = probe_socket(SOCK_DGRAM, route->interface, &route->from, route->from_port, ipv4);
	struct sockaddr_storage address;
	socklen_t bytes = address_to_socket(&route->to, route->to_port, ipv4, &address);
	int err;

	if (fd < 0 || !connect(fd, (struct sockaddr *)&address, bytes))
		return fd;
	err = -errno;
	probesock_close(fd);
	return err;
}

/* --- datagrams --- */

void probe_datagram_init(struct probe_datagram *datagram, uint64_t self, uint64_t target,
			 uint64_t epoch, uint8_t flags)
{
	*datagram = (struct probe_datagram){
		.bth.pkey = htobe16(0xffff),
		.probe = {.magic = htobe32(ESC_PROBE_MAGIC),
			  .min_version = ESC_PROBE_VERSION,
			  .version = ESC_PROBE_VERSION,
			  .flags = flags,
			  .sender = htobe64(self),
			  .target = htobe64(target),
			  .epoch = htobe64(epoch),
			  .about_age_us = htobe32(ESC_PROBE_NEVER),
			  .received_age_us = htobe32(ESC_PROBE_NEVER)},
	};
}

void probe_datagram_number(struct probe_datagram *datagram, uint8_t opcode, uint32_t sequence,
			   uint32_t pair, uint8_t more)
{
	struct esc_probe *probe = &datagram->probe;
	uint8_t kept = probe->flags & ESC_PROBE_PLANE;

	datagram->bth.opcode = opcode;
	datagram->bth.psn = htobe32(sequence & ESC_PSN_MASK);
	probe->flags = kept | more;
	probe->sequence = htobe32(sequence);
	probe->pair = htobe32(pair);
}

int probe_datagram_send(int fd, const struct probe_datagram *datagram)
{
	const char *bytes = (const char *)datagram + offsetof(struct probe_datagram, bth);

	return send(fd, bytes, ESC_PROBE_DATAGRAM_BYTES, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

uint32_t probe_first_sequence(void)
{
	uint32_t first;

	/* It waits until the kernel has random numbers, and does not fail then. */
	return getrandom(&first, sizeof(first), 0) == sizeof(first) ? first
								    : (uint32_t)time_local_ns();
}

/* --- coded pairs --- */

struct sender_edge {
	struct sender_edge *next;
	int fd;
	struct probe_datagram datagram;
	uint64_t due_ns;
	uint64_t interval_ns;
	uint32_t pair;
	struct sender_counts counts; /* read without the lock */
};

struct sender {
	struct timerthread thread; /* its lock: the list and what is in it */
	struct sender_edge *edges;
	uint64_t spacing_ns;
	uint64_t random; /* phases have to differ, not to be secret */
};

static int edge_send(struct sender_edge *edge)
{
	int err = probe_datagram_send(edge->fd, &edge->datagram);

	/* A pending "port unreachable" is reported once, and this packet was not sent. */
	return err == -ECONNREFUSED ? probe_datagram_send(edge->fd, &edge->datagram) : err;
}

#define increment(field) __atomic_store_n(&(field), (field) + 1, __ATOMIC_RELAXED)

/* What did not leave has no number. */
static int edge_send_request(struct sender_edge *edge, uint8_t more)
{
	struct sender_counts *counts = &edge->counts;
	int err;

	probe_datagram_number(&edge->datagram, ESC_PROBE_OPCODE_REQUEST, counts->next_sequence,
			      edge->pair, more);
	err = edge_send(edge);
	if (!err) {
		increment(counts->next_sequence);
		increment(counts->requests);
		return 0;
	}
	increment(counts->failed);
	__atomic_store_n(&counts->last_error, err, __ATOMIC_RELAXED);
	return err;
}

/* An idle queue or doorbell would delay the first of the pair: a warm-up packet precedes it. */
static void edge_send_pair(struct sender_edge *edge, uint64_t spacing_ns)
{
	uint64_t begun_ns;

	edge->pair++;
	probe_datagram_number(&edge->datagram, ESC_PROBE_OPCODE_WARMUP, edge->counts.next_sequence,
			      edge->pair, 0);
	edge_send(edge);
	begun_ns = time_local_ns();
	edge_send_request(edge, 0);
	while (time_local_ns() - begun_ns < spacing_ns)
		;
	edge_send_request(edge, ESC_PROBE_SECOND);
}

static uint64_t send_due(struct timerthread *thread)
{
	struct sender *sender = (struct sender *)thread;
	uint64_t spacing_ns = __atomic_load_n(&sender->spacing_ns, __ATOMIC_RELAXED);
	uint64_t now = time_local_ns(), next_ns = 0;

	for (struct sender_edge *edge = sender->edges; edge; edge = edge->next) {
		uint64_t interval = __atomic_load_n(&edge->interval_ns, __ATOMIC_RELAXED);
		uint64_t jitter = interval / 4;

		if (edge->due_ns <= now + AHEAD_NS) {
			edge_send_pair(edge, spacing_ns);
			now = time_local_ns();
			/* Within an eighth to either side: no two hosts stay synchronized. */
			edge->due_ns += interval - jitter / 2 +
					pacing_random(&sender->random) % (jitter + 1);
			if (edge->due_ns + LATE_INTERVALS * interval < now)
				edge->due_ns = now + pacing_random(&sender->random) % interval;
		}
		if (!next_ns || edge->due_ns < next_ns)
			next_ns = edge->due_ns;
	}
	return next_ns;
}

int sender_new(struct sender **out, uint64_t spacing_ns)
{
	struct sender *sender;
	int err = timerthread_new(&sender, sizeof(*sender), "esc-probes", send_due);

	*out = sender;
	if (!sender)
		return err;
	sender->spacing_ns = spacing_ns;
	if (getrandom(&sender->random, sizeof(sender->random), 0) < 0)
		sender->random = time_local_ns();
	return 0;
}

void sender_free(struct sender *sender)
{
	if (!sender)
		return;
	while (sender->edges)
		sender_remove(sender, sender->edges);
	timerthread_free(&sender->thread);
}

void sender_set_spacing(struct sender *sender, uint64_t spacing_ns)
{
	__atomic_store_n(&sender->spacing_ns, spacing_ns, __ATOMIC_RELAXED);
}

void sender_pause(struct sender *sender, bool paused)
{
	timerthread_pause(&sender->thread, paused);
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
	edge->counts.next_sequence = edge->pair = config->first_sequence;
	edge->interval_ns = config->interval_ns;
	pthread_mutex_lock(&sender->thread.lock);
	edge->due_ns = time_local_ns() + pacing_random(&sender->random) % config->interval_ns;
	edge->next = sender->edges;
	sender->edges = edge;
	timerthread_wake(&sender->thread);
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
	probesock_close(before);
	return 0;
}

void sender_remove(struct sender *sender, struct sender_edge *edge)
{
	struct sender_edge **at = &sender->edges;

	if (!edge)
		return;
	pthread_mutex_lock(&sender->thread.lock);
	while (*at != edge)
		at = &(*at)->next;
	*at = edge->next;
	pthread_mutex_unlock(&sender->thread.lock);
	probesock_close(edge->fd);
	free(edge);
}

void sender_set_interval(struct sender_edge *edge, uint64_t interval_ns)
{
	__atomic_store_n(&edge->interval_ns, interval_ns, __ATOMIC_RELAXED);
}

int sender_query(struct sender *sender, struct sender_edge *edge, uint64_t about, uint32_t nic)
{
	int err;

	pthread_mutex_lock(&sender->thread.lock);
	/* A pair of its own: this request must not be taken for half of another. */
	edge->pair++;
	edge->datagram.probe.about = htobe64(about);
	edge->datagram.probe.about_age_us = htobe32(nic);
	err = edge_send_request(edge, ESC_PROBE_QUERY);
	edge->datagram.probe.about = 0;
	edge->datagram.probe.about_age_us = 0;
	pthread_mutex_unlock(&sender->thread.lock);
	return err;
}

void sender_counts(const struct sender_edge *edge, struct sender_counts *out)
{
	const struct sender_counts *counts = &edge->counts;

	out->requests = __atomic_load_n(&counts->requests, __ATOMIC_RELAXED);
	out->failed = __atomic_load_n(&counts->failed, __ATOMIC_RELAXED);
	out->last_error = __atomic_load_n(&counts->last_error, __ATOMIC_RELAXED);
	out->next_sequence = __atomic_load_n(&counts->next_sequence, __ATOMIC_RELAXED);
}
