// SPDX-License-Identifier: BSD-2-Clause
/*
 * NIC failover: which packets are kept for being retransmitted, to the byte, and that they pass
 * unchanged; the daemon's read of a carrier.
 */
#define TAP_PLAN 38

#include "nic_world.h"

/* True: the map has exactly this packet under its key. */
static bool keeps(int fd, const struct frame *f, uint32_t qpn)
{
	uint32_t total = frame_is_ipv6(f) ? 40 + frame_get16(f, 18) : frame_get16(f, 16);
	struct esc_nic_retained_key key = {.qpn = htonl(qpn)};
	struct esc_nic_request value = {};

	addresses_of(f, &key.src, &key.dst);
	return !bpf_map_lookup_elem(fd, &key, &value) &&
	       value.retained.begun == value.retained.ended && value.retained.bytes == total &&
	       value.retained.sent_ktime_ns && !memcmp(value.packet, f->data + 14, total);
}

static bool keeps_none(void)
{
	struct esc_nic_retained_key key;

	return bpf_map_get_next_key(map_fd(nic_acks), NULL, &key) &&
	       bpf_map_get_next_key(map_fd(nic_requests), NULL, &key);
}

static void forget(void)
{
	clear_map(map_fd(nic_acks), sizeof(struct esc_nic_retained_key));
	clear_map(map_fd(nic_requests), sizeof(struct esc_nic_retained_key));
}

static const struct keep_case {
	const char *name;
	uint8_t opcode, syndrome;
	bool asks; /* for an acknowledgement */
	bool ack, request;
} keep_cases[] = {
	{"an acknowledgement", 0x11, 0x1f, false, true, false},
	{"a NAK of a missing packet", 0x11, 0x60, false, true, false},
	{"a NAK that ends a queue pair", 0x11, 0x62, false, false, false},
	{"a NAK that requests a pause", 0x11, 0x2a, false, false, false},
	{"the end of a WRITE, which requests an ACK", 0x08, 0, true, false, true},
	{"a whole SEND, which requests an ACK", 0x04, 0, true, false, true},
	{"the middle of a WRITE, which does not", 0x07, 0, false, false, false},
	{"a READ request", 0x0c, 0, true, false, false},
	{"an atomic request", 0x13, 0, true, false, false},
	{"an atomic reply", 0x12, 0x1f, false, false, false},
	{"a whole SEND of UC", 0x24, 0, true, false, false},
	{"a whole SEND of UD", 0x64, 0, true, false, false},
	{"a probe of the mesh", ESC_PROBE_OPCODE_PATH_REQUEST, 0, true, false, false},
};

static void keep_frame(const struct keep_case *c, bool four, uint32_t payload, struct frame *f)
{
	struct frame_plan plan = {
		.ip = four ? 4 : 6,
		.opcode = c->opcode,
		.qpn = 0x1234,
		.psn = 77 | (c->asks ? 0x80000000u : 0),
		.payload = payload,
		.extension = c->opcode == 0x11 ? 4 : 16,
		.source_host = 3,
	};

	frame_build(f, &plan);
	if (c->opcode == 0x11 || c->opcode == 0x12)
		f->data[frame_udp_offset(f) + 8 + 12] = c->syndrome;
	if (c->asks)
		f->data[frame_udp_offset(f) + 8 + 8] |= 0x80;
}

static void run_keep(const struct keep_case *c, bool four)
{
	struct esc_address src, dst;
	struct frame f, got;
	bool requested = c->ack || c->request;
	int verdict;

	keep_frame(c, four, c->opcode == 0x11 ? 0 : 1024, &f);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, four, 0, 9000);
	forget();
	verdict = run(out_fd, &f, &got);
	tap_ok(verdict == NEXT && same(&f, &got) && keeps(map_fd(nic_acks), &f, 0x1234) == c->ack &&
		       keeps(map_fd(nic_requests), &f, 0x1234) == c->request &&
		       keeps_none() == !requested,
	       "IPv%d, %s: goes unchanged, and is %s", four ? 4 : 6, c->name,
	       requested ? "kept" : "not kept");
}

/* The newest is kept, in whatever length; and nothing where nothing is to be. */
static void test_keep_more(void)
{
	const struct keep_case *write = &keep_cases[4];
	struct esc_address src, dst;
	struct frame f, got;

	keep_frame(write, true, 3000, &f); /* a test run takes no more than a page */
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, true, 0, 9000);
	forget();
	run(out_fd, &f, &got);
	tap_ok(keeps(map_fd(nic_requests), &f, 0x1234), "3,000 bytes of payload are kept");
	keep_frame(write, true, 12, &f);
	f.data[frame_udp_offset(&f) + 8 + 11]++; /* PSN */
	run(out_fd, &f, &got);
	tap_ok(keeps(map_fd(nic_requests), &f, 0x1234), "and the next, shorter one in its place");
	keep_frame(write, true, 1024, &f);
	clear_map(map_fd(nic_local), 16);
	forget();
	run(out_fd, &f, &got);
	tap_ok(keeps_none(), "an address that is not protected: nothing is kept");
	set_ends(&src, &dst, true, 0, 9000);
	set_word(ESC_NIC_ON, 0, FRESH);
	run(out_fd, &f, &got);
	tap_ok(keeps_none(), "not enabled: nothing is kept");
	set_word(ESC_NIC_ON | ESC_NIC_RETAIN, 0, FRESH);
	forget();
}

