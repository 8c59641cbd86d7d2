/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow. */
#ifndef ESC_BASE_ARRAY_H
#define ESC_BASE_ARRAY_H

#include <stddef.h>

/*
 * @list: the address of a pointer to entries of @bytes, *@room of them allocated; both are 0 at
 * first. Makes it at least @count. 0 or -ENOMEM, then nothing changed.
 */
int array_reserve(void *list, size_t *room, size_t count, size_t bytes);

/* One more entry at the end, all zero; *@count goes up. NULL: no memory. */
void *array_add(void *list, size_t *count, size_t *room, size_t bytes);

#endif
