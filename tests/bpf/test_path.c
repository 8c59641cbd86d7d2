// SPDX-License-Identifier: BSD-2-Clause
/*
 * Path probes that come in: the reply byte for byte, what is recorded and taken from the reports,
 * the record of a reply, and each reason to refuse one. The expectations come from path_model.h.
 */
#define TAP_PLAN 83

#include <sys/epoll.h>
#include <unistd.h>

#include "path_world.h"
#include "pacing/pathlive.h"

static struct path_world p;

static struct path_self self_usual(void)
{
	struct path_self by = {.self = SELF, .epoch = OWN_EPOCH, .key = &keys[0]};

	by.bound = FABRIC_BOUND_NS;
	for (int i = 0; i < Q_PATHS; i++)
		by.age_us[i] = Q_NEVER;
	return by;
}

/* Our entry for the peer's paths reports this; ages are filled in from the reply's own time. */
static void know_paths(struct path_self *by, const struct esc_path_received *received,
		       uint64_t ktime)
{
	for (int i = 0; i < Q_PATHS; i++) {
		by->report_sport[i] = received->sport[i];
		by->age_us[i] = !received->sport[i] ? Q_NEVER
				: received->received_ktime_ns[i] >= ktime
					? 0
					: (ktime - received->received_ktime_ns[i]) / 1000;
	}
}

static bool check_recorded(const struct path_plan *plan, const struct esc_path_received *received,
			   uint64_t ktime)
{
	return IS(received->peer, PEER) && IS(received->peer_epoch, plan->epoch) &&
	       IS(received->ktime_ns, ktime) && IS(received->sport[plan->path], plan->port) &&
	       IS(received->received_ktime_ns[plan->path], ktime);
}

/* Sends the request; true when the reply and the record are what they must be. */
static bool check_reply(const struct path_plan *plan, struct path_self by)
{
	struct esc_path_key way = path_way(plan->ip);
	uint64_t before = now_ns(), ktime, t2, t3;
	struct esc_path_received received;
	struct frame in, out, want;
	uint32_t bth;

	path_build(&in, plan);
	bth = probe_bth(&in);
	if (!IS(probe_run(&p.r.w, WORLD_XDP, &in, &out, 0), XDP_VERDICT_TX))
		return false;
	ktime = probe_get(&out, bth + Q_KTIME, 8);
	t2 = probe_get(&out, bth + Q_T2, 8);
	t3 = probe_get(&out, bth + Q_T3, 8);
	if (!path_get_received(&p, &way, &received) || !check_recorded(plan, &received, ktime))
		return false;
	know_paths(&by, &received, ktime);
	model_path_reply(&want, &in, &out, &by);
	return IS(in.bytes, out.bytes) && probe_same(&out, &want) &&
	       IS(before <= ktime && ktime <= now_ns(), 1) && IS(path_records(&p), 0) &&
	       (!by.bound || (IS(t2, ktime + FABRIC_AHEAD_NS) &&
			      IS(t3 >= t2 && t3 <= now_ns() + FABRIC_AHEAD_NS, 1)));
}

static void test_requests(void)
{
	static struct frame in, out;

	for (int ip = 4; ip <= 6; ip += 2)
		for (int shape = 0; shape < FRAME_SHAPES; shape++)
			for (int timed = 0; timed < 2; timed++) {
				struct path_plan plan = path_plan_usual();
				struct esc_path_key back = path_back(ip);
				struct path_self by = self_usual();

				plan.ip = ip;
				plan.shape = shape;
				plan.flags = timed ? Q_TIMED : 0;
				plan.t1 = 12345;
				plan.t1_bound = 77;
				path_reset(&p, &back);
				receipt_set_clock(&p.r, timed);
				if (frame_shape_has_options(shape)) {
					path_build(&in, &plan);
					tap_ok(IS(probe_run(&p.r.w, WORLD_XDP, &in, &out, 0),
						  XDP_VERDICT_DROP) &&
						       probe_reason_is(&p.r.w, WORLD_XDP,
								       ESC_REASON_PROBE_OPTIONS, 1),
					       "a request over IPv%d, %s: no reply", ip,
					       frame_shape_names[shape]);
					continue;
				}
				by.bound = timed ? FABRIC_BOUND_NS : 0;
				tap_ok(check_reply(&plan, by) &&
					       probe_reason_is(&p.r.w, WORLD_XDP, -1, 0),
				       "a request over IPv%d, %s%s: the reply is right", ip,
				       frame_shape_names[shape], timed ? ", with fabric time" : "");
			}
}

