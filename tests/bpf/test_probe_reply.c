// SPDX-License-Identifier: BSD-2-Clause
/*
 * Replies and warm-up packets that come in, and what interfaces differ in: the probe
 * port, the mesh, the lab's clock, where packets are received, the kill switch.
 */
#define TAP_PLAN 50

#include "probe_world.h"

static bool is(const char *what, uint64_t value, uint64_t want)
{
	if (value != want)
		printf("# %s is %llu, must be %llu\n", what, (unsigned long long)value,
		       (unsigned long long)want);
	return value == want;
}

static int send_plan(struct probe_world *w, const struct probe_plan *plan)
{
	struct frame packet, out;
	int verdict;

	probe_build(&packet, plan);
	verdict = probe_run(w, WORLD_XDP, &packet, &out, 0);
	if (verdict != XDP_VERDICT_TX && !probe_same(&out, &packet))
		return -1;
	return verdict;
}

static void test_reply(struct probe_world *w, uint8_t ip, enum frame_shape shape)
{
	struct probe_plan plan = probe_plan_reply();
	const struct esc_probe_event *e = &w->event;
	struct esc_peer peer;
	uint64_t before = now_ns();
	bool good;

	probe_reset(w);
	plan.ip = ip;
	plan.shape = shape;
	plan.flags = ESC_PROBE_VIEW | ESC_PROBE_SECOND | ESC_PROBE_QUERY;
	plan.view = own_view;
	plan.about = OTHER;
	plan.about_age_us = 77;
	if (frame_shape_has_options(shape)) {
		good = is("verdict", send_plan(w, &plan), XDP_VERDICT_DROP) &&
		       is("records", probe_events(w), 0) &&
		       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_OPTIONS, 1);
		tap_ok(good, "a reply over IPv%d, %s: dropped", ip, frame_shape_names[shape]);
		return;
	}
	good = is("verdict", send_plan(w, &plan), XDP_VERDICT_DROP) &&
	       is("records", probe_events(w), 1) && is("kind", e->kind, ESC_PROBE_EVENT_REPLY) &&
	       is("peer", e->peer, PEER) && is("epoch", e->epoch, PEER_EPOCH) &&
	       is("t1", e->t1, plan.t1) && is("t2", e->t2, plan.t2) && is("t3", e->t3, plan.t3) &&
	       is("t4 is in time", e->t4 >= before && e->t4 <= now_ns(), 1) &&
	       is("sequence", e->sequence, 100) && is("pair", e->pair, 50) &&
	       is("flags", e->flags, plan.flags) && is("port", e->port, w->world.port) &&
	       is("about", e->about, OTHER) && is("about_age_us", e->about_age_us, 77) &&
	       is("heard_age_us", e->received_age_us, 4321) &&
	       is("view_rate_q40", e->view_rate_q40, 0x1112131415161718) &&
	       is("view_state", e->view_state, 2);
	peer = probe_get_peer(w, PEER);
	good = good && is("replies_received", peer.replies_received, 1) &&
	       is("requests_received", peer.requests_received, 0) &&
	       is("replied_local_ns", peer.replied_local_ns, e->t4) &&
	       is("heard_local_ns", peer.received_local_ns, e->t4) &&
	       is("epoch", peer.epoch, PEER_EPOCH) &&
	       is("replies_epoch", peer.replies_epoch, OWN_EPOCH) &&
	       probe_reason_is(w, WORLD_XDP, -1, 0);
	tap_ok(good, "a reply over IPv%d, %s: recorded and ends here", ip,
	       frame_shape_names[shape]);
}

/* Sends the changed reply to a host that has just received nothing. */
static void check_refused(struct probe_world *w, const char *name, const struct probe_plan *plan,
			  int reason)
{
	struct esc_peer peer;
	bool good;

	probe_reset(w);
	good = is("verdict", send_plan(w, plan), XDP_VERDICT_DROP) &&
	       probe_reason_is(w, WORLD_XDP, reason, 1) && is("records", probe_events(w), 0);
	peer = probe_get_peer(w, PEER);
	tap_ok(good && is("received", peer.replies_received + peer.received_local_ns + peer.epoch,
			  0),
	       "a reply %s: %s, nothing is written", name, world_reason_name(reason));
}

