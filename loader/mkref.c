// SPDX-License-Identifier: BSD-2-Clause
/* Writes what is generated from the tables: parts of manual pages, the example configuration, the
 * completion of shells. */
#include <stdio.h>
#include <string.h>

#include "base/mdoc.h"
#include "base/prom.h"
#include "cli/reference.h"
#include "config/config.h"
#include "daemon/daemon.h"

static void write_events(bool man)
{
	fputs(man ? ".Bl -tag -width Ds\n" : "", stdout);
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++) {
			printf(man ? ".It Cm %s Pq %s\n" : "%s\t%s\n", kind->name,
			       event_severity_name(kind->severity));
			if (man)
				mdoc_write(stdout, kind->help);
		}
	fputs(man ? ".El\n" : "", stdout);
}

static void write_metrics(bool man)
{
	fputs(man ? ".Bl -tag -width Ds\n" : "", stdout);
	for (const struct metric *const *list = daemon_metrics(); *list; list++)
		for (const struct metric *metric = *list; metric->name; metric++) {
			printf(man ? ".It Va %s Pq %s\n" : "escapement_%s\t%s\n", metric->name,
			       prom_type_name(metric->type));
			if (man)
				mdoc_write(stdout, metric->help);
		}
	fputs(man ? ".El\n" : "", stdout);
}

/* False: there is no such part. */
static bool write_part(const char *part)
{
	if (!strcmp(part, "keys-man"))
		return !config_write_man(stdout, daemon_config_sections());
	if (!strcmp(part, "keys-example"))
		return !config_write_example(stdout, daemon_config_sections());
	if (!strcmp(part, "verbs-man"))
		reference_man(stdout);
	else if (!strcmp(part, "events-man") || !strcmp(part, "events"))
		write_events(strlen(part) > strlen("events"));
	else if (!strcmp(part, "metrics-man") || !strcmp(part, "metrics"))
		write_metrics(strlen(part) > strlen("metrics"));
	else if (!strcmp(part, "completion-bash") || !strcmp(part, "completion-zsh"))
		reference_script(stdout, strchr(part, '-') + 1);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc == 2 && write_part(argv[1]))
		return fflush(stdout) || ferror(stdout) ? 1 : 0;
	fputs("usage: mkref keys-man|keys-example|verbs-man|events-man|events|metrics-man|metrics|"
	      "completion-bash|completion-zsh\n",
	      stderr);
	return 2;
}
