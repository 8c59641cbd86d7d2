/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef ESC_BASE_WRITEFILE_H
#define ESC_BASE_WRITEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Replaces the file @path in one step: @bytes of @data are written to PATH.new, which is renamed.
 * Links that lie in the directory are not followed. @sync: on the disk before it is renamed. It may
 * block. 0 or -errno; then the file is as it was.
 */
int writefile(const char *path, const void *data, size_t bytes, mode_t mode, bool sync);

#endif
