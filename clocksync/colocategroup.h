/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups of hosts on one machine, of the probabilities of their pairs. */
#ifndef ESC_CLOCKSYNC_COLOCATEGROUP_H
#define ESC_CLOCKSYNC_COLOCATEGROUP_H

#include "clocksync/colocate.h"

/*
 * Fills in the groups of @out, whose pairs are judged: all pairs of a group are of one machine, and
 * no other. A pair that was named and is in no group becomes undecided. 0 or -ENOMEM.
 */
int colocate_group(struct colocate *out);

#endif
