// SPDX-License-Identifier: BSD-2-Clause
/*
 * Faults drawn at random in a fabric of three tiers, as each host sees them by its own pairs and by
 * what the others report of their NICs: a confusion matrix. ESCAPEMENT_SEED repeats a run.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/fault.h"
#include "tests/lib/rng.h"

#define HOSTS 8u
#define RAILS 4u
#define NICS (RAILS + 1) /* the last one is on the front end */
#define RACKS 4u
#define PODS 2u
#define SPINES 4u /* of a pod */
#define CORES 2u
#define OFFSETS 2 /* of neighbors on a rail, in both directions */

static unsigned int rack_of(unsigned int host)
{
	return host * RACKS / HOSTS;
}

static unsigned int pod_of(unsigned int host)
{
	return host * PODS / HOSTS;
}

static const char *const rack_names[RACKS] = {"r1", "r2", "r3", "r4"};

/* --- the fabric: what is broken, and which way a probe goes --- */

enum kind {
	NOTHING,
	NIC,
	CABLE,
	RECEIVE,
	TRANSMIT,
	TOR,
	SPINE,
	UPLINK,
	UPLINK_ONE_WAY,
	HOST,
	RAIL,
	PLANE,
	FRONTEND,
	PAIR_IN_RACK,
	PAIR_FAR,
	KINDS
};
static const char *const kind_names[KINDS] = {
	"nothing", "nic",  "cable", "receive", "transmit", "tor",	 "spine",    "uplink",
	"uplink1", "host", "rail",  "plane",   "frontend", "pair(rack)", "pair(far)"};

static struct fabric {
	enum kind kind;
	unsigned int host, other, nic, rack, pod, spine;
	bool up;       /* the direction of a link that is lost */
	uint32_t hash; /* of all paths */
} fabric;

/* By hash of the directed pair. */
static unsigned int choose(unsigned int from, unsigned int to, unsigned int nic, unsigned int salt,
			   unsigned int count)
{
	uint32_t x =
		fabric.hash ^ (from * 0x9e3779b1u + to * 0x85ebca77u + nic * 0xc2b2ae3du + salt);

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	x *= 0x297a2d39u;
	x ^= x >> 15;
	return x % count;
}

/* @port: the host whose probes have that source port; replies have it as well, and another path. */
static bool is_lost_above(unsigned int from, unsigned int to, unsigned int nic, unsigned int port)
{
	unsigned int salt = port * 8 + 1, up = choose(from, to, nic, salt, SPINES), down = up;

	if (rack_of(from) == rack_of(to) || nic == RAILS)
		return false;
	if (pod_of(from) != pod_of(to))
		down = choose(from, to, nic, salt + 2, SPINES);
	if (fabric.kind == SPINE)
		return (pod_of(from) == fabric.pod && up == fabric.spine) ||
		       (pod_of(to) == fabric.pod && down == fabric.spine);
	if ((fabric.kind != UPLINK && fabric.kind != UPLINK_ONE_WAY) || nic != fabric.nic)
		return false;
	return (rack_of(from) == fabric.rack && up == fabric.spine &&
		(fabric.kind == UPLINK || fabric.up)) ||
	       (rack_of(to) == fabric.rack && down == fabric.spine &&
		(fabric.kind == UPLINK || !fabric.up));
}

static bool is_end_lost(unsigned int host, unsigned int nic, bool sends)
{
	switch (fabric.kind) {
	case NIC:
	case CABLE:
		return host == fabric.host && nic == fabric.nic;
	case RECEIVE:
		return host == fabric.host && nic == fabric.nic && !sends;
	case TRANSMIT:
		return host == fabric.host && nic == fabric.nic && sends;
	case TOR:
		return rack_of(host) == fabric.rack && nic == fabric.nic;
	case HOST:
		return host == fabric.host;
	case RAIL:
		return nic == fabric.nic;
	case PLANE:
		return nic < RAILS;
	case FRONTEND:
		return nic == RAILS;
	default:
		return false;
	}
}

static bool arrives(unsigned int from, unsigned int to, unsigned int nic, unsigned int port)
{
	bool pair = (fabric.kind == PAIR_IN_RACK || fabric.kind == PAIR_FAR) && nic == fabric.nic &&
		    from == fabric.host && to == fabric.other;

	return !pair && !is_end_lost(from, nic, true) && !is_end_lost(to, nic, false) &&
	       !is_lost_above(from, to, nic, port);
}

/* @asker's requests reach @other, and the replies @asker. */
static bool is_replied(unsigned int asker, unsigned int other, unsigned int nic)
{
	return arrives(asker, other, nic, asker) && arrives(other, asker, nic, asker);
}

