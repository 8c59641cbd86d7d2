// SPDX-License-Identifier: BSD-2-Clause
/* What NIC failover tells: events, the report, metrics. */
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "base/address.h"
#include "config/config.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/log.h"
#include "own.h"
#include "base/prom.h"

#define NIC_METRICS(X)                                                                             \
	X(NIC_UP, "nic_up", GAUGE,                                                                 \
	  "1: the NIC of a pair is used; 0: it is down, or in hold-down.")                         \
	X(NIC_FAILOVERS, "nic_failovers_total", COUNTER,                                           \
	  "Times that a pair of addresses changed to other NICs, by reason.")                      \
	X(NIC_PACKETS, "nic_packets_total", COUNTER,                                               \
	  "Packets that NIC failover handled: encapsulated in UDP, redirected as they were to "    \
	  "the "                                                                                   \
	  "other NIC, decapsulated, retransmitted after a failover.")                              \
	X(NIC_LOST, "nic_lost_packets_total", COUNTER,                                             \
	  "Packets that were dropped, by reason; no_route: no route was usable.")
enum { NIC_METRICS(METRIC_ENUM) };
const struct metric nic_metrics[] = {NIC_METRICS(METRIC){}};
const struct event_kind nic_events[] = {NIC_EVENTS(EVENT_KIND){}};

/* --- events --- */

static void report_device(struct nic *nic, const struct nic_news *news)
{
	bool down = news->kind == NIC_NEWS_DOWN;

	if (down)
		log_warning("%s is dead (%s): its queue pairs leave by the NIC beside it",
			    news->device, nic_why_name(news->why));
	else
		log_info("%s is well again and used", news->device);
	events_add(
		nic->core->events,
		&(struct event){
			.kind = &nic_events[down ? NIC_DOWN : NIC_RETURN],
			.subject = news->device,
			.seen = down ? json_pack("{s:s}", "reason", nic_why_name(news->why))
				     : json_pack("{s:I}", "up_for_ns", (json_int_t)news->lasted_ns),
			.expected = down ? json_pack("{s:I}", "return_after_ns",
						     (json_int_t)news->hold_ns)
					 : NULL,
		});
}

static void report_addresses(struct nic *nic, const struct nic_news *news)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], subject[2 * ADDRESS_TEXT_BYTES + 2];
	bool back = news->kind == NIC_NEWS_BACK;

	snprintf(subject, sizeof(subject), "%s>%s", address_format(&news->key.src, src),
		 address_format(&news->key.dst, dst));
	log_info("%s: by %s now, not %s (%s)", subject, nic_way_name(news->to),
		 nic_way_name(news->from), nic_why_name(news->why));
	events_add(nic->core->events,
		   &(struct event){
			   .kind = &nic_events[back ? NIC_FAILBACK : NIC_FAILOVER],
			   .subject = subject,
			   .seen = json_pack("{s:s, s:I}", "reason", nic_why_name(news->why),
					     "no_reply_for_ns", (json_int_t)news->silent_ns),
			   .done = json_pack("{s:s, s:s}", "from", nic_way_name(news->from), "to",
					     nic_way_name(news->to)),
			   .result = json_pack("{s:I}", "duration_ns", (json_int_t)news->lasted_ns),
		   });
}

int nic_on_news(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct nic *nic = context;
	struct nic_news news;
	uint64_t count;

	(void)source;
	(void)events;
	if (read(fd, &count, sizeof(count)) < 0)
		return 0;
	while (nic_watch_news(nic->watch, &news)) {
		if (news.kind == NIC_NEWS_DOWN || news.kind == NIC_NEWS_RETURN)
			report_device(nic, &news);
		else
			report_addresses(nic, &news);
	}
	return 0;
}

/* --- the report --- */

static const struct nic_device *device_of(const struct nic_watch_facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->device_count; i++)
		if (!strcmp(facts->devices[i].name, name))
			return &facts->devices[i];
	return NULL;
}

static const char *device_state(const struct nic_device *device)
{
	return device->why != NIC_WHY_NONE ? "down" : device->guard.down ? "hold_down" : "up";
}

static json_t *device_json(const struct nic_watch_facts *facts, const char *name)
{
	const struct nic_device *device = device_of(facts, name);
	json_t *object = json_pack("{s:s}", "name", name);

	if (!device)
		return object;
	json_object_set_new(object, "state", json_string(device_state(device)));
	if (device->why != NIC_WHY_NONE)
		json_object_set_new(object, "reason", json_string(nic_why_name(device->why)));
	return object;
}

static json_t *pair_json(const struct nic_watch_facts *facts, const struct nic_pair *pair)
{
	json_t *object = json_pack("{s:o, s:o}", "nic", device_json(facts, pair->first), "sibling",
				   device_json(facts, pair->second));

	if (pair->dummy[0])
		json_object_set_new(object, "dummy", json_string(pair->dummy));
	return object;
}

static json_t *way_json(const struct nic_used *used, unsigned int i)
{
	const struct nic_way *way = &used->ways[i];
	json_t *object = json_pack("{s:s, s:b, s:i}", "route", nic_way_name(i), "usable",
				   !way->guard.down, "no_reply", (int)way->probes.unreplied);

	if (way->rtt_ns)
		json_object_set_new(object, "rtt_ns", json_integer(way->rtt_ns));
	return object;
}

