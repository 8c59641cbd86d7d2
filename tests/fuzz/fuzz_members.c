// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as a members file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/fleet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct members *members = NULL;
	char *error = NULL;
	int err = members_parse("m.json", (const char *)bytes, size, &members, &error);

	if (err && (!error || strncmp(error, "m.json:", 7)))
		abort();
	/* Sorted, none twice, each with a name. */
	for (size_t i = 0; !err && i < members->count; i++) {
		if (!members->list[i].host || !*members->list[i].host)
			abort();
		if (i && memcmp(&members->list[i - 1].address, &members->list[i].address,
				sizeof(struct esc_address)) >= 0)
			abort();
	}
	members_free(members);
	free(error);
	return 0;
}
