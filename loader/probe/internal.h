/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two sending threads share. */
#ifndef ESC_PROBE_INTERNAL_H
#define ESC_PROBE_INTERNAL_H

#include <pthread.h>
#include <sys/socket.h>

#include "probe.h"

/* A thread that sends, and the lock of all that it shares with the daemon's. */
struct probe_thread {
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
	bool paused, ends;
};

/* 0 or -errno, then nothing is left of it. */
int probe_thread_start(struct probe_thread *thread, void *(*run)(void *context), void *context);
/* Ends it and waits until it has returned from run(). The lock works on, for what is freed then. */
void probe_thread_end(struct probe_thread *thread);
/* Unlocks; the thread sees what has changed. */
void probe_thread_wake(struct probe_thread *thread);
/* Paused, nothing leaves. */
void probe_thread_pause(struct probe_thread *thread, bool paused);
/* No signals, exact timers and a priority above the loop's, for the thread that calls it. */
void probe_thread_setup(const char *name);
/* Returns the size of the address in @out. */
socklen_t probe_sockaddr(const struct esc_address *address, uint16_t port, bool ipv4,
			 struct sockaddr_storage *out);

#endif