static void test_reply_refusals(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_reply();

	plan.sender = OTHER;
	check_refused(w, "of an unknown sender", &plan, ESC_REASON_PROBE_UNKNOWN_PEER);
	plan = probe_plan_reply();
	plan.target = OTHER;
	check_refused(w, "for another", &plan, ESC_REASON_PROBE_NOT_OURS);
	plan = probe_plan_reply();
	plan.key = &keys[2];
	check_refused(w, "made with an unknown key", &plan, ESC_REASON_PROBE_BAD_TAG);
	plan = probe_plan_reply();
	plan.version_more = 2;
	check_refused(w, "of another version", &plan, ESC_REASON_PROBE_VERSION);
	plan = probe_plan_reply();
	plan.echo_epoch = OWN_EPOCH - 1;
	check_refused(w, "to a run of ours that ended", &plan, ESC_REASON_PROBE_STALE_EPOCH);
	plan.echo_epoch = OWN_EPOCH + 1;
	check_refused(w, "to a run of ours that never was", &plan, ESC_REASON_PROBE_STALE_EPOCH);
}

static void test_reply_windows(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_reply();
	struct esc_fleet fleet = probe_fleet_usual();
	bool good;

	probe_reset(w);
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 1 &&
	       send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 0 &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 1);
	tap_ok(good, "a reply is taken once");
	plan.sequence = 99;
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 1;
	plan.sequence = 36;
	good = good && send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 0;
	tap_ok(good, "in any order within 64");
	plan.sequence = 100;
	plan.opcode = ESC_PROBE_OPCODE_REQUEST;
	good = send_plan(w, &plan) == XDP_VERDICT_TX && probe_events(w) == 1;
	tap_ok(good, "a request with the same sequence is another thing");
	plan.opcode = ESC_PROBE_OPCODE_REPLY;
	plan.sequence = 200;
	plan.epoch = PEER_EPOCH - 1;
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 0 &&
	       send_plan(w, &plan) == XDP_VERDICT_DROP;
	tap_ok(good, "a reply by an earlier run of the peer is stale");
	plan.epoch = PEER_EPOCH + 1;
	plan.sequence = 99;
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 0;
	plan.sequence = 101;
	good = good && send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 1 &&
	       is("epoch", probe_get_peer(w, PEER).epoch, PEER_EPOCH + 1);
	tap_ok(good, "the peer's new run does not make old replies new");
	fleet.epoch = OWN_EPOCH + 5;
	probe_set_fleet(w, &fleet);
	plan.echo_epoch = OWN_EPOCH + 5;
	plan.sequence = 1;
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 1 &&
	       send_plan(w, &plan) == XDP_VERDICT_DROP && probe_events(w) == 0 &&
	       is("replies_epoch", probe_get_peer(w, PEER).replies_epoch, OWN_EPOCH + 5);
	tap_ok(good, "our new run's requests are counted anew");
}

/* The verdict of a packet of the run @epoch; a reply to a request that was sent at @t1. */
static int send_of_run(struct probe_world *w, uint8_t opcode, uint32_t sequence, uint64_t epoch,
		       uint64_t t1)
{
	struct probe_plan plan = probe_plan_reply();

	plan.opcode = opcode;
	plan.sequence = sequence;
	plan.epoch = epoch;
	plan.t1 = t1;
	if (opcode != ESC_PROBE_OPCODE_REPLY)
		plan.echo_epoch = 0;
	return send_plan(w, &plan);
}

