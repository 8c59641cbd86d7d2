/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes out of a hash map what is not to be there any more. */
#ifndef ESC_LOADER_MAPSWEEP_H
#define ESC_LOADER_MAPSWEEP_H

#include <stdbool.h>
#include <stddef.h>

typedef bool mapsweep_stays_fn(const void *key, void *context);

/*
 * Asks @stays of each key of @key_bytes in the map @fd, and then deletes those that do not: a
 * walk that deletes on its way would begin anew. What memory is lacking for is left to the next.
 */
void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context);

#endif
