// SPDX-License-Identifier: BSD-2-Clause
/* Steering in words: events, the answer to `steer`, the keys of `qp`. */
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "core/events.h"
#include "base/log.h"
#include "qp/table.h"
#include "base/json.h"
#include "core/core.h"
#include "internal.h"

static const struct {
	const char *name, *meaning;
} moments[ESC_STEER_MOMENT_MAX] = {
#define X(id, name, text) [ESC_STEER_MOMENT_##id] = {#name, text},
	ESC_STEER_MOMENTS(X)
#undef X
};

static const char *const states[] = {
	[STEERED_WAITS] = "waiting",
	[STEERED_MOVED] = "moved",
	[STEERED_PROVED] = "proved",
	[STEERED_CLEARS] = "clearing",
	[STEERED_COVERED] = "watched",
};

const char *steer_reason_name(enum steer_reason reason)
{
	static const char *const names[] = {
		[STEER_BY_OPERATOR] = "operator",
		[STEER_BY_ROLLBACK] = "rollback",
		[STEER_BY_CONTENTION] = "contention",
		[STEER_BY_TAKEN_BACK] = "taken_back",
		[STEER_BY_COVER] = "watch",
	};

	return names[reason];
}

const char *steer_subject(const struct esc_qp_key *key, char out[128])
{
	return address_format_qp(&key->src, &key->dst, key->dest_qpn, out);
}

const char *steer_interface(const struct steer *steer, unsigned int index, char out[16])
{
	const struct dataplane *dataplane = steer->daemon->dataplane;
	struct port_info port;

	for (unsigned int i = 0; i < dataplane_port_count(dataplane); i++)
		if (!dataplane_port(dataplane, i, &port) && port.index == index) {
			snprintf(out, 16, "%.15s", port.name);
			return out;
		}
	return NULL;
}

/* The port, and the flow label if one is set, that packets leave with. */
static json_t *path_of(const struct steered *entry, uint16_t sport, bool has_label, uint32_t label)
{
	json_t *path = json_object();

	json_put_count(path, "sport", sport ? sport : entry->own_sport);
	if (has_label)
		json_put_count(path, "flow_label", label);
	return path;
}

static json_t *path_before(const struct steered *entry)
{
	return path_of(entry, entry->before.sport, entry->before.flags & ESC_QP_STEER_LABEL,
		       entry->before.flow_label);
}

static json_t *path_wanted(const struct steered *entry)
{
	return path_of(entry, entry->want.sport, entry->want.flags & ESC_STEER_LABEL,
		       entry->want.flow_label);
}

/* Since @from, where the stretch that is told of began. */
static json_t *counts_of(const struct steered *entry, const struct verify_counts *from)
{
	const struct verify_counts *now = &entry->counts;
	json_t *seen = json_object();

	json_put_count(seen, "sent", now->sent - from->sent);
	json_put_count(seen, "sent_again", now->resent - from->resent);
	if (!now->paired || !from->paired)
		return seen;
	json_put_count(seen, "came_back", now->back - from->back);
	json_put_count(seen, "naks", now->naks - from->naks);
	json_put_count(seen, "asked_again", now->asked - from->asked);
	return seen;
}

static void tell(struct steer *steer, const struct steered *entry, const char *kind, json_t *seen,
		 json_t *done, json_t *expected, json_t *result)
{
	char subject[128];

	steer_subject(&entry->key, subject);
	log_info("%s: %s", subject, kind);
	events_record(steer->daemon->ledger, kind, subject, seen, done, expected, result);
}

void steer_tell_moved(struct steer *steer, const struct steered *entry, enum steer_reason reason)
{
	uint64_t waited_ns = entry->done_local_ns > entry->ordered_local_ns
				     ? entry->done_local_ns - entry->ordered_local_ns
				     : 0;

	tell(steer, entry, "path_switched",
	     json_pack("{s:I, s:I}", "own_sport", (json_int_t)entry->own_sport, "waited_us",
		       (json_int_t)waited_ns / 1000),
	     json_pack("{s:s, s:o, s:o}", "reason", steer_reason_name(reason), "from",
		       path_before(entry), "to", path_wanted(entry)),
	     json_pack("{s:s}", "answers", "as before; else it is taken back"),
	     json_pack("{s:s, s:s}", "moment", moments[entry->moment].name, "meaning",
		       moments[entry->moment].meaning));
}

void steer_tell_proved(struct steer *steer, const struct steered *entry,
		       const struct verify_counts *from)
{
	tell(steer, entry, "path_proved", counts_of(entry, from),
	     json_pack("{s:o}", "path", path_wanted(entry)), NULL,
	     json_pack("{s:s}", "meaning", verify_meaning(VERIFY_PROVED)));
}

void steer_tell_rolled_back(struct steer *steer, const struct steered *entry,
			    enum verify_verdict verdict, const struct steer_held *held)
{
	json_t *result = json_object();

	if (held)
		json_put_count(result, "held_ms", held->length_ns / 1000000);
	json_put_count(result, "packets_on_it", entry->now.packets);
	tell(steer, entry, "path_rolled_back", counts_of(entry, &entry->verify.from),
	     json_pack("{s:s, s:o, s:o}", "reason", steer_reason_name(STEER_BY_ROLLBACK), "from",
		       path_wanted(entry), "to", path_of(entry, 0, false, 0)),
	     json_pack("{s:s, s:s}", "verdict", verify_name(verdict), "meaning",
		       verify_meaning(verdict)),
	     result);
}

