// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as escapement.yaml: refused with a sentence, or taken whole. */
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "config/config.h"
#include "link/link.h"
#include "nic/nic.h"
#include "pace/pace.h"
#include "steer/steer.h"
#include "tcp/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct config_section *const sections[] = {
	&pace_section, &tcp_section, &steer_section, &nic_section, &link_section, NULL};

/* What is in force can be shown. */
static void show(const struct config *config)
{
	json_t *object = config_to_json(config);
	char *text = json_dumps(object, 0);

	if (!object || !text || !config->interface_count || !config->pin_root || !config->socket)
		abort();
	free(text);
	json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct config *config = NULL;
	char *error = NULL;
	int err = config_parse(&(struct config_input){.path = "fuzz.yaml", .sections = sections},
			       (const char *)bytes, size, &config, &error);

	if (err && !error)
		abort();
	/* Every error begins with its place. */
	for (const char *line = error; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "fuzz.yaml:", 10))
			abort();
	}
	if (!err)
		show(config);
	config_free(config);
	free(error);
	return 0;
}
