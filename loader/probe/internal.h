/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two senders share. */
#ifndef ESC_PROBE_INTERNAL_H
#define ESC_PROBE_INTERNAL_H

#include <pthread.h>
#include <sys/socket.h>

#include "probe.h"

/*
 * A thread that sends what is due, and the lock of all that it shares with the daemon's. It is the
 * first member of what it sends.
 */
struct probe_thread {
	pthread_t id;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
	const char *name;
	bool paused, ends; /* paused, nothing leaves */
	/* Called with the lock; returns when the next is due, 0: never. */
	uint64_t (*send_due)(struct probe_thread *thread);
};

/* *@out: @bytes, zero but for the thread in front. 0 or -errno. */
int probe_thread_new(void *out, size_t bytes, const char *name,
		     uint64_t (*send_due)(struct probe_thread *thread));
/* Ends it, waits until it has returned, and frees it all. */
void probe_thread_free(struct probe_thread *thread);
/* Unlocks; the thread sees what has changed. */
void probe_thread_wake(struct probe_thread *thread);
void probe_thread_pause(struct probe_thread *thread, bool paused);

/*
 * A socket that only sends, known to tc egress, bound to @interface and @from. @type: SOCK_RAW,
 * with an IP header of ours, or SOCK_DGRAM. A descriptor for probesock_close(), or -errno.
 */
int probe_socket(int type, const char *interface, const struct esc_address *from, uint16_t port,
		 bool ipv4);

#endif
