/* SPDX-License-Identifier: BSD-2-Clause */
/* The families of queue pairs' delays and of receipts in escapement.prom. */
#ifndef ESC_LOADER_METRICS_DELAYS_H
#define ESC_LOADER_METRICS_DELAYS_H

#include <stdio.h>

struct metrics_facts;

/* Peers with series of their own: those that most samples went to. */
#define METRICS_DELAY_PEERS_MOST 128

/*
 * Series: 7 of each queue pair shown (textfile.top_qps, the slowest), 7 of each
 * peer shown, 31 of each port.
 */
void metrics_write_delays(FILE *out, const struct metrics_facts *facts);

#endif
