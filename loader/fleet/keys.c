// SPDX-License-Identifier: BSD-2-Clause
/* The keys of the fleet and of its pairs of hosts: their files, and how one is made of the other.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/explain.h"
#include "base/readfile.h"
#include "base/siphash.h"
#include "clocksync/graph.h"
#include "fleet.h"

/* A pair file: this line, then `HOST KEY`, a line each. */
#define PAIR_HEADER "escapement-pair-keys 1 slot %u host %255s"
#define PAIR_MAGIC "escapement-pair-keys "
#define PAIR_FILE_BYTES (32 << 20)
#define PAIR_REMEDY "derive it again with `escapementd --pair-keys`"

/* --- the key of a pair --- */

static void to_words(const unsigned char bytes[FLEET_KEY_BYTES], __u64 out[2])
{
	memcpy(out, bytes, FLEET_KEY_BYTES);
	out[0] = le64toh(out[0]);
	out[1] = le64toh(out[1]);
}

/* Either half is SipHash, with the fleet's key, of both ids, the smaller first, and its number. */
static void derive(const unsigned char fleet_key[FLEET_KEY_BYTES], uint64_t one, uint64_t other,
		   __u64 out[2])
{
	__u64 key[2];
	uint64_t input[3] = {htole64(one < other ? one : other),
			     htole64(one < other ? other : one)};

	to_words(fleet_key, key);
	for (unsigned int half = 0; half < 2; half++) {
		input[2] = htole64(half);
		out[half] = siphash(key, input, 3);
	}
	explicit_bzero(key, sizeof(key));
}

static int pair_compare(const void *a, const void *b)
{
	const struct fleet_pair *one = a, *other = b;

	return (one->id > other->id) - (one->id < other->id);
}

bool fleet_pair_key(const struct fleet_keys *keys, unsigned int slot, uint64_t self, uint64_t peer,
		    __u64 out[2])
{
	const struct fleet_pair *pair = NULL;

	if (!keys->have[slot])
		return false;
	if (!keys->pairs[slot]) {
		derive(keys->key[slot], self, peer, out);
		return true;
	}
	pair = bsearch(&(struct fleet_pair){.id = peer}, keys->pairs[slot], keys->pair_count[slot],
		       sizeof(*pair), pair_compare);
	if (pair)
		memcpy(out, pair->key, sizeof(pair->key));
	return pair;
}

bool fleet_keys_shared(const struct fleet_keys *keys, unsigned int slot)
{
	return keys->have[slot] && !keys->pairs[slot];
}

void fleet_keys_clear(struct fleet_keys *keys)
{
	for (unsigned int slot = 0; slot < 2; slot++) {
		if (keys->pairs[slot])
			explicit_bzero(keys->pairs[slot],
				       keys->pair_count[slot] * sizeof(*keys->pairs[slot]));
		free(keys->pairs[slot]);
	}
	explicit_bzero(keys, sizeof(*keys));
}

/* --- files --- */

static int parse_pair(char *line, struct fleet_pair *out)
{
	char *hex = strrchr(line, ' ');
	unsigned char bytes[FLEET_KEY_BYTES];

	if (!hex || hex == line || strlen(hex + 1) != 2 * sizeof(bytes) ||
	    strspn(hex + 1, "0123456789abcdef") != 2 * sizeof(bytes))
		return -EINVAL;
	*hex++ = '\0';
	for (size_t i = 0; i < sizeof(bytes); i++)
		sscanf(hex + 2 * i, "%2hhx", &bytes[i]);
	out->id = graph_member_id(line);
	to_words(bytes, out->key);
	return 0;
}

/* Into the slot that the file names, of @keys that has none. */
static int parse_pairs(struct fleet_keys *keys, const char *path, char *text, char **error)
{
	size_t lines = 0, count = 0, number = 1;
	char *line = strsep(&text, "\n"), host[sizeof(keys->host)];
	unsigned int slot;
	struct fleet_pair *pairs;

	if (sscanf(line, PAIR_HEADER, &slot, host) != 2 || slot > 1)
		return explain(error, -EINVAL, "%s:1: the first line is damaged; " PAIR_REMEDY,
			       path);
	for (const char *at = text; at && *at; at++)
		lines += *at == '\n';
	pairs = calloc(lines + 2, sizeof(*pairs));
	if (!pairs)
		return -ENOMEM;
	while ((line = strsep(&text, "\n"))) {
		number++;
		if (!*line)
			continue;
		if (parse_pair(line, &pairs[count++])) {
			free(pairs);
			return explain(
				error, -EINVAL,
				"%s:%zu: should be a host and 32 hexadecimal digits; " PAIR_REMEDY,
				path, number);
		}
	}
	qsort(pairs, count, sizeof(*pairs), pair_compare);
	keys->have[slot] = true;
	keys->use = slot;
	keys->pairs[slot] = pairs;
	keys->pair_count[slot] = count;
	memcpy(keys->host, host, sizeof(host));
	return 0;
}