static json_t *used_json(const struct nic_used *used, uint64_t now_ns)
{
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES];
	json_t *ways = json_array();
	json_t *object =
		json_pack("{s:s, s:s, s:s, s:s, s:I}", "src", address_format(&used->key.src, src),
			  "dst", address_format(&used->key.dst, dst), "peer", used->host, "route",
			  nic_way_name(used->taken), "since_ms",
			  (json_int_t)((now_ns - used->since_ns) / 1000000));

	if (used->why != NIC_WHY_NONE)
		json_object_set_new(object, "reason", json_string(nic_why_name(used->why)));
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++)
		json_array_append_new(ways, way_json(used, i));
	json_object_set_new(object, "routes", ways);
	return object;
}

static void put_counts(json_t *object, const struct nic *nic)
{
	struct esc_nic_counts counts;

	nic_kernel_counts(&nic->kernel, &counts);
	json_object_set_new(object, "encapsulated", json_integer(counts.wrapped));
	json_object_set_new(object, "redirected", json_integer(counts.redirected));
	json_object_set_new(object, "decapsulated", json_integer(counts.unwrapped));
	json_object_set_new(object, "no_route", json_integer(counts.held));
	json_object_set_new(object, "replied", json_integer(counts.answered));
}

static void put_watch(json_t *object, json_t *pairs, json_t *used, const struct nic *nic,
		      const struct nic_watch_facts *facts)
{
	for (size_t i = 0; i < nic->plan.pair_count; i++)
		json_array_append_new(pairs, pair_json(facts, &nic->plan.pairs[i]));
	for (size_t i = 0; i < facts->used_count; i++)
		json_array_append_new(used, used_json(&facts->used[i], time_local_ns()));
	json_object_set_new(object, "peers", json_integer(nic->peer_count));
	put_counts(object, nic);
	json_object_set_new(object, "probes_sent", json_integer(facts->probes_sent));
	json_object_set_new(object, "probes_replied", json_integer(facts->probes_answered));
	json_object_set_new(object, "retransmitted", json_integer(facts->resent));
	if (facts->left_out)
		json_object_set_new(object, "not_probed", json_integer(facts->left_out));
}

static json_t *reply_failover(void *self, struct request *request)
{
	const struct nic *nic = self;
	json_t *pairs = json_array(), *used = json_array(), *object;
	struct nic_watch_facts *facts;

	(void)request;
	object = json_pack("{s:b, s:s, s:i}", "on", nic->watch && !nic->off, "mode",
			   nic_modes[nic_keys(nic->core->config)->mode], "port",
			   nic_keys(nic->core->config)->port);
	facts = nic->watch ? calloc(1, sizeof(*facts)) : NULL;
	if (facts) {
		nic_watch_get(nic->watch, facts);
		put_watch(object, pairs, used, nic, facts);
	}
	if (nic->note[0])
		json_object_set_new(object, "note", json_string(nic->note));
	json_object_set_new(object, "pairs", pairs);
	json_object_set_new(object, "used", used);
	free(facts);
	return object;
}

const struct verb_handler nic_verb_handlers[] = {{"failover", reply_failover}, {}};

void nic_status(void *self, json_t *status)
{
	const struct nic *nic = self;
	size_t dead = 0, over = 0;
	struct nic_watch_facts *facts;
	json_t *object;

	if (!nic->plan.pair_count && !nic->note[0])
		return;
	object = json_pack("{s:b, s:I}", "on", nic->watch && !nic->off, "pairs",
			   (json_int_t)nic->plan.pair_count);
	if (nic->note[0])
		json_object_set_new(object, "note", json_string(nic->note));
	json_object_set_new(status, "nic_failover", object);
	facts = nic->watch ? calloc(1, sizeof(*facts)) : NULL;
	if (!facts)
		return;
	nic_watch_get(nic->watch, facts);
	for (size_t i = 0; i < facts->device_count; i++)
		dead += facts->devices[i].guard.down;
	for (size_t i = 0; i < facts->used_count; i++)
		over += facts->used[i].taken != ESC_NIC_ROUTE_DIRECT;
	json_object_set_new(object, "dead", json_integer(dead));
	json_object_set_new(object, "used", json_integer(facts->used_count));
	json_object_set_new(object, "failed_over", json_integer(over));
	free(facts);
}

/* --- metrics --- */

static void write_packets(FILE *out, const struct nic *nic, uint64_t resent)
{
	struct prom_family *packets = FAMILY_OF(&nic_metrics[NIC_PACKETS]);
	struct esc_nic_counts counts;

	nic_kernel_counts(&nic->kernel, &counts);
	prom_count(packets, counts.wrapped, "action", "encapsulated", NULL);
	prom_count(packets, counts.redirected, "action", "redirected", NULL);
	prom_count(packets, counts.unwrapped, "action", "decapsulated", NULL);
	prom_count(packets, resent, "action", "retransmitted", NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_LOST]), counts.held, "reason", "no_route", NULL);
}

void nic_write_metrics(void *self, FILE *out)
{
	const struct nic *nic = self;
	struct prom_family *up = FAMILY_OF(&nic_metrics[NIC_UP]);
	struct prom_family *failovers = FAMILY_OF(&nic_metrics[NIC_FAILOVERS]);
	struct nic_watch_facts *facts;

	if (!nic->watch)
		return;
	facts = calloc(1, sizeof(*facts));
	if (!facts)
		return;
	nic_watch_get(nic->watch, facts);
	for (size_t i = 0; i < facts->device_count; i++)
		prom_count(up, !facts->devices[i].guard.down, "netdev", facts->devices[i].name,
			   NULL);
	for (int why = NIC_WHY_CARRIER; why < NIC_WHYS; why++)
		prom_count(failovers, facts->failovers[why], "reason", nic_why_name(why), NULL);
	write_packets(out, nic, facts->resent);
	free(facts);
}