/* What the reply reports of paths received before. */
static void test_words_out(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct esc_path_received received = {.peer = PEER, .peer_epoch = PEER_EPOCH};
	struct path_plan plan = path_plan_usual();
	struct path_self by = self_usual();
	uint64_t now = now_ns();

	path_reset(&p, &back);
	for (int i = 0; i < Q_PATHS; i += 2) {
		received.sport[i] = 40000 + i;
		received.received_ktime_ns[i] = now - 7000000ull * i;
	}
	received.received_ktime_ns[0] = now + 1000000000; /* another CPU, later than we */
	path_set_received(&p, &way, &received);
	tap_ok(check_reply(&plan, by), "the reply reports when each path was received");
	received.received_ktime_ns[2] = now - (1ull << 32) * 1000 - 1;
	path_set_received(&p, &way, &received);
	if (received.received_ktime_ns[2] < now) {
		struct frame in, out;

		plan.sequence++;
		path_build(&in, &plan);
		probe_run(&p.r.w, WORLD_XDP, &in, &out, 0);
		tap_ok(IS(probe_get(&out, probe_bth(&in) + Q_AGES + 8, 4), Q_NEVER - 1),
		       "more than 71 minutes ago is the longest age there is");
	} else {
		tap_skip("more than 71 minutes ago is the longest age there is",
			 "this machine has not been up for so long");
	}
	plan.path = ESC_PATH_NONE;
	plan.port = 60123;
	plan.sequence++;
	path_get_received(&p, &way, &received);
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_TX), "a port that is tried is replied to");
	{
		struct esc_path_received after;

		path_get_received(&p, &way, &after);
		tap_ok(!memcmp(received.sport, after.sport, sizeof(received.sport)) &&
			       !memcmp(received.received_ktime_ns, after.received_ktime_ns,
				       sizeof(received.received_ktime_ns)),
		       "and is no path that was received");
	}
}

/* --- refusals --- */

enum fault {
	NO_KEY = 1,
	NOT_ANSWERING,
	ADDRESS_UNKNOWN,
	ADDRESS_OF_OTHER,
	ROGUE_KEY,
	UNTAGGED,
	LONG_DATAGRAM,
	SHORT_DATAGRAM,
	MOVED_SOURCE,
	MOVED_DESTINATION,
	NO_ADDRESS_SIGNED,
};

static const struct refusal {
	const char *name;
	struct path_plan change; /* added to the usual plan, or in its place */
	enum fault fault;
	int reason;
	bool passes;
} refusals[] = {
	{"another version", {.version_more = 2}, 0, ESC_REASON_PROBE_VERSION, false},
	{"no magic", {.bad_magic = true}, 0, ESC_REASON_UNKNOWN_OPCODE, true},
	{"a byte too long", {0}, LONG_DATAGRAM, ESC_REASON_PROBE_VERSION, false},
	{"a byte too short", {0}, SHORT_DATAGRAM, ESC_REASON_PROBE_SHORT, false},
	{"probing is off", {0}, NOT_ANSWERING, ESC_REASON_PROBE_OFF, false},
	{"of an unknown sender", {.sender = OTHER}, 0, ESC_REASON_PROBE_UNKNOWN_PEER, false},
	{"of the other mesh", {.flags = ESC_PROBE_PLANE}, 0, ESC_REASON_PROBE_UNKNOWN_PEER, false},
	{"from an unknown address", {0}, ADDRESS_UNKNOWN, ESC_REASON_PROBE_UNKNOWN_PEER, false},
	{"from another member's address",
	 {0},
	 ADDRESS_OF_OTHER,
	 ESC_REASON_PROBE_UNKNOWN_PEER,
	 false},
	{"for another member", {.target = OTHER}, 0, ESC_REASON_PROBE_NOT_OURS, false},
	{"made with an unknown key", {0}, ROGUE_KEY, ESC_REASON_PROBE_BAD_TAG, false},
	{"without a tag", {0}, UNTAGGED, ESC_REASON_PROBE_BAD_TAG, false},
	{"names a key that is not there",
	 {.flags = ESC_PROBE_KEY},
	 0,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"without a timestamp, where no host has keys",
	 {.t1_ktime = -PEER_KTIME},
	 NO_KEY,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"without a timestamp", {.t1_ktime = -PEER_KTIME}, 0, ESC_REASON_PROBE_BAD_TAG, false},
	{"sent again from another address of the peer",
	 {0},
	 MOVED_SOURCE,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"sent again to another address of ours",
	 {0},
	 MOVED_DESTINATION,
	 ESC_REASON_PROBE_BAD_TAG,
	 false},
	{"with another port", {.sport = PATH_PORT + 1}, 0, ESC_REASON_PROBE_PORT, false},
};

