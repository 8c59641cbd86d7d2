// SPDX-License-Identifier: BSD-2-Clause
/*
 * NIC failover, packet by packet: every packet of the captures and random ones go into UDP and come
 * out as they were; which of the four ways is taken; and all that must be left alone, refused by
 * name, or not believed.
 * `test_nic SEED` repeats a run.
 */
#define TAP_PLAN 63

#include <glob.h>

#include "nic_world.h"

#define RANDOM_PACKETS 4000
#define TAKEN 1500 /* longest IP packet that is tried */

static uint64_t peer_dead_ns(const struct esc_address *address)
{
	struct esc_nic_peer peer = {};

	bpf_map_lookup_elem(map_fd(nic_peers), address, &peer);
	return peer.dead_ktime_ns;
}

static uint64_t reason_count(uint32_t reason)
{
	struct esc_reason_count values[WORLD_CPUS_MAX];
	uint64_t sum = 0;

	bpf_map_lookup_elem(map_fd(reasons), &reason, values);
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		sum += values[cpu].tc_egress + values[cpu].tc_ingress;
	return sum;
}

/* --- what it must be, done the long way --- */

/* The IP packet without Ethernet's padding, in UDP between the NICs that are named. */
static void wrap(struct frame *f, const char *from, const char *to, uint16_t port)
{
	bool six = frame_is_ipv6(f);
	uint32_t head = six ? 48 : 28, udp = 14 + head - 8;
	uint32_t inner = six ? 40 + frame_get16(f, 18) : frame_get16(f, 16);
	uint8_t tos = six ? frame_get16(f, 14) >> 4 : f->data[15];
	uint16_t sport = frame_get16(f, frame_udp_offset(f));
	struct esc_address a = address_of(from), b = address_of(to);
	uint8_t zeros[48] = {0};
	uint32_t sum = 0;

	if (six)
		memcpy(zeros, f->data + 14, 4);
	frame_insert(f, 14, zeros, head);
	if (six) {
		frame_put16(f, 18, inner + 8);
		f->data[20] = 17;
		f->data[21] = 64;
		memcpy(f->data + 22, a.bytes, 16);
		memcpy(f->data + 38, b.bytes, 16);
	} else {
		f->data[14] = 0x45;
		f->data[15] = tos;
		frame_put16(f, 16, inner + 28);
		frame_put16(f, 20, 0x4000);
		f->data[22] = 64;
		f->data[23] = 17;
		memcpy(f->data + 26, a.bytes + 12, 4);
		memcpy(f->data + 30, b.bytes + 12, 4);
		sum = sum_bytes(f->data + 14, 20);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		frame_put16(f, 24, ~sum);
	}
	frame_put16(f, udp, sport);
	frame_put16(f, udp + 2, port);
	frame_put16(f, udp + 4, inner + 8);
}

/* A packet as it leaves its sender comes to the receiver: who is who changes sides. */
static void set_receiver(const struct frame *inner, bool four)
{
	struct esc_address src, dst, a;

	addresses_of(inner, &src, &dst);
	clear_map(map_fd(nic_local), 16);
	clear_map(map_fd(nic_peers), 16);
	set_home(&dst, four ? "10.8.0.1" : "fd08::1", four ? "10.8.0.2" : "fd08::2", ESC_NIC_PAIRED,
		 9000);
	a = address_of(four ? "10.8.0.2" : "fd08::2");
	set_home(&a, four ? "0.0.0.0" : "::", four ? "0.0.0.0" : "::", 0, 9000);
	set_peer(&src, four ? "10.9.0.1" : "fd09::1", four ? "10.9.0.2" : "fd09::2", HOME_ID, 0);
	a = address_of(four ? "10.9.0.2" : "fd09::2");
	set_peer(&a, NULL, NULL, HOME_ID, 0);
}

/* --- tests --- */

struct tally {
	uint32_t packets, wrapped, unwrapped;
};

static void there_and_back(const struct frame *f, struct tally *tally)
{
	static struct frame must, got, back;
	bool four = !frame_is_ipv6(f);
	struct esc_address src, dst;

	addresses_of(f, &src, &dst);
	set_ends(&src, &dst, four, ESC_NIC_FIRST_DOWN, 9000);
	must = *f;
	wrap(&must, four ? "10.9.0.2" : "fd09::2", four ? "10.8.0.2" : "fd08::2", PORT);
	tally->packets++;
	if (run(out_fd, f, &got) == REDIRECT && same(&got, &must))
		tally->wrapped++;
	set_receiver(f, four);
	must = *f;
	memcpy(must.data, deliver_mac, 6);
	if (run(in_fd, &got, &back) == REDIRECT && same(&back, &must) && peer_dead_ns(&src))
		tally->unwrapped++;
}

