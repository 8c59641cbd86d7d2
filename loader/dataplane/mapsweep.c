// SPDX-License-Identifier: BSD-2-Clause
#include "mapsweep.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES_MAX 64

/* Room for one more key at the end; NULL: no memory, and @keys is still the caller's. */
static char *keys_grow(char *keys, size_t count, size_t *room, size_t key_bytes)
{
	size_t wanted = *room ? *room * 2 : 64;
	char *grown;

	if (count < *room)
		return keys;
	grown = reallocarray(keys, wanted, key_bytes);
	if (grown)
		*room = wanted;
	return grown;
}

void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context)
{
	char at[KEY_BYTES_MAX] __attribute__((aligned(8))), *gone = NULL, *grown;
	size_t room = 0, count = 0;
	bool first = true;

	if (key_bytes > sizeof(at))
		return;
	while (!bpf_map_get_next_key(fd, first ? NULL : at, at)) {
		first = false;
		if (stays(at, context))
			continue;
		grown = keys_grow(gone, count, &room, key_bytes);
		if (!grown)
			break;
		gone = grown;
		memcpy(gone + count++ * key_bytes, at, key_bytes);
	}
	for (size_t i = 0; i < count; i++)
		bpf_map_delete_elem(fd, gone + i * key_bytes);
	free(gone);
}