static int parse_keys(struct fleet_keys *keys, const char *path, char *bytes, size_t size,
		      char **error)
{
	if (size > FLEET_KEY_BYTES && !strncmp(bytes, PAIR_MAGIC, strlen(PAIR_MAGIC)))
		return parse_pairs(keys, path, bytes, error);
	if (size != FLEET_KEY_BYTES)
		return explain(error, -EINVAL, "%s has %zu bytes; a key has exactly %d", path, size,
			       FLEET_KEY_BYTES);
	keys->use = bytes[0] & 1;
	keys->have[keys->use] = true;
	memcpy(keys->key[keys->use], bytes, FLEET_KEY_BYTES);
	return 0;
}

/* The keys of one file. */
static int read_keys(struct fleet_keys *keys, const char *path, char **error)
{
	char *bytes = NULL, *why = NULL;
	struct stat status;
	size_t size = 0;
	int err = readfile(path, PAIR_FILE_BYTES, &bytes, &size, &status, &why);

	if (err)
		explain(error, err,
			"%s; make one with `umask 077; head -c %d /dev/urandom > FILE`, the same "
			"on every host",
			why ? why : strerror(-err), FLEET_KEY_BYTES);
	else if (status.st_uid != 0)
		err = explain(error, -EINVAL, "%s belongs to user %u; `chown root %s`", path,
			      status.st_uid, path);
	else if (status.st_mode & 077)
		err = explain(error, -EINVAL,
			      "%s can be read by others (mode %04o); `chmod 0600 %s`, and make a "
			      "new key if others may have read it",
			      path, status.st_mode & 07777, path);
	else
		err = parse_keys(keys, path, bytes, size, error);
	free(why);
	if (bytes)
		explicit_bzero(bytes, size);
	free(bytes);
	return err;
}

int fleet_keys_add(struct fleet_keys *keys, const char *path, char **error)
{
	struct fleet_keys more = {};
	unsigned int slot;
	int err = read_keys(&more, path, error);

	if (err)
		return err;
	slot = more.use;
	if (keys->have[slot] && (keys->pairs[slot] || more.pairs[slot] ||
				 memcmp(keys->key[slot], more.key[slot], FLEET_KEY_BYTES))) {
		err = explain(
			error, -EINVAL,
			"%s cannot stand beside the key of key_file, since both begin with an %s "
			"byte; make the new key again until one begins with an %s byte",
			path, slot ? "odd" : "even", slot ? "even" : "odd");
	} else {
		if (!keys->have[0] && !keys->have[1])
			keys->use = slot;
		keys->have[slot] = true;
		memcpy(keys->key[slot], more.key[slot], FLEET_KEY_BYTES);
		keys->pairs[slot] = more.pairs[slot];
		keys->pair_count[slot] = more.pair_count[slot];
		if (more.pairs[slot])
			memcpy(keys->host, more.host, sizeof(more.host));
		more.pairs[slot] = NULL;
	}
	fleet_keys_clear(&more);
	return err;
}

/* --- the file of a host, made where the fleet's key is kept --- */

static void write_pairs(const struct fleet_keys *keys, const struct roster *roster, FILE *out)
{
	const struct roster_member *self = &roster->list[roster->self];
	unsigned char bytes[FLEET_KEY_BYTES];
	__u64 key[2];

	fprintf(out, PAIR_MAGIC "1 slot %u host %s\n", keys->use, self->host);
	for (size_t i = 0; i < roster->count; i++) {
		if (i == roster->self)
			continue;
		derive(keys->key[keys->use], self->id, roster->ids[i], key);
		key[0] = htole64(key[0]);
		key[1] = htole64(key[1]);
		memcpy(bytes, key, sizeof(bytes));
		fprintf(out, "%s ", roster->list[i].host);
		for (size_t k = 0; k < sizeof(bytes); k++)
			fprintf(out, "%02x", bytes[k]);
		fputc('\n', out);
	}
}

int fleet_pairs_write(const char *host, const char *key_path, const char *members_path, FILE *out,
		      char **error)
{
	struct fleet_keys keys = {};
	struct members *members = NULL;
	struct roster roster = {};
	int err = fleet_keys_add(&keys, key_path, error);

	if (!err && keys.pairs[keys.use])
		err = explain(error, -EINVAL, "%s has keys of pairs; give the fleet's own key",
			      key_path);
	if (!err)
		err = members_load(members_path, &members, error);
	if (!err)
		err = roster_build(&roster, members, ROSTER_ALL_PLANES, host);
	if (!err && roster.self == ROSTER_NONE)
		err = explain(error, -ENOENT, "%s has no host %s", members_path, host);
	if (!err)
		write_pairs(&keys, &roster, out);
	if (!err && (fflush(out) || ferror(out)))
		err = explain(error, -EIO, "the keys cannot be written");
	roster_free(&roster);
	members_free(members);
	fleet_keys_clear(&keys);
	return err;
}
