/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The path probe on the wire, specified a second time: by offsets, on probe_model.h's fields and
 * SipHash. Shares names with the kernel programs, no structs.
 */
#ifndef ESC_TESTS_BPF_PATH_MODEL_H
#define ESC_TESTS_BPF_PATH_MODEL_H

#include "probe_model.h"

/* Offsets from the BTH, where probe_model.h has no name for them. */
enum {
	Q_PATH = 18,
	Q_SPORT = 56,
	Q_AGES = 60,
	Q_PORTS = 124,
	Q_T2 = 156,
	Q_T1 = 164,
	Q_T1_KTIME = 172,
	Q_KTIME = 180,
	Q_T1_BOUND = 188,
	Q_T2_BOUND = 192,
	Q_T3 = 196,
	Q_TAG = 204,
	Q_ICRC = 212,
	Q_END = 216,
};

#define Q_PATHS 16
#define Q_NEVER 0xffffffffu
#define Q_TIMED 0x20
#define Q_REPLY_TIMED 0x40

/* Source and destination as sixteen bytes each. */
static inline void path_put_address(uint8_t *to, const struct frame *f, bool destination)
{
	uint32_t ip = frame_ip_offset(f);

	if (frame_is_ipv6(f)) {
		memcpy(to, f->data + ip + (destination ? 24 : 8), 16);
		return;
	}
	memset(to, 0, 10);
	memset(to + 10, 255, 2);
	memcpy(to + 12, f->data + ip + (destination ? 16 : 12), 4);
}

/* NULL for @key: the tag without a key. */
static inline void path_put_tag(struct frame *f, const struct probe_key *key)
{
	uint8_t covered[32 + Q_TAG];
	uint32_t bth = probe_bth(f);
	uint64_t tag = 0;
	int i;

	path_put_address(covered, f, false);
	path_put_address(covered + 16, f, true);
	memcpy(covered + 32, f->data + bth, Q_TAG);
	if (key)
		tag = model_siphash(key, covered, sizeof(covered));
	for (i = 0; i < 8; i++)
		f->data[bth + Q_TAG + i] = tag >> (8 * i);
}

/* A path probe by description; zero means the usual. */
struct path_plan {
	uint8_t ip;
	uint8_t opcode; /* 0: a request */
	uint8_t version_more, newest, flags, path;
	uint16_t port;	/* that the datagram has */
	uint16_t sport; /* that the probe reports; 0: `port` */
	uint16_t source_host;
	uint64_t sender, target, epoch, echo_epoch;
	uint64_t t1, t2, t3, t1_ktime, ktime;
	uint32_t sequence, t1_bound, t2_bound;
	uint32_t age_us[Q_PATHS];
	uint16_t report_sport[Q_PATHS];
	bool bad_magic;
	enum frame_shape shape;
	const struct probe_key *key; /* NULL: tag 0 */
};

static inline void path_build(struct frame *f, const struct path_plan *plan)
{
	struct frame_plan outer = {
		.ip = plan->ip,
		.opcode = plan->opcode ? plan->opcode : ESC_PROBE_OPCODE_PATH_REQUEST,
		.payload = Q_ICRC - P_MAGIC,
		.sport = plan->port,
		.source_host = plan->source_host,
	};
	uint32_t at;
	int i;

	frame_build(f, &outer);
	if (plan->ip != 6)
		frame_put16(f, 14 + 10, 0x1234);
	frame_set_shape(f, plan->shape);
	at = probe_bth(f);
	probe_put(f, at + P_MAGIC, 4, 0x45734370 + plan->bad_magic);
	probe_put(f, at + P_VERSION, 1, 2 + plan->version_more);
	probe_put(f, at + P_FLAGS, 1, plan->flags);
	probe_put(f, at + Q_PATH, 1, plan->path);
	probe_put(f, at + P_NEWEST, 1, plan->newest);
	probe_put(f, at + P_SENDER, 8, plan->sender);
	probe_put(f, at + P_TARGET, 8, plan->target);
	probe_put(f, at + P_EPOCH, 8, plan->epoch);
	probe_put(f, at + P_ECHO, 8, plan->echo_epoch);
	probe_put(f, at + P_SEQUENCE, 4, plan->sequence);
	probe_put(f, at + Q_SPORT, 2, plan->sport ? plan->sport : plan->port);
	for (i = 0; i < Q_PATHS; i++) {
		probe_put(f, at + Q_AGES + 4 * i, 4, plan->age_us[i]);
		probe_put(f, at + Q_PORTS + 2 * i, 2, plan->report_sport[i]);
	}
	probe_put(f, at + Q_T2, 8, plan->t2);
	probe_put(f, at + Q_T1, 8, plan->t1);
	probe_put(f, at + Q_T1_KTIME, 8, plan->t1_ktime);
	probe_put(f, at + Q_KTIME, 8, plan->ktime);
	probe_put(f, at + Q_T1_BOUND, 4, plan->t1_bound);
	probe_put(f, at + Q_T2_BOUND, 4, plan->t2_bound);
	probe_put(f, at + Q_T3, 8, plan->t3);
	path_put_tag(f, plan->key);
}

