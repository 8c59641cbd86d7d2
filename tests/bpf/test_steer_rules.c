// SPDX-License-Identifier: BSD-2-Clause
/*
 * When a rule takes effect, and what ends it: gaps, message starts, force, the
 * heartbeat, the switches, the map. Times are far in the past or in the future,
 * or waited for; none is measured.
 */
#define TAP_PLAN 54

#include <unistd.h>

#include "steer_model.h"
#include "tests/lib/tap.h"

#define SPORT 50000 /* of frame_build() */
#define PATH 51000
#define OTHER 52000
#define FAR_NS 3600000000000ull

/* Opcodes, RC. */
#define SEND_FIRST 0x00
#define SEND_MIDDLE 0x01
#define SEND_LAST 0x02
#define SEND_ONLY 0x04
#define READ_REQUEST 0x0c
#define ACKNOWLEDGE 0x11
#define RESPONSE_MIDDLE 0x0e
#define RESPONSE_FIRST 0x0d
#define CNP 0x81

static struct world w;
static uint32_t generation = 1, order;
static struct frame last; /* as it left */

static struct frame_plan plan_of(uint8_t opcode)
{
	static const uint8_t extensions[256] = {
		[READ_REQUEST] = 16, [ACKNOWLEDGE] = 4, [RESPONSE_FIRST] = 4, [CNP] = 16};
	bool empty = opcode == READ_REQUEST || opcode == ACKNOWLEDGE || opcode == CNP;

	return (struct frame_plan){.opcode = opcode,
				   .extension = extensions[opcode],
				   .payload = empty ? 0 : 1024,
				   .qpn = 7,
				   .read_bytes = opcode == READ_REQUEST ? 1024 : 0};
}

/* Sends a frame; the source port that it left with, 0 for a frame that is not right for it. */
static uint16_t send_frame(struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->bytes,
		    .data_out = last.data, .data_size_out = sizeof(last.data), .repeat = 1);
	struct frame must = *f;
	uint16_t sport;

	if (bpf_prog_test_run_opts(w.programs[WORLD_TC_OUT], &o) || o.retval != (uint32_t)-1)
		return 0;
	last.bytes = o.data_size_out;
	sport = frame_get16(&last, frame_udp_offset(&last));
	frame_resteer(&must, sport, CHECK_NONE);
	return must.bytes == last.bytes && !memcmp(must.data, last.data, last.bytes) ? sport : 0;
}

static uint32_t psn; /* of the next packet */

static uint16_t send_opcode(uint8_t opcode)
{
	struct frame_plan plan = plan_of(opcode);
	struct frame f;

	plan.psn = psn++;
	frame_build(&f, &plan);
	frame_seal(&f, CHECK_NONE);
	return send_frame(&f);
}

static struct esc_qp_key key_of(void)
{
	struct frame_plan plan = plan_of(SEND_ONLY);
	struct frame f;

	frame_build(&f, &plan);
	return frame_key(&f, w.port);
}

static struct esc_qp_steer state(void)
{
	struct esc_qp_key key = key_of();
	struct esc_qp qp = {0};

	world_qp(&w, &key, &qp);
	return qp.steer;
}

static void give(struct esc_steer steer)
{
	struct esc_qp_key key = key_of();

	steer.number = ++order;
	steer_rule(&w, &key, &steer);
	steer_control(&w, ++generation);
}

/* Waits for a gap that does not come, unless a test reports otherwise. */
static struct esc_steer waiting(uint16_t sport)
{
	return (struct esc_steer){.sport = sport,
				  .flowlet_gap_ns = FAR_NS,
				  .start_local_ns = steer_now_ns() + FAR_NS,
				  .force_local_ns = steer_now_ns() + FAR_NS};
}

static struct esc_steer at_once(uint16_t sport)
{
	return (struct esc_steer){.sport = sport};
}

static void anew(void)
{
	steer_reset(&w);
	steer_control(&w, ++generation);
}

static void is_port(uint16_t got, uint16_t want, const char *what)
{
	if (!tap_ok(got == want, "%s", what))
		printf("# left with port %u, must be %u\n", got, want);
}

