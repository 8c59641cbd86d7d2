/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of TCP at the edge share; nobody else includes it. */
#ifndef ESC_LOADER_TCP_PARTS_H
#define ESC_LOADER_TCP_PARTS_H

#include "class.h"
#include "edge.h"
#include "list.h"
#include "tcp.h"
#include "wrap.h"

#include "base/fields.h"
#include "core/core.h"

#define TCP_WHY_BYTES 512

struct tcp {
	struct core *core;
	struct dataplane *dataplane;
	struct clock *clock;
	struct pace *pace;
	struct tcpedge *edge; /* NULL: off */
	struct tcpwrap *wrap; /* NULL: no wrapper, so nothing is limited */
	struct tcplist *list; /* NULL: connections cannot be listed */
	struct tcpclass *classes;
	long left_out; /* cgroups that a class names and that there was no room for */
	struct esc_tcp_control ctl;
	bool blind;		 /* fabric time is not good enough, and that was told */
	char why[TCP_WHY_BYTES]; /* what could not be had when it was loaded; "": all */
};

/* --- tell.c --- */

const char *tcp_mode_name(enum esc_tcp_mode mode);

void tcp_report_mode(const struct tcp *tcp, const char *by);
/* @left_out: cgroups, or -errno. */
void tcp_report_left_out(const struct tcp *tcp, long left_out);
void tcp_report_unable(const struct tcp *tcp);
void tcp_report_clock(const struct tcp *tcp, int64_t bound_ns);
/* Fabric time is good enough for the threshold. *@bound_ns: -1 there is none. */
bool tcp_clock_is_good(const struct tcp *tcp, int64_t *bound_ns);

/* The member `tcp` of the reply to `pace`. */
json_t *tcp_show(void *self);

/* --- metrics.c --- */

extern const struct metric tcp_metrics[];
extern const struct field tcp_count_fields[], tcp_limit_fields[], tcp_class_fields[];
void tcp_write_metrics(void *self, FILE *out);

#define TCP_EVENTS(X)                                                                              \
	X(PACE_TCP_OFF, "pace_tcp_off", NOTICE,                                                    \
	  "Delays of TCP connections are not measured any more.")                                  \
	X(PACE_TCP_MEASURE, "pace_tcp_measure", NOTICE, "Delays of TCP connections are measured.") \
	X(PACE_TCP_ON, "pace_tcp_on", NOTICE, "TCP connections are limited by their own delay.")   \
	X(PACE_TCP_CGROUPS_FULL, "pace_tcp_cgroups_full", WARNING,                                 \
	  "Classes name more cgroups than there is room for.")                                     \
	X(PACE_TCP_UNAVAILABLE, "pace_tcp_unavailable", WARNING,                                   \
	  "The kernel does not support measuring or limiting TCP connections.")                    \
	X(PACE_TCP_CLOCK_LOST, "pace_tcp_clock_lost", WARNING,                                     \
	  "Fabric time is not good enough for the thresholds: limits end.")                        \
	X(PACE_TCP_CLOCK_RESTORED, "pace_tcp_clock_restored", NOTICE,                              \
	  "Fabric time is good enough again.")
enum { TCP_EVENTS(EVENT_ENUM) };
extern const struct event_kind tcp_events[];

#endif