/* By requests or replies. */
static bool is_received(unsigned int by, unsigned int from, unsigned int nic)
{
	return arrives(from, by, nic, from) || is_replied(by, from, nic);
}

/* --- what a host sees --- */

static bool is_neighbor(unsigned int host, unsigned int other, unsigned int nic)
{
	unsigned int distance = (host + HOSTS - other) % HOSTS;

	return nic == RAILS ? distance != 0
			    : distance && (distance <= OFFSETS || distance >= HOSTS - OFFSETS);
}

static unsigned int nic_at(const struct fault_view *view, unsigned int host, unsigned int nic)
{
	unsigned int i = 0;

	while (i < view->nic_count && (view->nics[i].host != host ||
				       view->nics[i].rail + view->nics[i].plane * RAILS != nic))
		i++;
	return i;
}

/* @self is host 0 of its view. */
static unsigned int add_nic(struct fault_view *view, unsigned int self, unsigned int host,
			    unsigned int nic)
{
	unsigned int number = (host + HOSTS - self) % HOSTS, at = nic_at(view, number, nic);

	if (at == view->nic_count)
		view->nics[view->nic_count++] =
			(struct fault_nic){.host = number,
					   .plane = nic == RAILS,
					   .rail = nic == RAILS ? 0 : nic,
					   .rack = rack_names[rack_of(host)]};
	return at;
}

static void see(unsigned int self, struct fault_view *view)
{
	memset(view, 0, sizeof(*view));
	for (unsigned int nic = 0; nic < NICS; nic++)
		add_nic(view, self, self, nic);
	for (unsigned int nic = 0; nic < NICS; nic++)
		for (unsigned int other = 0; other < HOSTS; other++) {
			bool in = is_received(self, other, nic);
			bool replied = is_replied(self, other, nic);
			bool out = in && (replied || is_received(other, self, nic));

			if (!is_neighbor(self, other, nic))
				continue;
			view->edges[view->edge_count++] = (struct fault_edge){
				.own = add_nic(view, self, self, nic),
				.peer = add_nic(view, self, other, nic),
				.in = in,
				.out = out,
				.unreplied = out && !replied,
				/* Until all have found theirs: see add_one_sided(). */
				.one_sided = false,
			};
		}
}

static struct fault_view views[HOSTS];
static unsigned int half_lost, half_reported; /* one-sided pairs; those taken for lost paths */

/* Pairs whose requests do not arrive, of hosts that report lost paths. */
static void add_one_sided(unsigned int self)
{
	for (size_t i = 0; i < views[self].edge_count; i++) {
		struct fault_edge *edge = &views[self].edges[i];
		const struct fault_nic *peer = &views[self].nics[edge->peer];
		unsigned int other = (peer->host + self) % HOSTS;
		unsigned int nic = peer->rail + peer->plane * RAILS;

		edge->one_sided = edge->in && edge->out && !arrives(other, self, nic, other) &&
				  views[other].lost_paths[peer->plane];
		half_lost += edge->in && edge->out && !arrives(other, self, nic, other);
		half_reported += edge->one_sided;
	}
}

/* By whatever of its packets arrives. */
static bool hears(unsigned int self, unsigned int other)
{
	for (unsigned int nic = 0; nic < NICS; nic++)
		if (is_neighbor(self, other, nic) && is_received(self, other, nic))
			return true;
	return false;
}

static void exchange_reports(void)
{
	static struct fault_report reports[HOSTS][NICS];
	struct fault_report report;

	for (unsigned int host = 0; host < HOSTS; host++)
		for (unsigned int nic = 0; nic < NICS; nic++) {
			fault_report_nic(&views[host], nic_at(&views[host], 0, nic), &report);
			cr_assert(
				fault_report_read(fault_report_make(&report), &reports[host][nic]));
			cr_assert(reports[host][nic].plane == report.plane &&
				  reports[host][nic].rail == report.rail);
		}
	for (unsigned int self = 0; self < HOSTS; self++)
		for (unsigned int other = 0; other < HOSTS; other++) {
			if (other == self || !hears(self, other))
				continue;
			for (unsigned int nic = 0; nic < NICS; nic++) {
				unsigned int at = add_nic(&views[self], self, other, nic);

				views[self].nics[at].reported = true;
				views[self].nics[at].receives = reports[other][nic].receives;
				views[self].nics[at].sends = reports[other][nic].sends;
			}
		}
}

/* --- right or wrong --- */

static const char *const class_names[FAULT_CLASSES + 2] = {"plane", "rail", "tor",  "host",   "nic",
							   "paths", "pair", "none", "several"};
