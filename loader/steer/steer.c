// SPDX-License-Identifier: BSD-2-Clause
#include "steer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "config/config.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "paths/paths.h"
#include "internal.h"

#define STEER_LOOK_US 250000
#define STEER_SLACK_US 10000

#define HELD_FIRST_NS 10000000000ull
#define HELD_MOST_NS 600000000000ull

/* --- queue pairs that were taken back --- */

static struct steer_held *held_find(const struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = 0; i < steer->held_count; i++)
		if (!memcmp(&steer->held[i].key, key, sizeof(*key)))
			return &steer->held[i];
	return NULL;
}

/* Twice as long each time, until it has been well for as long as the longest. */
static struct steer_held *held_add(struct steer *steer, const struct esc_qp_key *key,
				   enum verify_verdict why, uint64_t now_ns)
{
	struct steer_held *held = held_find(steer, key);

	if (!held && steer->held_count == steer->held_room) {
		size_t room = steer->held_room ? 2 * steer->held_room : 16;
		void *list = realloc(steer->held, room * sizeof(*steer->held));

		if (!list)
			return NULL;
		steer->held = list;
		steer->held_room = room;
	}
	if (!held) {
		held = &steer->held[steer->held_count++];
		*held = (struct steer_held){.key = *key, .length_ns = HELD_FIRST_NS / 2};
	}
	held->length_ns = 2 * held->length_ns < HELD_MOST_NS ? 2 * held->length_ns : HELD_MOST_NS;
	held->until_local_ns = now_ns + held->length_ns;
	held->why = why;
	return held;
}

static void held_drop(struct steer *steer, struct steer_held *held)
{
	*held = steer->held[--steer->held_count];
}

static void held_forget_old(struct steer *steer, uint64_t now_ns)
{
	for (size_t i = steer->held_count; i-- > 0;)
		if (steer->held[i].until_local_ns + HELD_MOST_NS < now_ns)
			held_drop(steer, &steer->held[i]);
}

bool steer_is_held(const struct steer *steer, const struct esc_qp_key *key, uint64_t now_ns)
{
	const struct steer_held *held = held_find(steer, key);

	return held && held->until_local_ns > now_ns;
}

struct steered *steer_find(struct steer *steer, const struct esc_qp_key *key)
{
	for (size_t i = 0; i < steer->count; i++)
		if (!memcmp(&steer->list[i].key, key, sizeof(*key)))
			return &steer->list[i];
	return NULL;
}

/* --- looking --- */

static void entry_drop(struct steer *steer, struct steered *entry)
{
	steer_withdraw(steer, &entry->key);
	*entry = steer->list[--steer->count];
}

static void entry_end(struct steer *steer, struct steered *entry, const char *why)
{
	if (entry->state != STEERED_COVERED)
		steer_tell_ended(steer, entry, why);
	entry_drop(steer, entry);
}

static void entry_roll_back(struct steer *steer, struct steered *entry, enum verify_verdict verdict,
			    uint64_t now_ns)
{
	struct steer_held *held = held_add(steer, &entry->key, verdict, now_ns);

	steer->switches[STEER_BY_ROLLBACK]++;
	steer_tell_rolled_back(steer, entry, verdict, held);
	if (!entry->by_itself || steer_go_home(steer, entry, now_ns))
		entry_drop(steer, entry);
}

static void entry_has_moved(struct steer *steer, struct steered *entry,
			    const struct verify_counts *before, uint64_t now_ns)
{
	entry->done = true;
	entry->moment = entry->now.moment;
	entry->done_local_ns = entry->now.done_local_ns;
	entry->stood_lane = entry->want.lane;
	entry->stood_sport = entry->want.sport;
	if (entry->reason != STEER_BY_COVER) {
		steer->switches[entry->reason]++;
		steer_tell_moved(steer, entry, entry->reason);
	}
	if (entry->state == STEERED_CLEARS) {
		entry_drop(steer, entry);
		return;
	}
	if (entry->by_itself && !entry->want.sport) {
		entry->state = STEERED_COVERED;
		return;
	}
	entry->state = STEERED_MOVED;
	verify_start(&entry->verify, before, now_ns, entry->moment == ESC_STEER_MOMENT_FORCED);
}