static void test_captures(void)
{
	struct tally tally = {0};
	struct frame f;
	glob_t found;

	if (glob("tests/vectors/*.pcap", 0, NULL, &found)) {
		tap_ok(false, "captures in tests/vectors: run from the top of the source");
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *capture = fopen(found.gl_pathv[i], "r");

		while (capture && frame_read(capture, &f)) {
			uint32_t total =
				frame_is_ipv6(&f) ? 40 + frame_get16(&f, 18) : frame_get16(&f, 16);
			f.bytes = 14 + total; /* Ethernet's padding is of its own link */
			there_and_back(&f, &tally);
		}
		if (capture)
			fclose(capture);
	}
	globfree(&found);
	tap_ok(tally.packets && tally.wrapped == tally.packets,
	       "captures: %u of %u packets leave in UDP, bit by bit as they must", tally.wrapped,
	       tally.packets);
	tap_ok(tally.unwrapped == tally.packets,
	       "captures: %u come out as they were, and their sender's NIC is known to be dead",
	       tally.unwrapped);
}

static void test_random(uint64_t seed)
{
	struct tally tally = {0};
	struct frame f;

	steer_random_state = seed;
	while (tally.packets < RANDOM_PACKETS) {
		struct frame_plan plan = {
			.ip = steer_below(2) ? 6 : 4,
			.opcode = steer_below(0x12),
			.qpn = steer_random() & 0xffffff,
			.psn = steer_random() & 0xffffff,
			.payload = steer_below(TAKEN - 200) & ~3u,
			.extension = 16,
			.sport = 1 + steer_below(65535),
			.ecn = steer_below(4),
			.source_host = 1 + steer_below(200),
		};

		frame_build(&f, &plan);
		there_and_back(&f, &tally);
	}
	tap_ok(tally.wrapped == tally.packets && tally.unwrapped == tally.packets,
	       "random packets of every opcode, length and ECN: %u of %u go in, %u come out",
	       tally.wrapped, tally.packets, tally.unwrapped);
}

/* What is known of the ends -> the way. Outer addresses end in 1 or 2. */
static const struct way_case {
	const char *name;
	uint16_t flags;
	bool peer_first, peer_second;
	int usable;   /* -1: no entry */
	int from, to; /* 0: not wrapped */
	uint16_t port;
	bool held;
} way_cases[] = {
	{"nothing is wrong", 0, false, false, -1, 0, 0, 0, false},
	{"our NIC is dead", ESC_NIC_FIRST_DOWN, false, false, -1, 2, 2, PORT, false},
	{"the peer's NIC is dead", 0, true, false, -1, 2, 2, PORT + 1, false},
	{"crossed: our first, the peer's second", ESC_NIC_FIRST_DOWN, false, true, -1, 2, 1, PORT,
	 false},
	{"crossed: our second, the peer's first", ESC_NIC_SECOND_DOWN, true, false, -1, 1, 2,
	 PORT + 1, false},
	{"both firsts", ESC_NIC_FIRST_DOWN, true, false, -1, 2, 2, PORT, false},
	{"both of ours", ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN, false, false, -1, 0, 0, 0, true},
	{"both of the peer's", 0, true, true, -1, 0, 0, 0, false},
	{"probes: direct is silent", 0, false, false, 0xe, 2, 2, PORT + 1, false},
	{"probes: only first to second answers", 0, false, false, 0x8, 1, 2, PORT + 1, false},
	{"probes: nothing answers", 0, false, false, 0x0, 0, 0, 0, false},
	{"probes say a way that the carrier speaks against", ESC_NIC_FIRST_DOWN, false, false, 0x9,
	 2, 2, PORT, false},
	{"probes: of the ways left one answers", ESC_NIC_FIRST_DOWN, false, false, 0x5, 2, 1, PORT,
	 false},
};

