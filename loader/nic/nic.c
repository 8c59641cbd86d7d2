// SPDX-License-Identifier: BSD-2-Clause
#include "nic.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "clocksync/graph.h"
#include "config/config.h"
#include "core/core.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "own.h"
#include "qp/qp.h"
#include "net/rtnl.h"

/* --- the peers --- */

static int peer_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address));
}

static void peer_add(struct nic *nic, const struct esc_address *address, uint64_t id,
		     const struct member_nic *member)
{
	struct nic_peer *peer = &nic->peers[nic->peer_count++];

	*peer = (struct nic_peer){.address = *address, .is = {.id = id}};
	if (member) {
		peer->is.first = member->first;
		peer->is.second = member->second;
		peer->host = member->host;
	}
}

/* A queue pair's address goes before the mere address of a NIC. */
static void peers_unite(struct nic *nic)
{
	size_t kept = 0;

	qsort(nic->peers, nic->peer_count, sizeof(*nic->peers), peer_compare);
	for (size_t i = 0; i < nic->peer_count; i++) {
		struct nic_peer *last = kept ? &nic->peers[kept - 1] : NULL;

		if (!last || peer_compare(last, &nic->peers[i]))
			nic->peers[kept++] = nic->peers[i];
		else if (nic->peers[i].host)
			*last = nic->peers[i];
	}
	nic->peer_count = kept;
}

static int peers_read(struct nic *nic)
{
	const struct config *config = nic->core->config;
	const struct members *members = fleet_members(nic->core->fleet);
	size_t room = members ? 3 * members->nic_count : 0;

	free(nic->peers);
	nic->peer_count = 0;
	nic->peers = calloc(room + 1, sizeof(*nic->peers));
	if (!nic->peers)
		return -ENOMEM;
	for (size_t i = 0; members && i < members->nic_count; i++) {
		const struct member_nic *member = &members->nics[i];
		uint64_t id = graph_member_id(member->host);

		if (!strcmp(member->host, config->host))
			continue;
		peer_add(nic, &member->address, id, member);
		peer_add(nic, &member->first, id, NULL);
		peer_add(nic, &member->second, id, NULL);
	}
	peers_unite(nic);
	return 0;
}

static const struct nic_peer *peer_find(const struct nic *nic, const struct esc_address *address)
{
	struct nic_peer key = {.address = *address};

	return nic->peer_count
		       ? bsearch(&key, nic->peers, nic->peer_count, sizeof(key), peer_compare)
		       : NULL;
}

/* What tc ingress noted of a peer that stays is kept. */
static int peers_write(struct nic *nic)
{
	struct esc_address *keys = calloc(nic->peer_count + 1, sizeof(*keys));
	int err = keys ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < nic->peer_count; i++) {
		const struct nic_peer *peer = &nic->peers[i];
		struct esc_nic_peer was, is = peer->is;

		keys[i] = peer->address;
		if (!bpf_map_lookup_elem(nic->kernel.peers_fd, &peer->address, &was))
			is.dead_ktime_ns = was.dead_ktime_ns;
		err = bpf_map_update_elem(nic->kernel.peers_fd, &peer->address, &is, BPF_ANY);
	}
	if (!err)
		nic_kernel_keep_only(nic->kernel.peers_fd, keys, nic->peer_count, sizeof(*keys));
	free(keys);
	return err;
}

/* --- the pairs of addresses in use --- */

static int home_of(const struct nic_plan *plan, const struct esc_address *address)
{
	for (size_t i = 0; i < plan->home_count; i++)
		if (plan->homes[i].is.flags & ESC_NIC_PAIRED &&
		    !memcmp(&plan->homes[i].address, address, sizeof(*address)))
			return i;
	return -1;
}

static bool is_listed(const struct nic_used *list, size_t count,
		      const struct esc_nic_route_key *key)
{
	for (size_t i = 0; i < count; i++)
		if (!memcmp(&list[i].key, key, sizeof(*key)))
			return true;
	return false;
}

