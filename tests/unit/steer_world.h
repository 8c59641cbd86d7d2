/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering in a real core, with the real policy. The modules below it are fakes: the test has the
 * candidate paths, the queue pairs and the maps, and does what the kernel programs do with a rule.
 */
#ifndef ESC_TESTS_STEER_WORLD_H
#define ESC_TESTS_STEER_WORLD_H

#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "delay/delay.h"
#include "qp/qp.h"
#include "steer/internal.h"
#include "replies.h"

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

/* A queue pair that sends all the time, and what returns of it. */
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
	bool silent;   /* nothing returns of what the free path carries */
	bool stopped;  /* nothing is sent, and ten PSNs are not acknowledged */
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
	return !strcmp(name, "steers") ? STEERS_FD : !strcmp(name, "qps") ? QPS_FD : -1;
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

/* Of one of the two: 67 ms, seven times. */
const struct owner *qptable_owner(const struct qptable *table, const struct esc_qp_key *key,
				  const char *device)
{
	static struct owner owner = {
		.is = {.flags = ESC_OWNER_TIMER, .ack_timeout = 14, .retry_count = 7}};

	(void)table;
	(void)device;
	owner.key.qpn = key->dest_qpn + 100;
	return key->dest_qpn == 17 ? &owner : NULL;
}

const struct delays_entry *delays_find(const struct delays *delays, const struct esc_qp_key *key)
{
	(void)delays;
	(void)key;
	return NULL;
}

const struct path_pair_facts *paths_pair(const struct paths *paths, unsigned int slot)
{
	(void)paths;
	return slot == SLOT ? &world.pair : NULL;
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

static inline struct esc_steer *rule_of(const struct esc_qp_key *key)
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
static inline void obey(struct flow *flow)
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

static inline bool is_on_free(const struct flow *flow)
{
	return flow->qp.steer.sport == world.paths[FREE].sport;
}

static inline unsigned int on_free(void)
{
	return is_on_free(&world.flows[0]) + is_on_free(&world.flows[1]);
}

static inline void run(uint64_t ns)
{
	for (uint64_t end_ns = world.now_ns + ns; world.now_ns < end_ns;) {
		unsigned int waiting[PATHS];

		world.now_ns += TICK_NS;
		for (size_t i = 0; i < 2; i++) {
			struct flow *flow = &world.flows[i];

			if (world.obeys)
				obey(flow);
			if (world.stopped)
				continue;
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

			path->out.at_ns = (int64_t)world.now_ns;
			path->out.delay_ns = waiting[i] > 1 ? QUEUE_NS : FLOOR_NS;
			path->out.worst_ns = path->out.delay_ns;
		}
		if (world.now_ns >= world.table_ns + SECOND / 2)
			world.table_ns = world.now_ns;
		world.tick(world.tick_context, world.now_ns);
	}
}

static inline unsigned int events_of(const char *kind)
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

static inline int fake_open(void **self, struct core *in, void *const needs[], char **error)
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

static inline void make_world(void)
{
	struct esc_address here = {.bytes = {[15] = 1}}, there = {.bytes = {[15] = 2}};

	memset(&world, 0, sizeof(world));
	world.obeys = true;
	world.now_ns = time_local_ns();
	world.table_ns = world.now_ns - SECOND;
	world.pair = (struct path_pair_facts){.slot = SLOT, .port = PORT, .key = {here, there}};
	for (unsigned int i = 0; i < PATHS; i++)
		world.paths[i] = (struct path_facts){
			.slot = SLOT,
			.id = i,
			.sport = (uint16_t)(50000 + i),
			.group = i + 1,
			.usable = true,
			.out = {.floor_ns = FLOOR_NS, .noise_ns = 100, .bound_ns = 100},
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
		/* One port for each, so that what returns is known; both of one route. */
		flow->qp.sport = flow->back.sport = (uint16_t)(40000 + i);
		flow->back.packets = 1;
	}
}

static inline void open_steer(const char *mode)
{
	static const struct config_section *const sections[] = {&steer_section, NULL};
	const struct config_input input = {.path = "/e.yaml", .sections = sections};
	char *error = NULL, text[128];

	snprintf(text, sizeof(text),
		 "interfaces: [{name: eth1}]\ninsecure: true\n"
		 "steer: {mode: %s, capacity: 40Mbit}\n",
		 mode);
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

static inline void close_world(void)
{
	core_close(&core);
	cr_expect_null(world.tick, "the tick ends with the module");
	events_free(core.events);
	config_free(config);
}

/* --- requests --- */

static inline json_t *result(const char *verb, const char *args)
{
	struct request request;
	json_t *object = replies_get(steer_verb_handlers, steer, verb, args, &request);

	cr_assert_not_null(object, "%s %s: %s", verb, args, request.error);
	return object;
}

static inline void expect_refusal(const char *verb, const char *args, int code, const char *text)
{
	struct request request;

	cr_expect_null(replies_get(steer_verb_handlers, steer, verb, args, &request), "%s", args);
	cr_expect_eq(request.exit, code, "%s", args);
	cr_assert_not_null(request.error, "%s", args);
	cr_expect(strstr(request.error, text), "%s: lacks \"%s\": %s", args, text, request.error);
	free(request.error);
}

#define FLOW_0 "\"dst\":\"::2\",\"qpn\":17"
#define SET_FLOW_0 "{" FLOW_0 ",\"sport\":50001,\"force\":true}"

/* The operator moves flow 0 to the free path. */
static inline void set(void)
{
	json_decref(result("steer set", SET_FLOW_0));
}

#endif
