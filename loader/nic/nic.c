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
#include "config/nic.h"
#include "daemon/daemon.h"
#include "dataplane/dataplane.h"
#include "base/explain.h"
#include "core/events.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "own.h"
#include "qp/table.h"
#include "net/rtnl.h"

/* --- the peers --- */

static int peer_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct esc_address));
}

static void peer_add(struct nics *nics, const struct esc_address *address, uint64_t id,
		     const struct member_nic *nic)
{
	struct nics_peer *peer = &nics->peers[nics->peer_count++];

	*peer = (struct nics_peer){.address = *address, .is = {.id = id}};
	if (nic) {
		peer->is.first = nic->first;
		peer->is.second = nic->second;
		peer->host = nic->host;
	}
}

/* A queue pair's address goes before the mere address of a NIC. */
static void peers_unite(struct nics *nics)
{
	size_t kept = 0;

	qsort(nics->peers, nics->peer_count, sizeof(*nics->peers), peer_compare);
	for (size_t i = 0; i < nics->peer_count; i++) {
		struct nics_peer *last = kept ? &nics->peers[kept - 1] : NULL;

		if (!last || peer_compare(last, &nics->peers[i]))
			nics->peers[kept++] = nics->peers[i];
		else if (nics->peers[i].host)
			*last = nics->peers[i];
	}
	nics->peer_count = kept;
}

static int peers_read(struct nics *nics)
{
	const struct config *config = nics->daemon->config;
	const struct members *members = fleet_members(nics->daemon->core.fleet);
	size_t room = members ? 3 * members->nic_count : 0;

	free(nics->peers);
	nics->peer_count = 0;
	nics->peers = calloc(room + 1, sizeof(*nics->peers));
	if (!nics->peers)
		return -ENOMEM;
	for (size_t i = 0; members && i < members->nic_count; i++) {
		const struct member_nic *nic = &members->nics[i];
		uint64_t id = graph_member_id(nic->host);

		if (!strcmp(nic->host, config->host))
			continue;
		peer_add(nics, &nic->address, id, nic);
		peer_add(nics, &nic->first, id, NULL);
		peer_add(nics, &nic->second, id, NULL);
	}
	peers_unite(nics);
	return 0;
}

static const struct nics_peer *peer_find(const struct nics *nics, const struct esc_address *address)
{
	struct nics_peer key = {.address = *address};

	return nics->peer_count
		       ? bsearch(&key, nics->peers, nics->peer_count, sizeof(key), peer_compare)
		       : NULL;
}

/* What tc ingress noted of a peer that stays is kept. */
static int peers_write(struct nics *nics)
{
	struct esc_address *keys = calloc(nics->peer_count + 1, sizeof(*keys));
	int err = keys ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < nics->peer_count; i++) {
		const struct nics_peer *peer = &nics->peers[i];
		struct esc_nic_peer was, is = peer->is;

		keys[i] = peer->address;
		if (!bpf_map_lookup_elem(nics->kernel.peers_fd, &peer->address, &was))
			is.dead_ktime_ns = was.dead_ktime_ns;
		err = bpf_map_update_elem(nics->kernel.peers_fd, &peer->address, &is, BPF_ANY);
	}
	if (!err)
		nic_kernel_keep_only(nics->kernel.peers_fd, keys, nics->peer_count, sizeof(*keys));
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

static bool is_listed(const struct nic_used *list, size_t count, const struct esc_nic_way_key *key)
{
	for (size_t i = 0; i < count; i++)
		if (!memcmp(&list[i].key, key, sizeof(*key)))
			return true;
	return false;
}

