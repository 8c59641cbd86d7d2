// SPDX-License-Identifier: BSD-2-Clause
/* Probes on the routes of the pairs of addresses, and copies of what a failed NIC may have lost. */
#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "watch.h"

static int route_socket(struct nic_watch *watch, const struct nic_used *used, unsigned int route)
{
	struct nic_sockets *sockets = &watch->sockets[used->home];
	const struct esc_nic_local *home = &watch->plan.homes[used->home].is;
	bool second = route_leaves_second(route);
	int *fd = second ? &sockets->second : &sockets->first;
	const struct esc_address *source = second ? &home->second : &home->first;

	if (*fd < 0 && nic_address_is_set(source))
		*fd = nic_socket_open(nic_used_device(watch, used, second)->name, source);
	return *fd;
}

void nic_probe_send(struct nic_watch *watch, unsigned int number, uint64_t now)
{
	struct nic_used *used = &watch->used[number];

	for (unsigned int route = 0; route < ESC_NIC_ROUTES; route++) {
		int fd = route_socket(watch, used, route);
		bool second = route_leaves_second(route);
		struct esc_nic_probe probe = {
			.magic = htobe32(ESC_NIC_MAGIC),
			.version = ESC_NIC_VERSION,
			.kind = ESC_NIC_REQUEST,
			.cookie = htobe64(watch->cookie),
			.route = htobe32(number * ESC_NIC_ROUTES + route),
			.sequence = htobe32(nicguard_send(&used->routes[route].probes, now)),
		};

		if (fd < 0)
			continue;
		/* A NIC that is dead is reported by the other one. */
		if (nic_used_device(watch, used, !second)->guard.down) {
			probe.flags = ESC_NIC_REPORTS_DEAD;
			probe.subject =
				second ? used->key.src : watch->plan.homes[used->home].is.second;
		}
		nic_socket_send(fd,
				route_reaches_second(route) ? &used->peer_second : &used->peer_first,
				watch->port + ESC_NIC_PORT_PROBE, &probe, sizeof(probe));
		watch->probes_sent++;
	}
}

void nic_probe_resend(struct nic_watch *watch, struct nic_used *used)
{
	const struct esc_nic_local *home = &watch->plan.homes[used->home].is;
	bool second = route_leaves_second(used->taken);
	struct nic_resend by = {
		.fd = route_socket(watch, used, used->taken),
		.to = route_reaches_second(used->taken) ? &used->peer_second : &used->peer_first,
		.port = watch->port + (nic_used_device(watch, used, false)->guard.down
					       ? ESC_NIC_PORT_DEAD
					       : ESC_NIC_PORT_DATA),
		.mtu = second ? home->second_mtu : home->first_mtu,
		.not_after_ns = used->since_ns,
	};

	if (!used->resends || by.fd < 0)
		return;
	used->resends--;
	watch->resent += nic_resend(watch->kernel, &used->key, &by);
}

static void take_reply(struct nic_watch *watch, const struct esc_nic_probe *probe,
		       const struct esc_address *from, uint64_t now)
{
	uint32_t route = be32toh(probe->route), sequence = be32toh(probe->sequence);
	struct nic_used *used = &watch->used[route / ESC_NIC_ROUTES % NIC_USED_MAX];
	const struct esc_address *to =
		route_reaches_second(route % ESC_NIC_ROUTES) ? &used->peer_second : &used->peer_first;
	struct nicguard_probes *probes = &used->routes[route % ESC_NIC_ROUTES].probes;

	if (be64toh(probe->cookie) != watch->cookie || probe->kind != ESC_NIC_REPLY ||
	    route >= watch->used_count * ESC_NIC_ROUTES || memcmp(from, to, sizeof(*from)))
		return;
	if (!nicguard_reply(probes, sequence))
		return;
	used->routes[route % ESC_NIC_ROUTES].rtt_ns = now - probes->replied_ns;
	watch->probes_answered++;
}

void nic_probe_receive(struct nic_watch *watch, int fd)
{
	struct esc_nic_probe probe;
	struct esc_address from;

	while (fd >= 0 && nic_socket_receive(fd, &probe, &from))
		take_reply(watch, &probe, &from, time_local_ns());
}

void nic_sockets_close(struct nic_watch *watch)
{
	for (size_t i = 0; i < ESC_NIC_LOCAL_MAX; i++) {
		if (watch->sockets[i].first >= 0)
			close(watch->sockets[i].first);
		if (watch->sockets[i].second >= 0)
			close(watch->sockets[i].second);
		watch->sockets[i] = (struct nic_sockets){-1, -1};
	}
}
