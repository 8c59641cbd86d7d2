// SPDX-License-Identifier: BSD-2-Clause
/* The fabric by the surveyed paths: switches' addresses in columns, and links between them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "internal.h"

#define HOPS_MAX 16
#define LINKS_DRAWN 240 /* the worst ones */
#define LINKS_LISTED 100
#define LINKS_NAMED 6 /* with their delay beside them */
#define ROW_PIXELS 30
#define COLUMN_PIXELS 290
#define MARGIN 14

struct node {
	const char *name; /* borrowed from the index */
	size_t column, row;
	bool drawn;
};

struct link {
	size_t from, to;
	double longest_ns, bound_ns; /* p99 of its slowest path */
	double least_ns;	     /* p50 of its fastest path */
	double most_lost, least_lost;
	size_t paths, down;
};

struct fabric {
	json_t *nodes_index, *links_index; /* {"COLUMN NAME": number}, {"FROM TO": number} */
	struct node *nodes;
	size_t node_count, node_room;
	struct link *links;
	size_t link_count, link_room;
	size_t columns;
	int err;
};

/* --- from paths to links --- */

static size_t node_of(struct fabric *fabric, size_t column, const char *name)
{
	char key[TEXT_BYTES + 24];
	struct node *node;
	json_t *number;

	snprintf(key, sizeof(key), "%zu %s", column, name);
	number = json_object_get(fabric->nodes_index, key);
	if (number)
		return (size_t)json_integer_value(number);
	node = array_add(&fabric->nodes, &fabric->node_count, &fabric->node_room, sizeof(*node));
	if (!node) {
		fabric->err = -ENOMEM;
		return 0;
	}
	node->column = column;
	json_object_set_new(fabric->nodes_index, key,
			    json_integer((json_int_t)fabric->node_count - 1));
	node->name =
		strchr(json_object_iter_key(json_object_iter_at(fabric->nodes_index, key)), ' ') +
		1;
	return fabric->node_count - 1;
}

static struct link *link_of(struct fabric *fabric, size_t from, size_t to)
{
	struct link *link;
	json_t *number;
	char key[48];

	snprintf(key, sizeof(key), "%zu %zu", from, to);
	number = json_object_get(fabric->links_index, key);
	if (number)
		return &fabric->links[json_integer_value(number)];
	link = array_add(&fabric->links, &fabric->link_count, &fabric->link_room, sizeof(*link));
	if (!link) {
		fabric->err = -ENOMEM;
		return NULL;
	}
	*link = (struct link){.from = from,
			      .to = to,
			      .longest_ns = NAN,
			      .bound_ns = NAN,
			      .least_ns = NAN,
			      .most_lost = NAN,
			      .least_lost = NAN};
	json_object_set_new(fabric->links_index, key,
			    json_integer((json_int_t)fabric->link_count - 1));
	return link;
}

static void count_path(struct link *link, const json_t *path)
{
	double longest = json_number_of(path, "owd_out_ns", "p99");
	double least = json_number_of(path, "owd_out_ns", "p50");
	double sent = json_number(path, "sent"), lost = json_number(path, "lost");

	link->paths++;
	link->down += !strcmp(json_text(path, "state"), "down");
	if (isfinite(longest) && !(link->longest_ns >= longest)) {
		link->longest_ns = longest;
		link->bound_ns = json_number(path, "bound_ns");
	}
	if (isfinite(least) && !(link->least_ns <= least))
		link->least_ns = least;
	if (sent > 0 && isfinite(lost) && !(link->most_lost >= lost / sent))
		link->most_lost = lost / sent;
	if (sent > 0 && isfinite(lost) && !(link->least_lost <= lost / sent))
		link->least_lost = lost / sent;
}

/* @last: the column of receivers, so that they are beside each other. */
static void take_path(struct fabric *fabric, const char *host, const json_t *path, size_t last)
{
	const json_t *hops = json_object_get(path, "hops");
	char name[TEXT_BYTES];
	size_t before, node, count = json_array_size(hops);
	struct link *link;

	if (!count || count > HOPS_MAX)
		return;
	before = node_of(fabric, 0, nic_name(name, host, json_text(path, "from")));
	for (size_t i = 0; i <= count && !fabric->err; i++) {
		const char *hop = json_string_value(json_array_get(hops, i));

		node = i < count ? node_of(fabric, i + 1, hop ? hop : "no reply")
				 : node_of(fabric, last,
					   nic_name(name, json_text(path, "peer"),
						    json_text(path, "to")));
		link = fabric->err ? NULL : link_of(fabric, before, node);
		if (link)
			count_path(link, path);
		before = node;
	}
}

