// SPDX-License-Identifier: BSD-2-Clause
#include "array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 16

int array_reserve(void *list, size_t *room, size_t count, size_t bytes)
{
	size_t more = *room ? *room : ROOM_LEAST;
	void *grown;

	if (count <= *room)
		return 0;
	while (more < count)
		more *= 2;
	grown = reallocarray(*(void **)list, more, bytes);
	if (!grown)
		return -ENOMEM;
	*(void **)list = grown;
	*room = more;
	return 0;
}

void *array_add(void *list, size_t *count, size_t *room, size_t bytes)
{
	char *entry;

	if (array_reserve(list, room, *count + 1, bytes))
		return NULL;
	entry = *(char **)list + *count * bytes;
	++*count;
	return memset(entry, 0, bytes);
}
