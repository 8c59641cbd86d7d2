// SPDX-License-Identifier: BSD-2-Clause
#include "delay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define AGAIN_NS 100000000ull  /* a younger reading is good enough */
#define STILL_NS 2200000000ull /* after so long nothing of a queue pair's last is under way */
#define RATE_NS 500000000ull   /* a rate is over no less */
#define SWEEP_NS 60000000000ull
#define SWEEP_MOST 4096

int delays_new(struct delays **out, int owd_fd, int sent_fd, uint32_t max,
	       const struct qptable *qps)
{
	struct delays *delays = calloc(1, sizeof(*delays));
	int err;

	*out = NULL;
	if (!delays)
		return -ENOMEM;
	delays->qps = qps;
	err = delayread_new(&delays->reader, owd_fd, sent_fd, max);
	if (err)
		free(delays);
	else
		*out = delays;
	return err;
}

void delays_free(struct delays *delays)
{
	if (!delays)
		return;
	for (size_t i = 0; i < delays->count; i++)
		delays_state_free(delays->entries[i].state);
	free(delays->entries);
	delays_sums_free(&delays->sums);
	delayhist_free(&delays->scratch);
	delayread_free(delays->reader);
	free(delays);
}

/* --- the table of queue pairs --- */

static int entry_compare(const void *key, const void *entry)
{
	return memcmp(key, &((const struct delays_entry *)entry)->key, sizeof(struct esc_qp_key));
}

static struct delays_entry *find(const struct delays *delays, const struct esc_qp_key *key)
{
	return delays->count ? bsearch(key, delays->entries, delays->count,
				       sizeof(*delays->entries), entry_compare)
			     : NULL;
}

const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key)
{
	return delays ? find(delays, key) : NULL;
}

static void entry_drop(struct delays *delays, struct delays_entry *entry)
{
	if (entry->known)
		delayread_delete(delays->reader, &entry->key);
	delays_state_free(entry->state);
	entry->state = NULL;
}

/* Both lists are sorted: what is not in the table any more is gone. */
static int follow_table(struct delays *delays)
{
	size_t count, old = 0, kept = 0;
	const struct qp_entry *qps = qptable_entries(delays->qps, &count);
	struct delays_entry *entries = calloc(count + 1, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		int order = -1;

		if (qps[i].key.direction != ESC_DIRECTION_TX)
			continue;
		while (old < delays->count) {
			order = memcmp(&delays->entries[old].key, &qps[i].key, sizeof(qps[i].key));
			if (order >= 0)
				break;
			entry_drop(delays, &delays->entries[old++]);
		}
		if (old < delays->count && !order) {
			entries[kept] = delays->entries[old++];
		} else {
			entries[kept].key = qps[i].key;
			entries[kept].receipt_age_ns = entries[kept].pair_ack_age_ns = UINT64_MAX;
		}
		entries[kept++].qp = &qps[i];
	}
	while (old < delays->count)
		entry_drop(delays, &delays->entries[old++]);
	free(delays->entries);
	delays->entries = entries;
	delays->count = kept;
	return 0;
}

/* --- ACKs of all queue pairs between two addresses --- */

