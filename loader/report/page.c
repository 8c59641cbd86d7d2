// SPDX-License-Identifier: BSD-2-Clause
/* The page: its head, the hosts and findings, and the parts below. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "internal.h"

/* From light to dark, so that it is readable without colour: cividis, in nine steps. */
const char *const class_colours[CLASSES] = {"#fdea45", "#e4d156", "#cab969", "#b0a172", "#958f78",
					    "#7b7b78", "#5d6370", "#3b496c", "#00224e"};
const char *const class_names[CLASSES] = {"below 1 us",	  "1 to 2 us",	    "2 to 5 us",
					  "5 to 10 us",	  "10 to 20 us",    "20 to 50 us",
					  "50 to 100 us", "100 us to 1 ms", "1 ms and more"};
static const double class_bounds_ns[CLASSES - 1] = {1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6};

int delay_class(double ns)
{
	int class = 0;

	if (!isfinite(ns))
		return -1;
	while (class < CLASSES - 1 && ns >= class_bounds_ns[class])
		class ++;
	return class;
}

/* --- text --- */

void html_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else if (*text == '\'')
			fputs("&#39;", out);
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			fputc(' ', out);
		else
			fputc(*text, out);
	}
}

void html_cell(FILE *out, const char *tag, const char *text)
{
	fprintf(out, "<%s>", tag);
	html_text(out, *text ? text : "-");
	fprintf(out, "</%.*s>", (int)strcspn(tag, " "), tag);
}

void html_delay(FILE *out, double ns)
{
	char text[UNITS_TEXT_BYTES];

	fputs(isfinite(ns) ? units_delay(text, ns) : "-", out);
}

void html_share(FILE *out, double share)
{
	if (isfinite(share))
		fprintf(out, share && share < 0.0001 ? "&lt;0.01%%" : "%.2f%%", share * 100);
	else
		fputc('-', out);
}

void html_time(FILE *out, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm parts;
	char text[40];

	if (gmtime_r(&seconds, &parts) && strftime(text, sizeof(text), "%F %T UTC", &parts))
		fputs(text, out);
}

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
	"'unsafe-inline'\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<style>body{font:14px/1.45 sans-serif;margin:1.5em auto;max-width:1240px;padding:0 1em;"
	"color:#111;background:#fff}h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;"
	"border-bottom:1px solid #999}table{border-collapse:collapse;margin:.6em 0}"
	"td,th{padding:.15em .7em;text-align:right;border-bottom:1px solid #ccc;"
	"white-space:nowrap}th{background:#eee}td:first-child,th:first-child,.l{text-align:left}"
	".wide{overflow:auto;max-width:100%;max-height:40em}svg{display:block}"
	"svg text{font:11px sans-serif;fill:#111}.note{color:#444;max-width:70em}"
	".bad{font-weight:bold;text-decoration:underline}</style>\n";

void html_begin(FILE *out, const char *title)
{
	fprintf(out, "%s<title>%s</title></head><body>\n", head, title);
}

/* --- hosts --- */

static size_t count_of(const json_t *list, const char *key, const char *value)
{
	size_t count = 0, i;
	json_t *one;

	json_array_foreach ((json_t *)list, i, one)
		count += !strcmp(json_text(one, key), value);
	return count;
}

/* "3 up, 1 down": entries of @list by their member `state`. */
static void write_states(FILE *out, const json_t *list)
{
	static const char *const states[] = {"up", "suspect", "hold_down", "down"};
	const char *between = "";

	fputs("<td>", out);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		size_t count = count_of(list, "state", states[i]);

		if (count)
			fprintf(out, i ? "%s<span class=bad>%zu %s</span>" : "%s%zu %s", between,
				count, states[i]);
		between = count ? ", " : between;
	}
	fputs(*between ? "</td>" : "-</td>", out);
}