/* True: the entry's addresses are ours and a peer's with NICs. */
static bool use_entry(const struct nic *nic, const struct qp_entry *entry, struct nic_used *out)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;
	const struct esc_address *ours = tx ? &entry->key.src : &entry->key.dst;
	const struct nic_peer *peer = peer_find(nic, tx ? &entry->key.dst : &entry->key.src);
	int home = home_of(&nic->plan, ours);

	if (home < 0 || !peer || !peer->host)
		return false;
	*out = (struct nic_used){
		.key = {.src = *ours, .dst = peer->address},
		.home = home,
		.peer_first = peer->is.first,
		.peer_second = peer->is.second,
		.host = peer->host,
	};
	return true;
}

static void use_now(struct nic *nic)
{
	static struct nic_used list[NIC_USED_MAX];
	const struct qp_entry *entries;
	size_t entry_count, count = 0, left_out = 0;

	entries = qptable_entries(nic->qps, &entry_count);
	for (size_t i = 0; i < entry_count; i++) {
		struct nic_used used;

		if (!use_entry(nic, &entries[i], &used) || is_listed(list, count, &used.key))
			continue;
		if (count < NIC_USED_MAX)
			list[count++] = used;
		else
			left_out++;
	}
	nic_watch_use(nic->watch, list, count, left_out);
}

/* --- onto the interfaces --- */

static bool is_in_plan(const struct nic_plan *plan, const char *name, size_t bytes)
{
	for (size_t i = 0; i < plan->pair_count; i++) {
		const struct nic_pair *pair = &plan->pairs[i];
		const char *const names[] = {pair->first, pair->second, pair->dummy};

		for (size_t k = 0; k < 3; k++)
			if (strlen(names[k]) == bytes && !strncmp(names[k], name, bytes))
				return true;
	}
	return false;
}

/* Links that an earlier configuration, or an earlier daemon, has left. */
static void detach_others(const struct nic *nic, const struct nic_plan *keep)
{
	char path[300];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/links", nic->core->config->pin_root);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		const char *end = strstr(entry->d_name, "-nic-");
		char name[IF_NAMESIZE] = "";

		if (!end || end - entry->d_name >= IF_NAMESIZE)
			continue;
		memcpy(name, entry->d_name, end - entry->d_name);
		if (!keep || !is_in_plan(keep, name, end - entry->d_name))
			nic_kernel_detach(dataplane_pins(nic->dataplane), name);
	}
	if (folder)
		closedir(folder);
}

static int attach_one(struct nic *nic, const char *name, enum nic_hook hook, char **error)
{
	struct link_facts link;
	int err = rtnl_link(name, &link);

	if (err == -ENODEV)
		return 0; /* its pair is told to be without it */
	if (err)
		return explain(error, err, "interface %s: %s", name, strerror(-err));
	return nic_kernel_attach(&nic->kernel, name, link.ifindex, hook, error);
}

static int attach_pair(struct nic *nic, const struct nic_pair *pair, char **error)
{
	int err = attach_one(nic, pair->first, NIC_EGRESS, error);

	if (!err)
		err = attach_one(nic, pair->first, NIC_INGRESS, error);
	if (!err)
		err = attach_one(nic, pair->second, NIC_INGRESS, error);
	if (!err && pair->dummy[0])
		err = attach_one(nic, pair->dummy, NIC_DUMMY, error);
	return err;
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
			/* A dummy's carrier is what it is; only a NIC's addresses may be away. */
			*all_up = *all_up && (link.up || k == 2);
		}
	}
	return sum;
}

static int attach_all(struct nic *nic, char **error)
{
	bool all_up;
	int err = 0;

	for (size_t i = 0; !err && i < nic->plan.pair_count; i++)
		err = attach_pair(nic, &nic->plan.pairs[i], error);
	nic->links = links_now(nic, &all_up);
	return err;
}

/* --- on and off --- */

static void write_flags(struct nic *nic, uint32_t flags)
{
	if (nic->kernel.word)
		__atomic_store_n(&nic->kernel.word->flags, flags, __ATOMIC_SEQ_CST);
}

static void stop_watch(struct nic *nic)
{
	nic->news_source = sd_event_source_disable_unref(nic->news_source);
	nic_watch_stop(nic->watch);
	nic->watch = NULL;
}

static int start_watch(struct nic *nic, char **error)
{
	int err = nic_watch_start(&nic->watch, &nic->kernel, &nic->plan, nic->core->config);

	if (!err)
		err = sd_event_add_io(nic->core->loop, &nic->news_source, nic_watch_fd(nic->watch),
				      EPOLLIN, nic_on_news, nic);
	return err < 0 ? explain(error, err, "the watch on NICs cannot be started: %s",
				 strerror(-err))
		       : 0;
}

