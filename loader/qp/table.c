// SPDX-License-Identifier: BSD-2-Clause
/* The map `qps` as a sorted list: what is new, what moved, what went. */
#include <bpf/bpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/address.h"
#include "base/array.h"
#include "internal.h"

#define BATCH 256
#define ENOTSUPP_KERNEL 524
#define BURST_MAX 64		     /* events of a kind, a refresh */
#define RATE_NS 500000000	     /* a rate is over no less */
#define FULL_QUIET_NS 10000000000ULL /* between two qp_table_full */

#define QP_EVENTS(X)                                                                               \
	X(QP_SEEN, "qp_seen", INFO, "A queue pair sends or receives.", .about = EVENT_QP)          \
	X(QP_GONE, "qp_gone", INFO,                                                                \
	  "A queue pair was idle for qps.idle and is not tracked any more.", .about = EVENT_QP)    \
	X(QP_TABLE_FULL, "qp_table_full", WARNING,                                                 \
	  "Packets were not counted per queue pair: the table is full.",                           \
	  .remedy = "Raise `qps.max`, stop escapementd, run `escapementd --remove`, start it.")
enum { QP_EVENTS(EVENT_ENUM) };
const struct event_kind qp_events[] = {QP_EVENTS(EVENT_KIND){}};

/* --- maps --- */

/* What kernels return that lack an operation of hash maps. */
static bool is_unsupported(int err)
{
	return err == -EINVAL || err == -EOPNOTSUPP || err == -ENOTSUPP_KERNEL;
}

static int mapread_resize(struct mapread *reader, uint32_t batch)
{
	void *keys = reallocarray(reader->keys, batch, reader->key_bytes), *values;

	if (!keys)
		return -ENOMEM;
	reader->keys = keys;
	values = reallocarray(reader->values, batch, reader->value_bytes);
	if (!values)
		return -ENOMEM;
	reader->values = values;
	reader->batch = batch;
	return 0;
}

/* The kernel returns whole buckets; -ENOSPC: one is larger than the batch. */
static int mapread_batches(struct mapread *reader, mapread_take_fn *take, void *context)
{
	uint32_t cursor = 0, *in = NULL;
	int err = reader->keys ? 0 : mapread_resize(reader, reader->batch), end = 0;

	while (!err && !end) {
		__u32 count = reader->batch;

		end = bpf_map_lookup_batch(reader->fd, in, &cursor, reader->keys, reader->values,
					   &count, NULL);
		if (end == -ENOSPC) {
			err = mapread_resize(reader, reader->batch * 2);
			end = 0;
			continue;
		}
		if (end && end != -ENOENT)
			return end;
		for (__u32 i = 0; !err && i < count; i++)
			err = take(context, (char *)reader->keys + i * reader->key_bytes,
				   (char *)reader->values + i * reader->value_bytes);
		in = &cursor;
	}
	return err;
}

/* The walk restarts when its key is deleted meanwhile: it is bounded. */
static int mapread_each(struct mapread *reader, mapread_take_fn *take, void *context)
{
	char *key = reader->keys, *next = key + reader->key_bytes;
	int err = bpf_map_get_next_key(reader->fd, NULL, next), failed = 0;

	for (uint32_t i = 0; !err && !failed && i < 2 * reader->max; i++) {
		memcpy(key, next, reader->key_bytes);
		if (!bpf_map_lookup_elem(reader->fd, key, reader->values))
			failed = take(context, key, reader->values);
		err = bpf_map_get_next_key(reader->fd, key, next);
	}
	return failed ? failed : err == -ENOENT ? 0 : err;
}

int mapread_all(struct mapread *reader, mapread_take_fn *take, void *context)
{
	int err;

	if (reader->fd < 0)
		return 0;
	err = reader->no_batch ? -EOPNOTSUPP : mapread_batches(reader, take, context);
	if (!is_unsupported(err))
		return err;
	reader->no_batch = true;
	return mapread_each(reader, take, context);
}

void mapread_free(struct mapread *reader)
{
	free(reader->keys);
	free(reader->values);
}

struct map_list {
	const struct mapread *reader;
	void *entries;
	size_t bytes, value_at, count, room;
};

static int list_add(void *context, const void *key, const void *value)
{
	struct map_list *list = context;
	char *entry = array_add(&list->entries, &list->count, &list->room, list->bytes);

	if (!entry)
		return -ENOMEM;
	memcpy(entry, key, list->reader->key_bytes);
	memcpy(entry + list->value_at, value, list->reader->value_bytes);
	return 0;
}