static void collect(struct fabric *fabric, const json_t **hosts, size_t count)
{
	size_t last = 1, i;
	json_t *path;

	for (size_t h = 0; h < count; h++)
		json_array_foreach (json_object_get(reply_of(hosts[h], "paths"), "paths"), i,
				    path) {
			size_t hops = json_array_size(json_object_get(path, "hops"));

			if (hops <= HOPS_MAX && hops + 1 > last)
				last = hops + 1;
		}
	fabric->columns = last + 1;
	for (size_t h = 0; h < count; h++)
		json_array_foreach (json_object_get(reply_of(hosts[h], "paths"), "paths"), i, path)
			take_path(fabric, json_text(hosts[h], "host"), path, last);
}

/* Those without a path that is up first, then the longest delay. */
static int by_harm(const void *a, const void *b)
{
	const struct link *one = a, *other = b;
	double x = one->longest_ns, y = other->longest_ns;

	if (one->down == one->paths || other->down == other->paths) {
		if ((one->down == one->paths) != (other->down == other->paths))
			return one->down == one->paths ? -1 : 1;
	}
	if (isfinite(x) != isfinite(y))
		return isfinite(x) ? -1 : 1;
	return x > y ? -1 : x < y;
}

/* --- the picture --- */

static int by_place(const void *a, const void *b)
{
	const struct node *one = *(struct node *const *)a, *other = *(struct node *const *)b;

	if (one->column != other->column)
		return one->column < other->column ? -1 : 1;
	return strverscmp(one->name, other->name);
}

/* Rows of the nodes of drawn links, by name within a column. Returns the most of a column. */
static size_t place(struct fabric *fabric, size_t drawn)
{
	struct node **order = calloc(fabric->node_count + 1, sizeof(*order));
	size_t count = 0, most = 0, row = 0;

	if (!order)
		return 0;
	for (size_t i = 0; i < drawn; i++)
		fabric->nodes[fabric->links[i].from].drawn =
			fabric->nodes[fabric->links[i].to].drawn = true;
	for (size_t i = 0; i < fabric->node_count; i++)
		if (fabric->nodes[i].drawn)
			order[count++] = &fabric->nodes[i];
	qsort(order, count, sizeof(*order), by_place);
	for (size_t i = 0; i < count; i++) {
		row = i && order[i]->column == order[i - 1]->column ? row + 1 : 0;
		order[i]->row = row;
		most = row + 1 > most ? row + 1 : most;
	}
	free(order);
	return most;
}

static int node_x(const struct node *node)
{
	return MARGIN + (int)node->column * COLUMN_PIXELS;
}

static int node_y(const struct node *node)
{
	return 40 + (int)node->row * ROW_PIXELS;
}

#define BOX_PIXELS 150

static void write_link(const struct fabric *fabric, const struct link *link, size_t rank, FILE *out)
{
	const struct node *a = &fabric->nodes[link->from], *b = &fabric->nodes[link->to];
	int class = delay_class(link->longest_ns);
	int x1 = node_x(a) + BOX_PIXELS, x2 = node_x(b);
	bool down = link->down == link->paths;
	int at = 1 + (int)(rank % 3); /* quarters of its length: names of neighbors are apart */

	fprintf(out, "<line x1=%d y1=%d x2=%d y2=%d stroke-width=%d%s stroke=\"%s\"/>", x1,
		node_y(a), x2, node_y(b), down ? 3 : 2 + (class > 0 ? class / 2 : 0),
		down			   ? " stroke-dasharray=\"2 5\""
		: link->most_lost >= 0.001 ? " stroke-dasharray=\"9 3\""
					   : "",
		down || class < 0 ? "#a00" : class_colours[class]);
	if (rank >= LINKS_NAMED)
		return;
	fprintf(out,
		"<text x=%d y=%d text-anchor=middle style=\"font-weight:bold;paint-order:stroke;"
		"stroke:#fff;stroke-width:4px\">",
		x1 + (x2 - x1) * at / 4, node_y(a) + (node_y(b) - node_y(a)) * at / 4 - 2);
	if (down)
		fputs("down", out);
	else
		html_delay(out, link->longest_ns);
	fputs("</text>\n", out);
}