static void refusal_world(const struct refusal *r)
{
	struct esc_path_key back = path_back(4);
	struct esc_fleet fleet = probe_fleet_usual();
	struct esc_address other = receipt_address(4, true, PEER_HOST + 1);

	path_reset(&p, &back);
	if (r->fault == NO_KEY)
		fleet.flags &= ~ESC_FLEET_HAS_KEY0;
	if (r->fault == NOT_ANSWERING)
		fleet.flags &= ~ESC_FLEET_REPLY;
	probe_set_fleet(&p.r.w, &fleet);
	if (r->fault == ADDRESS_UNKNOWN)
		receipt_set_addresses(&p.r, 0, 0);
	if (r->fault == ADDRESS_OF_OTHER)
		receipt_set_addresses(&p.r, OTHER, 0);
	receipt_set_address(&p.r, other, PEER, 0);
	receipt_refresh(&p.r, 0, 0);
}

static void refusal_frame(const struct refusal *r, struct frame *f)
{
	struct path_plan plan = path_plan_usual();
	int more = r->fault == LONG_DATAGRAM ? 1 : r->fault == SHORT_DATAGRAM ? -1 : 0;

	plan.bad_magic = r->change.bad_magic;
	plan.flags |= r->change.flags;
	plan.version_more = r->change.version_more;
	plan.t1_ktime += r->change.t1_ktime;
	plan.sport = r->change.sport;
	plan.sender = r->change.sender ? r->change.sender : plan.sender;
	plan.target = r->change.target ? r->change.target : plan.target;
	if (r->fault == ROGUE_KEY)
		plan.key = &keys[2];
	if (r->fault == UNTAGGED || r->fault == NO_KEY)
		plan.key = NULL;
	path_build(f, &plan);
	if (r->fault == MOVED_SOURCE)
		frame_put16(f, 14 + 14, PEER_HOST + 1);
	if (r->fault == MOVED_DESTINATION)
		frame_put16(f, 14 + 18, 3);
	frame_put16(f, 16, frame_get16(f, 16) + more);
	frame_put16(f, 38, frame_get16(f, 38) + more);
	f->bytes += more;
}

static void test_refusals(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct frame in, out;

	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct esc_paths before = path_slot_usual(&back), after;
		const struct refusal *r = &refusals[i];
		struct esc_path_received received;
		bool good;

		refusal_world(r);
		refusal_frame(r, &in);
		good = IS(probe_run(&p.r.w, WORLD_XDP, &in, &out, 0),
			  r->passes ? XDP_VERDICT_PASS : XDP_VERDICT_DROP) &&
		       probe_same(&out, &in) && probe_reason_is(&p.r.w, WORLD_XDP, r->reason, 1) &&
		       IS(path_get_received(&p, &way, &received), 0) &&
		       IS(probe_get_peer(&p.r.w, PEER).epoch, 0);
		after = path_get_slot(&p);
		tap_ok(good && !memcmp(&before, &after, sizeof(before)),
		       "a request %s: %s, nothing is written", r->name,
		       world_reason_name(r->reason));
	}
}

/* Else it would report of paths, once it is back, that they were not received for as long as it was
 * gone. */
