/* SPDX-License-Identifier: BSD-2-Clause */
/* Error sentences: made where the noun is known, handed up, said once. */
#ifndef ESC_LOADER_EXPLAIN_H
#define ESC_LOADER_EXPLAIN_H

/*
 * Sets *@error (malloc'd; NULL: nobody asks) and returns @code, so that a
 * failure is one statement. An earlier sentence in *@error is replaced.
 */
int explain(char **error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
