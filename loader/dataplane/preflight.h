/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel and our rights must be before anything is tried. */
#ifndef ESC_LOADER_PREFLIGHT_H
#define ESC_LOADER_PREFLIGHT_H

/* 0, or -errno and one sentence with the remedy. */
int preflight_check(char **error);

#endif