static void test_daemon_gone(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct path_plan plan = path_plan_usual();
	struct esc_path_received received = {0};

	path_reset(&p, &back);
	receipt_refresh(&p.r, (int64_t)ESC_PROBE_HEARTBEAT_TIMEOUT_NS + 1000000, 0);
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_NO_DAEMON, 1),
	       "a request while the daemon is down: probe_no_daemon");
	tap_ok(IS(path_get_received(&p, &way, &received), 1) &&
		       received.received_ktime_ns[plan.path] &&
		       IS(received.sport[plan.path], PATH_PORT),
	       "but its path was received");
}

static void test_table_full(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4), key = {0};
	struct path_plan plan = path_plan_usual();
	static const struct esc_path_received none;

	path_reset(&p, &back);
	for (uint32_t i = 0; i < ESC_PATH_RECEIVED_MAX; i++) {
		memcpy(key.src.bytes, &i, sizeof(i));
		path_set_received(&p, &key, &none);
	}
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_TABLE_FULL, 1),
	       "no free entry for a peer's paths: not replied to, and counted");
	bpf_map_delete_elem(receipt_fd(&p.r, "path_received"), &key);
	path_set_received(&p, &way, &none);
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_TX),
	       "a peer that has room is replied to though the table is full");
}

/* --- replays, epochs, the rate --- */

static int send_on(uint8_t path, uint32_t sequence, uint64_t epoch)
{
	struct path_plan plan = path_plan_usual();

	plan.path = path;
	plan.port = path == ESC_PATH_NONE ? 60000 : PATH_PORT + path - PATH;
	plan.sequence = sequence;
	plan.epoch = epoch;
	return path_send(&p, &plan);
}

#define GOES(path, n) (send_on(path, n, PEER_EPOCH) == XDP_VERDICT_TX)

static void test_replay(void)
{
	static const uint32_t starts[] = {1000, 0, 0xffffff00};
	struct esc_path_key back = path_back(4);

	for (int i = 0; i < 3; i++) {
		uint32_t first = starts[i], n, taken = 0;
		bool good;

		path_reset(&p, &back);
		good = GOES(1, first) && !GOES(1, first) && GOES(1, first + 5000) &&
		       !GOES(1, first + 4999) && GOES(2, first + 1) && !GOES(2, first + 1) &&
		       GOES(1, first + 5001);
		tap_ok(good && probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 3),
		       "from %u on: a path takes what is newer, whatever the others have", first);
		path_reset(&p, &back);
		good = GOES(ESC_PATH_NONE, first) && GOES(ESC_PATH_NONE, first + 511);
		for (n = 1; n < 511; n++)
			taken += GOES(ESC_PATH_NONE, first + 511 - n);
		tap_ok(good && IS(taken, 510),
		       "ports that are tried: each once in any order within 512");
		for (n = 0; n < 512; n++)
			taken += GOES(ESC_PATH_NONE, first + n);
		good = IS(taken, 510) && GOES(ESC_PATH_NONE, first + 1024) &&
		       !GOES(ESC_PATH_NONE, first + 512) && /* 64 windows back */
		       GOES(ESC_PATH_NONE, first + 520);
		tap_ok(good, "and no second time, nor when older than that");
	}
}

static void test_epochs(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct esc_path_received received;
	struct esc_paths slot;
	bool good = true;

	path_reset(&p, &back);
	tap_ok(send_on(1, 5000, 10) == XDP_VERDICT_TX && send_on(1, 5001, 9) == XDP_VERDICT_DROP &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 1),
	       "a request of an earlier run is stale");
	slot = path_get_slot(&p);
	for (int i = 0; i < Q_PATHS; i++)
		slot.paths[i].live = (struct pathlive_path){1, 2, 3, 4, 5, 0};
	path_set_slot(&p, &slot);
	tap_ok(send_on(2, 1, 11) == XDP_VERDICT_TX && path_get_received(&p, &way, &received) &&
		       IS(received.peer_epoch, 11) && IS(received.sport[1], 0) &&
		       IS(received.sport[2], PATH_PORT - 1),
	       "a new run counts from 0, and nothing of the one before was received");
	slot = path_get_slot(&p);
	for (int i = 0; i < Q_PATHS; i++)
		good = good && IS(slot.paths[i].live.unconfirmed, 0) &&
		       IS(slot.paths[i].live.received_peer_ns, 0) &&
		       IS(slot.paths[i].live.since_ns, 0);
	tap_ok(good && IS(slot.peer_epoch, 11), "our paths begin anew with it");
	tap_ok(send_on(1, 6000, 10) == XDP_VERDICT_DROP, "and the one before is over");
}

