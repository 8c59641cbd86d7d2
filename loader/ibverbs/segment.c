// SPDX-License-Identifier: BSD-2-Clause
/* The bytes of a segment, checked. */
#include <math.h>
#include <string.h>

#include "internal.h"

#define DEVICE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
#define STATES 7 /* enum ibv_qp_state */

static void end_text(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
}

bool segment_take_header(const struct segment_header *raw, struct segment_header *out)
{
	*out = *raw;
	end_text(out->comm, sizeof(out->comm));
	end_text(out->rank, sizeof(out->rank));
	end_text(out->job_id, sizeof(out->job_id));
	if (out->used > SEGMENT_QPS)
		out->used = SEGMENT_QPS;
	return out->magic == SEGMENT_MAGIC && out->version == SEGMENT_VERSION;
}

bool segment_take_qp(const struct segment_qp *raw, struct segment_qp *out)
{
	*out = *raw;
	if (out->written != out->writing ||
	    (out->state != SEGMENT_LIVE && out->state != SEGMENT_ENDED) || out->qp_state >= STATES)
		return false;
	/* A label of metrics: what is no name of a device is none. */
	end_text(out->device, sizeof(out->device));
	if (out->device[strspn(out->device, DEVICE_LETTERS)])
		out->device[0] = '\0';
	out->qpn &= ESC_QPN_MASK;
	out->dest_qpn &= ESC_QPN_MASK;
	out->ack_timeout &= 31;
	return true;
}

uint64_t segment_messages(const struct segment_qp *qp)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SEGMENT_KINDS; i++)
		sum += qp->messages[i];
	return sum;
}

uint64_t segment_bytes(const struct segment_qp *qp)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < SEGMENT_KINDS; i++)
		sum += qp->bytes[i];
	return sum;
}

uint64_t segment_latency_quantile(const struct segment_qp *qp, double q, uint64_t *samples)
{
	return segment_quantile(qp->latencies, q, samples);
}

uint64_t segment_quantile(const uint32_t buckets[SEGMENT_LATENCIES], double q, uint64_t *samples)
{
	uint64_t rank, passed = 0;

	*samples = 0;
	for (unsigned int i = 0; i < SEGMENT_LATENCIES; i++)
		*samples += buckets[i];
	rank = (uint64_t)fmax(1, ceil(q * (double)*samples));
	for (unsigned int i = 0; i < SEGMENT_LATENCIES; i++) {
		passed += buckets[i];
		if (passed >= rank)
			return segment_latency_ns(i);
	}
	return 0;
}
