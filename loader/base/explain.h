/* SPDX-License-Identifier: BSD-2-Clause */
/* Error sentences: made where the subject is known, passed up, reported once. */
#ifndef ESC_LOADER_EXPLAIN_H
#define ESC_LOADER_EXPLAIN_H

/* An errno after a failed call is never 0, which static analysis does not know. */
#ifdef __clang_analyzer__
#define EXPLAIN_IS_ERROR(code) ((code) < 0 ? (void)0 : __builtin_unreachable())
#else
#define EXPLAIN_IS_ERROR(code) ((void)0)
#endif

/*
 * Sets *@error (malloc'd; NULL: not wanted; an earlier sentence is replaced) and is @code,
 * evaluated once. A macro, so that compilers and analyzers see that the result is @code.
 */
#define explain(error, code, ...)                                                                  \
	({                                                                                         \
		int explain_code = (code);                                                         \
		explain_text((error), __VA_ARGS__);                                                \
		EXPLAIN_IS_ERROR(explain_code);                                                    \
		explain_code;                                                                      \
	})
void explain_text(char **error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