static void write_nodes(const struct fabric *fabric, FILE *out)
{
	for (size_t i = 0; i < fabric->node_count; i++) {
		const struct node *node = &fabric->nodes[i];

		if (!node->drawn)
			continue;
		fprintf(out,
			"<rect x=%d y=%d width=%d height=17 rx=3 fill=\"#fff\" stroke=\"#555\"/>"
			"<text x=%d y=%d>",
			node_x(node), node_y(node) - 9, BOX_PIXELS, node_x(node) + 5,
			node_y(node) + 4);
		html_text(out, node->name);
		fputs("</text>\n", out);
	}
}

static void write_picture(struct fabric *fabric, size_t drawn, FILE *out)
{
	size_t most = place(fabric, drawn);

	fprintf(out,
		"<div class=wide><svg role=img width=%zu height=%zu><title>Links of the surveyed "
		"paths</title><desc>The table below lists the links.</desc>\n",
		MARGIN * 2 + (fabric->columns - 1) * COLUMN_PIXELS + BOX_PIXELS,
		60 + most * ROW_PIXELS);
	for (size_t i = 0; i < fabric->columns; i++) {
		fprintf(out, "<text x=%zu y=16 style=\"font-weight:bold\">",
			MARGIN + i * COLUMN_PIXELS);
		if (!i)
			fputs("sender", out);
		else if (i + 1 == fabric->columns)
			fputs("receiver", out);
		else
			fprintf(out, "switch %zu", i);
		fputs("</text>\n", out);
	}
	for (size_t i = drawn; i-- > 0;)
		write_link(fabric, &fabric->links[i], i, out);
	write_nodes(fabric, out);
	fputs("</svg></div>\n", out);
}

static void write_table(const struct fabric *fabric, FILE *out)
{
	fputs("<div class=wide><table><tr><th>from<th class=l>to<th>paths<th>down<th>longest p99"
	      "<th>error bound<th>least p50<th>most lost<th>least lost</tr>\n",
	      out);
	for (size_t i = 0; i < fabric->link_count && i < LINKS_LISTED; i++) {
		const struct link *link = &fabric->links[i];

		fputs("<tr>", out);
		html_cell(out, "td", fabric->nodes[link->from].name);
		html_cell(out, "td class=l", fabric->nodes[link->to].name);
		fprintf(out, "<td>%zu<td>%zu<td>", link->paths, link->down);
		html_delay(out, link->longest_ns);
		fputs("<td>", out);
		html_delay(out, link->bound_ns);
		fputs("<td>", out);
		html_delay(out, link->least_ns);
		fputs("<td>", out);
		html_share(out, link->most_lost);
		fputs("<td>", out);
		html_share(out, link->least_lost);
		fputs("</tr>\n", out);
	}
	fputs("</table></div>\n", out);
}

static void write_fabric(struct fabric *fabric, FILE *out)
{
	size_t drawn = fabric->link_count < LINKS_DRAWN ? fabric->link_count : LINKS_DRAWN;

	qsort(fabric->links, fabric->link_count, sizeof(*fabric->links), by_harm);
	fputs("<p class=note>The candidate paths that the hosts surveyed, from the sender on the "
	      "left to the receiver on the right. A switch is shown by the addresses with which it "
	      "replied, so one switch may have several boxes. The colour of a link and the "
	      "table are the longest one-way delay (p99) of the paths that use it: the "
	      "cause may be another link of that path, unless the least delay or loss of its "
	      "paths is bad as well. Dashes: 0.1% lost or more; red dots: every path over it is "
	      "down.</p>\n",
	      out);
	if (drawn < fabric->link_count)
		fprintf(out, "<p>The worst %zu of %zu links are drawn, and %d listed.</p>\n", drawn,
			fabric->link_count, LINKS_LISTED);
	else if (fabric->link_count > LINKS_LISTED)
		fprintf(out, "<p>The worst %d of %zu links are listed.</p>\n", LINKS_LISTED,
			fabric->link_count);
	write_picture(fabric, drawn, out);
	write_table(fabric, out);
}

int fabric_write(const struct report *report, FILE *out)
{
	struct fabric fabric = {.nodes_index = json_object(), .links_index = json_object()};
	const json_t **hosts;
	size_t count = report_hosts(report, &hosts);

	if (hosts)
		collect(&fabric, hosts, count);
	else
		fabric.err = -ENOMEM;
	fputs("<h2>Fabric</h2>\n", out);
	if (!fabric.err && fabric.link_count)
		write_fabric(&fabric, out);
	else if (!fabric.err)
		fputs("<p>No path was surveyed: candidate paths exist between addresses with queue "
		      "pairs.</p>\n",
		      out);
	json_decref(fabric.nodes_index);
	json_decref(fabric.links_index);
	free(fabric.nodes);
	free(fabric.links);
	free(hosts);
	return fabric.err;
}
