// SPDX-License-Identifier: BSD-2-Clause
/* Events with their evidence, the reply to `links`, `status` and metrics. */
#include <math.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "nic/nic.h"
#include "qp/qp.h"

#define EVIDENCE_QPS 8	/* queue pairs that an event lists; it states how many there were */
#define EVIDENCE_JOBS 8 /* the same of jobs */

#define LINK_METRICS(X)                                                                            \
	X(LINK_FLAPS, "link_flaps_total", COUNTER,                                                 \
	  "Times that the link lost its carrier, planned work left out.")                          \
	X(LINK_FLAPS_1H, "link_flaps_1h", GAUGE,                                                   \
	  "The same within the last hour, exactly: compare this one with a limit.")                \
	X(LINK_PLANNED, "link_planned_losses_total", COUNTER,                                      \
	  "Carrier losses that are not flaps: set down, just set up, just booted or loaded.")      \
	X(LINK_RESETS, "link_resets_total", COUNTER,                                               \
	  "Resets of the kernel's counters of the link.")                                          \
	X(LINK_CHANGE, "link_last_change_timestamp_seconds", GAUGE,                                \
	  "When the carrier changed last.")                                                        \
	X(LINK_ALARM, "link_alarm", GAUGE,                                                         \
	  "1: the link has the alarm `flapping` or `down`; ports down by design have none.")       \
	X(LINK_PHY_DOWNS, "link_phy_down_total", COUNTER,                                          \
	  "Times that the PHY lost the link, as the driver counts them.")                          \
	X(LINK_FEC_CORRECTED, "link_fec_corrected_blocks_total", COUNTER,                          \
	  "FEC blocks with errors that were corrected.")                                           \
	X(LINK_FEC_UNCORRECTABLE, "link_fec_uncorrectable_blocks_total", COUNTER,                  \
	  "FEC blocks with errors that were not corrected.")                                       \
	X(LINK_SYMBOL_ERRORS, "link_symbol_errors_total", COUNTER, "Symbol errors of the PHY.")    \
	X(LINK_PAUSE, "pause_frames_total", COUNTER, "PFC frames that stop a priority.")           \
	X(LINK_GLOBAL_PAUSE, "global_pause_frames_total", COUNTER,                                 \
	  "Pause frames that stop the whole link.")                                                \
	X(LINK_TEMPERATURE, "link_module_temperature_celsius", GAUGE,                              \
	  "Temperature of the link's module.")                                                     \
	X(LINK_RDMA_DOWNED, "link_rdma_downed_total", COUNTER,                                     \
	  "The counter link_downed of the RDMA port.")                                             \
	X(LINK_MESSAGES, "link_messages_total", COUNTER,                                           \
	  "Messages of the kernel on changes of any link of the host.")                            \
	X(LINK_OVERRUNS, "link_message_overruns_total", COUNTER,                                   \
	  "Times that the kernel had no room for such messages; all links are read again then.")
enum { LINK_METRICS(METRIC_ENUM) };
const struct metric link_metrics[] = {LINK_METRICS(METRIC){}};
const struct event_kind link_events[] = {LINK_EVENTS(EVENT_KIND){}};

static const char *state_name(const struct link_entry *entry)
{
	uint32_t state = entry->link.state;

	if (!entry->link.ifindex)
		return "absent";
	if (!(state & ESC_LINK_ADMIN_UP))
		return "admin_down";
	if (state & ESC_LINK_CARRIER)
		return "up";
	return link_is_expected(entry) ? "down" : "unused";
}

static uint64_t ago_ms(uint64_t boot_ns)
{
	return (link_now_ns() - boot_ns) / 1000000;
}

bool links_next(const struct links *links, size_t *at, struct links_facts *out)
{
	while (*at < links->count) {
		const struct link_entry *entry = &links->list[(*at)++];

		if (!entry->link.ifindex)
			continue;
		memcpy(out->name, entry->name, sizeof(out->name));
		memcpy(out->upper, entry->upper, sizeof(out->upper));
		out->flaps_1h = link_count(&entry->link, link_now_ns(), LINK_HOUR_NS);
		return true;
	}
	return false;
}

