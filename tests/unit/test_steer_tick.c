// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tick of steering (observe, decide, act, verify) in a real core, with the real policy. The
 * modules below it are fakes: the test has the candidate paths, the queue pairs and the maps, and
 * does what the kernel programs do with a rule.
 */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "delay/delay.h"
#include "qp/qp.h"
#include "steer/internal.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define TICK_NS (10 * MS)
#define FLOOR_NS 20000.0
#define QUEUE_NS 5e6
#define PORT 2
#define SLOT 3
#define STEERS_FD 70
#define QPS_FD 71

/* --- the fakes --- */

enum { SHARED, FREE, PATHS }; /* the two routes: candidates 0 and 1 */

/* A queue pair that sends all the time, and what comes back of it. */
struct flow {
	struct esc_qp_key key, back_key;
	struct esc_qp qp, back;
	bool gone;
};

static struct {
	uint64_t now_ns, table_ns;
	struct flow flows[2];
	struct qp_entry entries[4];
	struct path_facts paths[PATHS];
	struct path_pair_facts pair;
	struct {
		struct esc_qp_key key;
		struct esc_steer rule;
	} steers[8];
	size_t steer_count;
	struct esc_control control;
	bool off;      /* the kill switch */
	bool obeys;    /* the programs apply the newest rule */
	bool silent;   /* nothing comes back of what the free path carries */
	bool standing; /* the shared path has a queue whoever uses it */
	unsigned int released;
	paths_tick_fn *tick;
	void *tick_context;
} world;

static struct core core;
static struct core_module modules[8];
static struct config *config;
static struct steer *steer;

struct esc_control *dataplane_control(const struct dataplane *dataplane)
{
	(void)dataplane;
	return &world.control;
}

int dataplane_map_fd(const struct dataplane *dataplane, const char *name)
{
	(void)dataplane;
	return strcmp(name, "steers") ? -1 : STEERS_FD;
}

int dataplane_qps_fd(const struct dataplane *dataplane)
{
	(void)dataplane;
	return QPS_FD;
}

bool dataplane_is_off(const struct dataplane *dataplane)
{
	(void)dataplane;
	return world.off;
}

uint16_t dataplane_ports_all(const struct dataplane *dataplane)
{
	(void)dataplane;
	return 1 << PORT;
}

int dataplane_ports_named(const struct dataplane *dataplane, const json_t *names, uint16_t *ports,
			  char **error)
{
	(void)dataplane;
	(void)names;
	(void)error;
	*ports = 1 << PORT;
	return 0;
}

const char *dataplane_port_name(const struct dataplane *dataplane, unsigned int index)
{
	(void)dataplane;
	return index == PORT ? "esc-none0" : NULL; /* no such interface: its MTU is the default */
}

uint64_t qptable_refreshed_ns(const struct qptable *table)
{
	(void)table;
	return world.table_ns;
}

struct qp_entry *qptable_entries(const struct qptable *table, size_t *count)
{
	(void)table;
	*count = 0;
	for (size_t i = 0; i < 2; i++) {
		const struct flow *flow = &world.flows[i];

		if (flow->gone)
			continue;
		world.entries[(*count)++] = (struct qp_entry){
			.key = flow->key, .qp = flow->qp, .seen_local_ns = world.now_ns};
		world.entries[(*count)++] = (struct qp_entry){
			.key = flow->back_key, .qp = flow->back, .seen_local_ns = world.now_ns};
	}
	return world.entries;
}

const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key)
{
	(void)delays;
	(void)key;
	return NULL;
}

size_t paths_pairs(const struct paths *paths, const struct path_pair_facts **out)
{
	(void)paths;
	*out = &world.pair;
	return 1;
}

size_t paths_candidates(const struct paths *paths, unsigned int slot,
			struct path_facts out[ESC_PATHS_MAX])
{
	(void)paths;
	cr_expect_eq(slot, SLOT);
	memcpy(out, world.paths, sizeof(world.paths));
	return PATHS;
}

