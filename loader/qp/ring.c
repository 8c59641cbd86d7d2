// SPDX-License-Identifier: BSD-2-Clause
/* Rings for copies of a queue pair's packets (maps/repair.h), and its other direction. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "qp.h"

/* --- rings --- */

int qpring_make(int rings_fd, uint32_t index, const struct esc_qp_key *key, bool last_only,
		struct esc_repair_ring **out)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "repair_ring", sizeof(uint32_t),
				sizeof(struct esc_repair_ring), 1, &options);
	struct esc_repair_ring *ring;
	int err = 0;

	if (fd < 0)
		return fd;
	ring = mmap(NULL, (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		err = -errno;
	if (!err) {
		if (key)
			ring->key = *key;
		ring->last_only = last_only;
		err = bpf_map_update_elem(rings_fd, &index, &fd, BPF_ANY);
	}
	close(fd); /* the array holds it */
	if (!err)
		*out = ring;
	else if (ring != MAP_FAILED)
		munmap(ring, (size_t)getpagesize());
	return err;
}

void qpring_drop(int rings_fd, uint32_t index, struct esc_repair_ring *ring)
{
	bpf_map_delete_elem(rings_fd, &index);
	qpring_unmap(ring);
}

void qpring_unmap(struct esc_repair_ring *ring)
{
	if (ring)
		munmap(ring, (size_t)getpagesize());
}

void qpring_add(struct qpring_counts *sum, const struct esc_repair_ring *ring)
{
	sum->repairs += ring->repairs;
	sum->replayed += ring->replayed;
	sum->overruns += ring->overruns;
	sum->missed += ring->missed;
}

/* --- the other direction --- */

bool qptable_find_back(const struct qptable *table, const struct esc_qp_key *key, uint16_t sport,
		       struct esc_qp_key *back)
{
	const struct owner *owner = qptable_owner(table, key, "");
	const struct qp_entry *entries;
	bool found = false;
	size_t count;

	*back = (struct esc_qp_key){.src = key->dst,
				    .dst = key->src,
				    .dest_qpn = owner ? owner->key.qpn : 0,
				    .direction = ESC_DIRECTION_RX,
				    .port = key->port};
	if (owner)
		return true;
	entries = qptable_entries(table, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *one = &entries[i].key;

		if (one->direction != ESC_DIRECTION_RX || one->port != key->port ||
		    entries[i].qp.sport != sport ||
		    memcmp(&one->src, &key->dst, sizeof(one->src)) ||
		    memcmp(&one->dst, &key->src, sizeof(one->dst)))
			continue;
		if (found)
			return false;
		*back = *one;
		found = true;
	}
	return found;
}
