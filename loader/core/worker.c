// SPDX-License-Identifier: BSD-2-Clause
/* Workers: what may wait for a disk, or takes long, in threads of their own; and who is late. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "core.h"
#include "net/rtnl.h"

#define END_TIMEOUT_MS 1000

#define WORKER_EVENTS(X)                                                                           \
	X(WORKER_LATE, "worker_late", WARNING,                                                     \
	  "A disk, the kernel's RTNL lock or a long list holds up a worker; the loop runs on.",    \
	  .begins = "worker_late", .remedy = "See the disk, or what holds RTNL.")                  \
	X(WORKER_RECOVERED, "worker_recovered", NOTICE, "What a worker waited for has ended.",     \
	  .ends = "worker_late")
enum { WORKER_EVENTS(EVENT_ENUM) };
const struct event_kind core_worker_events[] = {WORKER_EVENTS(EVENT_KIND){}};

struct core_worker {
	const struct core_work *kind;
	void *context;
	struct core *core;
	struct core_worker *next;
	struct core_wait wait;
	sd_event_source *source;

	int cpu_fd;	      /* core_open_cpu_wait() of the thread, set by it; -1: none yet */
	uint64_t cpu_wait_ns; /* of the thread, when the job began */

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t begun, ended;
	bool running; /* there is a thread */
	void *job;    /* NULL: none */
	bool over;    /* the thread is done with it, done() is to be called */
	bool abandoned;
	int fd; /* readable: a job is over */
};

static void destroy(struct core_worker *worker)
{
	pthread_mutex_destroy(&worker->mutex);
	pthread_cond_destroy(&worker->begun);
	pthread_cond_destroy(&worker->ended);
	if (worker->fd >= 0)
		close(worker->fd);
	if (worker->cpu_fd >= 0)
		close(worker->cpu_fd);
	free(worker);
}

static uint64_t cpu_wait_ns(const struct core_worker *worker)
{
	return core_cpu_wait_ns(__atomic_load_n(&worker->cpu_fd, __ATOMIC_RELAXED));
}

static void *run(void *context)
{
	struct core_worker *worker = context;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, worker->kind->name);
	__atomic_store_n(&worker->cpu_fd, core_open_cpu_wait(), __ATOMIC_RELAXED);
	pthread_mutex_lock(&worker->mutex);
	while (!worker->abandoned) {
		void *job = worker->over ? NULL : worker->job;

		if (!job) {
			pthread_cond_wait(&worker->begun, &worker->mutex);
			continue;
		}
		pthread_mutex_unlock(&worker->mutex);
		worker->kind->work(job);
		pthread_mutex_lock(&worker->mutex);
		worker->over = true;
		eventfd_write(worker->fd, 1);
		pthread_cond_broadcast(&worker->ended);
	}
	if (worker->job)
		worker->kind->free(worker->job);
	pthread_mutex_unlock(&worker->mutex);
	destroy(worker);
	return NULL;
}

/* --- for the loop --- */

static void take_result(struct core_worker *worker)
{
	void *job = NULL;

	pthread_mutex_lock(&worker->mutex);
	if (worker->over) {
		job = worker->job;
		worker->job = NULL;
		worker->over = false;
	}
	pthread_mutex_unlock(&worker->mutex);
	if (!job)
		return;
	worker->wait.since_ns = 0;
	worker->kind->done(worker->context, job);
	worker->kind->free(job);
}

static int on_over(sd_event_source *source, int fd, uint32_t happened, void *context)
{
	uint64_t begun_ns = time_local_ns();
	struct core_worker *worker = context;
	eventfd_t count;

	(void)source;
	(void)happened;
	eventfd_read(fd, &count);
	take_result(worker);
	core_took(worker->core, worker->kind->name, begun_ns);
	return 0;
}

int core_worker_new(struct core *core, struct core_worker **out, const struct core_work *kind,
		    void *context)
{
	struct core_worker *worker = calloc(1, sizeof(*worker));
	pthread_condattr_t clock;
	int err;

	*out = NULL;
	if (!worker)
		return -ENOMEM;
	worker->kind = kind;
	worker->context = context;
	worker->core = core;
	worker->wait.name = kind->name;
	worker->cpu_fd = -1;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->begun, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&worker->ended, &clock);
	pthread_condattr_destroy(&clock);
	worker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = worker->fd < 0 ? -errno : 0;
	if (!err)
		err = sd_event_add_io(core->loop, &worker->source, worker->fd, EPOLLIN, on_over,
				      worker);
	if (err < 0) {
		destroy(worker);
		return err;
	}
	worker->next = core->workers;
	core->workers = worker;
	*out = worker;
	return 0;
}

/* With the first job, so that what is never used has no thread. */
static int begin(struct core_worker *worker)
{
	pthread_t thread;
	int err;

	if (worker->running)
		return 0;
	err = -pthread_create(&thread, NULL, run, worker);
	if (err)
		return err;
	/* It is never joined: what it waits for would hold up the end, too. */
	pthread_detach(thread);
	worker->running = true;
	return 0;
}