/* Both queue pairs' own ports take the shared route. */
int paths_id_of(const struct paths *paths, unsigned int slot, uint16_t sport)
{
	(void)paths;
	(void)slot;
	return sport == world.paths[FREE].sport ? FREE : SHARED;
}

void paths_on_tick(struct paths *paths, paths_tick_fn *fn, void *context)
{
	(void)paths;
	world.tick = fn;
	world.tick_context = context;
}

bool paths_are_probed(const struct paths *paths)
{
	(void)paths;
	return !world.off;
}

bool paths_release(struct paths *paths, unsigned int slot, unsigned int id)
{
	(void)paths;
	(void)slot;
	(void)id;
	world.released++;
	return true;
}

void paths_get(const struct paths *paths, struct paths_facts *out)
{
	(void)paths;
	*out = (struct paths_facts){};
}

/* --- the maps --- */

static struct esc_steer *rule_of(const struct esc_qp_key *key)
{
	for (size_t i = 0; i < world.steer_count; i++)
		if (!memcmp(&world.steers[i].key, key, sizeof(*key)))
			return &world.steers[i].rule;
	return NULL;
}

int bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	struct esc_steer *rule = rule_of(key);

	(void)flags;
	cr_assert_eq(fd, STEERS_FD, "rules are all that steering writes");
	if (!rule) {
		cr_assert_lt(world.steer_count, 8);
		memcpy(&world.steers[world.steer_count].key, key, sizeof(struct esc_qp_key));
		rule = &world.steers[world.steer_count++].rule;
	}
	memcpy(rule, value, sizeof(*rule));
	return 0;
}

int bpf_map_lookup_elem(int fd, const void *key, void *value)
{
	const struct esc_steer *rule = fd == STEERS_FD ? rule_of(key) : NULL;

	if (rule) {
		memcpy(value, rule, sizeof(*rule));
		return 0;
	}
	for (size_t i = 0; fd == QPS_FD && i < 2; i++) {
		const struct flow *flow = &world.flows[i];
		bool back = !memcmp(key, &flow->back_key, sizeof(flow->back_key));

		if (flow->gone || (!back && memcmp(key, &flow->key, sizeof(flow->key))))
			continue;
		memcpy(value, back ? &flow->back : &flow->qp, sizeof(flow->qp));
		return 0;
	}
	return -ENOENT;
}

int bpf_map_delete_elem(int fd, const void *key)
{
	struct esc_steer *rule = rule_of(key);

	cr_assert_eq(fd, STEERS_FD);
	if (!rule)
		return -ENOENT;
	world.steer_count--;
	for (size_t i = 0; i < world.steer_count; i++)
		if (&world.steers[i].rule == rule)
			world.steers[i] = world.steers[world.steer_count];
	return 0;
}

int bpf_map_get_next_key(int fd, const void *key, void *next_key)
{
	size_t at = 0;

	cr_assert_eq(fd, STEERS_FD);
	if (key)
		while (at < world.steer_count &&
		       memcmp(&world.steers[at++].key, key, sizeof(struct esc_qp_key)))
			;
	if (at >= world.steer_count)
		return -ENOENT;
	memcpy(next_key, &world.steers[at].key, sizeof(struct esc_qp_key));
	return 0;
}

/* --- the world goes on --- */

/* As tc egress does with the next packet: the newest rule, or none, takes effect. */
static void obey(struct flow *flow)
{
	const struct esc_steer *rule = rule_of(&flow->key);
	struct esc_qp_steer *now = &flow->qp.steer;

	if (!rule) {
		now->sport = 0;
		now->rule = 0;
		return;
	}
	if (now->applied == rule->number)
		return;
	now->rule = now->applied = rule->number;
	now->sport = now->rule_sport = rule->sport;
	now->path = rule->path;
	now->slot = rule->slot;
	now->trigger = ESC_STEER_TRIGGER_IDLE;
	now->applied_local_ns = world.now_ns;
}

