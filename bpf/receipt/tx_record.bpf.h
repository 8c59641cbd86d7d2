/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sender's notes: when a sampled packet left, until the receipt for it
 * comes. A note is taken once, and by one PSN only: a packet that is sent again
 * leaves none (Karn and Partridge, 1987).
 */
#ifndef ESC_BPF_RECEIPT_TX_RECORD_H
#define ESC_BPF_RECEIPT_TX_RECORD_H

#include "receipt/host_queue.bpf.h"

/* A note that is overwritten before it is so old shows that receipts come more slowly than the ring
 * turns. */
#define SENT_YOUNG_NS 1000000000ll

static const struct esc_qp_sent sent_empty;
static const struct esc_qp_owd owd_empty;

static __always_inline __u32 sent_name(const struct esc_packet *p)
{
	return p->psn | (p->flags & ESC_OP_REQUEST ? 0 : ESC_SENT_RESPONSE);
}

/* NULL: the tables have no room. Another CPU may have been first. */
static __noinline struct esc_qp_sent *sent_insert(const struct esc_qp_key *key)
{
	if (!bpf_map_lookup_elem(&qp_owd, key))
		bpf_map_update_elem(&qp_owd, key, &owd_empty, BPF_NOEXIST);
	bpf_map_update_elem(&qp_sent, key, &sent_empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&qp_sent, key);
}

/* A note that still waits is overwritten: by the next of its kind, or not at all. */
static __always_inline bool sent_make_room(struct qp_found *found, struct esc_qp_owd *owd,
					   const struct esc_sent_note *note, bool fixed)
{
	__u64 now_ns = found->now_ns;
	bool young = (__s64)(now_ns - note->tx_ktime_ns) < SENT_YOUNG_NS;

	if (young && !(found->what & FOUND_SAMPLED))
		return false;
	count(owd->overwritten, 1);
	if (young && !fixed && !(note->psn & found->qp->sample_mask)) {
		sample_thin_out(found->qp);
		found->qp->sample_slow = now_ns >> SAMPLE_SLOW_SHIFT ?: 1;
	}
	return true;
}

static __always_inline void sent_fill(struct esc_sent_note *note, const struct esc_packet *p,
				      const struct qp_found *found,
				      const struct pause_mark *mark)
{
	struct esc_fabric_time time, start;
	__u32 name = sent_name(p);

	note->message_bytes = 0;
	note->queue_ns = 0;
	if (esc_fabric_at(esc_local_at(found->now_ns), &time)) {
		note->tx_fabric_ns = time.fabric_ns;
		note->tx_bound_ns = saturate_ns(time.bound_ns);
		if ((found->what & FOUND_MESSAGE) &&
		    esc_fabric_at(esc_local_at(found->qp->message_start_local_ns), &start)) {
			note->start_fabric_ns = start.fabric_ns;
			note->message_bytes = found->message_bytes;
		}
	} else {
		name |= ESC_SENT_UNTIMED;
	}
	if (found->what & FOUND_PACED) {
		note->mark = *mark;
		name |= ESC_SENT_PACED;
	}
	note->psn = name;
	barrier();
	*(volatile __u64 *)&note->tx_ktime_ns = found->now_ns;
}

/* 0, or the reason that there is no note. */
static __noinline int sent_note(const struct esc_packet *p, struct qp_found *found, bool fixed,
				const struct pause_mark *mark)
{
	struct esc_qp_sent *sent = bpf_map_lookup_elem(&qp_sent, &p->key);
	struct esc_sent_note *note;
	struct esc_qp_owd *owd;

	if (!found->qp || !receipt_peer_of(found->qp, &p->key.dst, bpf_ktime_get_ns()))
		return 0;
	if (!sent)
		sent = sent_insert(&p->key);
	owd = bpf_map_lookup_elem(&qp_owd, &p->key);
	if (!sent || !owd)
		return ESC_REASON_OWD_TABLE_FULL;
	note = &sent->notes[ESC_SENT_INDEX(p->psn)];
	if (note->tx_ktime_ns) {
		if ((note->psn & ESC_SENT_NAME) == sent_name(p)) {
			note->tx_ktime_ns = 0;
			count(owd->spoiled, 1);
			return 0;
		}
		if (!sent_make_room(found, owd, note, fixed))
			return 0;
	}
	note->tx_ktime_ns = 0;
	barrier();
	sent_fill(note, p, found, mark);
	hostqueue_put(p, ESC_SENT_INDEX(p->psn), found->now_ns);
	count(owd->noted, 1);
	return 0;
}

/* The packet was sent before: a receipt would not tell for which time it is. */
static __noinline int sent_spoil(const struct esc_packet *p)
{
	struct esc_qp_sent *sent = bpf_map_lookup_elem(&qp_sent, &p->key);
	struct esc_sent_note *note;
	struct esc_qp_owd *owd;

	if (!sent)
		return 0;
	note = &sent->notes[ESC_SENT_INDEX(p->psn)];
	if (!note->tx_ktime_ns || (note->psn & ESC_SENT_NAME) != sent_name(p))
		return 0;
	note->tx_ktime_ns = 0;
	owd = bpf_map_lookup_elem(&qp_owd, &p->key);
	if (owd)
		count(owd->spoiled, 1);
	return 0;
}

/* What tc egress does with a packet that was counted. */
static __always_inline int sent_look(const struct esc_packet *p, const struct esc_control *word,
				     struct qp_found *found, const struct pause_mark *mark)
{
	if (!(word->flags & ESC_CONTROL_RECEIPTS))
		return 0;
	if (found->what & FOUND_REPEATED)
		return sent_spoil(p);
	if (found->what & (FOUND_SAMPLED | FOUND_MESSAGE))
		return sent_note(p, found, word->flags & ESC_CONTROL_SAMPLE_FIXED, mark);
	return 0;
}

#endif
