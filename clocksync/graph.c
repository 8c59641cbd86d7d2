// SPDX-License-Identifier: BSD-2-Clause
#include "clocksync/graph.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of rings beyond degree/2; more find no new edges in practice. */
#define RINGS_EXTRA 24
#define PEERS_PER_MEMBER (2 * GRAPH_DEGREE_MAX)
#define BOOTSTRAP_RING 0xf0ull

/* The finaliser of SplitMix64: every bit of the input reaches every bit of the output. */
static uint64_t mix(uint64_t v)
{
	v += 0x9e3779b97f4a7c15ull;
	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
	return v ^ (v >> 31);
}

uint64_t graph_member_id(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
	hash = mix(hash);
	return hash ? hash : 1;
}

static uint64_t place_on_ring(uint64_t id, uint64_t ring, uint64_t mesh)
{
	return mix(id ^ mix(ring + (mesh << 32)));
}

struct ring_slot {
	uint64_t place, id;
	uint32_t member;
};

static int slot_compare(const void *a, const void *b)
{
	const struct ring_slot *l = a, *r = b;

	if (l->place != r->place)
		return l->place < r->place ? -1 : 1;
	return (l->id > r->id) - (l->id < r->id);
}

struct builder {
	size_t count;
	unsigned degree;
	struct ring_slot *slots;
	uint32_t *peers;  /* PEERS_PER_MEMBER a member */
	uint8_t *degrees; /* so far */
	uint8_t *before;  /* degrees before this ring: the result does not depend on the order */
};

static bool joined(const struct builder *builder, uint32_t a, uint32_t b)
{
	const uint32_t *peers = &builder->peers[(size_t)a * PEERS_PER_MEMBER];

	for (unsigned i = 0; i < builder->degrees[a]; i++)
		if (peers[i] == b)
			return true;
	return false;
}

static void join(struct builder *builder, uint32_t a, uint32_t b)
{
	if (a == b || joined(builder, a, b) || builder->degrees[a] == PEERS_PER_MEMBER ||
	    builder->degrees[b] == PEERS_PER_MEMBER)
		return;
	builder->peers[(size_t)a * PEERS_PER_MEMBER + builder->degrees[a]++] = b;
	builder->peers[(size_t)b * PEERS_PER_MEMBER + builder->degrees[b]++] = a;
}

static bool add_ring(struct builder *builder, const uint64_t *ids, uint64_t ring, uint64_t mesh)
{
	bool all = ring < builder->degree / 2, added = false;

	for (size_t i = 0; i < builder->count; i++)
		builder->slots[i] =
			(struct ring_slot){place_on_ring(ids[i], ring, mesh), ids[i], (uint32_t)i};
	qsort(builder->slots, builder->count, sizeof(*builder->slots), slot_compare);
	memcpy(builder->before, builder->degrees, builder->count);
	for (size_t i = 0; i < builder->count; i++) {
		uint32_t a = builder->slots[i].member;
		uint32_t b = builder->slots[(i + 1) % builder->count].member;

		if (!all && builder->before[a] >= builder->degree &&
		    builder->before[b] >= builder->degree)
			continue;
		join(builder, a, b);
		added = true;
	}
	return all || added;
}

static void add_all_pairs(struct builder *builder)
{
	for (uint32_t a = 0; a < builder->count; a++)
		for (uint32_t b = a + 1; b < builder->count; b++)
			join(builder, a, b);
}

static int pack(const struct builder *builder, struct graph *graph)
{
	size_t total = 0;

	for (size_t i = 0; i < builder->count; i++)
		total += builder->degrees[i];
	graph->count = builder->count;
	graph->start = malloc((builder->count + 1) * sizeof(*graph->start));
	graph->peers = malloc((total + 1) * sizeof(*graph->peers));
	if (!graph->start || !graph->peers) {
		graph_free(graph);
		return -ENOMEM;
	}
	total = 0;
	for (size_t i = 0; i < builder->count; i++) {
		graph->start[i] = (uint32_t)total;
		memcpy(&graph->peers[total], &builder->peers[i * PEERS_PER_MEMBER],
		       builder->degrees[i] * sizeof(*graph->peers));
		total += builder->degrees[i];
	}
	graph->start[builder->count] = (uint32_t)total;
	return 0;
}

int graph_build(struct graph *graph, const uint64_t *ids, size_t count, unsigned degree,
		uint64_t mesh)
{
	struct builder builder = {.count = count, .degree = (degree + 1) & ~1u};
	int err = -ENOMEM;

	memset(graph, 0, sizeof(*graph));
	if (!degree || degree > GRAPH_DEGREE_MAX)
		return -EINVAL;
	builder.slots = malloc((count + 1) * sizeof(*builder.slots));
	builder.peers = malloc((count + 1) * PEERS_PER_MEMBER * sizeof(*builder.peers));
	builder.degrees = calloc(count + 1, 1);
	builder.before = calloc(count + 1, 1);
	if (!builder.slots || !builder.peers || !builder.degrees || !builder.before)
		goto out;
	if (count <= (size_t)builder.degree + 1)
		add_all_pairs(&builder);
	else
		for (uint64_t ring = 0; ring < builder.degree / 2 + RINGS_EXTRA; ring++)
			if (!add_ring(&builder, ids, ring, mesh))
				break;
	err = pack(&builder, graph);
out:
	free(builder.slots);
	free(builder.peers);
	free(builder.degrees);
	free(builder.before);
	return err;
}

void graph_free(struct graph *graph)
{
	free(graph->start);
	free(graph->peers);
	memset(graph, 0, sizeof(*graph));
}

size_t graph_rank(const uint64_t *ids, size_t count, size_t self, uint64_t mesh)
{
	uint64_t mine = place_on_ring(ids[self], BOOTSTRAP_RING, mesh);
	size_t rank = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t place = place_on_ring(ids[i], BOOTSTRAP_RING, mesh);

		rank += place < mine || (place == mine && ids[i] < ids[self]);
	}
	return rank;
}
