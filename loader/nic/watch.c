// SPDX-License-Identifier: BSD-2-Clause
/* The thread that polls carriers and probes, and its interface to the daemon's loop. */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/now.h"
#include "net/rtnl.h"

#define NIC_NICE (-5)
#define NIC_PROBES_MOST_PPS 5000 /* of this host; more routes are probed less often */
/* How often carriers and the programs' reports are polled, while queue pairs use the NICs. */
#define NIC_POLL_NS 5000000ull

static uint64_t interval_ns(const struct nic_watch *watch)
{
	uint64_t least = watch->used_count * ESC_NIC_ROUTES * 1000000000ull / NIC_PROBES_MOST_PPS;

	return watch->probe_interval_ns > least ? watch->probe_interval_ns : least;
}

/* Between probes: a carrier that is gone, a report of a peer. Nothing else shows it in time. */
static bool something_died(struct nic_watch *watch)
{
	uint32_t changes = __atomic_load_n(&watch->kernel->control->changes, __ATOMIC_RELAXED);
	bool other = changes != watch->changes_seen;

	watch->changes_seen = changes;
	for (size_t i = 0; !other && watch->used_count && i < watch->device_count; i++) {
		const struct nic_device *device = &watch->devices[i];

		other = !device->guard.down && device->ifindex &&
			nic_kernel_is_dead(watch->kernel, device->ifindex);
	}
	return other;
}

static void poll_all(struct nic_watch *watch, bool at_once)
{
	uint64_t now = time_local_ns();

	__atomic_store_n(&watch->kernel->control->heartbeat_ktime_ns, now, __ATOMIC_RELAXED);
	if (!at_once && now < watch->due_ns && !something_died(watch))
		return;
	nic_evaluate(watch, now);
	for (unsigned int i = 0; i < watch->used_count; i++) {
		nic_probe_resend(watch, &watch->used[i]);
		nic_probe_send(watch, i, now);
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
		uint64_t now = time_local_ns(), left = watch->due_ns > now ? watch->due_ns - now : 0;
		uint64_t most = watch->used_count && left > NIC_POLL_NS ? NIC_POLL_NS : left;
		struct timespec timeout = {most / 1000000000, most % 1000000000};

		pthread_mutex_unlock(&watch->lock);
		ppoll(polls, count, &timeout, NULL);
		pthread_mutex_lock(&watch->lock);
		if (polls[0].revents && read(watch->wake_fd, &woken, sizeof(woken)) < 0)
			continue;
		if (polls[1].revents)
			rtnl_drain(watch->links_fd);
		for (size_t i = 0; i < watch->plan.home_count; i++) {
			nic_probe_receive(watch, watch->sockets[i].first);
			nic_probe_receive(watch, watch->sockets[i].second);
		}
		poll_all(watch, polls[1].revents);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

/* --- from the loop --- */

void nic_watch_replan(struct nic_watch *watch, const struct nic_plan *plan)
{
	struct esc_address keys[ESC_NIC_LOCAL_MAX];

	pthread_mutex_lock(&watch->lock);
	nic_sockets_close(watch);
	watch->plan = *plan;
	watch->used_count = 0; /* homes have other numbers: the next list is made of the new ones */
	for (size_t i = 0; i < plan->pair_count; i++) {
		nic_device_add(watch, plan->pairs[i].first);
		nic_device_add(watch, plan->pairs[i].second);
	}
	for (size_t i = 0; i < plan->home_count; i++)
		keys[i] = plan->homes[i].address;
	nic_kernel_keep_only(watch->kernel->local_fd, keys, plan->home_count, sizeof(keys[0]));
	nic_evaluate(watch, time_local_ns());
	pthread_mutex_unlock(&watch->lock);
}

static void used_set(struct nic_watch *watch, const struct nic_used *wanted)
{
	struct nic_used *used = watch->used, *end = watch->used + watch->used_count;

	while (used < end && memcmp(&used->key, &wanted->key, sizeof(used->key)))
		used++;
	if (used == end) {
		if (watch->used_count == NIC_USED_MAX)
			return;
		watch->used_count++;
		*used = *wanted;
		nic_used_begin(watch, used, time_local_ns());
	}
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
	return watch->report_fds[0];
}

bool nic_watch_read(struct nic_watch *watch, struct nic_report *out)
{
	return read(watch->report_fds[0], out, sizeof(*out)) == sizeof(*out);
}

static int watch_open(struct nic_watch *watch)
{
	watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->links_fd = rtnl_watch_links();
	watch->query_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (pipe2(watch->report_fds, O_CLOEXEC | O_NONBLOCK) < 0 || watch->wake_fd < 0 ||
	    watch->links_fd < 0 || watch->query_fd < 0)
		return -EMFILE;
	return getrandom(&watch->cookie, sizeof(watch->cookie), 0) < 0 ? -errno : 0;
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
	watch->report_fds[0] = watch->report_fds[1] = -1;
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
	uint64_t one = 1;

	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->ends = true;
	pthread_mutex_unlock(&watch->lock);
	if (write(watch->wake_fd, &one, sizeof(one)) < 0)
		log_error("NIC failover: the watch cannot be woken"); /* it ends with its next poll */
	pthread_join(watch->thread, NULL);
	watch_close(watch);
}
