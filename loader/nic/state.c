// SPDX-License-Identifier: BSD-2-Clause
/* Which devices and routes are up, and what the programs do about it. */
#include <bpf/bpf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "watch.h"

/* No reason for `attention` is left for so long: latches and leases are over. */
#define NIC_QUIET_NS (ESC_NIC_LATCH_NS + ESC_NIC_LEASE_NS)
/* Polls in which what may be lost is sent once more: the first of them may be lost as well. */
#define NIC_RESENDS 3

/* A pipe that is full loses the report: what is true now is in the reply to `failover`. */
static void report(struct nic_watch *watch, const struct nic_report *what)
{
	if (write(watch->report_fds[1], what, sizeof(*what)) < 0)
		return;
}

/* --- devices --- */

static struct nic_device *device_find(struct nic_watch *watch, const char *name)
{
	for (size_t i = 0; i < watch->device_count; i++)
		if (!strcmp(watch->devices[i].name, name))
			return &watch->devices[i];
	return NULL;
}

void nic_device_add(struct nic_watch *watch, const char *name)
{
	if (!device_find(watch, name))
		memcpy(watch->devices[watch->device_count++].name, name, IF_NAMESIZE);
}

/* Without RTNL, which others may hold for long. */
static void device_read(struct nic_watch *watch, struct nic_device *device)
{
	struct ifreq request = {};

	memcpy(request.ifr_name, device->name, IF_NAMESIZE);
	if (ioctl(watch->query_fd, SIOCGIFINDEX, &request)) {
		device->ifindex = 0;
		device->why = NIC_REASON_GONE;
		return;
	}
	device->ifindex = request.ifr_ifindex;
	if (ioctl(watch->query_fd, SIOCGIFFLAGS, &request))
		return;
	/* IFF_RUNNING may lag behind the carrier by a second. */
	device->why = !(request.ifr_flags & IFF_UP) ? NIC_REASON_ADMIN
		      : !(request.ifr_flags & IFF_RUNNING) ||
				      nic_kernel_is_dead(watch->kernel, device->ifindex)
			      ? NIC_REASON_CARRIER
			      : NIC_REASON_NONE;
}

/* tc egress saw it dead, maybe for so short a time that nothing shows it now. */
static bool device_was_seen_dead(struct nic_watch *watch, const struct nic_device *device,
				 uint64_t now)
{
	for (size_t i = 0; i < watch->plan.home_count; i++) {
		const struct nic_home *home = &watch->plan.homes[i];
		struct esc_nic_local is;

		if (!(home->is.flags & ESC_NIC_PAIRED) ||
		    strcmp(watch->plan.pairs[home->pair].first, device->name) ||
		    bpf_map_lookup_elem(watch->kernel->local_fd, &home->address, &is))
			continue;
		if (is.seen_dead_ktime_ns && now - is.seen_dead_ktime_ns < ESC_NIC_LATCH_NS)
			return true;
	}
	return false;
}

static void device_evaluate(struct nic_watch *watch, struct nic_device *device, uint64_t now)
{
	struct nic_report what = {.kind = NIC_REPORT_DOWN, .lasted_ns = 0};
	uint64_t hold_ns = device->guard.down ? device->guard.hold_ns : 0;
	enum nic_reason why;

	device_read(watch, device);
	why = device->why;
	if (why == NIC_REASON_NONE && device_was_seen_dead(watch, device, now))
		why = NIC_REASON_CARRIER;
	if (why == NIC_REASON_NONE) {
		if (!nicguard_up(&device->guard, now))
			return;
		what.kind = NIC_REPORT_RETURN;
		what.lasted_ns = hold_ns;
	} else if (!nicguard_fall(&device->guard, watch->return_after_ns, now)) {
		return;
	}
	what.why = why;
	what.hold_ns = device->guard.hold_ns;
	memcpy(what.device, device->name, sizeof(what.device));
	report(watch, &what);
}

/* --- our addresses, as the programs see them --- */

static void home_write(struct nic_watch *watch, struct nic_home *home)
{
	const struct nic_pair *pair = &watch->plan.pairs[home->pair];
	const struct nic_device *first = device_find(watch, pair->first);
	const struct nic_device *second = device_find(watch, pair->second);
	struct esc_nic_local was, is = home->is;
	bool there;

	is.flags &= ~(ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN);
	if (is.flags & ESC_NIC_PAIRED) {
		is.flags |= first->guard.down ? ESC_NIC_FIRST_DOWN : 0;
		is.flags |= second->guard.down ? ESC_NIC_SECOND_DOWN : 0;
		is.first_ifindex = first->ifindex;
		is.second_ifindex = second->ifindex;
	}
	there = !bpf_map_lookup_elem(watch->kernel->local_fd, &home->address, &was);
	is.seen_dead_ktime_ns = there ? was.seen_dead_ktime_ns : 0;
	home->is = is;
	if (!there || memcmp(&was, &is, sizeof(is)))
		bpf_map_update_elem(watch->kernel->local_fd, &home->address, &is, BPF_ANY);
}

/* --- routes --- */

const struct nic_device *nic_used_device(struct nic_watch *watch, const struct nic_used *used,
					 bool second)
{
	const struct nic_pair *pair = &watch->plan.pairs[watch->plan.homes[used->home].pair];

	return device_find(watch, second ? pair->second : pair->first);
}

static bool peer_is_dead(const struct nic_watch *watch, const struct esc_address *address,
			 uint64_t now)
{
	struct esc_nic_peer peer;

	return !bpf_map_lookup_elem(watch->kernel->peers_fd, address, &peer) &&
	       (int64_t)(peer.dead_ktime_ns - now) > 0;
}

