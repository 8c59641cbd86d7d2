// SPDX-License-Identifier: BSD-2-Clause
/* Rails against their siblings, and a topology against an earlier one. */
#include <string.h>

#include "base/explain.h"
#include "base/json.h"
#include "internal.h"

/* --- rails --- */

/* Interface by interface the leaves of each host: {host: {interface: leaf}} (new reference). */
static json_t *leaves_of_hosts(const json_t *topology)
{
	json_t *hosts = json_object();
	const json_t *nic;
	size_t i;

	json_array_foreach (json_object_get(topology, "nics"), i, nic) {
		const char *host = json_text(nic, "host"), *leaf = json_text(nic, "leaf");
		const char *interface = json_text(nic, "interface");

		if (!*host || !*leaf || !*interface)
			continue;
		if (!json_object_get(hosts, host))
			json_object_set_new(hosts, host, json_object());
		json_object_set_new(json_object_get(hosts, host), interface, json_string(leaf));
	}
	return hosts;
}

/* "eth1 leaf1 eth2 leaf4 " without @interface. */
static json_t *key_without(const json_t *leaves, const char *interface)
{
	json_t *key = json_string(interface), *leaf;
	const char *other;

	json_object_foreach ((json_t *)leaves, other, leaf) {
		json_t *longer;

		if (!strcmp(other, interface))
			continue;
		longer = json_sprintf("%s %s=%s", json_string_value(key), other,
				      json_string_value(leaf));
		json_decref(key);
		key = longer;
	}
	return key;
}

/* {other leaves: {leaf: hosts}} of every NIC (new reference). */
static json_t *tally_siblings(const json_t *hosts)
{
	json_t *tally = json_object(), *leaves, *leaf;
	const char *host, *interface;

	json_object_foreach ((json_t *)hosts, host, leaves)
		json_object_foreach (leaves, interface, leaf) {
			json_t *key = key_without(leaves, interface);
			json_t *counts = json_object_get(tally, json_string_value(key));

			if (!counts) {
				counts = json_object();
				json_object_set_new(tally, json_string_value(key), counts);
			}
			json_put_count(counts, json_string_value(leaf),
				       json_count(counts, json_string_value(leaf)) + 1);
			json_decref(key);
		}
	return tally;
}

json_t *check_rails(const json_t *topology)
{
	json_t *hosts = leaves_of_hosts(topology), *tally = tally_siblings(hosts);
	json_t *list = json_array(), *leaves, *leaf, *count;
	const char *host, *interface, *other;

	json_object_foreach (hosts, host, leaves)
		json_object_foreach (leaves, interface, leaf) {
			json_t *key = key_without(leaves, interface);
			json_t *counts = json_object_get(tally, json_string_value(key));
			const char *own = json_string_value(leaf), *most = own;

			json_object_foreach (counts, other, count)
				if (json_count(counts, other) > json_count(counts, most))
					most = other;
			if (json_object_size(leaves) > 1 &&
			    json_count(counts, most) >= 2 * json_count(counts, own))
				json_array_append_new(
					list, json_pack("{s:s, s:s, s:s, s:s, s:I}", "host", host,
							"interface", interface, "leaf", own,
							"siblings_leaf", most, "siblings",
							(json_int_t)json_count(counts, most)));

			json_decref(key);
		}
	json_decref(hosts);
	json_decref(tally);
	return list;
}

/* --- an earlier topology --- */

static json_t *nic_key(const json_t *nic)
{
	const char *interface = json_text(nic, "interface");

	return *json_text(nic, "host") && *interface ? json_sprintf("%s %s", json_text(nic, "host"),
								    interface)
						     : json_string(json_text(nic, "address"));
}

