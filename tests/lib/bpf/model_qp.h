/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The per-queue-pair accounting of bpf/README.md, a second time: packets go in
 * decoded, counts come out in struct model_qp, to be compared with the map's.
 */
#ifndef ESC_TESTS_BPF_MODEL_QP_H
#define ESC_TESTS_BPF_MODEL_QP_H

#include <stdio.h>
#include <stdlib.h>

#include "model.h"

struct model_stream {
	bool valid, waiting, in_message;
	uint32_t next, before, run, so_far;
	uint32_t read_start, read_bytes; /* the READ request just before */
};

struct model_qp {
	bool used;
	struct esc_qp_key key;
	struct model_stream requests, responses;
	struct esc_qp count; /* only the counts and what is named in model_compare() */
};

static inline int32_t model_ahead(uint32_t psn, uint32_t next)
{
	uint32_t distance = (psn + 0x1000000 - next) % 0x1000000;

	return distance < 0x800000 ? (int32_t)distance : (int32_t)distance - 0x1000000;
}

static inline uint32_t model_replies(uint32_t bytes, uint32_t pmtu)
{
	return bytes == 0 ? 1 : (uint32_t)(((uint64_t)bytes + pmtu - 1) / pmtu);
}

static inline void model_message_end(struct model_qp *q, uint32_t bytes)
{
	bool none = true;
	int bucket = 0, i;

	while (bucket < 31 && bytes >> bucket)
		bucket++;
	for (i = 0; i < ESC_MESSAGE_BUCKETS; i++)
		none = none && !q->count.message_sizes[i].count;
	q->count.message_sizes[bucket].count++;
	q->count.message_sizes[bucket].bytes += bytes;
	if (none || bytes < q->count.message_min)
		q->count.message_min = bytes;
	if (none || bytes > q->count.message_max)
		q->count.message_max = bytes;
}

static inline void model_message(struct model_qp *q, struct model_stream *s,
				 const struct model_packet *p, struct model_opcode o)
{
	if (o.first) {
		s->so_far = 0;
		s->in_message = true;
	}
	s->so_far += p->payload;
	if (!o.last)
		return;
	if (s->in_message || p->opcode >> 5 != 1)
		q->count.messages++;
	if (s->in_message)
		model_message_end(q, s->so_far);
	s->in_message = false;
}

static inline void model_learn_pmtu(struct model_qp *q, const struct model_packet *p,
				    struct model_opcode o)
{
	if (!o.last && (p->payload == 256 || p->payload == 512 || p->payload == 1024 ||
			p->payload == 2048 || p->payload == 4096))
		q->count.pmtu = p->payload;
}

/* The PSN that the READ before makes the next one, given what came. */
static inline uint32_t model_after_read(struct model_qp *q, struct model_stream *s, uint32_t psn,
					bool is_read, uint32_t read_bytes)
{
	static const uint32_t pmtus[5] = {256, 512, 1024, 2048, 4096};
	uint32_t span = q->count.pmtu ? model_replies(s->read_bytes, q->count.pmtu) : 0;
	int32_t jump = model_ahead(psn, s->read_start);
	uint32_t match = 0, matches = 0, retry = 0, smaller = 0, i, n;

	if (jump <= 0 || (span && jump >= (int32_t)span))
		return s->next;
	for (i = 0; i < 5; i++) {
		n = model_replies(s->read_bytes, pmtus[i]);
		if (n == (uint32_t)jump) {
			match = pmtus[i];
			matches++;
		} else if (n < (uint32_t)jump && n > smaller) {
			smaller = n;
		}
		if (is_read && read_bytes && read_bytes < s->read_bytes &&
		    s->read_bytes - read_bytes == (uint32_t)((uint64_t)jump * pmtus[i]))
			retry = pmtus[i];
	}
	if (span) {
		if (retry != q->count.pmtu && matches == 1 && match > q->count.pmtu) {
			q->count.pmtu = match;
			return psn;
		}
		return s->next;
	}
	if (matches) {
		if (matches == 1)
			q->count.pmtu = match;
		return psn;
	}
	if (retry) {
		q->count.pmtu = retry;
		s->next = (s->read_start + model_replies(s->read_bytes, retry)) & 0xffffff;
		return s->next;
	}
	n = smaller ? smaller : model_replies(s->read_bytes, 4096);
	return (s->read_start + n) & 0xffffff;
}

