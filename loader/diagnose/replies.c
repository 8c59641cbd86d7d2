// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* What has been idle for so much longer than another is of an earlier queue pair ... */
#define STILL_NS 5000000000ull
/* ... and so is what moved last before that one began, as far as polls a second apart can show. */
#define POLL_NS 1250000000ull

/* The addresses of a connection from here, and its source port; 0: of all ports. */
struct replies_key {
	struct esc_address ours, theirs;
	uint16_t sport, port; /* @port: the interface's */
};
_Static_assert(sizeof(struct replies_key) == 36, "hashed as bytes: without padding");

/* Of one direction: the two that moved last. */
struct replies_users {
	const struct qp_entry *newest; /* NULL: none */
	const struct qp_entry *second;
	unsigned int moving; /* of them, within STILL_NS */
};

struct replies_slot {
	bool used;
	struct replies_key key;
	struct replies_users users[2]; /* by enum esc_direction */
	/* Of all ports: replies on a port that none of ours uses, since they were steered. */
	unsigned int stray;
};

struct replies {
	uint64_t newest_ns; /* of what moved last */
	size_t mask;
	struct replies_slot slots[];
};

static bool is_connected(const struct qp_entry *entry)
{
	return entry->qp.sport && (entry->qp.transport == ESC_TRANSPORT_RC ||
				   entry->qp.transport == ESC_TRANSPORT_XRC);
}

static struct replies_key key_of(const struct qp_entry *entry)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;

	return (struct replies_key){.ours = tx ? entry->key.src : entry->key.dst,
				    .theirs = tx ? entry->key.dst : entry->key.src,
				    .sport = entry->qp.sport,
				    .port = entry->key.port};
}

/* The slot of @key, or the free one where it belongs. */
static const struct replies_slot *find_slot(const struct replies *replies,
					    const struct replies_key *key)
{
	uint64_t hash = hash_add(HASH_FIRST, key, sizeof(*key));
	size_t i = (hash ^ hash >> 32) & replies->mask;

	while (replies->slots[i].used && memcmp(&replies->slots[i].key, key, sizeof(*key)))
		i = (i + 1) & replies->mask;
	return &replies->slots[i];
}

static struct replies_slot *use_slot(struct replies *replies, const struct replies_key *key)
{
	struct replies_slot *slot = (struct replies_slot *)find_slot(replies, key);

	slot->used = true;
	slot->key = *key;
	return slot;
}

/* The only one, as far as the others are of queue pairs before it; NULL: none or several. */
static const struct qp_entry *only_user(const struct replies_users *users)
{
	const struct qp_entry *old = users->second, *new = users->newest;

	if (!new || !old || new->seen_local_ns - old->seen_local_ns > STILL_NS)
		return new;
	return old->seen_local_ns < new->seen_local_ns &&
			       old->seen_local_ns < new->qp.first_local_ns + POLL_NS
		       ? new
		       : NULL;
}

int replies_new(struct replies **out, const struct qp_entry *entries, size_t count)
{
	size_t slots = 16;
	struct replies *replies;

	while (slots < 4 * count) /* with those of all ports */
		slots *= 2;
	*out = replies = calloc(1, sizeof(*replies) + slots * sizeof(replies->slots[0]));
	if (!replies)
		return -ENOMEM;
	replies->mask = slots - 1;
	for (size_t i = 0; i < count; i++)
		if (entries[i].seen_local_ns > replies->newest_ns)
			replies->newest_ns = entries[i].seen_local_ns;
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		struct replies_key key = key_of(entry);
		struct replies_users *users;

		if (!is_connected(entry))
			continue;
		users = &use_slot(replies, &key)->users[entry->key.direction == ESC_DIRECTION_RX];
		users->moving += replies->newest_ns - entry->seen_local_ns <= STILL_NS;
		if (!users->newest || entry->seen_local_ns > users->newest->seen_local_ns) {
			users->second = users->newest;
			users->newest = entry;
		} else if (!users->second || entry->seen_local_ns > users->second->seen_local_ns) {
			users->second = entry;
		}
	}
	/* More is received on a port than sent on it: it replies to what is sent on others. */
	for (size_t i = 0; i < slots; i++) {
		const struct replies_slot *slot = &replies->slots[i];
		unsigned int sent = slot->users[ESC_DIRECTION_TX].moving;
		unsigned int received = slot->users[ESC_DIRECTION_RX].moving;
		struct replies_key all = slot->key;

		all.sport = 0;
		if (slot->used && slot->key.sport && received > sent)
			use_slot(replies, &all)->stray += received - sent;
	}
	return 0;
}

const struct qp_entry *replies_of(const struct replies *replies, const struct qp_entry *tx,
				  bool *nothing_back)
{
	struct replies_key key = key_of(tx);
	const struct replies_slot *slot = find_slot(replies, &key);
	const struct replies_users *back = &slot->users[ESC_DIRECTION_RX];

	*nothing_back = false;
	if (!is_connected(tx))
		return NULL;
	key.sport = 0;
	*nothing_back = !back->newest && !find_slot(replies, &key)->stray;
	return only_user(&slot->users[ESC_DIRECTION_TX]) == tx ? only_user(back) : NULL;
}