/* Members of each leaf or pod: {NIC: {"names": its group, "with": first NIC of the group}}. */
static json_t *places(const json_t *topology, const char *member)
{
	json_t *of_nics = json_object(), *groups = json_object();
	const json_t *nic;
	size_t i;

	json_array_foreach (json_object_get(topology, "nics"), i, nic) {
		const char *group = json_text(nic, member);
		json_t *key = nic_key(nic), *list = json_object_get(groups, group);

		if (*group && !list) {
			list = json_object();
			json_object_set_new(groups, group, list);
		}
		if (*group) {
			json_object_set_new(list, json_string_value(key), json_true());
			json_object_set(of_nics, json_string_value(key), list);
		}
		json_decref(key);
	}
	json_decref(groups);
	return of_nics;
}

static size_t count_common(const json_t *a, const json_t *b)
{
	size_t count = 0;
	const char *key;
	json_t *one;

	json_object_foreach ((json_t *)a, key, one)
		count += json_object_get(b, key) != NULL;
	return count;
}

/* {NIC: its leaf} (new reference). */
static json_t *names_of_leaves(const json_t *topology)
{
	json_t *names = json_object();
	const json_t *nic;
	size_t i;

	json_array_foreach (json_object_get(topology, "nics"), i, nic) {
		json_t *key = nic_key(nic);

		if (*json_text(nic, "leaf"))
			json_object_set(names, json_string_value(key),
					json_object_get(nic, "leaf"));
		json_decref(key);
	}
	return names;
}

/* The leaf on which most of @with were, other than @nic; "": on none, or on several as many. */
static const char *most_were_on(const json_t *names, const json_t *with, const char *nic)
{
	json_t *counts = json_object(), *one;
	const char *key, *most = "";
	uint64_t best = 0;

	json_object_foreach ((json_t *)with, key, one) {
		const char *leaf = json_text(names, key);
		uint64_t count = json_count(counts, leaf) + 1;

		if (!*leaf || !strcmp(key, nic))
			continue;
		json_put_count(counts, leaf, count);
		most = count > best ? leaf : count == best ? "" : most;
		best = count > best ? count : best;
	}
	json_decref(counts);
	return most;
}

/* "is on leaf3, was on leaf1: shares it with 0 of 3 NICs of before", by the leaves' earlier names.
 */
static json_t *moved_text(const json_t *names, const char *nic, const json_t *group,
			  const json_t *then)
{
	const char *was = json_text(names, nic), *is = most_were_on(names, then, nic);

	return json_sprintf("is on %s, was on %s: shares it with %zu of %zu NICs of before",
			    *is ? is : "a leaf that was not there", was,
			    count_common(group, then) - 1, json_object_size(group) - 1);
}

/*
 * Names of leaves are not compared, they are by order: a NIC has moved when fewer than half of
 * those with which it shared its leaf share it now.
 */
static void compare(json_t *changes, const json_t *expected, const json_t *now)
{
	json_t *before = places(expected, "leaf"), *after = places(now, "leaf"), *group;
	json_t *names = names_of_leaves(expected);
	const char *nic;

	json_object_foreach (before, nic, group) {
		const json_t *then = json_object_get(after, nic);
		size_t others = json_object_size(group) - 1;

		if (!then)
			json_array_append_new(changes,
					      json_pack("{s:s, s:s}", "nic", nic, "change",
							"is missing, or its leaf is unknown"));
		else if (others && 2 * (count_common(group, then) - 1) < others)
			json_array_append_new(changes,
					      json_pack("{s:s, s:o}", "nic", nic, "change",
							moved_text(names, nic, group, then)));
	}
	json_object_foreach (after, nic, group)
		if (!json_object_get(before, nic))
			json_array_append_new(
				changes, json_pack("{s:s, s:s}", "nic", nic, "change", "is new"));
	json_decref(before);
	json_decref(after);
	json_decref(names);
}

json_t *check_diff(const json_t *expected, const json_t *now, char **error)
{
	json_t *changes;

	if (strcmp(json_text(expected, "format"), "escapement-topology")) {
		explain(error, 0, "no topology; make one with `escapement -j topo`");
		return NULL;
	}
	changes = json_array();
	compare(changes, expected, now);
	return json_pack("{s:o}", "changes", changes);
}
