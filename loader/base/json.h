/* SPDX-License-Identifier: BSD-2-Clause */
/* Members of JSON objects. A member without a value is left out, never null or zero. */
#ifndef ESC_BASE_JSON_H
#define ESC_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* object[key] = value. */
void json_put_count(json_t *object, const char *key, uint64_t value);
void json_put_integer(json_t *object, const char *key, int64_t value);
/* Left out when @value is no finite number. */
void json_put_real(json_t *object, const char *key, double value);
void json_put_bool(json_t *object, const char *key, bool value);
/* Left out when @value is NULL, empty or no UTF-8. */
void json_put_text(json_t *object, const char *key, const char *value);
/* Takes @value over; left out when NULL. */
void json_put(json_t *object, const char *key, json_t *value);

/* Members as given; 0 and "" when absent. */
uint64_t json_count(const json_t *object, const char *key);
const char *json_text(const json_t *object, const char *key);

#endif
