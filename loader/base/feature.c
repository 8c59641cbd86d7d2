// SPDX-License-Identifier: BSD-2-Clause
#include "feature.h"

#include <string.h>

#include "json.h"

void feature_add(json_t *list, const char *name, bool here, const char *detail, const char *cost)
{
	json_t *feature = json_object();

	json_put_text(feature, "name", name);
	json_put_bool(feature, "supported", here);
	json_put_text(feature, "detail", detail);
	json_put_text(feature, "cost", cost);
	json_array_append_new(list, feature);
}

void feature_add_trial(json_t *list, const char *name, int err, const char *cost)
{
	feature_add(list, name, !err, err ? strerror(-err) : NULL, cost);
}
