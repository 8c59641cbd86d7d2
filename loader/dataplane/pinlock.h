/* SPDX-License-Identifier: BSD-2-Clause */
/* One escapementd at a time on a folder of pins, whatever its network namespace. */
#ifndef ESC_LOADER_PINLOCK_H
#define ESC_LOADER_PINLOCK_H

/*
 * Locks the folder @root. A descriptor that holds the lock until it is closed
 * (also by the death of the process), or -EBUSY with the holder's pid told.
 */
int pinlock_take(const char *root, char **error);

#endif
