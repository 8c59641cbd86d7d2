// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>

#include "internal.h"

struct place_map *map_new(size_t count)
{
	struct place_map *map = calloc(1, sizeof(*map));
	size_t cells = count * count + 1;

	if (!map)
		return NULL;
	map->count = count;
	map->floor_ns = calloc(cells, sizeof(*map->floor_ns));
	map->upper_ns = calloc(cells, sizeof(*map->upper_ns));
	map->p99_ns = calloc(cells, sizeof(*map->p99_ns));
	map->tier = calloc(cells, sizeof(*map->tier));
	map->estimated = calloc(cells, sizeof(*map->estimated));
	map->group = calloc(count + 1, sizeof(*map->group));
	if (map->floor_ns && map->upper_ns && map->p99_ns && map->tier && map->estimated &&
	    map->group)
		return map;
	map_free(map);
	return NULL;
}

void map_free(struct place_map *map)
{
	if (!map)
		return;
	free(map->floor_ns);
	free(map->upper_ns);
	free(map->p99_ns);
	free(map->tier);
	free(map->estimated);
	free(map->group);
	free(map);
}

int map_larger_first(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x < y) - (x > y);
}
