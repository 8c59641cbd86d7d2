/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole regular file into memory, bounded, with a reason in words; an empty file. */
#ifndef ESC_LOADER_READFILE_H
#define ESC_LOADER_READFILE_H

#include <stddef.h>
#include <sys/stat.h>

/*
 * Reads @path, at most @max bytes, followed by a NUL that is not counted.
 * @status may be NULL. On failure returns -errno and *@error is a malloc'd
 * "PATH: reason" without a remedy: the caller knows what the file is for.
 */
int readfile(const char *path, size_t max, char **bytes, size_t *size, struct stat *status,
	     char **error);

/* An empty file, unless it is there, and its directory, when its parent is. 0 or -errno. */
int createfile(const char *path);

#endif