/* The responder or sender, as in its packets. */
struct path_self {
	uint64_t self, epoch;
	uint8_t flags;	 /* plane and key */
	uint8_t version; /* of the format; 0: 2 */
	const struct probe_key *key;
	uint32_t bound; /* 0: it has no fabric time */
	uint32_t age_us[Q_PATHS];
	uint16_t report_sport[Q_PATHS];
};

static inline void model_put_words(struct frame *f, uint32_t bth, const struct path_self *by)
{
	for (int i = 0; i < Q_PATHS; i++) {
		probe_put(f, bth + Q_AGES + 4 * i, 4, by->age_us[i]);
		probe_put(f, bth + Q_PORTS + 2 * i, 2, by->report_sport[i]);
	}
}

static inline void model_put_own(struct frame *f, uint32_t bth, const struct path_self *by)
{
	probe_put(f, bth + P_SENDER, 8, by->self);
	probe_put(f, bth + P_EPOCH, 8, by->epoch);
	frame_put16(f, bth - 2, 0);
	model_put_version(f, by->version);
	model_put_words(f, bth, by);
}

/* The reply to @request, with the timestamps of @actual, which only the kernel knows. */
static inline void model_path_reply(struct frame *reply, const struct frame *request,
				    const struct frame *actual, const struct path_self *by)
{
	uint32_t bth = probe_bth(request);
	uint8_t *d = reply->data, flags = request->data[bth + P_FLAGS] & Q_TIMED;

	model_reverse(reply, request);
	d[bth + P_OPCODE] = ESC_PROBE_OPCODE_PATH_REPLY;
	d[bth + P_FLAGS] = flags | by->flags | (by->bound ? Q_REPLY_TIMED : 0);
	memcpy(d + bth + P_TARGET, request->data + bth + P_SENDER, 8);
	memcpy(d + bth + P_ECHO, request->data + bth + P_EPOCH, 8);
	model_put_own(reply, bth, by);
	probe_put(reply, bth + Q_T2, 8, by->bound ? probe_get(actual, bth + Q_T2, 8) : 0);
	probe_put(reply, bth + Q_T3, 8, by->bound ? probe_get(actual, bth + Q_T3, 8) : 0);
	probe_put(reply, bth + Q_T2_BOUND, 4, by->bound);
	memcpy(d + bth + Q_KTIME, actual->data + bth + Q_KTIME, 8);
	path_put_tag(reply, by->key);
}

/* The request as it leaves, with the timestamps of @actual. */
static inline void model_path_sent(struct frame *sent, const struct frame *given,
				   const struct frame *actual, const struct path_self *by)
{
	uint32_t bth = probe_bth(given);

	*sent = *given;
	probe_put(sent, bth + P_FLAGS, 1, by->flags | (by->bound ? Q_TIMED : 0));
	model_put_own(sent, bth, by);
	probe_put(sent, bth + P_ECHO, 8, 0);
	probe_put(sent, bth + Q_SPORT, 2, frame_get16(given, bth - 8));
	probe_put(sent, bth + Q_T2, 8, 0);
	probe_put(sent, bth + Q_T1, 8, by->bound ? probe_get(actual, bth + Q_T1, 8) : 0);
	memcpy(sent->data + bth + Q_T1_KTIME, actual->data + bth + Q_T1_KTIME, 16);
	probe_put(sent, bth + Q_T1_BOUND, 4, by->bound);
	probe_put(sent, bth + Q_T2_BOUND, 4, 0);
	probe_put(sent, bth + Q_T3, 8, 0);
	path_put_tag(sent, by->key);
}

#endif
