/* SPDX-License-Identifier: BSD-2-Clause */
/* Log lines to stderr with sd-daemon priorities; every line once, by the layer that knows the
 * subject.
 */
#ifndef ESC_LOADER_LOG_H
#define ESC_LOADER_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
void log_set_debug(bool on);

#endif
