// SPDX-License-Identifier: BSD-2-Clause
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define PROBE_NICE (-5)

void probe_thread_setup(const char *name)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1);
	/* Refused without CAP_SYS_NICE or LimitNICE=: probes then leave a little later. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), PROBE_NICE);
}

int probe_thread_start(struct probe_thread *thread, void *(*run)(void *context), void *context)
{
	pthread_condattr_t attributes;
	int err;

	pthread_mutex_init(&thread->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	err = pthread_create(&thread->id, NULL, run, context);
	if (!err)
		return 0;
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	return -err;
}

void probe_thread_wake(struct probe_thread *thread)
{
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

void probe_thread_pause(struct probe_thread *thread, bool paused)
{
	pthread_mutex_lock(&thread->lock);
	thread->paused = paused;
	probe_thread_wake(thread);
}

void probe_thread_end(struct probe_thread *thread)
{
	pthread_mutex_lock(&thread->lock);
	thread->ends = true;
	probe_thread_wake(thread);
	pthread_join(thread->id, NULL);
}
