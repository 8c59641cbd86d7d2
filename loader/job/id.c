// SPDX-License-Identifier: BSD-2-Clause
/* What a user may type for a job; pure. */
#include <string.h>

#include "internal.h"

bool job_id_matches(const char *id, const char *typed)
{
	size_t bytes = strcspn(typed, "/");

	if (!strcmp(id, typed))
		return true;
	if (!strncmp(id, "job_", 4) && !strcmp(id + 4, typed))
		return true;
	/* "job_1234/step_0", as `qp` shows it. */
	return bytes && typed[bytes] && strlen(id) == bytes && !strncmp(id, typed, bytes);
}
