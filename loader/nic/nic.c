// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "net/rtnl.h"

/* --- the pairs of addresses in use --- */

#define USED_TABLE (4 * NIC_USED_MAX)

/* False: these are not our address and that of a peer with NICs. */
static bool use_entry(const struct nic *nic, const struct qp_entry *entry, struct nic_used *out,
		      bool *placed)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;
	const struct esc_address *ours = tx ? &entry->key.src : &entry->key.dst;
	const struct esc_address *theirs = tx ? &entry->key.dst : &entry->key.src;
	const struct nic_peer *peer = nic_peers_find(nic->peers, nic->peer_count, theirs);
	unsigned int i = 0;

	while (i < nic->plan.local_count &&
	       (!(nic->plan.locals[i].entry.flags & ESC_NIC_PAIRED) ||
		memcmp(&nic->plan.locals[i].address, ours, sizeof(*ours))))
		i++;
	if (i == nic->plan.local_count || !peer || !peer->host)
		return false;
	*out = (struct nic_used){
		.key = {.src = *ours, .dst = peer->address},
		.local = i,
		.peer_first = peer->entry.first,
		.peer_second = peer->entry.second,
		.host = peer->host,
	};
	memcpy(out->secret, peer->entry.key, sizeof(out->secret));
	*placed = *placed && (peer->used || !nic->without_room);
	return true;
}

/* Its place among those that are listed, or where @table has room for it. */
static uint16_t *use_place(uint16_t table[USED_TABLE], const struct nic_used *list,
			   const struct esc_nic_route_key *key)
{
	uint64_t words[sizeof(*key) / 8], sum = 0;

	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15ull;
	sum >>= 32;
	while (table[sum % USED_TABLE] &&
	       memcmp(&list[table[sum % USED_TABLE] - 1].key, key, sizeof(*key)))
		sum++;
	return &table[sum % USED_TABLE];
}

static void use_now(struct nic *nic)
{
	static struct nic_used list[NIC_USED_MAX];
	uint16_t table[USED_TABLE] = {0}, *place; /* 1 + index in the list */
	const struct qp_entry *entries;
	size_t entry_count, count = 0, unprobed = 0;
	bool placed = true;

	entries = qptable_entries(nic->qps, &entry_count);
	for (size_t i = 0; i < entry_count; i++) {
		struct nic_used used;

		if (!use_entry(nic, &entries[i], &used, &placed))
			continue;
		place = use_place(table, list, &used.key);
		if (*place)
			continue;
		if (count == NIC_USED_MAX) {
			unprobed++;
			continue;
		}
		list[count++] = used;
		*place = (uint16_t)count;
	}
	/* New queue pairs take the places of peers without any. */
	if (!placed)
		nic_peers_apply(nic);
	nic_watch_use(nic->watch, list, count, unprobed);
}

/* --- programs on interfaces --- */

/*
 * Links that an earlier configuration, or an earlier daemon, has left. @keep: NULL none. What
 * forwards a dummy device's packets stays until the device is deleted.
 */
static void detach_others(const struct nic *nic, const struct nic_plan *keep)
{
	const char *root = nic->core->config->pin_root;
	char path[300];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/links", root);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		const char *end = strstr(entry->d_name, "-nic-");
		char name[IF_NAMESIZE] = "";
		bool kept = false;

		if (!end || end - entry->d_name >= IF_NAMESIZE)
			continue;
		memcpy(name, entry->d_name, end - entry->d_name);
		for (size_t i = 0; keep && !kept && i < keep->pair_count; i++)
			kept = !strcmp(name, keep->pairs[i].first) ||
			       !strcmp(name, keep->pairs[i].second) ||
			       !strcmp(name, keep->pairs[i].dummy);
		if (!kept && !pins_forwards(root, entry->d_name))
			pins_drop_link(dataplane_pins(nic->dataplane), name, end + 1);
	}
	if (folder)
		closedir(folder);
}

static uint32_t links_now(const struct nic *nic, bool *all_up)
{
	uint32_t sum = 0;

	*all_up = true;
	for (size_t i = 0; i < nic->plan.pair_count; i++) {
		const struct nic_pair *pair = &nic->plan.pairs[i];
		const char *const names[] = {pair->first, pair->second, pair->dummy};

		for (size_t k = 0; k < 3; k++) {
			struct link_facts link = {};

			if (!names[k][0])
				continue;
			rtnl_link(names[k], &link);
			sum = sum * 31 + link.ifindex;
			/* Only a NIC's addresses may be away, whatever a dummy's carrier is. */
			*all_up = *all_up && (link.up || k == 2);
		}
	}
	return sum;
}