int core_worker_start(struct core_worker *worker, void *job)
{
	int err;

	pthread_mutex_lock(&worker->mutex);
	err = worker->job ? -EBUSY : begin(worker);
	if (!err) {
		worker->job = job;
		worker->wait.since_ns = time_local_ns();
		worker->cpu_wait_ns = cpu_wait_ns(worker);
		pthread_cond_signal(&worker->begun);
	}
	pthread_mutex_unlock(&worker->mutex);
	return err;
}

bool core_worker_busy(const struct core_worker *worker)
{
	return worker->wait.since_ns != 0;
}

bool core_worker_wait(struct core_worker *worker, unsigned int timeout_ms)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += timeout_ms % 1000 * 1000000L;
	end.tv_sec += timeout_ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&worker->mutex);
	while (worker->job && !worker->over && !err)
		err = pthread_cond_timedwait(&worker->ended, &worker->mutex, &end);
	pthread_mutex_unlock(&worker->mutex);
	take_result(worker);
	return !core_worker_busy(worker);
}

void core_worker_free(struct core_worker *worker)
{
	struct core_worker **at;
	bool running;

	if (!worker)
		return;
	for (at = &worker->core->workers; *at && *at != worker;)
		at = &(*at)->next;
	if (*at)
		*at = worker->next;
	core_worker_wait(worker, END_TIMEOUT_MS);
	sd_event_source_disable_unref(worker->source);
	pthread_mutex_lock(&worker->mutex);
	running = worker->running;
	worker->abandoned = true; /* the thread frees it, whatever it waits for */
	pthread_cond_signal(&worker->begun);
	pthread_mutex_unlock(&worker->mutex);
	if (!running)
		destroy(worker);
}

/* --- who is late --- */

/*
 * That a busy host has no CPU for a worker is neither a disk nor RTNL. What a thread waits for may
 * have begun after @now_ns was read.
 */
static bool is_late(const struct core_wait *wait, const struct core_worker *worker, uint64_t now_ns)
{
	uint64_t late_ns = wait->since_ns + CORE_LATE_NS;

	if (!wait->since_ns || now_ns <= late_ns)
		return false;
	return !worker || now_ns + worker->cpu_wait_ns > late_ns + cpu_wait_ns(worker);
}

static void check(struct core *core, struct core_wait *wait, const struct core_worker *worker,
		  uint64_t now_ns)
{
	bool late = is_late(wait, worker, now_ns);

	if (late && !wait->late_since_ns) {
		wait->late_since_ns = wait->since_ns;
		log_warning("%s has taken more than a second; the loop runs on", wait->name);
		events_add(core->events, &(struct event){.kind = &core_worker_events[WORKER_LATE],
							 .subject = wait->name});
	}
	if (!wait->late_since_ns || wait->since_ns == wait->late_since_ns)
		return;
	log_info("%s ended after %.1f s", wait->name, (double)(now_ns - wait->late_since_ns) / 1e9);
	events_add(core->events,
		   &(struct event){
			   .kind = &core_worker_events[WORKER_RECOVERED],
			   .subject = wait->name,
			   .seen = json_pack("{s:I}", "duration_ns",
					     (json_int_t)(now_ns - wait->late_since_ns)),
		   });
	wait->late_since_ns = 0;
}

void core_check_late(struct core *core, uint64_t now_ns)
{
	core->waits[CORE_WAIT_EVENTS] = (struct core_wait){
		"events.file", core->events ? events_write_since(core->events) : 0,
		core->waits[CORE_WAIT_EVENTS].late_since_ns};
	core->waits[CORE_WAIT_RTNL] = (struct core_wait){"RTNL", rtnl_asked_since(),
							 core->waits[CORE_WAIT_RTNL].late_since_ns};
	for (unsigned int i = 0; i < CORE_WAITS; i++)
		check(core, &core->waits[i], NULL, now_ns);
	for (struct core_worker *worker = core->workers; worker; worker = worker->next)
		check(core, &worker->wait, worker, now_ns);
}

static void put_late(json_t *list, const struct core_wait *wait, uint64_t now_ns)
{
	if (wait->late_since_ns)
		json_array_append_new(list,
				      json_pack("{s:s, s:I}", "name", wait->name, "duration_ns",
						(json_int_t)(now_ns - wait->late_since_ns)));
}

json_t *core_late(const struct core *core)
{
	json_t *list = json_array();
	uint64_t now_ns = time_local_ns();

	for (unsigned int i = 0; i < CORE_WAITS; i++)
		put_late(list, &core->waits[i], now_ns);
	for (const struct core_worker *worker = core->workers; worker; worker = worker->next)
		put_late(list, &worker->wait, now_ns);
	return list;
}