#define NONE FAULT_CLASSES
#define SEVERAL (FAULT_CLASSES + 1)

static const int expected[KINDS] = {NONE,	FAULT_NIC,   FAULT_NIC,	  FAULT_NIC,   FAULT_NIC,
				    FAULT_TOR,	FAULT_PATHS, FAULT_PATHS, FAULT_PATHS, FAULT_HOST,
				    FAULT_RAIL, FAULT_PLANE, FAULT_PLANE, FAULT_PAIR,  FAULT_PATHS};

/* It is the fault that was drawn, and not another one of the class. */
static bool is_it(unsigned int self, const struct fault_view *view, const struct fault *fault)
{
	const struct fault_nic *nic = &view->nics[fault->nic];
	unsigned int host = (nic->host + self) % HOSTS, number = nic->rail + nic->plane * RAILS;

	switch (fault->class) {
	case FAULT_NIC:
		return host == fabric.host && number == fabric.nic &&
		       (fabric.kind != TRANSMIT || fault->direction == FAULT_TRANSMIT) &&
		       (fabric.kind != RECEIVE || host == self ||
			fault->direction == FAULT_RECEIVE);
	case FAULT_HOST:
		return host == fabric.host;
	case FAULT_TOR:
		return rack_of(host) == fabric.rack && number == fabric.nic;
	case FAULT_RAIL:
		return number == fabric.nic;
	case FAULT_PLANE:
		return nic->plane == (fabric.kind == FRONTEND);
	case FAULT_PAIR:
		return number == fabric.nic && (self == fabric.host || self == fabric.other);
	default:
		return nic->plane == 0;
	}
}

static int class_seen(unsigned int self, bool *right)
{
	struct fault_view *view = &views[self];
	int class = NONE;

	*right = true;
	for (unsigned int i = 0; i < view->fault_count; i++) {
		/* Nothing of ours is lost: it is reported by those that see it. */
		if (!view->faults[i].pairs)
			continue;
		class = class == NONE ? (int)view->faults[i].class : SEVERAL;
		*right &= is_it(self, view, &view->faults[i]);
	}
	*right &= class == expected[fabric.kind] || class == NONE;
	return class;
}

static void draw(struct rng *rng, enum kind kind)
{
	fabric = (struct fabric){.kind = kind,
				 .host = rng_below(rng, HOSTS),
				 .nic = rng_below(rng, RAILS),
				 .rack = rng_below(rng, RACKS),
				 .pod = rng_below(rng, PODS),
				 .spine = rng_below(rng, SPINES),
				 .up = rng_below(rng, 2),
				 .hash = rng_below(rng, 1u << 31)};
	do
		fabric.other = (fabric.host + 1 + rng_below(rng, OFFSETS)) % HOSTS;
	while (kind == PAIR_FAR && rack_of(fabric.other) == rack_of(fabric.host));
	if (kind == PAIR_IN_RACK) {
		fabric.host -= fabric.host % (HOSTS / RACKS);
		fabric.other = fabric.host + 1;
	}
}

#define RUNS 200
static unsigned int matrix[KINDS][FAULT_CLASSES + 2], wrong[KINDS], seen[KINDS];

static void print_matrix(void)
{
	char line[256];

	snprintf(line, sizeof(line), "%-10s", "");
	for (int class = 0; class < FAULT_CLASSES + 2; class ++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%8s",
			 class_names[class]);
	printf("# %s   wrong\n", line);
	for (int kind = 0; kind < KINDS; kind++) {
		snprintf(line, sizeof(line), "%-10s", kind_names[kind]);
		for (int class = 0; class < FAULT_CLASSES + 2; class ++)
			snprintf(line + strlen(line), sizeof(line) - strlen(line), "%8u",
				 matrix[kind][class]);
		printf("# %s %7u\n", line, wrong[kind]);
	}
}