void steer_tell_ended(struct steer *steer, const struct steered *entry, const char *why)
{
	tell(steer, entry, "steering_ended",
	     json_pack("{s:I}", "packets", (json_int_t)entry->now.packets),
	     json_pack("{s:s, s:o}", "why", why, "from", path_wanted(entry)), NULL, NULL);
}

void steer_tell_mode(struct steer *steer, uint16_t ports, const char *by)
{
	json_t *names = json_array();
	char name[16];

	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++)
		if (ports >> i & 1 && steer_interface(steer, i, name))
			json_array_append_new(names, json_string(name));
	log_info("mode %s (by %s)", ports ? "steer" : "observe", by);
	events_record(steer->daemon->ledger, "mode_changed", "daemon", NULL,
		   json_pack("{s:s, s:s, s:o}", "mode", ports ? "steer" : "observe", "by", by,
			     "interfaces", names),
		   NULL, NULL);
}

/* --- asked --- */

static bool leaves_elsewhere(const struct esc_qp_steer *now)
{
	return now->sport || now->flags & ESC_QP_STEER_LABEL;
}

static void put_left(json_t *object, const struct esc_qp_steer *now)
{
	if (now->sport)
		json_put_count(object, "steered_sport", now->sport);
	if (now->flags & ESC_QP_STEER_LABEL)
		json_put_count(object, "steered_flow_label", now->flow_label);
}

json_t *steer_show(const struct steer *steer, const struct steered *entry)
{
	char text[ADDRESS_TEXT_BYTES], name[16];
	json_t *object = json_object();

	json_put_text(object, "src", address_format(&entry->key.src, text));
	json_put_text(object, "dst", address_format(&entry->key.dst, text));
	json_put_count(object, "dest_qpn", entry->key.dest_qpn);
	json_put_text(object, "interface", steer_interface(steer, entry->key.port, name));
	json_put_count(object, "sport", entry->own_sport);
	put_left(object, &entry->now);
	json_object_set_new(object, "wanted", path_wanted(entry));
	json_put_text(object, "state", states[entry->state]);
	json_put_text(object, "by", entry->by_itself ? "auto" : "hand");
	if (entry->done)
		json_put_text(object, "moment", moments[entry->moment].name);
	json_put_count(object, "packets", entry->now.packets);
	json_put_count(object, "refused", entry->now.refused);
	json_object_set_new(object, "answers_seen", json_boolean(entry->counts.paired));
	json_put_count(object, "ordered_ms",
			 (time_local_ns() - entry->ordered_local_ns) / 1000000);
	return object;
}

static json_t *show_held(const struct steer_held *held, uint64_t now_ns)
{
	char text[ADDRESS_TEXT_BYTES];
	json_t *object = json_object();

	json_put_text(object, "src", address_format(&held->key.src, text));
	json_put_text(object, "dst", address_format(&held->key.dst, text));
	json_put_count(object, "dest_qpn", held->key.dest_qpn);
	json_put_text(object, "why", verify_name(held->why));
	json_put_count(object, "left_ms", (held->until_local_ns - now_ns) / 1000000);
	return object;
}

json_t *steer_list(const struct steer *steer)
{
	json_t *steers = json_array(), *helds = json_array(), *names = json_array();
	uint64_t now_ns = time_local_ns();
	uint16_t ports = steer_ports(steer);
	char name[16];

	for (unsigned int i = 0; i < ESC_PORTS_MAX; i++)
		if (ports >> i & 1 && steer_interface(steer, i, name))
			json_array_append_new(names, json_string(name));
	for (size_t i = 0; i < steer->count; i++)
		json_array_append_new(steers, steer_show(steer, &steer->list[i]));
	for (size_t i = 0; i < steer->held_count; i++)
		if (steer->held[i].until_local_ns > now_ns)
			json_array_append_new(helds, show_held(&steer->held[i], now_ns));
	return json_pack("{s:s, s:b, s:o, s:o, s:o}", "mode", ports ? "steer" : "observe", "auto",
			 steer_auto_is_on(steer->by_itself), "interfaces", names, "steers", steers,
			 "held", helds);
}

void steer_put(const struct steer *steer, const struct qp_entry *entry, json_t *qp)
{
	/* What an entry of `qps` says may be of an order that has ended since its last packet. */
	if (!steer || !leaves_elsewhere(&entry->qp.steer))
		return;
	for (size_t i = 0; i < steer->count; i++)
		if (!memcmp(&steer->list[i].key, &entry->key, sizeof(entry->key)))
			put_left(qp, &entry->qp.steer);
}

void steer_get(const struct steer *steer, struct steer_facts *out)
{
	*out = (struct steer_facts){.there = steer != NULL};
	if (!steer)
		return;
	out->ports = steer_ports(steer);
	memcpy(out->switches, steer->switches, sizeof(out->switches));
	steer_auto_get(steer->by_itself, out);
	for (size_t i = 0; i < steer->count; i++) {
		out->steered += leaves_elsewhere(&steer->list[i].now);
		out->covered += steer->list[i].by_itself;
	}
}