/* 1: an off packet goes on being one. 2: the sequence began anew. */
static inline int model_off(struct model_qp *q, struct model_stream *s, uint32_t psn, int32_t ahead)
{
	s->run = psn == ((s->before + 1) & 0xffffff) ? s->run + 1 : 1;
	if (abs(ahead) > 65536 || s->run >= 32768) {
		q->count.psn_resyncs++;
		s->waiting = s->in_message = false;
		s->read_bytes = 0;
		return 2;
	}
	s->before = psn;
	return 1;
}

static inline void model_late(struct model_qp *q)
{
	if (q->key.direction == ESC_DIRECTION_RX)
		q->count.duplicates++;
	else
		q->count.retransmits++;
}

/* True when the packet is the newest of its sequence. */
static inline bool model_request_in_order(struct model_qp *q, const struct model_packet *p,
					  bool is_read)
{
	struct model_stream *s = &q->requests;
	uint32_t expect = s->next;
	int32_t ahead;

	if (!s->valid)
		return true;
	if (s->read_bytes)
		expect = model_after_read(q, s, p->psn, is_read, p->read_bytes);
	ahead = model_ahead(p->psn, expect);
	if (!ahead || model_off(q, s, p->psn, ahead) == 2)
		return true;
	if (ahead < 0) {
		model_late(q);
		return false;
	}
	if (q->key.direction == ESC_DIRECTION_TX || p->opcode >> 5 == 1) {
		q->count.psn_gaps++;
		q->count.psn_missing += ahead;
		s->in_message = false;
		return true;
	}
	q->count.out_of_sequence++;
	if (!s->waiting) {
		q->count.psn_gaps++;
		q->count.psn_missing += ahead;
	}
	s->waiting = true;
	return false;
}

static inline void model_request(struct model_qp *q, const struct model_packet *p,
				 struct model_opcode o)
{
	struct model_stream *s = &q->requests;
	bool read = o.operation == MODEL_READ_REQUEST;

	if (p->opcode >> 5 == 3) {
		model_message(q, s, p, o);
		return;
	}
	if (!model_request_in_order(q, p, read))
		return;
	s->waiting = false;
	s->valid = true;
	s->run = 0;
	s->before = p->psn;
	s->read_start = p->psn;
	s->read_bytes = read && p->read_bytes > 256 ? p->read_bytes : 0;
	s->next = p->psn + 1;
	if (read && q->count.pmtu)
		s->next = p->psn + model_replies(p->read_bytes, q->count.pmtu);
	s->next &= 0xffffff;
	if (o.operation == MODEL_SEND || o.operation == MODEL_WRITE) {
		model_learn_pmtu(q, p, o);
		model_message(q, s, p, o);
	}
}

static inline bool model_aeth(struct model_qp *q, uint8_t syndrome)
{
	__u64 *naks[4] = {&q->count.nak_sequence, &q->count.nak_invalid_request,
			  &q->count.nak_remote_access, &q->count.nak_remote_operational};

	switch (syndrome >> 5 & 3) {
	case 0:
		q->count.acks++;
		return true;
	case 1:
		q->count.rnr_naks++;
		return false;
	case 3:
		++*((syndrome & 31) < 4 ? naks[syndrome & 31] : &q->count.nak_other);
		return false;
	default:
		q->count.nak_other++;
		return false;
	}
}

static inline void model_take_response(struct model_stream *s, uint32_t psn)
{
	s->valid = true;
	s->run = 0;
	s->before = psn;
	s->next = (psn + 1) & 0xffffff;
}

static inline void model_ack(struct model_qp *q, const struct model_packet *p)
{
	struct model_stream *s = &q->responses;
	int32_t ahead = model_ahead(p->psn, s->next);

	if (!model_aeth(q, p->syndrome))
		return;
	if (s->valid && abs(ahead) > 65536) {
		q->count.psn_resyncs++;
		s->in_message = false;
	} else if (s->valid && ahead < 0) {
		return;
	} else if (s->valid && ahead > 0) {
		s->in_message = false;
	}
	model_take_response(s, p->psn);
}

static inline void model_read_response(struct model_qp *q, const struct model_packet *p,
				       struct model_opcode o)
{
	struct model_stream *s = &q->responses;
	int32_t ahead = model_ahead(p->psn, s->next);

