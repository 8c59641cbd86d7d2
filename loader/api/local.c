// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/explain.h"
#include "base/places.h"
#include "base/readfile.h"
#include "dataplane/dataplane.h"
#include "maps/maps.h"
#include "verbs.h"

static const char *place(const json_t *args, const char *key, const char *fallback)
{
	const char *given = json_string_value(json_object_get(args, key));

	return given ? given : fallback;
}

json_t *local_off(const json_t *args, int *exit, char **error)
{
	const char *kill_file = place(args, "kill_file", PLACES_KILL_FILE);
	const char *pin_root = place(args, "pin_root", ESC_PIN_ROOT);
	const char *socket = place(args, "socket", PLACES_SOCKET);
	bool found = !access(pin_root, F_OK);
	char *why = NULL;
	int err_file, err;

	/*
	 * Another socket is of another daemon, whose places are not known here: the default ones
	 * would be those of a daemon that was not meant.
	 */
	if (strcmp(socket, PLACES_SOCKET) &&
	    !(json_object_get(args, "pin_root") && json_object_get(args, "kill_file"))) {
		*exit = 3;
		explain(error, 0,
			"no daemon replies at %s, and where it has its maps is not known: give the "
			"--pin-root and the --kill-file of its configuration",
			socket);
		return NULL;
	}
	/* A daemon that starts meanwhile has to find the file, so it comes first. */
	err_file = createfile(kill_file);
	err = dataplane_remove(pin_root, &why);
	*exit = 1;
	if (err)
		explain(error, 0, "%s", why ? why : strerror(-err));
	else if (err_file)
		explain(error, 0,
			"everything is detached, but %s: %s: a daemon that starts later attaches "
			"again",
			kill_file, strerror(-err_file));
	free(why);
	if (err || err_file)
		return NULL;
	return json_pack("{s:b, s:s, s:s, s:b}", "kill_switch", 1, "kill_file", kill_file,
			 found ? "removed" : "not_found", pin_root, "daemon", 0);
}

json_t *local_features(const json_t *args, int *exit, char **error)
{
	(void)args;
	(void)exit;
	(void)error;
	return verbs_features();
}

json_t *local_version(const json_t *args, int *exit, char **error)
{
	(void)args;
	(void)exit;
	(void)error;
	return json_pack("{s:s, s:i}", "version", ESC_VERSION, "abi", ESC_ABI);
}
