// SPDX-License-Identifier: BSD-2-Clause
/* Events, the reply to `failover`, and metrics of NIC failover. */
#include <string.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "base/address.h"
#include "base/json.h"
#include "dataplane/dataplane.h"
#include "base/log.h"
#include "internal.h"

#define NIC_METRICS(X)                                                                             \
	X(NIC_UP, "nic_up", GAUGE,                                                                 \
	  "1: the NIC of a pair is used; 0: it is down, or in hold-down.")                         \
	X(NIC_FAILOVERS, "nic_failovers_total", COUNTER,                                           \
	  "Times that a pair of addresses changed to other NICs, by reason.")                      \
	X(NIC_PACKETS, "nic_packets_total", COUNTER,                                               \
	  "Packets that NIC failover handled: encapsulated in UDP, redirected as they were to "    \
	  "the other NIC, decapsulated, retransmitted after a failover.")                          \
	X(NIC_REPAIR_QPS, "nic_repair_qps", GAUGE, "Queue pairs whose packets are kept.")          \
	X(NIC_REPAIRS, "nic_repairs_total", COUNTER,                                               \
	  "Times that a queue pair's packets were sent once more by other NICs.")                  \
	X(NIC_REPAIR_OVERRUNS, "nic_repair_overruns_total", COUNTER,                               \
	  "Repairs that lacked packets: later ones had taken their room.")                         \
	X(NIC_REPAIR_MISSED, "nic_repair_missed_total", COUNTER,                                   \
	  "Packets that were not kept: too long, no ring, or two CPUs at once.")                   \
	X(NIC_LOST, "nic_lost_packets_total", COUNTER,                                             \
	  "Packets that were dropped, by reason; no_route: no route was usable.")                  \
	X(NIC_WITHOUT_ROOM, "nic_addresses_without_room", GAUGE,                                   \
	  "Addresses of peers that do not fit: their queue pairs do not fail over.")
enum { NIC_METRICS(METRIC_ENUM) };
const struct metric nic_metrics[] = {NIC_METRICS(METRIC){}};
const struct event_kind nic_events[] = {NIC_EVENTS(EVENT_KIND){}};

static const char *nic_reason_name(enum nic_reason reason)
{
	static const char *const names[NIC_REASONS] = {"none", "carrier", "admin",
						       "gone", "silent",  "peer"};

	return names[reason];
}

static const char *nic_route_name(enum esc_nic_route route)
{
	static const char *const names[ESC_NIC_ROUTES] = {"direct", "second_to_second",
							  "second_to_first", "first_to_second"};

	return names[route];
}

/* --- events --- */

static void report_device(struct nic *nic, const struct nic_report *report)
{
	bool down = report->kind == NIC_REPORT_DOWN;
	struct event event = {
		.kind = &nic_events[down ? NIC_DOWN : NIC_RETURN],
		.subject = report->device,
	};

	if (down) {
		log_warning("%s is dead (%s): its queue pairs leave by the NIC beside it",
			    report->device, nic_reason_name(report->reason));
		event.seen = json_pack("{s:s}", "reason", nic_reason_name(report->reason));
		event.expected = json_pack("{s:I}", "return_after_ns", (json_int_t)report->hold_ns);
	} else {
		log_info("%s is well again and used", report->device);
		event.seen = json_pack("{s:I}", "up_for_ns", (json_int_t)report->duration_ns);
	}
	events_add(nic->core->events, &event);
}

static void report_addresses(struct nic *nic, const struct nic_report *report)
{
	const char *from = nic_route_name(report->from), *to = nic_route_name(report->to);
	const char *reason = nic_reason_name(report->reason);
	char src[ADDRESS_TEXT_BYTES], dst[ADDRESS_TEXT_BYTES], subject[2 * ADDRESS_TEXT_BYTES + 2];
	bool back = report->kind == NIC_REPORT_BACK;

	snprintf(subject, sizeof(subject), "%s>%s", address_format(&report->key.src, src),
		 address_format(&report->key.dst, dst));
	log_info("%s: by %s now, not %s (%s)", subject, to, from, reason);
	events_add(nic->core->events,
		   &(struct event){
			   .kind = &nic_events[back ? NIC_FAILBACK : NIC_FAILOVER],
			   .subject = subject,
			   .seen = json_pack("{s:s, s:I}", "reason", reason, "no_reply_for_ns",
					     (json_int_t)report->silent_ns),
			   .done = json_pack("{s:s, s:s}", "from", from, "to", to),
			   .result = json_pack("{s:I}", "duration_ns",
					       (json_int_t)report->duration_ns),
		   });
}

