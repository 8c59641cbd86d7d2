/* SPDX-License-Identifier: BSD-2-Clause */
/* The wrappers around cubic, bbr and reno, known to the kernel by names of their own. */
#ifndef ESC_LOADER_TCPWRAP_H
#define ESC_LOADER_TCPWRAP_H

#include <stddef.h>
#include <stdint.h>

#include "maps/tcp.h"

struct tcpwrap;

/*
 * Loads those that the kernel can have, and says in @why which it cannot. 0 when there is one
 * at least; the fds are of the maps tcp_flows and tcp_counts. @refused: bits of enum
 * esc_tcp_inner, taken as if the kernel had no such (tests).
 */
int tcpwrap_open(struct tcpwrap **out, int flows_fd, int counts_fd, uint32_t refused, char *why,
		 size_t why_bytes);
/* No new socket gets them; sockets that have one keep it, and are limited no more 2 s later. */
void tcpwrap_close(struct tcpwrap *wrap);
/* Name in the kernel, "" for one that is not there. A second daemon on one kernel has a number
 * behind it. */
const char *tcpwrap_name(const struct tcpwrap *wrap, enum esc_tcp_inner inner);

#endif
