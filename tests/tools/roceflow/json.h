/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON on standard output, as much of it as a flat report needs. */
#ifndef ROCEFLOW_JSON_H
#define ROCEFLOW_JSON_H

#include <stdint.h>

void json_open(const char *key, char bracket); /* key NULL inside a list */
void json_close(char bracket);
void json_number(const char *key, uint64_t value);
void json_text(const char *key, const char *value);
void json_address(const char *key, const uint8_t *address, int six);

#endif
