// SPDX-License-Identifier: BSD-2-Clause
/*
 * No part is made from a file with keys. This is the check of it: a part that has the bytes of a
 * key, however they came there, is left out.
 */
#include "sysdump.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/readfile.h"

#define FILE_BYTES (1u << 20)
#define KEY_BYTES 16  /* of a fleet's key, and of a pair's */
#define LEAST_BYTES 6 /* a shorter password is found in innocent text */

static void add(struct secrets *secrets, const void *bytes, size_t size)
{
	struct secret *secret = &secrets->list[secrets->count];

	if (secrets->count == SECRETS_MAX || size < LEAST_BYTES)
		return;
	secret->size = size < sizeof(secret->bytes) ? size : sizeof(secret->bytes);
	memcpy(secret->bytes, bytes, secret->size);
	secrets->count++;
}

/* A word of 32 hexadecimal digits: a key of a pair. */
static void add_word(struct secrets *secrets, const char *word)
{
	unsigned char key[KEY_BYTES];

	if (strlen(word) != 2 * KEY_BYTES ||
	    strspn(word, "0123456789abcdefABCDEF") != 2 * KEY_BYTES)
		return;
	for (size_t i = 0; i < KEY_BYTES; i++)
		sscanf(word + 2 * i, "%2hhx", &key[i]);
	add(secrets, key, sizeof(key));
}

void secrets_add_file(struct secrets *secrets, const char *path)
{
	char *bytes = NULL, *save = NULL, *word, *error = NULL;
	size_t size = 0;

	if (readfile(path, FILE_BYTES, &bytes, &size, NULL, &error)) {
		free(error);
		return;
	}
	if (size == KEY_BYTES)
		add(secrets, bytes, size);
	else
		add(secrets, bytes, strcspn(bytes, "\r\n"));
	for (word = strtok_r(bytes, " \t\r\n", &save); word;
	     word = strtok_r(NULL, " \t\r\n", &save))
		add_word(secrets, word);
	explicit_bzero(bytes, size);
	free(bytes);
}

void secrets_add_config(struct secrets *secrets, const json_t *config)
{
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach (config, i, value)
		secrets_add_config(secrets, value);
	json_object_foreach ((json_t *)config, key, value) {
		if (!strcmp(key, "key_file") || !strcmp(key, "key_file_next") ||
		    !strcmp(key, "password_file"))
			secrets_add_file(secrets, json_string_value(value));
		else
			secrets_add_config(secrets, value);
	}
}

/* --- the search --- */

static bool has_hex(const struct secret *secret, const char *text, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char hex[2 * sizeof(secret->bytes)];
	size_t bytes = 2 * secret->size;

	for (size_t i = 0; i < secret->size; i++) {
		hex[2 * i] = digits[secret->bytes[i] >> 4];
		hex[2 * i + 1] = digits[secret->bytes[i] & 15];
	}
	for (size_t at = 0; at + bytes <= size; at++) {
		size_t i = 0;

		while (i < bytes && tolower((unsigned char)text[at + i]) == hex[i])
			i++;
		if (i == bytes)
			return true;
	}
	return false;
}

/* Its base64 without the last character, which depends on what follows, and the padding. */
static bool has_base64(const struct secret *secret, const void *bytes, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[2 * sizeof(secret->bytes)];
	size_t count = secret->size * 8 / 6;

	for (size_t i = 0; i < count; i++) {
		size_t bit = 6 * i;
		unsigned int two = (unsigned int)secret->bytes[bit / 8] << 8;

		if (bit / 8 + 1 < secret->size)
			two |= secret->bytes[bit / 8 + 1];
		text[i] = digits[two >> (10 - bit % 8) & 63];
	}
	return memmem(bytes, size, text, count);
}

bool secrets_are_in(const struct secrets *secrets, const void *bytes, size_t size)
{
	for (size_t i = 0; i < secrets->count; i++) {
		const struct secret *secret = &secrets->list[i];

		if (memmem(bytes, size, secret->bytes, secret->size) ||
		    has_hex(secret, bytes, size) || has_base64(secret, bytes, size))
			return true;
	}
	return false;
}

void secrets_clear(struct secrets *secrets)
{
	explicit_bzero(secrets, sizeof(*secrets));
}
