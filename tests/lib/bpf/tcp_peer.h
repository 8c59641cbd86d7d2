/* SPDX-License-Identifier: BSD-2-Clause */
/* The other end of a TCP connection, byte by byte: a tun device of the test's own namespace. */
#ifndef ESC_TESTS_BPF_TCP_PEER_H
#define ESC_TESTS_BPF_TCP_PEER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER_HOST "10.9.0.1" /* the kernel's */
#define PEER_SELF "10.9.0.2" /* ours */
#define PEER_PORT 7000
#define PEER_OPTIONS_MAX 40

struct peer_segment {
	struct tcphdr tcp;
	uint8_t options[PEER_OPTIONS_MAX];
	uint32_t option_bytes, data_bytes;
};

struct peer {
	int tun;
	uint16_t sport;
	uint16_t dport;	      /* 0: PEER_PORT */
	uint32_t next, acked; /* our sequence, theirs */
};

static inline int peer_open_tun(void)
{
	struct ifreq request = {.ifr_name = "peer0", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd;

	if (unshare(CLONE_NEWNET))
		return -1;
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
		return -1;
	if (system("ip address add " PEER_HOST "/24 dev peer0 && ip link set peer0 up && ip link "
		   "set lo up"))
		return -1;
	return fd;
}

static inline uint32_t peer_sum(const void *data, uint32_t bytes, uint32_t sum)
{
	const uint8_t *at = data;

	for (uint32_t i = 0; i < bytes; i++)
		sum += i & 1 ? at[i] : at[i] << 8;
	return sum;
}

static inline uint16_t peer_fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* @options: of a whole number of words. The sequence does not move. */
static inline void peer_send(const struct peer *peer, uint8_t flags, uint32_t sequence,
			     const uint8_t *options, uint32_t option_bytes, uint32_t data_bytes)
{
	uint8_t packet[2048] = {};
	struct iphdr *ip = (struct iphdr *)packet;
	struct tcphdr *tcp = (struct tcphdr *)(ip + 1);
	uint32_t tcp_bytes = sizeof(*tcp) + option_bytes + data_bytes, sum;

	*ip = (struct iphdr){.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP};
	ip->saddr = inet_addr(PEER_SELF);
	ip->daddr = inet_addr(PEER_HOST);
	ip->tot_len = htons((uint16_t)(sizeof(*ip) + tcp_bytes));
	ip->check = peer_fold(peer_sum(ip, sizeof(*ip), 0));
	tcp->source = htons(peer->sport);
	tcp->dest = htons(peer->dport ? peer->dport : PEER_PORT);
	tcp->seq = htonl(sequence);
	tcp->ack_seq = htonl(peer->acked);
	tcp->doff = (sizeof(*tcp) + option_bytes) / 4;
	tcp->window = htons(60000);
	((uint8_t *)tcp)[13] = flags;
	memcpy(tcp + 1, options, option_bytes);
	sum = peer_sum(&ip->saddr, 8, IPPROTO_TCP + tcp_bytes);
	tcp->check = peer_fold(peer_sum(tcp, tcp_bytes, sum));
	if (write(peer->tun, packet, sizeof(*ip) + tcp_bytes) < 0)
		perror("# tun");
}

/* The next TCP segment of this connection (port 0: of any), within a while. */
static inline bool peer_take(struct peer *peer, struct peer_segment *out, int wait_ms)
{
	struct pollfd wait = {.fd = peer->tun, .events = POLLIN};
	uint8_t packet[70000];
	ssize_t got;

	while (poll(&wait, 1, wait_ms) > 0) {
		struct iphdr *ip = (struct iphdr *)packet;
		struct tcphdr *tcp = (struct tcphdr *)(ip + 1);

		got = read(peer->tun, packet, sizeof(packet));
		if (got < (ssize_t)(sizeof(*ip) + sizeof(*tcp)) || ip->version != 4 ||
		    ip->protocol != IPPROTO_TCP || (peer->sport && ntohs(tcp->dest) != peer->sport))
			continue;
		out->tcp = *tcp;
		out->option_bytes = tcp->doff * 4 - sizeof(*tcp);
		out->data_bytes = (uint32_t)got - sizeof(*ip) - tcp->doff * 4;
		memcpy(out->options, tcp + 1, out->option_bytes);
		return true;
	}
	return false;
}

/* The option of this kind, NULL: none. */
static inline const uint8_t *peer_find(const struct peer_segment *segment, uint8_t kind)
{
	uint32_t at = 0;

	while (at < segment->option_bytes && segment->options[at]) {
		if (segment->options[at] == kind)
			return &segment->options[at];
		at += segment->options[at] == 1 ? 1 : segment->options[at + 1];
	}
	return NULL;
}

#endif
