/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of a process that escapementd reads; of this library and of libescapement-nccl. */
#ifndef ESC_SHIM_FILE_H
#define ESC_SHIM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Neither does the environment forbid it, nor is this a child of fork(). @in_child is called in
 * such a child, which must not write into its parent's file; always the same function.
 */
bool file_may_write(void (*in_child)(void));

/*
 * A new file of @bytes zeros in the daemon's folder, mapped, with the lock that tells the daemon
 * that the process lives. It is never unmapped. NULL: no folder, or no room.
 */
void *file_make(size_t bytes);

/* What the environment says of the process; texts end within their room, "": not known. */
void file_identify(char comm[16], char rank[16], char job_id[64]);

#endif
