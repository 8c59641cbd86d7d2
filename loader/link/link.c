// SPDX-License-Identifier: BSD-2-Clause
/* Which links there are, their readings, and the alarms: the capability. */
#include <bpf/bpf.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "base/address.h"
#include "base/array.h"
#include "base/explain.h"
#include "base/json.h"
#include "base/log.h"
#include "dataplane/dataplane.h"
#include "fleet/fleet.h"
#include "internal.h"
#include "net/rtnl.h"

#define TICK_NS 1000000000ull
/* Messages show each change; this finds what they do not, such as a device that joins a bond. */
#define SCAN_NS 60000000000ull
/* What drivers report: it may take a NIC milliseconds. */
#define DETAILS_NS 10000000000ull
#define RECEIVE_BYTES (1 << 20)
/* A host that starts a hundred containers in a second has as many. */
#define STORM_MESSAGES 1000
#define SECOND_NS 1000000000ull
#define STORM_AGAIN_NS (60 * SECOND_NS)
#define SYSROOT "/sys"

uint64_t link_now_ns(void)
{
	return now_clock_ns(CLOCK_BOOTTIME);
}

bool link_is_expected(const struct link_entry *entry)
{
	return entry->member || entry->link.state & ESC_LINK_HAD_CARRIER;
}

/* --- the map --- */

static void key_of(const struct link_entry *entry, struct esc_link_key *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->name, entry->name, strlen(entry->name));
}

static void load(const struct links *links, struct link_entry *entry)
{
	struct esc_link_key key;

	key_of(entry, &key);
	if (bpf_map_lookup_elem(links->map_fd, &key, &entry->link))
		memset(&entry->link, 0, sizeof(entry->link));
	/* Another daemon's bug, or a hand in the map, costs the window and no more. */
	if (entry->link.first >= ESC_LINK_FLAPS || entry->link.entries > ESC_LINK_FLAPS)
		memset(&entry->link, 0, sizeof(entry->link));
}

static void store(struct links *links)
{
	link_for_each (entry, links) {
		struct esc_link_key key;

		if (!entry->changed)
			continue;
		key_of(entry, &key);
		if (!bpf_map_update_elem(links->map_fd, &key, &entry->link, BPF_ANY))
			entry->changed = false;
	}
}

/* --- alarms --- */

/* @returned: its return was reported with the reading that showed it. */
static void evaluate_carrier(struct links *links, struct link_entry *entry, uint64_t now_ns,
			     bool returned)
{
	const struct link_keys *keys = link_keys(links->core->config);
	uint32_t before = entry->link.state, now = before & ~(ESC_LINK_LOST | ESC_LINK_DOWN_ALARM);
	bool lost = link_is_lost(&entry->link, link_is_expected(entry), now_ns);

	if (link_is_down(&entry->link, keys, lost, now_ns)) {
		now |= ESC_LINK_LOST | ESC_LINK_DOWN_ALARM;
		if (!(before & ESC_LINK_DOWN_ALARM) || !entry->confirmed)
			link_report_down(links, entry);
	} else if (lost) {
		now |= before & ESC_LINK_LOST;
	} else if (before & (ESC_LINK_LOST | ESC_LINK_DOWN_ALARM) && !returned) {
		link_report_excused(links, entry);
	}
	entry->changed = entry->changed || now != before;
	entry->link.state = now;
}

static void evaluate(struct links *links, struct link_entry *entry, uint64_t now_ns, bool returned)
{
	const struct link_keys *keys = link_keys(links->core->config);
	uint64_t alarm_ns = entry->link.alarm_ns;
	enum link_step step = link_evaluate(&entry->link, keys, now_ns);

	if (step == LINK_STABLE)
		link_report_end(links, entry, "stable", alarm_ns);
	else if (step == LINK_RAISED || (alarm_ns && !entry->confirmed))
		link_report_flapping(links, entry);
	entry->changed = entry->changed || step != LINK_NOTHING;
	evaluate_carrier(links, entry, now_ns, returned);
	entry->confirmed = true;
}

static void take(struct links *links, struct link_entry *entry, const struct link_carrier *reading,
		 uint64_t now_ns)
{
	uint32_t reported = entry->link.state & (ESC_LINK_LOST | ESC_LINK_DOWN_ALARM);
	uint32_t alarm_flaps = entry->link.alarm_flaps;
	uint64_t alarm_ns = entry->link.alarm_ns;
	struct link_change change;

	if (entry->link.ifindex == reading->ifindex && entry->link.up_count == reading->up_count &&
	    entry->link.down_count == reading->down_count &&
	    !(entry->link.state & ESC_LINK_ADMIN_UP) == !reading->admin_up &&
	    !(entry->link.state & ESC_LINK_CARRIER) == !reading->carrier)
		return;
	link_take(&entry->link, reading, now_ns, link_keys(links->core->config)->settle_ns,
		  &change);
	entry->changed = true;
	/* Conditions are of the name, whichever NIC has it. */
	entry->link.state |= reported;
	if (change.flaps && link_is_lost(&entry->link, link_is_expected(entry), now_ns))
		entry->link.state |= ESC_LINK_LOST;
	link_report_change(links, entry, &change);
	if (alarm_ns && change.replaced) {
		entry->link.alarm_flaps = alarm_flaps;
		link_report_end(links, entry, "replaced", alarm_ns);
	}
	evaluate(links, entry, now_ns, change.returned);
}

