/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays added up by port and by destination, beyond the lives of queue pairs. */
#ifndef ESC_LOADER_DELAYS_SUMS_H
#define ESC_LOADER_DELAYS_SUMS_H

#include "delay.h"

struct delays_sums {
	struct delays_port ports[ESC_PORTS_MAX];
	struct delays_destination *destinations; /* by dst, port */
	size_t destination_count, destination_room;
};

void delays_sums_free(struct delays_sums *sums);

/*
 * Before @entry takes over the counters of @owd, and after its state has:
 * state->look is of this reading.
 */
void delays_sums_add(struct delays_sums *sums, const struct delays_entry *entry,
		     const struct esc_qp_owd *owd);
/* Destinations that none of @entries is sampled to. */
void delays_sums_forget(struct delays_sums *sums, const struct delays_entry *entries, size_t count);

#endif
