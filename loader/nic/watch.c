// SPDX-License-Identifier: BSD-2-Clause
/* The thread that polls carriers and routes, and its interface to the daemon's loop. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include <unistd.h>

#include "base/log.h"
#include "internal.h"
#include "net/rtnl.h"
#include "probe/probe.h"

#define NIC_NICE (-5)
#define NIC_PROBES_MOST_PPS 5000 /* of this host; more routes are probed less often */
/* Poll interval of carriers and of the programs' reports, while queue pairs use the NICs. */
#define NIC_POLL_NS 5000000ull
/* `attention` ends after this time without a fault: latches and leases have expired. */
#define NIC_QUIET_NS (ESC_NIC_LATCH_NS + ESC_NIC_LEASE_NS)

/* A pipe that is full loses the report; the reply to `failover` has the current state. */
static void report(struct nic_watch *watch, const struct nic_report *what)
{
	if (write(watch->report_fds[1], what, sizeof(*what)) < 0)
		return;
}

/* --- devices --- */

static struct nic_device *device_find(struct nic_facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->device_count; i++)
		if (!strcmp(facts->devices[i].name, name))
			return &facts->devices[i];
	return NULL;
}

static void device_add(struct nic_watch *watch, const char *name)
{
	struct nic_facts *facts = &watch->facts;

	if (!device_find(facts, name))
		memcpy(facts->devices[facts->device_count++].name, name, IF_NAMESIZE);
}

/* Without RTNL, which may be held for long. */
static void device_read(struct nic_watch *watch, struct nic_device *device)
{
	struct ifreq request = {};

	memcpy(request.ifr_name, device->name, IF_NAMESIZE);
	if (ioctl(watch->query_fd, SIOCGIFINDEX, &request)) {
		device->ifindex = 0;
		device->reason = NIC_REASON_GONE;
		return;
	}
	device->ifindex = request.ifr_ifindex;
	if (ioctl(watch->query_fd, SIOCGIFFLAGS, &request))
		return;
	/* IFF_RUNNING may lag behind the carrier by a second. */
	device->reason = !(request.ifr_flags & IFF_UP) ? NIC_REASON_ADMIN
			 : !(request.ifr_flags & IFF_RUNNING) ||
					 nic_kernel_is_dead(watch->kernel, device->ifindex)
				 ? NIC_REASON_CARRIER
				 : NIC_REASON_NONE;
}

/* tc egress found it dead, possibly for too short a time to be seen here. */
static bool device_was_seen_dead(struct nic_watch *watch, const struct nic_device *device,
				 uint64_t now)
{
	for (size_t i = 0; i < watch->plan.local_count; i++) {
		const struct nic_local *local = &watch->plan.locals[i];
		struct esc_nic_local entry;

		if (local->entry.flags & ESC_NIC_PAIRED &&
		    !strcmp(watch->plan.pairs[local->pair].first, device->name) &&
		    !bpf_map_lookup_elem(watch->kernel->local_fd, &local->address, &entry) &&
		    entry.seen_dead_ktime_ns && now - entry.seen_dead_ktime_ns < ESC_NIC_LATCH_NS)
			return true;
	}
	return false;
}

static void device_evaluate(struct nic_watch *watch, struct nic_device *device, uint64_t now)
{
	struct nic_report what = {.kind = NIC_REPORT_DOWN};
	uint64_t hold_ns = device->guard.down ? device->guard.hold_ns : 0;

	device_read(watch, device);
	what.reason = device->reason;
	if (what.reason == NIC_REASON_NONE && device_was_seen_dead(watch, device, now))
		what.reason = NIC_REASON_CARRIER;
	if (what.reason == NIC_REASON_NONE) {
		if (!nicguard_up(&device->guard, now))
			return;
		what.kind = NIC_REPORT_RETURN;
		what.duration_ns = hold_ns;
	} else if (!nicguard_fail(&device->guard, watch->return_after_ns, now)) {
		return;
	}
	what.hold_ns = device->guard.hold_ns;
	memcpy(what.device, device->name, sizeof(what.device));
	report(watch, &what);
}

/* --- our addresses, as the programs see them --- */

static void local_write(struct nic_watch *watch, struct nic_local *local)
{
	const struct nic_pair *pair = &watch->plan.pairs[local->pair];
	const struct nic_device *first = device_find(&watch->facts, pair->first);
	const struct nic_device *second = device_find(&watch->facts, pair->second);
	struct esc_nic_local was, *is = &local->entry;
	bool known = !bpf_map_lookup_elem(watch->kernel->local_fd, &local->address, &was);

	is->flags &= ~(ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN);
	if (is->flags & ESC_NIC_PAIRED) {
		is->flags |= first->guard.down ? ESC_NIC_FIRST_DOWN : 0;
		is->flags |= second->guard.down ? ESC_NIC_SECOND_DOWN : 0;
		is->first_ifindex = first->ifindex;
		is->second_ifindex = second->ifindex;
	}
	is->seen_dead_ktime_ns = known ? was.seen_dead_ktime_ns : 0;
	if (!known || memcmp(&was, is, sizeof(was)))
		bpf_map_update_elem(watch->kernel->local_fd, &local->address, is, BPF_ANY);
}

