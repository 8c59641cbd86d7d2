// SPDX-License-Identifier: BSD-2-Clause
/*
 * NIC failover, packet by packet: every packet of the captures and random ones go into UDP and come
 * out as they were; which of the four routes is taken; and all that must be left alone, refused by
 * name, or not accepted.
 * `test_nic SEED` repeats a run.
 */
#define TAP_PLAN 81

#include <glob.h>

#include "nic_packets.h"

#define RANDOM_PACKETS 4000
#define TAKEN 1500 /* longest IP packet that is tried */

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
	if (run(out_fd, f, &got) == REDIRECT) {
		put_number(&must, number_of(&got), &pair_key);
		tally->wrapped += same(&got, &must);
	}
	set_receiver(f, four);
	must = *f;
	memcpy(must.data, deliver_mac, 6);
	if (run(in_fd, &got, &back) == REDIRECT && same(&back, &must) && !peer_dead_ns(&src))
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
	       "captures: %u come out as they were, and report nothing of their sender's NIC",
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
	{"the peer's NIC is dead", 0, true, false, -1, 2, 2, PORT, false},
	{"crossed: our first, the peer's second", ESC_NIC_FIRST_DOWN, false, true, -1, 2, 1, PORT,
	 false},
	{"crossed: our second, the peer's first", ESC_NIC_SECOND_DOWN, true, false, -1, 1, 2, PORT,
	 false},
	{"both firsts", ESC_NIC_FIRST_DOWN, true, false, -1, 2, 2, PORT, false},
	{"both of ours", ESC_NIC_FIRST_DOWN | ESC_NIC_SECOND_DOWN, false, false, -1, 0, 0, 0, true},
	{"both of the peer's", 0, true, true, -1, 0, 0, 0, false},
	{"probes: direct is silent", 0, false, false, 0xe, 2, 2, PORT, false},
	{"probes: only first to second replies", 0, false, false, 0x8, 1, 2, PORT, false},
	{"probes: nothing replies", 0, false, false, 0x0, 0, 0, 0, false},
	{"probes report a route that the carrier contradicts", ESC_NIC_FIRST_DOWN, false, false,
	 0x9, 2, 2, PORT, false},
	{"probes: of the routes left one replies", ESC_NIC_FIRST_DOWN, false, false, 0x5, 2, 1,
	 PORT, false},
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
	if (c->from && verdict == REDIRECT)
		put_number(&must, number_of(&got), &pair_key);
	tap_ok(same(&got, &must) && verdict == (c->from || c->held ? REDIRECT : NEXT),
	       "IPv%d, %s: %s", four ? 4 : 6, c->name,
	       c->from	 ? "the route is right"
	       : c->held ? "held"
			 : "left unchanged");
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
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "2 s after the daemon: unchanged");
	set_word(ESC_NIC_ON, 1, FRESH);
	set_control(ESC_CONTROL_OFF);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "the kill switch: unchanged");
	set_control(0);
	set_word(0, 1, FRESH);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "not configured: unchanged");
	set_word(ESC_NIC_ON, 0, FRESH);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "nothing to attend to: unchanged");
	set_word(ESC_NIC_ON, 1, FRESH);
	before = reason_count(ESC_REASON_NIC_MTU);
	set_ends(&src, &dst, true, 0, 1100);
	set_peer(&dst, "10.8.0.1", "10.8.0.2", HOME_ID, now_ns() + 1000000000);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got) &&
		       reason_count(ESC_REASON_NIC_MTU) == before + 1,
	       "too long for the outer headers: unchanged, and counted as nic_mtu");
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 1100);
	tap_ok(run(out_fd, &f, &got) == REDIRECT && same(&f, &got) &&
		       reason_count(ESC_REASON_NIC_MTU) == before + 2,
	       "the same on a dead NIC: held, and counted as nic_mtu");
	set_ends(&src, &dst, true, ESC_NIC_FIRST_DOWN, 9000);
	plan.opcode = ESC_PROBE_OPCODE_PATH_REQUEST;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "a probe of the mesh: unchanged");
	plan.opcode = 4;
	plan.dport = 4790;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "another UDP port: unchanged");
	plan.dport = 0;
	plan.source_host = 9;
	frame_build(&f, &plan);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got), "an unknown address: unchanged");
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
	       "mode plain: by the other NIC, unchanged");
	set_ends(&src, &dst, true, ESC_NIC_PLAIN, 9000);
	tap_ok(run(out_fd, &f, &got) == NEXT && same(&f, &got),
	       "mode plain, nothing wrong: left alone");
}