static bool is_on_free(const struct flow *flow)
{
	return flow->qp.steer.sport == world.paths[FREE].sport;
}

static unsigned int on_free(void)
{
	return is_on_free(&world.flows[0]) + is_on_free(&world.flows[1]);
}

static void run(uint64_t ns)
{
	for (uint64_t end_ns = world.now_ns + ns; world.now_ns < end_ns;) {
		unsigned int waiting[PATHS];

		world.now_ns += TICK_NS;
		for (size_t i = 0; i < 2; i++) {
			struct flow *flow = &world.flows[i];

			if (world.obeys)
				obey(flow);
			flow->qp.packets += 25;
			flow->qp.bytes += 25000;
			if (world.silent && is_on_free(flow))
				flow->qp.retransmits += 5; /* its transport times out */
			else
				flow->back.packets += 25;
		}
		waiting[FREE] = on_free();
		waiting[SHARED] = world.standing ? 2 : 2 - on_free();
		for (size_t i = 0; i < PATHS; i++) {
			struct path_facts *path = &world.paths[i];

			path->measured_ns = (int64_t)world.now_ns;
			path->delay_ns = path->worst_ns = waiting[i] > 1 ? QUEUE_NS : FLOOR_NS;
		}
		if (world.now_ns >= world.table_ns + SECOND / 2)
			world.table_ns = world.now_ns;
		world.tick(world.tick_context, world.now_ns);
	}
}

static unsigned int events_of(const char *kind)
{
	json_t *all = events_since(core.events, 0), *one;
	unsigned int count = 0;
	size_t i;

	json_array_foreach (all, i, one)
		count += !strcmp(json_text(one, "kind"), kind);
	json_decref(all);
	return count;
}

/* --- set up --- */

static int fake_open(void **self, struct core *in, void *const needs[], char **error)
{
	(void)needs;
	(void)error;
	*self = in; /* anything: the fakes need no state of their own */
	return 0;
}

static const struct capability fakes[] = {
	{.name = "dataplane", .open = fake_open},
	{.name = "qp", .open = fake_open},
	{.name = "delay", .open = fake_open},
	{.name = "paths", .open = fake_open},
};

static void make_world(void)
{
	struct esc_address here = {.bytes = {[15] = 1}}, there = {.bytes = {[15] = 2}};

	memset(&world, 0, sizeof(world));
	world.obeys = true;
	world.now_ns = time_local_ns();
	world.table_ns = world.now_ns - SECOND;
	world.pair = (struct path_pair_facts){
		.slot = SLOT, .port = PORT, .key = {here, there}, .candidates = PATHS};
	for (unsigned int i = 0; i < PATHS; i++)
		world.paths[i] = (struct path_facts){
			.slot = SLOT,
			.id = i,
			.sport = (uint16_t)(50000 + i),
			.group = i + 1,
			.usable = true,
			.floor_ns = FLOOR_NS,
			.noise_ns = 100,
			.bound_ns = 100,
			.backup = -1,
			.interval_ns = MS,
		};
	for (unsigned int i = 0; i < 2; i++) {
		struct flow *flow = &world.flows[i];

		flow->key = (struct esc_qp_key){.src = here,
						.dst = there,
						.dest_qpn = 17 + i,
						.port = PORT,
						.direction = ESC_DIRECTION_TX};
		flow->back_key = (struct esc_qp_key){.src = there,
						     .dst = here,
						     .dest_qpn = 117 + i,
						     .port = PORT,
						     .direction = ESC_DIRECTION_RX};
		flow->qp.first_local_ns = flow->back.first_local_ns = 1;
		/* One port for each, so that what comes back is known; both of one route. */
		flow->qp.sport = flow->back.sport = (uint16_t)(40000 + i);
		flow->back.packets = 1;
	}
}

