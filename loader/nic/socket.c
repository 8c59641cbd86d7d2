// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#define UDP_NO_CHECK6_RX 102
#endif

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

union nic_sockaddr {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

bool nic_address_is_v4(const struct esc_address *address)
{
	return !memcmp(address->bytes, mapped, sizeof(mapped));
}

bool nic_address_is_set(const struct esc_address *address)
{
	static const struct esc_address none;

	return memcmp(address, &none, sizeof(none)) != 0;
}

static socklen_t sockaddr_of(const struct esc_address *address, uint16_t port,
			     union nic_sockaddr *out)
{
	memset(out, 0, sizeof(*out));
	if (nic_address_is_v4(address)) {
		out->four.sin_family = AF_INET;
		out->four.sin_port = htons(port);
		memcpy(&out->four.sin_addr, address->bytes + 12, 4);
		return sizeof(out->four);
	}
	out->six.sin6_family = AF_INET6;
	out->six.sin6_port = htons(port);
	memcpy(&out->six.sin6_addr, address->bytes, 16);
	return sizeof(out->six);
}

/* The reply's checksum is not made anew where it is turned round: there is none. */
static int without_checksum(int fd, bool four)
{
	int on = 1;

	if (four)
		return setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
	return setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)) ||
	       setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on));
}

int nic_socket_open(const char *device, const struct esc_address *source)
{
	bool four = nic_address_is_v4(source);
	union nic_sockaddr address;
	socklen_t bytes = sockaddr_of(source, 0, &address);
	int on = 1, err = 0;
	int fd = socket(four ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* An IPv6 address goes while its NIC is down. */
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, strlen(device) + 1) ||
	    setsockopt(fd, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_FREEBIND : IPV6_FREEBIND,
		       &on, sizeof(on)) ||
	    without_checksum(fd, four) || bind(fd, &address.any, bytes)) {
		err = -errno;
		close(fd);
	}
	return err ? err : fd;
}

int nic_socket_send(int fd, const struct esc_address *to, uint16_t port, const void *datagram,
		    size_t bytes)
{
	union nic_sockaddr address;
	socklen_t length = sockaddr_of(to, port, &address);

	return sendto(fd, datagram, bytes, MSG_DONTWAIT, &address.any, length) < 0 ? -errno : 0;
}

bool nic_socket_receive(int fd, struct esc_nic_probe *out, struct esc_address *from)
{
	union nic_sockaddr address = {};
	socklen_t bytes = sizeof(address);
	ssize_t got =
		recvfrom(fd, out, sizeof(*out), MSG_DONTWAIT | MSG_TRUNC, &address.any, &bytes);

	if (got < 0)
		return false;
	memset(from, 0, sizeof(*from));
	if (address.any.sa_family == AF_INET) {
		memcpy(from->bytes, mapped, sizeof(mapped));
		memcpy(from->bytes + 12, &address.four.sin_addr, 4);
	} else {
		memcpy(from->bytes, &address.six.sin6_addr, 16);
	}
	if (got != sizeof(*out))
		memset(out, 0, sizeof(*out)); /* no reply of ours, but read */
	return true;
}
