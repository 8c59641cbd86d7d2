/* SPDX-License-Identifier: BSD-2-Clause */
/* What modules with maps and objects of their own do alike. */
#ifndef ESC_DATAPLANE_BPFMAP_H
#define ESC_DATAPLANE_BPFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_object;

typedef bool mapsweep_stays_fn(const void *key, void *context);
/*
 * Calls @stays for each key of @key_bytes in the hash map @fd, and then deletes those that do not:
 * a walk that deletes would restart. Entries for which there is no memory are left to the next sweep.
 */
void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context);

/*
 * Entry @index of the per-CPU array @fd, an array of __u64 of @bytes in all, summed over all CPUs
 * into @out; zeros on failure. 0 or -errno.
 */
int bpfmap_sum(int fd, uint32_t index, void *out, size_t bytes);

/* A map that the programs of an object use: the one of @fd, or with -1 one of their own. */
struct bpfmap_use {
	const char *name;
	int fd;
};
/*
 * Before @object is loaded. Of the maps of bpf/lib/maps.bpf.h that are not in @uses (ended by {})
 * none is created. 0 or -errno.
 */
int bpfmap_share(struct bpf_object *object, const struct bpfmap_use *uses);

#endif
