// SPDX-License-Identifier: BSD-2-Clause
#include "rotation.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/hash.h"
#include "clock/clock.h"
#include "clocksync/graph.h"
#include "dataplane/dataplane.h"
#include "internal.h"
#include "mesh/mesh.h"
#include "net/rtnl.h"
#include "paths/paths.h"
#include "qp/qp.h"

#define OWN_NS 10000000000ull	   /* addresses of ours are read */
#define OWN_RETRY_NS 1000000000ull /* RTNL was held */
/* Idle timeout of a queue pair: after it the address is not in use. */
#define AWAKE_NS 10000000000ull
#define LATE_NS (4 * ROTATION_GAP_NS) /* between two ticks */
#define PORTS_COUNT 16384	      /* from PROBESOCK_PORT_BASE on */
_Static_assert(ROTATION_ACTIVE_MAX *ROTATION_PROBES < PORTS_COUNT, "a source port for each probe");

/* --- results --- */

static uint64_t hash(const struct esc_path_key *key)
{
	uint64_t value = hash_add(HASH_FIRST, key, sizeof(*key));

	return value / ROTATION_WAYS * ROTATION_WAYS % ROTATION_RESULTS;
}

const struct rotation_result *rotation_find(const struct rotation *rotation,
					    const struct esc_path_key *key)
{
	const struct rotation_result *at = &rotation->results[hash(key)];

	for (unsigned int i = 0; i < ROTATION_WAYS; i++, at++)
		if (at->at_ns && !memcmp(&at->key, key, sizeof(*key)))
			return at;
	return NULL;
}

/* That of @key, or the oldest of its ways. */
static struct rotation_result *result_for(struct rotation *rotation, const struct esc_path_key *key)
{
	struct rotation_result *ways = &rotation->results[hash(key)], *oldest = ways;

	for (unsigned int i = 0; i < ROTATION_WAYS; i++) {
		if (ways[i].at_ns && !memcmp(&ways[i].key, key, sizeof(*key)))
			return &ways[i];
		if (ways[i].at_ns < oldest->at_ns)
			oldest = &ways[i];
	}
	return oldest;
}

bool rotation_get_out(const struct rotation *rotation, const struct esc_path_key *key,
		      struct rotation_out_facts *out)
{
	const struct rotation_result *result = rotation_find(rotation, key);

	if (!result || !result->out.samples)
		return false;
	*out = (struct rotation_out_facts){.owd = result->out,
					   .bound_ns = result->bound_ns,
					   .age_ns = time_local_ns() - result->at_ns,
					   .source_port = result->source_port};
	return true;
}

/* --- a measurement --- */

static void active_end(struct rotation *rotation, struct rotation_active *active)
{
	struct rotation_tally *tally = &rotation->now[active->kind];
	struct rotation_result *result;

	pathsend_remove(rotation->send, active->sending);
	active->sending = NULL;
	if (!active->sent)
		return;
	rotation->measured++;
	rotation_lost_take(rotation, active, time_local_ns());
	tally->answered += active->replied > 0;
	tally->silent += !active->replied;
	result = result_for(rotation, &active->key);
	*result = (struct rotation_result){
		.key = active->key,
		.at_ns = active->newest_ns ? active->newest_ns : time_local_ns(),
		.bound_ns = active->bound_ns,
		.sent = active->sent,
		.replied = active->replied,
		.source_port = active->sport[active->sent - 1],
	};
	quantiles_of(active->out_ns, active->outs, &result->out);
	quantiles_of(active->in_ns, active->ins, &result->in);
}

static void end_all(struct rotation *rotation)
{
	for (size_t i = 0; i < rotation->active_count; i++)
		active_end(rotation, &rotation->active[i]);
	rotation->active_count = 0;
}