/* --- evidence: who used the link, and what failover did --- */

/* A lower device carries what its upper one has. */
static const char *port_of(const struct link_entry *entry)
{
	return entry->upper[0] ? entry->upper : entry->name;
}

static bool has_text(const json_t *array, const char *text)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!strcmp(json_string_value(json_array_get(array, i)), text))
			return true;
	return false;
}

/* {"qps": how many, "qp": some of them, "jobs": of them} into @out. */
static void put_users(const struct links *links, const struct link_entry *entry, json_t *out)
{
	json_t *names = json_array(), *jobs = json_array();
	const struct qp_entry *entries;
	size_t count, used = 0;

	entries = qptable_entries(links->qps, &count);
	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *qp = &entries[i];
		const char *port = dataplane_port_name(links->dataplane, qp->qp.port);
		const struct owner *owner;
		char text[ADDRESS_QP_BYTES];

		if (!port || strcmp(port, port_of(entry)))
			continue;
		if (used++ < EVIDENCE_QPS)
			json_array_append_new(
				names, json_string(address_format_qp(&qp->key.src, &qp->key.dst,
								     qp->key.dest_qpn, text)));
		owner = qptable_owner(links->qps, &qp->key, entry->details.rdma);
		if (owner && owner->job.name[0] && json_array_size(jobs) < EVIDENCE_JOBS &&
		    !has_text(jobs, owner->job.name))
			json_array_append_new(jobs, json_string(owner->job.name));
	}
	json_put_count(out, "qps", used);
	json_put(out, "qp", json_array_size(names) ? json_incref(names) : NULL);
	json_put(out, "jobs", json_array_size(jobs) ? json_incref(jobs) : NULL);
	json_decref(names);
	json_decref(jobs);
}

static void put_number(json_t *out, const char *key, uint64_t value)
{
	if (value != LINK_UNKNOWN)
		json_put_count(out, key, value);
}

static json_t *priorities_json(const uint64_t list[LINK_PRIORITIES])
{
	json_t *object = json_object();

	for (int i = 0; i < LINK_PRIORITIES; i++)
		put_number(object, (char[]){(char)('0' + i), '\0'}, list[i]);
	if (json_object_size(object))
		return object;
	json_decref(object);
	return NULL;
}

/* What the driver reports. */
static void put_details(json_t *out, const struct link_details *details)
{
	json_t *rdma;

	json_put_text(out, "ext_state", details->ext_state);
	put_number(out, "phy_downs", details->ext_downs);
	put_number(out, "fec_corrected_blocks", details->fec_corrected);
	put_number(out, "fec_uncorrectable_blocks", details->fec_uncorrectable);
	put_number(out, "symbol_errors", details->symbol_errors);
	put_number(out, "pause_rx_frames", details->pause_rx);
	put_number(out, "pause_tx_frames", details->pause_tx);
	json_put(out, "priority_pause_rx_frames", priorities_json(details->priority_rx));
	json_put(out, "priority_pause_tx_frames", priorities_json(details->priority_tx));
	if (details->temperature_mc != INT32_MIN)
		json_put_real(out, "module_celsius", details->temperature_mc / 1000.0);
	if (!details->rdma[0])
		return;
	rdma = json_pack("{s:s, s:I}", "device", details->rdma, "port",
			 (json_int_t)details->rdma_port);
	json_put_text(rdma, "state", details->rdma_state);
	json_put_text(rdma, "phys_state", details->rdma_phys);
	put_number(rdma, "link_downed", details->rdma_downed);
	json_put(out, "rdma", rdma);
}

/* --- events --- */

static void report(struct links *links, const struct link_entry *entry, int kind, json_t *seen,
		   json_t *done, json_t *expected, json_t *result)
{
	events_add(links->core->events, &(struct event){.kind = &link_events[kind],
							.subject = entry->name,
							.seen = seen,
							.done = done,
							.expected = expected,
							.result = result});
}

