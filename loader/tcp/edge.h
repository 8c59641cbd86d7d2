/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockops program on a cgroup: the option with time and delay. */
#ifndef ESC_LOADER_TCPEDGE_H
#define ESC_LOADER_TCPEDGE_H

#include <stddef.h>
#include <stdint.h>

#include "maps/tcp.h"

struct tcpedge;

struct tcpedge_maps {
	int control_fd; /* -1: one of its own, which the caller fills */
	int clock_fd;
	int flows_fd;
	int64_t lab_offset_ns;
	int32_t lab_drift_ppb;
};

/* Loads; nothing is attached. 0, or -errno with a sentence in @why. */
int tcpedge_open(struct tcpedge **out, const struct tcpedge_maps *maps, char *why,
		 size_t why_bytes);
/* Sockets that the cgroup at @path makes from now on. */
int tcpedge_attach(struct tcpedge *edge, const char *path, char *why, size_t why_bytes);
/* Ends with this process too: nothing is pinned. */
void tcpedge_close(struct tcpedge *edge);

int tcpedge_write(struct tcpedge *edge, const struct esc_tcp_control *word);
int tcpedge_counts(const struct tcpedge *edge, struct esc_tcp_counts *counts);
/* Of each of ESC_TCP_CLASSES. */
int tcpedge_class_counts(const struct tcpedge *edge, struct esc_tcp_class_counts *counts);
/* Totals of each of ESC_OWD_BUCKETS. */
int tcpedge_delays(const struct tcpedge *edge, uint64_t *buckets);
int tcpedge_flows_fd(const struct tcpedge *edge);
int tcpedge_cgroups_fd(const struct tcpedge *edge);
int tcpedge_counts_fd(const struct tcpedge *edge);
int tcpedge_control_fd(const struct tcpedge *edge);
int tcpedge_clock_fd(const struct tcpedge *edge);

#endif