/* From an address of ours to one of member @host. */
static void begin(struct rotation *rotation, enum rotation_kind kind,
		  const struct rotation_own *own, const struct esc_address *to, const char *host)
{
	struct rotation_active *active = &rotation->active[rotation->active_count];
	struct pathpacket packet = {
		.from = own->address,
		.to = *to,
		.to_port = own->probe_port,
		.target = graph_member_id(host),
		.flags = own->plane == FLEET_PLANE_FRONTEND ? ESC_PROBE_PLANE : 0,
	};
	struct esc_path_key key = {own->address, *to};

	rotation->now[kind].asked++;
	/* Its candidate paths are probed all the time, with numbers of their own. */
	if (paths_has(rotation->paths, &key)) {
		rotation->now[kind].by_path++;
		return;
	}
	if (rotation->active_count >= rotation->plan.most ||
	    rotation->active_count >= ROTATION_ACTIVE_MAX ||
	    address_is_ipv4(&own->address) != address_is_ipv4(to)) {
		rotation->skipped++;
		return;
	}
	*active = (struct rotation_active){.kind = kind, .key = key};
	if (pathsend_add(rotation->send, own->interface, &packet, 0, &active->sending))
		rotation->failed++;
	else
		rotation->active_count++;
}

/* The probe of number @probe of the active one @i has a source port of its own. */
static uint16_t sport_of(const struct rotation *rotation, size_t i, unsigned int probe)
{
	return (uint16_t)(PROBESOCK_PORT_BASE +
			  (rotation->port_salt + i * ROTATION_PROBES + probe) % PORTS_COUNT);
}

static void send_one(struct rotation *rotation, size_t i)
{
	struct rotation_active *active = &rotation->active[i];
	unsigned int probe = active->sent;

	if (probe >= ROTATION_PROBES)
		return;
	active->sport[probe] = sport_of(rotation, i, probe);
	if (pathsend_try(rotation->send, active->sending, active->sport[probe],
			 PATHPACKET_HOP_LIMIT, &active->sequence[probe])) {
		rotation->failed++;
		return;
	}
	rotation->sent++;
	active->sent_ns[active->sent++] = time_local_ns();
}

/* A reply to a probe of no candidate: ours, or of a survey. */
static void on_record(void *context, const struct esc_path_record *record)
{
	struct rotation *rotation = context;
	unsigned int number =
		(record->sport - PROBESOCK_PORT_BASE - rotation->port_salt + 2u * PORTS_COUNT) %
		PORTS_COUNT;
	unsigned int probe = number % ROTATION_PROBES;
	size_t i = number / ROTATION_PROBES;
	struct rotation_active *active = &rotation->active[i];

	if (rotation->borrower) {
		rotation->borrower(rotation->borrower_context, record);
		return;
	}
	if (record->sport < PROBESOCK_PORT_BASE || i >= rotation->active_count ||
	    probe >= active->sent || active->sequence[probe] != record->sequence)
		return;
	active->sequence[probe] = ~active->sequence[probe]; /* once */
	active->replied++;
	active->replied_mask |= 1u << probe;
	rotation->replied++;
	active->newest_ns = record->ktime_ns;
	if (record->flags & ESC_PATH_TIMED) {
		active->out_ns[active->outs++] = record->out_ns;
		if (record->out_bound_ns > active->bound_ns)
			active->bound_ns = record->out_bound_ns;
	}
	if (record->flags & ESC_PATH_REPLY_TIMED) {
		active->in_ns[active->ins++] = record->in_ns;
		if (record->in_bound_ns > active->bound_ns)
			active->bound_ns = record->in_bound_ns;
	}
}

/* --- where this host is --- */

static int read_own(struct rotation *rotation, uint64_t now_ns)
{
	const struct config *config = rotation->core->config;
	struct ifaddrs *list = NULL;

	rotation->own_due_ns = now_ns + OWN_RETRY_NS;
	if (rtnl_wait(CORE_RTNL_MS) || getifaddrs(&list))
		return -EAGAIN;
	rotation->own_due_ns = now_ns + OWN_NS;
	rotation->own_count = 0;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next)
		for (size_t i = 0; i < config->interface_count; i++) {
			const struct config_interface *interface = &config->interfaces[i];
			struct rotation_own *own = &rotation->own[rotation->own_count];

			if (rotation->own_count == ROTATION_OWN_MAX ||
			    strcmp(at->ifa_name, interface->name) ||
			    !address_of_socket(at->ifa_addr, &own->address) ||
			    dataplane_lacks(rotation->dataplane, interface->name))
				continue;
			snprintf(own->interface, sizeof(own->interface), "%s", interface->name);
			own->plane = interface->plane;
			own->probe_port = interface->probe_port;
			own->bps = ethtool_speed_bps(interface->name);
			rotation->own_count++;
		}
	freeifaddrs(list);
	return 0;
}

