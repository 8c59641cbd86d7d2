// SPDX-License-Identifier: BSD-2-Clause
/* What escapementd reports: fabric time, and the NICs that it probes. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "internal.h"

#define BOUND_NS_MOST 1000 /* a one-way delay within a rack is some 2 us */

static const json_t *reply(const struct audit_run *run, const char *verb)
{
	return json_object_get(run->options->daemon, verb);
}

static void no_daemon(struct audit_run *run)
{
	audit_unknown(run, "", "%s",
		      run->options->root[0] ? "a captured tree has no replies of the daemon"
					    : "no escapementd replies");
}

/* --- fabric time --- */

/*
 * Of the NIC pairs that are probed a third or more are not up, as with a NIC that is down: these
 * are the fault, and a clock that agrees with the rest is not to be expected. @up: of all.
 */
static bool lacks_peers(const struct audit_run *run, size_t *up, size_t *all)
{
	const json_t *peers = json_object_get(reply(run, "peers"), "peers"), *peer;
	size_t i;

	*up = 0;
	*all = json_array_size(peers);
	json_array_foreach (peers, i, peer)
		*up += !strcmp(json_text(peer, "state"), "up");
	return *all && *up * 3 <= *all * 2;
}

static void synced(struct audit_run *run)
{
	const char *state = json_text(reply(run, "clock"), "state");
	size_t up, all;

	if (!reply(run, "clock"))
		no_daemon(run);
	else if (strcmp(state, "synced") && lacks_peers(run, &up, &all))
		audit_skip(run, "", "%s: %zu of %zu NIC pairs are up", state, up, all);
	else
		audit_decide(
			run, !strcmp(state, "synced"), "", "%s, %llu of %llu peers", state,
			(unsigned long long)json_count(reply(run, "clock"), "peers_used"),
			(unsigned long long)json_count(reply(run, "clock"), "peers_configured"));
}

static void bound(struct audit_run *run)
{
	const json_t *clock = reply(run, "clock");

	if (!clock)
		no_daemon(run);
	else if (strcmp(json_text(clock, "state"), "synced"))
		audit_skip(run, "", "clock.synced: it is %s", json_text(clock, "state"));
	else if (!json_object_get(clock, "bound_ns"))
		audit_skip(run, "", "clock.synced: there is no fabric time");
	else
		audit_decide(run, json_count(clock, "bound_ns") <= BOUND_NS_MOST, "", "%llu ns",
			     (unsigned long long)json_count(clock, "bound_ns"));
}

/* A host without a key cannot take part where the others have one. */
static void key(struct audit_run *run)
{
	const json_t *probing = json_object_get(reply(run, "status"), "probing");

	if (!reply(run, "status"))
		no_daemon(run);
	else if (!json_object_get(probing, "authority"))
		audit_unknown(run, "", "escapementd does not report it");
	else
		audit_record(run, "", "%s",
			     json_is_true(json_object_get(probing, "authority")) ? "there is one"
										 : "none");
}

/* --- interfaces and peers --- */

struct tally {
	size_t good, all;
	char first[64];	 /* of those that fail */
	char silent[64]; /* the first that is silent for less than mesh.down_after */
	json_t *failed;	 /* all that fail; new reference */
};

enum peer_result { PEER_PASSES, PEER_FAILS, PEER_UNKNOWN, PEER_LEFT_OUT };

/* A host whose CPU is away is silent for a while: what is not down yet is not known. */
static enum peer_result judge_peer(const json_t *peer)
{
	const char *state = json_text(peer, "state");

	if (!strcmp(state, "up"))
		return PEER_PASSES;
	/* Rails need not be connected. */
	if (!strcmp(json_text(peer, "edge"), "cross") && !json_object_get(peer, "last_heard_ms"))
		return PEER_LEFT_OUT;
	if (!strcmp(state, "suspect") && !json_is_true(json_object_get(peer, "no_replies")))
		return PEER_UNKNOWN;
	return PEER_FAILS;
}

static void keep_first(char *out, size_t bytes, const json_t *peer)
{
	if (!*out)
		snprintf(out, bytes, "%s", json_text(peer, "peer"));
}

/* Of the NIC pairs of an interface. */
static struct tally count_peers(const struct audit_run *run, const char *interface)
{
	const json_t *peers = json_object_get(reply(run, "peers"), "peers"), *peer;
	struct tally tally = {.failed = json_array()};
	size_t i;