/* --- routes --- */

const struct nic_device *nic_used_device(struct nic_watch *watch, const struct nic_used *used,
					 bool second)
{
	const struct nic_pair *pair = &watch->plan.pairs[watch->plan.locals[used->local].pair];

	return device_find(&watch->facts, second ? pair->second : pair->first);
}

static bool peer_is_dead(const struct nic_watch *watch, const struct esc_address *address,
			 uint64_t now)
{
	struct esc_nic_peer peer;

	return !bpf_map_lookup_elem(watch->kernel->peers_fd, address, &peer) &&
	       (int64_t)(peer.dead_ktime_ns - now) > 0;
}

/* A route that an earlier daemon found dead is dead until probes are replied to. */
static void used_begin(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	struct esc_nic_routes routes = {.usable = ESC_NIC_ROUTES_ALL};

	bpf_map_lookup_elem(watch->kernel->routes_fd, &used->key, &routes);
	used->usable = ESC_NIC_ROUTES_ALL;
	used->silent_ns = routes.silent_ns;
	used->current = ESC_NIC_ROUTE_DIRECT;
	used->since_ns = now;
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		nicguard_begin(&used->routes[i].probes, probe_first_sequence(), now);
		if (!(routes.usable >> i & 1))
			nicguard_fail(&used->routes[i].guard, watch->return_after_ns, now);
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
			nicguard_fail(&route->guard, watch->return_after_ns, now);
		else if (route->probes.unreplied < NICGUARD_UNANSWERED)
			nicguard_up(&route->guard, now);
		usable |= route->guard.down ? 0 : 1u << i;
	}
	return usable;
}

/* As nic_choose() of bpf/nic/egress.bpf.h. @reason: why it is not the direct one. */
static enum esc_nic_route choose_route(struct nic_watch *watch, const struct nic_used *used,
				       uint64_t now, enum nic_reason *reason)
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
	*reason = first->guard.down ? (first->reason ? first->reason : NIC_REASON_CARRIER)
		  : peer_first	    ? NIC_REASON_PEER
				    : NIC_REASON_SILENT;
	return left ? (enum esc_nic_route)__builtin_ctz(left) : ESC_NIC_ROUTE_DIRECT;
}

/* When the routes that have died now were last known to deliver. */
static void note_silence(struct nic_used *used, uint32_t usable)
{
	uint32_t died = used->usable & ~usable;
	uint64_t since_ns = UINT64_MAX;

	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++)
		if (died >> i & 1 && used->routes[i].probes.replied_ns < since_ns)
			since_ns = used->routes[i].probes.replied_ns;
	if (died)
		used->silent_ns = since_ns;
}

static void used_evaluate(struct nic_watch *watch, struct nic_used *used, uint64_t now)
{
	uint32_t usable = evaluate_routes(watch, used, now);
	enum esc_nic_route route;
	enum nic_reason reason;
	bool direct;

	if (usable != used->usable) {
		struct esc_nic_routes routes = {.usable = usable};

		note_silence(used, usable);
		routes.silent_ns = used->silent_ns;
		used->usable = usable;
		bpf_map_update_elem(watch->kernel->routes_fd, &used->key, &routes, BPF_ANY);
	}
	route = choose_route(watch, used, now, &reason);
	if (route == used->current)
		return;
	direct = route == ESC_NIC_ROUTE_DIRECT;
	report(watch, &(struct nic_report){
			      .kind = direct ? NIC_REPORT_BACK : NIC_REPORT_FAILOVER,
			      .reason = direct ? used->reason : reason,
			      .key = used->key,
			      .from = used->current,
			      .to = route,
			      .silent_ns = now - used->routes[used->current].probes.replied_ns,
			      .duration_ns = now - used->since_ns,
		      });
	watch->facts.failovers[reason] += !direct;
	used->current = route;
	used->reason = direct ? NIC_REASON_NONE : reason;
	used->since_ns = now;
	/* First: no packet may take a dead route behind the repair. */
	__atomic_store_n(&watch->kernel->control->attention, 1, __ATOMIC_SEQ_CST);
	nic_repair_start(watch, used, now);
}

/* --- all of it --- */