	if (s->valid && ahead && model_off(q, s, p->psn, ahead) == 1) {
		if (ahead < 0) {
			model_late(q);
			return;
		}
		if (!o.first) {
			q->count.psn_gaps++;
			q->count.psn_missing += ahead;
			s->in_message = false;
		}
	}
	model_take_response(s, p->psn);
	model_learn_pmtu(q, p, o);
	model_message(q, s, p, o);
}

static inline void model_account(struct model_qp *q, const struct model_packet *p)
{
	struct model_opcode o = model_opcode(p->opcode);

	q->count.packets++;
	q->count.bytes += p->bytes;
	q->count.payload_bytes += p->payload;
	q->count.ip_version = p->ip_version;
	q->count.ce += p->ecn == 3;
	q->count.ect += p->ecn == 1 || p->ecn == 2;
	if (o.operation == MODEL_CNP) {
		q->count.cnps++;
		return;
	}
	q->count.transport = p->opcode >> 5;
	q->count.sport_changes += q->count.sport && q->count.sport != p->sport;
	q->count.sport = p->sport;
	if (o.operation == MODEL_READ_RESPONSE)
		model_read_response(q, p, o);
	else if (o.operation == MODEL_ACK || o.operation == MODEL_ATOMIC_ACK)
		model_ack(q, p);
	else
		model_request(q, p, o);
}

#define MODEL_QPS 16384

static struct model_qp model_table[MODEL_QPS];
static struct model_qp *model_newest[MODEL_QPS];
static uint32_t model_qps;

static inline struct model_qp *model_find(const struct esc_qp_key *key)
{
	const uint8_t *bytes = (const uint8_t *)key;
	uint32_t hash = 2166136261u, i;

	for (i = 0; i < sizeof(*key); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	for (i = hash % MODEL_QPS; model_table[i].used; i = (i + 1) % MODEL_QPS)
		if (!memcmp(&model_table[i].key, key, sizeof(*key)))
			return &model_table[i];
	model_table[i].used = true;
	model_table[i].key = *key;
	model_newest[model_qps++] = &model_table[i];
	return &model_table[i];
}

static inline void model_reset(void)
{
	while (model_qps)
		memset(model_newest[--model_qps], 0, sizeof(struct model_qp));
}

/* clang-format off */
#define MODEL_COUNTS(X)                                                                            \
	X(packets) X(bytes) X(payload_bytes) X(messages) X(acks) X(psn_gaps) X(psn_missing)        \
	X(out_of_sequence) X(duplicates) X(retransmits) X(psn_resyncs) X(nak_sequence)             \
	X(nak_invalid_request) X(nak_remote_access) X(nak_remote_operational) X(nak_other)         \
	X(rnr_naks) X(ect) X(ce) X(cnps) X(sport) X(sport_changes) X(pmtu) X(transport)            \
	X(ip_version) X(message_min) X(message_max)
/* clang-format on */

/* Reports each field that differs; true when none does. */
static inline bool model_compare(const struct model_qp *q, const struct esc_qp *kernel)
{
	bool same = true;
	int i;

#define X(field)                                                                                   \
	if (q->count.field != kernel->field) {                                                     \
		printf("# qpn 0x%x " #field ": kernel %llu, model %llu\n", q->key.dest_qpn,        \
		       (unsigned long long)kernel->field, (unsigned long long)q->count.field);     \
		same = false;                                                                      \
	}
	MODEL_COUNTS(X)
#undef X
	for (i = 0; i < ESC_MESSAGE_BUCKETS; i++) {
		if (!memcmp(&q->count.message_sizes[i], &kernel->message_sizes[i],
			    sizeof(kernel->message_sizes[i])))
			continue;
		printf("# qpn 0x%x messages of bucket %d: kernel %llu, model %llu\n",
		       q->key.dest_qpn, i, (unsigned long long)kernel->message_sizes[i].count,
		       (unsigned long long)q->count.message_sizes[i].count);
		same = false;
	}
	if (q->requests.valid && kernel->requests.next != q->requests.next) {
		printf("# qpn 0x%x next request: kernel %u, model %u\n", q->key.dest_qpn,
		       kernel->requests.next, q->requests.next);
		same = false;
	}
	return same;
}

#endif