/* A peer that started with a date in the future, and again with the right one. */
static void test_date_set_back(struct probe_world *w)
{
	const uint64_t future = PEER_EPOCH + 1000;
	uint64_t counts[ESC_REASON_MAX], before = now_ns(), old;
	bool good;

	probe_reset(w);
	good = send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 50, future, 1) == XDP_VERDICT_TX &&
	       send_of_run(w, ESC_PROBE_OPCODE_REPLY, 60, future, before) == XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 2) &&
	       is("epoch", probe_get_peer(w, PEER).epoch, future);
	good = good &&
	       send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 1, PEER_EPOCH, 1) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_REPLY, 61, PEER_EPOCH, before) == XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 0) &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_STALE_EPOCH, 2);
	tap_ok(good, "of a lower epoch requests are stale, and replies to requests from before the "
		     "higher one");
	old = now_ns();
	good = send_of_run(w, ESC_PROBE_OPCODE_REPLY, 61, PEER_EPOCH, old) == XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 1) &&
	       is("epoch", probe_get_peer(w, PEER).epoch, PEER_EPOCH) &&
	       is("epoch_max", probe_get_peer(w, PEER).epoch_max, future);
	tap_ok(good, "a reply to a later request shows that its run is newer");
	tap_ok(send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 1, PEER_EPOCH, 1) == XDP_VERDICT_TX &&
		       send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 1, PEER_EPOCH, 1) ==
			       XDP_VERDICT_DROP &&
		       is("records", probe_events(w), 1),
	       "then its requests are replied to, each once");
	world_reset(&w->world);
	good = send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 51, future, 1) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 51, future - 1, 1) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_WARMUP, 51, future, 1) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_REPLY, 62, future, before) == XDP_VERDICT_DROP;
	world_reasons(&w->world, counts, WORLD_XDP);
	tap_ok(good && is("records", probe_events(w), 0) &&
		       is("stale", counts[ESC_REASON_PROBE_STALE_EPOCH], 4) &&
		       is("epoch", probe_get_peer(w, PEER).epoch, PEER_EPOCH),
	       "what is replayed of the run with the wrong date stays stale");
	good = send_of_run(w, ESC_PROBE_OPCODE_REPLY, 61, PEER_EPOCH, old) == XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 0);
	tap_ok(good, "the reply that showed it is accepted once");
	good = send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 1, PEER_EPOCH + 1, 1) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_REPLY, 63, PEER_EPOCH + 1, now_ns()) ==
		       XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 1) &&
	       send_of_run(w, ESC_PROBE_OPCODE_REPLY, 64, PEER_EPOCH, old) == XDP_VERDICT_DROP &&
	       send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 2, PEER_EPOCH, 1) == XDP_VERDICT_DROP &&
	       is("records", probe_events(w), 0) &&
	       is("epoch", probe_get_peer(w, PEER).epoch, PEER_EPOCH + 1);
	tap_ok(good,
	       "its next run, still before that date, needs a reply as well, and ends the one "
	       "before it");
	good = send_of_run(w, ESC_PROBE_OPCODE_REQUEST, 1, future + 1, 1) == XDP_VERDICT_TX &&
	       is("epoch", probe_get_peer(w, PEER).epoch, future + 1);
	tap_ok(good, "a run after that date does not");
}

static void test_reply_ring_full(void)
{
	struct world_options options = {.ring_bytes = 4096, .rx_in_xdp_only = true};
	/* Each record has eight bytes of the kernel's before it. */
	const uint32_t most = 4096 / (sizeof(struct esc_probe_event) + 8);
	uint64_t counts[ESC_REASON_MAX];
	struct probe_plan plan = probe_plan_reply();
	struct probe_world w;
	uint32_t i, dropped = 0, kept;

	if (probe_world_open(&w, &options)) {
		tap_ok(false, "the programs load with a small ring");
		return;
	}
	probe_reset(&w);
	for (i = 0; i < 100; i++) {
		plan.sequence = i;
		dropped += send_plan(&w, &plan) == XDP_VERDICT_DROP;
	}
	kept = probe_events(&w);
	world_reasons(&w.world, counts, WORLD_XDP);
	tap_ok(dropped == 100 && kept + 1 >= most && kept <= most &&
		       counts[ESC_REASON_PROBE_RING_FULL] == 100 - kept,
	       "a full ring: %u replies recorded, the others counted as lost", kept);
	probe_world_close(&w);
}

