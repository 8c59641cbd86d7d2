// SPDX-License-Identifier: BSD-2-Clause
/* Probes on the routes of the pairs of addresses. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "internal.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#define UDP_NO_CHECK6_RX 102
#endif

/* --- sockets --- */

/* Bound to @device and @source; -errno. */
static int socket_open(const char *device, const struct esc_address *source)
{
	bool four = address_is_ipv4(source);
	struct sockaddr_storage address;
	socklen_t bytes = address_to_socket(source, 0, four, &address);
	int on = 1, level = four ? IPPROTO_IP : IPPROTO_IPV6, err;
	int fd = socket(four ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	err = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, strlen(device) + 1);
	/* An IPv6 address is removed while its NIC is down. */
	if (!err)
		err = setsockopt(fd, level, four ? IP_FREEBIND : IPV6_FREEBIND, &on, sizeof(on));
	/* The program that reflects a probe does not update its checksum: there is none. */
	if (!err && four)
		err = setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
	else if (!err)
		err = setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)) ||
		      setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on));
	if (!err)
		err = bind(fd, (struct sockaddr *)&address, bytes);
	if (err) {
		err = -errno;
		close(fd);
	}
	return err ? err : fd;
}

static bool socket_send(int fd, const struct esc_address *to, uint16_t port, struct iovec *parts,
			size_t count)
{
	struct sockaddr_storage address;
	struct msghdr message = {
		.msg_name = &address,
		.msg_namelen = address_to_socket(to, port, address_is_ipv4(to), &address),
		.msg_iov = parts,
		.msg_iovlen = count,
	};

	return sendmsg(fd, &message, MSG_DONTWAIT) >= 0;
}

void nic_sockets_close(struct nic_watch *watch)
{
	for (size_t i = 0; i < ESC_NIC_LOCAL_MAX; i++)
		for (size_t k = 0; k < 2; k++) {
			if (watch->sockets[i][k] >= 0)
				close(watch->sockets[i][k]);
			watch->sockets[i][k] = -1;
		}
}

/* --- probes --- */

static bool leaves_second(unsigned int route)
{
	return ESC_NIC_LEAVES_SECOND >> route & 1;
}

static const struct esc_address *route_peer(const struct nic_used *used, unsigned int route)
{
	return ESC_NIC_REACHES_SECOND >> route & 1 ? &used->peer_second : &used->peer_first;
}

static const struct esc_address *route_source(const struct nic_watch *watch,
					      const struct nic_used *used, unsigned int route)
{
	const struct esc_nic_local *local = &watch->plan.locals[used->local].entry;

	return leaves_second(route) ? &local->second : &local->first;
}

/* The socket of the NIC that @route leaves by, opened when needed; less than 0: none. */
static int route_socket(struct nic_watch *watch, const struct nic_used *used, unsigned int route)
{
	static const struct esc_address none;
	bool second = leaves_second(route);
	int *fd = &watch->sockets[used->local][second];
	const struct esc_address *source = route_source(watch, used, route);

	if (*fd < 0 && memcmp(source, &none, sizeof(none)))
		*fd = socket_open(nic_used_device(watch, used, second)->name, source);
	return *fd;
}

void nic_probe_send(struct nic_watch *watch, unsigned int number, uint64_t now)
{
	struct nic_used *used = &watch->facts.used[number];

	for (unsigned int route = 0; route < ESC_NIC_ROUTES; route++) {
		int fd = route_socket(watch, used, route);
		bool second = leaves_second(route);
		struct esc_nic_signed_probe input = {
			.src = *route_source(watch, used, route),
			.dst = *route_peer(used, route),
			.probe =
				{
					.magic = htobe32(ESC_NIC_MAGIC),
					.min_version = nic_version_to(watch->kernel,
								      route_peer(used, route), now),
					.version = ESC_NIC_VERSION,
					.kind = ESC_NIC_REQUEST,
					.cookie = htobe64(watch->cookie),
					.route = htobe32(number * ESC_NIC_ROUTES + route),
					.sequence = htobe32(
						nicguard_send(&used->routes[route].probes, now)),
					.number_ns = htobe64(now + watch->number_offset_ns),
				},
		};

		if (fd < 0)
			continue;
		/* A NIC that is dead is reported by the other one. */
		if (nic_used_device(watch, used, !second)->guard.down) {
			input.probe.flags = ESC_NIC_REPORTS_DEAD;
			input.probe.subject = second ? used->key.src
						     : watch->plan.locals[used->local].entry.second;
		}
		nic_sign_probe(used->secret, watch->key_flags, &input);
		socket_send(fd, route_peer(used, route), watch->port + ESC_NIC_PORT_PROBE,
			    &(struct iovec){&input.probe, sizeof(input.probe)}, 1);
		watch->facts.probes_sent++;
	}
}

static void receive_reply(struct nic_watch *watch, struct esc_nic_signed_probe *input)
{
	const struct esc_nic_probe *probe = &input->probe;
	uint32_t number = be32toh(probe->route), route = number % ESC_NIC_ROUTES;
	struct nic_used *used = &watch->facts.used[number / ESC_NIC_ROUTES % NIC_USED_MAX];
	struct nicguard_probes *probes = &used->routes[route].probes;

	if (be64toh(probe->cookie) != watch->cookie || probe->kind != ESC_NIC_REPLY ||
	    number >= watch->facts.used_count * ESC_NIC_ROUTES ||
	    memcmp(&input->src, route_peer(used, route), sizeof(input->src)))
		return;
	input->dst = *route_source(watch, used, route);
	if (!nic_probe_is_valid(used->secret, watch->key_flags, input) ||
	    !nicguard_reply(probes, be32toh(probe->sequence)))
		return;
	used->routes[route].rtt_ns = time_local_ns() - probes->replied_ns;
	watch->facts.probes_replied++;
}

#define NIC_RECEIVE_MAX 256

void nic_probe_receive(struct nic_watch *watch, int fd)
{
	/* Others may send without end; what is left waits for the next turn. */
	for (unsigned int i = 0; fd >= 0 && i < NIC_RECEIVE_MAX; i++) {
		struct sockaddr_storage storage = {};
		struct sockaddr *address = (struct sockaddr *)&storage;
		socklen_t bytes = sizeof(storage);
		struct esc_nic_signed_probe input;
		ssize_t got = recvfrom(fd, &input.probe, sizeof(input.probe),
				       MSG_DONTWAIT | MSG_TRUNC, address, &bytes);

		if (got < 0)
			return;
		if (got == sizeof(input.probe) && address_of_socket(address, &input.src))
			receive_reply(watch, &input);
	}
}
