// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "judge_parts.h"

/* One set of ours, theirs, source port and interface: who uses it to send, who to receive. */
struct answers_slot {
	const struct qp_entry *like; /* any of them; NULL: the slot is free */
	uint32_t tx, rx;
	const struct qp_entry *newest_rx;
};

struct answers {
	size_t mask;
	struct answers_slot slots[];
};

static bool is_connected(const struct qp_entry *entry)
{
	return entry->qp.sport && (entry->qp.transport == ESC_TRANSPORT_RC ||
				   entry->qp.transport == ESC_TRANSPORT_XRC);
}

static const struct esc_address *ours(const struct qp_entry *entry)
{
	return entry->key.direction == ESC_DIRECTION_TX ? &entry->key.src : &entry->key.dst;
}

static const struct esc_address *theirs(const struct qp_entry *entry)
{
	return entry->key.direction == ESC_DIRECTION_TX ? &entry->key.dst : &entry->key.src;
}

static bool is_same_way(const struct qp_entry *a, const struct qp_entry *b)
{
	return a->qp.sport == b->qp.sport && a->key.port == b->key.port &&
	       !memcmp(ours(a), ours(b), sizeof(struct esc_address)) &&
	       !memcmp(theirs(a), theirs(b), sizeof(struct esc_address));
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
	return hash;
}

static const struct answers_slot *find_slot(const struct answers *answers,
					    const struct qp_entry *entry)
{
	uint64_t hash = mix(0xcbf29ce484222325, ours(entry), sizeof(struct esc_address));
	size_t i;

	hash = mix(hash, theirs(entry), sizeof(struct esc_address));
	hash = mix(hash, &entry->qp.sport, sizeof(entry->qp.sport));
	for (i = (hash ^ hash >> 32) & answers->mask; answers->slots[i].like;
	     i = (i + 1) & answers->mask)
		if (is_same_way(answers->slots[i].like, entry))
			break;
	return &answers->slots[i];
}

static void answers_add(struct answers *answers, const struct qp_entry *entry)
{
	struct answers_slot *slot = (struct answers_slot *)find_slot(answers, entry);

	slot->like = entry;
	if (entry->key.direction == ESC_DIRECTION_TX) {
		slot->tx++;
	} else {
		slot->rx++;
		slot->newest_rx = entry;
	}
}

int answers_new(struct answers **out, const struct qp_entry *entries, size_t count)
{
	size_t slots = 16;

	while (slots < 2 * count)
		slots *= 2;
	*out = calloc(1, sizeof(**out) + slots * sizeof((*out)->slots[0]));
	if (!*out)
		return -ENOMEM;
	(*out)->mask = slots - 1;
	for (size_t i = 0; i < count; i++)
		if (is_connected(&entries[i]))
			answers_add(*out, &entries[i]);
	return 0;
}

void answers_free(struct answers *answers)
{
	free(answers);
}

const struct qp_entry *answers_of(const struct answers *answers, const struct qp_entry *tx,
				  bool *nothing_back)
{
	const struct answers_slot *slot;

	*nothing_back = false;
	if (!is_connected(tx))
		return NULL;
	slot = find_slot(answers, tx);
	*nothing_back = !slot->rx;
	return slot->tx == 1 && slot->rx == 1 ? slot->newest_rx : NULL;
}
