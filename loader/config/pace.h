/* SPDX-License-Identifier: BSD-2-Clause */
/* The section `pace` of the configuration: thresholds, and classes of flows. */
#ifndef ESC_LOADER_CONFIG_PACE_H
#define ESC_LOADER_CONFIG_PACE_H

#include <stdbool.h>
#include <stddef.h>

#include "schema.h"

/* What is wrong, where: a malloc'd half sentence, and the key that it is about. */
struct config_pace_fault {
	bool in_class;
	size_t index; /* with in_class: of the class */
	const char *key;
	char *what;
};

/* Fills in config->pace. -EINVAL with *@fault, or -ENOMEM. */
int config_pace_take(const struct config_raw_pace *raw, struct config *config,
		     struct config_pace_fault *fault);
/* The line of the key that is wrong, or of its class or section. */
unsigned int config_pace_line(const struct yamltree_node *root,
			      const struct config_pace_fault *fault);
void config_pace_free(struct config *config);

#endif
