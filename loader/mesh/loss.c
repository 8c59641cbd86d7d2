// SPDX-License-Identifier: BSD-2-Clause
/*
 * A NIC pair that loses a part of its probes for long, as by a damaged cable. The loss of each
 * tenth of mesh.loss_after is kept: a burst, a restart, and a link that was down for a moment are
 * in one or two of them, what is damaged in most. Pure.
 */
#include <string.h>

#include "internal.h"

#define SHARE_LEAST 0.001 /* of the probes of a tenth */
#define PROBES_LEAST 100  /* in a tenth, or it shows nothing */
#define TENTHS_BEGIN 8	  /* with a loss */
#define TENTHS_END 2
#define TENTHS_LEAN 5

static unsigned int tenths_with_loss(const struct mesh_loss *loss)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < loss->count; i++)
		count += loss->tenths[i].of >= PROBES_LEAST &&
			 (double)loss->tenths[i].lost >= SHARE_LEAST * (double)loss->tenths[i].of &&
			 loss->tenths[i].lost;
	return count;
}

void mesh_loss_reset(struct mesh_loss *loss, uint64_t lost, uint64_t replied)
{
	*loss = (struct mesh_loss){.lost = lost, .replied = replied};
}

void mesh_loss_take(struct mesh_loss *loss, uint64_t lost, uint64_t replied, bool was_lost)
{
	struct mesh_loss_tenth *tenth = &loss->tenths[loss->next];
	unsigned int with_loss;

	if (lost < loss->lost || replied < loss->replied) {
		mesh_loss_reset(loss, lost, replied);
		return;
	}
	tenth->lost = lost - loss->lost;
	tenth->of = tenth->lost + replied - loss->replied;
	loss->lost = lost;
	loss->replied = replied;
	if (was_lost)
		return;
	loss->next = (loss->next + 1) % MESH_LOSS_TENTHS;
	if (loss->count < MESH_LOSS_TENTHS)
		loss->count++;
	with_loss = tenths_with_loss(loss);
	loss->lossy = loss->lossy ? with_loss > TENTHS_END : with_loss >= TENTHS_BEGIN;
}

bool mesh_loss_leans(const struct mesh_loss *loss)
{
	return loss->lossy || tenths_with_loss(loss) >= TENTHS_LEAN;
}

double mesh_loss_share(const struct mesh_loss *loss)
{
	uint64_t lost = 0, of = 0;

	for (unsigned int i = 0; i < loss->count; i++) {
		lost += loss->tenths[i].lost;
		of += loss->tenths[i].of;
	}
	return of ? (double)lost / (double)of : 0;
}
