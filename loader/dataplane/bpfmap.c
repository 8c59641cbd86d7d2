// SPDX-License-Identifier: BSD-2-Clause
#include "bpfmap.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define KEY_BYTES_MAX 64

void mapsweep(int fd, size_t key_bytes, mapsweep_stays_fn *stays, void *context)
{
	char key[KEY_BYTES_MAX] __attribute__((aligned(8))), *gone = NULL, *entry;
	size_t room = 0, count = 0;
	bool first = true;

	if (key_bytes > sizeof(key))
		return;
	while (!bpf_map_get_next_key(fd, first ? NULL : key, key)) {
		first = false;
		if (stays(key, context))
			continue;
		entry = array_add(&gone, &count, &room, key_bytes);
		if (!entry)
			break;
		memcpy(entry, key, key_bytes);
	}
	for (size_t i = 0; i < count; i++)
		bpf_map_delete_elem(fd, gone + i * key_bytes);
	free(gone);
}

int bpfmap_sum(int fd, uint32_t index, void *out, size_t bytes)
{
	int cpus = libbpf_num_possible_cpus(), err;
	size_t count = bytes / sizeof(uint64_t);
	uint64_t *sum = out, *each;

	memset(out, 0, bytes);
	if (cpus < 0)
		return cpus;
	each = calloc(cpus, bytes);
	if (!each)
		return -ENOMEM;
	err = bpf_map_lookup_elem(fd, &index, each);
	for (size_t i = 0; !err && i < cpus * count; i++)
		sum[i % count] += each[i];
	free(each);
	return err;
}

int bpfmap_share(struct bpf_object *object, const struct bpfmap_use *uses)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map (map, object) {
		const struct bpfmap_use *use = uses;

		if (err || bpf_map__is_internal(map))
			continue;
		while (use->name && strcmp(use->name, bpf_map__name(map)))
			use++;
		if (!use->name)
			err = bpf_map__set_autocreate(map, false);
		else if (use->fd >= 0)
			err = bpf_map__reuse_fd(map, use->fd);
	}
	return err;
}