/* True: the entry's addresses are ours and a peer's with NICs. */
static bool use_entry(const struct nics *nics, const struct qp_entry *entry, struct nic_used *out)
{
	bool tx = entry->key.direction == ESC_DIRECTION_TX;
	const struct esc_address *ours = tx ? &entry->key.src : &entry->key.dst;
	const struct nics_peer *peer = peer_find(nics, tx ? &entry->key.dst : &entry->key.src);
	int home = home_of(&nics->plan, ours);

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

static void use_now(struct nics *nics)
{
	static struct nic_used list[NIC_USED_MAX];
	const struct qp_entry *entries;
	size_t entry_count, count = 0, left_out = 0;

	entries = qptable_entries(nics->daemon->qps, &entry_count);
	for (size_t i = 0; i < entry_count; i++) {
		struct nic_used used;

		if (!use_entry(nics, &entries[i], &used) || is_listed(list, count, &used.key))
			continue;
		if (count < NIC_USED_MAX)
			list[count++] = used;
		else
			left_out++;
	}
	nic_watch_use(nics->watch, list, count, left_out);
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
static void detach_others(const struct nics *nics, const struct nic_plan *keep)
{
	char path[300];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/links", nics->daemon->config->pin_root);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		const char *end = strstr(entry->d_name, "-nic-");
		char name[IF_NAMESIZE] = "";

		if (!end || end - entry->d_name >= IF_NAMESIZE)
			continue;
		memcpy(name, entry->d_name, end - entry->d_name);
		if (!keep || !is_in_plan(keep, name, end - entry->d_name))
			nic_kernel_detach(dataplane_pins(nics->daemon->dataplane), name);
	}
	if (folder)
		closedir(folder);
}

static int attach_one(struct nics *nics, const char *name, enum nic_hook hook, char **error)
{
	struct link_facts link;
	int err = rtnl_link(name, &link);

	if (err == -ENODEV)
		return 0; /* its pair is told to be without it */
	if (err)
		return explain(error, err, "interface %s: %s", name, strerror(-err));
	return nic_kernel_attach(&nics->kernel, name, link.ifindex, hook, error);
}

static int attach_pair(struct nics *nics, const struct nic_pair *pair, char **error)
{
	int err = attach_one(nics, pair->first, NIC_EGRESS, error);

	if (!err)
		err = attach_one(nics, pair->first, NIC_INGRESS, error);
	if (!err)
		err = attach_one(nics, pair->second, NIC_INGRESS, error);
	if (!err && pair->dummy[0])
		err = attach_one(nics, pair->dummy, NIC_DUMMY, error);
	return err;
}

static uint32_t links_now(const struct nics *nics, bool *all_up)
{
	uint32_t sum = 0;

	*all_up = true;
	for (size_t i = 0; i < nics->plan.pair_count; i++) {
		const struct nic_pair *pair = &nics->plan.pairs[i];
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

static int attach_all(struct nics *nics, char **error)
{
	bool all_up;
	int err = 0;

	for (size_t i = 0; !err && i < nics->plan.pair_count; i++)
		err = attach_pair(nics, &nics->plan.pairs[i], error);
	nics->links = links_now(nics, &all_up);
	return err;
}

/* --- on and off --- */

static void write_flags(struct nics *nics, uint32_t flags)
{
	if (nics->kernel.word)
		__atomic_store_n(&nics->kernel.word->flags, flags, __ATOMIC_SEQ_CST);
}

static void stop_watch(struct nics *nics)
{
	nics->news_source = sd_event_source_disable_unref(nics->news_source);
	nic_watch_stop(nics->watch);
	nics->watch = NULL;
}

static int start_watch(struct nics *nics, char **error)
{
	int err = nic_watch_start(&nics->watch, &nics->kernel, &nics->plan, nics->daemon->config);

	if (!err)
		err = sd_event_add_io(nics->daemon->event, &nics->news_source,
				      nic_watch_fd(nics->watch), EPOLLIN, nics_on_news, nics);
	return err < 0 ? explain(error, err, "the watch on NICs cannot be started: %s",
				 strerror(-err))
		       : 0;
}

static int begin(struct nics *nics, char **error)
{
	const struct config *config = nics->daemon->config;
	int err = 0;

	if (!nics->kernel.skeleton)
		err = nic_kernel_open(&nics->kernel, dataplane_pins(nics->daemon->dataplane),
				      error);
	if (!err)
		err = nic_plan_homes(&nics->plan, config);
	if (!err)
		err = peers_read(nics);
	if (!err) {
		nic_plan_hops(&nics->plan, nics->peers, nics->peer_count);
		err = peers_write(nics);
	}
	if (!err) {
		nics->kernel.word->port = config->nic.port;
		err = attach_all(nics, error);
	}
	if (!err)
		err = start_watch(nics, error);
	if (err)
		return err;
	use_now(nics);
	write_flags(nics, (nics->off ? 0 : ESC_NIC_ON) |
				  (nics->plan.has_dummy ? ESC_NIC_HAS_DUMMY : 0) |
				  (config_nic_resends(config) ? ESC_NIC_KEEPS : 0));
	return 0;
}

static void tell_refused(struct nics *nics, const char *error)
{
	snprintf(nics->note, sizeof(nics->note), "%s", error);
	log_error("NIC failover is off: %s", error);
	events_record(nics->daemon->ledger, "nic_refused", "daemon",
		   json_pack("{s:s}", "error", error), NULL, NULL, NULL);
}

/* As the configuration and the kill switch have it. */
static void apply(struct nics *nics)
{
	char *error = NULL;
	int err;

	stop_watch(nics);
	nics->note[0] = '\0';
	nic_plan_pairs(&nics->plan, nics->daemon->config);
	if (!nics->plan.pair_count || (nics->off && !nics->plan.has_dummy)) {
		write_flags(nics, 0);
		detach_others(nics, NULL);
		return;
	}
	detach_others(nics, &nics->plan);
	err = begin(nics, &error);
	if (err) {
		stop_watch(nics);
		write_flags(nics, 0);
		detach_others(nics, NULL);
		tell_refused(nics, error ? error : strerror(-err));
	}
	free(error);
}

int nics_new(struct nics **out, struct daemon *daemon, char **error)
{
	struct nics *nics = calloc(1, sizeof(*nics));

	*out = nics;
	if (!nics)
		return explain(error, -ENOMEM, "NIC failover: out of memory");
	nics->daemon = daemon;
	nics->off = dataplane_is_off(daemon->dataplane);
	apply(nics);
	return 0;
}

void nics_free(struct nics *nics)
{
	if (!nics)
		return;
	stop_watch(nics);
	nic_kernel_close(&nics->kernel);
	free(nics->peers);
	free(nics);
}

void nics_reconfigure(struct nics *nics)
{
	if (nics)
		apply(nics);
}

void nics_members_changed(struct nics *nics)
{
	if (!nics || !nics->watch)
		return;
	if (peers_read(nics) || peers_write(nics))
		log_error("NIC failover: the peers' addresses cannot be written");
	use_now(nics);
}

void nics_set_off(struct nics *nics, bool off)
{
	if (!nics || nics->off == off)
		return;
	nics->off = off;
	apply(nics);
}

/* A NIC that is there again has neither programs nor the old index. */
static void look_links(struct nics *nics)
{
	bool all_up;
	uint32_t links = links_now(nics, &all_up);
	struct nic_plan plan = nics->plan;
	char *error = NULL;

	if (links != nics->links && attach_all(nics, &error))
		log_warning("NIC failover: %s", error ? error : "?");
	free(error);
	/* While a NIC is down its IPv6 addresses may be away: what was known stays. */
	if (!all_up || nic_plan_homes(&plan, nics->daemon->config))
		return;
	nic_plan_hops(&plan, nics->peers, nics->peer_count);
	if (plan.home_count == nics->plan.home_count &&
	    !memcmp(plan.homes, nics->plan.homes, plan.home_count * sizeof(plan.homes[0])))
		return;
	nics->plan = plan;
	nic_watch_replan(nics->watch, &plan);
}

void nics_look(struct nics *nics)
{
	if (!nics || !nics->watch)
		return;
	look_links(nics);
	use_now(nics);
	nic_resend_sweep(&nics->kernel);
}