/* Without attention tc skips all this: only when everything has been up for a while. */
static void set_attention(struct nic_watch *watch, uint64_t now)
{
	uint32_t *attention = &watch->kernel->control->attention;
	const struct nic_facts *facts = &watch->facts;
	bool up = true;

	for (size_t i = 0; i < facts->device_count; i++)
		up = up && !facts->devices[i].guard.down;
	for (size_t i = 0; i < facts->used_count; i++)
		up = up && facts->used[i].usable == ESC_NIC_ROUTES_ALL &&
		     facts->used[i].current == ESC_NIC_ROUTE_DIRECT;
	if (!up)
		__atomic_store_n(attention, 1, __ATOMIC_RELEASE);
	if (!up || !__atomic_load_n(attention, __ATOMIC_ACQUIRE)) {
		watch->quiet_since_ns = 0;
		return;
	}
	if (!watch->quiet_since_ns)
		watch->quiet_since_ns = now;
	if (now - watch->quiet_since_ns > NIC_QUIET_NS)
		__atomic_store_n(attention, 0, __ATOMIC_RELEASE);
}

static void evaluate(struct nic_watch *watch, uint64_t now)
{
	struct nic_facts *facts = &watch->facts;
	bool changed = false;

	for (size_t i = 0; i < facts->device_count; i++) {
		unsigned int ifindex = facts->devices[i].ifindex;

		device_evaluate(watch, &facts->devices[i], now);
		changed = changed || ifindex != facts->devices[i].ifindex;
	}
	if (changed) /* sockets are bound to an interface that no longer exists */
		nic_sockets_close(watch);
	for (size_t i = 0; i < watch->plan.local_count; i++)
		local_write(watch, &watch->plan.locals[i]);
	for (size_t i = 0; i < facts->used_count; i++)
		used_evaluate(watch, &facts->used[i], now);
	set_attention(watch, now);
}

/* --- the thread --- */

/* Between probes: a lost carrier or a report of a peer, which nothing else shows in time. */
static bool has_failure(struct nic_watch *watch)
{
	uint32_t changes = __atomic_load_n(&watch->kernel->control->changes, __ATOMIC_RELAXED);
	bool changed = changes != watch->changes_seen;

	watch->changes_seen = changes;
	for (size_t i = 0; !changed && watch->facts.used_count && i < watch->facts.device_count;
	     i++) {
		const struct nic_device *device = &watch->facts.devices[i];

		changed = !device->guard.down && device->ifindex &&
			  nic_kernel_is_dead(watch->kernel, device->ifindex);
	}
	return changed;
}

static void poll_all(struct nic_watch *watch, bool at_once)
{
	uint64_t now = time_local_ns(), interval_ns;

	/* The loop's, not this thread's: what it configures ends with it. */
	__atomic_store_n(&watch->kernel->control->heartbeat_ktime_ns, core_last_beat(watch->core),
			 __ATOMIC_RELAXED);
	if (!at_once && now < watch->due_ns && !has_failure(watch))
		return;
	evaluate(watch, now);
	for (unsigned int i = 0; i < watch->facts.used_count; i++) {
		nic_repair_go_on(watch, &watch->facts.used[i], now);
		nic_probe_send(watch, i, now);
	}
	interval_ns =
		watch->facts.used_count * ESC_NIC_ROUTES * 1000000000ull / NIC_PROBES_MOST_PPS;
	if (interval_ns < watch->probe_interval_ns)
		interval_ns = watch->probe_interval_ns;
	watch->due_ns = now + interval_ns;
}