void link_report_change(struct links *links, const struct link_entry *entry,
			const struct link_change *change)
{
	const struct esc_link *link = &entry->link;
	bool begins = link->state & ESC_LINK_LOST;
	json_t *seen, *users = begins ? json_object() : NULL;

	if (change->reset || change->replaced)
		report(links, entry, LINK_RESET,
		       json_pack("{s:b, s:I}", "replaced", change->replaced, "ifindex",
				 (json_int_t)link->ifindex),
		       NULL, NULL, NULL);
	if (change->flaps || change->planned) {
		seen = json_pack("{s:I, s:I, s:I, s:I, s:s}", "flaps", (json_int_t)change->flaps,
				 "planned", (json_int_t)change->planned, "flaps_1h",
				 (json_int_t)link_count(link, link->seen_ns, LINK_HOUR_NS),
				 "carrier_down_count", (json_int_t)link->down_count, "state",
				 state_name(entry));
		log_info("%s: link down, %s now", entry->name, state_name(entry));
		if (users)
			put_users(links, entry, users);
		events_add(links->core->events, &(struct event){
							.kind = &link_events[LINK_DOWN],
							.subject = entry->name,
							.no_condition = !begins,
							.seen = seen,
							.result = json_incref(users),
						});
	}
	json_decref(users);
	if (change->returned) {
		log_info("%s: link up", entry->name);
		report(links, entry, LINK_BACK,
		       json_pack("{s:I}", "duration_ns", (json_int_t)change->lasted_ns), NULL, NULL,
		       NULL);
	}
}

void link_report_flapping(struct links *links, const struct link_entry *entry)
{
	const struct esc_link *link = &entry->link;
	char within[UNITS_TEXT_BYTES];
	json_t *seen, *users = json_object();

	seen = json_pack("{s:I, s:I, s:I}", "flaps", (json_int_t)link->alarm_flaps, "within_ns",
			 (json_int_t)link->alarm_within_ns, "carrier_down_count",
			 (json_int_t)link->down_count);
	put_details(seen, &entry->details);
	put_users(links, entry, users);
	log_warning("%s lost its carrier %u times within %s; `escapement links ack %s` ends the "
		    "alarm",
		    entry->name, link->alarm_flaps, units_duration(within, link->alarm_within_ns),
		    entry->name);
	report(links, entry, LINK_FLAPPING, seen, nic_evidence(links->nic, entry->name),
	       json_pack("{s:I}", "more_than", (json_int_t)link->alarm_more_than), users);
}

void link_report_end(struct links *links, const struct link_entry *entry, const char *reason,
		     uint64_t alarm_ns)
{
	report(links, entry, LINK_STABLE_AGAIN,
	       json_pack("{s:I}", "flaps", (json_int_t)entry->link.alarm_flaps),
	       json_pack("{s:s}", "reason", reason), NULL,
	       json_pack("{s:I}", "duration_ns", (json_int_t)(link_now_ns() - alarm_ns)));
}

void link_report_storm(const struct links *links, bool overrun)
{
	const struct link_messages *messages = &links->messages;

	log_info("%u messages of links within a second, the newest of %s%s", messages->in_second,
		 messages->newest, overrun ? "; some were lost" : "");
	events_add(links->core->events,
		   &(struct event){
			   .kind = &link_events[LINK_STORM],
			   .seen = json_pack("{s:i, s:s, s:b}", "messages_1s",
					     (int)messages->in_second, "newest", messages->newest,
					     "overrun", overrun),
		   });
}

void link_report_down(struct links *links, const struct link_entry *entry)
{
	json_t *seen, *users = json_object();

	seen = json_pack("{s:I}", "no_carrier_ns",
			 (json_int_t)(link_now_ns() - entry->link.changed_ns));
	put_details(seen, &entry->details);
	put_users(links, entry, users);
	log_warning("%s has no carrier%s%s", entry->name, entry->details.ext_state ? ": " : "",
		    entry->details.ext_state ? entry->details.ext_state : "");
	report(links, entry, LINK_NO_CARRIER, seen, nic_evidence(links->nic, entry->name),
	       json_pack("{s:s}", "because",
			 entry->member ? "the members list has its address"
				       : "it had a carrier since the boot"),
	       users);
}

