// SPDX-License-Identifier: BSD-2-Clause
#include "fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/explain.h"
#include "base/readfile.h"

static int add_key(struct fleet_keys *keys, const char *path, const char *bytes, size_t size,
		   const struct stat *status, char **error)
{
	unsigned int slot = bytes[0] & 1;

	if (size != FLEET_KEY_BYTES)
		return explain(error, -EINVAL, "%s has %zu bytes; a key has exactly %d", path, size,
			       FLEET_KEY_BYTES);
	if (status->st_uid != 0)
		return explain(error, -EINVAL, "%s belongs to user %u; `chown root %s`", path,
			       status->st_uid, path);
	if (status->st_mode & 077)
		return explain(error, -EINVAL,
			       "%s can be read by others (mode %04o); `chmod 0600 %s`, and make a "
			       "new key if others may have read it",
			       path, status->st_mode & 07777, path);
	if (keys->have[slot] && memcmp(keys->key[slot], bytes, FLEET_KEY_BYTES))
		return explain(
			error, -EINVAL,
			"%s cannot stand beside the key of key_file, since both begin with an %s "
			"byte; make the new key again until one begins with an %s byte",
			path, slot ? "odd" : "even", slot ? "even" : "odd");
	if (!keys->have[0] && !keys->have[1])
		keys->use = slot;
	keys->have[slot] = true;
	memcpy(keys->key[slot], bytes, FLEET_KEY_BYTES);
	return 0;
}

int fleet_keys_add(struct fleet_keys *keys, const char *path, char **error)
{
	char *bytes = NULL, *why = NULL;
	struct stat status;
	size_t size;
	int err = readfile(path, 4096, &bytes, &size, &status, &why);

	if (err) {
		explain(error, err,
			"%s; make one with `umask 077; head -c %d /dev/urandom > FILE`, the same "
			"on every host",
			why ? why : strerror(-err), FLEET_KEY_BYTES);
		free(why);
		return err;
	}
	err = add_key(keys, path, bytes, size, &status, error);
	explicit_bzero(bytes, size);
	free(bytes);
	return err;
}