static void run_way(const struct way_case *c, bool four)
{
	struct frame_plan plan = {
		.ip = four ? 4 : 6, .opcode = 0x04, .payload = 256, .source_host = 3};
	char from[16], to[16];
	struct frame f, got, must;
	struct esc_nic_route_key key;
	struct esc_address a;
	int verdict;

	frame_build(&f, &plan);
	addresses_of(&f, &key.src, &key.dst);
	set_ends(&key.src, &key.dst, four, c->flags, 9000);
	a = address_of(four ? "10.8.0.2" : "fd08::2");
	set_peer(&a, NULL, NULL, HOME_ID, c->peer_second ? now_ns() + 1000000000 : 0);
	if (c->peer_first)
		set_peer(&key.dst, four ? "10.8.0.1" : "fd08::1", four ? "10.8.0.2" : "fd08::2",
			 HOME_ID, now_ns() + 1000000000);
	if (c->usable >= 0) {
		struct esc_nic_routes ways = {.usable = c->usable};

		bpf_map_update_elem(map_fd(nic_routes), &key, &ways, BPF_ANY);
	}
	must = f;
	snprintf(from, sizeof(from), four ? "10.9.0.%d" : "fd09::%d", c->from);
	snprintf(to, sizeof(to), four ? "10.8.0.%d" : "fd08::%d", c->to);
	if (c->from)
		wrap(&must, from, to, c->port);
	verdict = run(out_fd, &f, &got);
	tap_ok(same(&got, &must) && verdict == (c->from || c->held ? REDIRECT : NEXT),
	       "IPv%d, %s: %s", four ? 4 : 6, c->name,
	       c->from	 ? "the way is right"
	       : c->held ? "held"
			 : "left as it came");
}

static void test_left_alone(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 1060, .source_host = 3};
	struct esc_address src, dst;
	struct frame f, got;
	uint64_t before;

	frame_build(&f, &plan);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 9000);
	set_word(ESC_NIC_ON, 1, -3000000000ll);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "2 s after the daemon: as it came");
	set_word(ESC_NIC_ON, 1, FRESH);
	set_control(ESC_CONTROL_OFF);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "the kill switch: as it came");
	set_control(0);
	set_word(0, 1, FRESH);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "not configured: as it came");
	set_word(ESC_NIC_ON, 0, FRESH);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "nothing to attend to: as it came");
	set_word(ESC_NIC_ON, 1, FRESH);
	before = reason_count(ESC_REASON_NIC_MTU);
	set_ends(&src, &dst, true, 0, 1100);
	set_peer(&dst, "10.8.0.1", "10.8.0.2", HOME_ID, now_ns() + 1000000000);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got) &&
		       reason_count(ESC_REASON_NIC_MTU) == before + 1,
	       "too long for the outer headers: as it came, and counted as nic_mtu");
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 1100);
	tap_ok(run(out_fd, &f, &got) == REDIRECT && same(&f, &got) &&
		       reason_count(ESC_REASON_NIC_MTU) == before + 2,
	       "the same on a dead NIC: held, and counted as nic_mtu");
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 9000);
	plan.opcode = ESC_PROBE_OPCODE_PATH_REQUEST;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "a probe of the mesh: as it came");
	plan.opcode = 4;
	plan.dport = 4790;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "another UDP port: as it came");
	plan.dport = 0;
	plan.source_host = 9;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got),
	       "an address of nobody's: as it came");
}

static void test_plain(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct esc_address src, dst;
	struct frame f, got;

	frame_build(&f, &plan);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN | ESC_NIC_PLAIN, 9000);
	tap_ok(run(out_fd, &f, &got) == REDIRECT && same(&f, &got),
	       "mode plain: by the other NIC, as it came");
	set_ends(&src, &dst, true, ESC_NIC_PLAIN, 9000);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got),
	       "mode plain, nothing wrong: left alone");
}

/* Refused on its way in: the verdict, the reason, and nothing learned. */
static void refuse(const char *name, const struct frame *f, int verdict, uint32_t reason)
{
	struct esc_address liar = address_of("10.1.0.3");
	uint64_t before = reason_count(reason);
	struct frame got;

	tap_ok(run(in_fd, f, &got) == verdict && reason_count(reason) == before + 1 &&
		       (verdict == SHOT || same(f, &got)) && !peer_dead_ns(&liar),
	       "in: %s", name);
}

static void test_refused(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame inner, f;
	struct esc_address a;

	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	f = inner;
	wrap(&f, "10.7.7.7", "10.8.0.2", PORT);
	refuse("from nobody we know: passed on", &f, NEXT, ESC_REASON_NIC_UNKNOWN_PEER);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.9", PORT);
	refuse("to no NIC of ours: passed on", &f, NEXT, ESC_REASON_NIC_NOT_OURS);
	a = address_of("10.6.0.6");
	set_peer(&a, NULL, NULL, OTHER_ID, 0);
	f = inner;
	wrap(&f, "10.6.0.6", "10.8.0.2", PORT);
	refuse("one member with another's address inside: ends here", &f, SHOT,
	       ESC_REASON_NIC_INNER);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	frame_put16(&f, 14 + 28 + 18, 0x0b0b); /* inner destination */
	refuse("for an address that is not ours inside: ends here", &f, SHOT, ESC_REASON_NIC_INNER);
	f = inner;
	frame_put16(&f, 36, 53);
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	refuse("no RoCEv2 inside: ends here", &f, SHOT, ESC_REASON_NIC_INNER);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	refuse("two deep: ends here", &f, SHOT, ESC_REASON_NIC_INNER);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	frame_put16(&f, 14 + 28 + 2, frame_get16(&f, 14 + 28 + 2) - 4);
	refuse("shorter inside than outside: ends here", &f, SHOT, ESC_REASON_NIC_INNER);
}

