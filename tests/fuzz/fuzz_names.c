// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as /proc/PID/cgroup and as the name of a process: always JSON and a line of a terminal.
 */
#include "base/json.h"
#include "cli/cli.h"
#include "input.h"
#include "qp/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool is_control(const char *at)
{
	const unsigned char *c = (const unsigned char *)at;

	return *c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
}

static void check_shown(const char *text)
{
	for (; *text; text++)
		if (is_control(text))
			abort();
}

static void check_object(json_t *object)
{
	char *line = json_line(object, JSON_COMPACT);
	json_t *again = line ? json_loads(line, 0, NULL) : NULL, *value;
	const char *key;

	if (!json_equal(object, again))
		abort();
	check_shown(line);
	render_escape(object, false);
	json_object_foreach (object, key, value)
		check_shown(json_string_value(value));
	json_decref(again);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text = malloc(size + 1), comm[16] = "";
	json_t *object = json_object();
	struct job job;

	memcpy(text, bytes, size);
	text[size] = '\0';
	job_of_text(text, &job);
	memcpy(comm, bytes, size < 15 ? size : 15);
	json_put_name(object, "comm", comm);
	json_put_name(object, "job", job.name);
	json_put_name(object, "cgroup", job.cgroup);
	if (*comm && !json_object_get(object, "comm"))
		abort();
	check_object(object);
	json_decref(object);
	free(text);
	return 0;
}
