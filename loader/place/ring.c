// SPDX-License-Identifier: BSD-2-Clause
/* An order for ring collectives: each rank sends to the next. */

#include "internal.h"

#define PASSES_MOST 20
#define HOSTS_MOST 1024 /* beyond: the nearest next alone */

static uint64_t length_of(const struct place_map *map, size_t a, size_t b)
{
	size_t at = a * map->count + b;

	return ((uint64_t)map->tier[at] << 40) + map->floor_ns[at];
}

/* From the first host always the nearest that is left. */
static void chain_nearest(const struct place_map *map, size_t *hosts, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		size_t best = i, kept;

		for (size_t k = i + 1; k < count; k++)
			if (length_of(map, hosts[i - 1], hosts[k]) <
			    length_of(map, hosts[i - 1], hosts[best]))
				best = k;
		kept = hosts[best];
		hosts[best] = hosts[i];
		hosts[i] = kept;
	}
}

static void reverse(size_t *hosts, size_t from, size_t to)
{
	for (; from < to; from++, to--) {
		size_t kept = hosts[from];

		hosts[from] = hosts[to];
		hosts[to] = kept;
	}
}

/* Two links replaced by two shorter ones (2-opt); whether any were. */
static bool shorten(const struct place_map *map, size_t *hosts, size_t count)
{
	bool any = false;

	for (size_t i = 0; i + 2 < count; i++)
		for (size_t k = i + 2; k < count; k++) {
			size_t a = hosts[i], b = hosts[i + 1];
			size_t c = hosts[k], d = hosts[(k + 1) % count];

			if (a == d || length_of(map, a, c) + length_of(map, b, d) >=
					      length_of(map, a, b) + length_of(map, c, d))
				continue;
			reverse(hosts, i + 1, k);
			any = true;
		}
	return any;
}

void ring_order(const struct place_map *map, size_t *hosts, size_t count)
{
	chain_nearest(map, hosts, count);
	for (size_t pass = 0; count <= HOSTS_MOST && pass < PASSES_MOST; pass++)
		if (!shorten(map, hosts, count))
			break;
}