int rotation_read_own(struct rotation *rotation)
{
	int err = read_own(rotation, time_local_ns());

	return rotation->own_count ? 0 : err;
}

const struct rotation_own *rotation_own(const struct rotation *rotation,
					const struct esc_address *address)
{
	for (size_t i = 0; i < rotation->own_count; i++)
		if (!memcmp(&rotation->own[i].address, address, sizeof(*address)))
			return &rotation->own[i];
	return NULL;
}

bool rotation_can_probe(const struct rotation *rotation, enum fleet_plane plane,
			const struct member *port)
{
	const struct rotation_own *own = rotation_own(rotation, &port->address);

	return own && own->plane == plane;
}

static void find_self(struct rotation *rotation, const struct members *members)
{
	const char *name = rotation->core->config->host;

	for (size_t r = 0; members && r < members->rack_count; r++)
		for (uint32_t h = 0; h < members->racks[r].count; h++)
			if (!strcmp(members_host_name(members,
						      &members->hosts[members->racks[r].first + h]),
				    name)) {
				rotation->self_rack = r;
				rotation->self_host = members->racks[r].first + h;
				return;
			}
}

static int read_rack(struct rotation *rotation, const struct members *members,
		     enum fleet_plane plane)
{
	const struct member_rack *rack = &members->racks[rotation->self_rack];
	struct rotation_rack *out = &rotation->rack[plane];
	size_t room = (size_t)rack->count * members->ports_max;

	out->ports = calloc(room + MEMBER_PORTS_MAX, sizeof(struct member *));
	if (!out->ports)
		return -ENOMEM;
	for (uint32_t h = rack->first; h < rack->first + rack->count; h++) {
		uint32_t found = (uint32_t)members_ports(members, &members->hosts[h], plane,
							 out->ports + out->count, MEMBER_PORTS_MAX);

		if (h == rotation->self_host) {
			out->first = out->count;
			out->own = found;
		}
		out->count += found;
	}
	return 0;
}

static void forget_rack(struct rotation *rotation)
{
	end_all(rotation);
	for (unsigned int i = 0; i < 2; i++) {
		free(rotation->rack[i].ports);
		rotation->rack[i] = (struct rotation_rack){};
	}
}

/* The members or the configuration changed. */
static void apply(struct rotation *rotation)
{
	const struct members *members = fleet_members(rotation->core->fleet);

	forget_rack(rotation);
	rotation->plan = (struct rotation_plan){};
	rotation->own_due_ns = 0;
	memset(rotation->now, 0, sizeof(rotation->now));
	memset(rotation->last, 0, sizeof(rotation->last));
	rotation->self_rack = rotation->self_host = SIZE_MAX;
	if (!rotation->core->config->mesh.rotation_pps) {
		rotation_lost_check(rotation, true, time_local_ns());
		return;
	}
	find_self(rotation, members);
	if (rotation->self_rack == SIZE_MAX)
		return;
	rotation_plan_make(&rotation->plan, rotation->core->config->mesh.rotation_pps,
			   members->ports_max, members->host_count, members->rack_count);
	for (unsigned int plane = 0; plane < 2; plane++)
		if (read_rack(rotation, members, plane))
			rotation->plan.most = 0;
}

static void on_members(void *context, const struct members *before)
{
	(void)before;
	apply(context);
}

/* --- a slot --- */

/* Counts of a cycle that has ended are what is shown. */
static void tally_cycle(struct rotation *rotation, enum rotation_kind kind, uint64_t cycle)
{
	struct rotation_tally *now = &rotation->now[kind];

	if (now->cycle == cycle)
		return;
	if (now->whole)
		rotation->last[kind] = *now;
	/* The first one began anywhere in its cycle. */
	*now = (struct rotation_tally){.cycle = cycle, .whole = now->cycle != 0};
}

