// SPDX-License-Identifier: BSD-2-Clause
/* One-way delays from each NIC to each other one: a heat map, and a table of its rows. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define TEXTS_MAX 24  /* NICs up to which each cell has its delay */
#define DIGITS_MAX 64 /* and up to which it has the number of its class */
#define SIDE_MAX 1040.0
#define LABEL_PIXELS 150

struct nic {
	const char *host, *address; /* "": not known */
};

struct heat {
	struct nic *nics;
	size_t count, left_out;
	json_t *index; /* {address: number} */
	double *delay; /* ns, [from * count + to]; NAN: not measured */
	double *loss;  /* share of the probes */
	double *bound; /* ns */
};

/* --- which NICs there are --- */

static void find(struct heat *heat, const char *host, const char *address)
{
	if (*address && !json_object_get(heat->index, address))
		json_object_set_new(heat->index, address, json_string(host));
}

/* The address of the NIC from which @peer is probed, or "". */
static const char *own_address(const json_t *export, const json_t *peer)
{
	const json_t *planes =
		json_object_get(json_object_get(reply_of(export, "status"), "probing"), "planes");
	json_t *plane, *nic;
	size_t i, j;

	json_array_foreach ((json_t *)planes, i, plane)
		json_array_foreach (json_object_get(plane, "nics"), j, nic)
			if (!strcmp(json_text(nic, "interface"), json_text(peer, "interface")))
				return json_text(nic, "address");
	return "";
}

typedef void row_fn(struct heat *heat, const json_t *export, const char *from, const char *to,
		    const json_t *row);

/* Each measurement of a pair of NICs: of the mesh, of NICs in turn, of candidate paths. */
static void for_each_row(struct heat *heat, const json_t *export, row_fn *take)
{
	static const char *const verbs[][2] = {{"mesh", "nics"}, {"paths", "paths"}};
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(reply_of(export, "peers"), "peers"), i, row)
		take(heat, export, own_address(export, row), json_text(row, "address"), row);
	for (size_t v = 0; v < 2; v++)
		json_array_foreach (json_object_get(reply_of(export, verbs[v][0]), verbs[v][1]), i,
				    row)
			take(heat, export, json_text(row, "from"), json_text(row, "to"), row);
}

static void take_nics(struct heat *heat, const json_t *export, const char *from, const char *to,
		      const json_t *row)
{
	find(heat, json_text(export, "host"), from);
	find(heat, json_text(row, "peer"), to);
}

static int by_name(const void *a, const void *b)
{
	const struct nic *one = a, *other = b;
	int order = strverscmp(one->host, other->host);

	return order ? order : strverscmp(one->address, other->address);
}

static int collect(struct heat *heat, const json_t **hosts, size_t count)
{
	size_t found, i = 0;
	const char *address;
	json_t *host;

	heat->index = json_object();
	for (size_t h = 0; h < count; h++)
		for_each_row(heat, hosts[h], take_nics);
	found = json_object_size(heat->index);
	heat->nics = calloc(found + 1, sizeof(*heat->nics));
	if (!heat->nics)
		return -ENOMEM;
	json_object_foreach (heat->index, address, host)
		heat->nics[i++] = (struct nic){json_string_value(host), address};
	qsort(heat->nics, found, sizeof(*heat->nics), by_name);
	heat->count = found < NICS_MAX ? found : NICS_MAX;
	heat->left_out = found - heat->count;
	return 0;
}

/* --- what was measured --- */

static int64_t index_of(const json_t *numbers, const char *address)
{
	const json_t *number = json_object_get(numbers, address);

	return number ? json_integer_value(number) : -1;
}

/* The reply of a sender counts more than that of the other end, and a longer delay than another. */
static void put(struct heat *heat, const char *from, const char *to, double ns, double bound_ns,
		double loss)
{
	int64_t a = index_of(heat->index, from), b = index_of(heat->index, to);
	size_t cell;

	if (a < 0 || b < 0)
		return;
	cell = (size_t)a * heat->count + (size_t)b;
	if (isfinite(ns) && !(heat->delay[cell] >= ns)) {
		heat->delay[cell] = ns;
		heat->bound[cell] = bound_ns;
	}
	if (isfinite(loss) && !(heat->loss[cell] >= loss))
		heat->loss[cell] = loss;
}

static void take_delays(struct heat *heat, const json_t *export, const char *from, const char *to,
			const json_t *row)
{
	double sent = json_number(row, "sent"), bound = json_number(row, "bound_ns");

	(void)export;
	put(heat, from, to, json_number_of(row, "owd_out_ns", "p50"), bound,
	    sent > 0 ? json_number(row, "lost") / sent : NAN);
	put(heat, to, from, json_number_of(row, "owd_in_ns", "p50"), bound, NAN);
}

