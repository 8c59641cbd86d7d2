// SPDX-License-Identifier: BSD-2-Clause
/* Series as bytes, for the file that they are kept in over restarts. Of this host alone. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "internal.h"

#define VERSION 1

/* What is kept of a series: all up to `open`. */
#define RECORD_BYTES offsetof(struct baseline_series, open)

struct header {
	char magic[8];
	uint32_t version, record_bytes;
	uint64_t count, bin_ns;
	uint64_t digest; /* of the records */
};
static const char magic[8] = "ESCBASE";

void *baseline_encode(struct baseline_series *const *list, size_t count, uint64_t bin_ns,
		      size_t *bytes)
{
	struct header header = {
		.version = VERSION,
		.record_bytes = RECORD_BYTES,
		.count = count,
		.bin_ns = bin_ns,
	};
	unsigned char *data;

	*bytes = sizeof(header) + count * RECORD_BYTES;
	data = malloc(*bytes);
	if (!data)
		return NULL;
	for (size_t i = 0; i < count; i++)
		memcpy(data + sizeof(header) + i * RECORD_BYTES, list[i], RECORD_BYTES);
	memcpy(header.magic, magic, sizeof(magic));
	header.digest = hash_add(HASH_FIRST, data + sizeof(header), count * RECORD_BYTES);
	memcpy(data, &header, sizeof(header));
	return data;
}

static bool slot_is_sound(const struct baseline_slot *slot)
{
	return slot->bins <= BASELINE_SLOT_AGE && isfinite(slot->center) &&
	       isfinite(slot->spread) && slot->spread >= 0;
}

static bool is_sound(const struct baseline_series *series)
{
	if (series->key.kind >= BASELINE_KINDS || !isfinite(series->bound) ||
	    !memchr(series->key.interface, 0, sizeof(series->key.interface)))
		return false;
	for (unsigned int i = 0; i < BASELINE_SLOTS; i++)
		if (!slot_is_sound(&series->slots[i]))
			return false;
	return true;
}

static const char *refusal(const struct header *header, const void *data, size_t bytes,
			   uint64_t bin_ns)
{
	const unsigned char *records = (const unsigned char *)data + sizeof(*header);

	if (bytes < sizeof(*header) || memcmp(header->magic, magic, sizeof(magic)) != 0)
		return "it is no file of baselines";
	if (header->version != VERSION || header->record_bytes != RECORD_BYTES)
		return "another version wrote it";
	if (header->bin_ns != bin_ns)
		return "it was written with another `baseline.after`";
	if (header->count > BASELINE_SERIES_MAX ||
	    bytes != sizeof(*header) + header->count * RECORD_BYTES ||
	    header->digest != hash_add(HASH_FIRST, records, header->count * RECORD_BYTES))
		return "it is damaged";
	return NULL;
}

int baseline_decode(const void *data, size_t bytes, uint64_t bin_ns, baseline_found_fn *found,
		    void *context, const char **reason)
{
	const unsigned char *at = (const unsigned char *)data + sizeof(struct header);
	struct header header = {};

	memcpy(&header, data, bytes < sizeof(header) ? bytes : sizeof(header));
	*reason = refusal(&header, data, bytes, bin_ns);
	for (uint64_t i = 0; !*reason && i < header.count; i++, at += RECORD_BYTES) {
		struct baseline_series series = {};

		memcpy(&series, at, RECORD_BYTES);
		if (is_sound(&series))
			found(context, &series);
	}
	return *reason ? -EINVAL : 0;
}