	json_array_foreach (peers, i, peer) {
		enum peer_result result = judge_peer(peer);

		if (strcmp(json_text(peer, "interface"), interface) || result == PEER_LEFT_OUT)
			continue;
		tally.all++;
		tally.good += result == PEER_PASSES;
		if (result == PEER_UNKNOWN)
			keep_first(tally.silent, sizeof(tally.silent), peer);
		if (result != PEER_FAILS)
			continue;
		json_array_append(tally.failed, json_object_get(peer, "peer"));
		keep_first(tally.first, sizeof(tally.first), peer);
	}
	return tally;
}

static void fail_peers(struct audit_run *run, const char *subject, const struct tally *tally)
{
	json_t *entry;

	audit_fail(run, subject, "%zu of %zu peers, not %s", tally->good, tally->all, tally->first);
	entry = json_array_get(run->results, json_array_size(run->results) - 1);
	json_put_count(entry, "peers_up", tally->good);
	json_object_set(entry, "peers_down", tally->failed);
}

static void connectivity_of(struct audit_run *run, const char *subject, const char *interface)
{
	struct tally tally = count_peers(run, interface);

	if (!tally.all)
		audit_unknown(run, subject, "no peer is probed from %s", interface);
	else if (tally.first[0])
		fail_peers(run, subject, &tally);
	else if (tally.silent[0])
		audit_unknown(run, subject, "%s is silent, for less than mesh.down_after",
			      tally.silent);
	else
		audit_pass(run, subject, "%zu peers", tally.all);
	json_decref(tally.failed);
}

static const json_t *interface_named(const struct audit_run *run, const char *name)
{
	const json_t *interfaces = json_object_get(reply(run, "status"), "interfaces"), *interface;
	size_t i;

	json_array_foreach (interfaces, i, interface)
		if (!strcmp(json_text(interface, "name"), name))
			return interface;
	return NULL;
}

static bool is_attached(const json_t *interface)
{
	const char *attach = json_text(interface, "attach");

	return *attach && strcmp(attach, "none") && *json_text(interface, "tc");
}

/* Front-end interfaces of the configuration: their link, and their peers. */
static void each_frontend(struct audit_run *run, void (*fn)(struct audit_run *run, const char *name,
							    const json_t *interface))
{
	const json_t *interfaces = json_object_get(reply(run, "status"), "interfaces"), *interface;
	bool any = false;
	size_t i;

	if (!reply(run, "status")) {
		no_daemon(run);
		return;
	}
	json_array_foreach (interfaces, i, interface) {
		if (strcmp(json_text(interface, "plane"), "frontend"))
			continue;
		any = true;
		fn(run, json_text(interface, "name"), interface);
	}
	if (!any)
		audit_unknown(run, "", "the configuration names no interface of the front end");
}

static void frontend_link_of(struct audit_run *run, const char *name, const json_t *interface)
{
	bool up = json_is_true(json_object_get(interface, "link_up"));

	audit_decide(run, up, name, "%s", up ? "up" : "down");
}

static void frontend_link(struct audit_run *run)
{
	each_frontend(run, frontend_link_of);
}

static void frontend_peers_of(struct audit_run *run, const char *name, const json_t *interface)
{
	if (json_is_true(json_object_get(interface, "link_up")))
		connectivity_of(run, name, name);
	else
		audit_skip(run, name, "frontend.link failed");
}

static void frontend_peers(struct audit_run *run)
{
	each_frontend(run, frontend_peers_of);
}

/* Ports whose network device is not in the configuration are not probed: that is a choice. */
static void initialized(struct audit_run *run)
{
	if (!reply(run, "status"))
		no_daemon(run);
	audit_for_each_nic(nic, run)
	{
		const json_t *interface = interface_named(run, nic->netdev);

		if (!reply(run, "status"))
			return;
		if (!interface)
			audit_unknown(run, nic->subject, "%s is not in the configuration",
				      nic->netdev[0] ? nic->netdev : "its network device");
		else
			audit_decide(run, is_attached(interface), nic->subject, "XDP %s, tc %s",
				     json_text(interface, "attach"), json_text(interface, "tc"));
	}
}

static void connectivity(struct audit_run *run)
{
	if (!reply(run, "peers"))
		no_daemon(run);
	audit_for_each_nic(nic, run)
	{
		if (!reply(run, "peers"))
			return;
		if (nic->active_failed)
			audit_skip(run, nic->subject, "nic.active failed");
		else if (!interface_named(run, nic->netdev))
			audit_unknown(run, nic->subject, "%s is not in the configuration",
				      nic->netdev[0] ? nic->netdev : "its network device");
		else
			connectivity_of(run, nic->subject, nic->netdev);
	}
}

static void each_link(struct audit_run *run, void (*fn)(struct audit_run *run, const json_t *link))
{
	const json_t *links = json_object_get(reply(run, "links"), "links"), *link;
	size_t i;

	if (!reply(run, "links"))
		no_daemon(run);
	json_array_foreach (links, i, link)
		fn(run, link);
}