int nic_on_report(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct nic *nic = context;
	struct nic_report report;

	(void)source;
	(void)events;
	while (read(fd, &report, sizeof(report)) == sizeof(report)) {
		if (report.kind == NIC_REPORT_DOWN || report.kind == NIC_REPORT_RETURN)
			report_device(nic, &report);
		else
			report_addresses(nic, &report);
	}
	return 0;
}

/* --- replies --- */

/* Valid until the next call; NULL: nothing is protected. */
static const struct nic_facts *read_facts(const struct nic *nic)
{
	static struct nic_facts facts;

	if (!nic->watch)
		return NULL;
	nic_watch_get(nic->watch, &facts);
	return &facts;
}

static json_t *device_json(const struct nic_facts *facts, const char *name)
{
	json_t *object = json_object();

	json_put_text(object, "name", name);
	for (size_t i = 0; i < facts->device_count; i++) {
		const struct nic_device *device = &facts->devices[i];
		bool down = device->reason != NIC_REASON_NONE;

		if (strcmp(device->name, name))
			continue;
		json_put_text(object, "state",
			      down		   ? "down"
			      : device->guard.down ? "hold_down"
						   : "up");
		if (down)
			json_put_text(object, "reason", nic_reason_name(device->reason));
	}
	return object;
}

/* Whether @name is a NIC of the pair that @used belongs to. */
static bool is_used(const struct nic *nic, const struct nic_used *used, const char *name)
{
	const struct nic_pair *pair = &nic->plan.pairs[nic->plan.locals[used->local].pair];

	return !strcmp(pair->first, name) || !strcmp(pair->second, name);
}

json_t *nic_evidence(const struct nic *nic, const char *name)
{
	const struct nic_facts *facts = read_facts(nic);
	size_t pairs = 0, over = 0;
	bool found = false;
	json_t *object;

	for (size_t i = 0; facts && i < facts->device_count; i++)
		found = found || !strcmp(facts->devices[i].name, name);
	if (!found)
		return NULL;
	for (size_t i = 0; i < facts->used_count; i++)
		if (is_used(nic, &facts->used[i], name)) {
			pairs++;
			over += facts->used[i].current != ESC_NIC_ROUTE_DIRECT;
		}
	object = device_json(facts, name);
	json_put_count(object, "pairs", pairs);
	json_put_count(object, "failed_over", over);
	return object;
}

static json_t *used_json(const struct nic_used *used)
{
	json_t *object = json_object(), *routes = json_array();
	char text[ADDRESS_TEXT_BYTES];

	json_put_text(object, "src", address_format(&used->key.src, text));
	json_put_text(object, "dst", address_format(&used->key.dst, text));
	json_put_text(object, "peer", used->host);
	json_put_text(object, "route", nic_route_name(used->current));
	json_put_count(object, "since_ms", (time_local_ns() - used->since_ns) / 1000000);
	if (used->reason != NIC_REASON_NONE)
		json_put_text(object, "reason", nic_reason_name(used->reason));
	for (unsigned int i = 0; i < ESC_NIC_ROUTES; i++) {
		const struct nic_route *route = &used->routes[i];
		json_t *one = json_object();

		json_put_text(one, "route", nic_route_name(i));
		json_put_bool(one, "usable", !route->guard.down);
		json_put_count(one, "no_reply", route->probes.unreplied);
		if (route->rtt_ns)
			json_put_count(one, "rtt_ns", route->rtt_ns);
		json_array_append_new(routes, one);
	}
	json_put(object, "routes", routes);
	return object;
}

static json_t *repair_json(const struct nic *nic)
{
	struct qpring_counts counts;
	json_t *object = json_object();

	nic_repair_counts(nic, &counts);
	json_put_text(object, "mode", nic_repair_modes[nic_keys(nic->core->config)->repair]);
	json_put_count(object, "qps", counts.rings);
	json_put_count(object, "repairs", counts.repairs);
	json_put_count(object, "packets", counts.replayed);
	json_put_count(object, "not_kept", counts.missed + counts.refused);
	return object;
}

