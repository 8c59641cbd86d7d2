// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repair after a path switch (bpf/steer/repair.bpf.h): which rules have a ring, and a start of the
 * repair where the queue pair itself has nothing to send. A ring belongs to the rule from its
 * first publication to its end.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/explain.h"
#include "base/log.h"
#include "internal.h"
#include "repair.skel.h"

#define AGAIN_FIRST_NS 20000000ull /* then 4, 16 times as long */
#define AGAIN_MAX 3
#define REPORT_NS 50000000ull /* after the start: then its counts are known */

struct ring {
	bool used;
	struct esc_repair_ring *counts; /* mapped: its first page */
	uint64_t replayed, overruns;	/* that were reported */
};

struct repair {
	struct repair_program *program;
	int rings_fd;
	struct ring rings[ESC_REPAIR_RINGS];
	struct qpring_counts ended; /* of rings that are gone */
	uint64_t refused;	    /* rules without a ring */
	bool warned;
};

/* --- rings --- */

static void ring_forget(struct repair *repair, struct ring *ring)
{
	if (ring->counts)
		qpring_add(&repair->ended, ring->counts);
	qpring_unmap(ring->counts);
	*ring = (struct ring){};
}

static void report_refused(struct repair *repair, const struct esc_qp_key *key, int err)
{
	char subject[128];

	repair->refused++;
	if (repair->warned)
		return;
	repair->warned = true;
	log_warning("%s: no copies of its packets are kept: %s", steer_subject(key, subject),
		    err == -ENOSPC ? "all rings are in use" : strerror(-err));
}

uint16_t steer_ring_take(struct steer *steer, const struct esc_qp_key *key)
{
	struct repair *repair = steer->repair;
	enum steer_repair mode;
	uint32_t index = 0;
	int err = -ENOSPC;

	if (!repair)
		return 0;
	mode = steer_keys(steer->core->config)->repair;
	if (mode == STEER_REPAIR_OFF)
		return 0;
	while (index < ESC_REPAIR_RINGS && repair->rings[index].used)
		index++;
	if (index < ESC_REPAIR_RINGS)
		err = qpring_make(repair->rings_fd, index, key, mode == STEER_REPAIR_PROVOKE,
				  &repair->rings[index].counts);
	if (err) {
		report_refused(repair, key, err);
		return 0;
	}
	repair->rings[index].used = true;
	return (uint16_t)(index + 1);
}

void steer_ring_drop(struct steer *steer, uint16_t number)
{
	uint32_t index = number - 1u;

	if (!steer->repair || !number || number > ESC_REPAIR_RINGS)
		return;
	bpf_map_delete_elem(steer->repair->rings_fd, &index);
	ring_forget(steer->repair, &steer->repair->rings[index]);
}

/* The rule as it is, with a ring as the configuration has it now. */
static void renew(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	struct rule *rule = &one->rule;

	rule->want.ring = 0;
	if (rule->in_effect)
		steer_auto_publish(steer, one, rule->want, STEER_BY_TRACKING, now_ns);
	else
		steer_publish(steer, rule, rule->want, rule->state, rule->published_local_ns);
}

void steer_repair_reconfigure(struct steer *steer)
{
	uint64_t now_ns = time_local_ns();

	for (size_t i = 0; steer->repair && i < steer->auto_count; i++)
		steer_ring_drop(steer, steer->autos[i].rule.want.ring);
	for (size_t i = 0; steer->repair && i < steer->auto_count; i++)
		renew(steer, &steer->autos[i], now_ns);
}

/* --- the start of a repair --- */

