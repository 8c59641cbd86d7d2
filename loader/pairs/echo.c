// SPDX-License-Identifier: BSD-2-Clause
/*
 * ICMP echo requests, whose replies are as long: they show what a path request, which has one
 * size, cannot, that a packet of the interface's MTU arrives. A socket of its own for each address,
 * since the kernel gives a raw socket all messages to its address.
 */
#include <errno.h>
#include <net/if.h> /* ahead of linux/icmp.h, which has its own otherwise */

#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "internal.h"

#define ECHO_BYTES_MAX 65535
#define ECHO_HEADER_BYTES 8
#define IP_BYTES(ipv4) ((ipv4) ? 20u : 40u)

/* Of messages, only replies to echo requests. */
static int set_filter(int fd, bool ipv4)
{
	struct icmp_filter four = {.data = ~(1u << ICMP_ECHOREPLY)};
	struct icmp6_filter six;

	if (ipv4)
		return setsockopt(fd, SOL_RAW, ICMP_FILTER, &four, sizeof(four));
	ICMP6_FILTER_SETBLOCKALL(&six);
	ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &six);
	return setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &six, sizeof(six));
}

int echo_open(const char *interface, const struct esc_address *from)
{
	bool ipv4 = address_is_ipv4(from);
	/* Neither fragmented nor limited by what is known of the path: that is the question. */
	int probe = ipv4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE, err;
	struct sockaddr_storage address;
	socklen_t bytes = address_to_socket(from, 0, ipv4, &address);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			ipv4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);

	if (fd < 0)
		return -errno;
	if (!set_filter(fd, ipv4) &&
	    !setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
			ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &probe, sizeof(probe)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, strlen(interface) + 1) &&
	    !bind(fd, (struct sockaddr *)&address, bytes))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

unsigned int echo_mtu(int fd, const char *interface)
{
	struct ifreq request = {};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	return ioctl(fd, SIOCGIFMTU, &request) || request.ifr_mtu < PAIRS_ECHO_SMALL_BYTES
		       ? 0
		       : (unsigned int)request.ifr_mtu;
}

/* RFC 1071, of an even number of bytes. */
static uint16_t checksum(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < count; i += 2)
		sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* The kernel makes the checksum of ICMPv6 alone. The byte behind the header: of full size. */
int echo_send(int fd, const struct esc_address *to, const struct pairs_echo *echo, size_t bytes)
{
	static uint8_t message[ECHO_BYTES_MAX + 1];
	bool ipv4 = address_is_ipv4(to);
	struct sockaddr_storage address;
	socklen_t size = address_to_socket(to, 0, ipv4, &address);
	size_t length = bytes > ECHO_BYTES_MAX ? 0 : bytes - IP_BYTES(ipv4);

	if (bytes < IP_BYTES(ipv4) + ECHO_HEADER_BYTES + 1 || !length)
		return -EINVAL;
	memset(message, 0, length + 1);
	message[0] = ipv4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST;
	put16(message + 4, echo->ident);
	put16(message + 6, echo->sequence);
	message[ECHO_HEADER_BYTES] = echo->full;
	if (ipv4)
		put16(message + 2, checksum(message, length + length % 2));
	return sendto(fd, message, length, MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0
		       ? -errno
		       : 0;
}

bool echo_parse(const uint8_t *message, size_t bytes, bool ipv4, uint16_t ident,
		struct pairs_echo *echo)
{
	if (bytes < ECHO_HEADER_BYTES + 1 ||
	    message[0] != (ipv4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY) || message[1] ||
	    get16(message + 4) != ident)
		return false;
	*echo = (struct pairs_echo){.ident = ident,
				    .sequence = get16(message + 6),
				    .full = message[ECHO_HEADER_BYTES] == 1};
	return true;
}

/* What is read of a message; the rest of it is cut off. */
#define READ_BYTES 128
#define READ_MOST 64 /* messages in a call: others may send any number of them */

bool echo_read(int fd, bool ipv4, uint16_t ident, struct esc_address *from, struct pairs_echo *echo)
{
	struct sockaddr_storage address;
	uint8_t packet[READ_BYTES];
	ssize_t got;

	for (unsigned int i = 0; i < READ_MOST; i++) {
		socklen_t size = sizeof(address);
		size_t skip;

		got = recvfrom(fd, packet, sizeof(packet), 0, (struct sockaddr *)&address, &size);
		if (got <= 0)
			return false;
		skip = ipv4 ? (packet[0] & 0x0fu) * 4u : 0;
		if (skip < (size_t)got && address_of_socket((struct sockaddr *)&address, from) &&
		    echo_parse(packet + skip, (size_t)got - skip, ipv4, ident, echo))
			return true;
	}
	return false;
}
