// SPDX-License-Identifier: BSD-2-Clause
/* Path requests as packets, and the thread that sends them. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/array.h"
#include "base/now.h"
#include "fleet/fleet.h"
#include "internal.h"

#define UDP_BYTES (sizeof(struct udphdr) + ESC_PATH_DATAGRAM_BYTES)

/* Paths that are due within it are served together: a wakeup costs more than the wait. */
#define AHEAD_NS 100000
#define BATCH 64
#define PHASES 8
/* Below, paths are all of one phase: a wakeup for each would cost more than a burst does. */
#define PHASED_NS 8000000

/* --- the packet --- */

size_t pathpacket_build(const struct pathpacket *packet, uint8_t out[PATHPACKET_BYTES_MAX])
{
	struct iphdr four = {
		.version = 4,
		.ihl = sizeof(four) / 4,
		.tot_len = htobe16(sizeof(four) + UDP_BYTES),
		.id = htobe16(packet->ident),
		.frag_off = htobe16(IP_DF),
		.ttl = packet->hop_limit,
		.protocol = IPPROTO_UDP, /* the checksum is the kernel's to fill in */
	};
	struct ip6_hdr six = {
		.ip6_flow = htobe32(6u << 28),
		.ip6_plen = htobe16(UDP_BYTES),
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = packet->hop_limit,
	};
	/* As RoCEv2 has it: no UDP checksum. */
	struct udphdr udp = {
		.source = htobe16(packet->from_port),
		.dest = htobe16(packet->to_port),
		.len = htobe16(UDP_BYTES),
	};
	struct esc_bth bth = {
		.opcode = ESC_PROBE_OPCODE_PATH_REQUEST,
		.pkey = htobe16(0xffff),
		.psn = htobe32(packet->sequence & ESC_PSN_MASK),
	};
	struct esc_path_probe probe = {
		.magic = htobe32(ESC_PROBE_MAGIC),
		.min_version = ESC_PROBE_VERSION,
		.version = ESC_PROBE_VERSION,
		.flags = packet->flags,
		.path = packet->path,
		.target = htobe64(packet->target),
		.sequence = htobe32(packet->sequence),
		.sport = htobe16(packet->from_port),
	};
	uint8_t *at = out;

	if (address_is_ipv4(&packet->to)) {
		memcpy(&four.saddr, packet->from.bytes + 12, 4);
		memcpy(&four.daddr, packet->to.bytes + 12, 4);
		at = mempcpy(at, &four, sizeof(four));
	} else {
		memcpy(&six.ip6_src, packet->from.bytes, 16);
		memcpy(&six.ip6_dst, packet->to.bytes, 16);
		at = mempcpy(at, &six, sizeof(six));
	}
	at = mempcpy(at, &udp, sizeof(udp));
	at = mempcpy(at, &bth, sizeof(bth));
	at = mempcpy(at, &probe, sizeof(probe));
	memset(at, 0, ESC_ICRC_BYTES);
	return (size_t)(at - out) + ESC_ICRC_BYTES;
}

int pathpacket_parse(const uint8_t *ip, size_t bytes, struct pathpacket *out)
{
	unsigned int version = bytes ? ip[0] >> 4 : 0, protocol;
	struct esc_path_probe probe;
	struct udphdr udp;
	struct ip6_hdr six;
	struct iphdr four;
	size_t at;

	*out = (struct pathpacket){};
	if (version == 4 && bytes >= sizeof(four)) {
		memcpy(&four, ip, sizeof(four));
		out->from = out->to = (struct esc_address){.bytes = {[10] = 0xff, [11] = 0xff}};
		memcpy(out->from.bytes + 12, &four.saddr, 4);
		memcpy(out->to.bytes + 12, &four.daddr, 4);
		out->ident = be16toh(four.id);
		protocol = four.protocol;
		at = four.ihl * 4u;
	} else if (version == 6 && bytes >= sizeof(six)) {
		memcpy(&six, ip, sizeof(six));
		memcpy(out->from.bytes, &six.ip6_src, 16);
		memcpy(out->to.bytes, &six.ip6_dst, 16);
		protocol = six.ip6_nxt;
		at = sizeof(six);
	} else {
		return -EINVAL;
	}
	if (protocol != IPPROTO_UDP || at < sizeof(four) || at + sizeof(udp) > bytes)
		return -EINVAL;
	memcpy(&udp, ip + at, sizeof(udp));
	out->from_port = be16toh(udp.source);
	out->to_port = be16toh(udp.dest);
	at += sizeof(udp) + sizeof(struct esc_bth);
	if (at + sizeof(probe) > bytes)
		return be16toh(udp.len) == UDP_BYTES ? 0 : -EINVAL;
	memcpy(&probe, ip + at, sizeof(probe));
	if (probe.magic != htobe32(ESC_PROBE_MAGIC))
		return -EINVAL;
	out->sequence = be32toh(probe.sequence);
	out->target = be64toh(probe.target);
	out->path = probe.path;
	out->flags = probe.flags;
	return 0;
}

