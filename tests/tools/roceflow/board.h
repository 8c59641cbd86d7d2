/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the flows of a collective know of each other, in a file that all of them map: who may begin
 * which message, and when rounds began and ended. One machine, one clock.
 *
 * A round is so many messages (steps) of each flow. The first of a round waits for the end of the
 * round before and a rest; each other one for the same step of the flow whose number is one less:
 * a ring, which passes on what it got. With one step a round is an all-to-all, or an incast.
 */
#ifndef ROCEFLOW_BOARD_H
#define ROCEFLOW_BOARD_H

#include <stdint.h>

#define BOARD_MAGIC 0x0e5cb0a2dull
#define BOARD_FLOWS 256
#define BOARD_ROUNDS 1024

/* Made by who starts the run: all zero but for the magic, flows, steps, rest_ns and start_ns[0]. */
struct board_page {
	uint64_t magic;
	uint64_t flows, steps, rest_ns;
	uint64_t start_ns[BOARD_ROUNDS]; /* 0: not known yet */
	uint64_t end_ns[BOARD_ROUNDS];	 /* all of it has come */
	uint64_t done[BOARD_FLOWS];	 /* messages of each flow that came */
	uint64_t line_ns[BOARD_FLOWS];	 /* when a host's line is free again */
};

struct board;

/* @flow: the one that is woken when another one has come; -1: none. Prints its own complaint. */
struct board *board_open(const char *path, int flow);
void board_close(struct board *board);
/* Readable when a message was received; -1 without a flow. */
int board_fd(const struct board *board);
void board_hear(struct board *board);
/* When @flow may begin its message @number; UINT64_MAX: that is not known yet. */
uint64_t board_opens_ns(const struct board *board, unsigned int flow, uint64_t number);
/* @messages of @flow have come. */
void board_done(struct board *board, unsigned int flow, uint64_t messages, uint64_t now);
/* The line that a host's senders share. */
uint64_t *board_line(struct board *board, unsigned int host);

#endif
