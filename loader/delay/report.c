// SPDX-License-Identifier: BSD-2-Clause
#include "internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "fleet/fleet.h"
#include "base/json.h"

#define SILENT_NS 1100000000ull /* longer than a span `recent` */

void report_delays_begin(struct report_delays *out, const struct delays *delays)
{
	struct clock_facts clock;

	*out = (struct report_delays){
		.delays = delays,
		.members = fleet_members(delays->core->fleet),
		.off = dataplane_is_off(delays->dataplane),
		.receipts = delays->core->config->receipts.on,
		.peers = calloc(MESH_PEERS_MAX, sizeof(*out->peers)),
	};
	clock_get(delays->clock, &clock);
	out->clock = clock.state;
	if (out->peers)
		out->peer_count = mesh_get_peers(delays->mesh, out->peers, MESH_PEERS_MAX);
	for (unsigned int i = 0; i < dataplane_port_count(delays->dataplane); i++)
		if (out->port_count < ESC_PORTS_MAX &&
		    !dataplane_port(delays->dataplane, i, &out->ports[out->port_count]))
			out->port_count++;
}

void report_delays_end(struct report_delays *facts)
{
	free(facts->peers);
	facts->peers = NULL;
}

const struct port_info *report_delays_port(const struct report_delays *facts, unsigned int index)
{
	for (unsigned int i = 0; i < facts->port_count; i++)
		if (facts->ports[i].index == index)
			return &facts->ports[i];
	return NULL;
}

/* --- why not --- */

/* The neighbour that @host is on any plane; up before down. */
static const struct mesh_peer_facts *find_peer(const struct report_delays *facts, const char *host)
{
	const struct mesh_peer_facts *found = NULL;

	for (size_t i = 0; i < facts->peer_count; i++)
		if (!strcmp(facts->peers[i].host, host) && (!found || found->state == PEER_DOWN))
			found = &facts->peers[i];
	return found;
}

__attribute__((format(printf, 2, 3))) static bool say(char out[256], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(out, 256, format, arguments);
	va_end(arguments);
	return true;
}

/* What is so here, whoever the other end is. */
static bool why_here(const struct report_delays *facts, const struct qp_entry *qp, char out[256])
{
	const struct port_info *port = report_delays_port(facts, qp->key.port);

	if (facts->off)
		return say(out, "the kill switch is on");
	if (qp->key.direction == ESC_DIRECTION_RX)
		return say(out,
			   "the delay of what is received is measured by its sender: ask there");
	if (qp->qp.transport == ESC_TRANSPORT_UD)
		return say(out, "datagrams (UD) are not sampled");
	if (qp->qp.packets && !qp->qp.payload_bytes && qp->qp.acks)
		return say(out, "it carries acknowledgements alone, which are not sampled");
	if (!facts->receipts)
		return say(out, "receipts are switched off here (`receipts.mode`)");
	if (!port)
		return say(out, "its interface is not configured any more");
	if (port->tc_via == ESC_TC_NONE)
		return say(out, "%s has no tc program of ours, which notes what leaves",
			   port->name);
	if (!facts->members)
		return say(out, "there is no members file: receipts are of members alone; name one "
				"with `members`");
	return false;
}

static bool why_there(const struct report_delays *facts, const struct qp_entry *qp,
		      const char **host, char out[256])
{
	const struct mesh_peer_facts *peer;
	char address[ADDRESS_TEXT_BYTES];

	*host = members_host(facts->members, &qp->key.dst);
	if (!*host)
		return say(out,
			   "no member has %s: if it is another address of one, name it in that "
			   "member's label `addresses`",
			   address_format(&qp->key.dst, address));
	peer = find_peer(facts, *host);
	if (peer && peer->state == PEER_DOWN)
		return say(out, "%.64s is down", *host);
	return false;
}

