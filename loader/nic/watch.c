// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "internal.h"
#include "net/rtnl.h"

#define NIC_NICE (-5)
#define NIC_NEWS_MAX 256
#define NIC_PROBES_MOST_PPS 5000 /* of this host; more ways are probed less often */
/* No reason for `attention` is left for so long: latches and leases are over. */
#define NIC_QUIET_NS (ESC_NIC_LATCH_NS + ESC_NIC_LEASE_NS)
/* How often carriers and the programs' word are looked at, while queue pairs go by the NICs. */
#define NIC_LOOK_NS 5000000ull
/* Turns in which what may be lost is sent once more: the first of them may be lost as well. */
#define NIC_RESENDS 3

struct nic_sockets {
	int first, second;
};

struct nic_watch {
	pthread_t thread;
	pthread_mutex_t lock; /* all below; the thread has it but while it waits */
	bool ends;
	int wake_fd, news_fd, links_fd, ask_fd;
	const struct nic_kernel *kernel;
	uint16_t port;
	uint64_t probe_interval_ns, dead_after_ns, return_after_ns;
	uint64_t cookie, due_ns, quiet_since_ns;
	uint32_t changes_seen; /* of the programs' word */
	bool resends;
	struct nic_plan plan;
	struct nic_sockets sockets[ESC_NIC_LOCAL_MAX];
	struct nic_device devices[2 * NIC_PAIRS_MAX];
	size_t device_count;
	struct nic_used used[NIC_USED_MAX];
	size_t used_count, left_out;
	struct nic_news news[NIC_NEWS_MAX];
	size_t news_first, news_count;
	uint64_t failovers[NIC_WHYS];
	uint64_t probes_sent, probes_answered, resent;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *nic_why_name(enum nic_why why)
{
	static const char *const names[NIC_WHYS] = {"none", "carrier", "admin",
						    "gone", "silent",  "peer"};

	return names[why];
}

const char *nic_way_name(enum esc_nic_route way)
{
	static const char *const names[ESC_NIC_ROUTES] = {"direct", "second_to_second",
							  "second_to_first", "first_to_second"};

	return names[way];
}

/* --- news --- */

/* A full list loses the oldest: what is true now is in the report. */
static void tell(struct nic_watch *watch, const struct nic_news *news)
{
	uint64_t one = 1;

	if (watch->news_count == NIC_NEWS_MAX) {
		watch->news_first = (watch->news_first + 1) % NIC_NEWS_MAX;
		watch->news_count--;
	}
	watch->news[(watch->news_first + watch->news_count++) % NIC_NEWS_MAX] = *news;
	if (write(watch->news_fd, &one, sizeof(one)) < 0)
		return; /* it counts up to 2^64 */
}

static void report_device(struct nic_watch *watch, enum nic_news_kind kind,
			  const struct nic_device *device, uint64_t lasted_ns)
{
	struct nic_news news = {
		.kind = kind,
		.why = device->why,
		.hold_ns = device->guard.hold_ns,
		.lasted_ns = lasted_ns,
	};

	memcpy(news.device, device->name, sizeof(news.device));
	tell(watch, &news);
}

/* --- devices --- */

static struct nic_device *device_find(struct nic_watch *watch, const char *name)
{
	for (size_t i = 0; i < watch->device_count; i++)
		if (!strcmp(watch->devices[i].name, name))
			return &watch->devices[i];
	return NULL;
}

static void device_add(struct nic_watch *watch, const char *name)
{
	if (!device_find(watch, name))
		memcpy(watch->devices[watch->device_count++].name, name, IF_NAMESIZE);
}

/* Without RTNL, which others may hold for long. */
static void device_look(struct nic_watch *watch, struct nic_device *device)
{
	struct ifreq request = {};

	memcpy(request.ifr_name, device->name, IF_NAMESIZE);
	if (ioctl(watch->ask_fd, SIOCGIFINDEX, &request)) {
		device->ifindex = 0;
		device->why = NIC_WHY_GONE;
		return;
	}
	device->ifindex = request.ifr_ifindex;
	if (ioctl(watch->ask_fd, SIOCGIFFLAGS, &request))
		return;
	/* IFF_RUNNING may lag behind the carrier by a second. */
	device->why = !(request.ifr_flags & IFF_UP) ? NIC_WHY_ADMIN
		      : !(request.ifr_flags & IFF_RUNNING) ||
				      nic_kernel_is_dead(watch->kernel, device->ifindex)
			      ? NIC_WHY_CARRIER
			      : NIC_WHY_NONE;
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

static void device_judge(struct nic_watch *watch, struct nic_device *device, uint64_t now)
{
	uint64_t fell_ns = device->guard.down ? device->guard.hold_ns : 0;

	device_look(watch, device);
	if (device->why == NIC_WHY_NONE && device_was_seen_dead(watch, device, now)) {
		device->why = NIC_WHY_CARRIER;
		if (nicguard_fall(&device->guard, watch->return_after_ns, now))
			report_device(watch, NIC_NEWS_DOWN, device, 0);
		device->why = NIC_WHY_NONE;
		return;
	}
	if (device->why != NIC_WHY_NONE) {
		if (nicguard_fall(&device->guard, watch->return_after_ns, now))
			report_device(watch, NIC_NEWS_DOWN, device, 0);
	} else if (nicguard_up(&device->guard, now)) {
		report_device(watch, NIC_NEWS_RETURN, device, fell_ns);
	}
}

/* --- the programs' words --- */

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

static bool peer_is_dead(const struct nic_watch *watch, const struct esc_address *address,
			 uint64_t now)
{
	struct esc_nic_peer peer;

	return !bpf_map_lookup_elem(watch->kernel->peers_fd, address, &peer) &&
	       (int64_t)(peer.dead_ktime_ns - now) > 0;
}

/* --- ways --- */

static const struct nic_device *used_device(struct nic_watch *watch, const struct nic_used *used,
					    bool second)
{
	const struct nic_pair *pair = &watch->plan.pairs[watch->plan.homes[used->home].pair];

	return device_find(watch, second ? pair->second : pair->first);
}

static bool way_leaves_second(unsigned int way)
{
	return ESC_NIC_LEAVES_SECOND >> way & 1;
}

static bool way_reaches_second(unsigned int way)
{
	return ESC_NIC_REACHES_SECOND >> way & 1;
}

static uint32_t used_judge_ways(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	uint64_t newest_ns = 0;
	uint32_t usable = 0;

	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++)
		if (used->ways[i].probes.replied_ns > newest_ns)
			newest_ns = used->ways[i].probes.replied_ns;
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		struct nic_way *way = &used->ways[i];

		if (nicguard_is_silent(&way->probes, newest_ns, watch->dead_after_ns))
			nicguard_fall(&way->guard, watch->return_after_ns, now);
		else if (way->probes.unreplied < NICGUARD_UNANSWERED)
			nicguard_up(&way->guard, now);
		usable |= way->guard.down ? 0 : 1u << i;
	}
	return usable;
}

