// SPDX-License-Identifier: BSD-2-Clause
#include "tell.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "core/core.h"

const struct event_kind qp_events[] = {QP_EVENTS(EVENT_KIND){}};

void qptell_start(struct qptell *tell, struct events *events, unsigned int kind, size_t max)
{
	memset(tell, 0, sizeof(*tell));
	tell->events = events;
	tell->kind = kind;
	tell->max = max;
}

static json_t *qptell_seen(const struct esc_qp_key *key, const struct esc_qp *qp, const char *src,
			   const char *dst)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "direction",
			 key->direction == ESC_DIRECTION_TX ? "tx" : "rx", "src", src, "dst", dst,
			 "dest_qpn", (json_int_t)key->dest_qpn, "port", (json_int_t)key->port,
			 "packets", (json_int_t)qp->packets, "bytes", (json_int_t)qp->bytes,
			 "messages", (json_int_t)qp->messages);
}

void qptell_add(struct qptell *tell, const struct esc_qp_key *key, const struct esc_qp *qp)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], subject[128];

	if (tell->count++ >= tell->max) {
		tell->packets += qp->packets;
		tell->bytes += qp->bytes;
		return;
	}
	if (!tell->events)
		return;
	address_format(&key->src, src);
	address_format(&key->dst, dst);
	address_format_qp(&key->src, &key->dst, key->dest_qpn, subject);
	events_add(tell->events, &(struct event){
					 .kind = &qp_events[tell->kind],
					 .subject = subject,
					 .seen = qptell_seen(key, qp, src, dst),
				 });
}

void qptell_end(struct qptell *tell, bool taken_over)
{
	if (tell->count <= tell->max || !tell->events)
		return;
	events_add(tell->events, &(struct event){
					 .kind = &qp_events[tell->kind],
					 .subject = taken_over ? "taken over" : "more",
					 .seen = json_pack("{s:I, s:I, s:I}", "qps",
							   (json_int_t)(tell->count - tell->max),
							   "packets", (json_int_t)tell->packets,
							   "bytes", (json_int_t)tell->bytes),
				 });
}

void qptell_full(struct events *events, uint64_t refused, size_t entries, uint32_t max)
{
	if (!events)
		return;
	events_add(events, &(struct event){
				   .kind = &qp_events[QP_TABLE_FULL],
				   .subject = "qps",
				   .seen = json_pack("{s:I, s:I, s:I}", "refused_packets",
						     (json_int_t)refused, "entries",
						     (json_int_t)entries, "max", (json_int_t)max),
				   .done = json_pack("{s:s}", "remedy",
						     "raise qps.max, stop escapementd, run "
						     "`escapementd --remove`, start it"),
			   });
}