static void entry_judge(struct steer *steer, struct steered *entry, uint64_t now_ns)
{
	const struct verify_counts from = entry->verify.from;
	enum verify_verdict verdict = verify_look(&entry->verify, &entry->counts, now_ns);

	if (verify_is_bad(verdict)) {
		entry_roll_back(steer, entry, verdict, now_ns);
	} else if (verdict == VERIFY_PROVED && entry->state == STEERED_MOVED) {
		entry->state = STEERED_PROVED;
		steer_tell_proved(steer, entry, &from);
	}
}

/*
 * Packets of one that stays where it is take a standby. The peer's words say when that is dead too;
 * from a peer that says nothing any more it is known by what comes back.
 */
static void entry_watch_standby(struct steer *steer, struct steered *entry, uint64_t now_ns)
{
	bool was = entry->on_standby;

	entry->on_standby = entry->now.flags & ESC_QP_STEER_DIVERTED;
	if (!entry->on_standby)
		return;
	if (!was)
		verify_start(&entry->verify, &entry->counts, now_ns, true);
	if (verify_look(&entry->verify, &entry->counts, now_ns) != VERIFY_SILENT)
		return;
	if (steer->paths)
		paths_release(steer->paths, entry->want.slot, entry->want.lane);
	entry->on_standby = false; /* else it is asked again: from here on */
}

/* One that sends nothing has no order to keep: whenever it does, it is behind a gap. */
static bool entry_is_still(const struct steered *entry, uint64_t now_ns)
{
	return entry->state == STEERED_CLEARS && entry->now.order != entry->want.order &&
	       now_ns > entry->want.force_local_ns;
}

void steer_look_at(struct steer *steer, struct steered *entry, uint64_t now_ns)
{
	struct verify_counts before = entry->counts;
	struct esc_qp qp;

	if (steer_read_qp(steer, &entry->key, &qp) || qp.first_local_ns != entry->first_local_ns) {
		entry_end(steer, entry, "gone");
		return;
	}
	entry->now = qp.steer;
	steer_count(steer, entry, &qp);
	if (entry->now.order == entry->want.order && entry->now.flags & ESC_QP_STEER_LAPSED)
		entry_end(steer, entry, "lapsed");
	else if (!entry->done && entry->now.done == entry->want.order)
		entry_has_moved(steer, entry, &before, now_ns);
	else if (entry->done && entry->state != STEERED_COVERED)
		entry_judge(steer, entry, now_ns);
	else if (entry->done)
		entry_watch_standby(steer, entry, now_ns);
	else if (entry_is_still(entry, now_ns))
		entry_end(steer, entry, "cleared");
}

static void end_all(struct steer *steer, const char *why)
{
	for (size_t i = 0; i < steer->count; i++)
		if (steer->list[i].state != STEERED_COVERED)
			steer_tell_ended(steer, &steer->list[i], why);
	steer->count = 0;
	steer_withdraw_all(steer);
}

/* Somebody wrote the flags in the map: the programs obey at once, and it is for good. */
static void watch_control(struct steer *steer)
{
	uint32_t flags = __atomic_load_n(&steer->control->flags, __ATOMIC_SEQ_CST);

	if (!steer->control->steer_ports ||
	    (flags & (ESC_CONTROL_STEER | ESC_CONTROL_OFF)) == ESC_CONTROL_STEER)
		return;
	end_all(steer, "mode");
	steer_write_ports(steer, 0);
	steer_tell_mode(steer, 0, "map");
	steer_auto_switch(steer, false, "map");
}

static void steer_look(struct steer *steer)
{
	uint64_t now_ns = time_local_ns();

	watch_control(steer);
	for (size_t i = steer->count; i-- > 0;)
		steer_look_at(steer, &steer->list[i], now_ns);
	held_forget_old(steer, now_ns);
}