/* --- which links --- */

/* All links of a dump. */
struct seen {
	struct link_carrier *list;
	size_t count, room;
};

static int add_seen(const struct link_carrier *link, void *context)
{
	struct seen *seen = context;
	struct link_carrier *entry;

	entry = array_add(&seen->list, &seen->count, &seen->room, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	*entry = *link;
	return 0;
}

static const struct link_carrier *find_seen(const struct seen *seen, const char *name)
{
	for (size_t i = 0; i < seen->count; i++)
		if (!strcmp(seen->list[i].name, name))
			return &seen->list[i];
	return NULL;
}

static struct link_entry *find_entry(struct links *links, const char *name)
{
	link_for_each (entry, links)
		if (!strcmp(entry->name, name))
			return entry;
	return NULL;
}

static bool is_listed(const void *key, void *context)
{
	const struct esc_link_key *one = key;
	char name[IF_NAMESIZE + 1] = "";

	memcpy(name, one->name, sizeof(one->name));
	return find_entry(context, name) != NULL;
}

/* A place in @next, with what is known from before or from the map. */
static void add_link(struct links *links, struct links *next, const char *name, enum link_role role,
		     const char *upper)
{
	const struct link_entry *before = find_entry(links, name);
	struct link_entry *entry;

	if (find_entry(next, name))
		return;
	if (next->count == ESC_LINKS_MAX) {
		next->left_out++;
		return;
	}
	entry = &next->list[next->count++];
	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	link_details_clear(&entry->details);
	if (before) {
		*entry = *before;
	} else {
		load(links, entry);
		link_read_rdma(SYSROOT, name, &entry->details);
	}
	entry->role = role;
	snprintf(entry->upper, sizeof(entry->upper), "%s", upper);
}

/* Those below a bond, a team or a VLAN; of a VLAN on a bond the bond's, too. */
static void add_lowers(struct links *links, struct links *next, const struct seen *seen)
{
	for (size_t i = 0; i < next->count; i++) {
		const struct link_carrier *upper = find_seen(seen, next->list[i].name);

		for (size_t k = 0; upper && k < seen->count; k++) {
			const struct link_carrier *one = &seen->list[k];

			if ((one->bonded && one->master == upper->ifindex) ||
			    (upper->lower && one->ifindex == upper->lower))
				add_link(links, next, one->name, LINK_LOWER, upper->name);
		}
	}
}

/* Those that were watched, and are not any more, have no alarm any more. */
static void end_others(struct links *links, struct links *next)
{
	link_for_each (entry, links) {
		if (find_entry(next, entry->name))
			continue;
		if (entry->link.alarm_ns)
			link_report_end(links, entry, "not watched", entry->link.alarm_ns);
		if (entry->link.state & (ESC_LINK_LOST | ESC_LINK_DOWN_ALARM))
			link_report_excused(links, entry);
	}
}

static void choose(struct links *links, const struct seen *seen)
{
	const struct config *config = links->core->config;
	static struct links next;

	next.count = next.left_out = 0;
	for (size_t i = 0; i < config->interface_count; i++)
		add_link(links, &next, config->interfaces[i].name, LINK_CONFIGURED, "");
	for (size_t i = 0; i < config->interface_count; i++)
		if (config->interfaces[i].sibling)
			add_link(links, &next, config->interfaces[i].sibling, LINK_SIBLING, "");
	add_lowers(links, &next, seen);
	/* One whose driver is being loaded again is below its bond no more, for a moment. */
	link_for_each (entry, links)
		if (entry->role == LINK_LOWER && !find_seen(seen, entry->name))
			add_link(links, &next, entry->name, LINK_LOWER, entry->upper);
	end_others(links, &next);
	if (next.left_out && next.left_out != links->left_out) {
		log_warning("%zu links have no place among %d: their flaps are not counted",
			    next.left_out, ESC_LINKS_MAX);
		events_add(links->core->events,
			   &(struct event){.kind = &link_events[LINKS_FULL],
					   .subject = "daemon",
					   .seen = json_pack("{s:I}", "left_out",
							     (json_int_t)next.left_out)});
	}
	memcpy(links->list, next.list, sizeof(next.list));
	links->count = next.count;
	links->left_out = next.left_out;
	mapsweep(links->map_fd, sizeof(struct esc_link_key), is_listed, links);
}

/* Evidence that a port should have a carrier: other hosts are told its address. */
static void find_members(struct links *links)
{
	const struct members *members = fleet_members(links->core->fleet);
	const char *host = links->core->config->host;
	struct ifaddrs *all = NULL;

	link_for_each (entry, links)
		entry->member = false;
	if (!members || getifaddrs(&all))
		return;
	for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
		struct link_entry *entry = find_entry(links, at->ifa_name);
		struct esc_address address;
		const char *of;

		if (!entry || !address_of_socket(at->ifa_addr, &address))
			continue;
		of = members_host(members, &address);
		entry->member = entry->member || (of && !strcmp(of, host));
	}
	freeifaddrs(all);
}

