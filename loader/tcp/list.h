/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections in `tcp_flows`, read out. */
#ifndef ESC_LOADER_TCPLIST_H
#define ESC_LOADER_TCPLIST_H

#include <stddef.h>

#include "maps/tcp.h"

struct tcplist;

/* 0 or -errno with a sentence in @why. */
int tcplist_open(struct tcplist **out, int flows_fd, char *why, size_t why_bytes);
void tcplist_close(struct tcplist *list);
/* At most @most rows into @rows; how many there were, or -errno. */
long tcplist_read(const struct tcplist *list, struct esc_tcp_row *rows, size_t most);

#endif