static void open_steer(const char *mode)
{
	static const struct config_section *const sections[] = {&steer_section, NULL};
	const struct config_input input = {.path = "/e.yaml", .sections = sections};
	char *error = NULL, text[128];

	snprintf(text, sizeof(text),
		 "interfaces: [{name: eth1}]\nsteer: {mode: %s, capacity: 40Mbit}\n", mode);
	config_parse(&input, text, strlen(text), &config, &error);
	cr_assert_not_null(config, "%s", error);
	make_world();
	memset(modules, 0, sizeof(modules));
	core = (struct core){.config = config, .modules = modules};
	cr_assert_eq(events_new(&core.events, 256, NULL), 0);
	for (size_t i = 0; i < sizeof(fakes) / sizeof(fakes[0]); i++)
		cr_assert_eq(core_open(&core, &fakes[i], &error), 0);
	cr_assert_eq(core_open(&core, &steer_capability, &error), 0, "%s", error);
	steer = core_find(&core, "steer");
	cr_assert_not_null(world.tick);
}

static void teardown(void)
{
	core_close(&core);
	cr_expect_null(world.tick, "the tick ends with the module");
	events_free(core.events);
	config_free(config);
}

TestSuite(steer_tick, .fini = teardown);

/* The operator moves flow 0 to the free path. */
static int set(char **error)
{
	const struct steer_args args = {.dst = "::2", .qpn = 17, .sport = 50001, .force = true};
	json_t *result = NULL;
	int err = steer_set(steer, &args, &result, error);

	json_decref(result);
	return err;
}

static struct flow *the_one_on(bool free_path)
{
	return &world.flows[is_on_free(&world.flows[0]) == free_path ? 0 : 1];
}

/* --- observe and decide --- */

Test(steer_tick, each_queue_pair_is_tracked_on_its_own_path)
{
	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	cr_assert_eq(world.steer_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct esc_steer *rule = rule_of(&world.flows[i].key);

		cr_expect_eq(rule->sport, 0, "its own port");
		cr_expect_eq(rule->flags & ESC_STEER_PATH, ESC_STEER_PATH);
		cr_expect_eq(rule->path, SHARED);
		cr_expect_eq(rule->slot, SLOT);
		cr_expect_eq(steer->autos[i].rule.state, RULE_TRACKING);
	}
	world.flows[1].gone = true;
	run(SECOND);
	cr_expect_eq(world.steer_count, 1, "its rule ends with it");
	cr_expect_eq(events_of("steering_ended"), 0, "it was never moved");
}

Test(steer_tick, one_leaves_a_contended_path)
{
	const struct flow *moved;
	const struct esc_steer *rule;

	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1, "one moved, and one move was enough");
	moved = the_one_on(true);
	rule = rule_of(&moved->key);
	cr_expect_eq(rule->path, FREE);
	cr_expect_eq(rule->sport, 50001);
	cr_expect_geq(rule->flowlet_gap_ns, (uint64_t)(QUEUE_NS - FLOOR_NS), "no packet is overtaken");
	cr_expect_eq(rule->start_local_ns, UINT64_MAX, "steer.overtake is `never`");
	cr_expect_eq(rule->force_local_ns, UINT64_MAX);
	cr_expect_eq(rule_of(&the_one_on(false)->key)->path, SHARED);
	cr_expect_eq(events_of("path_switched"), 1);
	cr_expect_eq(steer->switches[STEER_BY_CONTENTION], 1);
	run(10 * SECOND);
	cr_expect_eq(on_free(), 1, "it stays there");
	cr_expect_eq(steer->switches[STEER_BY_CONTENTION], 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
}

Test(steer_tick, a_path_in_hold_down_takes_no_queue_pair)
{
	open_steer("auto");
	world.paths[FREE].usable = false; /* it came back a moment ago */
	run(3 * SECOND);
	cr_expect_eq(on_free(), 0);
	cr_expect_eq(steer->acts[CONTEND_MOVE], 0);
	world.paths[FREE].usable = true;
	run(2 * SECOND);
	cr_expect_eq(on_free(), 1);
}

/* --- act --- */