/* --- readings --- */

static int on_link(const struct link_carrier *link, void *context)
{
	struct links *links = context;
	struct link_entry *entry = find_entry(links, link->name);

	links->messages.total++;
	links->messages.in_second++;
	snprintf(links->messages.newest, sizeof(links->messages.newest), "%s", link->name);
	/* It may be one to be watched: a lower device, or one with a new name. */
	if (!entry) {
		link_for_each (other, links)
			links->stale = links->stale || link->bonded ||
				       (other->link.ifindex == link->ifindex && link->ifindex);
		return 0;
	}
	/* From before the newest dump, or the counters were reset: the next dump tells. */
	if (link->ifindex == entry->link.ifindex && !link->gone &&
	    ((int32_t)(link->down_count - entry->link.down_count) < 0 ||
	     (int32_t)(link->up_count - entry->link.up_count) < 0)) {
		links->stale = true;
		return 0;
	}
	if (!link->gone) {
		take(links, entry, link, link_now_ns());
	} else if (entry->link.ifindex == link->ifindex) {
		link_leave(&entry->link);
		entry->changed = true;
	}
	return 0;
}

/* Takes RTNL: after rtnl_wait(). */
static int scan(struct links *links)
{
	struct seen seen = {};
	uint64_t now_ns = link_now_ns();
	int err = link_carrier_dump(add_seen, &seen);

	if (!err) {
		links->stale = false;
		choose(links, &seen);
		find_members(links);
		link_for_each (entry, links) {
			const struct link_carrier *one = find_seen(&seen, entry->name);

			if (one) {
				take(links, entry, one, now_ns);
			} else if (entry->link.ifindex) {
				link_leave(&entry->link);
				entry->changed = true;
			}
		}
		store(links);
		links->scanned_ns = time_local_ns();
	}
	free(seen.list);
	return err;
}

/* An event for the first second with too many, and then one a minute. */
static void judge_messages(struct links *links, bool overrun, uint64_t now_ns)
{
	struct link_messages *messages = &links->messages;

	if (overrun) {
		messages->overruns++;
		links->stale = true;
	}
	if ((overrun || messages->in_second >= STORM_MESSAGES) &&
	    (!messages->reported_ns || now_ns - messages->reported_ns >= STORM_AGAIN_NS)) {
		link_report_storm(links, overrun);
		messages->reported_ns = now_ns;
	}
}

/* Called when messages are waiting; others may send without end, so a part of them at a time. */
static int on_messages(sd_event_source *source, int fd, uint32_t events, void *context)
{
	struct links *links = context;
	uint64_t begun_ns = time_local_ns();

	(void)source;
	(void)events;
	if (begun_ns - links->messages.begun_ns >= SECOND_NS) {
		links->messages.begun_ns = begun_ns;
		links->messages.in_second = 0;
	}
	judge_messages(links, link_carrier_receive(fd, on_link, links) != 0, begun_ns);
	store(links);
	core_took(links->core, "link messages", begun_ns);
	return 0;
}

/* --- what drivers report, read by a worker --- */

/* One link in each, so that no job takes long. */
struct details_job {
	char name[IF_NAMESIZE];
	struct link_details details;
};

static void read_details(void *context)
{
	struct details_job *job = context;

	link_details_read(SYSROOT, job->name, &job->details);
}

static void take_details(void *context, void *result)
{
	const struct details_job *job = result;
	struct link_entry *entry = find_entry(context, job->name);

	if (!entry)
		return;
	entry->details = job->details;
	entry->details_ns = time_local_ns();
}

static const struct core_work details_work = {"links", read_details, take_details, free};

