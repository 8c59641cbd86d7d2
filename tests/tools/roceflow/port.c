/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port.h"

#define BATCH 32
#define SOCKET_BYTES (32 << 20)
/* How long a full socket may hold up a batch before its packets count as errors. */
#define SEND_WAIT_MS 2000
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

struct slot {
	uint8_t data[WIRE_PACKET_MAX];
	struct iovec vector;
	struct sockaddr_storage address;
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct port_count *count;
};

struct port {
	bool six;
	uint8_t local[16];
	int send_fd, receive_fd, sink_fd;
	unsigned int queued;
	struct slot out[BATCH], in[BATCH];
	struct mmsghdr out_messages[BATCH], in_messages[BATCH];
	uint64_t icrc_errors;
};

/*
 * RoCEv2 only, and some queue pairs' only: who shares a host with other senders need not look at
 * theirs. A raw IPv4 socket shows the filter the IP header, an IPv6 one does not.
 */
static int filter_roce(int fd, bool six, uint32_t first_qpn, uint32_t qps)
{
	uint32_t last_qpn = qps ? first_qpn + qps - 1 : WIRE_PSN_MASK;
	struct sock_filter filter[] = {
		six ? (struct sock_filter)BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 0)
		    : (struct sock_filter)BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_PORT, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_IND, WIRE_UDP_BYTES + 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, qps ? first_qpn : 0, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last_qpn, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int open_receiver(const struct sockaddr_storage *local, const char *interface, bool six,
			 uint32_t first_qpn, uint32_t qps)
{
	int size = SOCKET_BYTES, on = 1;
	struct sockaddr_storage address = *local;
	int fd = socket(local->ss_family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);

	if (fd < 0)
		return -1;
	if (six)
		((struct sockaddr_in6 *)&address)->sin6_port = 0;
	/* Unforced as a second try: a container may not have CAP_NET_ADMIN for it. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (filter_roce(fd, six, first_qpn, qps) ||
	    (six && setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on))) ||
	    (*interface &&
	     setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1)) ||
	    bind(fd, (struct sockaddr *)&address,
		 six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_sender(int family, const char *interface)
{
	int size = SOCKET_BYTES;
	int fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (*interface &&
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1)) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Holds UDP port 4791 so that the kernel does not reply port unreachable. Its
 * filter drops everything; the namespace's UDP InErrors grow by that.
 */
static int open_sink(const struct sockaddr_storage *local, bool six)
{
	struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	struct sock_fprog program = {.len = 1, .filter = none};
	struct sockaddr_storage address = *local;
	int on = 1;
	int fd = socket(local->ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (six)
		((struct sockaddr_in6 *)&address)->sin6_port = htons(WIRE_PORT);
	else
		((struct sockaddr_in *)&address)->sin_port = htons(WIRE_PORT);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    (six && setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on))) ||
	    bind(fd, (struct sockaddr *)&address,
		 six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void prepare_slots(struct port *port)
{
	size_t skip = port->six ? WIRE_IP6_BYTES : 0;

	for (int i = 0; i < BATCH; i++) {
		struct slot *in = &port->in[i], *out = &port->out[i];
		struct msghdr *message = &port->in_messages[i].msg_hdr;

		in->vector.iov_base = in->data + skip;
		in->vector.iov_len = sizeof(in->data) - skip;
		message->msg_iov = &in->vector;
		message->msg_iovlen = 1;
		message->msg_name = &in->address;
		message->msg_control = in->control.bytes;
		out->vector.iov_base = out->data;
		message = &port->out_messages[i].msg_hdr;
		message->msg_iov = &out->vector;
		message->msg_iovlen = 1;
		message->msg_name = &out->address;
		message->msg_namelen =
			port->six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	}
}

struct port *port_open(const struct sockaddr_storage *local, const char *interface,
		       uint32_t first_qpn, uint32_t qps)
{
	struct port *port = calloc(1, sizeof(*port));

	if (!port)
		return NULL;
	port->six = local->ss_family == AF_INET6;
	port->send_fd = port->receive_fd = port->sink_fd = -1;
	if (port->six)
		memcpy(port->local, &((const struct sockaddr_in6 *)local)->sin6_addr, 16);
	else
		memcpy(port->local, &((const struct sockaddr_in *)local)->sin_addr, 4);
	port->sink_fd = open_sink(local, port->six);
	if (port->sink_fd >= 0)
		port->receive_fd = open_receiver(local, interface, port->six, first_qpn, qps);
	if (port->receive_fd >= 0)
		port->send_fd = open_sender(local->ss_family, interface);
	if (port->send_fd < 0) {
		fprintf(stderr,
			"roceflow: raw sockets%s%s: %m; it needs root, a local address, "
			"and UDP port %d free\n",
			*interface ? " on " : "", interface, WIRE_PORT);
		port_close(port);
		return NULL;
	}
	prepare_slots(port);
	return port;
}

void port_close(struct port *port)
{
	if (!port)
		return;
	if (port->send_fd >= 0)
		close(port->send_fd);
	if (port->receive_fd >= 0)
		close(port->receive_fd);
	if (port->sink_fd >= 0)
		close(port->sink_fd);
	free(port);
}

int port_fd(const struct port *port)
{
	return port->receive_fd;
}

void port_queue(struct port *port, struct wire_packet *packet, struct port_count *count)
{
	struct slot *slot = &port->out[port->queued];

	slot->vector.iov_len = wire_build(slot->data, packet);
	slot->count = count;
	memset(&slot->address, 0, sizeof(slot->address));
	if (port->six) {
		struct sockaddr_in6 *to = (struct sockaddr_in6 *)&slot->address;

		to->sin6_family = AF_INET6;
		memcpy(&to->sin6_addr, packet->flow.destination, 16);
	} else {
		struct sockaddr_in *to = (struct sockaddr_in *)&slot->address;

		to->sin_family = AF_INET;
		memcpy(&to->sin_addr, packet->flow.destination, 4);
	}
	if (++port->queued == BATCH)
		port_flush(port);
}

static void count_sent(struct slot *slots, int number)
{
	for (int i = 0; i < number; i++) {
		slots[i].count->packets++;
		slots[i].count->bytes += slots[i].vector.iov_len;
	}
}

void port_flush(struct port *port)
{
	struct pollfd room = {.fd = port->send_fd, .events = POLLOUT};
	uint64_t deadline = 0;
	unsigned int done = 0;

	while (done < port->queued) {
		int sent =
			sendmmsg(port->send_fd, port->out_messages + done, port->queued - done, 0);

		if (sent > 0) {
			count_sent(port->out + done, sent);
			done += sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
			if (!deadline)
				deadline = now_ns() + SEND_WAIT_MS * NS_PER_MS;
			if (now_ns() < deadline) {
				poll(&room, 1, 1);
				continue;
			}
		}
		/* No route, too big for the MTU, link gone: this packet never left. */
		port->out[done++].count->errors++;
	}
	port->queued = 0;
}

/* The kernel keeps the IPv6 header; what the ICRC covers of it is known all the same. */
static void rebuild_ip6(struct port *port, struct slot *slot, const struct msghdr *message,
			size_t bytes)
{
	const struct sockaddr_in6 *from = (const struct sockaddr_in6 *)&slot->address;
	uint8_t *ip = slot->data;
	int traffic_class = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
	     c = CMSG_NXTHDR((struct msghdr *)message, c))
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			memcpy(&traffic_class, CMSG_DATA(c), sizeof(traffic_class));
	memset(ip, 0, WIRE_IP6_BYTES);
	ip[0] = 0x60 | (traffic_class >> 4 & 15);
	ip[1] = traffic_class << 4;
	ip[4] = bytes >> 8;
	ip[5] = bytes;
	ip[6] = IPPROTO_UDP;
	memcpy(ip + 8, &from->sin6_addr, 16);
	memcpy(ip + 24, port->local, 16);
}

int port_receive(struct port *port, port_handler handler, void *context)
{
	int number;

	for (int i = 0; i < BATCH; i++) {
		port->in_messages[i].msg_hdr.msg_namelen = sizeof(port->in[i].address);
		port->in_messages[i].msg_hdr.msg_controllen = sizeof(port->in[i].control);
	}
	number = recvmmsg(port->receive_fd, port->in_messages, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < number; i++) {
		struct slot *slot = &port->in[i];
		size_t bytes = port->in_messages[i].msg_len;
		struct wire_packet packet;
		enum wire_verdict verdict;

		if (port->six) {
			rebuild_ip6(port, slot, &port->in_messages[i].msg_hdr, bytes);
			bytes += WIRE_IP6_BYTES;
		}
		verdict = wire_parse(slot->data, bytes, &packet);
		if (verdict == WIRE_GOOD)
			handler(context, &packet);
		else if (verdict == WIRE_BAD_ICRC)
			port->icrc_errors++;
	}
	return number > 0 ? number : 0;
}

uint64_t port_icrc_errors(const struct port *port)
{
	return port->icrc_errors;
}

uint64_t port_socket_drops(const struct port *port)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t bytes = sizeof(memory);

	if (getsockopt(port->receive_fd, SOL_SOCKET, SO_MEMINFO, memory, &bytes))
		return 0;
	return memory[SK_MEMINFO_DROPS];
}
