/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "json.h"

static int first = 1;

static void json_key(const char *key)
{
	if (!first)
		putchar(',');
	first = 0;
	if (key)
		printf("\"%s\":", key);
}

void json_open(const char *key, char bracket)
{
	json_key(key);
	putchar(bracket);
	first = 1;
}

void json_close(char bracket)
{
	putchar(bracket);
	first = 0;
}

void json_number(const char *key, uint64_t value)
{
	json_key(key);
	printf("%" PRIu64, value);
}

void json_text(const char *key, const char *value)
{
	json_key(key);
	printf("\"%s\"", value);
}

void json_address(const char *key, const uint8_t *address, int six)
{
	char text[INET6_ADDRSTRLEN];

	json_text(key, inet_ntop(six ? AF_INET6 : AF_INET, address, text, sizeof(text)));
}