#define ICMP_BYTES 8 /* of its header, of either version */

int pathpacket_quoted(const uint8_t *packet, size_t bytes, bool ipv4, struct pathpacket *out)
{
	size_t at = ipv4 && bytes ? (size_t)(packet[0] & 0x0f) * 4 : 0;

	if (bytes < at + ICMP_BYTES ||
	    packet[at] != (ipv4 ? ICMP_TIME_EXCEEDED : ICMP6_TIME_EXCEEDED))
		return -EINVAL;
	return pathpacket_parse(packet + at + ICMP_BYTES, bytes - at - ICMP_BYTES, out);
}

/* --- the heap of paths, by when they are due --- */

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
	char interface[16];
	int fd; /* one for all pairs of an interface and an address of ours */
	struct sockaddr_storage to;
	socklen_t to_bytes;
	struct pathpacket packet; /* what is the same of all; the sequence of the next request */
	unsigned int phase;
	struct send_path paths[ESC_PATHS_MAX];
};

struct pathsend {
	struct timerthread thread; /* its lock: heap, batch and counts, and what they refer to */
	struct pathsend_pair *pairs;
	uint32_t ended; /* the highest sequence of a pair that was removed: the peer remembers it */
	struct send_path **heap; /* the next one is the first */
	size_t count, room;
	struct {
		int fd;
		unsigned int count;
		struct mmsghdr messages[BATCH];
		struct iovec parts[BATCH];
		uint8_t bytes[BATCH][PATHPACKET_BYTES_MAX];
	} batch;
	struct pathsend_counts counts;
};

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
	unsigned int at = 0;

	while (at < send->batch.count) {
		int sent = sendmmsg(send->batch.fd, send->batch.messages + at,
				    send->batch.count - at, MSG_NOSIGNAL);

		if (sent > 0) {
			send->counts.sent += (unsigned int)sent;
			at += (unsigned int)sent;
			continue;
		}
		send->counts.failed++;
		send->counts.last_error = -errno;
		at++; /* the one that was refused */
	}
	send->batch.count = 0;
}

/* The next request of @pair. */
static void batch_add(struct pathsend *send, struct pathsend_pair *pair,
		      const struct pathpacket *packet)
{
	unsigned int at;

	if (send->batch.count == BATCH || (send->batch.count && send->batch.fd != pair->fd))
		batch_flush(send);
	pair->packet.sequence++;
	at = send->batch.count++;
	send->batch.fd = pair->fd;
	send->batch.parts[at].iov_base = send->batch.bytes[at];
	send->batch.parts[at].iov_len = pathpacket_build(packet, send->batch.bytes[at]);
	send->batch.messages[at].msg_hdr = (struct msghdr){
		.msg_name = &pair->to,
		.msg_namelen = pair->to_bytes,
		.msg_iov = &send->batch.parts[at],
		.msg_iovlen = 1,
	};
}

/* On a grid, so that paths of one interval are due together; a time that has passed is left out. */
static uint64_t path_next(const struct send_path *path, uint64_t now)
{
	uint64_t phase_ns = path->interval_ns < PHASED_NS
				    ? 0
				    : path->pair->phase % PHASES * path->interval_ns / PHASES;

	return (now - phase_ns) / path->interval_ns * path->interval_ns + path->interval_ns +
	       phase_ns;
}

