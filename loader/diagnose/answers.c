// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* What has been still for so much longer than another is of a queue pair before that one ... */
#define STILL_NS 5000000000ull
/* ... and so is what moved last before that one began, as far as polls a second apart can show. */
#define POLL_NS 1250000000ull

/* The addresses of a connection from here, and its source port; 0: of all ports. */
struct answers_key {
	struct esc_address ours, theirs;
	uint16_t sport, port; /* @port: the interface's */
};
_Static_assert(sizeof(struct answers_key) == 36, "hashed as bytes: without padding");

/* Of one direction: which moved last, and when the one before that did. */
struct answers_users {
	const struct qp_entry *newest; /* NULL: none */
	const struct qp_entry *second;
	unsigned int moving; /* how many of them moved lately */
};

struct answers_slot {
	bool used;
	struct answers_key key;
	struct answers_users users[2]; /* by enum esc_direction */
	/* Of all ports: replies on a port that none of ours uses: they were steered. */
	unsigned int stray;
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

static struct answers_key key_of(const struct qp_entry *entry)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;

	return (struct answers_key){.ours = tx ? entry->key.src : entry->key.dst,
				    .theirs = tx ? entry->key.dst : entry->key.src,
				    .sport = entry->qp.sport,
				    .port = entry->key.port};
}

/* The slot of @key, or the free one where it belongs. */
static const struct answers_slot *find_slot(const struct answers *answers,
					    const struct answers_key *key)
{
	uint64_t hash = 0xcbf29ce484222325;
	size_t i;

	for (i = 0; i < sizeof(*key); i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3;
	i = (hash ^ hash >> 32) & answers->mask;
	while (answers->slots[i].used && memcmp(&answers->slots[i].key, key, sizeof(*key)))
		i = (i + 1) & answers->mask;
	return &answers->slots[i];
}

static struct answers_slot *use_slot(struct answers *answers, const struct answers_key *key)
{
	struct answers_slot *slot = (struct answers_slot *)find_slot(answers, key);

	slot->used = true;
	slot->key = *key;
	return slot;
}

static void answers_add(struct answers *answers, const struct qp_entry *entry)
{
	struct answers_key key = key_of(entry);
	struct answers_users *users =
		&use_slot(answers, &key)->users[entry->key.direction == ESC_DIRECTION_RX];

	users->moving += answers->newest_ns - entry->seen_local_ns <= STILL_NS;
	if (!users->newest || entry->seen_local_ns > users->newest->seen_local_ns) {
		users->second = users->newest;
		users->newest = entry;
	} else if (!users->second || entry->seen_local_ns > users->second->seen_local_ns) {
		users->second = entry;
	}
}

/* The only one, as far as the others are of queue pairs before it; NULL: none or several. */
static const struct qp_entry *only_user(const struct answers_users *users)
{
	const struct qp_entry *old = users->second, *new = users->newest;

	if (!new || !old || new->seen_local_ns - old->seen_local_ns > STILL_NS)
		return new;
	return old->seen_local_ns < new->seen_local_ns &&
			       old->seen_local_ns < new->qp.first_local_ns + POLL_NS
		       ? new
		       : NULL;
}

int answers_new(struct answers **out, const struct qp_entry *entries, size_t count)
{
	size_t slots = 16;
	struct answers *answers;

	while (slots < 4 * count) /* with those of all ports */
		slots *= 2;
	*out = answers = calloc(1, sizeof(*answers) + slots * sizeof(answers->slots[0]));
	if (!answers)
		return -ENOMEM;
	answers->mask = slots - 1;
	for (size_t i = 0; i < count; i++)
		if (entries[i].seen_local_ns > answers->newest_ns)
			answers->newest_ns = entries[i].seen_local_ns;
	for (size_t i = 0; i < count; i++)
		if (is_connected(&entries[i]))
			answers_add(answers, &entries[i]);
	/* More comes back on a port than goes out on it: it replies to what goes out on others. */
	for (size_t i = 0; i < slots; i++) {
		const struct answers_slot *slot = &answers->slots[i];
		unsigned int sent = slot->users[ESC_DIRECTION_TX].moving;
		unsigned int received = slot->users[ESC_DIRECTION_RX].moving;
		struct answers_key all = slot->key;

		all.sport = 0;
		if (slot->used && slot->key.sport && received > sent)
			use_slot(answers, &all)->stray += received - sent;
	}
	return 0;
}

void answers_free(struct answers *answers)
{
	free(answers);
}

const struct qp_entry *answers_of(const struct answers *answers, const struct qp_entry *tx,
				  bool *nothing_back)
{
	struct answers_key key = key_of(tx);
	const struct answers_slot *slot = find_slot(answers, &key);
	const struct answers_users *back = &slot->users[ESC_DIRECTION_RX];

	*nothing_back = false;
	if (!is_connected(tx))
		return NULL;
	key.sport = 0;
	*nothing_back = !back->newest && !find_slot(answers, &key)->stray;
	return only_user(&slot->users[ESC_DIRECTION_TX]) == tx ? only_user(back) : NULL;
}
