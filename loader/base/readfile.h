/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole regular file, with an error sentence; a text of /proc or sysfs; a marker file. */
#ifndef ESC_LOADER_READFILE_H
#define ESC_LOADER_READFILE_H

#include <stddef.h>
#include <sys/stat.h>

/*
 * Reads @path, at most @max bytes, and a NUL that is not counted. @status may be NULL. -errno with
 * *@error, a malloc'd "PATH: reason" without a remedy: the caller knows what the file is for.
 */
int readfile(const char *path, size_t max, char **bytes, size_t *size, struct stat *status,
	     char **error);

/*
 * The start of the file of /proc or sysfs at the path that @format gives, followed by a NUL; a
 * newline at its end is left out. Its length, or -errno, then @out is "".
 */
int readtext(char *out, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A file with @text, unless it is there, and its directory, when its parent is. It is on disk when
 * this returns 0; else -errno, and no file.
 */
int createfile(const char *path, const char *text);

#endif