void link_report_excused(struct links *links, const struct link_entry *entry)
{
	int kind = entry->link.state & ESC_LINK_CARRIER ? LINK_BACK : LINK_EXCUSED;

	report(links, entry, kind, json_pack("{s:s}", "state", state_name(entry)), NULL, NULL,
	       NULL);
}

/* --- replies --- */

json_t *link_json(const struct links *links, const struct link_entry *entry)
{
	static const char *const roles[] = {"configured", "sibling", "lower"};
	const struct esc_link *link = &entry->link;
	json_t *out = json_object(), *alarm = NULL;

	json_put_text(out, "netdev", entry->name);
	json_put_text(out, "role", roles[entry->role]);
	json_put_text(out, "upper", entry->upper);
	json_put_text(out, "state", state_name(entry));
	if (link->alarm_ns)
		alarm = json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", "flapping", "since_ms",
				  (json_int_t)ago_ms(link->alarm_ns), "flaps",
				  (json_int_t)link->alarm_flaps, "more_than",
				  (json_int_t)link->alarm_more_than, "within_ns",
				  (json_int_t)link->alarm_within_ns);
	else if (link->state & ESC_LINK_DOWN_ALARM)
		alarm = json_pack("{s:s, s:I}", "kind", "down", "since_ms",
				  (json_int_t)ago_ms(link->changed_ns));
	json_put(out, "alarm", alarm);
	if (link->seen_ns) {
		json_put_count(out, "flaps_1h", link_count(link, link_now_ns(), LINK_HOUR_NS));
		json_put_count(out, "flaps", link->flaps);
		json_put_count(out, "planned_losses", link->planned);
		json_put_count(out, "counter_resets", link->resets);
		json_put_count(out, "carrier_down_count", link->down_count);
		json_put_count(out, "carrier_up_count", link->up_count);
		json_put_count(out, "last_change_ms", ago_ms(link->changed_ns));
	}
	if (entry->details_ns) {
		put_details(out, &entry->details);
		json_put_count(out, "details_ms", (time_local_ns() - entry->details_ns) / 1000000);
	}
	put_users(links, entry, out);
	json_put(out, "failover", nic_evidence(links->nic, entry->name));
	return out;
}

void link_status(void *self, json_t *status)
{
	json_t *object = json_object(), *flapping = json_array(), *down = json_array();
	const struct links *links = self;

	link_for_each (entry, (struct links *)links) {
		if (entry->link.alarm_ns)
			json_array_append_new(flapping, json_string(entry->name));
		if (!strcmp(state_name(entry), "down"))
			json_array_append_new(down, json_string(entry->name));
	}
	json_put_count(object, "watched", links->count);
	json_put(object, "flapping", flapping);
	json_put(object, "down", down);
	if (links->left_out)
		json_put_count(object, "left_out", links->left_out);
	json_put(status, "links", object);
}

/* --- metrics --- */

/* A sample of each link; @value: NAN where it is not known. */
typedef double link_value_fn(const struct link_entry *entry);

static void write_family(const struct links *links, FILE *out, int metric, link_value_fn *value)
{
	struct prom_family *family = FAMILY_OF(&link_metrics[metric]);

	link_for_each (entry, (struct links *)links) {
		const struct link_details *details = &entry->details;
		double number = entry->link.seen_ns ? value(entry) : NAN;
		char port[16] = "";

		if (isnan(number))
			continue;
		if (details->rdma[0])
			snprintf(port, sizeof(port), "%u", details->rdma_port);
		prom_value(family, number, "netdev", entry->name, "device", details->rdma, "port",
			   port, NULL);
	}
}

static double known(uint64_t value)
{
	return value == LINK_UNKNOWN ? NAN : (double)value;
}

static double value_flaps(const struct link_entry *entry)
{
	return (double)entry->link.flaps;
}