static void is_moment(enum esc_steer_trigger want, const char *what)
{
	struct esc_qp_steer s = state();

	if (!tap_ok(s.trigger == want && s.applied == order, "%s: the entry reports it", what))
		printf("# trigger %u, must be %u; done %u, must be %u\n", s.trigger, want,
		       s.applied, order);
}

static void test_moments(void)
{
	struct esc_steer steer;

	anew();
	is_port(send_opcode(SEND_ONLY), SPORT, "without a rule a packet leaves unchanged");
	give(waiting(PATH));
	is_port(send_opcode(SEND_ONLY), SPORT, "a rule waits while there is no gap");
	tap_ok(state().flags & ESC_QP_STEER_PENDING && state().rule == order &&
		       state().applied != order,
	       "and the entry reports that it waits");
	steer = waiting(PATH);
	steer.flowlet_gap_ns = 1000000;
	give(steer);
	is_port(send_opcode(SEND_MIDDLE), SPORT, "the first packet after a rule ends no gap");
	usleep(2000);
	is_port(send_opcode(SEND_MIDDLE), PATH, "a packet behind a gap of `hold` moves");
	is_moment(ESC_STEER_TRIGGER_IDLE, "after an idle gap");

	steer = waiting(OTHER);
	steer.start_local_ns = 0;
	give(steer);
	is_port(send_opcode(SEND_MIDDLE), PATH, "late, inside a message: the old path stays");
	is_port(send_opcode(SEND_LAST), PATH, "and at its end");
	is_port(send_opcode(SEND_FIRST), OTHER, "late, at the start of a message: it moves");
	is_moment(ESC_STEER_TRIGGER_START, "at a message's start");

	steer = waiting(PATH);
	steer.force_local_ns = 0;
	give(steer);
	is_port(send_opcode(SEND_MIDDLE), PATH, "too late: it moves inside a message");
	is_moment(ESC_STEER_TRIGGER_FORCED, "forced");
	give(at_once(0));
	is_port(send_opcode(SEND_MIDDLE), SPORT, "a rule for its own port takes it back");
	tap_ok(!(state().flags & ESC_QP_STEER_PENDING) && state().packets == 5,
	       "the entry counts the packets that left on a path of ours");
}

/* The peer's replies came to @reverse_qpn, and stand for all before @next. */
static void acknowledge(uint32_t reverse_qpn, uint32_t next, uint8_t flags)
{
	struct esc_qp_key there = key_of(), back = {.src = there.dst, .dst = there.src};
	struct esc_qp qp = {.responses = {.next = next & 0xffffff, .flags = flags}};

	back.dest_qpn = reverse_qpn;
	back.direction = ESC_DIRECTION_RX;
	back.port = there.port;
	bpf_map_update_elem(bpf_map__fd(w.kernel->maps.qps), &back, &qp, BPF_ANY);
}

/* All before a request was acknowledged: it may take any path. */
static void test_drained(void)
{
	struct esc_steer steer = waiting(PATH);

	anew();
	send_opcode(SEND_ONLY);
	steer.flags = ESC_STEER_REVERSE;
	steer.reverse_qpn = 77;
	give(steer);
	is_port(send_opcode(SEND_ONLY), SPORT, "nothing is known of the replies: it waits");
	acknowledge(77, psn, 0);
	is_port(send_opcode(SEND_ONLY), SPORT, "an entry without a reply shows nothing");
	acknowledge(77, psn - 1, ESC_PSN_VALID);
	is_port(send_opcode(SEND_ONLY), SPORT, "one packet is not acknowledged: it waits");
	acknowledge(77, psn, ESC_PSN_VALID);
	is_port(send_opcode(ACKNOWLEDGE), SPORT, "a reply of ours is no request");
	acknowledge(77, --psn, ESC_PSN_VALID);
	is_port(send_opcode(SEND_MIDDLE), PATH, "all is acknowledged: the next request moves");
	is_moment(ESC_STEER_TRIGGER_DRAINED, "drained");

	anew();
	send_opcode(SEND_FIRST);
	send_opcode(SEND_MIDDLE);
	give(steer);
	psn -= 2;
	acknowledge(77, psn, ESC_PSN_VALID);
	is_port(send_opcode(SEND_MIDDLE), SPORT, "a repeated packet has others of it under way");
	psn += 1;
	steer.flags = 0;
	give(steer);
	acknowledge(77, psn, ESC_PSN_VALID);
	is_port(send_opcode(SEND_MIDDLE), SPORT, "without ESC_STEER_BACK replies do not count");
}