/* Of an RDMA port nic.active is the check, of the front end frontend.link. */
static bool has_own_check(const struct audit_run *run, const char *netdev)
{
	const char *plane = json_text(interface_named(run, netdev), "plane");

	for (size_t i = 0; i < run->nic_count; i++)
		if (!strcmp(run->nics[i].netdev, netdev))
			return true;
	return !strcmp(plane, "frontend");
}

/* Down by design is `unused`, and `admin_down` what an operator set down. */
static void link_of(struct audit_run *run, const json_t *link)
{
	const char *netdev = json_text(link, "netdev"), *state = json_text(link, "state");

	if (has_own_check(run, netdev))
		return;
	if (!strcmp(state, "up") || !strcmp(state, "down"))
		audit_decide(run, *state == 'u', netdev, "%s", state);
	else
		audit_unknown(run, netdev, "%s", *state ? state : "escapementd does not report it");
}

static void backend_link(struct audit_run *run)
{
	each_link(run, link_of);
}

/*
 * The kernel's own counts within the last hour, restarts included. The alarm `down` is of a link
 * that has stayed down, which is no flap.
 */
static void flaps_of(struct audit_run *run, const json_t *link)
{
	const char *kind = json_text(json_object_get(link, "alarm"), "kind");
	bool flaps = !strcmp(kind, "flapping");

	audit_decide(run, !flaps, json_text(link, "netdev"), "%llu within an hour%s",
		     (unsigned long long)json_count(link, "flaps_1h"),
		     flaps ? ", alarm: flapping" : "");
}

static void flaps(struct audit_run *run)
{
	each_link(run, flaps_of);
}

/* clang-format off: a table */

const struct audit_check audit_daemon_checks[] = {
	{"clock.synced", .group = "clock", .name = "fabric time", .source = "escapement clock",
	 .criterion = "synced", .remedy = "see `escapement clock` and `escapement peers`",
	 .unknown = "no escapementd replies", .severity = "critical", .run = synced},
	{"clock.bound", .group = "clock", .name = "error bound of fabric time",
	 .source = "escapement clock", .criterion = "at most 1000 ns",
	 .remedy = "see `escapement clock`: which peers are not used, and why",
	 .unknown = "no escapementd replies", .severity = "warning", .run = bound},
	{"clock.key", .group = "clock", .name = "key of the probes", .compare = AUDIT_MAJORITY,
	 .source = "escapement status", .criterion = "as on most hosts",
	 .remedy = "set `key_file`, the same on all hosts; its owner is root, its mode 0600",
	 .unknown = "no escapementd replies", .severity = "critical", .run = key},
	{"frontend.link", .group = "frontend", .name = "link of the front end",
	 .source = "escapement status", .criterion = "up",
	 .remedy = "check cable and module; then the switch's port",
	 .unknown = "no escapementd replies, or it has no such interface", .severity = "critical",
	 .run = frontend_link},
	{"frontend.connectivity", .group = "frontend", .name = "peers on the front end",
	 .source = "escapement peers", .criterion = "each is up and replies",
	 .remedy = "see `escapement peers`; audit the peer that is named",
	 .unknown = "no peer is probed there, or one is silent and not down yet",
	 .severity = "critical", .run = frontend_peers},
	{"backend.initialized", .group = "backend", .name = "programs on the NIC",
	 .source = "escapement status", .criterion = "XDP and tc are attached",
	 .remedy = "see `escapement status` for the reason",
	 .unknown = "no escapementd replies, or its configuration lacks the NIC",
	 .severity = "warning", .run = initialized},
	{"backend.link", .group = "backend", .name = "links without an RDMA port",
	 .source = "escapement links", .criterion = "up",
	 .remedy = "check cable and module; then the switch's port",
	 .unknown = "no escapementd replies, or the link is down by design or by an operator",
	 .severity = "critical", .run = backend_link},
	{"backend.flaps", .group = "backend", .name = "flaps of the links",
	 .source = "escapement links", .criterion = "no alarm `flapping`",
	 .remedy = "check cable and module; then `escapement links ack LINK`",
	 .unknown = "no escapementd replies", .severity = "critical", .run = flaps},
	{},
};

/* After nic.active, on which it depends. */
const struct audit_check audit_peer_checks[] = {
	{"backend.connectivity", .group = "backend", .name = "peers of the NIC",
	 .source = "escapement peers",
	 .criterion = "each is up and replies, but for other rails that are not connected",
	 .remedy = "see `escapement peers`; audit the peer that is named",
	 .unknown = "no peer is probed from the NIC, or one is silent and not down yet",
	 .severity = "critical", .run = connectivity},
	{},
};