static int attach_all(struct nic *nic, char **error)
{
	bool all_up;
	int err = 0;

	for (size_t i = 0; !err && i < nic->plan.pair_count; i++) {
		const struct nic_pair *pair = &nic->plan.pairs[i];
		const struct {
			const char *name;
			enum nic_hook hook;
		} at[] = {{pair->first, NIC_EGRESS},
			  {pair->first, NIC_INGRESS},
			  {pair->second, NIC_INGRESS},
			  {pair->dummy, NIC_DUMMY}};

		for (size_t k = 0; !err && k < 4 && at[k].name[0]; k++) {
			struct link_facts link;

			/* The kill switch leaves what forwards a dummy device's packets. */
			if (nic->off && (!pair->dummy[0] || at[k].hook == NIC_EGRESS))
				continue;
			err = rtnl_link(at[k].name, &link);
			if (err == -ENODEV)
				err = 0; /* the watch reports it */
			else if (err)
				explain(error, err, "interface %s: %s", at[k].name, strerror(-err));
			else
				err = nic_kernel_attach(&nic->kernel, at[k].name, link.ifindex,
							at[k].hook, error);
		}
	}
	nic->links = links_now(nic, &all_up);
	return err;
}

/* --- on and off --- */

static void write_flags(struct nic *nic, uint32_t flags)
{
	if (nic->kernel.control)
		__atomic_store_n(&nic->kernel.control->flags, flags, __ATOMIC_SEQ_CST);
}

static void stop_watch(struct nic *nic)
{
	nic->report_source = sd_event_source_disable_unref(nic->report_source);
	nic_watch_stop(nic->watch);
	nic->watch = NULL;
}

/* No failover. @note: why, NULL as configured; dummy devices that are attached are forwarded. */
static void end(struct nic *nic, const char *note)
{
	char *devices;

	stop_watch(nic);
	devices = pins_forwarded(nic->core->config->pin_root);
	write_flags(nic, devices ? ESC_NIC_HAS_DUMMY : 0);
	nic_repair_end(nic);
	detach_others(nic, NULL);
	if (note)
		snprintf(nic->note, sizeof(nic->note), "%s", note);
	else if (devices && !nic->off)
		snprintf(nic->note, sizeof(nic->note),
			 "%s is not in the configuration, and is forwarded until it is deleted",
			 devices);
	free(devices);
}

static int begin(struct nic *nic, char **error)
{
	const struct config *config = nic->core->config;
	int err = 0;

	if (!nic->kernel.skeleton)
		err = nic_kernel_open(&nic->kernel, nic->core, dataplane_pins(nic->dataplane),
				      error);
	if (!err)
		err = nic_plan_locals(&nic->plan, config);
	if (!err)
		err = nic_peers_read(nic);
	if (err)
		return err;
	/*
	 * Before the programs: those that are attached may have other maps, and what they forward
	 * is forwarded by the new ones from their first packet on.
	 */
	nic_plan_hops(&nic->plan, nic->peers, nic->peer_count);
	err = nic_kernel_add_locals(&nic->kernel, &nic->plan);
	if (nic->plan.has_dummy)
		__atomic_or_fetch(&nic->kernel.control->flags, ESC_NIC_HAS_DUMMY, __ATOMIC_SEQ_CST);
	if (err)
		return err;
	nic_peers_apply(nic);
	nic->kernel.control->port = nic_keys(config)->port;
	err = attach_all(nic, error);
	if (err)
		return err;
	err = nic_watch_start(&nic->watch, &nic->kernel, &nic->plan, nic->core);
	if (!err)
		err = sd_event_add_io(nic->core->loop, &nic->report_source,
				      nic->watch->report_fds[0], EPOLLIN, nic_on_report, nic);
	if (err < 0)
		return explain(error, err, "the watch on NICs cannot be started: %s",
			       strerror(-err));
	use_now(nic);
	if (nic->off)
		nic_repair_end(nic);
	else
		nic_repair_begin(nic);
	write_flags(nic,
		    (nic->off ? 0 : ESC_NIC_ON) | (nic->plan.has_dummy ? ESC_NIC_HAS_DUMMY : 0) |
			    (nic->repair.on ? ESC_NIC_REPAIR : 0) | nic_key_flags(&config->keys));
	return 0;
}

