/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two sending threads share. */
#ifndef ESC_PROBE_INTERNAL_H
#define ESC_PROBE_INTERNAL_H

#include <sys/socket.h>

#include "probe.h"

/* No signals, exact timers and a priority above the loop's, for the thread that calls it. */
void probe_thread_setup(const char *name);
/* Returns the size of the address in @out. */
socklen_t probe_sockaddr(const struct esc_address *address, uint16_t port, bool ipv4,
			 struct sockaddr_storage *out);

#endif
