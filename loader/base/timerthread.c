// SPDX-License-Identifier: BSD-2-Clause
#include "base/timerthread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NICE (-5)

static void *thread_run(void *context)
{
	struct timerthread *thread = context;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, thread->name);
	prctl(PR_SET_TIMERSLACK, 1);
	/* Refused without CAP_SYS_NICE or LimitNICE=: it is then called a little later. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	pthread_mutex_lock(&thread->lock);
	while (!thread->ends) {
		uint64_t next_ns = thread->paused ? 0 : thread->due(thread);
		struct timespec until = {
			.tv_sec = (time_t)(next_ns / 1000000000),
			.tv_nsec = (long)(next_ns % 1000000000),
		};

		if (next_ns)
			pthread_cond_timedwait(&thread->changed, &thread->lock, &until);
		else
			pthread_cond_wait(&thread->changed, &thread->lock);
	}
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

int timerthread_new(void *out, size_t bytes, const char *name,
		    uint64_t (*due)(struct timerthread *thread))
{
	struct timerthread *thread = calloc(1, bytes);
	pthread_condattr_t attributes;
	int err;

	*(void **)out = NULL;
	if (!thread)
		return -ENOMEM;
	thread->name = name;
	thread->due = due;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	err = pthread_create(&thread->id, NULL, thread_run, thread);
	if (!err) {
		*(void **)out = thread;
		return 0;
	}
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
	return -err;
}

void timerthread_wake(struct timerthread *thread)
{
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

void timerthread_pause(struct timerthread *thread, bool paused)
{
	pthread_mutex_lock(&thread->lock);
	thread->paused = paused;
	timerthread_wake(thread);
}

void timerthread_free(struct timerthread *thread)
{
	pthread_mutex_lock(&thread->lock);
	thread->ends = true;
	timerthread_wake(thread);
	pthread_join(thread->id, NULL);
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
}