static void write_host(FILE *out, const json_t *host)
{
	const json_t *clock = reply_of(host, "clock"), *status = reply_of(host, "status");

	fputs("<tr>", out);
	html_cell(out, "td", json_text(host, "host"));
	fputs("<td>", out);
	html_time(out, json_count(host, "time_ns"));
	fputs("</td>", out);
	html_cell(out, "td", json_text(status, "version"));
	html_cell(out, "td", json_text(status, "mode"));
	html_cell(out, "td", json_text(clock, "state"));
	fputs("<td>", out);
	html_delay(out, json_number(clock, "bound_ns"));
	fputs("</td>", out);
	write_states(out, json_object_get(reply_of(host, "peers"), "peers"));
	write_states(out, json_object_get(reply_of(host, "paths"), "paths"));
	write_states(out, json_object_get(reply_of(host, "links"), "links"));
	fprintf(out, "<td>%zu</td></tr>\n",
		json_array_size(json_object_get(reply_of(host, "qp"), "qps")));
}

static void write_hosts(FILE *out, const json_t **hosts, size_t count)
{
	fputs("<h2>Hosts</h2>\n<div class=wide><table><tr><th>host<th>taken at<th>release<th>mode"
	      "<th>clock<th>error bound<th>peers<th>paths<th>links<th>queue pairs</tr>\n",
	      out);
	for (size_t i = 0; i < count; i++)
		write_host(out, hosts[i]);
	fputs("</table></div>\n", out);
}

/* --- findings --- */

static size_t write_findings_of(FILE *out, const json_t *host)
{
	const json_t *list = json_object_get(reply_of(host, "findings"), "findings");
	json_t *one;
	size_t i;

	if (!list)
		list = json_object_get(reply_of(host, "status"), "diagnoses");
	json_array_foreach ((json_t *)list, i, one) {
		const char *text = json_text(one, "remedy");

		fputs("<tr>", out);
		html_cell(out, "td", json_text(host, "host"));
		html_cell(out, "td", json_text(one, "severity"));
		html_cell(out, "td class=l", json_text(one, "kind"));
		html_cell(out, "td class=l", json_text(one, "subject"));
		html_cell(out, "td class=l",
			  *text ? text : json_text(json_object_get(one, "seen"), "cause"));
		fputs("</tr>\n", out);
	}
	return json_array_size(list);
}

static void write_findings(FILE *out, const json_t **hosts, size_t count)
{
	char *rows = NULL;
	size_t bytes, found = 0;
	FILE *text = open_memstream(&rows, &bytes);

	for (size_t i = 0; text && i < count; i++)
		found += write_findings_of(text, hosts[i]);
	if (text)
		fclose(text);
	fputs("<h2>Findings</h2>\n", out);
	if (found)
		fprintf(out,
			"<div class=wide><table><tr><th>host<th>severity<th class=l>kind"
			"<th class=l>subject<th class=l>cause or remedy</tr>\n%s</table></div>\n",
			rows);
	else
		fputs("<p>No host reports a problem that stands.</p>\n", out);
	free(rows);
}

int report_write(struct report *report, FILE *out)
{
	const json_t **hosts;
	size_t count = report_hosts(report, &hosts);
	int err = !hosts ? -ENOMEM : !count ? -ENODATA : 0;

	if (!err) {
		html_begin(out, "Escapement report");
		fprintf(out,
			"<h1>Escapement report</h1>\n<p>%zu host%s, %zu export%s, %zu "
			"event%s.</p>\n",
			count, count == 1 ? "" : "s", json_array_size(report->exports),
			json_array_size(report->exports) == 1 ? "" : "s",
			json_array_size(report->events),
			json_array_size(report->events) == 1 ? "" : "s");
		write_hosts(out, hosts, count);
		write_findings(out, hosts, count);
		err = heat_write(report, out);
	}
	if (!err)
		err = fabric_write(report, out);
	if (!err)
		err = history_write(report, out);
	if (!err)
		fputs("</body></html>\n", out);
	free(hosts);
	return err;
}