static json_t *reply_failover(void *self, struct request *request)
{
	json_t *pairs = json_array(), *used = json_array(), *object = json_object();
	const struct nic *nic = self;
	const struct nic_keys *keys = nic_keys(nic->core->config);
	const struct nic_facts *facts = read_facts(nic);
	struct esc_nic_counts counts;

	(void)request;
	json_put_bool(object, "on", nic->watch && !nic->off);
	json_put_text(object, "mode", nic_modes[keys->mode]);
	json_put_count(object, "port", keys->port);
	for (size_t i = 0; facts && i < nic->plan.pair_count; i++) {
		const struct nic_pair *pair = &nic->plan.pairs[i];
		json_t *one = json_object();

		json_put(one, "nic", device_json(facts, pair->first));
		json_put(one, "sibling", device_json(facts, pair->second));
		json_put_text(one, "dummy", pair->dummy);
		json_array_append_new(pairs, one);
	}
	for (size_t i = 0; facts && i < facts->used_count; i++)
		json_array_append_new(used, used_json(&facts->used[i]));
	if (facts) {
		bpfmap_sum(nic->kernel.counts_fd, 0, &counts, sizeof(counts));
		json_put_bool(object, "authenticated", nic_key_flags(&nic->core->config->keys));
		json_put_count(object, "peers", nic->peer_count);
		if (nic->without_room)
			json_put_count(object, "without_room", nic->without_room);
		json_put_count(object, "encapsulated", counts.wrapped);
		json_put_count(object, "redirected", counts.redirected);
		json_put_count(object, "decapsulated", counts.unwrapped);
		json_put_count(object, "no_route", counts.held);
		json_put_count(object, "replied", counts.replied);
		json_put_count(object, "probes_sent", facts->probes_sent);
		json_put_count(object, "probes_replied", facts->probes_replied);
		json_put(object, "repair", repair_json(nic));
		if (facts->unprobed)
			json_put_count(object, "not_probed", facts->unprobed);
	}
	json_put_text(object, "note", nic->note);
	json_put(object, "pairs", pairs);
	json_put(object, "used", used);
	return object;
}

const struct verb_handler nic_verb_handlers[] = {{"failover", reply_failover}, {}};

void nic_status(void *self, json_t *status)
{
	const struct nic *nic = self;
	const struct nic_facts *facts = read_facts(nic);
	size_t dead = 0, over = 0;
	json_t *object;

	if (!nic->plan.pair_count && !nic->note[0])
		return;
	object = json_object();
	json_put_bool(object, "on", nic->watch && !nic->off);
	json_put_count(object, "pairs", nic->plan.pair_count);
	json_put_text(object, "note", nic->note);
	json_put(status, "nic_failover", object);
	if (!facts)
		return;
	for (size_t i = 0; i < facts->device_count; i++)
		dead += facts->devices[i].guard.down;
	for (size_t i = 0; i < facts->used_count; i++)
		over += facts->used[i].current != ESC_NIC_ROUTE_DIRECT;
	json_put_count(object, "dead", dead);
	json_put_count(object, "used", facts->used_count);
	json_put_count(object, "failed_over", over);
	if (nic->without_room)
		json_put_count(object, "without_room", nic->without_room);
}

/* --- metrics --- */

void nic_write_metrics(void *self, FILE *out)
{
	struct prom_family *up = FAMILY_OF(&nic_metrics[NIC_UP]);
	struct prom_family *failovers = FAMILY_OF(&nic_metrics[NIC_FAILOVERS]);
	struct prom_family *packets = FAMILY_OF(&nic_metrics[NIC_PACKETS]);
	const struct nic *nic = self;
	const struct nic_facts *facts = read_facts(nic);
	struct qpring_counts repair;
	struct esc_nic_counts counts;

	if (!facts)
		return;
	for (size_t i = 0; i < facts->device_count; i++)
		prom_count(up, !facts->devices[i].guard.down, "netdev", facts->devices[i].name,
			   NULL);
	for (int i = NIC_REASON_CARRIER; i < NIC_REASONS; i++)
		prom_count(failovers, facts->failovers[i], "reason", nic_reason_name(i), NULL);
	bpfmap_sum(nic->kernel.counts_fd, 0, &counts, sizeof(counts));
	prom_count(packets, counts.wrapped, "action", "encapsulated", NULL);
	prom_count(packets, counts.redirected, "action", "redirected", NULL);
	prom_count(packets, counts.unwrapped, "action", "decapsulated", NULL);
	nic_repair_counts(nic, &repair);
	prom_count(packets, repair.replayed, "action", "retransmitted", NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_REPAIR_QPS]), repair.rings, NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_REPAIRS]), repair.repairs, NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_REPAIR_OVERRUNS]), repair.overruns, NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_REPAIR_MISSED]), repair.missed + repair.refused,
		   NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_LOST]), counts.held, "reason", "no_route", NULL);
	prom_count(FAMILY_OF(&nic_metrics[NIC_WITHOUT_ROOM]), nic->without_room, NULL);
}
