// SPDX-License-Identifier: BSD-2-Clause
/* Steering's side of the maps: `steers` and `control` are written here, `qps` is read. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "base/log.h"
#include "qp/table.h"
#include "internal.h"

/* Numbers go on over restarts, with the map. Entries of `qps` begin with a low half of 0. */
static uint32_t next_generation(const struct steer *steer)
{
	uint32_t generation = steer->control->steer_generation + 1;

	return generation & 0xffff ? generation : generation + 1;
}

static void set_generation(struct steer *steer, uint32_t generation)
{
	__atomic_store_n(&steer->control->steer_generation, generation, __ATOMIC_SEQ_CST);
}

int steer_publish(struct steer *steer, struct steered *entry)
{
	uint32_t generation = next_generation(steer);
	int err;

	entry->want.order = generation;
	err = bpf_map_update_elem(steer->steers_fd, &entry->key, &entry->want, BPF_ANY);
	if (!err)
		set_generation(steer, generation);
	return err;
}

void steer_withdraw(struct steer *steer, const struct esc_qp_key *key)
{
	bpf_map_delete_elem(steer->steers_fd, key);
	set_generation(steer, next_generation(steer));
}

void steer_withdraw_all(struct steer *steer)
{
	struct esc_qp_key key;

	/* Bounded: somebody else may be writing the map. */
	for (int i = 0; i < 2 * ESC_STEERS_MAX; i++) {
		if (bpf_map_get_next_key(steer->steers_fd, NULL, &key))
			break;
		bpf_map_delete_elem(steer->steers_fd, &key);
	}
	set_generation(steer, next_generation(steer));
}

void steer_write_ports(struct steer *steer, uint16_t ports)
{
	struct esc_control *control = steer->control;

	__atomic_store_n(&control->steer_ports, ports, __ATOMIC_SEQ_CST);
	if (ports)
		__atomic_or_fetch(&control->flags, ESC_CONTROL_STEER, __ATOMIC_SEQ_CST);
	else
		__atomic_and_fetch(&control->flags, ~ESC_CONTROL_STEER, __ATOMIC_SEQ_CST);
}

int steer_read_qp(const struct steer *steer, const struct esc_qp_key *key, struct esc_qp *qp)
{
	return bpf_map_lookup_elem(steer->qps_fd, key, qp);
}

/*
 * A queue pair's two directions have one source port at both ends (soft-RoCE and most NICs
 * derive it from both numbers). The one entry that fits, or none: of two nobody knows which.
 */
static void find_back(struct steer *steer, struct steered *entry)
{
	const struct qp_entry *entries;
	size_t count;

	entries = qptable_entries(steer->daemon->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct esc_qp_key *key = &entries[i].key;

		if (key->direction != ESC_DIRECTION_RX || key->port != entry->key.port ||
		    entries[i].qp.sport != entry->own_sport ||
		    memcmp(&key->src, &entry->key.dst, sizeof(key->src)) ||
		    memcmp(&key->dst, &entry->key.src, sizeof(key->dst)))
			continue;
		if (entry->has_back) {
			entry->has_back = false;
			return;
		}
		entry->back = *key;
		entry->has_back = true;
	}
}

void steer_count(struct steer *steer, struct steered *entry, const struct esc_qp *qp)
{
	struct esc_qp back;

	entry->counts = (struct verify_counts){.sent = qp->packets, .resent = qp->retransmits};
	if (!entry->has_back)
		find_back(steer, entry);
	if (!entry->has_back)
		return;
	if (steer_read_qp(steer, &entry->back, &back)) {
		entry->has_back = false;
		return;
	}
	entry->counts.paired = true;
	entry->counts.back = back.packets;
	entry->counts.naks = back.nak_sequence;
	entry->counts.asked = back.duplicates;
}

struct steered *steer_add(struct steer *steer, const struct esc_qp_key *key)
{
	struct steered *entry;

	if (steer->count == steer->room) {
		size_t room = steer->room ? 2 * steer->room : 16;
		void *list = realloc(steer->list, room * sizeof(*steer->list));

		if (!list)
			return NULL;
		steer->list = list;
		steer->room = room;
	}
	entry = &steer->list[steer->count++];
	memset(entry, 0, sizeof(*entry));
	entry->key = *key;
	return entry;
}

/* As the daemon before us left them. One whose queue pair is gone goes with the next look. */
int steer_read_orders(struct steer *steer)
{
	struct esc_qp_key key, next, *before = NULL;
	struct steered *entry;
	struct esc_qp qp;

	for (int i = 0; i < ESC_STEERS_MAX; i++) {
		if (bpf_map_get_next_key(steer->steers_fd, before, &next))
			break;
		key = next;
		before = &key;
		entry = steer_add(steer, &key);
		if (!entry)
			return -ENOMEM;
		entry->ordered_local_ns = time_local_ns();
		if (bpf_map_lookup_elem(steer->steers_fd, &key, &entry->want) ||
		    steer_read_qp(steer, &key, &qp))
			continue;
		entry->first_local_ns = qp.first_local_ns;
		entry->own_sport = qp.sport;
		entry->now = qp.steer;
		entry->before = qp.steer;
		if (entry->want.flags & ESC_STEER_LANE) {
			entry->by_itself = true;
			entry->home = entry->want.lane; /* until steering by itself knows better */
			entry->stood_lane = entry->want.lane;
			entry->stood_sport = entry->want.sport;
			if (qp.steer.done != entry->want.order) {
				entry->stood_lane = qp.steer.lane;
				entry->stood_sport = qp.steer.home_sport;
			}
			entry->reason = entry->want.sport ? STEER_BY_CONTENTION : STEER_BY_COVER;
			if (!entry->want.sport)
				entry->state = STEERED_COVERED;
		} else if (!entry->want.sport && !(entry->want.flags & ESC_STEER_LABEL)) {
			entry->state = STEERED_CLEARS;
		}
		steer_count(steer, entry, &qp);
		if (qp.steer.done != entry->want.order || entry->state == STEERED_CLEARS)
			continue;
		entry->done = true;
		if (entry->state == STEERED_COVERED)
			continue;
		entry->state = STEERED_MOVED;
		entry->moment = qp.steer.moment;
		entry->done_local_ns = qp.steer.done_local_ns;
		verify_start(&entry->verify, &entry->counts, entry->ordered_local_ns, false);
	}
	return 0;
}
