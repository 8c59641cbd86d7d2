// SPDX-License-Identifier: BSD-2-Clause
/* The tree in formats of others. A host is named once: by the leaf of its NIC of one rail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

/* The first leaf's rail, unless one is given. */
static const char *rail_of(const json_t *topology, const char *rail)
{
	const json_t *leaves = json_object_get(topology, "leaves");

	return *rail ? rail : json_text(json_array_get(leaves, 0), "rail");
}

/* Of this rail, and of the first plane that has it: the back end, where there is one. */
static bool is_of(const json_t *leaf, const json_t *topology, const char *rail)
{
	const json_t *first;
	size_t i;

	if (strcmp(json_text(leaf, "rail"), rail) != 0)
		return false;
	json_array_foreach (json_object_get(topology, "leaves"), i, first)
		if (!strcmp(json_text(first, "rail"), rail))
			return !strcmp(json_text(leaf, "plane"), json_text(first, "plane"));
	return false;
}

/* Leaves of a rail. */
#define for_each_leaf(topology, rail, i, leaf)                                                     \
	json_array_foreach (json_object_get(topology, "leaves"), i, leaf)                          \
		if (is_of(leaf, topology, rail))

/* Of the rail, in order, each once: {pod: true} (new reference). */
static json_t *pods_of(const json_t *topology, const char *rail)
{
	json_t *pods = json_object();
	const json_t *leaf;
	size_t i;

	for_each_leaf(topology, rail, i, leaf)
		json_object_set_new(pods, json_text(leaf, "pod"), json_true());
	return pods;
}

static void write_folded(FILE *out, const json_t *names)
{
	char *text = topo_fold_names(names);

	fputs(text ? text : "", out);
	free(text);
}

char *text_slurm(const json_t *topology, const char *rail)
{
	json_t *pods, *one;
	const json_t *leaf;
	const char *pod, *before;
	char *text = NULL;
	size_t bytes, i;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	rail = rail_of(topology, rail);
	pods = pods_of(topology, rail);
	fprintf(out, "# by escapement topo%s%s\n", *rail ? ", rail " : "", rail);
	for_each_leaf(topology, rail, i, leaf)
	{
		fprintf(out, "SwitchName=%s Nodes=", json_text(leaf, "leaf"));
		write_folded(out, json_object_get(leaf, "hosts"));
		fputc('\n', out);
	}
	json_object_foreach (pods, pod, one) {
		fprintf(out, "SwitchName=%s Switches=", pod);
		before = "";
		for_each_leaf(topology, rail, i, leaf)
		{
			if (strcmp(json_text(leaf, "pod"), pod) != 0)
				continue;
			fprintf(out, "%s%s", before, json_text(leaf, "leaf"));
			before = ",";
		}
		fputc('\n', out);
	}
	before = "SwitchName=core Switches=";
	if (json_object_size(pods) > 1)
		json_object_foreach (pods, pod, one) {
			fprintf(out, "%s%s", before, pod);
			before = ",";
		}
	fputs(json_object_size(pods) > 1 ? "\n" : "", out);
	json_decref(pods);
	fclose(out);
	return text;
}

/* Within "" of Graphviz. */
static void write_quoted(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

char *text_dot(const json_t *topology, const char *rail)
{
	const json_t *leaf, *nic;
	char *text = NULL;
	size_t bytes, i;
	FILE *out = open_memstream(&text, &bytes);

	(void)rail;
	if (!out)
		return NULL;
	fputs("graph fabric {\n\trankdir=LR;\n\tnode [shape=box];\n", out);
	json_array_foreach (json_object_get(topology, "leaves"), i, leaf)
		fprintf(out, "\t\"%s\" -- \"%s\";\n", json_text(leaf, "pod"),
			json_text(leaf, "leaf"));
	json_array_foreach (json_object_get(topology, "nics"), i, nic) {
		const char *name = json_text(nic, "interface");

		fprintf(out, "\t\"%s\" -- \"",
			*json_text(nic, "leaf") ? json_text(nic, "leaf") : "unknown");
		write_quoted(out, json_text(nic, "host"));
		fputc(' ', out);
		write_quoted(out, *name ? name : json_text(nic, "address"));
		fprintf(out, "\"%s;\n",
			json_is_true(json_object_get(nic, "certain")) ? "" : " [style=dashed]");
	}
	fputs("}\n", out);
	fclose(out);
	return text;
}

static void write_hypernode(FILE *out, const char *name, int tier)
{
	fprintf(out,
		"---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata:\n  "
		"name: %s\nspec:\n  tier: %d\n  members:\n",
		name, tier);
}

static void write_member(FILE *out, const char *type, const char *name)
{
	fprintf(out, "  - type: %s\n    selector:\n      exactMatch:\n        name: %s\n", type,
		name);
}

char *text_hypernode(const json_t *topology, const char *rail)
{
	json_t *pods, *one;
	const json_t *leaf, *host;
	const char *pod;
	char *text = NULL;
	size_t bytes, i, k;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	rail = rail_of(topology, rail);
	pods = pods_of(topology, rail);
	for_each_leaf(topology, rail, i, leaf)
	{
		write_hypernode(out, json_text(leaf, "leaf"), 1);
		json_array_foreach (json_object_get(leaf, "hosts"), k, host)
			write_member(out, "Node", json_string_value(host));
	}
	json_object_foreach (pods, pod, one) {
		write_hypernode(out, pod, 2);
		for_each_leaf(topology, rail, i, leaf) if (!strcmp(json_text(leaf, "pod"), pod))
			write_member(out, "HyperNode", json_text(leaf, "leaf"));
	}
	if (json_object_size(pods) > 1) {
		write_hypernode(out, "core", 3);
		json_object_foreach (pods, pod, one)
			write_member(out, "HyperNode", pod);
	}
	json_decref(pods);
	fclose(out);
	return text;
}

/* @format has the host, the leaf and the pod, in this order. */
static char *write_hosts(const json_t *topology, const char *rail, bool labels)
{
	const json_t *leaf, *host;
	char *text = NULL;
	size_t bytes, i, k, rank = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	rail = rail_of(topology, rail);
	for_each_leaf(topology, rail, i, leaf)
		json_array_foreach (json_object_get(leaf, "hosts"), k, host)
	{
		const char *name = json_string_value(host);

		if (labels)
			fprintf(out,
				"kubectl label --overwrite node %s "
				"fabric.topograph.run/tier-0=%s fabric.topograph.run/tier-1=%s\n",
				name, json_text(leaf, "leaf"), json_text(leaf, "pod"));
		else
			fprintf(out, "rank %zu=%s slot=0\n", rank++, name);
	}
	fclose(out);
	return text;
}

char *text_labels(const json_t *topology, const char *rail)
{
	return write_hosts(topology, rail, true);
}

char *text_ranks(const json_t *topology, const char *rail)
{
	return write_hosts(topology, rail, false);
}
