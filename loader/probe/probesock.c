// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fleet/fleet.h"

uint16_t probe_source_port(uint64_t one_id, uint64_t other_id)
{
	uint64_t hash = (one_id ^ other_id) * 0x9e3779b97f4a7c15ull;

	return (uint16_t)(PROBESOCK_PORT_BASE + (hash >> 50)); /* 14 bits */
}

socklen_t probe_sockaddr(const struct esc_address *address, uint16_t port, bool ipv4,
			 struct sockaddr_storage *out)
{
	struct sockaddr_in *four = (struct sockaddr_in *)out;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (ipv4) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, address->bytes + 12, 4);
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	memcpy(&six->sin6_addr, address->bytes, 16);
	return sizeof(*six);
}

int probesock_open(const struct probe_route *route)
{
	bool ipv4 = roster_is_ipv4(&route->to);
	const struct {
		int level, name, value;
	} options[] = {
		{SOL_SOCKET, SO_MARK, (int)ESC_PROBE_MARK},
		/* Edges may share a source port: each has its own destination. */
		{SOL_SOCKET, SO_REUSEADDR, 1},
		{ipv4 ? SOL_SOCKET : IPPROTO_UDP, ipv4 ? SO_NO_CHECK : UDP_NO_CHECK6_TX, 1},
		{ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
		 ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO},
		/* XDP takes the replies; what comes here all the same is nobody's. */
		{SOL_SOCKET, SO_RCVBUF, 1},
	};
	struct sockaddr_storage address;
	socklen_t bytes;
	int fd, err = 0;

	fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; !err && i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(options[i].value)))
			err = -errno;
	if (!err && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, route->interface,
			       strlen(route->interface) + 1))
		err = -errno;
	bytes = probe_sockaddr(&route->from, route->from_port, ipv4, &address);
	if (!err && bind(fd, (struct sockaddr *)&address, bytes))
		err = -errno;
	bytes = probe_sockaddr(&route->to, route->to_port, ipv4, &address);
	if (!err && connect(fd, (struct sockaddr *)&address, bytes))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

void probe_datagram_init(struct probe_datagram *datagram, uint64_t self, uint64_t target,
			 uint64_t epoch, uint8_t flags)
{
	struct esc_probe *probe = &datagram->probe;

	memset(datagram, 0, sizeof(*datagram));
	datagram->bth.pkey = htobe16(0xffff);
	probe->magic = htobe32(ESC_PROBE_MAGIC);
	probe->version = ESC_PROBE_VERSION;
	probe->flags = flags;
	probe->sender = htobe64(self);
	probe->target = htobe64(target);
	probe->epoch = htobe64(epoch);
	probe->about_age_us = htobe32(ESC_PROBE_NEVER);
	probe->received_age_us = htobe32(ESC_PROBE_NEVER);
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