static uint64_t send_due(struct timerthread *thread)
{
	struct pathsend *send = (struct pathsend *)thread;
	uint64_t until = time_local_ns() + AHEAD_NS;

	while (send->count && send->heap[0]->due_ns <= until) {
		struct send_path *path = send->heap[0];
		struct pathpacket packet = path->pair->packet;

		packet.from_port = path->sport;
		packet.path = path->path;
		packet.hop_limit = PATHPACKET_HOP_LIMIT;
		batch_add(send, path->pair, &packet);
		path->due_ns = path_next(path, until);
		heap_sift(send, 0);
	}
	if (send->batch.count)
		batch_flush(send);
	return send->count ? send->heap[0]->due_ns : 0;
}

/* --- from the daemon's thread --- */

int pathsend_new(struct pathsend **out)
{
	int err = timerthread_new(out, sizeof(**out), "esc-paths", send_due);

	if (!err)
		(*out)->ended = probe_first_sequence();
	return err;
}

void pathsend_free(struct pathsend *send)
{
	void *heap;

	if (!send)
		return;
	while (send->pairs)
		pathsend_remove(send, send->pairs);
	heap = send->heap;
	timerthread_free(&send->thread);
	free(heap);
}

void pathsend_pause(struct pathsend *send, bool paused)
{
	timerthread_pause(&send->thread, paused);
}

int pathsend_add(struct pathsend *send, const char *interface, const struct pathpacket *packet,
		 unsigned int phase, struct pathsend_pair **out)
{
	struct pathsend_pair *pair = calloc(1, sizeof(*pair)), *other = send->pairs;
	bool ipv4 = address_is_ipv4(&packet->from);
	int err;

	*out = NULL;
	if (!pair)
		return -ENOMEM;
	while (other && (strcmp(other->interface, interface) ||
			 memcmp(&other->packet.from, &packet->from, sizeof(packet->from))))
		other = other->next;
	err = pair->fd =
		other ? other->fd : probe_socket(SOCK_RAW, interface, &packet->from, 0, ipv4);
	if (err < 0) {
		free(pair);
		return err;
	}
	strncpy(pair->interface, interface, sizeof(pair->interface) - 1);
	pair->to_bytes = address_to_socket(&packet->to, 0, ipv4, &pair->to);
	pair->phase = phase;
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		pair->paths[i] = (struct send_path){.pair = pair, .path = (uint8_t)i};
	pair->packet = *packet;
	pair->packet.sequence = send->ended + 1;
	pair->next = send->pairs;
	send->pairs = *out = pair;
	return 0;
}

void pathsend_remove(struct pathsend *send, struct pathsend_pair *pair)
{
	struct pathsend_pair **at = &send->pairs, *other;

	if (!pair)
		return;
	pthread_mutex_lock(&send->thread.lock);
	for (unsigned int i = 0; i < ESC_PATHS_MAX; i++)
		if (pair->paths[i].interval_ns)
			heap_remove(send, &pair->paths[i]);
	pthread_mutex_unlock(&send->thread.lock);
	while (*at != pair)
		at = &(*at)->next;
	*at = pair->next;
	if ((int32_t)(pair->packet.sequence - send->ended) > 0)
		send->ended = pair->packet.sequence;
	for (other = send->pairs; other && other->fd != pair->fd; other = other->next)
		;
	if (!other)
		probesock_close(pair->fd);
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
	/* Without memory it is not probed, and the next call tries again. */
	if (interval_ns &&
	    array_reserve(&send->heap, &send->room, send->count + 1, sizeof(*send->heap))) {
		path->interval_ns = 0;
	} else if (interval_ns) {
		path->due_ns = path_next(path, time_local_ns());
		heap_put(send, send->count++, path);
		heap_sift(send, path->place);
	}
	timerthread_wake(&send->thread);
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
	int err = -EAGAIN;

	pthread_mutex_lock(&send->thread.lock);
	failed = send->counts.failed;
	packet = pair->packet;
	packet.from_port = sport;
	packet.path = ESC_PATH_NONE;
	packet.hop_limit = hop_limit;
	packet.ident = pathsend_ident(packet.sequence);
	*sequence = packet.sequence;
	if (!send->thread.paused) {
		batch_add(send, pair, &packet);
		batch_flush(send);
		err = send->counts.failed == failed ? 0 : -EAGAIN;
	}
	pthread_mutex_unlock(&send->thread.lock);
	return err;
}

void pathsend_get(struct pathsend *send, struct pathsend_counts *out)
{
	pthread_mutex_lock(&send->thread.lock);
	*out = send->counts;
	pthread_mutex_unlock(&send->thread.lock);
}
