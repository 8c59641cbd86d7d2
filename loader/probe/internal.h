/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two senders share. */
#ifndef ESC_PROBE_INTERNAL_H
#define ESC_PROBE_INTERNAL_H

#include <sys/socket.h>

#include "base/timerthread.h"
#include "probe.h"

/*
 * A socket that only sends, known to tc egress, bound to @interface and @from. @type: SOCK_RAW,
 * with an IP header of ours, or SOCK_DGRAM. A descriptor for probesock_close(), or -errno.
 */
int probe_socket(int type, const char *interface, const struct esc_address *from, uint16_t port,
		 bool ipv4);

#endif
