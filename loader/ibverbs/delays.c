// SPDX-License-Identifier: BSD-2-Clause
/*
 * Delays of messages: samples of both ends are joined by their number, at the end that posted.
 * Pure.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "internal.h"

/* --- samples --- */

static void ring_add(struct verbs_samples *ring, const struct verbs_sample *sample)
{
	ring->list[ring->count++ % DELAY_SAMPLES] = *sample;
}

void delays_take(struct process *process, const struct segment_sample *raw, int64_t fabric_ns,
		 int64_t bound_ns)
{
	struct verbs_sample sample = {.number = raw->number,
				      .fabric_ns = fabric_ns,
				      .bytes = raw->bytes,
				      .bound_ns = bound_ns > UINT32_MAX ? UINT32_MAX
									: (uint32_t)bound_ns};
	struct verbs_qp *qp;

	if (raw->slot >= process->count || raw->end >= SEGMENT_ENDS)
		return;
	qp = &process->qps[raw->slot];
	if (qp->is.state == SEGMENT_FREE || qp->is.generation != raw->generation)
		return;
	if (!qp->delays)
		qp->delays = calloc(1, sizeof(*qp->delays));
	if (qp->delays)
		ring_add(&qp->delays->ends[raw->end], &sample);
}

static void count_delay(struct verbs_delays *delays, const struct verbs_sample *posted,
			const struct verbs_sample *received)
{
	uint64_t bound_ns = (uint64_t)posted->bound_ns + received->bound_ns;
	int64_t ns;

	if (posted->bytes != received->bytes) {
		delays->is_broken = true;
		return;
	}
	/* A clock that is beyond its bound has no delays. */
	if (__builtin_sub_overflow(received->fabric_ns, posted->fabric_ns, &ns) ||
	    ns < -(int64_t)bound_ns)
		return;
	ns = ns < 0 ? 0 : ns;
	delays->histogram[segment_latency_bucket((uint64_t)ns)]++;
	delays->sum_ns += (uint64_t)ns;
	delays->newest = *posted;
	delays->newest_ns = ns;
	delays->newest_bound_ns = bound_ns;
	if (ns > delays->max_ns)
		delays->max_ns = ns;
	if (bound_ns > delays->bound_ns)
		delays->bound_ns = bound_ns;
	delays->joined++;
}

unsigned int delays_join(struct verbs_delays *delays, const struct verbs_sample *received)
{
	struct verbs_samples *posted = &delays->ends[SEGMENT_POSTED];
	uint64_t joined = delays->joined;

	for (unsigned int i = 0; i < DELAY_SAMPLES && i < posted->count && !delays->is_broken;
	     i++) {
		struct verbs_sample *sample = &posted->list[i];

		if (sample->number != received->number || sample->was_joined)
			continue;
		sample->was_joined = true; /* a report that is repeated adds nothing */
		count_delay(delays, sample, received);
	}
	return (unsigned int)(delays->joined - joined);
}

/* --- reports on the wire --- */

#define MAGIC 0x4573436du /* "EsCm" */
#define VERSION 1
#define FLAG_KEY 0x01 /* tagged with key slot 1, else 0 */

struct wire_sample {
	__be64 number, fabric_ns;
	__be32 bound_ns, bytes, posted_qpn, received_qpn;
};

struct wire_report {
	__be32 magic;
	uint8_t version, flags;
	__be16 count;
	__be64 sender, target; /* graph_member_id() */
	uint8_t posted_at[16], received_at[16];
	struct wire_sample samples[REPORT_SAMPLES]; /* `count` of them, and the tag */
};
_Static_assert(sizeof(struct wire_sample) == 32, "no hidden padding");
_Static_assert(offsetof(struct wire_report, samples) == 56, "no hidden padding");
_Static_assert(sizeof(struct wire_report) + 8 == REPORT_BYTES, "its bytes");

