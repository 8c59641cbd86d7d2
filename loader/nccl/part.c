// SPDX-License-Identifier: BSD-2-Clause
/* What a rank did in a collective, and what that was judged to be, as JSON and back. */
#include <string.h>

#include "base/json.h"
#include "internal.h"

json_t *nccl_verdict_json(const struct nccl_verdict *verdict)
{
	json_t *object = json_object();

	json_put_text(object, "cause", verdict->cause == CAUSE_LINK ? "slow_link" : "slow_rank");
	json_put_integer(object, "rank", verdict->rank);
	if (verdict->cause == CAUSE_LINK)
		json_put_integer(object, "peer_rank", verdict->peer);
	json_put_count(object, "excess_ns", verdict->excess_ns);
	json_put_count(object, "others_ns", verdict->median_ns);
	json_put_count(object, "duration_ns", verdict->duration_ns);
	return object;
}

static json_t *hop_json(const struct nccl_hop *hop)
{
	json_t *object = json_object();

	json_put_integer(object, "peer_rank", hop->peer);
	json_put_text(object, "direction", hop->is_send ? "tx" : "rx");
	json_put_count(object, "channels", hop->channels);
	json_put_count(object, "steps", hop->steps);
	if (hop->has_bytes)
		json_put_count(object, "bytes", hop->bytes);
	/* Since when data that arrives was in the network is known at its sender alone. */
	if (hop->is_send)
		json_put_count(object, "network_ns", hop->network_ns);
	json_put_count(object, "peer_wait_ns", hop->peer_ns);
	json_put_count(object, "gpu_wait_ns", hop->gpu_ns);
	if (hop->is_send)
		json_put_count(object, "slowest_step_ns", hop->slowest_ns);
	return object;
}

json_t *nccl_part_json(const struct nccl_part *part)
{
	json_t *object = json_object(), *hops = json_array();

	json_put_name(object, "func", part->func);
	json_put_name(object, "algo", part->algo);
	json_put_name(object, "proto", part->proto);
	json_put_count(object, "sequence", part->sequence);
	json_put_integer(object, "rank", part->rank);
	json_put_count(object, "bytes", part->bytes);
	json_put_count(object, "duration_ns", part->end_ns - part->begin_ns);
	if (part->is_timed) {
		json_put_integer(object, "began_fabric_ns", part->at_ns);
		json_put_integer(object, "bound_ns", part->bound_ns);
	}
	if (part->unfinished)
		json_put_bool(object, "unfinished", true);
	for (size_t i = 0; i < part->hop_count; i++)
		json_array_append_new(hops, hop_json(&part->hops[i]));
	json_put(object, "hops", hops);
	return object;
}

/* --- back; the JSON may be of any program --- */

static bool take_text(const json_t *object, const char *key, char *out, size_t bytes)
{
	const char *text = json_text(object, key);

	if (strlen(text) >= bytes)
		return false;
	memcpy(out, text, strlen(text) + 1);
	return true;
}

static int64_t integer_of(const json_t *object, const char *key, int64_t fallback)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : fallback;
}

/* A time or a count; false: it is there and cannot be one. */
static bool take_count(const json_t *object, const char *key, uint64_t *out)
{
	int64_t value = integer_of(object, key, 0);

	*out = (uint64_t)value;
	return value >= 0 && value <= 1ll << 60;
}

static bool take_rank(const json_t *object, const char *key, int32_t *out)
{
	int64_t value = integer_of(object, key, -1);

	*out = value >= 0 && value <= INT32_MAX ? (int32_t)value : -1;
	return value >= 0 && value <= INT32_MAX;
}

static bool take_hop(const json_t *object, struct nccl_hop *hop)
{
	uint64_t channels;
	bool good = take_rank(object, "peer_rank", &hop->peer) &&
		    take_count(object, "channels", &channels) && channels && channels < 1 << 20 &&
		    take_count(object, "steps", &hop->steps) &&
		    take_count(object, "bytes", &hop->bytes) &&
		    take_count(object, "network_ns", &hop->network_ns) &&
		    take_count(object, "peer_wait_ns", &hop->peer_ns) &&
		    take_count(object, "gpu_wait_ns", &hop->gpu_ns) &&
		    take_count(object, "slowest_step_ns", &hop->slowest_ns);

	hop->channels = good ? (uint32_t)channels : 0;
	hop->has_bytes = json_object_get(object, "bytes");
	hop->is_send = !strcmp(json_text(object, "direction"), "tx");
	return good;
}

bool nccl_part_parse(const json_t *object, struct nccl_part *part)
{
	json_t *hops = json_object_get(object, "hops");
	uint64_t duration_ns, bound_ns;

	*part = (struct nccl_part){};
	if (!take_text(object, "func", part->func, sizeof(part->func)) ||
	    !take_text(object, "algo", part->algo, sizeof(part->algo)) ||
	    !take_text(object, "proto", part->proto, sizeof(part->proto)) ||
	    !take_rank(object, "rank", &part->rank) ||
	    !take_count(object, "sequence", &part->sequence) ||
	    !take_count(object, "bytes", &part->bytes) ||
	    !take_count(object, "duration_ns", &duration_ns) ||
	    !take_count(object, "bound_ns", &bound_ns) || json_array_size(hops) > HOPS)
		return false;
	part->is_timed = json_is_integer(json_object_get(object, "began_fabric_ns"));
	part->at_ns = integer_of(object, "began_fabric_ns", 0);
	part->bound_ns = (int64_t)bound_ns;
	part->end_ns = duration_ns;
	part->unfinished = json_object_get(object, "unfinished");
	for (; part->hop_count < json_array_size(hops); part->hop_count++)
		if (!take_hop(json_array_get(hops, part->hop_count), &part->hops[part->hop_count]))
			return false;
	/* A time beyond all is no time that can be compared. */
	return part->at_ns >= 0 && part->at_ns < INT64_MAX / 2;
}