/* What the path @id may have lost; @again: the last packets. How many were sent; -errno. */
static int run(struct steer *steer, const struct rule *rule, unsigned int id, bool again)
{
	struct {
		struct ethhdr ethernet;
		struct esc_repair_order order;
	} __attribute__((packed)) frame = {
		.order = {.key = rule->key, .path = id, .flags = again ? ESC_REPAIR_AGAIN : 0},
	};
	const char *interface = dataplane_port_name(steer->dataplane, rule->key.port);
	struct __sk_buff context = {.ifindex = interface ? if_nametoindex(interface) : 0};
	LIBBPF_OPTS(bpf_test_run_opts, test, .data_in = &frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int err;

	if (!context.ifindex)
		return -ENODEV;
	frame.ethernet.h_proto = htons(address_is_ipv4(&rule->key.src) ? ETH_P_IP : ETH_P_IPV6);
	err = bpf_prog_test_run_opts(bpf_program__fd(steer->repair->program->progs.esc_repair),
				     &test);
	return err ? err : (int)test.retval;
}

static void report(struct steer *steer, const struct rule *rule)
{
	struct ring *ring = &steer->repair->rings[rule->want.ring - 1];
	uint64_t packets = ring->counts->replayed - ring->replayed;
	uint64_t overruns = ring->counts->overruns - ring->overruns;
	char subject[128];

	if (!packets)
		return;
	ring->replayed += packets;
	ring->overruns += overruns;
	events_add(steer->core->events,
		   &(struct event){
			   .kind = &steer_events[PATH_REPAIRED],
			   .subject = steer_subject(&rule->key, subject),
			   .qp = &rule->key,
			   .done = json_pack("{s:I, s:b}", "packets", (json_int_t)packets,
					     "all_kept", !overruns),
		   });
}

/* Nothing was acknowledged since the last time, and something is to be. */
static bool is_stuck(struct steer *steer, struct auto_rule *one)
{
	uint32_t next, before = one->repair_next;

	if (!steer_unacked(steer, &one->rule, &next))
		return false;
	one->repair_next = next;
	return next == before;
}

/* The path @id died, which the queue pair may have used. */
static void begin(struct steer *steer, struct auto_rule *one, unsigned int id, uint64_t now_ns)
{
	const struct ring *ring = &steer->repair->rings[one->rule.want.ring - 1];
	int sent = run(steer, &one->rule, id, false);

	/* Its own packets may have done it already. */
	if (sent <= 0 && one->rule.want.path != id && ring->counts->replayed == ring->replayed)
		return;
	is_stuck(steer, one); /* from now on */
	one->repair_path = (uint8_t)id;
	one->repair_again = 0;
	one->repair_due_ns = now_ns + AGAIN_FIRST_NS;
	one->repair_report_ns = now_ns + REPORT_NS;
}

static void go_on(struct steer *steer, struct auto_rule *one, uint64_t now_ns)
{
	if (one->repair_due_ns && one->repair_again < AGAIN_MAX && now_ns >= one->repair_due_ns) {
		if (is_stuck(steer, one))
			run(steer, &one->rule, one->repair_path, true);
		one->repair_again++;
		one->repair_due_ns = now_ns + (AGAIN_FIRST_NS << 2 * one->repair_again);
	}
	if (one->repair_report_ns && now_ns >= one->repair_report_ns) {
		one->repair_report_ns = 0;
		report(steer, &one->rule);
	}
}

void steer_repair_pair(struct steer *steer, struct pair *pair, uint64_t now_ns)
{
	uint16_t dead = 0, died;

	if (!steer->repair)
		return;
	for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)
		if (pair->candidates[id].sport && (pair->candidates[id].state == PATHLIVE_DOWN ||
						   pair->candidates[id].diverted_ns))
			dead |= (uint16_t)(1u << id);
	died = dead & ~pair->dead;
	pair->dead = dead;
	for (size_t i = 0; dead && i < steer->auto_count; i++) {
		struct auto_rule *one = &steer->autos[i];

		if (!one->rule.want.ring || one->rule.want.slot != pair->facts.slot)
			continue;
		for (unsigned int id = 0; id < ESC_PATHS_MAX; id++)
			if (died >> id & 1)
				begin(steer, one, id, now_ns);
		if (dead >> one->repair_path & 1)
			go_on(steer, one, now_ns);
	}
}

/* --- open, close, counts --- */

int steer_repair_open(struct steer *steer, char **error)
{
	static const char *const names[] = {"control", "qps",	       "steers",
					    "paths",   "repair_rings", "repair_cpu"};
	struct bpfmap_use uses[sizeof(names) / sizeof(*names) + 1] = {};
	struct repair *repair = calloc(1, sizeof(*repair));
	int err = -ENOMEM;

	if (!repair)
		return explain(error, err, "out of memory");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		uses[i] =
			(struct bpfmap_use){names[i], dataplane_map_fd(steer->dataplane, names[i])};
	repair->rings_fd = dataplane_map_fd(steer->dataplane, "repair_rings");
	if (repair->rings_fd < 0) {
		free(repair);
		return explain(error, -ENOENT, "there is no map repair_rings");
	}
	bpflog_clear();
	repair->program = repair_program__open();
	if (repair->program)
		err = bpfmap_share(repair->program->obj, uses);
	if (!err)
		err = repair_program__load(repair->program);
	if (err) {
		repair_program__destroy(repair->program);
		free(repair);
		return explain(error, err,
			       "the kernel does not take the program esc_repair (%s%s%s)",
			       strerror(-err), bpflog_last()[0] ? ": " : "", bpflog_last());
	}
	steer->repair = repair;
	return 0;
}

/* The copies of the daemon before may be old: rings are made again, empty. */
void steer_repair_adopt(struct steer *steer)
{
	for (uint32_t i = 0; steer->repair && i < ESC_REPAIR_RINGS; i++)
		bpf_map_delete_elem(steer->repair->rings_fd, &i);
	for (size_t i = 0; steer->repair && i < steer->auto_count; i++)
		renew(steer, &steer->autos[i], time_local_ns());
}

void steer_repair_close(struct steer *steer)
{
	struct repair *repair = steer->repair;

	if (!repair)
		return;
	/* The rings stay: packets are repaired without a daemon as well, while rules are in force.
	 */
	for (uint32_t i = 0; i < ESC_REPAIR_RINGS; i++)
		ring_forget(repair, &repair->rings[i]);
	repair_program__destroy(repair->program);
	free(repair);
	steer->repair = NULL;
}

void steer_repair_counts(const struct steer *steer, struct qpring_counts *out)
{
	const struct repair *repair = steer->repair;

	*out = repair ? repair->ended : (struct qpring_counts){};
	for (uint32_t i = 0; repair && i < ESC_REPAIR_RINGS; i++) {
		const struct ring *ring = &repair->rings[i];

		if (!ring->used)
			continue;
		out->rings++;
		qpring_add(out, ring->counts);
	}
	out->refused = repair ? repair->refused : 0;
}

json_t *steer_repair_json(const struct steer *steer)
{
	const char *mode = steer_repair_name(steer_keys(steer->core->config)->repair);
	struct qpring_counts counts;

	if (!steer->repair)
		return json_pack("{s:s, s:s}", "mode", mode, "reason", steer->no_repair);
	steer_repair_counts(steer, &counts);
	return json_pack("{s:s, s:I, s:I, s:I, s:I}", "mode", mode, "qps", (json_int_t)counts.rings,
			 "repairs", (json_int_t)counts.repairs, "packets",
			 (json_int_t)counts.replayed, "qps_refused", (json_int_t)counts.refused);
}