/* A lower epoch is of a newer run when a reply to a request of ours since then has it. */
static void test_date_set_back(void)
{
	struct esc_path_key back = path_back(4);
	struct path_plan plan = path_plan_reply();

	path_reset(&p, &back);
	plan.epoch = 9;
	tap_ok(send_on(1, 5000, 10) == XDP_VERDICT_TX &&
		       IS(path_send(&p, &plan), XDP_VERDICT_DROP) && IS(path_records(&p), 0) &&
		       send_on(1, 5001, 9) == XDP_VERDICT_DROP &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 2),
	       "a reply of a lower epoch to a request from before the higher one is stale");
	plan.t1_ktime = now_ns();
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) && IS(path_records(&p), 1) &&
		       send_on(1, 1, 9) == XDP_VERDICT_TX &&
		       send_on(1, 5002, 10) == XDP_VERDICT_DROP &&
		       IS(probe_get_peer(&p.r.w, PEER).epoch, 9) &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 3),
	       "one to a later request is accepted: its run is newer, and the other one is over");
}

static void test_rate(void)
{
	struct esc_path_key way = path_way(4), back = path_back(4);
	struct esc_fleet fleet = probe_fleet_usual();
	uint64_t counts[ESC_REASON_MAX], from = now_ns();
	struct esc_path_received received;
	uint32_t replied = 0, i;

	path_reset(&p, &back);
	fleet.path_max_pps = 20;
	fleet.reply_max_pps = 0;
	probe_set_fleet(&p.r.w, &fleet);
	for (i = 0; i < 200; i++)
		replied += send_on(1, 1 + i, PEER_EPOCH) == XDP_VERDICT_TX;
	world_reasons(path_kernel(&p), counts, WORLD_XDP);
	/* A slow machine may have seen another second begin. */
	tap_ok(replied >= 20 && replied <= 20 * (2 + (now_ns() - from) / 1000000000) &&
		       replied + counts[ESC_REASON_PROBE_RATE] == 200,
	       "%u of 200 requests within the rate are replied to, the others counted", replied);
	path_get_received(&p, &way, &received);
	tap_ok(IS(received.requests.newest[1], 200) && received.received_ktime_ns[1] >= from,
	       "those that are not replied to were received all the same");
}

/* --- replies --- */

static struct path_plan reply_timed(void)
{
	struct path_plan plan = path_plan_reply();

	plan.flags = Q_TIMED | Q_REPLY_TIMED;
	plan.t1 = plan.t1_ktime + FABRIC_AHEAD_NS;
	plan.t2 = plan.t1 + 300000;
	plan.t3 = plan.t2 + 100000;
	plan.t1_bound = 11;
	plan.t2_bound = 22;
	return plan;
}

static bool check_record(const struct path_plan *plan, uint32_t slot, uint8_t flags)
{
	const struct esc_path_record *r = &p.record;
	bool both = (plan->flags & Q_REPLY_TIMED) && plan->t3 > plan->t2;
	unsigned int records = path_records(&p);
	uint64_t all = r->ktime_ns - plan->t1_ktime;

	return IS(records, 1) && IS(r->slot, slot) && IS(r->sequence, plan->sequence) &&
	       IS(r->path, plan->path) && IS(r->sport, plan->port) && IS(r->flags, flags) &&
	       IS(r->hop_limit, 64) && IS(r->port, p.r.w.world.port) &&
	       IS(r->rtt_ns, r->ktime_ns - plan->t1_ktime - (both ? plan->t3 - plan->t2 : 0)) &&
	       IS(r->ktime_ns <= now_ns() && all >= 1000000, 1) &&
	       IS(r->out_ns, flags & Q_TIMED ? plan->t2 - plan->t1 : 0) &&
	       IS(r->out_bound_ns, flags & Q_TIMED ? plan->t1_bound + plan->t2_bound : 0) &&
	       IS(r->in_ns, flags & Q_REPLY_TIMED ? r->ktime_ns + FABRIC_AHEAD_NS - plan->t3 : 0) &&
	       IS(r->in_bound_ns, flags & Q_REPLY_TIMED ? plan->t2_bound + FABRIC_BOUND_NS : 0);
}

