// SPDX-License-Identifier: BSD-2-Clause
#include "net/iblinks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"

bool iblinks_number(const char **at, int base, uint64_t *out)
{
	char *end;

	*out = strtoull(*at, &end, base);
	if (end == *at)
		return false;
	*at = end;
	return true;
}

bool iblinks_between(const char **at, const char *open, const char *close, char *out, size_t bytes)
{
	const char *begin = strstr(*at, open), *end;
	size_t used = 0;

	end = begin ? strstr(begin + strlen(open), close) : NULL;
	if (!end)
		return false;
	for (begin += strlen(open); begin < end && used + 1 < bytes; begin++)
		if (*begin != ' ' || (used && out[used - 1] != ' '))
			out[used++] = *begin;
	out[used && out[used - 1] == ' ' ? used - 1 : used] = '\0';
	*at = end + strlen(close);
	return true;
}

/*
 * 0x2 "leaf1" 2 5[ ] ==( 4X 2.5 Gbps Active/ LinkUp)==> 0x3 3 5[ ] "leaf2" (Could be 12X)
 *
 * 0x2 "leaf1" 2 7[ ] ==( Down/ Polling)==> [ ] "" ( )
 */
static bool parse_port(const char *line, struct iblinks_port *out)
{
	uint64_t lid, port;

	*out = (struct iblinks_port){};
	if (!iblinks_number(&line, 16, &out->guid) ||
	    !iblinks_between(&line, "\"", "\"", out->name, sizeof(out->name)) ||
	    !iblinks_number(&line, 10, &lid) || !iblinks_number(&line, 10, &port) ||
	    !iblinks_between(&line, "==(", ")==>", out->state, sizeof(out->state)))
		return false;
	out->port = (unsigned int)port;
	if (!strncmp(line + strspn(line, " "), "0x", 2)) {
		if (!iblinks_number(&line, 16, &out->far_guid) ||
		    !iblinks_number(&line, 10, &lid) || !iblinks_number(&line, 10, &port))
			return false;
		out->far_port = (unsigned int)port;
	}
	if (!iblinks_between(&line, "\"", "\"", out->far_name, sizeof(out->far_name)))
		return false;
	iblinks_between(&line, "(", ")", out->could, sizeof(out->could));
	return true;
}

void iblinks_parse(struct iblinks *subnet, const char *text)
{
	struct iblinks_port port;
	char line[512];

	while (text && text_next_line(&text, line, sizeof(line)))
		if (parse_port(line, &port) &&
		    !array_reserve(&subnet->ports, &subnet->room, subnet->count + 1, sizeof(port)))
			subnet->ports[subnet->count++] = port;
}

bool iblinks_is_switch(const struct iblinks *subnet, uint64_t guid)
{
	for (size_t i = 0; guid && i < subnet->count; i++)
		if (subnet->ports[i].guid == guid)
			return true;
	return false;
}

static void count_links(const struct iblinks *subnet, struct iblinks_leaf *leaf)
{
	for (const struct iblinks_port *port = leaf->first; port < subnet->ports + subnet->count;
	     port++) {
		if (port->guid != leaf->first->guid || !port->far_guid)
			continue;
		if (iblinks_is_switch(subnet, port->far_guid))
			leaf->up++;
		else
			leaf->hosts++;
	}
}

size_t iblinks_leaves(const struct iblinks *subnet, struct iblinks_leaf *out)
{
	size_t count = 0;

	for (size_t i = 0; i < subnet->count; i++) {
		struct iblinks_leaf leaf = {.first = &subnet->ports[i]};
		bool seen = false;

		for (size_t k = 0; k < i && !seen; k++)
			seen = subnet->ports[k].guid == subnet->ports[i].guid;
		if (seen)
			continue;
		count_links(subnet, &leaf);
		if (leaf.hosts)
			out[count++] = leaf;
	}
	return count;
}