/* What a daemon before us found dead is dead until probes find it well. */
void nic_used_begin(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	struct esc_nic_routes routes = {.usable = ESC_NIC_ROUTES_ALL};

	bpf_map_lookup_elem(watch->kernel->routes_fd, &used->key, &routes);
	used->usable = ESC_NIC_ROUTES_ALL;
	used->taken = ESC_NIC_ROUTE_DIRECT;
	used->since_ns = now;
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		nicguard_begin(&used->routes[i].probes, now);
		if (!(routes.usable >> i & 1))
			nicguard_fall(&used->routes[i].guard, watch->return_after_ns, now);
	}
}

static uint32_t evaluate_routes(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	uint64_t newest_ns = 0;
	uint32_t usable = 0;

	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++)
		if (used->routes[i].probes.replied_ns > newest_ns)
			newest_ns = used->routes[i].probes.replied_ns;
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		struct nic_route *route = &used->routes[i];

		if (nicguard_is_silent(&route->probes, newest_ns, watch->dead_after_ns))
			nicguard_fall(&route->guard, watch->return_after_ns, now);
		else if (route->probes.unreplied < NICGUARD_UNANSWERED)
			nicguard_up(&route->guard, now);
		usable |= route->guard.down ? 0 : 1u << i;
	}
	return usable;
}

/* As nic_choose() of bpf/nic/egress.bpf.h does. @why: the reason against the direct one. */
static enum esc_nic_route choose_route(struct nic_watch *watch, const struct nic_used *used,
				      uint64_t now, enum nic_reason *why)
{
	const struct nic_device *first = nic_used_device(watch, used, false);
	const struct nic_device *second = nic_used_device(watch, used, true);
	bool peer_first = peer_is_dead(watch, &used->key.dst, now) ||
			  peer_is_dead(watch, &used->peer_first, now);
	uint32_t allowed = ESC_NIC_ROUTES_ALL, left;

	if (first->guard.down)
		allowed &= ESC_NIC_LEAVES_SECOND;
	if (second->guard.down)
		allowed &= ~ESC_NIC_LEAVES_SECOND;
	if (peer_first)
		allowed &= ESC_NIC_REACHES_SECOND;
	if (peer_is_dead(watch, &used->peer_second, now))
		allowed &= ~ESC_NIC_REACHES_SECOND;
	left = used->usable & allowed ? used->usable & allowed : allowed;
	*why = first->guard.down ? (first->why ? first->why : NIC_REASON_CARRIER)
	       : peer_first	 ? NIC_REASON_PEER
				 : NIC_REASON_SILENT;
	return left ? (enum esc_nic_route)__builtin_ctz(left) : ESC_NIC_ROUTE_DIRECT;
}

static void used_evaluate(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	uint32_t usable = evaluate_routes(watch, used, now);
	enum esc_nic_route route;
	enum nic_reason why;
	bool direct;

	if (usable != used->usable) {
		struct esc_nic_routes routes = {.usable = usable};

		used->usable = usable;
		bpf_map_update_elem(watch->kernel->routes_fd, &used->key, &routes, BPF_ANY);
	}
	route = choose_route(watch, used, now, &why);
	if (route == used->taken)
		return;
	direct = route == ESC_NIC_ROUTE_DIRECT;
	report(watch, &(struct nic_report){
			      .kind = direct ? NIC_REPORT_BACK : NIC_REPORT_FAILOVER,
			      .why = direct ? used->why : why,
			      .key = used->key,
			      .from = used->taken,
			      .to = route,
			      .silent_ns = now - used->routes[used->taken].probes.replied_ns,
			      .lasted_ns = now - used->since_ns,
		      });
	watch->failovers[why] += !direct;
	used->taken = route;
	used->why = direct ? NIC_REASON_NONE : why;
	used->since_ns = now;
	used->resends = watch->resends && !direct ? NIC_RESENDS : 0;
}

/* --- all of it --- */

static bool all_is_up(const struct nic_watch *watch)
{
	for (size_t i = 0; i < watch->device_count; i++)
		if (watch->devices[i].guard.down)
			return false;
	for (size_t i = 0; i < watch->used_count; i++)
		if (watch->used[i].usable != ESC_NIC_ROUTES_ALL ||
		    watch->used[i].taken != ESC_NIC_ROUTE_DIRECT)
			return false;
	return true;
}

/* Without attention tc skips all this: only when everything has been up for a while. */
static void set_attention(struct nic_watch *watch, uint64_t now)
{
	uint32_t *attention = &watch->kernel->control->attention;

	if (!all_is_up(watch)) {
		watch->quiet_since_ns = 0;
		__atomic_store_n(attention, 1, __ATOMIC_RELEASE);
		return;
	}
	if (!__atomic_load_n(attention, __ATOMIC_ACQUIRE)) {
		watch->quiet_since_ns = 0;
		return;
	}
	if (!watch->quiet_since_ns)
		watch->quiet_since_ns = now;
	if (now - watch->quiet_since_ns > NIC_QUIET_NS)
		__atomic_store_n(attention, 0, __ATOMIC_RELEASE);
}

void nic_evaluate(struct nic_watch *watch, uint64_t now)
{
	unsigned int was[2 * NIC_PAIRS_MAX];
	bool other = false;

	for (size_t i = 0; i < watch->device_count; i++) {
		was[i] = watch->devices[i].ifindex;
		device_evaluate(watch, &watch->devices[i], now);
		other = other || was[i] != watch->devices[i].ifindex;
	}
	if (other) /* they are bound to an interface that is no more */
		nic_sockets_close(watch);
	for (size_t i = 0; i < watch->plan.home_count; i++)
		home_write(watch, &watch->plan.homes[i]);
	for (size_t i = 0; i < watch->used_count; i++)
		used_evaluate(watch, &watch->used[i], now);
	set_attention(watch, now);
}