/* The index of addresses becomes one of numbers; the cells are filled. */
static int measure(struct heat *heat, const json_t **hosts, size_t count)
{
	size_t cells = heat->count * heat->count;
	json_t *numbers = json_object();

	heat->delay = malloc((cells + 1) * sizeof(double));
	heat->loss = malloc((cells + 1) * sizeof(double));
	heat->bound = malloc((cells + 1) * sizeof(double));
	if (!heat->delay || !heat->loss || !heat->bound) {
		json_decref(numbers);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cells; i++)
		heat->delay[i] = heat->loss[i] = heat->bound[i] = NAN;
	for (size_t i = 0; i < heat->count; i++)
		json_object_set_new(numbers, heat->nics[i].address, json_integer((json_int_t)i));
	/* The names of the NICs are in the old one. */
	json_t *names = heat->index;

	heat->index = numbers;
	for (size_t h = 0; h < count; h++)
		for_each_row(heat, hosts[h], take_delays);
	heat->index = names;
	json_decref(numbers);
	return 0;
}

/* --- the picture --- */

static void write_legend(FILE *out, bool digits)
{
	fputs("<svg role=img width=1000 height=44 aria-label=\"legend\"><defs><pattern id=none "
	      "width=6 height=6 patternUnits=userSpaceOnUse patternTransform=\"rotate(45)\">"
	      "<rect width=6 height=6 fill=\"#eee\"/><rect width=1.5 height=6 fill=\"#aaa\"/>"
	      "</pattern></defs>\n",
	      out);
	for (int i = 0; i <= CLASSES; i++) {
		const char *fill = i < CLASSES ? class_colours[i] : "url(#none)";

		fprintf(out, "<rect x=%d y=2 width=96 height=18 fill=\"%s\" stroke=\"#555\"/>",
			i * 98 + 1, fill);
		if (digits && i < CLASSES)
			fprintf(out, "<text x=%d y=15 style=\"fill:%s\">%d</text>", i * 98 + 6,
				i < 6 ? "#000" : "#fff", i);
		fprintf(out, "<text x=%d y=36>%s</text>", i * 98 + 4,
			i < CLASSES ? class_names[i] : "not measured");
	}
	fputs("</svg>\n", out);
}

/* One path for each class: a run of cells of a row is a horizontal line as thick as the row. */
static void write_classes(const struct heat *heat, FILE *out)
{
	for (int class = 0; class < CLASSES; class ++) {
		bool any = false;

		for (size_t row = 0; row < heat->count; row++) {
			const double *delay = &heat->delay[row * heat->count];
			size_t pen = 0;
			bool begun = false;

			for (size_t at = 0, end; at < heat->count; at = end) {
				for (end = at;
				     end < heat->count && delay_class(delay[end]) == class;)
					end++;
				if (end == at) {
					end++;
					continue;
				}
				if (!any)
					fprintf(out, "<path stroke=\"%s\" d=\"",
						class_colours[class]);
				if (begun)
					fprintf(out, "m%zu 0h%zu", at - pen, end - at);
				else
					fprintf(out, "M%zu %zu.5h%zu", at, row, end - at);
				any = begun = true;
				pen = end;
			}
		}
		fputs(any ? "\"/>\n" : "", out);
	}
}

/* Each cell's own delay in us, or the number of its class. */
static void write_values(const struct heat *heat, double side, FILE *out)
{
	for (size_t i = 0; i < heat->count * heat->count; i++) {
		double x = (double)(i % heat->count) + 0.5, y = (double)(i / heat->count) + 0.5;
		int class = delay_class(heat->delay[i]);

		if (class < 0 || heat->count > DIGITS_MAX)
			continue;
		fprintf(out, "<text x=%.0f y=%.0f text-anchor=middle%s>", x * side, y * side + 4,
			class < 6 ? "" : " style=\"fill:#fff\"");
		if (heat->count <= TEXTS_MAX)
			fprintf(out, "%.3g</text>", heat->delay[i] / 1e3);
		else
			fprintf(out, "%d</text>", class);
	}
}

static void write_labels(const struct heat *heat, double side, FILE *out)
{
	/* As many as there is room for. */
	size_t step = side >= 11 ? 1 : (size_t)ceil(11 / side);
	char name[TEXT_BYTES];

	for (size_t i = 0; i < heat->count; i += step) {
		double at = ((double)i + 0.5) * side + 4;

		nic_name(name, heat->nics[i].host, heat->nics[i].address);
		if (strlen(name) > 24)
			strcpy(name + 21, "...");
		fprintf(out, "<text x=-4 y=%.1f text-anchor=end>", at);
		html_text(out, name);
		fprintf(out, "</text><text transform=\"translate(%.1f -4) rotate(-60)\">", at);
		html_text(out, name);
		fputs("</text>\n", out);
	}
}