/* What a READ response covers is not sent again. */
static void test_keep_ack(void)
{
	static const uint8_t responses[] = {0x0d, 0x10};
	const struct keep_case *ack = &keep_cases[0];

	for (size_t i = 0; i < sizeof(responses); i++) {
		const struct keep_case read = {"", responses[i], 0, false, false, false};
		struct esc_address src, dst;
		struct frame f, response, got;
		bool good;

		keep_frame(ack, true, 0, &f);
		keep_frame(&read, true, 1024, &response);
		addresses_of(&f, &src, &dst);
		set_ends(&src, &dst, true, 0, 9000);
		forget();
		run(out_fd, &f, &got);
		good = keeps(map_fd(nic_acks), &f, 0x1234);
		run(out_fd, &response, &got);
		good = good && !keeps(map_fd(nic_acks), &f, 0x1234);
		run(out_fd, &f, &got);
		tap_ok(good && keeps(map_fd(nic_acks), &f, 0x1234),
		       "an acknowledgement is forgotten when a READ response %02x begins, and the "
		       "next is kept",
		       responses[i]);
	}
	forget();
}

static uint32_t kept_requests(void)
{
	struct esc_nic_retained_key key, *before = NULL;
	uint32_t count = 0;

	for (; !bpf_map_get_next_key(map_fd(nic_requests), before, &key); before = &key)
		count++;
	return count;
}

/* Sends @f as queue pair @qpn's; true: it left unchanged. */
static bool send_as(struct frame *f, uint16_t qpn)
{
	struct frame got;

	frame_put16(f, frame_udp_offset(f) + 8 + 6, qpn);
	return run(out_fd, f, &got) == NEXT && same(f, &got);
}

/*
 * A full map: packets of every queue pair leave unchanged, those of new ones are not kept, and
 * those that have an entry are still replaced by their newest packet.
 */
static void test_full_map(void)
{
	const uint32_t more = 10, last = ESC_NIC_REQUESTS_MAX + more - 1;
	struct esc_address src, dst;
	uint32_t unchanged = 0;
	struct frame f;

	keep_frame(&keep_cases[4], true, 1024, &f);
	addresses_of(&f, &src, &dst);
	set_ends(&src, &dst, true, 0, 9000);
	forget();
	for (uint32_t qpn = 0; qpn <= last; qpn++)
		unchanged += send_as(&f, qpn);
	tap_ok(unchanged == ESC_NIC_REQUESTS_MAX + more,
	       "a full map: packets leave unchanged (%u of %u)", unchanged,
	       ESC_NIC_REQUESTS_MAX + more);
	tap_ok(kept_requests() == ESC_NIC_REQUESTS_MAX && !keeps(map_fd(nic_requests), &f, last),
	       "a full map: %u queue pairs have an entry, the last ones none (%u)",
	       ESC_NIC_REQUESTS_MAX, kept_requests());
	f.data[frame_udp_offset(&f) + 8 + 11]++; /* PSN */
	send_as(&f, 0);
	tap_ok(keeps(map_fd(nic_requests), &f, 0),
	       "a full map: the newest packet of a queue pair with an entry replaces the old one");
	forget();
	send_as(&f, last);
	tap_ok(kept_requests() == 1 && keeps(map_fd(nic_requests), &f, last),
	       "when there is room again, a queue pair that found none is kept");
	forget();
}

static void test_poll(void)
{
	struct __sk_buff context = {.ifindex = IFINDEX};
	char frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = frame, .data_size_in = sizeof(frame),
		    .ctx_in = &context, .ctx_size_in = sizeof(context), .repeat = 1);
	int fd = bpf_program__fd(kernel->progs.esc_nic_carrier);

	tap_ok(!bpf_prog_test_run_opts(fd, &o) && !o.retval,
	       "a read of a device that is up reports it");
	context.ifindex = 999999;
	tap_ok(bpf_prog_test_run_opts(fd, &o) == -ENODEV, "and at none, that there is none");
}

static void test_keep(void)
{
	set_word(ESC_NIC_ON | ESC_NIC_RETAIN, 0, FRESH);
	for (size_t i = 0; i < sizeof(keep_cases) / sizeof(keep_cases[0]); i++) {
		run_keep(&keep_cases[i], true);
		run_keep(&keep_cases[i], false);
	}
	test_keep_more();
	test_keep_ack();
	test_full_map();
}

int main(void)
{
	if (!nic_world_open())
		return tap_bail("the programs of NIC failover load");
	test_poll();
	test_keep();
	nic_programs__destroy(kernel);
	return tap_end();
}