void report_delays_why(const struct report_delays *facts, const struct qp_entry *qp,
		       const struct delays_entry *entry, char out[256])
{
	const char *host;

	if (why_here(facts, qp, out) || why_there(facts, qp, &host, out))
		return;
	if (entry && entry->packet_age_ns > SILENT_NS)
		say(out, "it sent nothing in the last second");
	else if (facts->clock == CLOCK_FREE_RUNNING)
		say(out, "there is no fabric time here: `escapement clock` tells more");
	else if (entry && entry->receipts && entry->receipt_age_ns < SILENT_NS)
		say(out, "%.64s has no fabric time: its receipts carry none", host);
	else if (entry && entry->noted_since_receipt)
		say(out,
		    "%.64s sent no receipt for the last %llu packets that were sampled: its "
		    "daemon is old or stopped, or receipts are lost",
		    host, (unsigned long long)entry->noted_since_receipt);
	else if (qp->qp.sample_flags & ESC_SAMPLE_NO_FEEDBACK)
		say(out, "%.64s is not known to answer with receipts", host);
	else
		say(out, "none of its packets was sampled in the last second");
}

/* --- numbers --- */

static void put_number(json_t *object, const char *key, int64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

json_t *report_span(const struct delays_span *span)
{
	json_t *object = json_object();

	json_put_count(object, "samples", span->samples);
	put_number(object, "min", span->min_ns);
	put_number(object, "p50", span->p50_ns);
	put_number(object, "p99", span->p99_ns);
	put_number(object, "max", span->max_ns);
	put_number(object, "mean", (int64_t)span->mean_ns);
	json_put_count(object, "bound", span->bound_ns);
	json_put_count(object, "above_threshold", span->over);
	json_put_count(object, "crossings", span->crossings);
	json_put_count(object, "ce", span->ce);
	return object;
}

static void put_ever(json_t *object, const struct delays_entry *entry)
{
	struct delays_span ever;
	json_t *json;

	delays_ever(entry, &ever);
	if (!ever.samples)
		return;
	json = report_span(&ever);
	json_object_del(json, "mean");
	json_object_del(json, "ce");
	if (!ever.p50_ns && !ever.p99_ns) {
		json_object_del(json, "p50");
		json_object_del(json, "p99");
	}
	json_object_set_new(object, "owd_lifetime_ns", json);
}

/* Bytes over the time in which they arrived, first packet to last, is what a message got. */
static void put_messages_timed(json_t *object, const struct delays_span *span)
{
	double count = (double)span->messages;
	json_t *json;

	if (!span->messages)
		return;
	json = json_object();
	json_put_count(json, "count", span->messages);
	put_number(json, "bytes", (int64_t)((double)span->message_bytes / count));
	put_number(json, "delay_ns", (int64_t)((double)span->message_delay_sum_ns / count));
	json_put_count(json, "delay_max_ns", span->message_delay_max_ns);
	put_number(json, "spread_ns", (int64_t)((double)span->message_spread_sum_ns / count));
	if (span->message_spread_sum_ns)
		put_number(json, "throughput_bps",
			   (int64_t)((double)span->message_bytes * 8e9 /
				     (double)span->message_spread_sum_ns));
	json_object_set_new(object, "messages_timed", json);
}

static void put_recent(json_t *object, const struct delays_entry *entry)
{
	const struct delays_span *recent = &entry->recent;

	if (!recent->samples)
		return;
	json_object_set_new(object, "owd_ns", report_span(recent));
	json_object_set_new(object, "stack_ns",
			    json_pack("{s:I}", "max", (json_int_t)recent->stack_max_ns));
	if (recent->queue_samples)
		json_object_set_new(object, "host_queue_ns",
				    json_pack("{s:I, s:I}", "samples",
					      (json_int_t)recent->queue_samples, "max",
					      (json_int_t)recent->queue_max_ns));
	put_messages_timed(object, recent);
}

static void put_counts(json_t *object, const struct delays_entry *entry)
{
	json_put_count(object, "samples_sent", entry->samples_sent);
	json_put_count(object, "receipts", entry->receipts);
	json_put_count(object, "receipts_untimed", entry->receipts - entry->samples);
	json_put_count(object, "samples_discarded", entry->samples_discarded);
	json_put_count(object, "samples_expired", entry->samples_expired);
	if (entry->receipts)
		put_number(object, "feedback_ns", (int64_t)entry->feedback_ns);
}

void report_put_delays(json_t *object, const struct report_delays *facts, const struct qp_entry *qp)
{
	const struct delays_entry *entry = delays_find(facts->delays, &qp->key);
	const char *host =
		members_host(facts->members,
			     qp->key.direction == ESC_DIRECTION_TX ? &qp->key.dst : &qp->key.src);
	char why[256];

	json_put_text(object, "peer", host);
	if (entry && entry->known) {
		put_recent(object, entry);
		if (entry->floor_known)
			put_number(object, "owd_floor_ns", entry->floor_ns);
		put_ever(object, entry);
		put_counts(object, entry);
	}
	if (entry && entry->recent.samples)
		return;
	report_delays_why(facts, qp, entry, why);
	json_put_text(object, "owd_note", why);
}

/* --- peers and paths --- */

json_t *report_path(const struct report_delays *facts, const struct delays_group *group)
{
	const struct port_info *port = report_delays_port(facts, group->port);
	char address[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "peer", group->host);
	json_put_text(object, "dst", address_format(&group->dst, address));
	json_put_count(object, "sport", group->sport);
	json_put_text(object, "interface", port ? port->name : NULL);
	json_put_count(object, "qps", group->qps);
	json_put_count(object, "qps_sampled", group->sampled);
	json_object_set_new(object, "bytes_per_second", json_real(group->bytes_per_second));
	json_object_set_new(object, "loss_per_second", json_real(group->loss_per_second));
	if (group->recent.samples)
		json_object_set_new(object, "owd_ns", report_span(&group->recent));
	if (group->floor_known)
		put_number(object, "owd_floor_ns", group->floor_ns);
	return object;
}

static const struct delays_group *find_group(const struct delays_group *groups, size_t count,
					     const char *host, unsigned int plane)
{
	for (size_t i = 0; host && i < count; i++)
		if (groups[i].host && !strcmp(groups[i].host, host) && groups[i].port == plane)
			return &groups[i];
	return NULL;
}

/* Queue pairs of several interfaces of a plane are one peer's. */
void report_put_peer_delays(json_t *peers, const struct delays *delays)
{
	uint8_t planes[ESC_PORTS_MAX];
	struct report_delays facts;
	struct delays_group *groups;
	size_t count, i;
	json_t *peer;

	report_delays_begin(&facts, delays);
	for (unsigned int port = 0; port < ESC_PORTS_MAX; port++) {
		const struct port_info *info = report_delays_port(&facts, port);

		planes[port] = info ? info->plane : MESH_PLANES;
	}
	if (delays_group(facts.delays, facts.members, DELAYS_BY_PEER, planes, &groups, &count))
		goto out;
	json_array_foreach (peers, i, peer) {
		const char *plane = json_string_value(json_object_get(peer, "plane"));
		unsigned int p = plane && !strcmp(plane, config_plane_name(FLEET_PLANE_FRONTEND));
		const struct delays_group *group = find_group(
			groups, count, json_string_value(json_object_get(peer, "peer")), p);

		if (!group)
			continue;
		json_put_count(peer, "qps", group->qps);
		if (group->recent.samples)
			json_object_set_new(peer, "qp_owd_out_ns", report_span(&group->recent));
	}
	free(groups);
out:
	report_delays_end(&facts);
}

void report_put_receipts(json_t *status, const struct delays *delays)
{
	const struct config *config = delays->core->config;
	uint64_t interval_ns = delays ? delays_interval_ns(delays) : 0;
	json_t *object = json_object();

	json_put_text(object, "mode", config->receipts.on ? "on" : "off");
	json_put_count(object, "qps_sampled", delays_tracked(delays));
	if (config->receipts.host_queue)
		json_object_set_new(object, "host_queue", json_boolean(delays->host_queue));
	if (*delays->host_queue_note)
		json_put_text(object, "host_queue_note", delays->host_queue_note);
	if (interval_ns)
		json_put_count(object, "poll_interval_ms", interval_ns / 1000000);
	if (interval_ns > DELAYS_FAST_NS)
		json_object_set_new(object, "poll_note",
				    json_sprintf("more than %d queue pairs are sampled: their "
						 "delays are looked at once a second, not four "
						 "times",
						 DELAYS_FAST_QPS));
	json_object_set_new(status, "receipts", object);
}
