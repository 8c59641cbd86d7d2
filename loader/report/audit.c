// SPDX-License-Identifier: BSD-2-Clause
/* The page of an audit: groups, NICs, and what failed or is not known. */
#include <string.h>

#include "base/json.h"
#include "internal.h"

struct cell {
	const char *header, *key;
};

static void write_table(FILE *out, const json_t *list, const char *result, const struct cell *cells)
{
	const json_t *row;
	size_t i;

	fputs("<div class=wide><table><tr>", out);
	for (const struct cell *cell = cells; cell->header; cell++)
		html_cell(out, "th class=l", cell->header);
	fputs("</tr>\n", out);
	json_array_foreach (list, i, row) {
		if (result && strcmp(json_text(row, "result"), result) != 0)
			continue;
		fputs("<tr>", out);
		for (const struct cell *cell = cells; cell->header; cell++) {
			bool bad = !strcmp(json_text(row, cell->key), "fail");

			html_cell(out, bad ? "td class=\"l bad\"" : "td class=l",
				  json_text(row, cell->key));
		}
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void write_groups(FILE *out, const json_t *groups)
{
	const json_t *row;
	size_t i;

	fputs("<h2>Groups</h2>\n<div class=wide><table><tr><th class=l>group<th>errors<th>unknown"
	      "<th>passed</tr>\n",
	      out);
	json_array_foreach (groups, i, row) {
		uint64_t errors = json_count(row, "errors");

		fputs("<tr><td class=l>", out);
		html_text(out, json_text(row, "number"));
		fputc(' ', out);
		html_text(out, json_text(row, "group"));
		fprintf(out, "</td><td%s>%llu</td><td>%llu</td><td>%llu</td></tr>\n",
			errors ? " class=bad" : "", (unsigned long long)errors,
			(unsigned long long)json_count(row, "unknown"),
			(unsigned long long)json_count(row, "passed"));
	}
	fputs("</table></div>\n", out);
}

void report_write_audit(const json_t *audit, FILE *out)
{
	static const struct cell nics[] = {{"status", "status"},
					   {"host", "host"},
					   {"NIC", "nic"},
					   {"initialized", "initialized"},
					   {"active", "active"},
					   {"GID index", "gid_index"},
					   {"connectivity", "connectivity"},
					   {"network device", "netdev"},
					   {}};
	static const struct cell errors[] = {{"host", "host"},	     {"check", "check"},
					     {"subject", "subject"}, {"severity", "severity"},
					     {"value", "value"},     {"expected", "expected"},
					     {"remedy", "remedy"},   {}};
	static const struct cell waived[] = {{"host", "host"},	     {"check", "check"},
					     {"subject", "subject"}, {"value", "value"},
					     {"reason", "reason"},   {}};
	static const struct cell unknown[] = {{"host", "host"},
					      {"check", "check"},
					      {"subject", "subject"},
					      {"reason", "reason"},
					      {}};
	const json_t *results = json_object_get(audit, "results");

	html_begin(out, "Escapement audit");
	fputs("<h1>Escapement audit</h1>\n<p>", out);
	html_text(out, json_text(audit, "host"));
	fprintf(out, " %llu, ", (unsigned long long)json_count(audit, "run_ns"));
	html_time(out, json_count(audit, "run_ns"));
	fprintf(out,
		": %llu passed, %llu errors, %llu unknown, %llu waived, %llu skipped; %llu values "
		"that "
		"one host cannot judge.</p>\n",
		(unsigned long long)json_count(audit, "passed"),
		(unsigned long long)json_count(audit, "errors"),
		(unsigned long long)json_count(audit, "unknown"),
		(unsigned long long)json_count(audit, "waived"),
		(unsigned long long)json_count(audit, "skipped"),
		(unsigned long long)json_count(audit, "not_compared"));
	write_groups(out, json_object_get(audit, "groups"));
	fputs("<h2>NICs</h2>\n", out);
	write_table(out, json_object_get(audit, "nics"), NULL, nics);
	fputs("<h2>Errors</h2>\n", out);
	write_table(out, results, "fail", errors);
	fputs("<h2>Waived</h2>\n", out);
	write_table(out, results, "waived", waived);
	fputs("<h2>Unknown</h2>\n", out);
	write_table(out, results, "unknown", unknown);
	fputs("</body></html>\n", out);
}
