// SPDX-License-Identifier: BSD-2-Clause
#include "mapread.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENOTSUPP_KERNEL 524

bool mapread_unsupported(int err)
{
	return err == -EINVAL || err == -EOPNOTSUPP || err == -ENOTSUPP_KERNEL;
}

static int mapread_resize(struct mapread *reader, uint32_t batch)
{
	void *keys = reallocarray(reader->keys, batch, reader->key_bytes), *values;

	if (!keys)
		return -ENOMEM;
	reader->keys = keys;
	values = reallocarray(reader->values, batch, reader->value_bytes);
	if (!values)
		return -ENOMEM;
	reader->values = values;
	reader->batch = batch;
	return 0;
}

/* The kernel returns whole buckets; -ENOSPC: one is larger than the batch. */
static int mapread_batches(struct mapread *reader, mapread_take_fn *take, void *context)
{
	uint32_t cursor = 0, *in = NULL;
	int err = reader->keys ? 0 : mapread_resize(reader, reader->batch), end = 0;

	while (!err && !end) {
		__u32 count = reader->batch;

		end = bpf_map_lookup_batch(reader->fd, in, &cursor, reader->keys, reader->values,
					   &count, NULL);
		if (end == -ENOSPC) {
			err = mapread_resize(reader, reader->batch * 2);
			end = 0;
			continue;
		}
		if (end && end != -ENOENT)
			return end;
		for (__u32 i = 0; !err && i < count; i++)
			err = take(context, (char *)reader->keys + i * reader->key_bytes,
				   (char *)reader->values + i * reader->value_bytes);
		in = &cursor;
	}
	return err;
}

/* A key that is deleted meanwhile makes the walk begin anew: it is bounded. */
static int mapread_each(struct mapread *reader, mapread_take_fn *take, void *context)
{
	char *key = reader->keys, *next = key + reader->key_bytes;
	int err = bpf_map_get_next_key(reader->fd, NULL, next), failed = 0;

	for (uint32_t i = 0; !err && !failed && i < 2 * reader->max; i++) {
		memcpy(key, next, reader->key_bytes);
		if (!bpf_map_lookup_elem(reader->fd, key, reader->values))
			failed = take(context, key, reader->values);
		err = bpf_map_get_next_key(reader->fd, key, next);
	}
	return failed ? failed : err == -ENOENT ? 0 : err;
}

int mapread_all(struct mapread *reader, mapread_take_fn *take, void *context)
{
	int err;

	if (reader->fd < 0)
		return 0;
	err = reader->no_batch ? -EOPNOTSUPP : mapread_batches(reader, take, context);
	if (!mapread_unsupported(err))
		return err;
	reader->no_batch = true;
	return mapread_each(reader, take, context);
}

void mapread_free(struct mapread *reader)
{
	free(reader->keys);
	free(reader->values);
}
