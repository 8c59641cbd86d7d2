// SPDX-License-Identifier: BSD-2-Clause
/* Delays of queue pairs in the replies to `qp`, `peers` and `status`; why there are none. */
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/fields.h"
#include "base/json.h"
#include "config/config.h"
#include "internal.h"

#define SILENT_NS 1100000000ull /* longer than a span `recent` */
#define WHY_BYTES 256

static const struct delays_facts *facts_of(struct delays *delays)
{
	struct delays_facts *facts = &delays->facts;
	struct clock_facts clock;

	if (facts->known)
		return facts;
	*facts = (struct delays_facts){.known = true,
				       .peers = calloc(MESH_PEERS_MAX, sizeof(*facts->peers))};
	clock_get(delays->clock, &clock);
	facts->clock = clock.state;
	if (facts->peers)
		facts->peer_count = mesh_get_peers(delays->mesh, facts->peers, MESH_PEERS_MAX);
	facts->port_count = dataplane_read_ports(delays->dataplane, facts->ports);
	return facts;
}

void delays_forget_facts(struct delays *delays)
{
	free(delays->facts.peers);
	delays->facts.peers = NULL;
	delays->facts.known = false;
}

/* It is a neighbour on some plane, and down on all. */
static bool is_down(const struct delays_facts *facts, const char *host)
{
	bool found = false;

	for (size_t i = 0; i < facts->peer_count; i++)
		if (!strcmp(facts->peers[i].host, host)) {
			if (facts->peers[i].state != PEER_DOWN)
				return false;
			found = true;
		}
	return found;
}

/* --- why a queue pair has no delays: one sentence without its full stop --- */

/* What is so here, whatever the other end is; NULL: nothing. */
static const char *why_here(struct delays *delays, const struct qp_entry *qp, char out[WHY_BYTES])
{
	const struct delays_facts *facts = facts_of(delays);
	const struct port_info *port = report_port(facts->ports, facts->port_count, qp->key.port);

	if (dataplane_is_off(delays->dataplane))
		return "the kill switch is on";
	if (qp->key.direction == ESC_DIRECTION_RX)
		return "the delay of what is received is measured by its sender, and shown there";
	if (qp->qp.transport == ESC_TRANSPORT_UD)
		return "datagrams (UD) are not sampled";
	if (qp->qp.packets && !qp->qp.payload_bytes && qp->qp.acks)
		return "it carries acknowledgements alone, which are not sampled";
	if (!delays->core->config->receipts.on)
		return "receipts are switched off here (`receipts.mode`)";
	if (!port)
		return "its interface is not configured any more";
	if (port->tc_via == ESC_TC_NONE) {
		snprintf(out, WHY_BYTES, "%s has no tc program of ours, which records what is sent",
			 port->name);
		return out;
	}
	if (!fleet_members(delays->core->fleet))
		return "there is no members file: receipts are of members alone; name one with "
		       "`members`";
	return NULL;
}

static const char *why(struct delays *delays, const struct qp_entry *qp, char out[WHY_BYTES])
{
	const struct delays_facts *facts = facts_of(delays);
	const struct delays_entry *entry = qp->delays;
	const char *here = why_here(delays, qp, out), *host;
	uint64_t now_ns = delays->read_local_ns, unanswered;
	char address[ADDRESS_TEXT_BYTES];

	if (here)
		return here;
	host = members_host(fleet_members(delays->core->fleet), &qp->key.dst);
	unanswered = entry ? entry->owd.samples_sent - entry->sent_at_receipt : 0;
	if (!host)
		snprintf(out, WHY_BYTES,
			 "no member has %s: if it is another address of one, name it in that "
			 "member's label `addresses`",
			 address_format(&qp->key.dst, address));
	else if (is_down(facts, host))
		snprintf(out, WHY_BYTES, "%.64s is down", host);
	else if (now_ns > qp->seen_local_ns + SILENT_NS)
		return "it sent nothing in the last second";
	else if (facts->clock == CLOCK_FREE_RUNNING)
		return "there is no fabric time here: `escapement clock` shows why";
	else if (entry && entry->owd.receipts && now_ns < entry->owd.last_ktime_ns + SILENT_NS)
		snprintf(out, WHY_BYTES, "%.64s has no fabric time: its receipts carry none", host);
	else if (unanswered)
		snprintf(out, WHY_BYTES,
			 "%.64s sent no receipt for the last %llu packets that were sampled: its "
			 "daemon is old or stopped, or receipts are lost",
			 host, (unsigned long long)unanswered);
	else if (qp->qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK)
		snprintf(out, WHY_BYTES, "%.64s is not known to answer with receipts", host);
	else
		return "none of its packets was sampled in the last second";
	return out;
}

/* --- numbers --- */

#define SPAN(member, type, key) FIELD(struct delays_span, member, type, key)
static const struct field span_fields[] = {
	{SPAN(samples, U64, "samples")},
	{SPAN(min_ns, I64, "min")},
	{SPAN(max_ns, I64, "max")},
	{SPAN(bound_ns, U32, "bound")},
	{SPAN(over, U64, "above_threshold")},
	{SPAN(crossings, U64, "crossings")},
	{},
};

static json_t *span_json(const struct delays_span *span)
{
	json_t *object = json_object();

	fields_put(object, span_fields, span);
	json_put_integer(object, "p50", span->p50_ns);
	json_put_integer(object, "p99", span->p99_ns);
	json_put_integer(object, "mean", (int64_t)span->mean_ns);
	json_put_count(object, "ce", span->ce);
	return object;
}