int mapread_list(struct mapread *reader, size_t bytes, size_t value_at, void **out, size_t *count)
{
	struct map_list list = {.reader = reader, .bytes = bytes, .value_at = value_at};
	int err = mapread_all(reader, list_add, &list);

	if (err) {
		free(list.entries);
		return err;
	}
	*out = list.entries;
	*count = list.count;
	return 0;
}

/* --- the table --- */

int qptable_new(struct qptable **out, int qps_fd, uint32_t max, uint64_t idle_ns,
		struct events *events)
{
	struct qptable *table = calloc(1, sizeof(*table));

	*out = table;
	if (!table)
		return -ENOMEM;
	table->reader = (struct mapread){.fd = qps_fd,
					 .max = max,
					 .key_bytes = sizeof(struct esc_qp_key),
					 .value_bytes = sizeof(struct esc_qp),
					 .batch = BATCH};
	table->idle_ns = idle_ns;
	table->events = events;
	return 0;
}

int qptable_share(struct qptable *table, int fd)
{
	void *memory = mmap(NULL, sizeof(*table->room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	table->room = memory;
	__atomic_store_n(&table->room->rx_max, table->reader.max / 2, __ATOMIC_RELAXED);
	__atomic_store_n(&table->room->unknown_max, table->reader.max / 4, __ATOMIC_RELAXED);
	__atomic_store_n(&table->room->foreign_max, table->reader.max / 4, __ATOMIC_RELAXED);
	return 0;
}

void qptable_set_devices(struct qptable *table, const uint32_t *devices, size_t count)
{
	if (!table->room)
		return;
	if (count > ESC_QP_ROOM_DEVICES)
		count = 0;
	__atomic_store_n(&table->room->device_count, 0, __ATOMIC_RELEASE);
	for (size_t i = 0; i < count; i++)
		table->room->devices[i] = devices[i];
	__atomic_store_n(&table->room->device_count, (uint32_t)count, __ATOMIC_RELEASE);
}

/* What was counted before the reading of @count entries is replaced by them. */
static void room_correct(struct qptable *table, struct esc_qp_room before,
			 const struct qp_entry *entries, size_t count)
{
	struct esc_qp_room now = {};

	for (size_t i = 0; i < count; i++) {
		bool rx = entries[i].key.direction == ESC_DIRECTION_RX;

		now.rx += rx;
		now.unknown += rx && entries[i].qp.unknown;
		now.foreign += !rx && entries[i].qp.unknown;
	}
	__atomic_fetch_add(&table->room->rx, now.rx - before.rx, __ATOMIC_RELAXED);
	__atomic_fetch_add(&table->room->unknown, now.unknown - before.unknown, __ATOMIC_RELAXED);
	__atomic_fetch_add(&table->room->foreign, now.foreign - before.foreign, __ATOMIC_RELAXED);
}

void qptable_free(struct qptable *table)
{
	if (!table)
		return;
	if (table->room)
		munmap(table->room, sizeof(*table->room));
	mapread_free(&table->reader);
	free(table->entries);
	free(table);
}

/* --- events --- */

static void burst_add(struct qptable *table, struct qp_burst *burst, const struct qp_entry *entry)
{
	const struct esc_qp_key *key = &entry->key;
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], subject[ADDRESS_QP_BYTES];
	json_t *seen;

	if ((key->direction == ESC_DIRECTION_RX && entry->qp.unknown) ||
	    burst->count >= burst->max) {
		burst->rest++;
		burst->packets += entry->qp.packets;
		burst->bytes += entry->qp.bytes;
		return;
	}
	burst->count++;
	seen = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "direction",
			 report_direction(key), "src", address_format(&key->src, src), "dst",
			 address_format(&key->dst, dst), "dest_qpn", (json_int_t)key->dest_qpn,
			 "port", (json_int_t)key->port, "packets", (json_int_t)entry->qp.packets,
			 "bytes", (json_int_t)entry->qp.bytes, "messages",
			 (json_int_t)entry->qp.messages);
	address_format_qp(&key->src, &key->dst, key->dest_qpn, subject);
	events_add(table->events, &(struct event){.kind = &qp_events[burst->kind],
						  .subject = subject,
						  .qp = key,
						  .seen = seen});
}

static void burst_end(struct qptable *table, const struct qp_burst *burst, const char *subject)
{
	if (!burst->rest)
		return;
	events_add(table->events,
		   &(struct event){
			   .kind = &qp_events[burst->kind],
			   .subject = subject,
			   .seen = json_pack("{s:I, s:I, s:I}", "qps", (json_int_t)burst->rest,
					     "packets", (json_int_t)burst->packets, "bytes",
					     (json_int_t)burst->bytes),
		   });
}