static void schedule_near(struct rotation *rotation, enum fleet_plane plane, uint64_t slot)
{
	const struct rotation_plan *plan = &rotation->plan;
	const struct rotation_rack *rack = &rotation->rack[plane];
	uint64_t round = rotation_near_round(plan, slot), cycle = rotation_cycle(rack->count);

	for (uint32_t i = rack->first; cycle && i < rack->first + rack->own; i++) {
		const struct rotation_own *own = rotation_own(rotation, &rack->ports[i]->address);

		if (!own || own->plane != plane)
			continue;
		for (uint32_t k = 0; k < plan->near_rounds && k < cycle; k++) {
			uint32_t other = rotation_partner(rack->count, round + k, i);

			if (other == ROTATION_NONE ||
			    !rotation_near_is_in(plan, slot, round / cycle, i, other) ||
			    !strcmp(rack->ports[other]->host, rack->ports[i]->host))
				continue;
			begin(rotation, ROTATION_NEAR, own, &rack->ports[other]->address,
			      rack->ports[other]->host);
		}
	}
}

/* The host of rack @to that is measured, by the NIC on the same rail. */
static void begin_far(struct rotation *rotation, const struct members *members, uint64_t round,
		      uint32_t to)
{
	const struct member *ours[MEMBER_PORTS_MAX], *theirs[MEMBER_PORTS_MAX];
	uint32_t racks = (uint32_t)members->rack_count, self = (uint32_t)rotation->self_rack;
	uint32_t index = rotation_far_host(round, racks, to, members->racks[to].count);
	const struct member_host *host = &members->hosts[members->racks[to].first + index];
	uint64_t draw = rotation_far_draw(round, racks, self, to);
	const struct rotation_own *own;
	size_t count, others, at;

	for (unsigned int plane = 0; plane < 2; plane++) {
		count = members_ports(members, &members->hosts[rotation->self_host], plane, ours,
				      MEMBER_PORTS_MAX);
		others = members_ports(members, host, plane, theirs, MEMBER_PORTS_MAX);
		if (!count || !others)
			continue;
		own = rotation_own(rotation, &ours[draw % count]->address);
		at = draw % others;
		for (size_t i = 0; i < others && ours[draw % count]->rail; i++)
			if (theirs[i]->rail && !strcmp(theirs[i]->rail, ours[draw % count]->rail))
				at = i;
		if (own && own->plane == plane) {
			begin(rotation, ROTATION_FAR, own, &theirs[at]->address, theirs[at]->host);
			return;
		}
	}
}

static void schedule_far(struct rotation *rotation, const struct members *members, uint64_t slot)
{
	const struct rotation_plan *plan = &rotation->plan;
	uint32_t racks = (uint32_t)members->rack_count, self = (uint32_t)rotation->self_rack;
	const struct member_rack *rack = &members->racks[self];
	uint64_t cycle = rotation_cycle(racks);

	for (uint64_t k = 0; k < plan->far_rounds && k < cycle; k++) {
		uint64_t round = slot * plan->far_rounds + k;
		uint32_t to = rotation_partner(racks, round, self);

		if (to != ROTATION_NONE &&
		    rack->first + rotation_far_host(round, racks, self, rack->count) ==
			    rotation->self_host &&
		    rotation_far_is_in(plan, round, racks, rack->count))
			begin_far(rotation, members, round, to);
	}
}

/* Whether probes of the mesh or of candidate paths measure the address that @key leads to. */
static bool is_measured(const struct rotation *rotation, const struct esc_path_key *key)
{
	struct mesh_out_facts mesh;
	struct path_out_facts path;

	return mesh_get_out(rotation->mesh, &key->dst, 0, &mesh) ||
	       paths_get_out(rotation->paths, key, false, &path);
}