static void test_cut(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 8, .source_host = 3};
	struct frame inner, whole, f, got;
	uint32_t cut, taken = 0, run_count = 0;

	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	whole = inner;
	wrap(&whole, "10.9.0.2", "10.8.0.2", PORT);
	for (cut = 14; cut < 14 + 28 + 40; cut++) {
		f = whole;
		f.bytes = cut;
		run_count++;
		taken += run(in_fd, &f, &got) == REDIRECT;
	}
	tap_ok(!taken, "in: cut at every byte of its headers, %u times: never taken", run_count);
}

static void test_learning(void)
{
	struct frame_plan plan = {
		.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3, .ecn = 2};
	struct frame inner, f, got;
	struct esc_address src, dst;

	frame_build(&inner, &plan);
	addresses_of(&inner, &src, &dst);
	set_receiver(&inner, true);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT + 1);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && !peer_dead_ns(&src),
	       "in: one that only follows says nothing of its sender's NIC");
	f.data[15] |= 3;
	tap_ok(run(in_fd, &f, &got) == REDIRECT && (got.data[15] & 3) == 3,
	       "in: congestion that the outer header met is told inside");
}

/* A probe in @f, from @from to @to. */
static void build_probe(struct frame *f, const char *from, const char *to, uint8_t kind,
			const char *subject)
{
	struct frame_plan plan = {.ip = 4, .payload = 24, .dport = PORT + 2, .sport = 40000};
	struct esc_nic_probe probe = {
		.magic = htobe32(ESC_NIC_MAGIC),
		.version = ESC_NIC_VERSION,
		.kind = kind,
		.cookie = 0x1122334455667788,
	};
	struct esc_address a = address_of(from), b = address_of(to);

	if (subject) {
		probe.flags = ESC_NIC_REPORTS_DEAD;
		probe.subject = address_of(subject);
	}
	frame_build(f, &plan);
	memcpy(f->data + 26, a.bytes + 12, 4);
	memcpy(f->data + 30, b.bytes + 12, 4);
	memcpy(f->data + 42, &probe, sizeof(probe));
	f->bytes = 42 + sizeof(probe);
	frame_put16(f, 16, 28 + sizeof(probe));
	frame_put16(f, 38, 8 + sizeof(probe));
}

static void test_probes(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame inner, f, got, must;
	struct esc_address src, dst, other = address_of("10.6.0.6");

	frame_build(&inner, &plan);
	addresses_of(&inner, &src, &dst);
	set_receiver(&inner, true);
	set_peer(&other, NULL, NULL, OTHER_ID, 0);
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	build_probe(&must, "10.8.0.2", "10.9.0.2", ESC_NIC_REPLY, NULL);
	memcpy(must.data, f.data + 6, 6);
	memcpy(must.data + 6, f.data, 6);
	frame_put16(&must, 34, PORT + 2);
	frame_put16(&must, 36, 40000);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && same(&got, &must) && !peer_dead_ns(&src),
	       "a probe goes back as long as it was, and only its kind is another");
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3");
	tap_ok(run(in_fd, &f, &got) == REDIRECT && peer_dead_ns(&src) > now_ns(),
	       "its word about its own NIC is believed");
	set_peer(&src, "10.9.0.1", "10.9.0.2", HOME_ID, 0);
	build_probe(&f, "10.6.0.6", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3");
	tap_ok(run(in_fd, &f, &got) == REDIRECT && !peer_dead_ns(&src),
	       "and about another member's it is not");
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REPLY, NULL);
	refuse("a reply to the port of probes: passed on, not answered", &f, NEXT,
	       ESC_REASON_NIC_PROBE);
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	f.bytes -= 4;
	refuse("a probe that is cut: passed on", &f, NEXT, ESC_REASON_NIC_PROBE);
	build_probe(&f, "10.7.7.7", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	refuse("a probe of nobody: passed on, not answered", &f, NEXT, ESC_REASON_NIC_UNKNOWN_PEER);
}

