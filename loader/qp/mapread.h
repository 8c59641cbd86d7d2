/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash maps read whole, in as few calls as the kernel allows. */
#ifndef ESC_QP_MAPREAD_H
#define ESC_QP_MAPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set up by its owner: fd (borrowed; less than 0: an empty map), max, sizes and a first batch. */
struct mapread {
	int fd;
	uint32_t max; /* entries that the map has room for */
	size_t key_bytes, value_bytes;
	uint32_t batch; /* entries in a call */
	bool no_batch;	/* the kernel has none for this map */
	void *keys, *values;
};

/* 0, or -errno, which ends the reading. */
typedef int mapread_take_fn(void *context, const void *key, const void *value);

/*
 * Calls @take for each entry, in no order. Without batches an entry may come twice, when others
 * are deleted meanwhile. 0 or -errno.
 */
int mapread_all(struct mapread *reader, mapread_take_fn *take, void *context);
void mapread_free(struct mapread *reader);

/* True when @err is what kernels return that lack an operation of hash maps. */
bool mapread_unsupported(int err);

#endif