/* A fault is right when every host that lost a pair has it, and nothing else. */
Test(faults, drawn_by_lot)
{
	const char *text = getenv("ESCAPEMENT_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20261124;
	unsigned int hard = 0, bad = 0;
	struct rng rng;

	rng_seed(&rng, seed);
	for (int run = 0; run < RUNS; run++)
		for (int kind = 0; kind < KINDS; kind++) {
			bool all_right = true, any = false, right;

			draw(&rng, kind);
			for (unsigned int self = 0; self < HOSTS; self++)
				see(self, &views[self]);
			exchange_reports();
			for (unsigned int self = 0; self < HOSTS; self++)
				faults_find(&views[self]);
			for (unsigned int self = 0; self < HOSTS; self++)
				add_one_sided(self);
			for (unsigned int self = 0; self < HOSTS; self++) {
				int class;

				if (kind == HOST && self == fabric.host)
					continue;
				faults_find(&views[self]);
				class = class_seen(self, &right);
				any |= class != NONE;
				all_right &= right;
				if (class != NONE || kind == NOTHING)
					matrix[kind][class]++;
			}
			seen[kind] += any;
			wrong[kind] += !all_right;
			hard += kind != NOTHING && any;
			bad += kind != NOTHING && any && !all_right;
		}
	printf("# seed %llu: %u faults of each kind, as each host with a lost pair has them; "
	       "`wrong`: a host has another one, or several\n",
	       (unsigned long long)seed, RUNS);
	print_matrix();
	printf("# %u of %u faults right (%.2f%%)\n", hard - bad, hard, 100.0 * (hard - bad) / hard);
	cr_expect_eq(wrong[NOTHING], 0);
	cr_expect(half_lost && half_reported == half_lost,
		  "%u of %u one-sided pairs are lost paths", half_reported, half_lost);
	cr_expect_leq(100 * bad, hard, "99%% of the faults are right: %u of %u", hard - bad, hard);
	for (int kind = NIC; kind < KINDS; kind++)
		cr_expect(seen[kind] >= (kind == UPLINK_ONE_WAY ? RUNS / 2 : RUNS * 9 / 10),
			  "%s: %u of %u were seen", kind_names[kind], seen[kind], RUNS);
}

/* --- a part of the probes is lost --- */

/* By the same law: a pair that loses probes is a lost one, and hosts report their bad NICs alone.
 */
static void see_lossy(unsigned int self, struct fault_view *view)
{
	memset(view, 0, sizeof(*view));
	for (unsigned int nic = 0; nic < NICS; nic++)
		add_nic(view, self, self, nic);
	for (unsigned int nic = 0; nic < NICS; nic++)
		for (unsigned int other = 0; other < HOSTS; other++) {
			bool replied = is_replied(self, other, nic);

			if (is_neighbor(self, other, nic))
				view->edges[view->edge_count++] =
					(struct fault_edge){.own = add_nic(view, self, self, nic),
							    .peer = add_nic(view, self, other, nic),
							    .in = replied,
							    .out = replied};
		}
}

static bool is_nic_lossy(unsigned int host, unsigned int nic)
{
	for (unsigned int other = 0; other < HOSTS; other++)
		if (is_neighbor(host, other, nic) && is_replied(host, other, nic))
			return false;
	return true;
}

/* Of all NICs that are bad, also of those without a pair; of others that have one they are well. */
static void report_lossy(unsigned int self, struct fault_view *view)
{
	view->partial = true;
	for (unsigned int other = 0; other < HOSTS; other++)
		for (unsigned int nic = 0; nic < NICS; nic++)
			if (other != self && is_nic_lossy(other, nic))
				add_nic(view, self, other, nic);
	for (unsigned int i = 0; i < view->nic_count; i++) {
		struct fault_nic *nic = &view->nics[i];

		if (!nic->host)
			continue;
		nic->reported = true;
		nic->receives = nic->sends =
			!is_nic_lossy((nic->host + self) % HOSTS, nic->rail + nic->plane * RAILS);
	}
}

Test(faults, partial_loss)
{
	static const enum kind kinds[] = {CABLE,	  TOR,		SPINE,	 UPLINK,
					  UPLINK_ONE_WAY, HOST,		RAIL,	 PLANE,
					  FRONTEND,	  PAIR_IN_RACK, PAIR_FAR};
	const char *text = getenv("ESCAPEMENT_SEED");
	unsigned int bad = 0, all = 0;
	struct rng rng;

	rng_seed(&rng, text && *text ? strtoull(text, NULL, 0) : 20261124);
	for (int run = 0; run < RUNS; run++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			bool all_right = true, any = false, right;

			draw(&rng, kinds[k]);
			for (unsigned int self = 0; self < HOSTS; self++) {
				see_lossy(self, &views[self]);
				report_lossy(self, &views[self]);
				faults_find(&views[self]);
				any |= class_seen(self, &right) != NONE;
				all_right &= right;
			}
			all += any;
			bad += any && !all_right;
			if (any && !all_right && bad < 10)
				printf("# wrong: %s\n", kind_names[kinds[k]]);
		}
	printf("# partial loss: %u of %u faults right\n", all - bad, all);
	cr_expect(all > RUNS && 100 * bad <= all, "99%% of the faults are right: %u of %u",
		  all - bad, all);
}
