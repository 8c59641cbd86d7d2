// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as lines of an event log, merged, as what escapement-alert follows, and as its state.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alert/alert.h"
#include "base/json.h"
#include "cli/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define NOW_NS (1769860800ull * ALERT_S)

static struct alerts alerts;

static void take(const char *line, size_t bytes)
{
	json_t *event = json_loadb(line, bytes, 0, NULL);

	if (event)
		alerts_take(&alerts, event, false, NOW_NS);
	json_decref(event);
}

/* What is saved can be loaded, and is the same. */
static void check_state(void)
{
	static struct alerts again;
	json_t *saved = alerts_save(&alerts), *list = alerts_json(&alerts, NOW_NS), *other;

	again = (struct alerts){};
	if (!saved || !alerts_load(&again, saved))
		abort();
	other = alerts_json(&again, NOW_NS);
	if (!json_equal(list, other))
		abort();
	json_decref(saved);
	json_decref(list);
	json_decref(other);
	alerts_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *text = (const char *)bytes;
	struct merge merge = {};
	json_t *state = json_loadb(text, size, 0, NULL);

	alerts = (struct alerts){};
	if (alerts_load(&alerts, state))
		check_state();
	json_decref(state);
	alerts_free(&alerts);
	alerts = (struct alerts){};
	for (size_t at = 0; at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t part = end ? (size_t)(end - text) - at : size - at;

		merge_line(&merge, text + at, part);
		take(text + at, part);
		at += part + 1;
	}
	alerts_tick(&alerts, NOW_NS + 60 * ALERT_S);
	check_state();
	alerts_free(&alerts);
	merge_sort(&merge);
	merge_count_not_ordered(&merge, NULL);
	for (size_t i = 1; i < merge.count; i++)
		if (merge.list[i].low_ns > merge.list[i].high_ns ||
		    merge.list[i].key_ns < merge.list[i - 1].key_ns)
			abort();
	merge_free(&merge);
	return 0;
}