/* Either half is SipHash, with the key of the pair of hosts, of this name and its number. */
static bool tag_key(const struct fleet_keys *keys, unsigned int slot, uint64_t self, uint64_t peer,
		    __u64 out[2])
{
	uint64_t input[2] = {htole64(0x6d65737361676573ull), 0};
	__u64 key[2];

	if (!fleet_pair_key(keys, slot, self, peer, key))
		return false;
	for (unsigned int half = 0; half < 2; half++) {
		input[1] = htole64(half);
		out[half] = siphash(key, input, 2);
	}
	explicit_bzero(key, sizeof(key));
	return true;
}

size_t report_encode(const struct verbs_report *report, const struct fleet_keys *keys,
		     uint64_t self, uint64_t peer, uint8_t out[REPORT_BYTES])
{
	size_t bytes =
		offsetof(struct wire_report, samples) + report->count * sizeof(struct wire_sample);
	struct wire_report wire = {.magic = htobe32(MAGIC),
				   .version = VERSION,
				   .flags = keys->use ? FLAG_KEY : 0,
				   .count = htobe16((uint16_t)report->count),
				   .sender = htobe64(self),
				   .target = htobe64(peer)};
	uint64_t tag = 0;
	__u64 key[2];

	memcpy(wire.posted_at, &report->posted_at, 16);
	memcpy(wire.received_at, &report->received_at, 16);
	for (size_t i = 0; i < report->count; i++)
		wire.samples[i] = (struct wire_sample){
			.number = htobe64(report->samples[i].number),
			.fabric_ns = (__be64)htobe64((uint64_t)report->samples[i].fabric_ns),
			.bound_ns = htobe32(report->samples[i].bound_ns),
			.bytes = htobe32(report->samples[i].bytes),
			.posted_qpn = htobe32(report->posted_qpn),
			.received_qpn = htobe32(report->received_qpn)};
	if (tag_key(keys, keys->use, self, peer, key))
		tag = htole64(siphash(key, &wire, bytes / 8));
	memcpy(out, &wire, bytes);
	memcpy(out + bytes, &tag, 8);
	return bytes + 8;
}

static bool is_tagged(const struct wire_report *wire, size_t bytes, const void *tag,
		      const struct fleet_keys *keys, uint64_t self, uint64_t peer)
{
	unsigned int slot = wire->flags & FLAG_KEY ? 1 : 0;
	uint64_t wanted = 0;
	__u64 key[2];

	if (tag_key(keys, slot, self, peer, key))
		wanted = htole64(siphash(key, wire, bytes / 8));
	else if (keys->have[0] || keys->have[1])
		return false;
	return !memcmp(&wanted, tag, 8);
}

bool report_decode(const uint8_t *bytes, size_t size, const struct fleet_keys *keys, uint64_t self,
		   uint64_t *peer, struct verbs_report *out)
{
	struct wire_report wire = {};
	size_t least = offsetof(struct wire_report, samples) + 8, count;

	if (size < least || size > REPORT_BYTES)
		return false;
	memcpy(&wire, bytes, size - 8);
	count = be16toh(wire.count);
	if (be32toh(wire.magic) != MAGIC || wire.version != VERSION || !count ||
	    count > REPORT_SAMPLES || size != least + count * sizeof(struct wire_sample) ||
	    be64toh(wire.target) != self)
		return false;
	*peer = be64toh(wire.sender);
	if (!is_tagged(&wire, size - 8, bytes + size - 8, keys, self, *peer))
		return false;
	*out = (struct verbs_report){.count = count,
				     .posted_qpn = be32toh(wire.samples[0].posted_qpn),
				     .received_qpn = be32toh(wire.samples[0].received_qpn)};
	memcpy(&out->posted_at, wire.posted_at, 16);
	memcpy(&out->received_at, wire.received_at, 16);
	for (size_t i = 0; i < count; i++)
		out->samples[i] = (struct verbs_sample){
			.number = be64toh(wire.samples[i].number),
			.fabric_ns = (int64_t)be64toh(wire.samples[i].fabric_ns),
			.bound_ns = be32toh(wire.samples[i].bound_ns),
			.bytes = be32toh(wire.samples[i].bytes)};
	return true;
}