static void *watch_run(void *context)
{
	static _Thread_local struct pollfd polls[2 + 2 * ESC_NIC_LOCAL_MAX];
	struct nic_watch *watch = context;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "esc-nics");
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), NIC_NICE);
	pthread_mutex_lock(&watch->lock);
	while (!watch->ends) {
		size_t count = 2;
		uint64_t now = time_local_ns(),
			 left = watch->due_ns > now ? watch->due_ns - now : 0;
		uint64_t most = watch->facts.used_count && left > NIC_POLL_NS ? NIC_POLL_NS : left;
		struct timespec timeout = {most / 1000000000, most % 1000000000};

		polls[0] = (struct pollfd){.fd = watch->wake_fd, .events = POLLIN};
		polls[1] = (struct pollfd){.fd = watch->links_fd, .events = POLLIN};
		for (size_t i = 0; i < 2 * watch->plan.local_count; i++)
			if (watch->sockets[i / 2][i % 2] >= 0)
				polls[count++] = (struct pollfd){.fd = watch->sockets[i / 2][i % 2],
								 .events = POLLIN};
		pthread_mutex_unlock(&watch->lock);
		ppoll(polls, count, &timeout, NULL);
		pthread_mutex_lock(&watch->lock);
		if (polls[1].revents)
			rtnl_drain(watch->links_fd);
		for (size_t i = 0; i < 2 * watch->plan.local_count; i++)
			nic_probe_receive(watch, watch->sockets[i / 2][i % 2]);
		poll_all(watch, polls[1].revents);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

/* --- from the loop --- */

void nic_watch_replan(struct nic_watch *watch, const struct nic_plan *plan)
{
	pthread_mutex_lock(&watch->lock);
	nic_sockets_close(watch);
	watch->plan = *plan;
	watch->facts.used_count = 0; /* their indices in the plan are void */
	for (size_t i = 0; i < plan->pair_count; i++) {
		device_add(watch, plan->pairs[i].first);
		device_add(watch, plan->pairs[i].second);
	}
	nic_kernel_sweep_locals(watch->kernel, plan);
	evaluate(watch, time_local_ns());
	pthread_mutex_unlock(&watch->lock);
}

void nic_watch_use(struct nic_watch *watch, const struct nic_used *list, size_t count,
		   size_t unprobed)
{
	struct nic_facts *facts = &watch->facts;
	struct esc_nic_route_key keys[NIC_USED_MAX];

	pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < facts->used_count; i++)
		facts->used[i].listed = false;
	for (size_t i = 0; i < count; i++) {
		struct nic_used *used = facts->used, *end = used + facts->used_count;

		while (used < end && memcmp(&used->key, &list[i].key, sizeof(used->key)))
			used++;
		if (used == end) {
			if (facts->used_count == NIC_USED_MAX)
				continue;
			facts->used_count++;
			*used = list[i];
			used_begin(watch, used, time_local_ns());
		}
		used->listed = true;
		used->peer_first = list[i].peer_first;
		used->peer_second = list[i].peer_second;
		used->host = list[i].host;
		memcpy(used->secret, list[i].secret, sizeof(used->secret));
		used->local = list[i].local;
	}
	for (size_t i = facts->used_count; i-- > 0;)
		if (!facts->used[i].listed)
			facts->used[i] = facts->used[--facts->used_count];
	facts->unprobed = unprobed;
	for (size_t i = 0; i < facts->used_count; i++)
		keys[i] = facts->used[i].key;
	nic_kernel_keep_only(watch->kernel->routes_fd, keys, facts->used_count, sizeof(keys[0]));
	pthread_mutex_unlock(&watch->lock);
}

void nic_watch_get(struct nic_watch *watch, struct nic_facts *out)
{
	pthread_mutex_lock(&watch->lock);
	*out = watch->facts;
	pthread_mutex_unlock(&watch->lock);
}

static void watch_close(struct nic_watch *watch)
{
	const int fds[] = {watch->wake_fd, watch->report_fds[0], watch->report_fds[1],
			   watch->links_fd, watch->query_fd};

	nic_sockets_close(watch);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

/* Our sequence does not go back while the map exists, whatever the wall clock does. */
static void set_number(struct nic_watch *watch)
{
	__u64 *offset_ns = &watch->kernel->control->number_offset_ns;
	uint64_t now_offset_ns = time_realtime_ns() - time_local_ns();

	if (now_offset_ns > *offset_ns)
		__atomic_store_n(offset_ns, now_offset_ns, __ATOMIC_RELAXED);
	watch->number_offset_ns = *offset_ns;
}

int nic_watch_start(struct nic_watch **out, const struct nic_kernel *kernel,
		    const struct nic_plan *plan, const struct core *core)
{
	const struct config *config = core->config;
	struct nic_watch *watch = calloc(1, sizeof(*watch));
	int err = 0;

	*out = NULL;
	if (!watch)
		return -ENOMEM;
	pthread_mutex_init(&watch->lock, NULL);
	memset(watch->sockets, -1, sizeof(watch->sockets));
	watch->report_fds[0] = watch->report_fds[1] = -1;
	watch->kernel = kernel;
	watch->core = core;
	watch->port = nic_keys(config)->port;
	watch->probe_interval_ns = nic_keys(config)->probe_interval_ns;
	watch->dead_after_ns = nic_keys(config)->dead_after_ns;
	watch->return_after_ns = nic_keys(config)->return_after_ns;
	watch->repairs = nic_keys(config)->repair != NIC_REPAIR_OFF;
	watch->key_flags = nic_key_flags(&config->keys);
	set_number(watch);
	watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->links_fd = rtnl_watch_links();
	watch->query_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (pipe2(watch->report_fds, O_CLOEXEC | O_NONBLOCK) < 0 || watch->wake_fd < 0 ||
	    watch->links_fd < 0 || watch->query_fd < 0)
		err = -EMFILE;
	else if (getrandom(&watch->cookie, sizeof(watch->cookie), 0) < 0)
		err = -errno;
	if (!err) {
		nic_watch_replan(watch, plan);
		err = -pthread_create(&watch->thread, NULL, watch_run, watch);
	}
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
	if (eventfd_write(watch->wake_fd, 1))
		log_error(
			"NIC failover: the watch cannot be woken"); /* it ends with its next poll */
	pthread_join(watch->thread, NULL);
	watch_close(watch);
}