/* Addresses that queue pairs send to, and nothing else measures, one after the other. */
static void schedule_used(struct rotation *rotation, const struct members *members, uint64_t now_ns)
{
	const struct esc_qp_key *before = NULL;
	size_t count, found = 0, begun = 0, first = rotation->used_next;
	const struct qp_entry *entries = qptable_entries(rotation->qps, &count);

	for (size_t i = 0; i < count; i++) {
		const struct qp_entry *entry = &entries[i];
		struct esc_path_key key = {entry->key.src, entry->key.dst};
		const struct rotation_own *own;
		const char *host;

		if (entry->key.direction != ESC_DIRECTION_TX || !entry->moved_local_ns ||
		    (int64_t)(now_ns - entry->moved_local_ns) > (int64_t)AWAKE_NS ||
		    (before && !memcmp(before, &entry->key, sizeof(key))))
			continue;
		before = &entry->key;
		own = rotation_own(rotation, &key.src);
		host = own ? members_host(members, &key.dst) : NULL;
		if (!host || !strcmp(host, rotation->core->config->host) ||
		    is_measured(rotation, &key))
			continue;
		if (found++ < first || begun >= rotation->plan.used_most)
			continue;
		begun++;
		begin(rotation, ROTATION_USED, own, &key.dst, host);
	}
	rotation->used_count = found;
	rotation->used_next = first + begun < found ? first + begun : 0;
}

/* The measurements of the slot before have ended. */
static void tally_all(struct rotation *rotation, const struct members *members, uint64_t slot)
{
	const struct rotation_rack *racks = rotation->rack;
	uint64_t near = rotation_cycle(racks[racks[0].count < racks[1].count].count);
	uint64_t far = rotation_cycle((uint32_t)members->rack_count);

	if (near)
		tally_cycle(rotation, ROTATION_NEAR,
			    rotation_near_round(&rotation->plan, slot) / near);
	if (far)
		tally_cycle(rotation, ROTATION_FAR, slot * rotation->plan.far_rounds / far);
}

static void slot_begin(struct rotation *rotation, uint64_t slot, uint64_t now_ns)
{
	const struct members *members = fleet_members(rotation->core->fleet);

	tally_all(rotation, members, slot);
	rotation->slot = slot;
	rotation_lost_check(rotation, false, now_ns);
	/* In use first: what has no room is left out. */
	rotation->port_salt = (uint16_t)(slot * 7919 % PORTS_COUNT);
	schedule_used(rotation, members, now_ns);
	for (unsigned int plane = 0; plane < 2; plane++)
		schedule_near(rotation, plane, slot);
	schedule_far(rotation, members, slot);
}

static const char *why_not(const struct rotation *rotation, bool fabric_known)
{
	if (!rotation->core->config->mesh.rotation_pps)
		return "`mesh.rotation_pps` is 0";
	if (rotation->borrower)
		return "a run of all pairs is under way";
	if (!fleet_members(rotation->core->fleet))
		return "there is no members file";
	if (rotation->self_rack == SIZE_MAX)
		return "this host is not in the members file";
	if (!rotation->plan.most)
		return "`mesh.rotation_pps` is too small";
	if (dataplane_is_off(rotation->dataplane))
		return "the kill switch is on";
	return fabric_known ? NULL : "there is no fabric time yet";
}

static void tick(void *self, uint64_t now_ns)
{
	struct rotation *rotation = self;
	struct clock_facts clock;
	uint64_t slot;

	rotation->late = now_ns > rotation->tick_ns + LATE_NS;
	rotation->tick_ns = now_ns;
	/* For a run of all pairs also where nothing is measured in turn. */
	if (now_ns >= rotation->own_due_ns && fleet_members(rotation->core->fleet))
		read_own(rotation, now_ns);
	clock_get(rotation->clock, &clock);
	rotation->note = why_not(rotation, clock.known && clock.fabric_ns > 0);
	if (rotation->note) {
		end_all(rotation);
		return;
	}
	slot = (uint64_t)clock.fabric_ns / ROTATION_SLOT_NS;
	if (slot != rotation->slot) {
		end_all(rotation);
		slot_begin(rotation, slot, now_ns);
	}
	for (size_t i = 0; i < rotation->active_count; i++)
		send_one(rotation, i);
}