static void test_replies(void)
{
	for (int ip = 4; ip <= 6; ip += 2) {
		struct path_plan plan = reply_timed();
		struct esc_path_key back = path_back(ip);

		plan.ip = ip;
		path_reset(&p, &back);
		tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) &&
			       probe_reason_is(&p.r.w, WORLD_XDP, -1, 0) &&
			       check_record(&plan, SLOT, Q_TIMED | Q_REPLY_TIMED) &&
			       IS(path_get_slot(&p).paths[PATH].replies, 1),
		       "a reply over IPv%d: recorded with both delays, and counted", ip);
	}
}

static void test_replies_untimed(void)
{
	static const struct {
		const char *name;
		uint8_t flags;
		bool clock;
		uint8_t recorded;
	} cases[] = {
		{"of a request without fabric time", Q_REPLY_TIMED, true, Q_REPLY_TIMED},
		{"of a responder without fabric time", Q_TIMED, true, 0},
		{"while we have no fabric time", Q_TIMED | Q_REPLY_TIMED, false, Q_TIMED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct path_plan plan = reply_timed();
		struct esc_path_key back = path_back(4);

		plan.flags = cases[i].flags;
		path_reset(&p, &back);
		receipt_set_clock(&p.r, cases[i].clock);
		path_send(&p, &plan);
		tap_ok(check_record(&plan, SLOT, cases[i].recorded),
		       "a reply %s has no delay that is not known", cases[i].name);
	}
}

static void test_reply_faults(void)
{
	struct esc_path_key back = path_back(4);
	struct path_plan plan = path_plan_reply();

	path_reset(&p, &back);
	plan.echo_epoch = OWN_EPOCH - 1;
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) && IS(path_records(&p), 0) &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 1),
	       "a reply to an earlier run of ours is stale");
	path_reset(&p, &back);
	plan = path_plan_reply();
	path_send(&p, &plan);
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) && IS(path_records(&p), 1) &&
		       probe_reason_is(&p.r.w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 1),
	       "a reply counts once");
	plan.sequence++;
	plan.key = &keys[2];
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_DROP) && IS(path_records(&p), 0),
	       "a forged one never");
	path_reset(&p, &back);
	path_forget(&p, "path_slots");
	plan = path_plan_reply();
	path_send(&p, &plan);
	tap_ok(check_record(&plan, ESC_PATH_SLOT_NONE, 0), "a reply without a slot is recorded");
	path_reset(&p, &back);
	plan.path = ESC_PATH_NONE;
	plan.port = 61000;
	path_send(&p, &plan);
	tap_ok(check_record(&plan, SLOT, 0), "a reply to a port that is tried, too");
	plan = path_plan_reply();
	plan.sequence++;
	plan.port = PATH_PORT + 100;
	path_send(&p, &plan);
	tap_ok(IS(path_records(&p), 1) && IS(path_get_slot(&p).paths[PATH].replies, 0),
	       "a reply to a path's former port is none of the path's");
}

static void test_ring_full(void)
{
	struct esc_path_key back = path_back(4);
	struct path_plan plan = path_plan_reply();
	uint64_t counts[ESC_REASON_MAX];
	/* A record has eight bytes more in the ring. */
	uint32_t room = ESC_PATH_RECORDS_RING_BYTES / (sizeof(struct esc_path_record) + 8), taken;

	path_reset(&p, &back);
	for (uint32_t i = 0; i < room + 100; i++) {
		plan.sequence++;
		path_send(&p, &plan);
	}
	taken = path_records(&p);
	world_reasons(path_kernel(&p), counts, WORLD_XDP);
	tap_ok(IS(counts[ESC_REASON_PROBE_RING_FULL], room + 100 - taken) &&
		       IS(taken >= room - 1 && taken <= room, 1) &&
		       IS(path_get_slot(&p).paths[PATH].replies, room + 100),
	       "a full ring loses the record, not what the reply reports");
}

/* --- what the peer reports of our paths --- */