/* What may lie between the packets of a message, and what cannot. */
static void test_starts(void)
{
	static const struct {
		const char *name;
		uint8_t before, opcode;
		bool moves;
	} cases[] = {
		{"an ACK between two messages", SEND_LAST, ACKNOWLEDGE, true},
		{"an ACK inside a message", SEND_FIRST, ACKNOWLEDGE, false},
		{"a READ request", SEND_LAST, READ_REQUEST, true},
		{"the first packet of a READ's reply", RESPONSE_FIRST, RESPONSE_FIRST, true},
		{"the middle of a READ's reply", RESPONSE_FIRST, RESPONSE_MIDDLE, false},
		{"a CNP between messages", SEND_ONLY, CNP, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct esc_steer steer = waiting(PATH);

		anew();
		send_opcode(cases[i].before);
		steer.start_local_ns = 0;
		give(steer);
		tap_ok(send_opcode(cases[i].opcode) == (cases[i].moves ? PATH : SPORT),
		       "%s is %sa start", cases[i].name, cases[i].moves ? "" : "not ");
	}
}

static void beat(uint64_t heartbeat_local_ns)
{
	struct esc_control word = {
		.flags = ESC_CONTROL_STEER,
		.heartbeat_local_ns = heartbeat_local_ns,
		.steer_generation = generation,
		.steer_ports = 1u << w.port,
	};

	world_set_control(&w, &word);
	usleep(12000); /* a jiffy is 10 ms at most: the clock is read anew */
}

static void test_heartbeat(void)
{
	anew();
	give(at_once(PATH));
	is_port(send_opcode(SEND_ONLY), PATH, "steered");
	beat(steer_now_ns() - ESC_HEARTBEAT_TIMEOUT_NS - 1000000);
	is_port(send_opcode(SEND_ONLY), SPORT, "2 s without a heartbeat: unchanged");
	tap_ok(state().trigger == ESC_STEER_TRIGGER_LAPSED && state().flags == ESC_QP_STEER_LAPSED,
	       "the entry reports it");
	beat(steer_now_ns() + FAR_NS);
	is_port(send_opcode(SEND_ONLY), SPORT, "the heartbeat returns: the rule stays void");
	steer_control(&w, ++generation);
	is_port(send_opcode(SEND_ONLY), SPORT, "also when others change");
	give(at_once(OTHER));
	is_port(send_opcode(SEND_ONLY), OTHER, "a new order counts");
	give(waiting(PATH));
	send_opcode(SEND_ONLY);
	beat(1);
	is_port(send_opcode(SEND_ONLY), SPORT, "no heartbeat while a rule waits: unchanged");
}

static void control(uint32_t flags, uint16_t ports)
{
	struct esc_control word = {
		.flags = flags,
		.heartbeat_local_ns = steer_now_ns() + FAR_NS,
		.steer_generation = generation,
		.steer_ports = ports,
	};

	world_set_control(&w, &word);
}

static void test_switches(void)
{
	struct esc_qp_key key = key_of();

	anew();
	give(at_once(PATH));
	is_port(send_opcode(SEND_ONLY), PATH, "steered");
	control(0, 0xffff);
	is_port(send_opcode(SEND_ONLY), SPORT, "mode observe: unchanged");
	control(ESC_CONTROL_STEER, ~(1u << w.port));
	is_port(send_opcode(SEND_ONLY), SPORT, "another interface's mode: unchanged");
	control(ESC_CONTROL_STEER | ESC_CONTROL_OFF, 0xffff);
	is_port(send_opcode(SEND_ONLY), SPORT, "the kill switch: unchanged");
	control(ESC_CONTROL_STEER, 1u << w.port);
	is_port(send_opcode(SEND_ONLY), PATH, "steered again");
	bpf_map_delete_elem(bpf_map__fd(w.kernel->maps.steers), &key);
	is_port(send_opcode(SEND_ONLY), PATH, "the map is not read for each packet");
	steer_control(&w, ++generation);
	is_port(send_opcode(SEND_ONLY), SPORT, "the map changed: the rule ends");
	tap_ok(!state().rule && !state().sport && !state().flags, "the entry has dropped it");
	give(at_once(PATH));
	send_opcode(SEND_ONLY);
	/* The low half of the generation wraps: a steered queue pair compares all of it. */
	bpf_map_delete_elem(bpf_map__fd(w.kernel->maps.steers), &key);
	generation += 0x10000;
	steer_control(&w, generation);
	is_port(send_opcode(SEND_ONLY), SPORT, "65,536 changes later the rule ends as well");
}

static void test_kinds(void)
{
	static const uint8_t opcodes[] = {SEND_FIRST, SEND_MIDDLE, ACKNOWLEDGE, READ_REQUEST, CNP};
	LIBBPF_OPTS(bpf_test_run_opts, o, .repeat = 1);
	struct frame_plan plan = plan_of(SEND_ONLY);
	struct __sk_buff context = {.gso_size = 1000, .gso_segs = 2};
	static struct frame f, out;
	uint64_t refused;

	anew();
	give(at_once(PATH));
	for (size_t i = 0; i < sizeof(opcodes); i++)
		tap_ok(send_opcode(opcodes[i]) == PATH, "opcode 0x%02x takes the queue pair's path",
		       opcodes[i]);
	frame_build(&f, &plan);
	o.data_in = f.data;
	o.data_size_in = f.bytes;
	o.data_out = out.data;
	o.data_size_out = sizeof(out.data);
	o.ctx_in = &context;
	o.ctx_size_in = sizeof(context);
	if (bpf_prog_test_run_opts(w.programs[WORLD_TC_OUT], &o))
		tap_skip("a packet that is to be cut up leaves unchanged",
			 "the kernel's test run takes no GSO size");
	else
		tap_ok(!memcmp(out.data, f.data, f.bytes),
		       "a packet that is to be cut up leaves unchanged");
	refused = state().refused;
	plan.payload = 1022;
	frame_build(&f, &plan);
	frame_seal(&f, CHECK_NONE);
	tap_ok(send_frame(&f) == SPORT && state().refused == refused + 1,
	       "a datagram that is not whole words leaves unchanged, and is counted");
	plan.payload = 1024;
	plan.sport = PATH;
	frame_build(&f, &plan);
	frame_seal(&f, CHECK_NONE);
	is_port(send_frame(&f), PATH, "a packet that has the port already stays as it is");
}

static void test_label(void)
{
	struct esc_steer steer = {
		.number = ++order, .flow_label = 0xabcde, .flags = ESC_STEER_LABEL};
	struct frame_plan plan = plan_of(SEND_ONLY);
	struct esc_qp_key key;
	struct frame f, must;

	anew();
	plan.ip = 6;
	frame_build(&f, &plan);
	f.data[14] = 0x6f; /* a traffic class that stays */
	f.data[15] = 0xf0;
	frame_seal(&f, CHECK_FULL);
	key = frame_key(&f, w.port);
	steer_rule(&w, &key, &steer);
	steer_control(&w, ++generation);
	send_frame(&f);
	must = f;
	must.data[15] |= 0x0a;
	must.data[16] = 0xbc;
	must.data[17] = 0xde;
	tap_ok(!memcmp(last.data, must.data, must.bytes),
	       "IPv6: the flow label is the order's, and nothing else is another");
	steer.number = ++order;
	steer.sport = PATH;
	steer.flow_label = 1;
	steer_rule(&w, &key, &steer);
	steer_control(&w, ++generation);
	send_frame(&f);
	must = f;
	must.data[15] &= 0xf0;
	must.data[17] = 1;
	frame_resteer(&must, PATH, CHECK_FULL);
	tap_ok(!memcmp(last.data, must.data, must.bytes), "IPv6: label and port together");
}

int main(void)
{
	if (world_open(&w, &(struct world_options){.port = 2}))
		return tap_bail("the programs do not load");
	test_moments();
	test_starts();
	test_drained();
	test_heartbeat();
	test_switches();
	test_kinds();
	test_label();
	world_close(&w);
	return tap_end();
}
