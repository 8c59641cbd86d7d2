// SPDX-License-Identifier: BSD-2-Clause
#include "read.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define QPREAD_BATCH 256

struct qpread {
	int fd;
	uint32_t max;
	bool no_batch; /* the kernel has none for this map */
	uint32_t batch;
	struct esc_qp_key *keys;
	struct esc_qp *values;
};

/* What has been read so far. */
struct qplist {
	struct qp_entry *entries;
	size_t count;
	size_t room;
};

static int qpread_resize(struct qpread *reader, uint32_t batch)
{
	void *keys = realloc(reader->keys, batch * sizeof(*reader->keys));
	void *values;

	if (!keys)
		return -ENOMEM;
	reader->keys = keys;
	values = realloc(reader->values, batch * sizeof(*reader->values));
	if (!values)
		return -ENOMEM;
	reader->values = values;
	reader->batch = batch;
	return 0;
}

int qpread_new(struct qpread **out, int fd, uint32_t max)
{
	struct qpread *reader = calloc(1, sizeof(*reader));
	int err;

	*out = NULL;
	if (!reader)
		return -ENOMEM;
	reader->fd = fd;
	reader->max = max;
	err = qpread_resize(reader, QPREAD_BATCH);
	if (err)
		qpread_free(reader);
	else
		*out = reader;
	return err;
}

void qpread_free(struct qpread *reader)
{
	if (!reader)
		return;
	free(reader->keys);
	free(reader->values);
	free(reader);
}

static int qplist_add(struct qplist *list, const struct esc_qp_key *key, const struct esc_qp *qp)
{
	struct qp_entry *entry;

	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		void *entries = realloc(list->entries, room * sizeof(*list->entries));

		if (!entries)
			return -ENOMEM;
		list->entries = entries;
		list->room = room;
	}
	entry = &list->entries[list->count++];
	memset(entry, 0, sizeof(*entry));
	entry->key = *key;
	entry->qp = *qp;
	return 0;
}

/* The kernel hands out whole buckets; -ENOSPC: one is larger than our room. */
static int qpread_batched(struct qpread *reader, struct qplist *list)
{
	uint32_t cursor = 0, *in = NULL;
	int err = 0;

	for (;;) {
		LIBBPF_OPTS(bpf_map_batch_opts, options);
		__u32 count = reader->batch;
		int got = bpf_map_lookup_batch(reader->fd, in, &cursor, reader->keys,
					       reader->values, &count, &options);

		if (got == -ENOSPC) {
			err = qpread_resize(reader, reader->batch * 2);
			if (err)
				return err;
			continue;
		}
		if (got && got != -ENOENT)
			return got;
		for (__u32 i = 0; !err && i < count; i++)
			err = qplist_add(list, &reader->keys[i], &reader->values[i]);
		if (got || err)
			return err;
		in = &cursor;
	}
}

/* A key that is deleted under us makes the walk begin anew: bounded, and made unique later. */
static int qpread_one_by_one(struct qpread *reader, struct qplist *list)
{
	struct esc_qp_key key, *previous = NULL;
	struct esc_qp qp;
	int err = 0;

	for (uint32_t i = 0; !err && i < 2 * reader->max; i++) {
		struct esc_qp_key next;

		err = bpf_map_get_next_key(reader->fd, previous, &next);
		if (err)
			break;
		key = next;
		previous = &key;
		if (!bpf_map_lookup_elem(reader->fd, &key, &qp))
			err = qplist_add(list, &key, &qp);
	}
	return err == -ENOENT ? 0 : err;
}

static int qpread_compare(const void *a, const void *b)
{
	const struct qp_entry *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static void qplist_make_unique(struct qplist *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (kept && !qpread_compare(&list->entries[kept - 1], &list->entries[i]))
			kept--;
		if (kept != i)
			list->entries[kept] = list->entries[i];
		kept++;
	}
	list->count = kept;
}

int qpread_all(struct qpread *reader, struct qp_entry **out, size_t *count)
{
	struct qplist list = {0};
	int err = -EOPNOTSUPP;

	if (!reader->no_batch)
		err = qpread_batched(reader, &list);
	if (err == -EINVAL || err == -EOPNOTSUPP || err == -524 /* ENOTSUPP */) {
		reader->no_batch = true;
		list.count = 0;
		err = qpread_one_by_one(reader, &list);
	}
	if (err) {
		free(list.entries);
		return err;
	}
	if (list.count)
		qsort(list.entries, list.count, sizeof(*list.entries), qpread_compare);
	qplist_make_unique(&list);
	*out = list.entries;
	*count = list.count;
	return 0;
}

int qpread_take(int fd, const struct esc_qp_key *key, struct esc_qp *qp)
{
	struct esc_qp last;
	int err = bpf_map_lookup_and_delete_elem(fd, key, &last);

	if (err == -EINVAL || err == -EOPNOTSUPP || err == -524) {
		err = bpf_map_lookup_elem(fd, key, &last);
		if (!err)
			err = bpf_map_delete_elem(fd, key);
	}
	if (!err)
		*qp = last;
	return err;
}