void rotation_lend(struct rotation *rotation, paths_record_fn *fn, void *context)
{
	end_all(rotation);
	rotation->slot = 0;
	rotation->borrower = fn;
	rotation->borrower_context = context;
}

/* --- what is shown --- */

uint64_t rotation_pairs(const struct rotation *rotation, enum rotation_kind kind)
{
	const struct members *members = fleet_members(rotation->core->fleet);
	uint64_t pairs = 0;

	if (!rotation->plan.most || !members)
		return 0;
	if (kind == ROTATION_USED)
		return rotation->used_count;
	if (kind == ROTATION_FAR)
		return members->rack_count * (members->rack_count - 1) / 2;
	for (unsigned int plane = 0; plane < 2; plane++) {
		const struct rotation_rack *rack = &rotation->rack[plane];

		for (uint32_t i = rack->first; i < rack->first + rack->own; i++)
			pairs += rotation_can_probe(rotation, plane, rack->ports[i])
					 ? rack->count - rack->own
					 : 0;
	}
	return pairs;
}

double rotation_cycle_s(const struct rotation *rotation, enum rotation_kind kind)
{
	const struct rotation_plan *plan = &rotation->plan;
	const struct members *members = fleet_members(rotation->core->fleet);
	double backend, frontend;

	if (!plan->most || !members)
		return 0;
	if (kind == ROTATION_FAR)
		return rotation_far_cycle_s(plan, (uint32_t)members->rack_count);
	if (kind == ROTATION_USED)
		return (double)((rotation->used_count + plan->used_most - 1) / plan->used_most) *
		       (ROTATION_SLOT_NS / 1e9);
	backend = rotation_near_cycle_s(plan, rotation->rack[FLEET_PLANE_BACKEND].count);
	frontend = rotation_near_cycle_s(plan, rotation->rack[FLEET_PLANE_FRONTEND].count);
	return backend > frontend ? backend : frontend;
}

/* --- as a capability --- */

static void reconfigure(void *self, const struct config *old)
{
	struct rotation *rotation = self;

	(void)old;
	rotation->own_count = 0; /* other interfaces */
	apply(rotation);
}

static void rotation_close(void *self)
{
	struct rotation *rotation = self;

	paths_on_record(rotation->paths, NULL, NULL);
	fleet_unsubscribe(rotation->core->fleet, &rotation->members);
	forget_rack(rotation);
	free(rotation->active);
	free(rotation->results);
	free(rotation);
}

static int rotation_open(void **self, struct core *core, void *const needs[], char **error)
{
	struct rotation *rotation = calloc(1, sizeof(*rotation));

	if (!rotation)
		return explain(error, -ENOMEM, "rotation: out of memory");
	rotation->core = core;
	rotation->dataplane = needs[0];
	rotation->clock = needs[1];
	rotation->mesh = needs[2];
	rotation->qps = needs[3];
	rotation->paths = needs[4];
	rotation->send = paths_sender(rotation->paths);
	rotation->active = calloc(ROTATION_ACTIVE_MAX + 1, sizeof(*rotation->active));
	rotation->results = calloc(ROTATION_RESULTS, sizeof(*rotation->results));
	rotation->members = (struct fleet_subscriber){.changed = on_members, .context = rotation};
	fleet_subscribe(core->fleet, &rotation->members);
	if (!rotation->active || !rotation->results) {
		rotation_close(rotation);
		return explain(error, -ENOMEM, "rotation: out of memory");
	}
	paths_on_record(rotation->paths, on_record, rotation);
	apply(rotation);
	*self = rotation;
	return 0;
}

const struct capability rotation_capability = {
	.name = "rotation",
	.needs = {"dataplane", "clock", "mesh", "qp", "paths"},
	.verbs = rotation_verb_handlers,
	.events = rotation_events,
	.metrics = rotation_metrics,
	.open = rotation_open,
	.close = rotation_close,
	.tick_ns = ROTATION_GAP_NS,
	.tick = tick,
	.reconfigure = reconfigure,
	.status = rotation_put_status,
	.write_metrics = rotation_write_metrics,
};
