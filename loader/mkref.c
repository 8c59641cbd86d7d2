// SPDX-License-Identifier: BSD-2-Clause
/* Writes what is generated from the tables: parts of manual pages, the example configuration, the
 * completion of shells. */
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/mdoc.h"
#include "base/fields.h"
#include "cli/cli.h"
#include "config/config.h"
#include "core/eventlog.h"
#include "daemon/daemon.h"

static void write_condition(const struct event_kind *kind)
{
	const char *ends = kind->ends;

	if (kind->begins && strcmp(kind->begins, kind->name))
		printf("Condition:\n.Cm %s .\n", kind->begins);
	if (ends && !strcmp(ends, EVENT_ENDS_ALL))
		printf("Ends every condition of it.\n");
	else if (ends)
		printf("Ends\n.Cm %s .\n", ends);
	if (kind->remedy)
		mdoc_write(stdout, kind->remedy);
}

static void write_events(bool man)
{
	fputs(man ? ".Bl -tag -width Ds\n" : "", stdout);
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++) {
			printf(man ? ".It Cm %s Pq %s\n" : "%s\t%s\n", kind->name,
			       event_severity_name(kind->severity));
			if (!man)
				continue;
			mdoc_write(stdout, kind->help);
			write_condition(kind);
		}
	fputs(man ? ".El\n" : "", stdout);
}

/* A kind of several modules is in the first one's list. */
static bool is_first(const struct event_kind *kind)
{
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *other = *list; other->name; other++)
			if (!strcmp(other->name, kind->name))
				return other == kind;
	return false;
}

/* The names that the members `kind`, or `begins` and `ends`, of an event may have, for its schema.
 */
static void write_schema_names(bool conditions)
{
	const char *between = "";

	if (conditions) {
		fputs("\"" EVENT_ENDS_ALL "\"", stdout);
		between = ", ";
	}
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++) {
			bool own = kind->begins && !strcmp(kind->begins, kind->name);

			if (!is_first(kind) || (conditions && !own))
				continue;
			printf("%s\"%s\"", between, kind->name);
			between = ", ";
		}
	putchar('\n');
}

/* The catalogue of the journal: `journalctl -x` shows an entry's text by its MESSAGE_ID. */
static void write_catalog(void)
{
	puts("# SPDX-License-Identifier: BSD-2-Clause");
	for (const struct event_kind *const *list = daemon_event_kinds(); *list; list++)
		for (const struct event_kind *kind = *list; kind->name; kind++) {
			char id[MESSAGE_ID_BYTES];

			if (!is_first(kind))
				continue;
			event_message_id(kind->name, id);
			printf("\n-- %s\nSubject: %s @ESCAPEMENT_SUBJECT@\n"
			       "Defined-By: escapementd\n"
			       "Documentation: man:escapement-events(7)\n\n"
			       "%s\n%s%s%s\n`escapement events` and the fields ESCAPEMENT_SEEN, "
			       "_DONE, "
			       "_EXPECTED and _RESULT\nof this entry (journalctl -o json) have the "
			       "figures.\n",
			       id, kind->name, kind->help, kind->remedy ? "\n" : "",
			       kind->remedy ? kind->remedy : "", kind->remedy ? "\n" : "");
		}
}

static void write_list(const struct metric *metric, bool man)
{
	for (; metric->name; metric++) {
		printf(man ? ".It Va %s Pq %s\n" : "escapement_%s\t%s\n", metric->name,
		       prom_type_name(metric->type));
		if (man)
			mdoc_write(stdout, metric->help);
	}
}

static void write_metrics(bool man)
{
	fputs(man ? ".Bl -tag -width Ds\n" : "", stdout);
	for (const struct metric *const *list = daemon_metrics(); *list; list++)
		write_list(*list, man);
	write_list(audit_metrics, man);
	fputs(man ? ".El\n" : "", stdout);
}

/* False: there is no such part. */
static bool write_part(const char *part)
{
	if (!strcmp(part, "keys-man"))
		config_write_man(stdout, daemon_config_sections());
	else if (!strcmp(part, "keys-example"))
		config_write_example(stdout, daemon_config_sections());
	else if (!strcmp(part, "verbs-man"))
		cli_write_manual();
	else if (!strcmp(part, "events-man") || !strcmp(part, "events"))
		write_events(strlen(part) > strlen("events"));
	else if (!strcmp(part, "schema-kinds") || !strcmp(part, "schema-conditions"))
		write_schema_names(strcmp(part, "schema-kinds"));
	else if (!strcmp(part, "api-schema"))
		cli_write_schema(stdout);
	else if (!strcmp(part, "catalog"))
		write_catalog();
	else if (!strcmp(part, "metrics-man") || !strcmp(part, "metrics"))
		write_metrics(strlen(part) > strlen("metrics"));
	else if (!strcmp(part, "completion-bash") || !strcmp(part, "completion-zsh"))
		cli_write_script(strchr(part, '-') + 1);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc == 2 && write_part(argv[1]))
		return fflush(stdout) || ferror(stdout) ? 1 : 0;
	fputs("usage: mkref "
	      "keys-man|keys-example|verbs-man|events-man|events|schema-kinds|schema-conditions|"
	      "api-schema|catalog|metrics-man|metrics|"
	      "completion-bash|completion-zsh\n",
	      stderr);
	return 2;
}