/* Of the link whose turn it is: each once in DETAILS_NS, when there is time for that. */
static void start_details(struct links *links, uint64_t now_local_ns)
{
	const struct link_entry *entry;
	struct details_job *job;

	if (!links->count || core_worker_busy(links->worker) ||
	    now_local_ns - links->details_ns < DETAILS_NS / links->count)
		return;
	/* RTNL is held by another program: all of it would wait for that. */
	if (rtnl_asked_since())
		return;
	links->details_ns = now_local_ns;
	entry = &links->list[links->details_next++ % links->count];
	job = entry->link.ifindex ? calloc(1, sizeof(*job)) : NULL;
	if (!job)
		return;
	memcpy(job->name, entry->name, sizeof(job->name));
	if (core_worker_start(links->worker, job))
		free(job);
}

/* --- verbs --- */

static json_t *reply_links(void *self, struct request *request)
{
	json_t *list = json_array(), *reply = json_object();
	struct links *links = self;

	(void)request;
	link_for_each (entry, links)
		json_array_append_new(list, link_json(links, entry));
	json_put(reply, "links", list);
	if (links->left_out)
		json_put_count(reply, "left_out", links->left_out);
	return reply;
}

static json_t *reply_ack(void *self, struct request *request)
{
	const char *name = request_text(request, "link", "");
	struct links *links = self;
	struct link_entry *entry = find_entry(links, name);
	uint64_t alarm_ns;
	json_t *reply;

	if (!entry)
		return request_misuse(request,
				      "no link %s is watched; `escapement links` lists those that "
				      "are",
				      name);
	alarm_ns = entry->link.alarm_ns;
	reply = json_pack("{s:s, s:b}", "netdev", name, "acknowledged", alarm_ns != 0);
	if (link_acknowledge(&entry->link, link_now_ns())) {
		entry->changed = true;
		store(links);
		link_report_end(links, entry, "acknowledged", alarm_ns);
	}
	return reply;
}

static const struct verb_handler verb_handlers[] = {
	{"links", reply_links},
	{"links ack", reply_ack},
	{},
};

/* --- as a capability --- */

static void tick(void *self, uint64_t now_local_ns)
{
	struct links *links = self;

	if ((links->stale || now_local_ns - links->scanned_ns >= SCAN_NS) &&
	    !rtnl_wait(CORE_RTNL_MS))
		scan(links);
	link_for_each (entry, links)
		evaluate(links, entry, link_now_ns(), false);
	store(links);
	start_details(links, now_local_ns);
}

static void reconfigure(void *self, const struct config *old)
{
	struct links *links = self;

	(void)old;
	/* core_reload() waited for RTNL. */
	if (scan(links))
		links->stale = true;
	tick(links, time_local_ns());
}

/* Attaching, and detaching, takes the link of some drivers down. */
static void settle(struct links *links)
{
	uint64_t until_ns = link_now_ns() + link_keys(links->core->config)->settle_ns;

	link_for_each (entry, links) {
		if (entry->link.settled_ns < until_ns)
			entry->link.settled_ns = until_ns;
		entry->changed = true;
	}
	store(links);
}

static int off(void *self, const char *by, char **error)
{
	(void)by;
	(void)error;
	settle(self);
	return 0;
}

static int on(void *self, char **error)
{
	(void)error;
	settle(self);
	return 0;
}

static void close_links(void *self)
{
	struct links *links = self;

	core_worker_free(links->worker);
	sd_event_source_disable_unref(links->source);
	if (links->fd >= 0)
		close(links->fd);
	free(links);
}

static int open_links(void **self, struct core *core, void *const needs[], char **error)
{
	struct links *links = calloc(1, sizeof(*links));
	int bytes = RECEIVE_BYTES, err;

	if (!links)
		return explain(error, -ENOMEM, "links: %s", strerror(ENOMEM));
	links->core = core;
	links->dataplane = needs[0];
	links->qps = needs[1];
	links->nic = needs[2];
	links->map_fd = dataplane_map_fd(links->dataplane, "link_flaps");
	/* Before the dump: what changes in between is in both. */
	links->fd = err = rtnl_watch_links();
	if (err >= 0) {
		setsockopt(links->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
		err = scan(links);
	}
	if (!err)
		err = core_worker_new(core, &links->worker, &details_work, links);
	if (!err)
		err = sd_event_add_io(core->loop, &links->source, links->fd, EPOLLIN, on_messages,
				      links);
	if (err < 0) {
		close_links(links);
		return explain(error, err, "the state of links cannot be read: %s", strerror(-err));
	}
	start_details(links, time_local_ns());
	*self = links;
	return 0;
}

const struct capability link_capability = {
	.name = "link",
	.needs = {"dataplane", "qp", "nic"},
	.keys = &link_section,
	.verbs = verb_handlers,
	.events = link_events,
	.metrics = link_metrics,
	.open = open_links,
	.close = close_links,
	.tick_ns = TICK_NS,
	.tick = tick,
	.reconfigure = reconfigure,
	.off = off,
	.on = on,
	.status = link_status,
	.write_metrics = link_write_metrics,
};
