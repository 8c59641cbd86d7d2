/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that calls a function whenever it is due, within microseconds where CPUs are free. */
#ifndef ESC_LOADER_TIMERTHREAD_H
#define ESC_LOADER_TIMERTHREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The lock is of all that it shares with the daemon's thread. It is the first member of that. */
struct timerthread {
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
	const char *name;
	bool paused, ends; /* paused, nothing is called */
	/* Called with the lock; returns when it is due again (CLOCK_MONOTONIC), 0: never. */
	uint64_t (*due)(struct timerthread *thread);
};

/* *@out: @bytes, zero but for the thread in front. @name: 15 bytes at most. 0 or -errno. */
int timerthread_new(void *out, size_t bytes, const char *name,
		    uint64_t (*due)(struct timerthread *thread));
/* Ends it, waits until it has returned, and frees it all. */
void timerthread_free(struct timerthread *thread);
/* Unlocks; the thread sees what has changed. */
void timerthread_wake(struct timerthread *thread);
void timerthread_pause(struct timerthread *thread, bool paused);

#endif