static int steer_on_timer(sd_event_source *source, uint64_t due_us, void *context)
{
	struct steer *steer = context;
	uint64_t now_us;

	(void)due_us;
	steer_look(steer);
	sd_event_now(steer->daemon->event, CLOCK_MONOTONIC, &now_us);
	sd_event_source_set_time(source, now_us + STEER_LOOK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* --- modes --- */

uint16_t steer_ports(const struct steer *steer)
{
	if (!steer || !(steer->control->flags & ESC_CONTROL_STEER))
		return 0;
	return steer->control->steer_ports;
}

static void apply_ports(struct steer *steer, uint16_t ports, const char *by)
{
	uint16_t was = steer_ports(steer);

	for (size_t i = steer->count; i-- > 0;)
		if (!(ports >> steer->list[i].key.port & 1))
			entry_end(steer, &steer->list[i], "mode");
	steer_write_ports(steer, ports);
	if (ports != was)
		steer_tell_mode(steer, ports, by);
	if (!ports)
		steer_auto_switch(steer, false, by);
}

int steer_set_mode(struct steer *steer, bool on, const json_t *interfaces, const char *by,
		   char **error)
{
	uint16_t ports;
	int err = dataplane_ports_named(steer->daemon->dataplane, interfaces, &ports, error);

	if (err)
		return err;
	if (on && dataplane_is_off(steer->daemon->dataplane))
		return explain(error, -EBUSY,
			       "the kill switch is on and nothing is attached; `escapement mode "
			       "observe` ends it");
	apply_ports(steer, on ? steer_ports(steer) | ports : steer_ports(steer) & ~ports, by);
	return 0;
}

int steer_set_auto(struct steer *steer, bool on, const char *by, char **error)
{
	int err = 0;

	if (on && !steer->paths)
		return explain(error, -EOPNOTSUPP,
			       "there are no paths to choose from: `escapement paths` says why");
	if (on && !steer_ports(steer))
		err = steer_set_mode(steer, true, NULL, by, error);
	if (!err)
		steer_auto_switch(steer, on, by);
	return err;
}

void steer_stop(struct steer *steer, const char *by)
{
	if (steer)
		apply_ports(steer, 0, by);
}

void steer_reconfigure(struct steer *steer, const struct config *old)
{
	const struct config *config = steer->daemon->config;
	uint16_t ports = steer_ports(steer) & dataplane_ports_all(steer->daemon->dataplane);

	if (steer_keys(config)->mode != steer_keys(old)->mode)
		ports = steer_keys(config)->mode == STEER_START_OFF
				? 0
				: dataplane_ports_all(steer->daemon->dataplane);
	steer_auto_reconfigure(steer);
	if (dataplane_is_off(steer->daemon->dataplane))
		return;
	apply_ports(steer, ports, "configuration");
	if (steer_keys(config)->mode != steer_keys(old)->mode)
		steer_auto_switch(steer, steer_keys(config)->mode == STEER_START_AUTO, "configuration");
}

/* --- from start to end --- */

/* The flag is still set when somebody steered until a moment ago (dataplane_end_steering()). */
static int take_over(struct steer *steer)
{
	bool wanted = steer_keys(steer->daemon->config)->mode != STEER_START_OFF &&
		      !dataplane_is_off(steer->daemon->dataplane);
	int err = 0;

	if (wanted && steer_ports(steer))
		err = steer_read_orders(steer);
	else
		steer_withdraw_all(steer);
	steer_write_ports(steer, wanted ? dataplane_ports_all(steer->daemon->dataplane) : 0);
	if (steer_keys(steer->daemon->config)->mode == STEER_START_AUTO && wanted)
		steer_auto_switch(steer, true, "configuration");
	else
		steer_uncover_all(steer);
	return err;
}

int steer_new(struct steer **out, struct daemon *daemon, char **error)
{
	struct steer *steer = calloc(1, sizeof(*steer));
	int err = -ENOMEM;

	*out = NULL;
	if (!steer)
		return err;
	steer->daemon = daemon;
	steer->control = dataplane_control(daemon->dataplane);
	steer->steers_fd = dataplane_map_fd(daemon->dataplane, "steers");
	steer->qps_fd = dataplane_qps_fd(daemon->dataplane);
	err = steer_auto_new(steer);
	if (!err)
		err = take_over(steer);
	if (!err) {
		err = sd_event_add_time_relative(daemon->event, &steer->timer, CLOCK_MONOTONIC,
						 STEER_LOOK_US, STEER_SLACK_US, steer_on_timer,
						 steer);
	}
	if (err < 0) {
		steer_free(steer);
		return explain(error, err, "steering cannot be started: %s", strerror(-err));
	}
	*out = steer;
	return 0;
}

void steer_free(struct steer *steer)
{
	if (!steer)
		return;
	sd_event_source_disable_unref(steer->timer);
	steer_auto_free(steer->by_itself);
	free(steer->list);
	free(steer->held);
	free(steer);
}
