// SPDX-License-Identifier: BSD-2-Clause
/* Probes on the routes of the pairs of addresses, and copies of what a failed NIC may have lost. */
#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "dataplane/dataplane.h"
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

/* --- what a dead NIC may have lost last --- */

/* Older than that, a sender has retransmitted it, or waits for nothing. */
#define RESEND_AGE_NS 1000000000ull
#define SWEEP_AGE_NS 10000000000ull
#define OUTER_V4_BYTES (28 + sizeof(struct esc_nic_shim))
#define OUTER_V6_BYTES (48 + sizeof(struct esc_nic_shim))

struct resend {
	int fd; /* of the NIC that is left by */
	const struct esc_address *from, *to;
	const struct nic_watch *watch;
	const struct nic_used *used;
	uint16_t port;
	unsigned int mtu;
	uint64_t not_after_ns; /* newer packets already took the new route */
};

/* An IP packet with a UDP header and a BTH, behind a token. */
static bool resend(const struct resend *by, void *packet, size_t bytes)
{
	const struct nic_watch *watch = by->watch;
	struct esc_nic_signed_data input = {
		.src = *by->from,
		.dst = *by->to,
		.inner_src = by->used->key.src,
		.inner_dst = by->used->key.dst,
	};
	struct iovec parts[] = {{&input.shim, sizeof(input.shim)}, {packet, bytes}};

	input.shim.min_version = nic_version_to(watch->kernel, by->to, time_local_ns());
	nic_sign_data(by->used->secret, watch->key_flags, packet, address_is_ipv4(by->to) ? 28 : 48,
		      time_local_ns() + watch->number_offset_ns, &input);
	return socket_send(by->fd, by->to, by->port, parts, 2);
}

/* Sends the packets of one map between two addresses, in UDP. How many were sent. */
static unsigned int resend_map(int map_fd, size_t most, const struct esc_nic_route_key *ends,
			       const struct resend *by)
{
	static _Thread_local struct esc_nic_request value; /* the longest of all maps */
	const struct esc_nic_retained *kept = &value.retained;
	unsigned int outer = address_is_ipv4(by->to) ? OUTER_V4_BYTES : OUTER_V6_BYTES, count = 0;
	struct esc_nic_retained_key at;
	uint64_t now = time_local_ns();

	for (void *previous = NULL; !bpf_map_get_next_key(map_fd, previous, &at); previous = &at) {
		if (memcmp(&at.src, &ends->src, sizeof(at.src)) ||
		    memcmp(&at.dst, &ends->dst, sizeof(at.dst)) ||
		    bpf_map_lookup_elem(map_fd, &at, &value))
			continue;
		/* One that is just being written is left out: its queue pair works. */
		if (kept->begun != kept->ended || !kept->bytes || kept->bytes > most ||
		    kept->bytes + outer > by->mtu || kept->sent_ktime_ns > by->not_after_ns ||
		    now - kept->sent_ktime_ns > RESEND_AGE_NS)
			continue;
		count += resend(by, value.packet, kept->bytes);
	}
	return count;
}

void nic_probe_resend(struct nic_watch *watch, struct nic_used *used)
{
	const struct esc_nic_local *local = &watch->plan.locals[used->local].entry;
	const struct nic_kernel *kernel = watch->kernel;
	struct resend by = {
		.fd = route_socket(watch, used, used->current),
		.from = route_source(watch, used, used->current),
		.to = route_peer(used, used->current),
		.watch = watch,
		.used = used,
		.port = watch->port + ESC_NIC_PORT_DATA,
		.mtu = leaves_second(used->current) ? local->second_mtu : local->first_mtu,
		.not_after_ns = used->since_ns,
	};

	if (!used->resends || by.fd < 0)
		return;
	used->resends--;
	/* Acknowledgements first: they are short, and may be all that is missing. */
	if (kernel->acks_fd >= 0)
		watch->facts.resent +=
			resend_map(kernel->acks_fd, ESC_NIC_ACK_BYTES, &used->key, &by);
	if (kernel->requests_fd >= 0)
		watch->facts.resent +=
			resend_map(kernel->requests_fd, ESC_NIC_REQUEST_BYTES, &used->key, &by);
}

static bool is_recent(const void *key, void *map_fd)
{
	static _Thread_local struct esc_nic_request value;

	return bpf_map_lookup_elem(*(int *)map_fd, key, &value) ||
	       (int64_t)(time_local_ns() - value.retained.sent_ktime_ns) < (int64_t)SWEEP_AGE_NS;
}

void nic_resend_sweep(const struct nic_kernel *kernel)
{
	int fds[] = {kernel->acks_fd, kernel->requests_fd};

	for (size_t i = 0; i < 2; i++)
		mapsweep(fds[i], sizeof(struct esc_nic_retained_key), is_recent, &fds[i]);
}