/* First entry of the table from @src to @dst. */
static size_t table_lower(const struct qp_entry *qps, size_t count, const struct esc_address *src,
			  const struct esc_address *dst)
{
	struct esc_qp_key key = {.src = *src, .dst = *dst};
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(&qps[middle].key, &key, 2 * sizeof(key.src)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void count_acks(const struct delays *delays, const struct esc_qp_key *key,
		       uint64_t acks[ESC_PORTS_MAX])
{
	size_t count;
	const struct qp_entry *qps = qptable_entries(delays->qps, &count);

	memset(acks, 0, ESC_PORTS_MAX * sizeof(*acks));
	for (size_t i = table_lower(qps, count, &key->dst, &key->src); i < count; i++) {
		if (memcmp(&qps[i].key.src, &key->dst, sizeof(key->dst)) ||
		    memcmp(&qps[i].key.dst, &key->src, sizeof(key->src)))
			break;
		if (qps[i].key.direction == ESC_DIRECTION_RX && qps[i].key.port < ESC_PORTS_MAX)
			acks[qps[i].key.port] += qps[i].qp.acks;
	}
}

static bool same_pair(const struct esc_qp_key *one, const struct esc_qp_key *two)
{
	return !memcmp(&one->src, &two->src, sizeof(one->src)) &&
	       !memcmp(&one->dst, &two->dst, sizeof(one->dst));
}

static void entry_set_acks(const struct delays *delays, struct delays_entry *entry, uint64_t acks)
{
	/* Fewer: one of the pair is gone. */
	if (acks > entry->pair_acks)
		entry->pair_ack_local_ns = delays->now_local_ns;
	entry->pair_acks = acks;
	entry->pair_ack_age_ns = entry->pair_ack_local_ns
					 ? delays->now_local_ns - entry->pair_ack_local_ns
					 : UINT64_MAX;
}

/* Queue pairs between the same two addresses stand side by side. */
static void set_acks(struct delays *delays)
{
	size_t end;

	for (size_t i = 0; i < delays->count; i = end) {
		uint32_t qps[ESC_PORTS_MAX] = {};
		uint64_t acks[ESC_PORTS_MAX];

		count_acks(delays, &delays->entries[i].key, acks);
		for (end = i; end < delays->count &&
			      same_pair(&delays->entries[i].key, &delays->entries[end].key);
		     end++)
			qps[delays->entries[end].key.port % ESC_PORTS_MAX]++;
		for (size_t k = i; k < end; k++) {
			unsigned int port = delays->entries[k].key.port % ESC_PORTS_MAX;

			delays->entries[k].pair_qps = qps[port];
			entry_set_acks(delays, &delays->entries[k], acks[port]);
		}
	}
}

/* --- reading --- */

static void entry_take_counters(struct delays_entry *entry, const struct esc_qp_owd *owd)
{
	entry->samples_sent = owd->samples_sent;
	entry->receipts = owd->receipts;
	entry->samples = owd->samples;
	entry->samples_discarded = owd->samples_discarded;
	entry->samples_expired = owd->samples_expired;
	entry->over = owd->over;
	entry->crossings = owd->crossings;
	entry->last_ns = owd->last_ns;
	entry->last_bound_ns = owd->last_bound_ns;
	entry->state->last_ktime_ns = owd->last_ktime_ns;
	entry->state->feedback_sum_ns = owd->feedback_sum_ns;
}

static void take(void *context, const struct esc_qp_key *key, const struct esc_qp_owd *owd)
{
	struct delays *delays = context;
	struct delays_entry *entry = find(delays, key);
	bool baseline = !delays->read_local_ns; /* counted for a daemon before us */

	if (!entry)
		return;
	if (!entry->state)
		entry->state = calloc(1, sizeof(*entry->state));
	if (!entry->state) {
		delays->error = -ENOMEM;
		return;
	}
	if (delays_state_read(entry->state, owd, delays->now_local_ns, baseline))
		delays->error = -ENOMEM;
	if (!baseline)
		delays_sums_add(&delays->sums, entry, owd);
	entry->known = true;
	entry_take_counters(entry, owd);
	if (delays_state_spans(entry->state, owd, delays->now_local_ns, &delays->scratch, entry))
		delays->error = -ENOMEM;
}

/* Receipts are under way for some time after the last packet. */
static bool entry_moves(const struct delays *delays, const struct delays_entry *entry)
{
	return delays->now_local_ns - entry->qp->seen_local_ns < STILL_NS;
}

static int read_moving(struct delays *delays)
{
	int err = 0;

	for (size_t i = 0; i < delays->count; i++) {
		struct delays_entry *entry = &delays->entries[i];
		struct esc_qp_owd owd;

		if (delays->read_local_ns && !entry_moves(delays, entry))
			continue;
		err = delayread_one(delays->reader, &entry->key, &owd);
		if (!err)
			take(delays, &entry->key, &owd);
		else if (err != -ENOENT)
			return err;
	}
	return 0;
}

/* In batches when most of it has moved, else what has. */
static int read_map(struct delays *delays)
{
	size_t moving = 0;
	int err = -EOPNOTSUPP;

	for (size_t i = 0; i < delays->count; i++)
		moving += entry_moves(delays, &delays->entries[i]);
	delays->error = 0;
	if (!delays->no_batch && (!delays->read_local_ns || moving >= delays->tracked / 2)) {
		err = delayread_all(delays->reader, take, delays);
		delays->no_batch = err == -EOPNOTSUPP;
	}
	if (err == -EOPNOTSUPP)
		err = read_moving(delays);
	return err ? err : delays->error;
}

static bool is_known(void *context, const struct esc_qp_key *key)
{
	return find(context, key);
}

/* What was left by a daemon before us, or noted for a queue pair of which no receipt ever came. */
static void sweep(struct delays *delays)
{
	if (delays->sweep_local_ns && delays->now_local_ns - delays->sweep_local_ns < SWEEP_NS)
		return;
	delayread_sweep(delays->reader, is_known, delays, SWEEP_MOST);
	delays->sweep_local_ns = delays->now_local_ns;
}

/* --- what follows from it --- */

static double rate(uint64_t now, uint64_t before, uint64_t ns)
{
	return now > before ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static void entry_get_base(const struct delays_entry *entry, uint64_t now_local_ns,
			   struct delays_rate_base *out)
{
	const struct esc_qp *qp = &entry->qp->qp;

	*out = (struct delays_rate_base){
		.local_ns = now_local_ns,
		.samples_sent = entry->samples_sent,
		.receipts = entry->receipts,
		.feedback_sum_ns = entry->state ? entry->state->feedback_sum_ns : 0,
		.gaps = qp->psn_gaps,
		.missing = qp->psn_missing,
		.retransmits = qp->retransmits,
		.naks = qp_naks(qp),
		.rnr_naks = qp->rnr_naks,
		.ce = qp->ce,
		.pair_acks = entry->pair_acks,
	};
}

/* The first of a queue pair, and of one that went and came again, is over no time. */
static void entry_set_rates(struct delays_entry *entry, uint64_t now_local_ns)
{
	struct delays_rate_base now, before = entry->before;
	uint64_t ns = now_local_ns - before.local_ns;

	if (before.local_ns && ns < RATE_NS)
		return;
	entry_get_base(entry, now_local_ns, &now);
	entry->before = now;
	if (!before.local_ns)
		return;
	entry->rates = (struct delays_rates){
		.samples_sent = rate(now.samples_sent, before.samples_sent, ns),
		.receipts = rate(now.receipts, before.receipts, ns),
		.gaps = rate(now.gaps, before.gaps, ns),
		.missing = rate(now.missing, before.missing, ns),
		.retransmits = rate(now.retransmits, before.retransmits, ns),
		.naks = rate(now.naks, before.naks, ns),
		.rnr_naks = rate(now.rnr_naks, before.rnr_naks, ns),
		.ce = rate(now.ce, before.ce, ns),
		.pair_acks = rate(now.pair_acks, before.pair_acks, ns),
	};
	if (now.receipts > before.receipts && now.feedback_sum_ns > before.feedback_sum_ns)
		entry->feedback_ns = (double)(now.feedback_sum_ns - before.feedback_sum_ns) /
				     (double)(now.receipts - before.receipts);
}

static uint64_t age(uint64_t now_local_ns, uint64_t then_ns)
{
	return now_local_ns > then_ns ? now_local_ns - then_ns : 0;
}

static void entry_finish(struct delays *delays, struct delays_entry *entry)
{
	uint64_t now_ns = delays->now_local_ns;
	struct delays_state *state = entry->state;

	entry->packet_age_ns = age(now_ns, entry->qp->seen_local_ns);
	if (state) {
		if (state->read_local_ns != now_ns)
			delays_state_still(state, entry);
		entry->receipt_age_ns =
			state->last_ktime_ns ? age(now_ns, state->last_ktime_ns) : UINT64_MAX;
		entry->floor_known = delays_state_floor(state, now_ns, &entry->floor_ns);
		if (!entry->feedback_ns && entry->receipts)
			entry->feedback_ns =
				(double)state->feedback_sum_ns / (double)entry->receipts;
	}
	entry_set_rates(entry, now_ns);
}

int delays_poll(struct delays *delays, uint64_t now_local_ns)
{
	int err = follow_table(delays);

	if (err || (delays->read_local_ns && now_local_ns - delays->read_local_ns < AGAIN_NS))
		return err;
	delays->now_local_ns = now_local_ns;
	err = read_map(delays);
	if (err)
		return err;
	set_acks(delays);
	delays->tracked = 0;
	for (size_t i = 0; i < delays->count; i++) {
		entry_finish(delays, &delays->entries[i]);
		delays->tracked += delays->entries[i].known;
	}
	sweep(delays);
	delays_sums_forget(&delays->sums, delays->entries, delays->count);
	delays->read_local_ns = now_local_ns;
	return 0;
}

/* --- asking --- */

const struct delays_entry *delays_entries(const struct delays *delays, size_t *count)
{
	*count = delays ? delays->count : 0;
	return delays ? delays->entries : NULL;
}

size_t delays_tracked(const struct delays *delays)
{
	return delays ? delays->tracked : 0;
}

uint64_t delays_interval_ns(const struct delays *delays)
{
	return delays->tracked > DELAYS_FAST_QPS ? DELAYS_SLOW_NS : DELAYS_FAST_NS;
}

void delays_ever(const struct delays_entry *entry, struct delays_span *out)
{
	const struct delays_state *state = entry->state;
	struct delayhist all = {};

	*out = (struct delays_span){};
	if (!state || !state->samples)
		return;
	out->samples = state->samples;
	out->min_ns = state->min_ns;
	out->max_ns = state->max_ns;
	out->bound_ns = state->bound_max_ns;
	out->over = entry->over;
	out->crossings = entry->crossings;
	if (!delayhist_add_since(&all, state->histogram, NULL) &&
	    delayhist_samples(&all) + UINT32_MAX > state->samples)
		delays_span_quantiles(out, &all);
	delayhist_free(&all);
}

int delays_add_recent(const struct delays *delays, const struct delays_entry *entry,
		      struct delayhist *hist)
{
	if (!entry->state || !entry->recent.samples)
		return 0;
	return delays_state_add_recent(entry->state, delays->read_local_ns, hist);
}

int delays_add_scrape(const struct delays_entry *entry, struct delayhist *hist)
{
	return entry->state ? delayhist_add(hist, &entry->state->scrape) : 0;
}

void delays_written(struct delays *delays)
{
	for (size_t i = 0; delays && i < delays->count; i++)
		if (delays->entries[i].state)
			delays_state_written(delays->entries[i].state);
}

const struct delays_port *delays_port(const struct delays *delays, unsigned int port)
{
	return delays ? &delays->sums.ports[port % ESC_PORTS_MAX] : NULL;
}

const struct delays_destination *delays_destinations(const struct delays *delays, size_t *count)
{
	*count = delays ? delays->sums.destination_count : 0;
	return delays ? delays->sums.destinations : NULL;
}

/* Less than any delay, also than one that a clock's error made negative. */
#define NO_DELAY (-1e18)

double delays_order(const void *context, const struct qp_entry *entry)
{
	const struct delays_entry *known = delays_find(context, &entry->key);

	return known && known->recent.samples ? (double)known->recent.p99_ns : NO_DELAY;
}