/* What nic_choose() in bpf/nic/egress.bpf.h makes of it. @why: what speaks against the direct one.
 */
static enum esc_nic_route used_choose(struct nic_watch *watch, const struct nic_used *used,
				      uint64_t now, enum nic_why *why)
{
	const struct nic_device *first = used_device(watch, used, false);
	const struct nic_device *second = used_device(watch, used, true);
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
	*why = first->guard.down ? (first->why ? first->why : NIC_WHY_CARRIER)
	       : peer_first	 ? NIC_WHY_PEER
				 : NIC_WHY_SILENT;
	return left ? (enum esc_nic_route)__builtin_ctz(left) : ESC_NIC_ROUTE_DIRECT;
}

static void used_tell(struct nic_watch *watch, struct nic_used *used, enum esc_nic_route way,
		      enum nic_why why, uint64_t now)
{
	struct nic_news news = {
		.kind = way == ESC_NIC_ROUTE_DIRECT ? NIC_NEWS_BACK : NIC_NEWS_FAILOVER,
		.why = way == ESC_NIC_ROUTE_DIRECT ? used->why : why,
		.key = used->key,
		.from = used->taken,
		.to = way,
		.usable = used->usable,
		.silent_ns = now - used->ways[used->taken].probes.replied_ns,
		.lasted_ns = now - used->since_ns,
	};

