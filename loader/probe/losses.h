/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of an edge's requests were answered: a request is lost when its time is up. Pure. */
#ifndef ESC_LOADER_LOSSES_H
#define ESC_LOADER_LOSSES_H

#include <stdint.h>

#define LOSSES_ROOM 16384 /* requests under way; at 4000 a second four times the second they have  \
			   */

struct losses {
	uint32_t judged; /* all before it are judged */
	uint32_t newest; /* of those answered */
	uint64_t answered, lost;
	uint64_t late;	    /* answered after they were counted as lost; not taken back */
	uint64_t reordered; /* answered after a later one was */
	uint64_t seen[LOSSES_ROOM / 64];
};

/* @sequence: of the first request. */
void losses_begin(struct losses *losses, uint32_t sequence);
void losses_answer(struct losses *losses, uint32_t sequence);
/* All before @sequence were sent to nobody: not lost. */
void losses_skip(struct losses *losses, uint32_t sequence);
/* The time of all before @sequence is up. */
void losses_judge(struct losses *losses, uint32_t sequence);

#endif
