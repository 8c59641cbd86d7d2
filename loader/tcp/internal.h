/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of TCP at the edge share; nobody else includes it. */
#ifndef ESC_LOADER_TCPPACE_PARTS_H
#define ESC_LOADER_TCPPACE_PARTS_H

#include "class.h"
#include "edge.h"
#include "list.h"
#include "tcp.h"
#include "wrap.h"

#define TCPPACE_WHY_BYTES 512

struct sd_event_source;

struct tcppace {
	struct daemon *daemon;
	struct sd_event_source *timer;
	struct tcpedge *edge; /* NULL: off */
	struct tcpwrap *wrap; /* NULL: no wrapper, so nothing is limited */
	struct tcplist *list; /* NULL: connections cannot be listed */
	struct tcpclass *classes;
	long left_out; /* cgroups that a class names and that there was no room for */
	struct esc_tcp_word word;
	bool blind;		     /* fabric time is not good enough, and that was told */
	char why[TCPPACE_WHY_BYTES]; /* what could not be had when it was loaded; "": all */
};

/* --- tcppace_tell.c --- */

void tcppace_tell_mode(const struct tcppace *tcp, const char *by);
/* @left_out: cgroups, or -errno. */
void tcppace_tell_left_out(const struct tcppace *tcp, long left_out);
void tcppace_tell_unable(const struct tcppace *tcp);
void tcppace_tell_clock(const struct tcppace *tcp, int64_t bound_ns);
/* Fabric time is good enough for the threshold. *@bound_ns: -1 there is none. */
bool tcppace_clock_is_good(const struct tcppace *tcp, int64_t *bound_ns);

#endif