	if (news.kind == NIC_NEWS_FAILOVER)
		watch->failovers[why]++;
	tell(watch, &news);
	used->taken = way;
	used->why = way == ESC_NIC_ROUTE_DIRECT ? NIC_WHY_NONE : why;
	used->since_ns = now;
	used->resends = watch->resends && way != ESC_NIC_ROUTE_DIRECT ? NIC_RESENDS : 0;
}

static void used_judge(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	uint32_t usable = used_judge_ways(watch, used, now);
	enum esc_nic_route way;
	enum nic_why why;

	if (usable != used->usable) {
		struct esc_nic_routes ways = {.usable = usable};

		used->usable = usable;
		bpf_map_update_elem(watch->kernel->routes_fd, &used->key, &ways, BPF_ANY);
	}
	way = used_choose(watch, used, now, &why);
	if (way != used->taken)
		used_tell(watch, used, way, why, now);
}

/* --- probes --- */

static int way_socket(struct nic_watch *watch, const struct nic_used *used, unsigned int way)
{
	struct nic_sockets *sockets = &watch->sockets[used->home];
	const struct esc_nic_local *home = &watch->plan.homes[used->home].is;
	bool second = way_leaves_second(way);
	int *fd = second ? &sockets->second : &sockets->first;
	const struct esc_address *source = second ? &home->second : &home->first;

	if (*fd < 0 && nic_address_is_set(source))
		*fd = nic_socket_open(used_device(watch, used, second)->name, source);
	return *fd;
}

/* A NIC that is dead is told of by the other one. */
static void probe_set_subject(struct nic_watch *watch, const struct nic_used *used,
			      unsigned int way, struct esc_nic_probe *probe)
{
	bool second = way_leaves_second(way);

	if (!used_device(watch, used, !second)->guard.down)
		return;
	probe->flags = ESC_NIC_REPORTS_DEAD;
	probe->subject = second ? used->key.src : watch->plan.homes[used->home].is.second;
}

static void used_probe(struct nic_watch *watch, unsigned int number, uint64_t now)
{
	struct nic_used *used = &watch->used[number];

	for (unsigned int way = 0; way < ESC_NIC_ROUTES; way++) {
		int fd = way_socket(watch, used, way);
		struct esc_nic_probe probe = {
			.magic = htobe32(ESC_NIC_MAGIC),
			.version = ESC_NIC_VERSION,
			.kind = ESC_NIC_REQUEST,
			.cookie = htobe64(watch->cookie),
			.route = htobe32(number * ESC_NIC_ROUTES + way),
			.sequence = htobe32(nicguard_send(&used->ways[way].probes, now)),
		};

		if (fd < 0)
			continue;
		probe_set_subject(watch, used, way, &probe);
		nic_socket_send(fd,
				way_reaches_second(way) ? &used->peer_second : &used->peer_first,
				watch->port + ESC_NIC_PORT_PROBE, &probe, sizeof(probe));
		watch->probes_sent++;
	}
}

