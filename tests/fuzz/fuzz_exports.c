// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as exports of hosts: their topology, its formats, a choice of three, machines that they
 * share. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "colocation/colocation.h"
#include "place/internal.h"
#include "report/report.h"
#include "topo/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_formats(const struct topo *topo)
{
	static char *(*const formats[])(const json_t *topology, const char *rail) = {
		text_slurm, text_dot, text_hypernode, text_labels, text_ranks};
	json_t *json = topo_json(topo);

	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		free(formats[i](json, ""));
	json_decref(check_diff(json, json, NULL));
	json_decref(json);
}

/* What is chosen are candidates, each once, in order. */
static void choose(const struct topo *topo)
{
	struct place_goal goal = {.hosts = 3};
	struct place_choice choice;
	struct place_hosts hosts;

	if (hosts_of_topo(&hosts, topo, NULL))
		return;
	if (!place_solve(hosts.map, &goal, &choice)) {
		for (size_t i = 0; i < goal.hosts; i++)
			if (choice.hosts[i] >= hosts.map->count ||
			    (i && choice.hosts[i] <= choice.hosts[i - 1]))
				abort();
		if (choice.least_ns > choice.value.floor_ns)
			abort();
		ring_order(hosts.map, choice.hosts, goal.hosts);
		free(choice.hosts);
	}
	hosts_free(&hosts);
}

/* Groups are of hosts that are compared. */
static void compare(const json_t **exports, size_t count)
{
	struct colocation colocation;

	if (!colocation_read(&colocation, exports, count, NULL))
		for (size_t i = 0; i < count; i++)
			if (colocation.hosts[i].note && colocation.law.group[i] != SIZE_MAX)
				abort();
	colocation_free(&colocation);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct report *report = report_new();
	const json_t **exports = NULL;
	struct topo *topo = topo_new();
	char *error = NULL;
	size_t count;
	int err;

	err = report_add_text(report, "exports", (const char *)bytes, size, &error);
	count = report_hosts(report, &exports);
	for (size_t i = 0; !err && i < count; i++)
		err = topo_read(topo, exports[i], NULL);
	if (!err && exports)
		compare(exports, count);
	if (!err && count && !topo_solve(topo)) {
		write_formats(topo);
		choose(topo);
	}
	free(error);
	free(exports);
	report_free(report);
	topo_free(topo);
	return 0;
}