static void test_warmers(struct probe_world *w)
{
	uint64_t counts[ESC_REASON_MAX];
	struct probe_plan plan = probe_plan_usual();
	struct esc_peer peer;
	bool good;

	probe_reset(w);
	plan.opcode = ESC_PROBE_OPCODE_WARMUP;
	good = is("verdict", send_plan(w, &plan), XDP_VERDICT_DROP) &&
	       is("again", send_plan(w, &plan), XDP_VERDICT_DROP) &&
	       probe_reason_is(w, WORLD_XDP, -1, 0) && is("records", probe_events(w), 0);
	peer = probe_get_peer(w, PEER);
	tap_ok(good && !peer.received_local_ns && !peer.epoch && !peer.requests.valid,
	       "a warm-up packet ends here and leaves nothing");
	plan.key = &keys[2];
	good = send_plan(w, &plan) == XDP_VERDICT_DROP &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_BAD_TAG, 1);
	tap_ok(good, "a forged warm-up packet is counted");
	plan = probe_plan_usual();
	probe_reset(w);
	good = send_plan(w, &plan) == XDP_VERDICT_TX;
	probe_events(w);
	plan.opcode = ESC_PROBE_OPCODE_WARMUP;
	good = good && send_plan(w, &plan) == XDP_VERDICT_DROP &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 1);
	plan.sequence++;
	good = good && send_plan(w, &plan) == XDP_VERDICT_DROP &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_REPLAY, 1);
	tap_ok(good, "a warm-up packet whose request was seen is counted as replayed, the next "
		     "one's is not");
	plan.epoch--;
	good = send_plan(w, &plan) == XDP_VERDICT_DROP && is("records", probe_events(w), 0);
	world_reasons(&w->world, counts, WORLD_XDP);
	tap_ok(good && counts[ESC_REASON_PROBE_STALE_EPOCH] == 1,
	       "a warm-up packet of an earlier run is counted");
	plan = probe_plan_usual();
	plan.opcode = ESC_PROBE_OPCODE_RECEIPT;
	probe_reset(w);
	good = send_plan(w, &plan) == XDP_VERDICT_DROP &&
	       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_VERSION, 1);
	tap_ok(good, "a receipt as long as a probe is none of ours and ends here");
}

/* A heartbeat that stops: the daemon was killed, and its programs stop replying. */
static void test_daemon_gone(struct probe_world *w)
{
	static const uint8_t opcodes[] = {ESC_PROBE_OPCODE_REQUEST, ESC_PROBE_OPCODE_REPLY,
					  ESC_PROBE_OPCODE_WARMUP};
	struct probe_plan plan = probe_plan_usual();
	struct esc_control word = {.heartbeat_local_ns = now_ns() - ESC_PROBE_HEARTBEAT_TIMEOUT_NS};
	bool good = true;

	probe_reset(w);
	world_set_control(&w->world, &word);
	for (int i = 0; i < 3; i++) {
		plan.opcode = opcodes[i];
		good = good && send_plan(w, &plan) == XDP_VERDICT_DROP &&
		       probe_reason_is(w, WORLD_XDP, ESC_REASON_PROBE_NO_DAEMON, i + 1);
	}
	tap_ok(good && is("records", probe_events(w), 0) &&
		       !probe_get_peer(w, PEER).received_local_ns,
	       "probes while the daemon is down end here, counted, without a reply");
	word.heartbeat_local_ns = now_ns() - ESC_PROBE_HEARTBEAT_TIMEOUT_NS / 2;
	world_set_control(&w->world, &word);
	plan = probe_plan_usual();
	tap_ok(send_plan(w, &plan) == XDP_VERDICT_TX && is("records", probe_events(w), 1),
	       "a daemon that was received recently is replied to for");
	world_set_control(&w->world, &(struct esc_control){0});
}