/* The newest number of a peer's address, of more than three seconds ago. */
static void set_forgotten(const char *text, uint32_t number)
{
	struct esc_address address = address_of(text);
	struct esc_nic_peer peer = {};

	bpf_map_lookup_elem(map_fd(nic_peers), &address, &peer);
	peer.number = number;
	peer.number_ktime_ns = now_ns() - ESC_NIC_FORGET_NS - 1;
	bpf_map_update_elem(map_fd(nic_peers), &address, &peer, BPF_ANY);
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
	refuse("from an unknown sender: passed on", &f, NEXT, ESC_REASON_NIC_UNKNOWN_PEER);
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
	frame_put16(&f, 14 + 44 + 18, 0x0b0b); /* inner destination */
	put_token(&f, &pair_key);
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
	frame_put16(&f, 14 + 44 + 2, frame_get16(&f, 14 + 44 + 2) - 4);
	refuse("shorter inside than outside: ends here", &f, SHOT, ESC_REASON_NIC_INNER);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	f.data[14 + 28] = 1;
	refuse("of another version: ends here", &f, SHOT, ESC_REASON_NIC_PROBE);
}

/* What a forger, and one that repeats what it has seen, can send. */
static void test_forged(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	static const struct probe_key other_key = {{4, 4, 4}};
	struct frame inner, good, f, got;
	struct esc_address a;
	uint32_t taken = 0;

	frame_build(&inner, &plan);
	set_receiver(&inner, true);
	good = inner;
	wrap(&good, "10.9.0.2", "10.8.0.2", PORT);
	f = good;
	put_token(&f, NULL);
	refuse("without a token: ends here", &f, SHOT, ESC_REASON_NIC_BAD_TAG);
	put_token(&f, &other_key);
	refuse("with another key's: ends here", &f, SHOT, ESC_REASON_NIC_BAD_TAG);
	f = good;
	f.data[14 + 28 + 1] = ESC_NIC_KEY;
	put_token(&f, &pair_key);
	refuse("with a key slot that is not there: ends here", &f, SHOT, ESC_REASON_NIC_BAD_TAG);
	for (uint32_t i = 0; i < 96;
	     i++) { /* all that the token covers but its version, and itself */
		static const uint32_t from[] = {14 + 12, 14 + 28 + 4, 14 + 44 + 12, 14 + 44 + 28,
						14 + 28 + 8};
		static const uint32_t bytes[] = {4, 4, 8, 12, 8};
		uint32_t at = i, part = 0;

		while (part < 5 && at >= bytes[part])
			at -= bytes[part++];
		if (part == 5)
			break;
		f = good;
		f.data[from[part] + at] ^= 0x10;
		taken += run(in_fd, &f, &got) == REDIRECT;
	}
	tap_ok(!taken, "in: a byte of what the token covers is another: never taken");
	tap_ok(run(in_fd, &good, &got) == REDIRECT, "in: the packet itself is taken");
	f = good;
	put_number(&f, number_now() - 1, &pair_key);
	tap_ok(run(in_fd, &f, &got) == REDIRECT, "in: with the token of the second before");
	put_number(&f, number_now() - 3, &pair_key);
	refuse("with an older one: ends here", &f, SHOT, ESC_REASON_NIC_STALE);
	put_number(&f, number_now() + 2, &pair_key);
	tap_ok(run(in_fd, &f, &got) == REDIRECT, "in: with a newer one");
	put_number(&f, number_now(), &pair_key);
	refuse("and then what was sent before: ends here", &f, SHOT, ESC_REASON_NIC_STALE);
	set_receiver(&inner, true);
	set_forgotten("10.9.0.2", number_now() + 1000);
	tap_ok(run(in_fd, &good, &got) == REDIRECT,
	       "in: of a sender whose clock is another since it was silent");
	set_receiver(&inner, true);
	a = address_of("10.8.7.2");
	set_home(&a, "0.0.0.0", "0.0.0.0", 0, 9000);
	f = inner;
	wrap(&f, "10.9.0.2", "10.8.7.2", PORT);
	refuse("to a NIC of ours that is not the address's: ends here", &f, SHOT,
	       ESC_REASON_NIC_OTHER_PAIR);
	a = address_of("10.9.7.2");
	set_peer(&a, NULL, NULL, HOME_ID, 0);
	f = inner;
	wrap(&f, "10.9.7.2", "10.8.0.2", PORT);
	refuse("from a NIC of its host that is not the address's: ends here", &f, SHOT,
	       ESC_REASON_NIC_OTHER_PAIR);
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
	for (cut = 14; cut < 14 + 44 + 40; cut++) {
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
	wrap(&f, "10.9.0.2", "10.8.0.2", PORT);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && !peer_dead_ns(&src),
	       "in: encapsulated data reports nothing of its sender's NIC");
	f.data[15] |= 3;
	tap_ok(run(in_fd, &f, &got) == REDIRECT && (got.data[15] & 3) == 3,
	       "in: the CE mark of the outer header is copied inside");
}