static void put_ever(json_t *object, const struct delays_entry *entry)
{
	struct delays_span ever;
	json_t *json;

	delays_entry_ever(entry, &ever);
	if (!ever.samples)
		return;
	json = json_object();
	fields_put(json, span_fields, &ever);
	if (ever.p50_ns || ever.p99_ns) {
		json_put_integer(json, "p50", ever.p50_ns);
		json_put_integer(json, "p99", ever.p99_ns);
	}
	json_put(object, "owd_lifetime_ns", json);
}

/* Bytes over the time in which they arrived, first packet to last, is what a message got. */
static void put_messages_timed(json_t *object, const struct delays_span *span)
{
	double count = (double)span->messages, spread_ns = (double)span->message_spread_sum_ns;
	json_t *json;

	if (!span->messages)
		return;
	json = json_object();
	json_put_count(json, "count", span->messages);
	json_put_integer(json, "bytes", (int64_t)((double)span->message_bytes / count));
	json_put_integer(json, "delay_ns", (int64_t)((double)span->message_delay_sum_ns / count));
	json_put_count(json, "delay_max_ns", span->message_delay_max_ns);
	json_put_integer(json, "spread_ns", (int64_t)(spread_ns / count));
	if (span->message_spread_sum_ns)
		json_put_integer(json, "throughput_bps",
				 (int64_t)((double)span->message_bytes * 8e9 / spread_ns));
	json_put(object, "messages_timed", json);
}

static void put_recent(json_t *object, const struct delays_span *recent)
{
	if (!recent->samples)
		return;
	json_put(object, "owd_ns", span_json(recent));
	json_put(object, "stack_ns", json_pack("{s:I}", "max", (json_int_t)recent->stack_max_ns));
	if (recent->queue_samples)
		json_put(object, "host_queue_ns",
			 json_pack("{s:I, s:I}", "samples", (json_int_t)recent->queue_samples,
				   "max", (json_int_t)recent->queue_max_ns));
	put_messages_timed(object, recent);
}

#define OWD(member, key) FIELD(struct esc_qp_owd, member, U64, key)
static const struct field count_fields[] = {
	{OWD(samples_sent, "samples_sent")},
	{OWD(receipts, "receipts")},
	{OWD(samples_discarded, "samples_discarded")},
	{OWD(samples_expired, "samples_expired")},
	{},
};

void delays_put_qp(json_t *object, struct delays *delays, const struct qp_entry *qp)
{
	const struct delays_entry *entry =
		qp->key.direction == ESC_DIRECTION_TX ? qp->delays : NULL;
	const struct esc_address *other =
		qp->key.direction == ESC_DIRECTION_TX ? &qp->key.dst : &qp->key.src;
	char text[WHY_BYTES];
	int64_t floor_ns;

	json_put_text(object, "peer", members_host(fleet_members(delays->core->fleet), other));
	if (entry) {
		put_recent(object, &entry->recent);
		if (delays_entry_floor(entry, delays->read_local_ns, &floor_ns))
			json_put_integer(object, "owd_floor_ns", floor_ns);
		put_ever(object, entry);
		fields_put(object, count_fields, &entry->owd);
		json_put_count(object, "receipts_untimed",
			       entry->owd.receipts - entry->owd.samples);
		if (entry->owd.receipts)
			json_put_integer(object, "feedback_ns", (int64_t)entry->feedback_ns);
	}
	if (!entry || !entry->recent.samples)
		json_put_text(object, "owd_note", why(delays, qp, text));
}

/* Queue pairs of several interfaces of a plane are one peer's. */
void delays_put_peers(void *self, json_t *peers)
{
	struct delays *delays = self;
	const struct delays_facts *facts;
	uint8_t planes[ESC_PORTS_MAX];
	struct delays_group *groups;
	size_t count, i;
	json_t *peer;

	delays_forget_facts(delays);
	facts = facts_of(delays);
	for (unsigned int port = 0; port < ESC_PORTS_MAX; port++) {
		const struct port_info *info = report_port(facts->ports, facts->port_count, port);

		planes[port] = info ? info->plane : MESH_PLANES;
	}
	if (delays_group(delays, fleet_members(delays->core->fleet), planes, &groups, &count))
		return;
	json_array_foreach (peers, i, peer) {
		const char *host = json_text(peer, "peer"), *plane = json_text(peer, "plane");
		unsigned int p = !strcmp(plane, config_plane_name(FLEET_PLANE_FRONTEND));

		for (size_t g = 0; g < count; g++)
			if (groups[g].host && !strcmp(groups[g].host, host) &&
			    groups[g].port == p) {
				json_put_count(peer, "qps", groups[g].qps);
				if (groups[g].recent.samples)
					json_put(peer, "qp_owd_out_ns",
						 span_json(&groups[g].recent));
			}
	}
	free(groups);
}

void delays_put_receipts(json_t *status, const struct delays *delays)
{
	const struct config *config = delays->core->config;
	uint64_t interval_ns = delays_interval_ns(delays);
	json_t *object = json_object();

	json_put_text(object, "mode", config->receipts.on ? "on" : "off");
	json_put_count(object, "qps_sampled", delays->tracked);
	if (config->receipts.host_queue)
		json_put_bool(object, "host_queue", delays->host_queue);
	json_put_text(object, "host_queue_note", delays->host_queue_note);
	json_put_count(object, "poll_interval_ms", interval_ns / 1000000);
	if (interval_ns > DELAYS_FAST_NS)
		json_put(object, "poll_note",
			 json_sprintf("more than %d queue pairs are sampled: their delays are "
				      "polled once a second, not four times",
				      DELAYS_FAST_QPS));
	json_put(status, "receipts", object);
}
