// SPDX-License-Identifier: BSD-2-Clause
#include "rtnl.h"

void rtnl_chain(unsigned int ifindex, bool up, struct link_chain *out)
{
	struct link_facts link;

	out->count = 0;
	while (ifindex && out->count < LINK_CHAIN_MAX &&
	       !rtnl_link_by_index(ifindex, RTNL_HERE, &link)) {
		out->ifindex[out->count++] = ifindex;
		ifindex = up ? link.master : link.lower;
	}
}

bool link_chains_meet(const struct link_chain *a, const struct link_chain *b)
{
	for (unsigned int i = 0; i < a->count; i++)
		for (unsigned int j = 0; j < b->count; j++)
			if (a->ifindex[i] == b->ifindex[j])
				return true;
	return false;
}