static void report_full(struct qptable *table, uint64_t now_local_ns, uint64_t refused)
{
	uint64_t since = refused - table->refused_reported;

	if (!since || (table->refused_reported_local_ns &&
		       now_local_ns - table->refused_reported_local_ns < FULL_QUIET_NS))
		return;
	events_add(table->events,
		   &(struct event){
			   .kind = &qp_events[QP_TABLE_FULL],
			   .subject = "qps",
			   .seen = json_pack("{s:I, s:I, s:I}", "refused_packets",
					     (json_int_t)since, "entries", (json_int_t)table->count,
					     "max", (json_int_t)table->reader.max),
		   });
	table->refused_reported = refused;
	table->refused_reported_local_ns = now_local_ns;
}

/* --- sums --- */

uint64_t qp_naks(const struct esc_qp *qp)
{
	return qp->nak_sequence + qp->nak_invalid_request + qp->nak_remote_access +
	       qp->nak_remote_operational + qp->nak_other;
}

static void totals_add(struct qp_totals *totals, const struct esc_qp *qp)
{
	totals->messages += qp->messages;
	totals->psn_gaps += qp->psn_gaps;
	totals->duplicates += qp->duplicates;
	totals->retransmits += qp->retransmits;
	totals->naks += qp_naks(qp);
	totals->rnr_naks += qp->rnr_naks;
}

void qptable_totals(const struct qptable *table, enum esc_direction direction,
		    struct qp_totals *out)
{
	*out = table->aged[direction];
	out->direction = direction;
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].key.direction == direction)
			totals_add(out, &table->entries[i].qp);
}

uint64_t qp_message_quantile(const struct esc_qp *qp, double q)
{
	uint64_t total = 0, rank, passed = 0;

	for (size_t i = 0; i < ESC_MESSAGE_BUCKETS; i++)
		total += qp->message_sizes[i].count;
	rank = (uint64_t)fmax(1, ceil(q * (double)total));
	for (size_t i = 0; i < ESC_MESSAGE_BUCKETS; i++) {
		const struct esc_message_bucket *bucket = &qp->message_sizes[i];

		passed += bucket->count;
		if (bucket->count && passed >= rank)
			return bucket->bytes / bucket->count;
	}
	return 0;
}

/* --- one refresh --- */

static int compare_keys(const void *a, const void *b)
{
	const struct qp_entry *x = a, *y = b;

	return memcmp(&x->key, &y->key, sizeof(x->key));
}

/* An entry is over: what it counted stays in the totals. */
static void entry_age(struct qptable *table, struct qp_entry *entry)
{
	if (table->ended_fn)
		table->ended_fn(table->ended_context, entry);
	totals_add(&table->aged[entry->key.direction & 1], &entry->qp);
	burst_add(table, &table->gone, entry);
}

static void entry_drop(struct qptable *table, struct qp_entry *entry)
{
	entry_age(table, entry);
	if (entry->delays && table->gone_fn)
		table->gone_fn(table->gone_context, entry);
}

/* Over the time since the last rate, when that is long enough. */
static void entry_set_rate(struct qp_entry *entry, uint64_t now_local_ns)
{
	const struct qp_rate_base *before = &entry->before;
	const struct esc_qp *qp = &entry->qp;
	struct qp_rate_base now = {now_local_ns, qp->packets, qp->bytes,
				   qp->psn_gaps + qp->retransmits};
	double seconds = (double)(now_local_ns - before->local_ns) / 1e9;

	if (now_local_ns - before->local_ns < RATE_NS)
		return;
	entry->packets_per_second = (double)(now.packets - before->packets) / seconds;
	entry->bytes_per_second = (double)(now.bytes - before->bytes) / seconds;
	entry->loss_per_second = (double)(now.losses - before->losses) / seconds;
	entry->before = now;
}

/* New since the last refresh, or to us: the first rate is over the time that it has lived. */
static void entry_start(struct qptable *table, struct qp_entry *entry, uint64_t now_local_ns)
{
	uint64_t start = entry->qp.first_local_ns;

	entry->seen_local_ns = now_local_ns;
	/* What a daemon before us left may have ended long ago. */
	entry->moved_local_ns = table->refreshed_local_ns ? now_local_ns : 0;
	entry->before.local_ns = start < now_local_ns ? start : now_local_ns;
	entry_set_rate(entry, now_local_ns);
	burst_add(table, &table->seen, entry);
}

/*
 * Both lists are sorted: walks them side by side. An entry that is not in the map any more was
 * deleted by others; one whose first packet is another was deleted and came again.
 */