static double value_flaps_1h(const struct link_entry *entry)
{
	return (double)link_count(&entry->link, link_now_ns(), LINK_HOUR_NS);
}

static double value_planned(const struct link_entry *entry)
{
	return (double)entry->link.planned;
}

static double value_resets(const struct link_entry *entry)
{
	return entry->link.resets;
}

static double value_change(const struct link_entry *entry)
{
	uint64_t ago_ns = link_now_ns() - entry->link.changed_ns;

	return (double)((time_realtime_ns() - ago_ns) / 1000000) / 1e3;
}

static double value_alarm(const struct link_entry *entry)
{
	return entry->link.alarm_ns || entry->link.state & ESC_LINK_DOWN_ALARM;
}

static double value_phy_downs(const struct link_entry *entry)
{
	return known(entry->details.ext_downs);
}

static double value_fec_corrected(const struct link_entry *entry)
{
	return known(entry->details.fec_corrected);
}

static double value_fec_uncorrectable(const struct link_entry *entry)
{
	return known(entry->details.fec_uncorrectable);
}

static double value_symbol_errors(const struct link_entry *entry)
{
	return known(entry->details.symbol_errors);
}

static double value_temperature(const struct link_entry *entry)
{
	int32_t value_mc = entry->details.temperature_mc;

	return value_mc == INT32_MIN ? NAN : value_mc / 1000.0;
}

static double value_rdma_downed(const struct link_entry *entry)
{
	return known(entry->details.rdma_downed);
}

static void write_pause(const struct links *links, FILE *out)
{
	struct prom_family *global = FAMILY_OF(&link_metrics[LINK_GLOBAL_PAUSE]);

	link_for_each (entry, (struct links *)links) {
		if (entry->details.pause_rx != LINK_UNKNOWN)
			prom_count(global, entry->details.pause_rx, "netdev", entry->name,
				   "direction", "rx", NULL);
		if (entry->details.pause_tx != LINK_UNKNOWN)
			prom_count(global, entry->details.pause_tx, "netdev", entry->name,
				   "direction", "tx", NULL);
	}
}

static void write_priorities(const struct links *links, FILE *out)
{
	struct prom_family *family = FAMILY_OF(&link_metrics[LINK_PAUSE]);

	link_for_each (entry, (struct links *)links) {
		for (int i = 0; i < 2 * LINK_PRIORITIES; i++) {
			const struct link_details *details = &entry->details;
			bool tx = i >= LINK_PRIORITIES;
			int at = i % LINK_PRIORITIES;
			uint64_t frames = tx ? details->priority_tx[at] : details->priority_rx[at];

			if (frames != LINK_UNKNOWN)
				prom_count(family, frames, "netdev", entry->name, "priority",
					   (char[]){(char)('0' + at), '\0'}, "direction",
					   tx ? "tx" : "rx", NULL);
		}
	}
}

void link_write_metrics(void *self, FILE *out)
{
	const struct links *links = self;
	static const struct {
		int metric;
		link_value_fn *value;
	} families[] = {
		{LINK_FLAPS, value_flaps},
		{LINK_FLAPS_1H, value_flaps_1h},
		{LINK_PLANNED, value_planned},
		{LINK_RESETS, value_resets},
		{LINK_CHANGE, value_change},
		{LINK_ALARM, value_alarm},
		{LINK_PHY_DOWNS, value_phy_downs},
		{LINK_FEC_CORRECTED, value_fec_corrected},
		{LINK_FEC_UNCORRECTABLE, value_fec_uncorrectable},
		{LINK_SYMBOL_ERRORS, value_symbol_errors},
		{LINK_TEMPERATURE, value_temperature},
		{LINK_RDMA_DOWNED, value_rdma_downed},
	};

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		write_family(links, out, families[i].metric, families[i].value);
	write_pause(links, out);
	write_priorities(links, out);
	prom_count(FAMILY_OF(&link_metrics[LINK_MESSAGES]), links->messages.total, NULL);
	prom_count(FAMILY_OF(&link_metrics[LINK_OVERRUNS]), links->messages.overruns, NULL);
}
