/* SPDX-License-Identifier: BSD-2-Clause */
/* The reply to `qp`: which queue pairs, in which order, and each as JSON. */
#ifndef ESC_QP_REPORT_H
#define ESC_QP_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "maps/maps.h"

struct qp_entry;

/* What to order by, the largest first: the module above that knows delays sets it. */
typedef double report_qp_value_fn(const struct qp_entry *entry);

#define REPORT_QPS_MOST 65536 /* one reply; more would hold up the daemon's loop */

enum report_qp_order {
	REPORT_QP_BYTES,
	REPORT_QP_PACKETS,
	REPORT_QP_RATE,
	REPORT_QP_CE,
	REPORT_QP_GAPS,
	REPORT_QP_THROUGHPUT, /* the same as rate */
	REPORT_QP_LOSS,
	REPORT_QP_DELAY, /* 99th percentile of the last second; those without come last */
};
/* False: no such order, and *@out is REPORT_QP_BYTES. */
bool report_qp_order(const char *name, enum report_qp_order *out);

/*
 * KEY: a QPN ("17", "0x11"), a part of an address, or
 * "SRC>DST/QPN" of which parts may be missing. "" or NULL: all.
 */
struct report_qp_filter {
	char src[64], dst[64]; /* "": any; parts of the address as text */
	bool either;	       /* src may match the destination instead */
	bool has_qpn;
	uint32_t qpn;
};
/* False: @key is longer than any address, or its QPN is no 24-bit number. */
bool report_qp_filter(const char *key, struct report_qp_filter *out);
bool report_qp_matches(const struct report_qp_filter *filter, const struct qp_entry *entry);

/*
 * The matching ones of @entries, the most first; equal ones keep their order.
 * @delay, for the order of that name, may be NULL.
 * Returns a malloc'd array of pointers and its length in *@chosen, or NULL.
 */
const struct qp_entry **report_qp_choose(const struct qp_entry *entries, size_t count,
					 const struct report_qp_filter *filter,
					 enum report_qp_order order,
					 report_qp_value_fn *delay, size_t *chosen);

/* The port in slot @index; NULL: it is not among them. */
struct port_facts;
const struct port_info *report_port(const struct port_facts *ports, unsigned int count,
				    unsigned int index);

/* @interface may be NULL: its port is not configured any more. */
json_t *report_qp(const struct qp_entry *entry, const char *interface);

const char *report_direction(const struct esc_qp_key *key);
const char *report_transport(const struct esc_qp *qp); /* NULL: only CNPs were seen */

#endif
