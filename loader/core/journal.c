// SPDX-License-Identifier: BSD-2-Clause
/*
 * Structured entries of the journal, in its native protocol (systemd, JOURNAL_NATIVE_PROTOCOL).
 * Not by sd_journal_sendv(): its socket blocks, and a journald that is stopped would stop us.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "eventlog.h"

/* FNV-1a with 128 bits (Fowler, Noll, Vo), with the version and variant bits of a UUID, version 8.
 */
void event_message_id(const char *kind, char out[MESSAGE_ID_BYTES])
{
	const __uint128_t prime = (__uint128_t)1 << 88 | 0x13b;
	__uint128_t hash = (__uint128_t)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;
	uint64_t high, low;

	for (const char *at = "escapement event "; *at; at++)
		hash = (hash ^ (unsigned char)*at) * prime;
	for (; *kind; kind++)
		hash = (hash ^ (unsigned char)*kind) * prime;
	high = (uint64_t)(hash >> 64);
	low = (uint64_t)hash;
	high = (high & ~0xf000ull) | 0x8000;
	low = (low & ~(3ull << 62)) | 1ull << 63;
	snprintf(out, MESSAGE_ID_BYTES, "%016llx%016llx", (unsigned long long)high,
		 (unsigned long long)low);
}

/* A value with a newline has its length before it. */
static void put(FILE *out, const char *name, const char *value)
{
	uint64_t bytes = strlen(value);
	unsigned char length[8];

	if (!strchr(value, '\n')) {
		fprintf(out, "%s=%s\n", name, value);
		return;
	}
	for (int i = 0; i < 8; i++)
		length[i] = bytes >> 8 * i;
	fprintf(out, "%s\n", name);
	fwrite(length, 1, sizeof(length), out);
	fprintf(out, "%s\n", value);
}

/* Texts and numbers as they are, objects as JSON: {"owd_ns": 5} is ESCAPEMENT_SEEN={"owd_ns":5}. */
static void put_member(FILE *out, const char *key, const json_t *value)
{
	char name[64] = "ESCAPEMENT_", *text = NULL;
	size_t used = strlen(name);

	for (; *key && used + 1 < sizeof(name); key++)
		name[used++] = *key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key;
	name[used] = '\0';
	if (!json_is_string(value))
		text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (text || json_is_string(value))
		put(out, name, text ? text : json_string_value(value));
	free(text);
}

static char *fields_of(const json_t *event, int priority, const char *help, size_t *bytes)
{
	const char *kind = json_string_value(json_object_get(event, "kind")), *key;
	const char *subject = json_string_value(json_object_get(event, "subject"));
	char id[MESSAGE_ID_BYTES], *fields = NULL, *message = NULL;
	FILE *out = open_memstream(&fields, bytes);
	json_t *value;

	if (!out)
		return NULL;
	event_message_id(kind ? kind : "", id);
	if (asprintf(&message, "%s%s%s%s%s", kind ? kind : "", subject && *subject ? " " : "",
		     subject ? subject : "", help ? ": " : "", help ? help : "") >= 0)
		put(out, "MESSAGE", message);
	free(message);
	fprintf(out, "MESSAGE_ID=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=escapementd\n", id, priority);
	json_object_foreach ((json_t *)event, key, value)
		put_member(out, key, value);
	if (fclose(out)) {
		free(fields);
		return NULL;
	}
	return fields;
}

int journal_send(int *fd, const char *path, const json_t *event, int priority, const char *help)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t bytes = 0;
	char *fields = fields_of(event, priority, help, &bytes);
	int err = 0;

	if (!fields)
		return -ENOMEM;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (*fd < 0)
		*fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0 || sendto(*fd, fields, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&address,
			      sizeof(address)) < 0)
		err = -errno;
	free(fields);
	return err;
}