static bool same_live(const struct esc_paths *have, const struct esc_paths *want)
{
	for (int i = 0; i < Q_PATHS; i++) {
		const struct pathlive_path *a = &have->paths[i].live, *b = &want->paths[i].live;

		if (!IS(a->report_peer_ns, b->report_peer_ns) ||
		    !IS(a->received_peer_ns, b->received_peer_ns) ||
		    !IS(!a->report_ns, !b->report_ns) || !IS(a->since_ns, b->since_ns) ||
		    !IS(a->unconfirmed, b->unconfirmed)) {
			printf("# path %d\n", i);
			return false;
		}
	}
	return true;
}

/* The effect of a report, implemented again: @port 0 and any age but never is none. */
static void model_word(struct esc_path *path, uint16_t port, uint32_t age_us, uint64_t peer_ns)
{
	uint64_t received = 0;

	if (!path->sport || (!port && age_us != Q_NEVER) || peer_ns <= path->live.report_peer_ns)
		return;
	if (port == path->sport && age_us < Q_NEVER - 1 && age_us * 1000ull < peer_ns)
		received = peer_ns - age_us * 1000ull;
	path->live.report_peer_ns = peer_ns;
	path->live.report_ns = 1;
	if (received > path->live.received_peer_ns + PATHLIVE_GRAIN_NS) {
		path->live.received_peer_ns = received;
		path->live.unconfirmed = 0;
	}
}

static uint32_t seed_state;

static uint32_t random_below(uint32_t n)
{
	seed_state = seed_state * 1664525 + 1013904223;
	return (seed_state >> 8) % n;
}

static void random_words(struct path_plan *plan, const struct esc_paths *slot)
{
	static const uint32_t ages[] = {0, 1, 900, 3500, 100000, 4000000000u, Q_NEVER - 1, Q_NEVER};

	for (int i = 0; i < Q_PATHS; i++) {
		uint32_t what = random_below(8);

		plan->report_sport[i] = what == 0 ? 0 : what == 1 ? 1234 : slot->paths[i].sport;
		plan->age_us[i] = ages[random_below(8)];
	}
}

static void test_words_in(uint32_t seed)
{
	struct esc_path_key back = path_back(4);
	struct esc_paths slot, have;
	uint64_t peer_ns = PEER_KTIME;
	uint32_t good = 0, i;

	seed_state = seed;
	path_reset(&p, &back);
	slot = path_slot_usual(&back);
	slot.paths[5].sport = 0;
	for (i = 0; i < 3000; i++) {
		struct path_plan plan = random_below(2) ? path_plan_usual() : path_plan_reply();
		int path = random_below(Q_PATHS);

		slot.paths[path].live.unconfirmed = random_below(9);
		slot.paths[path].live.since_ns = 1 + random_below(1000);
		path_set_slot(&p, &slot);
		peer_ns += random_below(8000000);
		plan.ktime = random_below(8) ? peer_ns : peer_ns - random_below(90000000);
		plan.sequence = 200 + i;
		random_words(&plan, &slot);
		path_send(&p, &plan);
		for (int l = 0; l < Q_PATHS; l++)
			model_word(&slot.paths[l], plan.report_sport[l], plan.age_us[l],
				   plan.ktime);
		have = path_get_slot(&p);
		if (!same_live(&have, &slot))
			break;
		slot = have;
		good++;
	}
	tap_ok(IS(good, 3000),
	       "what 3,000 random probes report of our paths is taken as it is meant");
	slot = path_slot_usual(&back);
	slot.peer = OTHER;
	path_set_slot(&p, &slot);
	{
		struct path_plan plan = path_plan_usual();

		plan.sequence = 100000;
		plan.ktime = peer_ns + 1;
		random_words(&plan, &slot);
		path_send(&p, &plan);
		have = path_get_slot(&p);
		tap_ok(!memcmp(&have, &slot, sizeof(slot)),
		       "a slot of another member stays as it is");
	}
}

