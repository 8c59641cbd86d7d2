// SPDX-License-Identifier: BSD-2-Clause
#include "mapsweep.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define KEY_BYTES_MAX 64

void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context)
{
	char at[KEY_BYTES_MAX] __attribute__((aligned(8))), *gone = NULL;
	size_t room = 0, count = 0;
	bool first = true;

	if (key_bytes > sizeof(at))
		return;
	while (!bpf_map_get_next_key(fd, first ? NULL : at, at)) {
		first = false;
		if (stays(at, context))
			continue;
		if (array_reserve(&gone, &room, count + 1, key_bytes))
			break;
		memcpy(gone + count++ * key_bytes, at, key_bytes);
	}
	for (size_t i = 0; i < count; i++)
		bpf_map_delete_elem(fd, gone + i * key_bytes);
	free(gone);
}