static void merge(struct qptable *table, struct qp_entry *fresh, size_t count,
		  uint64_t now_local_ns)
{
	struct qp_entry *old = table->entries, *end = old + table->count;
	struct esc_qp qp;

	for (struct qp_entry *entry = fresh; entry < fresh + count; entry++) {
		while (old < end && compare_keys(old, entry) < 0)
			entry_drop(table, old++);
		if (old == end || compare_keys(old, entry)) {
			entry_start(table, entry, now_local_ns);
		} else if (old->qp.first_local_ns == entry->qp.first_local_ns) {
			/* The same entry, read again; refreshes may follow each other closely. */
			qp = entry->qp;
			*entry = *old;
			entry->qp = qp;
			entry_set_rate(entry, now_local_ns);
			if (qp.packets != old++->qp.packets)
				entry->seen_local_ns = entry->moved_local_ns = now_local_ns;
		} else {
			entry->delays = old->delays;
			entry_age(table, old++);
			entry_start(table, entry, now_local_ns);
		}
	}
	while (old < end)
		entry_drop(table, old++);
	free(table->entries);
	table->entries = fresh;
	table->count = count;
}

/*
 * A packet that is counted at this instant on another CPU may be lost: only what has been still for
 * long is taken out of the map.
 */
static void retire_idle(struct qptable *table, uint64_t now_local_ns)
{
	int err, fd = table->reader.fd;
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++) {
		struct qp_entry *entry = &table->entries[i];
		struct esc_qp last;

		if (!table->idle_ns || now_local_ns - entry->seen_local_ns < table->idle_ns) {
			table->entries[kept++] = *entry;
			continue;
		}
		err = bpf_map_lookup_and_delete_elem(fd, &entry->key, &last);
		if (is_unsupported(err)) {
			err = bpf_map_lookup_elem(fd, &entry->key, &last);
			if (!err)
				err = bpf_map_delete_elem(fd, &entry->key);
		}
		if (err) {
			table->entries[kept++] = *entry;
			continue;
		}
		entry->qp = last;
		entry_drop(table, entry);
	}
	table->count = kept;
}

int qptable_refresh(struct qptable *table, uint64_t now_local_ns, uint64_t refused)
{
	bool first = !table->refreshed_local_ns;
	struct esc_qp_room before = table->room ? *table->room : (struct esc_qp_room){};
	struct qp_entry *fresh;
	size_t count, kept = 0;
	void *list;
	int err = mapread_list(&table->reader, sizeof(*fresh), offsetof(struct qp_entry, qp), &list,
			       &count);

	if (err)
		return err;
	/* Sorted, and each once. */
	fresh = list;
	if (count)
		qsort(fresh, count, sizeof(*fresh), compare_keys);
	for (size_t i = 0; i < count; i++)
		if (!kept || compare_keys(&fresh[kept - 1], &fresh[i]))
			fresh[kept++] = fresh[i];
	if (table->room)
		room_correct(table, before, fresh, kept);
	/* Those that a daemon before us has reported are only summed up. */
	table->seen = (struct qp_burst){.kind = QP_SEEN, .max = first ? 0 : BURST_MAX};
	table->gone = (struct qp_burst){.kind = QP_GONE, .max = BURST_MAX};
	merge(table, fresh, kept, now_local_ns);
	retire_idle(table, now_local_ns);
	burst_end(table, &table->seen, first ? "taken over" : "more");
	burst_end(table, &table->gone, "more");
	if (first)
		table->refused_reported = refused;
	report_full(table, now_local_ns, refused);
	table->refreshed_local_ns = now_local_ns;
	return 0;
}

uint64_t qptable_refreshed_ns(const struct qptable *table)
{
	return table->refreshed_local_ns;
}

struct qp_entry *qptable_entries(const struct qptable *table, size_t *count)
{
	*count = table->count;
	return table->entries;
}

struct qp_entry *qptable_find(const struct qptable *table, const struct esc_qp_key *key)
{
	struct qp_entry of = {.key = *key};

	return table->count ? bsearch(&of, table->entries, table->count, sizeof(of), compare_keys)
			    : NULL;
}

void qptable_set_delays(struct qptable *table, qptable_gone_fn *gone, void *context,
			qptable_order_fn *order)
{
	table->gone_fn = gone;
	table->gone_context = context;
	table->delay_order = order;
}

void qptable_set_jobs(struct qptable *table, qptable_ended_fn *ended, void *context)
{
	table->ended_fn = ended;
	table->ended_context = context;
}

void qptable_set_others(struct qptable *table, qptable_next_fn *next, qptable_describe_fn *describe,
			qptable_owner_fn *owner, void *context)
{
	table->next_other = next;
	table->describe_other = describe;
	table->other_owner = owner;
	table->others_context = context;
}
