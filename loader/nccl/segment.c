// SPDX-License-Identifier: BSD-2-Clause
/* The bytes of a segment, checked. */
#include <string.h>

#include "internal.h"

static void end_text(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
}

/* Names of functions and algorithms are letters, or none. */
static void check_name(char *text, size_t bytes)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+";

	end_text(text, bytes);
	if (text[strspn(text, letters)])
		text[0] = '\0';
}

bool nccl_take_header(const struct nccl_header *raw, struct nccl_header *out)
{
	*out = *raw;
	end_text(out->comm, sizeof(out->comm));
	end_text(out->rank, sizeof(out->rank));
	end_text(out->job_id, sizeof(out->job_id));
	if (out->used > NCCL_COMMS)
		out->used = NCCL_COMMS;
	return out->magic == NCCL_MAGIC && out->version == NCCL_VERSION;
}

bool nccl_take_comm(const struct nccl_comm *raw, struct nccl_comm *out)
{
	*out = *raw;
	if (out->written != out->writing || (out->state != NCCL_LIVE && out->state != NCCL_ENDED))
		return false;
	end_text(out->name, sizeof(out->name));
	if (out->rank < -1)
		out->rank = -1;
	return true;
}

bool nccl_take_record(const struct nccl_record *raw, uint64_t place, struct nccl_record *out)
{
	/* Beyond all times and sizes that there are. */
	const uint64_t most = 1ull << 60;

	*out = *raw;
	if (out->place != (uint32_t)place + 1 || out->kind >= NCCL_KINDS ||
	    out->comm >= NCCL_COMMS || out->begin_ns > most || out->end_ns > most ||
	    out->bytes > most || (out->end_ns && out->end_ns < out->begin_ns))
		return false;
	if (out->kind >= NCCL_SEND && !out->end_ns)
		return false;
	if (out->kind != NCCL_QP &&
	    (out->network_ns > most || out->peer_ns > most || out->gpu_ns > most ||
	     out->network_ns + out->peer_ns + out->gpu_ns > out->end_ns - out->begin_ns))
		return false;
	check_name(out->func, sizeof(out->func));
	check_name(out->algo, sizeof(out->algo));
	check_name(out->proto, sizeof(out->proto));
	return true;
}