static int begin(struct nic *nic, char **error)
{
	const struct config *config = nic->core->config;
	int err = 0;

	if (!nic->kernel.skeleton)
		err = nic_kernel_open(&nic->kernel, dataplane_pins(nic->dataplane), error);
	if (!err)
		err = nic_plan_homes(&nic->plan, config);
	if (!err)
		err = peers_read(nic);
	if (!err) {
		nic_plan_hops(&nic->plan, nic->peers, nic->peer_count);
		err = peers_write(nic);
	}
	if (!err) {
		nic->kernel.word->port = nic_keys(config)->port;
		err = attach_all(nic, error);
	}
	if (!err)
		err = start_watch(nic, error);
	if (err)
		return err;
	use_now(nic);
	write_flags(nic, (nic->off ? 0 : ESC_NIC_ON) |
				 (nic->plan.has_dummy ? ESC_NIC_HAS_DUMMY : 0) |
				 (nic_resends(config) ? ESC_NIC_RETAIN : 0));
	return 0;
}

static void report_refused(struct nic *nic, const char *error)
{
	snprintf(nic->note, sizeof(nic->note), "%s", error);
	log_error("NIC failover is off: %s", error);
	events_add(nic->core->events, &(struct event){
					      .kind = &nic_events[NIC_REFUSED],
					      .subject = "daemon",
					      .seen = json_pack("{s:s}", "error", error),
				      });
}

/* As the configuration and the kill switch have it. */
static void apply(struct nic *nic)
{
	char *error = NULL;
	int err;

	stop_watch(nic);
	nic->note[0] = '\0';
	nic_plan_pairs(&nic->plan, nic->core->config);
	if (!nic->plan.pair_count || (nic->off && !nic->plan.has_dummy)) {
		write_flags(nic, 0);
		detach_others(nic, NULL);
		return;
	}
	detach_others(nic, &nic->plan);
	err = begin(nic, &error);
	if (err) {
		stop_watch(nic);
		write_flags(nic, 0);
		detach_others(nic, NULL);
		report_refused(nic, error ? error : strerror(-err));
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
	if (peers_read(nic) || peers_write(nic))
		log_error("NIC failover: the peers' addresses cannot be written");
	use_now(nic);
}

/* A dummy device goes on being forwarded: without that it is cut off. */
static void set_off(struct nic *nic, bool off)
{
	if (nic->off == off)
		return;
	nic->off = off;
	apply(nic);
}

static int nic_off(void *self, const char *by, char **error)
{
	(void)by;
	(void)error;
	set_off(self, true);
	return 0;
}

static int nic_on(void *self, char **error)
{
	(void)error;
	set_off(self, false);
	return 0;
}

/* A NIC that is there again has neither programs nor the old index. */
static void poll_links(struct nic *nic)
{
	bool all_up;
	uint32_t links = links_now(nic, &all_up);
	struct nic_plan plan = nic->plan;
	char *error = NULL;

	if (links != nic->links && attach_all(nic, &error))
		log_warning("NIC failover: %s", error ? error : "?");
	free(error);
	/* While a NIC is down its IPv6 addresses may be away: what was known stays. */
	if (!all_up || nic_plan_homes(&plan, nic->core->config))
		return;
	nic_plan_hops(&plan, nic->peers, nic->peer_count);
	if (plan.home_count == nic->plan.home_count &&
	    !memcmp(plan.homes, nic->plan.homes, plan.home_count * sizeof(plan.homes[0])))
		return;
	nic->plan = plan;
	nic_watch_replan(nic->watch, &plan);
}

static void poll(struct nic *nic)
{
	if (!nic->watch)
		return;
	poll_links(nic);
	use_now(nic);
	nic_resend_sweep(&nic->kernel);
}

static void nic_tick(void *self, uint64_t now_ns)
{
	(void)now_ns;
	poll(self);
}

static void nic_links_changed(void *self)
{
	poll(self);
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
	.tick_ns = NIC_TICK_NS,
	.tick = nic_tick,
	.reconfigure = nic_reconfigure,
	.off = nic_off,
	.on = nic_on,
	.links_changed = nic_links_changed,
	.status = nic_status,
	.write_metrics = nic_write_metrics,
};