/* Applies the configuration and the kill switch. */
static void apply(struct nic *nic)
{
	const char *reason;
	char *error = NULL;
	int err;

	stop_watch(nic);
	nic->note[0] = '\0';
	nic_plan_pairs(&nic->plan, nic->core->config);
	if (!nic->plan.pair_count || (nic->off && !nic->plan.has_dummy)) {
		end(nic, NULL);
		return;
	}
	detach_others(nic, nic->off ? NULL : &nic->plan);
	err = begin(nic, &error);
	if (err) {
		reason = error ? error : strerror(-err);
		end(nic, reason);
		log_error("NIC failover is off: %s", reason);
		events_add(nic->core->events, &(struct event){
						      .kind = &nic_events[NIC_REFUSED],
						      .subject = "daemon",
						      .seen = json_pack("{s:s}", "error", reason),
					      });
	}
	free(error);
}

static void nic_reconfigure(void *self, const struct config *old)
{
	(void)old;
	apply(self);
}

static void on_members(void *context, const struct members *before)
{
	struct nic *nic = context;

	(void)before;
	if (!nic->watch)
		return;
	if (nic_peers_read(nic))
		log_error("NIC failover: out of memory for the peers' addresses");
	nic_peers_apply(nic);
	use_now(nic);
}

/* A dummy device is still forwarded when it is off: else it is cut off. */
static int set_off(struct nic *nic, bool off)
{
	if (nic->off != off) {
		nic->off = off;
		apply(nic);
	}
	return 0;
}

static int nic_off(void *self, const char *by, char **error)
{
	(void)by;
	(void)error;
	return set_off(self, true);
}

static int nic_on(void *self, char **error)
{
	(void)error;
	return set_off(self, false);
}

/* A NIC that returns has neither programs nor its previous index. */
static void poll_links(struct nic *nic)
{
	bool all_up;
	uint32_t links = links_now(nic, &all_up);
	struct nic_plan plan = nic->plan;
	char *error = NULL;

	if (links != nic->links && attach_all(nic, &error))
		log_warning("NIC failover: %s", error ? error : "?");
	free(error);
	/* While a NIC is down its IPv6 addresses may be away: the plan stays. */
	if (!all_up || nic_plan_locals(&plan, nic->core->config))
		return;
	nic_plan_hops(&plan, nic->peers, nic->peer_count);
	if (plan.local_count == nic->plan.local_count &&
	    !memcmp(plan.locals, nic->plan.locals, plan.local_count * sizeof(plan.locals[0])))
		return;
	nic->plan = plan;
	nic_watch_replan(nic->watch, &plan);
}

static void nic_tick(void *self, uint64_t now_ns)
{
	struct nic *nic = self;

	(void)now_ns;
	if (!nic->watch)
		return;
	if (!rtnl_wait(CORE_RTNL_MS))
		poll_links(nic);
	use_now(nic);
	nic_repair_tick(nic, time_local_ns());
}

static void nic_links_changed(void *self)
{
	nic_tick(self, 0);
}

static int nic_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return explain(error, -ENOMEM, "NIC failover: out of memory");
	nic->core = core;
	nic->dataplane = needs[0];
	nic->qps = needs[1];
	nic->off = dataplane_is_off(nic->dataplane);
	nic->members = (struct fleet_subscriber){.changed = on_members, .context = nic};
	fleet_subscribe(core->fleet, &nic->members);
	apply(nic);
	*self = nic;
	return 0;
}

static void nic_close(void *self)
{
	struct nic *nic = self;

	fleet_unsubscribe(nic->core->fleet, &nic->members);
	stop_watch(nic);
	nic_repair_end(nic);
	nic_kernel_close(&nic->kernel);
	free(nic->peers);
	free(nic);
}

const struct capability nic_capability = {
	.name = "nic",
	.needs = {"dataplane", "qp"},
	.keys = &nic_section,
	.verbs = nic_verb_handlers,
	.events = nic_events,
	.metrics = nic_metrics,
	.open = nic_open,
	.close = nic_close,
	.tick_ns = 1000000000,
	.tick = nic_tick,
	.reconfigure = nic_reconfigure,
	.off = nic_off,
	.on = nic_on,
	.links_changed = nic_links_changed,
	.status = nic_status,
	.write_metrics = nic_write_metrics,
};
