// SPDX-License-Identifier: BSD-2-Clause
/* Writes what is generated from the tables: parts of manual pages, the example configuration,
 * the completion of shells. */
#include <stdio.h>
#include <string.h>

#include "base/mdoc.h"
#include "base/prom.h"
#include "cli/reference.h"
#include "config/config.h"
#include "daemon/daemon.h"

static int keys_man(FILE *out)
{
	return config_write_man(out, daemon_config_sections());
}

static int keys_example(FILE *out)
{
	return config_write_example(out, daemon_config_sections());
}

static int verbs_man(FILE *out)
{
	reference_man(out);
	return 0;
}

static int completion_bash(FILE *out)
{
	reference_script(out, "bash");
	return 0;
}

static int completion_zsh(FILE *out)
{
	reference_script(out, "zsh");
	return 0;
}

static void each_event(FILE *out, void (*write)(FILE *out, const struct event_kind *kind))
{
	const struct event_kind *const *lists = daemon_event_kinds();

	for (size_t i = 0; lists[i]; i++)
		for (const struct event_kind *kind = lists[i]; kind->name; kind++)
			write(out, kind);
}

static void event_man(FILE *out, const struct event_kind *kind)
{
	fprintf(out, ".It Cm %s Pq %s\n", kind->name, event_severity_name(kind->severity));
	mdoc_write(out, kind->help);
}

static int events_man(FILE *out)
{
	fputs(".Bl -tag -width Ds\n", out);
	each_event(out, event_man);
	fputs(".El\n", out);
	return 0;
}

static void event_line(FILE *out, const struct event_kind *kind)
{
	fprintf(out, "%s\t%s\n", kind->name, event_severity_name(kind->severity));
}

static int events(FILE *out)
{
	each_event(out, event_line);
	return 0;
}

static const char *type_name(enum prom_type type)
{
	static const char *const names[] = {
		[PROM_GAUGE] = "gauge", [PROM_COUNTER] = "counter", [PROM_HISTOGRAM] = "histogram"};

	return names[type];
}

static int metrics_man(FILE *out)
{
	const struct metric *const *lists = daemon_metrics();

	fputs(".Bl -tag -width Ds\n", out);
	for (size_t i = 0; lists[i]; i++)
		for (const struct metric *metric = lists[i]; metric->name; metric++) {
			fprintf(out, ".It Va %s Pq %s\n", metric->name, type_name(metric->type));
			mdoc_write(out, metric->help);
		}
	fputs(".El\n", out);
	return 0;
}

static int metrics(FILE *out)
{
	const struct metric *const *lists = daemon_metrics();

	for (size_t i = 0; lists[i]; i++)
		for (const struct metric *metric = lists[i]; metric->name; metric++)
			fprintf(out, "escapement_%s\t%s\n", metric->name, type_name(metric->type));
	return 0;
}

static const struct {
	const char *name;
	int (*write)(FILE *out); /* 0 or -errno */
} parts[] = {
	{"keys-man", keys_man},
	{"keys-example", keys_example},
	{"verbs-man", verbs_man},
	{"events-man", events_man},
	{"events", events},
	{"metrics-man", metrics_man},
	{"metrics", metrics},
	{"completion-bash", completion_bash},
	{"completion-zsh", completion_zsh},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strcmp(argv[1], parts[i].name))
			return parts[i].write(stdout) || fflush(stdout) ? 1 : 0;
	fputs("usage: mkref PART; a PART is one of\n", stderr);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fprintf(stderr, "  %s\n", parts[i].name);
	return 2;
}