static void test_dummy(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame f, got, must;
	struct esc_address src, dst;
	struct esc_nic_local home;

	frame_build(&f, &plan);
	addresses_of(&f, &src, &dst);
	set_receiver(&f, true);
	bpf_map_lookup_elem(map_fd(nic_local), &dst, &home);
	home.flags |= ESC_NIC_DUMMY;
	home.deliver_ifindex = SECOND_IFINDEX;
	bpf_map_update_elem(map_fd(nic_local), &dst, &home, BPF_ANY);
	set_word(ESC_NIC_HAS_DUMMY, 0, -FRESH);
	must = f;
	memcpy(must.data, deliver_mac, 6);
	set_control(ESC_CONTROL_OFF);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && same(&got, &must),
	       "a dummy device is given its packets, without a daemon and with the kill switch");
	set_ends(&src, &dst, true, ESC_NIC_DUMMY, 9000);
	tap_ok(run(dummy_fd, &f, &got) == REDIRECT, "and what it sends goes to its NIC");
	set_control(0);
	set_word(ESC_NIC_ON | ESC_NIC_HAS_DUMMY, 1, FRESH);
}

/* Of the receiver's entry in `qps`, on port 2. */
static uint64_t counted(const struct frame *f, uint32_t qpn)
{
	struct esc_qp_key key = {.dest_qpn = qpn, .direction = ESC_DIRECTION_RX, .port = 2};
	struct esc_qp qp = {};

	addresses_of(f, &key.src, &key.dst);
	bpf_map_lookup_elem(map_fd(qps), &key, &qp);
	return qp.packets;
}

/* What native XDP saw in UDP only is counted as its NIC's; what others will see is left to them. */
static void test_counting(void)
{
	static const struct {
		const char *name;
		uint8_t xdp_mode;
		bool dummy;
		uint64_t packets;
	} cases[] = {
		{"native XDP: counted", ESC_XDP_NATIVE, false, 1},
		{"generic XDP, which sees it again: not counted twice", ESC_XDP_SKB, false, 0},
		{"no XDP, tc ingress sees it again: not counted twice", ESC_XDP_NONE, false, 0},
		{"generic XDP, for a dummy device: counted", ESC_XDP_SKB, true, 1},
	};
	struct frame inner, f, got;
	struct esc_address src, dst;
	struct esc_nic_local home;
	uint32_t slot = 2;

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct frame_plan plan = {
			.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3, .qpn = 0x100 + i};
		struct esc_port port = {
			.name = "eth1", .ifindex = IFINDEX, .xdp_mode = cases[i].xdp_mode};

		bpf_map_update_elem(map_fd(ports), &slot, &port, BPF_ANY);
		frame_build(&inner, &plan);
		set_receiver(&inner, true);
		addresses_of(&inner, &src, &dst);
		bpf_map_lookup_elem(map_fd(nic_local), &dst, &home);
		home.deliver_ifindex = cases[i].dummy ? SECOND_IFINDEX : IFINDEX;
		bpf_map_update_elem(map_fd(nic_local), &dst, &home, BPF_ANY);
		f = inner;
		wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
		run(in_fd, &f, &got);
		tap_ok(counted(&inner, 0x100 + i) == cases[i].packets, "in: %s", cases[i].name);
	}
	bpf_map_update_elem(map_fd(ports), &slot, &(struct esc_port){}, BPF_ANY);
}

static uint32_t changes(void)
{
	struct esc_nic_control word = {};
	uint32_t zero = 0;

	bpf_map_lookup_elem(map_fd(nic_control), &zero, &word);
	return word.changes;
}

/* The watch is told once, when a peer's NIC is newly dead. */
static void test_changes(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame f, got;
	uint32_t before;

	frame_build(&f, &plan);
	set_receiver(&f, true);
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	before = changes();
	run(in_fd, &f, &got);
	run(in_fd, &f, &got);
	tap_ok(changes() == before + 1, "a peer's word that its NIC is dead is a change, once");
}

int main(int argc, char **argv)
{
	uint64_t seed =
		argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) * 2654435761u | 1;

	printf("# seed %llu\n", (unsigned long long)seed);
	if (!nic_world_open())
		return tap_bail("the programs of NIC failover load");
	set_word(ESC_NIC_ON, 1, FRESH);
	test_captures();
	test_random(seed);
	for (size_t i = 0; i < sizeof(way_cases) / sizeof(way_cases[0]); i++) {
		run_way(&way_cases[i], true);
		run_way(&way_cases[i], false);
	}
	test_left_alone();
	test_plain();
	test_refused();
	test_cut();
	test_learning();
	test_probes();
	test_dummy();
	test_counting();
	test_changes();
	nic_programs__destroy(kernel);
	return tap_end();
}