Test(steer_tick, a_rule_that_never_takes_effect_is_withdrawn)
{
	const struct esc_steer *rule;

	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	world.paths[FREE].usable = true;
	world.obeys = false; /* no gap occurs that is long enough */
	for (int i = 0; i < 200 && !steer->acts[CONTEND_MOVE]; i++)
		run(TICK_NS);
	cr_assert_eq(steer->acts[CONTEND_MOVE], 1);
	rule = rule_of(&world.flows[0].key)->sport ? rule_of(&world.flows[0].key)
						   : rule_of(&world.flows[1].key);
	cr_assert_eq(rule->path, FREE);
	world.paths[FREE].usable = false; /* from here on the policy decides nothing new */
	for (int i = 0; i < 1000 && !steer->acts[CONTEND_UNDONE]; i++)
		run(TICK_NS);
	cr_assert_eq(steer->acts[CONTEND_UNDONE], 1);
	cr_expect_eq(rule->path, SHARED, "it would stay where it is");
	cr_expect_eq(rule->sport, 0);
	cr_expect_eq(events_of("path_switched"), 0);
}

/* --- verify --- */

Test(steer_tick, an_automatic_move_that_is_worse_is_rolled_back)
{
	const struct penalty *penalty;
	struct flow *moved;
	uint64_t moved_ns;

	open_steer("auto");
	world.silent = true;
	for (int i = 0; i < 300 && !on_free(); i++)
		run(TICK_NS);
	cr_assert_eq(on_free(), 1);
	moved = the_one_on(true);
	moved_ns = world.now_ns;
	for (int i = 0; i < 300 && on_free(); i++)
		run(TICK_NS);
	cr_assert_eq(on_free(), 0, "back on its own path");
	cr_expect_lt(world.now_ns - moved_ns, VERIFY_DIED_NS + 3 * STEER_VERIFY_NS);
	cr_expect_eq(events_of("path_rolled_back"), 1);
	cr_expect_eq(steer->switches[STEER_BY_ROLLBACK], 1);
	cr_expect_eq(rule_of(&moved->key)->sport, 0);
	cr_expect_eq(rule_of(&moved->key)->path, SHARED, "still tracked");
	penalty = steer_penalty(steer, &moved->key, world.now_ns);
	cr_assert_not_null(penalty);
	cr_expect_eq(penalty->why, VERIFY_SILENT);
	cr_expect_eq(penalty->length_ns, 10 * SECOND);
}

Test(steer_tick, a_queue_pair_with_a_penalty_is_not_moved)
{
	open_steer("auto");
	world.silent = true;
	world.standing = true; /* the contention goes on */
	run(8 * SECOND);
	cr_expect_eq(steer->switches[STEER_BY_ROLLBACK], 2, "each was tried once");
	cr_expect_eq(steer->penalty_count, 2);
	for (size_t i = 0; i < steer->penalty_count; i++)
		cr_expect_eq(steer->penalties[i].length_ns, 10 * SECOND);
	cr_expect_eq(on_free(), 0);
}

Test(steer_tick, a_rule_of_the_operator_that_is_worse_is_rolled_back)
{
	char *error = NULL;

	open_steer("manual");
	run(SECOND);
	cr_expect_eq(world.steer_count, 0, "nothing is automatic");
	world.silent = true;
	cr_assert_eq(set(&error), 0, "%s", error);
	run(3 * SECOND);
	cr_expect_eq(world.steer_count, 0);
	cr_expect_eq(steer->rule_count, 0);
	cr_expect_eq(events_of("path_switched"), 1);
	cr_expect_eq(events_of("path_rolled_back"), 1);
	cr_expect_eq(set(&error), -EAGAIN, "it has a penalty");
	cr_expect(strstr(error, "rolled back"), "%s", error);
	free(error);
}

