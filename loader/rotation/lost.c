// SPDX-License-Identifier: BSD-2-Clause
/*
 * Links above the racks that lose all, and that no probe of the mesh takes: of the source ports of
 * a measurement between racks some have a reply and others have none, time and again. The fault has
 * the name that mesh/ gives it.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/json.h"
#include "base/log.h"
#include "internal.h"

#define PROBES_LEAST 6
#define PROBES_LOST_LEAST 2	 /* of a measurement; one may be a loss of the moment */
#define WITHIN_NS 60000000000ull /* ROTATION_LOST_LEAST measurements */
#define REPLIED_NS 500000000ull	 /* from the last probe on replies are read */
#define END_AFTER_NS 120000000000ull

const struct event_kind rotation_events[] = {ROTATION_EVENTS(EVENT_KIND){}};

static void report(const struct rotation *rotation, enum fleet_plane plane,
		   const struct rotation_active *newest, unsigned int sent, unsigned int lost)
{
	const char *name = config_plane_name(plane);
	char fault[64], address[ADDRESS_TEXT_BYTES];
	json_t *seen = json_object();

	snprintf(fault, sizeof(fault), "paths:%s", name);
	json_put_text(seen, "class", "paths");
	json_put_text(seen, "plane", name);
	json_put_count(seen, "measurements", ROTATION_LOST_LEAST);
	json_put_count(seen, "sent", sent);
	json_put_count(seen, "lost", lost);
	json_put_text(seen, "address", address_format(&newest->key.dst, address));
	log_warning("%s: some paths lose all probes", fault);
	events_add(rotation->core->events,
		   &(struct event){.kind = &rotation_events[ROTATION_PATHS_LOST],
				   .subject = fault,
				   .fault = fault,
				   .seen = seen});
}

static void end(const struct rotation *rotation, unsigned int plane, struct rotation_lost *lost,
		uint64_t now_ns)
{
	char fault[64];

	if (!lost->begun_ns)
		return;
	snprintf(fault, sizeof(fault), "paths:%s", config_plane_name((enum fleet_plane)plane));
	log_info("%s: over", fault);
	events_add(rotation->core->events,
		   &(struct event){.kind = &rotation_events[ROTATION_PATHS_FOUND],
				   .subject = fault,
				   .fault = fault,
				   .result = json_pack("{s:I}", "duration_ns",
						       (json_int_t)(now_ns - lost->begun_ns))});
	*lost = (struct rotation_lost){};
}

bool rotation_lost_add(struct rotation_lost *lost, unsigned int sent, unsigned int replied,
		       uint64_t now_ns)
{
	if (sent < PROBES_LEAST || !replied || sent - replied < PROBES_LOST_LEAST)
		return false;
	lost->at_ns[lost->next] = now_ns;
	lost->next = (lost->next + 1) % ROTATION_LOST_LEAST;
	/* The oldest is next. */
	if (lost->begun_ns || !lost->at_ns[lost->next] ||
	    now_ns - lost->at_ns[lost->next] > WITHIN_NS)
		return false;
	lost->begun_ns = now_ns;
	return true;
}

bool rotation_lost_is_over(const struct rotation_lost *lost, uint64_t now_ns)
{
	unsigned int newest = (lost->next + ROTATION_LOST_LEAST - 1) % ROTATION_LOST_LEAST;

	return lost->begun_ns && now_ns > lost->at_ns[newest] + END_AFTER_NS;
}

void rotation_lost_take(struct rotation *rotation, const struct rotation_active *active,
			uint64_t now_ns)
{
	const struct rotation_own *own = rotation_own(rotation, &active->key.src);
	unsigned int sent = 0, replied = 0;

	/* A daemon that was late may not have read the replies. */
	if (active->kind != ROTATION_FAR || !own || rotation->late)
		return;
	for (unsigned int i = 0; i < active->sent; i++) {
		if (now_ns - active->sent_ns[i] < REPLIED_NS)
			continue;
		sent++;
		replied += active->replied_mask >> i & 1;
	}
	if (rotation_lost_add(&rotation->lost[own->plane], sent, replied, now_ns))
		report(rotation, own->plane, active, sent, sent - replied);
}

void rotation_lost_check(struct rotation *rotation, bool all, uint64_t now_ns)
{
	for (unsigned int plane = 0; plane < 2; plane++)
		if (all || rotation_lost_is_over(&rotation->lost[plane], now_ns))
			end(rotation, plane, &rotation->lost[plane], now_ns);
}