/* What the way before may have lost last, by the new one. */
static void used_resend(struct nic_watch *watch, struct nic_used *used)
{
	const struct esc_nic_local *home = &watch->plan.homes[used->home].is;
	bool second = way_leaves_second(used->taken);
	struct nic_resend by = {
		.fd = way_socket(watch, used, used->taken),
		.to = way_reaches_second(used->taken) ? &used->peer_second : &used->peer_first,
		.port = watch->port + (used_device(watch, used, false)->guard.down
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
	uint32_t way = be32toh(probe->route), sequence = be32toh(probe->sequence);
	struct nic_used *used = &watch->used[way / ESC_NIC_ROUTES % NIC_USED_MAX];
	const struct esc_address *to =
		way_reaches_second(way % ESC_NIC_ROUTES) ? &used->peer_second : &used->peer_first;
	struct nicguard_probes *probes = &used->ways[way % ESC_NIC_ROUTES].probes;

	if (be64toh(probe->cookie) != watch->cookie || probe->kind != ESC_NIC_REPLY ||
	    way >= watch->used_count * ESC_NIC_ROUTES || memcmp(from, to, sizeof(*from)))
		return;
	if (!nicguard_reply(probes, sequence))
		return;
	used->ways[way % ESC_NIC_ROUTES].rtt_ns = now - probes->replied_ns;
	watch->probes_answered++;
}

static void receive_all(struct nic_watch *watch, int fd)
{
	struct esc_nic_probe probe;
	struct esc_address from;

	while (fd >= 0 && nic_socket_receive(fd, &probe, &from))
		take_reply(watch, &probe, &from, now_ns());
}

static void sockets_close(struct nic_watch *watch)
{
	for (size_t i = 0; i < ESC_NIC_LOCAL_MAX; i++) {
		if (watch->sockets[i].first >= 0)
			close(watch->sockets[i].first);
		if (watch->sockets[i].second >= 0)
			close(watch->sockets[i].second);
		watch->sockets[i] = (struct nic_sockets){-1, -1};
	}
}

/* --- the turn --- */

static bool nothing_is_wrong(const struct nic_watch *watch)
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

/* tc's quick way past all this: it is taken again when nothing was wrong for a while. */
static void set_attention(struct nic_watch *watch, uint64_t now)
{
	uint32_t *attention = &watch->kernel->word->attention;

	if (!nothing_is_wrong(watch)) {
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

static uint64_t interval_ns(const struct nic_watch *watch)
{
	uint64_t least = watch->used_count * ESC_NIC_ROUTES * 1000000000ull / NIC_PROBES_MOST_PPS;

	return watch->probe_interval_ns > least ? watch->probe_interval_ns : least;
}

static void judge(struct nic_watch *watch, uint64_t now)
{
	unsigned int was[2 * NIC_PAIRS_MAX];
	bool other = false;

	for (size_t i = 0; i < watch->device_count; i++) {
		was[i] = watch->devices[i].ifindex;
		device_judge(watch, &watch->devices[i], now);
		other = other || was[i] != watch->devices[i].ifindex;
	}
	if (other) /* they are bound to an interface that is no more */
		sockets_close(watch);
	for (size_t i = 0; i < watch->plan.home_count; i++)
		home_write(watch, &watch->plan.homes[i]);
	for (size_t i = 0; i < watch->used_count; i++)
		used_judge(watch, &watch->used[i], now);
	set_attention(watch, now);
}

/* Between turns: a carrier that is gone, a word of a peer. Nobody else tells it in time. */
static bool something_died(struct nic_watch *watch)
{
	uint32_t changes = __atomic_load_n(&watch->kernel->word->changes, __ATOMIC_RELAXED);
	bool other = changes != watch->changes_seen;

	watch->changes_seen = changes;
	for (size_t i = 0; !other && watch->used_count && i < watch->device_count; i++) {
		const struct nic_device *device = &watch->devices[i];

		other = !device->guard.down && device->ifindex &&
			nic_kernel_is_dead(watch->kernel, device->ifindex);
	}
	return other;
}

static void turn(struct nic_watch *watch, bool at_once)
{
	uint64_t now = now_ns();

	__atomic_store_n(&watch->kernel->word->heartbeat_ktime_ns, now, __ATOMIC_RELAXED);
	if (!at_once && now < watch->due_ns && !something_died(watch))
		return;
	judge(watch, now);
	for (unsigned int i = 0; i < watch->used_count; i++) {
		used_resend(watch, &watch->used[i]);
		used_probe(watch, i, now);
	}
	watch->due_ns = now + interval_ns(watch);
}

static size_t fill_polls(struct nic_watch *watch, struct pollfd *polls)
{
	size_t count = 0;

	polls[count++] = (struct pollfd){.fd = watch->wake_fd, .events = POLLIN};
	polls[count++] = (struct pollfd){.fd = watch->links_fd, .events = POLLIN};
	for (size_t i = 0; i < watch->plan.home_count; i++) {
		if (watch->sockets[i].first >= 0)
			polls[count++] = (struct pollfd){watch->sockets[i].first, POLLIN, 0};
		if (watch->sockets[i].second >= 0)
			polls[count++] = (struct pollfd){watch->sockets[i].second, POLLIN, 0};
	}
	return count;
}

static void wait_for_something(struct nic_watch *watch, struct pollfd *polls, size_t count)
{
	uint64_t now = now_ns(), left = watch->due_ns > now ? watch->due_ns - now : 0;
	uint64_t most = watch->used_count && left > NIC_LOOK_NS ? NIC_LOOK_NS : left;
	struct timespec timeout = {most / 1000000000, most % 1000000000};

	pthread_mutex_unlock(&watch->lock);
	ppoll(polls, count, &timeout, NULL);
	pthread_mutex_lock(&watch->lock);
}

static void *watch_run(void *context)
{
	static _Thread_local struct pollfd polls[2 + 2 * ESC_NIC_LOCAL_MAX];
	struct nic_watch *watch = context;
	uint64_t woken;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "esc-nics");
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), NIC_NICE);
	pthread_mutex_lock(&watch->lock);
	while (!watch->ends) {
		size_t count = fill_polls(watch, polls);

		wait_for_something(watch, polls, count);
		if (polls[0].revents && read(watch->wake_fd, &woken, sizeof(woken)) < 0)
			continue;
		if (polls[1].revents)
			rtnl_drain(watch->links_fd);
		for (size_t i = 0; i < watch->plan.home_count; i++) {
			receive_all(watch, watch->sockets[i].first);
			receive_all(watch, watch->sockets[i].second);
		}
		turn(watch, polls[1].revents);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

/* --- from outside --- */

static void wake(struct nic_watch *watch)
{
	uint64_t one = 1;

	if (write(watch->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void nic_watch_replan(struct nic_watch *watch, const struct nic_plan *plan)
{
	struct esc_address keys[ESC_NIC_LOCAL_MAX];

	pthread_mutex_lock(&watch->lock);
	sockets_close(watch);
	watch->plan = *plan;
	watch->used_count = 0; /* homes have other numbers: the next list is made of the new ones */
	for (size_t i = 0; i < plan->pair_count; i++) {
		device_add(watch, plan->pairs[i].first);
		device_add(watch, plan->pairs[i].second);
	}
	for (size_t i = 0; i < plan->home_count; i++)
		keys[i] = plan->homes[i].address;
	nic_kernel_keep_only(watch->kernel->local_fd, keys, plan->home_count, sizeof(keys[0]));
	judge(watch, now_ns());
	pthread_mutex_unlock(&watch->lock);
}

static struct nic_used *used_find(struct nic_watch *watch, const struct esc_nic_route_key *key)
{
	for (size_t i = 0; i < watch->used_count; i++)
		if (!memcmp(&watch->used[i].key, key, sizeof(*key)))
			return &watch->used[i];
	return NULL;
}

/* What a daemon before us found dead is dead until probes find it well. */
static void used_begin(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	struct esc_nic_routes ways = {.usable = ESC_NIC_ROUTES_ALL};

	bpf_map_lookup_elem(watch->kernel->routes_fd, &used->key, &ways);
	used->usable = ESC_NIC_ROUTES_ALL;
	used->taken = ESC_NIC_ROUTE_DIRECT;
	used->since_ns = now;
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		nicguard_begin(&used->ways[i].probes, now);
		if (!(ways.usable >> i & 1))
			nicguard_fall(&used->ways[i].guard, watch->return_after_ns, now);
	}
}

static void used_set(struct nic_watch *watch, const struct nic_used *wanted)
{
	struct nic_used *used = used_find(watch, &wanted->key);

	if (!used && watch->used_count < NIC_USED_MAX) {
		used = &watch->used[watch->used_count++];
		*used = *wanted;
		used_begin(watch, used, now_ns());
	}
	if (!used)
		return;
	used->wanted = true;
	used->peer_first = wanted->peer_first;
	used->peer_second = wanted->peer_second;
	used->host = wanted->host;
	used->home = wanted->home;
}

void nic_watch_use(struct nic_watch *watch, const struct nic_used *used, size_t count,
		   size_t left_out)
{
	struct esc_nic_route_key keys[NIC_USED_MAX];

	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < watch->used_count; i++)
		watch->used[i].wanted = false;
	for (size_t i = 0; i < count; i++)
		used_set(watch, &used[i]);
	for (size_t i = watch->used_count; i-- > 0;)
		if (!watch->used[i].wanted)
			watch->used[i] = watch->used[--watch->used_count];
	watch->left_out = left_out;
	for (size_t i = 0; i < watch->used_count; i++)
		keys[i] = watch->used[i].key;
	nic_kernel_keep_only(watch->kernel->routes_fd, keys, watch->used_count, sizeof(keys[0]));
	pthread_mutex_unlock(&watch->lock);
}

void nic_watch_get(struct nic_watch *watch, struct nic_watch_facts *out)
{
	pthread_mutex_lock(&watch->lock);
	memcpy(out->devices, watch->devices, sizeof(out->devices));
	out->device_count = watch->device_count;
	memcpy(out->used, watch->used, sizeof(out->used));
	out->used_count = watch->used_count;
	out->left_out = watch->left_out;
	memcpy(out->failovers, watch->failovers, sizeof(out->failovers));
	out->probes_sent = watch->probes_sent;
	out->probes_answered = watch->probes_answered;
	out->resent = watch->resent;
	pthread_mutex_unlock(&watch->lock);
}

int nic_watch_fd(const struct nic_watch *watch)
{
	return watch->news_fd;
}

bool nic_watch_news(struct nic_watch *watch, struct nic_news *out)
{
	bool any;

	pthread_mutex_lock(&watch->lock);
	any = watch->news_count > 0;
	if (any) {
		*out = watch->news[watch->news_first];
		watch->news_first = (watch->news_first + 1) % NIC_NEWS_MAX;
		watch->news_count--;
	}
	pthread_mutex_unlock(&watch->lock);
	return any;
}

static int watch_open(struct nic_watch *watch)
{
	watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->links_fd = rtnl_watch_links();
	watch->ask_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (watch->wake_fd < 0 || watch->news_fd < 0 || watch->links_fd < 0 || watch->ask_fd < 0)
		return -EMFILE;
	return getrandom(&watch->cookie, sizeof(watch->cookie), 0) < 0 ? -errno : 0;
}

static void watch_close(struct nic_watch *watch)
{
	const int fds[] = {watch->wake_fd, watch->news_fd, watch->links_fd, watch->ask_fd};

	sockets_close(watch);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

int nic_watch_start(struct nic_watch **out, const struct nic_kernel *kernel,
		    const struct nic_plan *plan, const struct config *config)
{
	struct nic_watch *watch = calloc(1, sizeof(*watch));
	int err;

	*out = NULL;
	if (!watch)
		return -ENOMEM;
	pthread_mutex_init(&watch->lock, NULL);
	for (size_t i = 0; i < ESC_NIC_LOCAL_MAX; i++)
		watch->sockets[i] = (struct nic_sockets){-1, -1};
	watch->kernel = kernel;
	watch->port = nic_keys(config)->port;
	watch->probe_interval_ns = nic_keys(config)->probe_interval_ns;
	watch->dead_after_ns = nic_keys(config)->dead_after_ns;
	watch->return_after_ns = nic_keys(config)->return_after_ns;
	watch->resends = nic_resends(config);
	err = watch_open(watch);
	if (!err)
		nic_watch_replan(watch, plan);
	if (!err)
		err = -pthread_create(&watch->thread, NULL, watch_run, watch);
	if (err) {
		watch_close(watch);
		return err;
	}
	*out = watch;
	return 0;
}

void nic_watch_stop(struct nic_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->ends = true;
	pthread_mutex_unlock(&watch->lock);
	wake(watch);
	pthread_join(watch->thread, NULL);
	watch_close(watch);
}
