/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of JSON objects. A member without a value is left out, never null or zero. */
#ifndef ESC_BASE_JSON_H
#define ESC_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* object[key] = value. */
void json_put_integer(json_t *object, const char *key, int64_t value);
#define json_put_count(object, key, value) json_put_integer((object), (key), (int64_t)(value))
/* Left out when @value is no finite number. */
void json_put_real(json_t *object, const char *key, double value);
void json_put_bool(json_t *object, const char *key, bool value);
/* Left out when @value is NULL, empty or no UTF-8. */
void json_put_text(json_t *object, const char *key, const char *value);
/* A name that may have any bytes: those that are no UTF-8 become "\xff". */
void json_put_name(json_t *object, const char *key, const char *value);
/* Takes @value over; left out when NULL. */
void json_put(json_t *object, const char *key, json_t *value);

/*
 * As json_dumps(), malloc'd, for a terminal too: it obeys DEL and C1 (U+0080 to U+009f), which JSON
 * allows in a string, so they become \u007F, \u0080 and so on.
 */
char *json_line(const json_t *value, size_t flags);

/* Members as given; 0 and "" when absent. */
uint64_t json_count(const json_t *object, const char *key);
const char *json_text(const json_t *object, const char *key);

/*
 * Appends a kernel feature, as `features` shows it, to @list: @name is available or not, @detail is
 * what the kernel returned (NULL or "": nothing), @cost one sentence on what is missing without it.
 */
void feature_add(json_t *list, const char *name, bool here, const char *detail, const char *cost);
/* The same for a trial that returned 0 or -errno. */
void feature_add_trial(json_t *list, const char *name, int err, const char *cost);

#endif
