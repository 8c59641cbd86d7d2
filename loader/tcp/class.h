/* SPDX-License-Identifier: BSD-2-Clause */
/* Classes of TCP connections: pacing's own, as the TCP programs can hold them. */
#ifndef ESC_LOADER_TCPCLASS_H
#define ESC_LOADER_TCPCLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maps/tcp.h"

struct pace;
struct tcpclass;

int tcpclass_new(struct tcpclass **out);
void tcpclass_free(struct tcpclass *classes);
/* As they are now, into @word; @threshold_ns is of those that have none of their own. */
void tcpclass_take(struct tcpclass *classes, const struct pace *pace, uint32_t threshold_ns,
		   struct esc_tcp_control *word);
const char *tcpclass_name(const struct tcpclass *classes, unsigned int class);
unsigned int tcpclass_count(const struct tcpclass *classes);
/*
 * The cgroups from @top down, a folder of the unified hierarchy, that classes name, into the map
 * `tcp_cgroups`. Nothing is read when no class names any. How many did not fit, or -errno.
 */
long tcpclass_poll(struct tcpclass *classes, const struct pace *pace, const char *top, int map_fd);
/* The map is another one, and empty. */
void tcpclass_forget(struct tcpclass *classes);

#endif
