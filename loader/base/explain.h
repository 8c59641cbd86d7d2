/* SPDX-License-Identifier: BSD-2-Clause */
/* Error sentences: made where the noun is known, handed up, said once. */
#ifndef ESC_LOADER_EXPLAIN_H
#define ESC_LOADER_EXPLAIN_H

/*
 * Sets *@error (malloc'd; NULL: not wanted) and is @code, evaluated once, so that a failure is one
 * statement. An earlier sentence in *@error is replaced. A macro, so that compilers and analyzers
 * see that the result is @code.
 */
#define explain(error, code, ...)                                                                  \
	({                                                                                         \
		int explain_code = (code);                                                         \
		explain_text((error), __VA_ARGS__);                                                \
		explain_code;                                                                      \
	})
void explain_text(char **error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
