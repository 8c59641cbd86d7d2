// SPDX-License-Identifier: BSD-2-Clause
#include "read.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#define DELAYREAD_BATCH 128 /* half a megabyte */
#define ENOTSUPP_KERNEL 524

struct delayread {
	int owd_fd, sent_fd;
	uint32_t max;
	bool no_batch;
	uint32_t batch;
	struct esc_qp_key *keys;
	struct esc_qp_owd *values;
};

static int delayread_resize(struct delayread *reader, uint32_t batch)
{
	void *keys = reallocarray(reader->keys, batch, sizeof(*reader->keys));
	void *values;

	if (!keys)
		return -ENOMEM;
	reader->keys = keys;
	values = reallocarray(reader->values, batch, sizeof(*reader->values));
	if (!values)
		return -ENOMEM;
	reader->values = values;
	reader->batch = batch;
	return 0;
}

int delayread_new(struct delayread **out, int owd_fd, int sent_fd, uint32_t max)
{
	struct delayread *reader = calloc(1, sizeof(*reader));

	*out = NULL;
	if (!reader)
		return -ENOMEM;
	reader->owd_fd = owd_fd;
	reader->sent_fd = sent_fd;
	reader->max = max;
	*out = reader;
	return 0;
}

void delayread_free(struct delayread *reader)
{
	if (!reader)
		return;
	free(reader->keys);
	free(reader->values);
	free(reader);
}

/* The kernel hands out whole hash buckets; -ENOSPC: one is larger than our room. */
static int delayread_batched(struct delayread *reader, delayread_take *take, void *context)
{
	uint32_t cursor = 0, *in = NULL;
	int err = reader->batch ? 0 : delayread_resize(reader, DELAYREAD_BATCH);

	while (!err) {
		LIBBPF_OPTS(bpf_map_batch_opts, options);
		__u32 count = reader->batch;

		err = bpf_map_lookup_batch(reader->owd_fd, in, &cursor, reader->keys,
					   reader->values, &count, &options);
		if (err == -ENOSPC) {
			err = delayread_resize(reader, reader->batch * 2);
			continue;
		}
		if (err && err != -ENOENT)
			break;
		for (__u32 i = 0; i < count; i++)
			take(context, &reader->keys[i], &reader->values[i]);
		in = &cursor;
	}
	return err == -ENOENT ? 0 : err;
}

int delayread_all(struct delayread *reader, delayread_take *take, void *context)
{
	int err;

	if (reader->owd_fd < 0)
		return 0;
	err = reader->no_batch ? -EOPNOTSUPP : delayread_batched(reader, take, context);
	if (err == -EINVAL || err == -ENOTSUPP_KERNEL)
		err = -EOPNOTSUPP;
	reader->no_batch = err == -EOPNOTSUPP;
	return err;
}

int delayread_one(const struct delayread *reader, const struct esc_qp_key *key,
		  struct esc_qp_owd *owd)
{
	return reader->owd_fd < 0 ? -ENOENT : bpf_map_lookup_elem(reader->owd_fd, key, owd);
}

void delayread_delete(const struct delayread *reader, const struct esc_qp_key *key)
{
	if (reader->owd_fd >= 0)
		bpf_map_delete_elem(reader->owd_fd, key);
	if (reader->sent_fd >= 0)
		bpf_map_delete_elem(reader->sent_fd, key);
}

/* Of two keys in the walk the first may go only when the second is known. */
static size_t sweep_map(const struct delayread *reader, int fd, delayread_is_known *known,
			void *context, size_t most)
{
	struct esc_qp_key key, next;
	size_t deleted = 0;
	uint32_t steps = 0;
	int err;

	err = fd < 0 ? -ENOENT : bpf_map_get_next_key(fd, NULL, &next);
	while (!err && deleted < most && steps++ < 2 * reader->max) {
		key = next;
		err = bpf_map_get_next_key(fd, &key, &next);
		if (known(context, &key))
			continue;
		delayread_delete(reader, &key);
		deleted++;
	}
	return deleted;
}

size_t delayread_sweep(const struct delayread *reader, delayread_is_known *known, void *context,
		       size_t most)
{
	size_t deleted = sweep_map(reader, reader->owd_fd, known, context, most);

	return deleted + sweep_map(reader, reader->sent_fd, known, context, most - deleted);
}
