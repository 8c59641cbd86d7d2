/* SPDX-License-Identifier: BSD-2-Clause */
/* Error sentences: made where the object is known, returned to the caller, logged once. */
#ifndef ESC_LOADER_EXPLAIN_H
#define ESC_LOADER_EXPLAIN_H

/*
 * Sets *@error (malloc'd; NULL: not wanted) and returns @code, so that a
 * failure is one statement. An earlier sentence in *@error is replaced.
 */
int explain(char **error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