Test(steer_tick, a_rule_that_is_as_good_is_verified)
{
	char *error = NULL;

	open_steer("manual");
	run(SECOND);
	cr_assert_eq(set(&error), 0, "%s", error);
	run(VERIFY_PROVED_NS + SECOND);
	cr_assert_eq(steer->rule_count, 1);
	cr_expect_eq(steer->rules[0].state, RULE_VERIFIED);
	cr_expect_eq(events_of("path_verified"), 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
	cr_expect_eq(rule_of(&world.flows[0].key)->sport, 50001);
	/* The queue pair's number is used again: that is another one. */
	world.flows[0].qp.first_local_ns = 2;
	run(SECOND);
	cr_expect_eq(world.steer_count, 0);
	cr_expect_eq(events_of("steering_ended"), 1);
}

Test(steer_tick, each_penalty_is_twice_as_long)
{
	static const uint64_t want_s[] = {10, 20, 40};
	struct esc_qp_key *key = &world.flows[0].key;
	char *error = NULL;

	open_steer("manual");
	run(SECOND);
	world.silent = true;
	for (size_t i = 0; i < 3; i++) {
		struct penalty *penalty;

		cr_assert_eq(set(&error), 0, "%s", error);
		run(3 * SECOND);
		penalty = (struct penalty *)steer_penalty(steer, key, world.now_ns);
		cr_assert_not_null(penalty, "%zu", i);
		cr_expect_eq(penalty->length_ns, want_s[i] * SECOND, "%zu", i);
		cr_expect_leq(penalty->until_local_ns, world.now_ns + want_s[i] * SECOND);
		run(want_s[i] * SECOND);
		cr_expect_null(steer_penalty(steer, key, world.now_ns), "it has ended");
		/* `steer set` compares with the clock of this machine. */
		penalty->until_local_ns = time_local_ns();
	}
}

Test(steer_tick, a_standby_over_which_nothing_returns_is_released)
{
	open_steer("auto");
	world.paths[FREE].usable = false;
	run(SECOND);
	for (size_t i = 0; i < 2; i++) {
		world.flows[i].qp.steer.flags = ESC_QP_STEER_DIVERTED;
		world.flows[i].qp.steer.sport = 50001;
	}
	run(2 * SECOND);
	cr_expect_eq(world.released, 0, "what is sent is acknowledged");
	world.silent = true;
	run(3 * SECOND);
	cr_expect_geq(world.released, 1);
	cr_expect_eq(events_of("path_rolled_back"), 0);
}

/* --- the kill switch --- */

static void expect_nothing_steered(void)
{
	cr_expect_eq(world.steer_count, 0, "no rule is left in the map");
	cr_expect_eq(steer->rule_count + steer->auto_count, 0);
	cr_expect_eq(world.control.steer_ports, 0);
	cr_expect_not(world.control.flags & ESC_CONTROL_STEER);
	cr_expect_not(steer->automatic);
}

Test(steer_tick, the_kill_switch_ends_all_rules)
{
	char *error = NULL;

	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1);
	world.off = true;
	cr_assert_eq(steer_capability.off(steer, "command", &error), 0);
	expect_nothing_steered();
	cr_expect_eq(events_of("steering_ended"), 1, "of the one that had been moved");
	cr_expect_eq(events_of("mode_changed"), 1);
	run(SECOND);
	cr_expect_eq(on_free(), 0);
	expect_nothing_steered();
	cr_expect_lt(set(&error), 0);
	cr_expect(strstr(error, "kill switch"), "%s", error);
	free(error);
	error = NULL;
	cr_expect_eq(steer_set_automatic(steer, true, "command", &error), -EBUSY);
	free(error);
}

/* Somebody else writes the map, as the kill switch of another program does. */
Test(steer_tick, the_flag_in_the_map_is_obeyed)
{
	open_steer("auto");
	run(2 * SECOND);
	cr_assert_eq(on_free(), 1);
	world.control.flags |= ESC_CONTROL_OFF;
	run(STEER_VERIFY_NS + TICK_NS);
	expect_nothing_steered();
	cr_expect_eq(events_of("steering_ended"), 1);
	run(SECOND);
	expect_nothing_steered();
}