static void write_picture(const struct heat *heat, FILE *out)
{
	double side = heat->count <= TEXTS_MAX ? 44 : fmax(1.5, fmin(16, SIDE_MAX / heat->count));
	double all = side * (double)heat->count;

	if (heat->count <= TEXTS_MAX && heat->count > 8)
		side = 40, all = side * (double)heat->count;
	write_legend(out, heat->count > TEXTS_MAX && heat->count <= DIGITS_MAX);
	fprintf(out,
		"<div style=\"overflow:auto\"><svg role=img width=%.0f "
		"height=%.0f>\n<title>One-way "
		"delay from each NIC (row) to each other one (column)</title><desc>The table below "
		"has the rows as numbers.</desc>\n"
		"<g transform=\"translate(%d %d)\"><rect width=%.1f height=%.1f "
		"fill=\"url(#none)\"/>\n<g fill=none stroke-width=1 transform=\"scale(%g)\" "
		"shape-rendering=crispEdges>\n",
		all + 2 * LABEL_PIXELS, all + LABEL_PIXELS + 4, LABEL_PIXELS, LABEL_PIXELS, all,
		all, side);
	write_classes(heat, out);
	fputs("</g>\n", out);
	write_values(heat, side, out);
	write_labels(heat, side, out);
	fputs("</g></svg></div>\n", out);
}

/* --- the table --- */

static int by_value(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

static void write_row(const struct heat *heat, size_t row, double *sorted, FILE *out)
{
	const double *delay = &heat->delay[row * heat->count];
	const double *loss = &heat->loss[row * heat->count];
	size_t measured = 0, worst = row, lossy = row;
	char name[TEXT_BYTES];

	for (size_t i = 0; i < heat->count; i++) {
		if (isfinite(delay[i]))
			sorted[measured++] = delay[i];
		if (isfinite(delay[i]) && !(delay[worst] >= delay[i]))
			worst = i;
		if (isfinite(loss[i]) && !(loss[lossy] >= loss[i]))
			lossy = i;
	}
	if (!measured)
		return;
	qsort(sorted, measured, sizeof(*sorted), by_value);
	fputs("<tr>", out);
	html_cell(out, "td", nic_name(name, heat->nics[row].host, heat->nics[row].address));
	fprintf(out, "<td>%zu<td>", measured);
	html_delay(out, sorted[measured / 2]);
	fputs("<td>", out);
	html_delay(out, delay[worst]);
	fputs("<td>", out);
	html_delay(out, heat->bound[row * heat->count + worst]);
	html_cell(out, "td class=l",
		  nic_name(name, heat->nics[worst].host, heat->nics[worst].address));
	fputs("<td>", out);
	html_share(out, loss[lossy]);
	html_cell(out, "td class=l",
		  loss[lossy] > 0
			  ? nic_name(name, heat->nics[lossy].host, heat->nics[lossy].address)
			  : "");
	fputs("</tr>\n", out);
}

static int write_table(const struct heat *heat, FILE *out)
{
	double *sorted = malloc((heat->count + 1) * sizeof(*sorted));

	if (!sorted)
		return -ENOMEM;
	fputs("<div class=wide><table><tr><th>from<th>measured<th>median<th>longest<th>error bound"
	      "<th class=l>to<th>most lost<th class=l>to</tr>\n",
	      out);
	for (size_t row = 0; row < heat->count; row++)
		write_row(heat, row, sorted, out);
	fputs("</table></div>\n", out);
	free(sorted);
	return 0;
}

int heat_write(const struct report *report, FILE *out)
{
	const json_t **hosts;
	size_t count = report_hosts(report, &hosts);
	struct heat heat = {};
	int err = hosts ? collect(&heat, hosts, count) : -ENOMEM;

	if (!err)
		err = measure(&heat, hosts, count);
	fputs("<h2>One-way delay between NICs</h2>\n", out);
	if (!err && !heat.count)
		fputs("<p>No pair of NICs was measured.</p>\n", out);
	if (!err && heat.count) {
		fputs("<p class=note>Median one-way delay of probes from the NIC of the row to "
		      "that of the column, on a logarithmic scale that is the same on every page. "
		      "Probes pass the same queues as the queue pairs whose source ports "
		      "they use; each delay is true within the error bound of the table.</p>\n",
		      out);
		if (heat.count <= TEXTS_MAX)
			fputs("<p class=note>The numbers are us.</p>\n", out);
		if (heat.left_out)
			fprintf(out, "<p><b>%zu NICs are left out:</b> a page has %d.</p>\n",
				heat.left_out, NICS_MAX);
		write_picture(&heat, out);
		err = write_table(&heat, out);
	}
	json_decref(heat.index);
	free(heat.nics);
	free(heat.delay);
	free(heat.loss);
	free(heat.bound);
	free(hosts);
	return err;
}
