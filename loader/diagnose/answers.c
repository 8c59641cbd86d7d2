// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* What has been still for so much longer than another is of a queue pair before that one ... */
#define STILL_NS 5000000000ull
/* ... and so is what moved last before that one began, as far as looks a second apart can tell. */
#define LOOK_NS 1250000000ull

/* Of one direction: who moved last, and when the one before that did. */
struct answers_users {
	const struct qp_entry *newest; /* NULL: none */
	const struct qp_entry *second;
};

/*
 * One set of ours, theirs, source port and interface: who uses it to send, who to receive. With
 * the port 0 it is of all ports of these addresses, and has only their stray.
 */
struct answers_slot {
	const struct qp_entry *like; /* any of them; NULL: the slot is free */
	uint16_t sport;
	struct answers_users users[2]; /* by enum esc_direction */
	unsigned int moving[2];	       /* how many of them moved lately */
	unsigned int stray; /* answers on a port that none of ours uses: they were steered */
};

struct answers {
	uint64_t newest_ns; /* when what moved last did */
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
	return a->key.port == b->key.port &&
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
					    const struct qp_entry *entry, uint16_t sport)
{
	uint64_t hash = mix(0xcbf29ce484222325, ours(entry), sizeof(struct esc_address));
	size_t i;

	hash = mix(hash, theirs(entry), sizeof(struct esc_address));
	hash = mix(hash, &sport, sizeof(sport));
	for (i = (hash ^ hash >> 32) & answers->mask; answers->slots[i].like;
	     i = (i + 1) & answers->mask)
		if (answers->slots[i].sport == sport && is_same_way(answers->slots[i].like, entry))
			break;
	return &answers->slots[i];
}

static struct answers_slot *slot_of(struct answers *answers, const struct qp_entry *entry,
				    uint16_t sport)
{
	struct answers_slot *slot = (struct answers_slot *)find_slot(answers, entry, sport);

	slot->like = entry;
	slot->sport = sport;
	return slot;
}

static void answers_add(struct answers *answers, const struct qp_entry *entry)
{
	bool received = entry->key.direction == ESC_DIRECTION_RX;
	struct answers_slot *slot = slot_of(answers, entry, entry->qp.sport);
	struct answers_users *users = &slot->users[received];

	slot->moving[received] += answers->newest_ns - entry->seen_local_ns <= STILL_NS;
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

/* More comes back on a port than goes out on it: it answers what goes out on others. */
static void see_strays(struct answers *answers)
{
	for (size_t i = 0; i <= answers->mask; i++) {
		const struct answers_slot *slot = &answers->slots[i];
		unsigned int sent = slot->moving[ESC_DIRECTION_TX];
		unsigned int received = slot->moving[ESC_DIRECTION_RX];

		if (slot->like && slot->sport && received > sent)
			slot_of(answers, slot->like, 0)->stray += received - sent;
	}
}

int answers_new(struct answers **out, const struct qp_entry *entries, size_t count)
{
	size_t slots = 16;

	while (slots < 4 * count) /* with those of all ports */
		slots *= 2;
	*out = calloc(1, sizeof(**out) + slots * sizeof((*out)->slots[0]));
	if (!*out)
		return -ENOMEM;
	(*out)->mask = slots - 1;
	for (size_t i = 0; i < count; i++)
		if (entries[i].seen_local_ns > (*out)->newest_ns)
			(*out)->newest_ns = entries[i].seen_local_ns;
	for (size_t i = 0; i < count; i++)
		if (is_connected(&entries[i]))
			answers_add(*out, &entries[i]);
	see_strays(*out);
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
	slot = find_slot(answers, tx, tx->qp.sport);
	*nothing_back = !slot->users[ESC_DIRECTION_RX].newest && !find_slot(answers, tx, 0)->stray;
	return only_user(&slot->users[ESC_DIRECTION_TX]) == tx
		       ? only_user(&slot->users[ESC_DIRECTION_RX])
		       : NULL;
}