/* A report that a NIC is dead, of a forger, and of one that repeats what it has seen. */
static void test_forged_reports(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	uint64_t number_ns = now_ns() + NUMBER_OFFSET_NS;
	struct frame inner, f, got;
	struct esc_address src, dst;

	frame_build(&inner, &plan);
	addresses_of(&inner, &src, &dst);
	set_receiver(&inner, true);
	build_probe_at(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3", number_ns, NULL);
	refuse("a report without a tag: ends here", &f, SHOT, ESC_REASON_NIC_BAD_TAG);
	build_probe_at(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3", number_ns,
		       &pair_key);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && peer_dead_ns(&src),
	       "in: a report with one is taken");
	usleep(2000);
	dst = src;
	{
		uint64_t before = peer_dead_ns(&src);

		tap_ok(run(in_fd, &f, &got) == REDIRECT && peer_dead_ns(&src) == before,
		       "in: the same again reports nothing");
		build_probe_at(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3",
			       number_ns + 1, &pair_key);
		tap_ok(run(in_fd, &f, &got) == REDIRECT && peer_dead_ns(&src) > before,
		       "in: the next one does");
	}
	set_receiver(&inner, true);
	build_probe_at(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL, number_ns, &pair_key);
	run(in_fd, &f, &got);
	build_probe_at(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3",
		       number_ns - 5000000000ull, &pair_key);
	refuse("a report of seconds ago: ends here", &f, SHOT, ESC_REASON_NIC_STALE);
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
	frame_put16(&must, 34, PORT + 1);
	frame_put16(&must, 36, 40000);
	tap_ok(run(in_fd, &f, &got) == REDIRECT && same(&got, &must) && !peer_dead_ns(&src),
	       "a probe goes back as long as it was, and only its kind is another");
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3");
	tap_ok(run(in_fd, &f, &got) == REDIRECT && peer_dead_ns(&src) > now_ns(),
	       "its report about its own NIC is accepted");
	set_peer(&src, "10.9.0.1", "10.9.0.2", HOME_ID, 0);
	build_probe(&f, "10.6.0.6", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3");
	tap_ok(run(in_fd, &f, &got) == REDIRECT && !peer_dead_ns(&src),
	       "and about another member's it is not");
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REPLY, NULL);
	refuse("a reply to the port of probes: passed on, not replied", &f, NEXT,
	       ESC_REASON_NIC_PROBE);
	build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	f.bytes -= 4;
	refuse("a probe that is cut: passed on", &f, NEXT, ESC_REASON_NIC_PROBE);
	build_probe(&f, "10.7.7.7", "10.8.0.2", ESC_NIC_REQUEST, NULL);
	refuse("a probe of an unknown sender: passed on, not replied to", &f, NEXT,
	       ESC_REASON_NIC_UNKNOWN_PEER);
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

/* What native XDP saw in UDP only is counted as its NIC's; the rest is counted where it is
 * received. */
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

/* The watch is notified once, when a peer's NIC is newly dead. */
static void test_changes(void)
{
	struct frame_plan plan = {.ip = 4, .opcode = 0x04, .payload = 64, .source_host = 3};
	struct frame f, got;
	uint32_t before;

	frame_build(&f, &plan);
	set_receiver(&f, true);
	before = changes();
	for (int i = 0; i < 2; i++) {
		build_probe(&f, "10.9.0.2", "10.8.0.2", ESC_NIC_REQUEST, "10.1.0.3");
		run(in_fd, &f, &got);
	}
	tap_ok(changes() == before + 1, "a peer's report that its NIC is dead is a change, once");
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
	test_forged();
	test_cut();
	test_learning();
	test_probes();
	test_forged_reports();
	test_dummy();
	test_counting();
	test_changes();
	nic_programs__destroy(kernel);
	return tap_end();
}
