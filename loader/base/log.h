/* SPDX-License-Identifier: BSD-2-Clause */
/* Log lines to stderr with sd-daemon priorities; every line once, by the layer that knows the noun.
 */
#ifndef ESC_LOADER_LOG_H
#define ESC_LOADER_LOG_H

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_set_debug(int on);

#endif
