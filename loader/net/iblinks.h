/* SPDX-License-Identifier: BSD-2-Clause */
/* The switches of an InfiniBand subnet and their links, of what iblinkinfo prints. */
#ifndef ESC_NET_IBLINKS_H
#define ESC_NET_IBLINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A port of a switch, as a line of `iblinkinfo --line --switches-only` has it. */
struct iblinks_port {
	uint64_t guid, far_guid; /* 0: nothing is there */
	char name[64], far_name[64];
	unsigned int port, far_port;
	char state[48]; /* "4X 2.5 Gbps Active/ LinkUp" */
	char could[96]; /* "Could be 12X"; "": no more */
};

struct iblinks {
	struct iblinks_port *ports;
	size_t count, room;
};

/* Adds the ports in @text; lines that are none are left out. The caller frees .ports. */
void iblinks_parse(struct iblinks *subnet, const char *text);
bool iblinks_is_switch(const struct iblinks *subnet, uint64_t guid);

/* Of one switch. */
struct iblinks_leaf {
	const struct iblinks_port *first;
	unsigned int up, hosts; /* links to switches, to hosts */
};

/* Switches with hosts into @out, which has room for as many as there are ports; how many. */
size_t iblinks_leaves(const struct iblinks *subnet, struct iblinks_leaf *out);

/* A number behind blanks; false: there is none. */
bool iblinks_number(const char **at, int base, uint64_t *out);
/* What is between @open and @close from @at on, without the blanks around it and repeated ones. */
bool iblinks_between(const char **at, const char *open, const char *close, char *out, size_t bytes);

#endif