/* A dead path by probes alone: three are lost, the peer's reports of others show it. */
static void test_death(void)
{
	struct esc_path_key back = path_back(4);
	struct path_plan plan = path_plan_usual();
	struct esc_paths slot;
	uint64_t now = now_ns();

	path_reset(&p, &back);
	slot = path_slot_usual(&back);
	slot.paths[PATH].live = (struct pathlive_path){.report_peer_ns = PEER_KTIME,
						       .received_peer_ns = PEER_KTIME,
						       .report_ns = now - 5000000,
						       .since_ns = now - 4000000,
						       .unconfirmed = 3};
	path_set_slot(&p, &slot);
	plan.ktime = PEER_KTIME + 4000000;
	plan.path = 0;
	plan.port = PATH_PORT - PATH;
	plan.age_us[PATH] = 4000;
	plan.report_sport[PATH] = PATH_PORT;
	tap_ok(!pathlive_is_dead(&slot.paths[PATH].live, 3000000) &&
		       IS(path_send(&p, &plan), XDP_VERDICT_TX),
	       "silence kills no path");
	slot = path_get_slot(&p);
	tap_ok(pathlive_is_dead(&slot.paths[PATH].live, 3000000) &&
		       !pathlive_is_dead(&slot.paths[0].live, 3000000),
	       "the peer's report in a request of its own does");
}

/* The ring's wakeups since the last call, 100 ms at most. */
static bool is_woken(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 100) == 1;
}

/* The daemon is woken for a dead path; all else waits for its tick. */
static void test_wakeup(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	struct esc_path_key back = path_back(4);
	struct path_plan plan = path_plan_usual();
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t now = now_ns();
	struct esc_paths slot;

	path_reset(&p, &back);
	slot = path_slot_usual(&back);
	slot.paths[PATH].deadline_ns = 3000000;
	slot.paths[PATH].live = (struct pathlive_path){.report_peer_ns = PEER_KTIME,
						       .received_peer_ns = PEER_KTIME,
						       .report_ns = now - 5000000,
						       .since_ns = now - 4000000,
						       .unconfirmed = 3};
	path_set_slot(&p, &slot);
	epoll_ctl(epoll, EPOLL_CTL_ADD, receipt_fd(&p.r, "path_records"), &event);
	plan.path = 0;
	plan.port = PATH_PORT - PATH;
	plan.report_sport[PATH] = PATH_PORT;
	plan.age_us[PATH] = 2000;
	plan.ktime = PEER_KTIME + 2000000;
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_TX) && !is_woken(epoll),
	       "the report of a path that is silent wakes nothing");
	plan.sequence++;
	plan.age_us[PATH] = 4000;
	plan.ktime = PEER_KTIME + 4000000;
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_TX) && is_woken(epoll) &&
		       IS(path_records(&p), 0),
	       "that of one that is dead wakes the daemon, without a record");
	slot = path_get_slot(&p);
	slot.paths[PATH].state = PATHLIVE_DOWN;
	path_set_slot(&p, &slot);
	plan.sequence++;
	plan.ktime += 1000000;
	tap_ok(IS(path_send(&p, &plan), XDP_VERDICT_TX) && !is_woken(epoll),
	       "once, until the daemon has it as down");
	close(epoll);
}

int main(int argc, char **argv)
{
	uint32_t seed = argc > 1 ? strtoul(argv[1], NULL, 0) : (uint32_t)now_ns() | 1;
	struct frame in, out;
	struct path_plan plan = path_plan_usual();

	printf("# seed %u (repeat with: test_path %u)\n", seed, seed);
	if (path_world_open(&p, &(struct world_options){.port = 2}))
		return tap_bail("the programs do not load");
	test_requests();
	test_words_out();
	test_refusals();
	test_daemon_gone();
	test_table_full();
	test_replay();
	test_epochs();
	test_date_set_back();
	test_rate();
	test_replies();
	test_replies_untimed();
	test_reply_faults();
	test_ring_full();
	test_words_in(seed);
	test_death();
	test_wakeup();
	world_reset(path_kernel(&p));
	path_build(&in, &plan);
	tap_ok(IS((uint32_t)probe_run(&p.r.w, WORLD_TC_IN, &in, &out, 0), (uint32_t)-1) &&
		       probe_reason_is(&p.r.w, WORLD_TC_IN, ESC_REASON_PROBE_OFF, 1),
	       "where XDP is not to be had it goes on, without a reply");
	path_world_close(&p);
	return tap_end();
}