static void test_probe_port(void)
{
	struct world_options options = {.probe_port = 9319, .plane = 1, .rx_in_xdp_only = true};
	struct probe_plan plan = probe_plan_usual();
	struct frame request, reply, want;
	struct probe_responder by = {SELF,  OWN_EPOCH, ESC_PROBE_PLANE, &keys[0], own_view,
				     false, 0};
	struct probe_world w;
	bool good;

	if (probe_world_open(&w, &options)) {
		tap_ok(false, "the programs load with a probe port");
		return;
	}
	probe_reset(&w);
	plan.flags = ESC_PROBE_PLANE;
	plan.dport = 9319;
	probe_build(&request, &plan);
	good = probe_run(&w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX;
	model_reply(&want, &request, &reply, &by);
	tap_ok(good && probe_same(&reply, &want),
	       "replied to on the probe port, in the other mesh");
	plan.dport = 4791;
	plan.sequence++;
	tap_ok(send_plan(&w, &plan) == XDP_VERDICT_TX, "and on RoCE's beside it");
	plan.sequence++;
	plan.flags = 0;
	tap_ok(send_plan(&w, &plan) == XDP_VERDICT_DROP &&
		       probe_reason_is(&w, WORLD_XDP, ESC_REASON_PROBE_UNKNOWN_PEER, 1),
	       "a probe of the first mesh is not taken in the second");
	probe_reset(&w);
	plan.dport = 9320;
	tap_ok(send_plan(&w, &plan) == XDP_VERDICT_PASS && probe_reason_is(&w, WORLD_XDP, -1, 0),
	       "other ports are not looked at");
	plan.dport = 9319;
	plan.bad_magic = true;
	tap_ok(send_plan(&w, &plan) == XDP_VERDICT_PASS &&
		       probe_reason_is(&w, WORLD_XDP, ESC_REASON_PROBE_VERSION, 1),
	       "what is no probe on the probe port passes and is counted");
	plan.bad_magic = false;
	plan.opcode = 0x04;
	tap_ok(send_plan(&w, &plan) == XDP_VERDICT_PASS && !world_qp_count(&w.world) &&
		       probe_reason_is(&w, WORLD_XDP, ESC_REASON_PROBE_VERSION, 2),
	       "a RoCE opcode there is no queue pair's");
	probe_world_close(&w);
}

/* By another way: 128-bit products, rounded towards zero. */
static int64_t local_ns(uint64_t monotonic_ns, int64_t offset_ns, int64_t drift_ppb)
{
	return (int64_t)monotonic_ns + offset_ns +
	       (int64_t)((__int128)monotonic_ns * drift_ppb / 1000000000);
}

static void test_lab(int64_t offset_ns, int32_t drift_ppb)
{
	struct world_options options = {
		.lab_offset_ns = offset_ns, .lab_drift_ppb = drift_ppb, .rx_in_xdp_only = true};
	struct probe_plan plan = probe_plan_usual();
	struct frame request, reply;
	struct probe_world w;
	uint64_t before, after;
	int64_t t2, t3;
	uint32_t bth;
	bool good;

	if (probe_world_open(&w, &options)) {
		tap_ok(false, "the programs load with a clock of the lab's");
		return;
	}
	probe_reset(&w);
	probe_build(&request, &plan);
	bth = probe_bth(&request);
	before = now_ns();
	good = probe_run(&w, WORLD_XDP, &request, &reply, 0) == XDP_VERDICT_TX;
	after = now_ns();
	t2 = probe_get(&reply, bth + P_T2, 8);
	t3 = probe_get(&reply, bth + P_T3, 8);
	good = good && local_ns(before, offset_ns, drift_ppb) <= t2 && t2 <= t3 &&
	       t3 <= local_ns(after, offset_ns, drift_ppb);
	good = good && probe_events(&w) == 1 && is("t2 of the record", w.event.t2, t2) &&
	       probe_get_peer(&w, PEER).received_local_ns >= before &&
	       probe_get_peer(&w, PEER).received_local_ns <= after;
	good = good &&
	       is("t2", t2,
		  local_ns(probe_get_peer(&w, PEER).received_local_ns, offset_ns, drift_ppb));
	tap_ok(good, "local time set by %lld ns, %d ppb off: timestamps follow, ages do not",
	       (long long)offset_ns, drift_ppb);
	probe_world_close(&w);
}

/* Divisions by a second's nanoseconds that are left of the lab's clock; -1: cannot be seen. */
static int count_divisions(int fd, const char *name)
{
	static struct bpf_insn code[65536];
	struct bpf_prog_info info = {.xlated_prog_len = sizeof(code),
				     .xlated_prog_insns = (uintptr_t)code};
	uint32_t bytes = sizeof(info), i;
	int found = 0;

	if (bpf_obj_get_info_by_fd(fd, &info, &bytes))
		return -1;
	for (i = 0; i < info.xlated_prog_len / sizeof(*code); i++)
		found += (BPF_OP(code[i].code) == BPF_DIV || BPF_OP(code[i].code) == BPF_MOD) &&
			 BPF_CLASS(code[i].code) == BPF_ALU64 && code[i].imm == 1000000000;
	printf("# %s: %u instructions verified, %zu left, %d divisions\n", name,
	       info.verified_insns, info.xlated_prog_len / sizeof(*code), found);
	return found;
}

/* What is not configured must not be there. */
static void test_lab_is_gone(const struct probe_world *plain)
{
	struct world_options options = {.lab_drift_ppb = 1};
	struct world skewed;
	int without = 0, with = 0;

	if (world_open(&skewed, &options)) {
		tap_ok(false, "the programs load with a clock of the lab's");
		return;
	}
	without += count_divisions(plain->world.programs[WORLD_XDP], "XDP");
	without += count_divisions(plain->world.programs[WORLD_TC_OUT], "tc egress");
	with += count_divisions(skewed.programs[WORLD_XDP], "XDP with the lab's clock");
	with += count_divisions(skewed.programs[WORLD_TC_OUT], "tc egress with the lab's clock");
	tap_ok(!without && with > 0, "without a clock of the lab's nothing of it is left");
	world_close(&skewed);
}

static void test_received_in_tc(void)
{
	struct probe_plan plan = probe_plan_usual();
	struct frame request, out;
	struct probe_world w;
	bool good;

	if (probe_world_open(&w, &(struct world_options){0})) {
		tap_ok(false, "the programs load where tc receives");
		return;
	}
	probe_reset(&w);
	probe_build(&request, &plan);
	good = probe_run(&w, WORLD_TC_IN, &request, &out, 0) == -1 && probe_same(&out, &request) &&
	       probe_reason_is(&w, WORLD_TC_IN, ESC_REASON_PROBE_OFF, 1) && !probe_events(&w);
	tap_ok(good, "where tc receives, a probe passes without a reply and is counted");
	probe_world_close(&w);
}

static void test_off(struct probe_world *w)
{
	struct probe_plan plan = probe_plan_usual();
	bool good;

	probe_reset(w);
	world_set_control(&w->world, &(struct esc_control){.flags = ESC_CONTROL_OFF});
	good = send_plan(w, &plan) == XDP_VERDICT_PASS && probe_reason_is(w, WORLD_XDP, -1, 0);
	world_set_control(&w->world, &(struct esc_control){0});
	tap_ok(good && send_plan(w, &plan) == XDP_VERDICT_TX,
	       "the kill switch leaves probes alone");
}

int main(void)
{
	struct probe_world w;
	int ip, shape;

	if (probe_world_open(&w, &(struct world_options){.port = 5, .rx_in_xdp_only = true}))
		return tap_bail("the programs do not load");
	for (ip = 4; ip <= 6; ip += 2)
		for (shape = 0; shape < FRAME_SHAPES; shape++)
			test_reply(&w, ip, shape);
	test_reply_refusals(&w);
	test_reply_windows(&w);
	test_date_set_back(&w);
	test_reply_ring_full();
	test_warmers(&w);
	test_daemon_gone(&w);
	test_probe_port();
	test_lab(123456789012345, 0);
	test_lab(0, 50000);
	test_lab(-987654321, -50001);
	test_lab(7, 999999999);
	test_lab_is_gone(&w);
	test_received_in_tc();
	test_off(&w);
	probe_world_close(&w);
	return tap_end();
}
