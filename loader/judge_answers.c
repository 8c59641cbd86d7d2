// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "judge_parts.h"

/* What has been still for so much longer than another is of a queue pair before that one ... */
#define STILL_NS 5000000000ull
/* ... and so is what moved last before that one began, as far as looks a second apart can tell. */
#define LOOK_NS 1250000000ull

/* Of one direction: who moved last, and when the one before that did. */
struct answers_users {
	const struct qp_entry *newest; /* NULL: none */
	const struct qp_entry *second;
};

/* One set of ours, theirs, source port and interface: who uses it to send, who to receive. */
struct answers_slot {
	const struct qp_entry *like;   /* any of them; NULL: the slot is free */
	struct answers_users users[2]; /* by enum esc_direction */
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
	struct answers_users *users = &slot->users[entry->key.direction == ESC_DIRECTION_RX];

	slot->like = entry;
	if (!users->newest || entry->seen_local_ns > users->newest->seen_local_ns) {
		users->second = users->newest;
		users->newest = entry;
	} else if (!users->second || entry->seen_local_ns > users->second->seen_local_ns) {
		users->second = entry;
	}
}

static bool was_before(const struct qp_entry *old, const struct qp_entry *new)
{
	if (new->seen_local_ns - old->seen_local_ns > STILL_NS)
		return true;
	return old->seen_local_ns < new->seen_local_ns &&
	       old->seen_local_ns < new->qp.first_local_ns + LOOK_NS;
}

/* The only one, as far as the others are of queue pairs before it; NULL: none or several. */
static const struct qp_entry *only_user(const struct answers_users *users)
{
	if (!users->newest || !users->second)
		return users->newest;
	return was_before(users->second, users->newest) ? users->newest : NULL;
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
	*nothing_back = !slot->users[ESC_DIRECTION_RX].newest;
	return only_user(&slot->users[ESC_DIRECTION_TX]) == tx
		       ? only_user(&slot->users[ESC_DIRECTION_RX])
		       : NULL;
}
